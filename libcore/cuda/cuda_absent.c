/* What a build without CUDA answers: linked where nothing before the library has these names. */
#include <stdio.h>

#include "cuda/cuda_device.h"

enum np_status np_cuda_open(struct np_device *devices, const int *numbers, int count,
                            struct np_error *err)
{
    (void)devices, (void)numbers, (void)count;
    return np_fail(err, NP_EINPUT, "this build has no CUDA ('make CUDA=1' makes one that has)");
}

void np_cuda_version(char *out, size_t bytes)
{
    snprintf(out, bytes, "not built");
}
