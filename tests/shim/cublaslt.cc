/* The cuBLASLt of the shim: products as work of streams. */
#include "cublasLt.h"

#include <stdio.h>

#include "inside.h"
#include "races.h"

enum { ALIGNMENT = 256, SCRIBBLED = 4096 };

struct cublasLt {
    int device;
};

/* The library's view: matrices are columns after each other, d = op(a) op(b) is rows x cols. */
struct product {
    struct shim_work work;
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a_layout, b_layout, d_layout;
    const char *a, *b;
    char *workspace;
    float *d;
    uint64_t algorithm;
};

static cublasStatus_t status_of(const char *call, cublasStatus_t failure)
{
    shim_lock();
    bool fails = shim_fails(call);
    shim_unlock();
    return fails ? failure : CUBLAS_STATUS_SUCCESS;
}

static uint64_t number_of(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return strtoull(value ? value : otherwise, nullptr, 10);
}

static uint64_t mix(uint64_t sum, uint64_t with)
{
    sum = (sum ^ with) * 0x9E3779B97F4A7C15u;
    return sum ^ sum >> 29;
}

static uint64_t depth_of(const cublasLtMatmulDescOpaque_t *desc,
                         const cublasLtMatrixLayoutOpaque_t *a)
{
    return desc->a_op == CUBLAS_OP_T ? a->rows : a->cols;
}

static uint64_t shape_of(const cublasLtMatmulDescOpaque_t *desc,
                         const cublasLtMatrixLayoutOpaque_t *a,
                         const cublasLtMatrixLayoutOpaque_t *d)
{
    uint64_t sum = mix(mix(mix(1, d->rows), d->cols), depth_of(desc, a));
    return mix(mix(mix(sum, desc->a_op), desc->b_op), a->type);
}

/* --- descriptors ---------------------------------------------------------------------------- */

size_t cublasLtGetVersion(void)
{
    return number_of("SHIM_LT_VERSION", "120000");
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    static const char *const strings[] = {"success", "not initialized", "invalid value",
                                          "not supported", "execution failed"};
    return strings[status];
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    shim_lock();
    int device = shim_device();
    shim_unlock();
    cublasStatus_t status = status_of(__func__, CUBLAS_STATUS_NOT_INITIALIZED);
    if (status == CUBLAS_STATUS_SUCCESS) {
        *handle = (cublasLtHandle_t)calloc(1, sizeof **handle);
        (*handle)->device = device;
    }
    return status;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t desc, cublasComputeType_t compute,
                                      cudaDataType_t)
{
    *desc = {compute, CUBLAS_OP_N, CUBLAS_OP_N};
    return status_of(__func__, CUBLAS_STATUS_INVALID_VALUE);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    memcpy(attribute == CUBLASLT_MATMUL_DESC_TRANSA ? &desc->a_op : &desc->b_op, value, bytes);
    return status_of(__func__, CUBLAS_STATUS_INVALID_VALUE);
}

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType_t type,
                                        uint64_t rows, uint64_t cols, int64_t ld)
{
    *layout = {type, rows, cols, ld};
    return status_of(__func__, CUBLAS_STATUS_INVALID_VALUE);
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference)
{
    *preference = {0, CUBLASLT_REDUCTION_SCHEME_INPLACE};
    return status_of(__func__, CUBLAS_STATUS_INVALID_VALUE);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes)
{
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        memcpy(&preference->workspace, value, bytes);
    else
        memcpy(&preference->reductions, value, bytes);
    return status_of(__func__, CUBLAS_STATUS_INVALID_VALUE);
}

/* An algorithm says what it is of, and how much workspace it wants. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t *results, int *count)
{
    uint64_t shape = shape_of(desc, a, d);
    if (preference->reductions & CUBLASLT_REDUCTION_SCHEME_INPLACE)
        shim_die("cuBLASLt: blocks may add to the result in any order");
    *results = {};
    results->algo.data[0] = shape;
    results->algo.data[1] = mix(shape, number_of("SHIM_LT_ADVICE", "0"));
    results->algo.data[2] = preference->workspace;
    *count = 1;
    return status_of(__func__, CUBLAS_STATUS_NOT_SUPPORTED);
}

/* --- products ------------------------------------------------------------------------------- */

/* An element that is stored where the operand's type has it; what that drops must be zero. */
static float element(const char *at, const cublasLtMatrixLayoutOpaque_t *layout, bool trans,
                     uint64_t row, uint64_t col)
{
    uint64_t index = (trans ? row * (uint64_t)layout->ld + col : col * (uint64_t)layout->ld + row);
    uint32_t bits = 0;
    uint16_t half;
    float value;
    if (layout->type == CUDA_R_16BF) {
        memcpy(&half, at + index * sizeof half, sizeof half);
        bits = (uint32_t)half << 16;
    } else {
        memcpy(&bits, at + index * sizeof bits, sizeof bits);
        if (bits & 0x1fff && (bits >> 23 & 0xff) != 0xff)
            shim_die("cuBLASLt: an operand is not of TF32");
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float element_of_d(const struct product *p, uint64_t row, uint64_t col)
{
    uint64_t depth = depth_of(&p->desc, &p->a_layout), way = p->algorithm % 5 + p->d_layout.cols;
    uint64_t lanes = 1 + way % 4, from = (p->algorithm / 5 + p->d_layout.rows) % depth;
    float lane[4] = {0, 0, 0, 0}, sum;
    for (uint64_t t = 0; t < depth; t++) {
        uint64_t k = (from + t) % depth;
        lane[t % lanes] += element(p->a, &p->a_layout, p->desc.a_op == CUBLAS_OP_T, row, k) *
                           element(p->b, &p->b_layout, p->desc.b_op == CUBLAS_OP_T, k, col);
    }
    sum = lane[0];
    for (uint64_t l = 1; l < lanes; l++)
        sum += lane[l];
    return sum;
}

static size_t bytes_of(const cublasLtMatrixLayoutOpaque_t *layout)
{
    size_t element = layout->type == CUDA_R_16BF ? 2 : 4;
    return (layout->cols - 1) * (size_t)layout->ld * element + layout->rows * element;
}

static void run(struct shim_work *work)
{
    const struct product *p = reinterpret_cast<const struct product *>(work);
    races_read(p->a, bytes_of(&p->a_layout));
    races_read(p->b, bytes_of(&p->b_layout));
    races_write(p->d, bytes_of(&p->d_layout));
    races_write(p->workspace, SCRIBBLED);
    memset(p->workspace, 0xff, SCRIBBLED);
    for (uint64_t col = 0; col < p->d_layout.cols; col++)
        for (uint64_t row = 0; row < p->d_layout.rows; row++)
            p->d[col * (uint64_t)p->d_layout.ld + row] = element_of_d(p, row, col);
}

static void check(const struct product *p, int device, cudaStream_t stream)
{
    const struct {
        const char *at;
        size_t bytes;
    } pieces[] = {{p->a, bytes_of(&p->a_layout)},
                  {p->b, bytes_of(&p->b_layout)},
                  {reinterpret_cast<const char *>(p->d), bytes_of(&p->d_layout)},
                  {p->workspace, SCRIBBLED}};
    for (int i = 0; i < 4; i++) {
        if ((uintptr_t)pieces[i].at % ALIGNMENT != 0)
            shim_die("cuBLASLt: a pointer is not aligned");
        if (stream &&
            (shim_device_of(pieces[i].at) != device || shim_stream_device(stream) != device))
            shim_die("cuBLASLt: memory or a stream is not of the handle's device");
        for (int j = 0; j < i; j++)
            if (pieces[i].at < pieces[j].at + pieces[j].bytes &&
                pieces[j].at < pieces[i].at + pieces[i].bytes)
                shim_die("cuBLASLt: matrices overlap");
    }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *,
                              cublasLtMatrixLayout_t, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    cublasStatus_t status = status_of(__func__, CUBLAS_STATUS_EXECUTION_FAILED);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (algo->data[0] != shape_of(desc, a_layout, d_layout))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (*(const float *)alpha != 1 || *(const float *)beta != 0 || workspace_bytes < algo->data[2])
        shim_die("cuBLASLt: other factors, or less workspace, than was said");
    struct product *p = (struct product *)calloc(1, sizeof *p);
    *p = {{nullptr, run, nullptr, 0, false},
          *desc,
          *a_layout,
          *b_layout,
          *d_layout,
          static_cast<const char *>(a),
          static_cast<const char *>(b),
          static_cast<char *>(workspace),
          static_cast<float *>(d),
          algo->data[1]};
    p->work.name = __func__;
    shim_lock();
    check(p, handle->device, stream);
    shim_unlock();
    shim_post(stream, &p->work);
    return CUBLAS_STATUS_SUCCESS;
}
