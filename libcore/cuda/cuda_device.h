/* GPUs as devices (num/device.h).
 *
 * A crew is one team on a stream of its own (cuda/cuda_team.h); stages that share a GPU share its
 * time as its hardware sees fit, and its memory. Between GPUs a link carries what is needed.
 *
 * Errors    NP_EINPUT: no driver, no such GPU, one that is too old or that cannot reach another's
 *           memory, or a build without CUDA; NP_EMEM: it has no room; NP_EIO: it has failed.
 */
#ifndef NP_CUDA_CUDA_DEVICE_H
#define NP_CUDA_CUDA_DEVICE_H

#include "num/link.h"

#define NP_CUDA_MOST 64 /* GPUs of one run */

/* The GPUs of these numbers, which differ; devices[count] need no closing. */
enum np_status np_cuda_open(struct np_device *devices, const int *numbers, int count,
                            struct np_error *err);
/* GPUs that this process sees. */
int np_cuda_count(void);
/* The GPUs read and write each other's memory where it lies, from here on: all of them, or those
 * that can. */
enum np_status np_cuda_join(const struct np_device *devices, int count, bool all,
                            struct np_error *err);
/* True if every GPU can: np_cuda_join will not refuse. */
bool np_cuda_reach(const struct np_device *devices, int count);
/* A link that copies from memory to memory, of GPUs that are joined: in the order of the crew's
 * other work. */
enum np_status np_cuda_peers(struct np_link **out, const struct np_device *devices, int count,
                             struct np_error *err);
/* A link by NCCL, of GPUs that need not be joined: a transfer that takes longer fails, and so does
 * NCCL if it takes longer to connect them. NP_EINPUT: a build without NCCL. */
enum np_status np_cuda_nccl(struct np_link **out, const struct np_device *devices, int count,
                            int deadline_s, struct np_error *err);
/* What a GPU is: its name, and the driver; and how much of its memory is free. */
void np_cuda_describe(const struct np_device *device, char *out, size_t bytes, uint64_t *vacant);
/* About what a stage takes of that at most besides what is planned (cuda/cuda_graphs.cuh). */
uint64_t np_cuda_besides(void);
/* The GPUs compute products by cuBLASLt from here on, as products->numerics has it; what they are
 * and the library's version are noted there. NP_EINPUT: a build without cuBLASLt, GPUs that are not
 * what the numerics say, or that differ. */
enum np_status np_cuda_fast(struct np_device *devices, int count, struct np_products *products,
                            struct np_error *err);
/* Versions of runtime and driver, of NCCL and of cuBLASLt, or that there is none. */
void np_cuda_version(char *out, size_t bytes);
void np_cuda_nccl_version(char *out, size_t bytes);
void np_cuda_lt_version(char *out, size_t bytes);

#endif
