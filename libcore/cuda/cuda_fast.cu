/* Products of fast numerics: operands are packed, as many grains as there is room for at a time;
 * the library multiplies grain by grain; and the results, through the epilogue, become C. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "cuda/launch.cuh"

extern "C" {
#include "cuda/cuda_device.h"
#include "cuda/cuda_lt.h"
#include "num/epilogue.h"
}

static constexpr int TF32_DROPS = 13, BF16_DROPS = 16; /* bits of a mantissa */

/* To nearest even; what is not finite stays so. */
static inline __device__ uint32_t rounded(float x, int drops)
{
    uint32_t bits = np_float_bits(x);
    if (!np_is_finite(x))
        return bits;
    bits += (1u << (drops - 1)) - 1 + (bits >> drops & 1);
    return bits >> drops << drops;
}

/* Matrices of `unit` rows each, packed one after the other. */
struct packed {
    uint32_t unit;
    size_t ld, stride; /* elements from one to the next */

    __device__ size_t at(size_t row, uint32_t col) const
    {
        uint32_t r = (uint32_t)row;
        return r / unit * stride + r % unit * ld + col;
    }
};

static packed packed_of(size_t unit, size_t cols, size_t element)
{
    size_t ld = np_product_ld(cols), align = NP_PRODUCT_ALIGN / element;
    return {(uint32_t)unit, ld, cuda_parts(unit * ld, align) * align};
}

static void pack_tf32(struct np_team *team, void *out, const packed &p, const float *from,
                      size_t ld, size_t rows, size_t cols)
{
    float *to = static_cast<float *>(out);
    cuda_cells(team, rows, cols, [=] __device__(size_t r, uint32_t c) -> uint32_t {
        to[p.at(r, c)] = np_bits_float(rounded(from[r * ld + c], TF32_DROPS));
        return 0;
    });
}

static void pack_bf16(struct np_team *team, void *out, const packed &p, const float *from,
                      size_t ld, size_t rows, size_t cols)
{
    uint16_t *to = static_cast<uint16_t *>(out);
    cuda_cells(team, rows, cols, [=] __device__(size_t r, uint32_t c) -> uint32_t {
        to[p.at(r, c)] = (uint16_t)(rounded(from[r * ld + c], BF16_DROPS) >> 16);
        return 0;
    });
}

/* What a call works with. */
struct fast_call {
    struct np_team *team;
    const struct np_matmul *mm;
    bool half;
    size_t element;      /* bytes of a packed operand's */
    char *workspace, *b; /* of the team's scratch, and what follows is for A and D: */
    char *room, *room_end;
};

static char *aligned(void *at)
{
    uintptr_t bits = (uintptr_t)at + NP_PRODUCT_ALIGN - 1;
    return reinterpret_cast<char *>(bits - bits % NP_PRODUCT_ALIGN);
}

static void pack(const fast_call &call, void *to, const packed &p, const float *from, size_t ld,
                 size_t rows, size_t cols)
{
    (call.half ? pack_bf16 : pack_tf32)(call.team, to, p, from, ld, rows, cols);
}

/* Rows first .. first + rows - 1 of C from their products over inner indices that begin at
 * `inner`. */
static void finish(const fast_call &call, const float *d, const packed &p, size_t first,
                   size_t rows, size_t inner, bool last)
{
    const struct np_matmul *mm = call.mm;
    struct np_epilogue e = mm->epilogue;
    float *c = mm->c;
    size_t ld = mm->ldc;
    bool onto = mm->accumulate || inner > 0;
    cuda_cells(call.team, rows, mm->n, [=] __device__(size_t r, uint32_t j) -> uint32_t {
        size_t i = first + r;
        float sum = d[p.at(r, j)];
        bool finite = true;
        if (onto)
            sum = c[i * ld + j] + sum;
        c[i * ld + j] = last ? np_epilogue_element(&e, i, j, sum, &finite) : sum;
        return !finite;
    });
}

/* As many units of rows as there is room for, from `first` on: how many are done. */
static size_t some_rows(const fast_call &call, size_t first, size_t inner, size_t depth)
{
    const struct np_matmul *mm = call.mm;
    size_t left = mm->m - first, unit = mm->row_grain ? mm->row_grain : mm->m;
    unit = unit < left ? unit : left;
    packed a =
        mm->a_trans ? packed_of(depth, unit, call.element) : packed_of(unit, depth, call.element);
    packed d = packed_of(unit, mm->n, sizeof(float));
    size_t each = a.stride * call.element + d.stride * sizeof(float);
    size_t units = (size_t)(call.room_end - call.room) / each, whole = left / unit;
    units = units < whole ? units : whole;
    assert(units > 0 && (!mm->a_trans || unit == mm->m));
    float *result = reinterpret_cast<float *>(call.room + units * a.stride * call.element);
    const float *from = mm->a_trans ? mm->a + inner * mm->lda : mm->a + first * mm->lda + inner;
    if (mm->a_trans)
        pack(call, call.room, a, from, mm->lda, depth, unit);
    else
        pack(call, call.room, a, from, mm->lda, units * unit, depth);
    struct np_product product = {unit, mm->n, depth, mm->a_trans, mm->b_trans};
    const struct np_cuda_team t = cuda_at_once(call.team);
    for (size_t u = 0; u < units; u++)
        np_cuda_lt_multiply(t.lt, t.stream, result + u * d.stride,
                            call.room + u * a.stride * call.element, call.b, &product,
                            call.workspace);
    finish(call, result, d, first, units * unit, inner, inner + depth == mm->k);
    return units * unit;
}

static bool fast_matmul(struct np_team *team, const struct np_matmul *mm)
{
    const struct np_cuda_team *t = cuda_team(team);
    bool half = t->lt->products->numerics->operand == NP_OPERAND_BF16;
    fast_call call = {team, mm, half, half ? sizeof(uint16_t) : sizeof(float)};
    size_t grain = mm->grain ? mm->grain : mm->k;
    call.workspace = aligned(team->scratch);
    call.b = call.workspace + NP_CUDA_LT_WORKSPACE;
    call.room_end = static_cast<char *>(team->scratch) + team->scratch_bytes;
    for (size_t inner = 0; inner < mm->k; inner += grain) {
        size_t depth = grain < mm->k - inner ? grain : mm->k - inner;
        size_t rows = mm->b_trans ? mm->n : depth, cols = mm->b_trans ? depth : mm->n;
        packed b = packed_of(rows, cols, call.element);
        call.room = call.b + b.stride * call.element;
        pack(call, call.b, b, mm->b + (mm->b_trans ? inner : inner * mm->ldb), mm->ldb, rows, cols);
        for (size_t first = 0; first < mm->m;)
            first += some_rows(call, first, inner, depth);
    }
    return true;
}

#define ENTRY(name) .name = np_cuda_##name,

static constexpr struct np_kernels fast_table(void)
{
    struct np_kernels table = {.name = "cuda-fast", NP_CUDA_ENTRIES(ENTRY)};
    table.matmul = fast_matmul;
    return table;
}

const struct np_kernels np_kernels_cuda_fast = fast_table();

/* The model of a GPU, as far as its bits may depend on it. */
static void name_model(char *out, size_t bytes, int number, int *capability)
{
    struct cudaDeviceProp about = {};
    int major = 0, minor = 0, processors = 0;
    cudaGetDeviceProperties(&about, number);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, number);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, number);
    *capability = 10 * major + minor;
    snprintf(out, bytes, "%.64s, compute capability %d.%d, %d multiprocessors", about.name, major,
             minor, processors);
}

enum np_status np_cuda_fast(struct np_device *devices, int count, struct np_products *products,
                            struct np_error *err)
{
    const struct np_numerics *numerics = products->numerics;
    char model[sizeof products->gpu];
    int capability;
    enum np_status status = np_cuda_lt_name(products, err);
    for (int i = 0; i < count && status == NP_OK; i++) {
        name_model(model, sizeof model, devices[i].number, &capability);
        if (i == 0)
            memcpy(products->gpu, model, sizeof model);
        if (capability != numerics->capability)
            status = np_fail(err, NP_EINPUT,
                             "they need compute capability %d.%d, and CUDA device %d has %d.%d",
                             numerics->capability / 10, numerics->capability % 10,
                             devices[i].number, capability / 10, capability % 10);
        else if (strcmp(model, products->gpu) != 0)
            status = np_fail(err, NP_EINPUT,
                             "they need GPUs of one model, and CUDA device %d is %s, device %d %s",
                             devices[0].number, products->gpu, devices[i].number, model);
        devices[i].products = products;
    }
    return status;
}
