/* cuBLASLt: descriptors, the choice of an algorithm, the product.
 *
 * The library's matrices are columns after each other: what it sees are our transposes, and it is
 * asked for D' = B' A'. Descriptors are values on the stack. */
#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "base/memory.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_lt.h"
#include "cuda/cuda_team.h"
}

static_assert(sizeof(cublasLtMatmulAlgo_t) == NP_ALGORITHM_BYTES, "algorithms are kept whole");

struct descriptors {
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t a, b, d;
};

struct choosing {
    cublasLtHandle_t handle;
    struct descriptors *of;
};

static enum np_status fail(struct np_error *err, const char *what, const struct np_product *p,
                           cublasStatus_t error)
{
    return np_fail(err, NP_EIO, "cuBLASLt %s a product of %zu x %zu, %zu deep: %s", what, p->m,
                   p->n, p->k, cublasLtGetStatusString(error));
}

enum np_status np_cuda_lt_new(struct np_cuda_lt **out, struct np_products *products,
                              struct np_error *err)
{
    struct np_cuda_lt *lt = nullptr;
    cublasLtHandle_t handle;
    enum np_status status = np_zalloc(&lt, 1, sizeof *lt, err);
    if (status != NP_OK)
        return status;
    cublasStatus_t error = cublasLtCreate(&handle);
    if (error != CUBLAS_STATUS_SUCCESS) {
        free(lt);
        return np_fail(err, NP_EIO, "cuBLASLt cannot begin: %s", cublasLtGetStatusString(error));
    }
    lt->handle = handle;
    lt->products = products;
    *out = lt;
    return NP_OK;
}

void np_cuda_lt_free(struct np_cuda_lt *lt)
{
    if (!lt)
        return;
    cublasLtDestroy(static_cast<cublasLtHandle_t>(lt->handle));
    free(lt);
}

static cublasStatus_t layout(cublasLtMatrixLayoutOpaque_t *out, cudaDataType_t type, size_t rows,
                             size_t cols)
{
    return cublasLtMatrixLayoutInit(out, type, cols, rows, (int64_t)np_product_ld(cols));
}

static cublasStatus_t describe(struct descriptors *out, const struct np_product *p,
                               enum np_operand operand)
{
    bool half = operand == NP_OPERAND_BF16;
    cublasOperation_t a_op = p->a_trans ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t b_op = p->b_trans ? CUBLAS_OP_T : CUBLAS_OP_N;
    cudaDataType_t type = half ? CUDA_R_16BF : CUDA_R_32F;
    cublasLtMatmulDesc_t product = &out->product;
    cublasStatus_t error = cublasLtMatmulDescInit(
        product, half ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F);
    if (error == CUBLAS_STATUS_SUCCESS)
        error = cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &b_op,
                                               sizeof b_op);
    if (error == CUBLAS_STATUS_SUCCESS)
        error = cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSB, &a_op,
                                               sizeof a_op);
    if (error == CUBLAS_STATUS_SUCCESS)
        error = layout(&out->a, type, p->a_trans ? p->k : p->m, p->a_trans ? p->m : p->k);
    if (error == CUBLAS_STATUS_SUCCESS)
        error = layout(&out->b, type, p->b_trans ? p->n : p->k, p->b_trans ? p->k : p->n);
    if (error == CUBLAS_STATUS_SUCCESS)
        error = layout(&out->d, CUDA_R_32F, p->m, p->n);
    return error;
}

static cublasStatus_t prefer(cublasLtMatmulPreferenceOpaque_t *out)
{
    size_t bytes = NP_CUDA_LT_WORKSPACE;
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* or none */
    cublasStatus_t error = cublasLtMatmulPreferenceInit(out);
    if (error == CUBLAS_STATUS_SUCCESS)
        error = cublasLtMatmulPreferenceSetAttribute(out, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                     &bytes, sizeof bytes);
    if (error == CUBLAS_STATUS_SUCCESS)
        error = cublasLtMatmulPreferenceSetAttribute(
            out, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions);
    return error; /* pointers are aligned as it takes for granted */
}

/* The library's own advice, the first of it: it looks at sizes and the GPU, and tries nothing. */
static enum np_status choose(void *context, struct np_algorithm *out, const struct np_product *p,
                             struct np_error *err)
{
    const struct choosing *c = static_cast<const struct choosing *>(context);
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t found = {};
    int count = 0;
    cublasStatus_t error = prefer(&preference);
    if (error == CUBLAS_STATUS_SUCCESS)
        error =
            cublasLtMatmulAlgoGetHeuristic(c->handle, &c->of->product, &c->of->b, &c->of->a,
                                           &c->of->d, &c->of->d, &preference, 1, &found, &count);
    if (error == CUBLAS_STATUS_SUCCESS && count < 1)
        error = CUBLAS_STATUS_NOT_SUPPORTED;
    if (error != CUBLAS_STATUS_SUCCESS)
        return fail(err, "has no algorithm for", p, error);
    memcpy(out->bytes, &found.algo, sizeof out->bytes);
    return NP_OK;
}

void np_cuda_lt_multiply(struct np_cuda_lt *lt, struct CUstream_st *stream, float *d, const void *a,
                         const void *b, const struct np_product *product, void *workspace)
{
    const float one = 1, zero = 0;
    struct descriptors of;
    struct choosing choosing = {static_cast<cublasLtHandle_t>(lt->handle), &of};
    struct np_algorithm algorithm;
    cublasLtMatmulAlgo_t algo;
    if (lt->failure.code != NP_OK)
        return;
    cublasStatus_t error = describe(&of, product, lt->products->numerics->operand);
    if (error != CUBLAS_STATUS_SUCCESS) {
        fail(&lt->failure, "cannot describe", product, error);
        return;
    }
    if (np_products_algorithm(lt->products, &algorithm, product, choose, &choosing, &lt->failure) !=
        NP_OK)
        return;
    memcpy(&algo, algorithm.bytes, sizeof algo);
    error = cublasLtMatmul(choosing.handle, &of.product, &one, b, &of.b, a, &of.a, &zero, d, &of.d,
                           d, &of.d, &algo, workspace, NP_CUDA_LT_WORKSPACE, stream);
    if (error != CUBLAS_STATUS_SUCCESS)
        fail(&lt->failure, "cannot compute", product, error);
}

void np_cuda_lt_version(char *out, size_t bytes)
{
    unsigned version = (unsigned)cublasLtGetVersion();
    snprintf(out, bytes, "%u.%u.%u", version / 10000, version % 10000 / 100, version % 100);
}

enum np_status np_cuda_lt_name(struct np_products *products, struct np_error *)
{
    char version[sizeof products->library - sizeof "cuBLASLt "];
    np_cuda_lt_version(version, sizeof version);
    snprintf(products->library, sizeof products->library, "cuBLASLt %s", version);
    return NP_OK;
}
