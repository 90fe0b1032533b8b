/* What a build without NCCL answers: linked where nothing before the library has these names. */
#include <stdio.h>

#include "cuda/cuda_device.h"

enum np_status np_cuda_nccl(struct np_link **out, const struct np_device *devices, int count,
                            int deadline_s, struct np_error *err)
{
    (void)out, (void)devices, (void)count, (void)deadline_s;
    return np_fail(err, NP_EINPUT,
                   "this build has no NCCL ('make CUDA=1 NCCL=1' makes one that has)");
}

void np_cuda_nccl_version(char *out, size_t bytes)
{
    snprintf(out, bytes, "not built");
}
