/* What a build without cuBLASLt answers: linked where nothing before the library has these names.
 */
#include <stdio.h>

#include "cuda/cuda_device.h"
#include "cuda/cuda_lt.h"

static enum np_status absent(struct np_error *err)
{
    return np_fail(err, NP_EINPUT,
                   "this build has no cuBLASLt ('make CUDA=1 CUBLASLT=1' makes one that has)");
}

enum np_status np_cuda_lt_new(struct np_cuda_lt **out, struct np_products *products,
                              struct np_error *err)
{
    (void)out, (void)products;
    return absent(err);
}

void np_cuda_lt_free(struct np_cuda_lt *lt)
{
    (void)lt;
}

void np_cuda_lt_multiply(struct np_cuda_lt *lt, struct CUstream_st *stream, float *d, const void *a,
                         const void *b, const struct np_product *product, void *workspace)
{
    (void)stream, (void)d, (void)a, (void)b, (void)product, (void)workspace;
    absent(&lt->failure);
}

enum np_status np_cuda_lt_name(struct np_products *products, struct np_error *err)
{
    (void)products;
    return absent(err);
}

void np_cuda_lt_version(char *out, size_t bytes)
{
    snprintf(out, bytes, "not built");
}
