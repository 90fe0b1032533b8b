/* Products by cuBLASLt, as num/products.h has them; cuda_cublaslt.cu, or, in a build without the
 * library, cublaslt_absent.c. Private to cuda/.
 *
 * Deterministic: an algorithm may cut an inner index only to add the parts in a step of its own,
 * never in the order in which blocks end.
 *
 * Errors    what fails in a product is kept in `failure`, the first of it, and no product is
 *           computed any more; code NP_OK: nothing has.
 * Threads   one at a time.
 */
#ifndef NP_CUDA_CUDA_LT_H
#define NP_CUDA_CUDA_LT_H

#include "num/products.h"

struct CUstream_st;

struct np_cuda_lt {
    void *handle;
    struct np_products *products;
    struct np_error failure;
};

/* With the thread's GPU. */
enum np_status np_cuda_lt_new(struct np_cuda_lt **out, struct np_products *products,
                              struct np_error *err);
void np_cuda_lt_free(struct np_cuda_lt *lt);

/* d = op(a) op(b), all of them packed, a and b of the numerics' type. */
void np_cuda_lt_multiply(struct np_cuda_lt *lt, struct CUstream_st *stream, float *d, const void *a,
                         const void *b, const struct np_product *product, void *workspace);

/* The library's name and version into products->library. NP_EINPUT: there is none. */
enum np_status np_cuda_lt_name(struct np_products *products, struct np_error *err);

#endif
