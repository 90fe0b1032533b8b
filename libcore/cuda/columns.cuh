/* Chunked sums down the columns of segments. A block has 32 columns of a chunk: its threads fetch
 * the terms of a slab of rows, and then one warp, a lane a column, adds them in order while the
 * terms of the next slab are on their way. Where there is scratch for it blocks sum one chunk each,
 * and a second kernel adds the chunks in order.
 */
#ifndef NP_CUDA_COLUMNS_CUH
#define NP_CUDA_COLUMNS_CUH

#include "cuda/launch.cuh"

extern "C" {
#include "num/chunk.h"
}

/* What a row adds to a column's sums, of the two numbers a and b of each of its cells. */
enum column_sum {
    COLUMN_SUM,    /* a */
    COLUMN_DOT,    /* a b, by a fused multiply-add; nothing where a is absent() */
    COLUMN_SUM_DOT /* a to the first sum, a b to the second */
};

#define SLAB 64 /* rows that wait in shared memory */
#define SLAB_EACH (SLAB / (NP_BLOCK / NP_WARP))
#define TOTALS_AHEAD 8 /* chunks that are fetched before they are added */

/* What is summed. terms.locate(segment, row) finds what a row's cells have in common, once for all
 * of them, terms.fetch(v, segment, row, column, located) loads two numbers for a cell, and
 * terms.work(v, segment, column) makes its a and b of them when they have come (COLUMN_SUM: a
 * alone): apart, for what branches would keep the loads of other cells waiting. Rows count from the
 * segment's beginning. */
struct column_terms {
    static constexpr bool locates = false; /* true: there is a `locate` */

    __device__ int locate(size_t, size_t) const
    {
        return 0;
    }

    __device__ void work(float *, size_t, uint32_t) const
    {
    }
};

template <enum column_sum kind, class Terms> struct column_sums {
    static constexpr int sums = kind == COLUMN_SUM_DOT ? 2 : 1;
    static constexpr int operands = kind == COLUMN_SUM ? 1 : 2;
    float *out[sums]; /* [segments][cols], with NP_SUM_CHUNKS [segments][chunks][cols] */
    size_t segments, rows, cols, grain;
    enum np_sum how;
    bool judged; /* the verdict is about the sums */
    Terms terms;
};

/* The slabs of a chunk, two in turn. */
template <int operands> struct column_slabs {
    float at[2][operands][SLAB][NP_WARP];
};

template <enum column_sum kind>
static __device__ void add_slab(float acc[2], const float (*slab)[SLAB][NP_WARP], int rows)
{
    constexpr int b = kind == COLUMN_SUM ? 0 : 1;
    int lane = threadIdx.x % NP_WARP;
#pragma unroll 16
    for (int r = 0; r < rows; r++) {
        float x = slab[0][r][lane], y = slab[b][r][lane];
        if (kind != COLUMN_DOT)
            acc[0] = acc[0] + x;
        if (kind == COLUMN_SUM_DOT)
            acc[1] = np_fmaf(x, y, acc[1]);
        if (kind == COLUMN_DOT)
            acc[0] = np_float_bits(x) == ABSENT_BITS ? acc[0] : np_fmaf(x, y, acc[0]);
    }
}

/* The sums of a chunk, in acc of the warp `adder`. */
template <enum column_sum kind, class Terms>
static __device__ void sum_chunk(float acc[2], const column_sums<kind, Terms> &s,
                                 column_slabs<column_sums<kind, Terms>::operands> &slabs,
                                 size_t segment, size_t number, uint32_t column, unsigned adder)
{
    constexpr int operands = column_sums<kind, Terms>::operands;
    struct np_share chunk = np_chunk_at(number, s.rows, s.grain);
    unsigned warp = threadIdx.x / NP_WARP, lane = threadIdx.x % NP_WARP;
    float v[SLAB_EACH][2] = {};
    auto row_of = [&](size_t first, unsigned i) { return first + i * (NP_BLOCK / NP_WARP) + warp; };
    auto fetch = [&](size_t first) {
        int located = s.terms.locate(segment, row_of(first, lane % SLAB_EACH));
#pragma unroll
        for (int i = 0; i < SLAB_EACH; i++) {
            int where = Terms::locates ? __shfl_sync(NP_ALL_LANES, located, i) : 0;
            if (row_of(first, i) < chunk.end && column < s.cols)
                s.terms.fetch(v[i], segment, row_of(first, i), column, where);
        }
    };
    fetch(chunk.begin);
    acc[0] = acc[1] = 0.0f;
    for (size_t r = chunk.begin, turn = 0; r < chunk.end; r += SLAB, turn ^= 1) {
        auto &slab = slabs.at[turn];
#pragma unroll
        for (int i = 0; i < SLAB_EACH; i++)
            s.terms.work(v[i], segment, column < s.cols ? column : 0);
#pragma unroll
        for (int i = 0; i < SLAB_EACH; i++)
            for (int k = 0; k < operands; k++)
                slab[k][i * (NP_BLOCK / NP_WARP) + warp][lane] = v[i][k];
        __syncthreads(); /* and the slab before this one has been added */
        if (r + SLAB < chunk.end)
            fetch(r + SLAB);
        if (warp == adder)
            add_slab<kind>(acc, slab, (int)np_min(chunk.end - r, SLAB));
    }
    __syncthreads();
}

/* What becomes of a sum when a chunk's is known; the first chunk is number 0. */
static inline __device__ float add_chunk(float total, float chunk, size_t number, enum np_sum how,
                                         const float *out)
{
    if (number > 0)
        return total + chunk;
    return how == NP_SUM_ONTO ? *out + chunk : chunk;
}

/* `parts` blocks, of segments or, `apart`, of chunks of them, for every 32 columns. */
template <enum column_sum kind, class Terms>
static __global__ void __launch_bounds__(NP_BLOCK, 1)
    sum_segments(column_sums<kind, Terms> s, size_t chunks, uint32_t parts, bool apart,
                 uint32_t *verdict)
{
    using all = column_sums<kind, Terms>;
    NP_SHARED(column_slabs<all::operands>, slabs, [1]);
    uint32_t part = blockIdx.x % parts, bad = 0;
    uint32_t column = blockIdx.x / parts * NP_WARP + threadIdx.x % NP_WARP;
    size_t segment = apart ? part / chunks : part;
    size_t number = apart ? part % chunks : 0, end = apart ? number + 1 : chunks;
    unsigned adder = part % (NP_BLOCK / NP_WARP); /* not all of a processor's on one part */
    bool owns = threadIdx.x / NP_WARP == adder && column < s.cols;
    size_t at = (size_t)part * s.cols + column;
    float acc[2], total[2] = {};
    for (; number < end; number++) {
        sum_chunk<kind>(acc, s, slabs[0], segment, number, column, adder);
        for (int k = 0; k < all::sums && owns; k++)
            total[k] = apart ? acc[k] : add_chunk(total[k], acc[k], number, s.how, &s.out[k][at]);
    }
    for (int k = 0; k < all::sums && owns; k++) {
        s.out[k][at] = total[k];
        bad |= s.judged && !apart && !np_is_finite(total[k]);
    }
    cuda_judge(verdict, bad);
}

/* total, if it has begun, + the chunks of a column in order; several are on their way at a time. */
static inline __device__ float add_chunks_to(float total, bool begun, const float *from,
                                             size_t count, size_t cols)
{
    for (size_t first = 0; first < count; first += TOTALS_AHEAD) {
        float v[TOTALS_AHEAD];
#pragma unroll
        for (size_t i = 0; i < TOTALS_AHEAD; i++)
            v[i] = from[np_min(first + i, count - 1) * cols];
#pragma unroll
        for (size_t i = 0; i < TOTALS_AHEAD; i++)
            if (first + i < count) {
                total = begun ? total + v[i] : v[i];
                begun = true;
            }
    }
    return total;
}

/* Adds chunks [segments][chunks][cols]. */
template <int sums> struct column_totals {
    float *out[sums];
    const float *chunks[sums];
    size_t count, cols;
    enum np_sum how;
    bool judged;

    __device__ uint32_t operator()(size_t segment, uint32_t c) const
    {
        uint32_t bad = 0;
        bool onto = how == NP_SUM_ONTO;
#pragma unroll
        for (int k = 0; k < sums; k++) {
            float *to = &out[k][segment * cols + c];
            const float *from = chunks[k] + segment * count * cols + c;
            float total = add_chunks_to(onto ? *to : 0.0f, onto, from, count, cols);
            *to = total;
            bad |= judged && !np_is_finite(total);
        }
        return bad;
    }
};

template <enum column_sum kind, class Terms>
static void sum_columns(struct np_team *team, const column_sums<kind, Terms> &s)
{
    constexpr int sums = column_sums<kind, Terms>::sums;
    const struct np_cuda_team *t = cuda_team(team);
    size_t chunks = np_chunk_count(s.rows, s.grain), each = s.segments * chunks * s.cols;
    bool fits = chunks > 1 && sums * each * sizeof(float) <= t->team.scratch_bytes;
    bool kept = s.how == NP_SUM_CHUNKS, apart = kept || fits;
    column_sums<kind, Terms> blocks = s;
    column_totals<sums> totals = {{}, {}, chunks, s.cols, s.how, s.judged};
    if (s.segments == 0 || s.cols == 0)
        return;
    for (int k = 0; k < sums && fits && !kept; k++) {
        blocks.out[k] = static_cast<float *>(t->team.scratch) + k * each;
        totals.chunks[k] = blocks.out[k];
        totals.out[k] = s.out[k];
    }
    uint32_t parts = (uint32_t)(s.segments * (apart ? chunks : 1));
    unsigned grid = parts * (unsigned)cuda_parts(s.cols, NP_WARP);
    auto kernel = sum_segments<kind, Terms>;
    NP_LAUNCH(t, kernel, grid, NP_BLOCK, 0, blocks, chunks, parts, apart, t->verdict);
    if (fits && !kept)
        cuda_cells(team, s.segments, s.cols, totals);
}

#endif
