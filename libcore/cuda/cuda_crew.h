/* Crews of GPUs and their stamps: entries of the table in num/device.h, which has their contracts.
 * Private to cuda/. */
#ifndef NP_CUDA_CUDA_CREW_H
#define NP_CUDA_CUDA_CREW_H

#include "num/device.h"

enum np_status np_cuda_crew_new(struct np_crew **out, const struct np_device *device,
                                const struct np_crew_config *config, struct np_error *err);
void np_cuda_crew_free(struct np_crew *base);
void np_cuda_crew_run(struct np_crew *base, void (*function)(struct np_team *team, void *argument),
                      void *argument);
void *np_cuda_crew_fill(struct np_crew *base, void *, size_t bytes);
void np_cuda_crew_send(struct np_crew *base, void *to, const void *from, size_t bytes);
void *np_cuda_crew_reply(struct np_crew *base, void *to, size_t bytes);
void np_cuda_crew_watch(struct np_crew *base, bool *finite);
uint64_t np_cuda_crew_mark(struct np_crew *base, struct np_stamp *stamp);
bool np_cuda_crew_reached(struct np_crew *base, uint64_t mark);
enum np_status np_cuda_crew_await(struct np_crew *base, uint64_t mark, struct np_error *err);
enum np_status np_cuda_stamp_new(struct np_stamp **out, struct np_crew *base, struct np_error *err);
void np_cuda_stamp_free(struct np_stamp *stamp, struct np_crew *base);
void np_cuda_crew_stamp(struct np_crew *base, struct np_stamp *stamp);
void np_cuda_crew_after(struct np_crew *base, struct np_stamp *stamp);
enum np_status np_cuda_stamp_await(struct np_crew *base, struct np_stamp *stamp,
                                   struct np_error *err);

#endif
