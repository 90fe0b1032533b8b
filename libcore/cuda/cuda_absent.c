/* What a build without CUDA answers: linked where nothing before the library has these names. */
#include <stdio.h>

#include "cuda/cuda_device.h"

static enum np_status absent(struct np_error *err)
{
    return np_fail(err, NP_EINPUT, "this build has no CUDA ('make CUDA=1' makes one that has)");
}

enum np_status np_cuda_open(struct np_device *devices, const int *numbers, int count,
                            struct np_error *err)
{
    (void)devices, (void)numbers, (void)count;
    return absent(err);
}

int np_cuda_count(void)
{
    return 0;
}

bool np_cuda_reach(const struct np_device *devices, int count)
{
    (void)devices, (void)count;
    return false;
}

enum np_status np_cuda_join(const struct np_device *devices, int count, bool all,
                            struct np_error *err)
{
    (void)devices, (void)count, (void)all;
    return absent(err);
}

enum np_status np_cuda_peers(struct np_link **out, const struct np_device *devices, int count,
                             struct np_error *err)
{
    (void)out, (void)devices, (void)count;
    return absent(err);
}

enum np_status np_cuda_fast(struct np_device *devices, int count, struct np_products *products,
                            struct np_error *err)
{
    (void)devices, (void)count, (void)products;
    return absent(err);
}

uint64_t np_cuda_besides(void)
{
    return 0;
}

void np_cuda_describe(const struct np_device *device, char *out, size_t bytes, uint64_t *vacant)
{
    (void)device;
    snprintf(out, bytes, "no GPU");
    *vacant = 0;
}

void np_cuda_version(char *out, size_t bytes)
{
    snprintf(out, bytes, "not built");
}
