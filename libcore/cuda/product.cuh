/* Matrix products in tiles, for whatever can be read as two matrices: C = A B by chunked sums.
 *
 * A block computes a tile of C, a thread TM x TN elements of it. Slabs of the inner index go
 * through shared memory, two buffers in turn: while one is multiplied the next is on its way from
 * memory to registers. A slab never crosses the border of a chunk. A chunk is summed in registers;
 * the sum of the chunks before it waits in shared memory, where only its owner looks, so that both
 * need not be in registers at once. Where C has few tiles and many chunks, blocks sum one chunk
 * each and leave it in scratch; a second kernel adds them in order.
 *
 * Source  says what the matrices are:
 *         enter(z) begins with problem z of the batch and sets m, n, k, grain; a_quad(i) and
 *         b_quad(j) say where a thread's four rows or columns are; a_load and b_load fetch four
 *         numbers: along the inner index where a_inner (b_inner), else along the rows (columns);
 *         c_row(i) and c_column(j) place C's element. `sparse`: A may hold ABSENT, and such
 *         products are left out.
 * Padding beyond the end of a chunk A is -0 and B +0: their product -0 changes no sum, not even
 *         its sign.
 */
#ifndef NP_CUDA_PRODUCT_CUH
#define NP_CUDA_PRODUCT_CUH

#include "cuda/launch.cuh"

extern "C" {
#include "num/epilogue.h"
}

#define ABSENT_BITS 0x7fa5a5a5u /* a NaN that no operation gives */

/* A chunk of an inner index that is below 2^31. */
struct product_chunk {
    int begin, end;
};

static inline __host__ __device__ int product_chunks(int count, int grain)
{
    return grain == 0 ? (count + NP_KC - 1) / NP_KC
                      : count / grain * ((grain + NP_KC - 1) / NP_KC) +
                            (count % grain + NP_KC - 1) / NP_KC;
}

static inline __device__ product_chunk product_chunk_at(int number, int count, int grain)
{
    product_chunk c = {number * NP_KC, count};
    if (grain > 0) {
        int each = (grain + NP_KC - 1) / NP_KC, first = number / each * grain;
        c.begin = first + number % each * NP_KC;
        c.end = first + grain < count ? first + grain : count;
    }
    c.end = c.begin + NP_KC < c.end ? c.begin + NP_KC : c.end;
    return c;
}

/* What becomes of C. */
struct product_output {
    float *c;
    size_t ld;
    bool accumulate, plain; /* plain: without an epilogue */
    struct np_epilogue epilogue;
    float *chunks; /* [problem][chunk][m][n]: each block sums one chunk; NULL: all, in order */
    int parts;     /* chunks of a problem that is cut so, else 1 */
    unsigned high; /* tiles of a column of them */
    uint32_t *verdict;
};

static inline __device__ void put_element(const product_output &out, size_t i, size_t j, float sum)
{
    bool finite = true;
    out.c[i * out.ld + j] = np_epilogue_element(&out.epilogue, i, j, sum, &finite);
    cuda_judge(out.verdict, !finite);
}

/* Slabs of both operands. */
template <int BM, int BN, int BK> struct product_slab {
    float a[BK][BM], b[BK][BN];
};

/* Four numbers from or to memory that is aligned to them. */
static inline __device__ float4 &quad_at(float *p)
{
    return *reinterpret_cast<float4 *>(p);
}

/* Fetches four numbers at p that lie side by side, the first `count` of them; others become
 * `padding`. */
static inline __device__ void load_quad(float v[4], const float *p, int count, bool aligned,
                                        float padding)
{
    if (aligned && count >= 4) {
        float4 q = *reinterpret_cast<const float4 *>(p);
        v[0] = q.x;
        v[1] = q.y;
        v[2] = q.z;
        v[3] = q.w;
        return;
    }
    for (int e = 0; e < 4; e++)
        v[e] = e < count ? p[e] : padding;
}

/* Of a tile of WIDE rows (columns), BK deep, the quads that one of THREADS threads carries. */
template <int WIDE, int BK, int THREADS> struct product_carrier {
    static constexpr int quads = WIDE * BK / 4;
    static constexpr int each = (quads + THREADS - 1) / THREADS;

    /* Where quad q begins: its row, and its inner index within the slab. */
    static __device__ int row(int q, bool inner)
    {
        return inner ? q % WIDE : q % (WIDE / 4) * 4;
    }

    static __device__ int depth(int q, bool inner)
    {
        return inner ? q / WIDE * 4 : q / (WIDE / 4);
    }

    static __device__ void store(float slab[][WIDE], int q, bool inner, const float v[4])
    {
        int r = row(q, inner), d = depth(q, inner);
        if (inner) {
            for (int e = 0; e < 4; e++)
                slab[d + e][r] = v[e];
        } else {
            float4 whole = {v[0], v[1], v[2], v[3]};
            quad_at(&slab[d][r]) = whole;
        }
    }
};

template <int BM_, int BN_, int BK_, int TM_, int TN_> struct product_tile {
    static constexpr int BM = BM_, BN = BN_, BK = BK_, TM = TM_, TN = TN_;
    static constexpr int threads = (BM / TM) * (BN / TN);
    static constexpr size_t sums_bytes = sizeof(float) * BM * BN;
};

/* Where a thread is among those of a tile. A warp has four rows of eight threads, so that it reads
 * few quads of a slab; of neighbours by lane % 2 both read the same of B, of neighbours by lane / 2
 * the same of A, which is what lets shared memory serve two quarters of a warp at once. */
template <class Tile> static __device__ void place_thread(int *tx, int *ty)
{
    constexpr int across = Tile::BN / Tile::TN / 8; /* warps */
    int warp = threadIdx.x / NP_WARP, lane = threadIdx.x % NP_WARP;
    static_assert(Tile::BN / Tile::TN % 8 == 0 && Tile::BM / Tile::TM % 4 == 0, "whole warps");
    *tx = warp % across * 8 + lane / 2 % 8;
    *ty = warp / across * 4 + lane / 16 * 2 + lane % 2;
}

/* The row (column) of the tile that element e of a thread is: quads of threads side by side. */
template <int WIDE, int T> static __device__ int spread(int thread, int e)
{
    return e / 4 * (4 * WIDE / T) + thread * 4 + e % 4;
}

/* acc += the products of one slab. */
template <bool sparse, class Tile>
static __device__ __forceinline__ void
multiply_slab(float acc[Tile::TM][Tile::TN], const product_slab<Tile::BM, Tile::BN, Tile::BK> &slab,
              int tx, int ty)
{
#pragma unroll
    for (int p = 0; p < Tile::BK; p++) {
        float a[Tile::TM], b[Tile::TN];
#pragma unroll
        for (int e = 0; e < Tile::TM; e += 4) {
            int at = spread<Tile::BM, Tile::TM>(ty, e);
            float4 q = *reinterpret_cast<const float4 *>(&slab.a[p][at]);
            a[e] = q.x;
            a[e + 1] = q.y;
            a[e + 2] = q.z;
            a[e + 3] = q.w;
        }
#pragma unroll
        for (int e = 0; e < Tile::TN; e += 4) {
            int at = spread<Tile::BN, Tile::TN>(tx, e);
            float4 q = *reinterpret_cast<const float4 *>(&slab.b[p][at]);
            b[e] = q.x;
            b[e + 1] = q.y;
            b[e + 2] = q.z;
            b[e + 3] = q.w;
        }
#pragma unroll
        for (int i = 0; i < Tile::TM; i++)
            if (!sparse || np_float_bits(a[i]) != ABSENT_BITS)
#pragma unroll
                for (int j = 0; j < Tile::TN; j++)
                    acc[i][j] = np_fmaf(a[i], b[j], acc[i][j]);
    }
}

/* One block's way through the slabs of its tile. */
template <class Source, class Tile> struct product_walk {
    using A = product_carrier<Tile::BM, Tile::BK, Tile::threads>;
    using B = product_carrier<Tile::BN, Tile::BK, Tile::threads>;

    const Source &source;
    typename Source::a_place a_place[A::each];
    typename Source::b_place b_place[B::each];
    float a[A::each][4], b[B::each][4]; /* on the way */
    int chunk, last_chunk, at, end;

    __device__ product_walk(const Source &s, int top, int left, int first, int count)
        : source(s), chunk(first), last_chunk(first + count - 1)
    {
        product_chunk c = product_chunk_at(chunk, s.k, s.grain);
        at = c.begin;
        end = c.end;
#pragma unroll
        for (int i = 0; i < A::each; i++)
            a_place[i] = s.a_quad(top + A::row(threadIdx.x + i * Tile::threads, s.a_inner));
#pragma unroll
        for (int i = 0; i < B::each; i++)
            b_place[i] = s.b_quad(left + B::row(threadIdx.x + i * Tile::threads, s.b_inner));
    }

    __device__ void load()
    {
#pragma unroll
        for (int i = 0; i < A::each; i++) {
            int q = threadIdx.x + i * Tile::threads;
            if (A::quads % Tile::threads == 0 || q < A::quads)
                source.a_load(a[i], a_place[i], at + A::depth(q, source.a_inner), end);
        }
#pragma unroll
        for (int i = 0; i < B::each; i++) {
            int q = threadIdx.x + i * Tile::threads;
            if (B::quads % Tile::threads == 0 || q < B::quads)
                source.b_load(b[i], b_place[i], at + B::depth(q, source.b_inner), end);
        }
    }

    /* Whether something that this thread stores is absent. */
    __device__ bool store(product_slab<Tile::BM, Tile::BN, Tile::BK> &slab)
    {
        bool absent = false;
#pragma unroll
        for (int i = 0; i < A::each; i++) {
            int q = threadIdx.x + i * Tile::threads;
            if (A::quads % Tile::threads == 0 || q < A::quads)
                A::store(slab.a, q, source.a_inner, a[i]);
            for (int e = 0; Source::sparse && e < 4; e++)
                absent = absent || np_float_bits(a[i][e]) == ABSENT_BITS;
        }
#pragma unroll
        for (int i = 0; i < B::each; i++) {
            int q = threadIdx.x + i * Tile::threads;
            if (B::quads % Tile::threads == 0 || q < B::quads)
                B::store(slab.b, q, source.b_inner, b[i]);
        }
        return absent;
    }

    /* To the next slab; *ends: this one was its chunk's last. False: there is none. */
    __device__ bool next(bool *ends)
    {
        at += Tile::BK;
        *ends = at >= end;
        if (!*ends)
            return true;
        if (++chunk > last_chunk)
            return false;
        product_chunk c = product_chunk_at(chunk, source.k, source.grain);
        at = c.begin;
        end = c.end;
        return true;
    }
};

/* What a thread does with the sums that it owns. `sums`: where they wait, [element][thread]. */
template <class Source, class Tile> struct product_owner {
    const Source &source;
    const product_output &out;
    float *sums;
    int top, left, tx, ty;

    __device__ bool inside(int e, int f, int *i, int *j) const
    {
        *i = top + spread<Tile::BM, Tile::TM>(ty, e);
        *j = left + spread<Tile::BN, Tile::TN>(tx, f);
        return *i < source.m && *j < source.n;
    }

    __device__ float &waiting(int e, int f) const
    {
        return sums[(e * Tile::TN + f) * Tile::threads + threadIdx.x];
    }

    /* Adds a chunk; acc begins anew. The last chunk's sums go to C, those that have more than a
     * store before them through shared memory: the epilogue is long, and not unrolled. */
    __device__ void close(float acc[Tile::TM][Tile::TN], bool first, bool last) const
    {
        int i, j;
#pragma unroll
        for (int e = 0; e < Tile::TM; e++)
#pragma unroll
            for (int f = 0; f < Tile::TN; f++) {
                float sum = acc[e][f];
                acc[e][f] = 0.0f;
                if (!inside(e, f, &i, &j))
                    continue;
                float *c = &out.c[source.c_row(i) * out.ld + source.c_column(j)];
                if (!first)
                    sum = waiting(e, f) + sum;
                else if (out.accumulate)
                    sum = *c + sum;
                if (last && out.plain) {
                    *c = sum;
                    cuda_judge(out.verdict, !np_is_finite(sum));
                } else {
                    waiting(e, f) = sum;
                }
            }
        if (last && !out.plain)
            end();
    }

    __device__ void end() const
    {
        int i, j;
#pragma unroll 1
        for (int x = 0; x < Tile::TM * Tile::TN; x++)
            if (inside(x / Tile::TN, x % Tile::TN, &i, &j))
                put_element(out, source.c_row(i), source.c_column(j),
                            waiting(x / Tile::TN, x % Tile::TN));
    }

    /* Leaves a chunk's sums for add_chunks. */
    __device__ void leave(const float acc[Tile::TM][Tile::TN], float *chunk) const
    {
        int i, j;
#pragma unroll
        for (int e = 0; e < Tile::TM; e++)
#pragma unroll
            for (int f = 0; f < Tile::TN; f++)
                if (inside(e, f, &i, &j))
                    chunk[(size_t)i * source.n + j] = acc[e][f];
    }
};

/* Blocks along x: tiles, column by column, for there may be more columns than blocks along y; along
 * z: problems, or chunks of a problem. */
template <class Source, class Tile>
static __global__ void __launch_bounds__(Tile::threads, 1)
    multiply(Source source, product_output out)
{
    using slab = product_slab<Tile::BM, Tile::BN, Tile::BK>;
    NP_SHARED(slab, slabs, [2]);
    NP_SHARED_DYNAMIC(float, sums);
    int problem = blockIdx.z / out.parts, part = blockIdx.z % out.parts;
    int top = blockIdx.x % out.high * Tile::BM, left = blockIdx.x / out.high * Tile::BN, tx, ty;
    place_thread<Tile>(&tx, &ty);
    source.enter(problem);
    if (top >= source.m)
        return;
    int chunks = product_chunks(source.k, source.grain);
    float acc[Tile::TM][Tile::TN] = {};
    product_owner<Source, Tile> owner = {source, out, sums, top, left, tx, ty};
    if (chunks == 0) {
        owner.close(acc, true, true);
        return;
    }
    int first = out.chunks ? part : 0, count = out.chunks ? 1 : chunks;
    product_walk<Source, Tile> walk(source, top, left, first, count);
    bool more = true;
    walk.load();
    bool absent = walk.store(slabs[0]);
    for (int turn = 0, done = 0; more; turn ^= 1) {
        bool ends;
        if constexpr (Source::sparse)
            absent = __syncthreads_or(absent);
        else
            __syncthreads();
        more = walk.next(&ends);
        if (more)
            walk.load();
        if (Source::sparse && absent)
            multiply_slab<true, Tile>(acc, slabs[turn], tx, ty);
        else
            multiply_slab<false, Tile>(acc, slabs[turn], tx, ty);
        if (ends && !out.chunks) {
            owner.close(acc, done == 0, !more);
            done++;
        }
        absent = more && walk.store(slabs[turn ^ 1]);
    }
    if (out.chunks)
        owner.leave(acc, out.chunks + (size_t)blockIdx.z * source.m * source.n);
}

/* Adds the chunks that blocks have left, in order. */
template <class Source>
static __global__ void __launch_bounds__(NP_BLOCK, 1) add_chunks(Source source, product_output out)
{
    source.enter(blockIdx.z);
    size_t count = (size_t)source.m * source.n, step = (size_t)gridDim.x * NP_BLOCK;
    const float *chunk = out.chunks + blockIdx.z * out.parts * count;
    for (size_t at = (size_t)blockIdx.x * NP_BLOCK + threadIdx.x; at < count; at += step) {
        size_t row = source.c_row((int)(at / source.n));
        size_t column = source.c_column((int)(at % source.n));
        float sum = chunk[at];
        if (out.accumulate)
            sum = out.c[row * out.ld + column] + sum;
        for (int c = 1; c < out.parts; c++)
            sum = sum + chunk[c * count + at];
        put_element(out, row, column, sum);
    }
}

/* The sizes that a launch is chosen by: the largest problem of the batch. */
struct product_size {
    size_t m, n, k, grain, problems;
    bool equal; /* all problems have these sizes: chunks may be summed apart */
};

/* The number of blocks that a launch should have at least: about the multiprocessors of a large
 * GPU. A constant, so that the same launches are made everywhere; tests vary it, to try all. */
#ifndef PRODUCT_BLOCKS
#define PRODUCT_BLOCKS 128
#endif

/* The time of a launch, relative: `blocks` run at a time, and a tile of this shape multiplies at
 * `speed`. */
template <class Tile>
static inline double tile_cost(const product_size &size, double speed, size_t parts, size_t blocks)
{
    size_t tiles = cuda_parts(size.m, Tile::BM) * cuda_parts(size.n, Tile::BN) * size.problems;
    size_t rounds = cuda_parts(tiles * parts, blocks);
    return (double)(rounds * Tile::BM * Tile::BN) / ((double)parts * speed);
}

template <class Source, class Tile>
static void launch_tile(const struct np_cuda_team *team, const Source &source, product_output out,
                        const product_size &size)
{
    out.high = (unsigned)cuda_parts(size.m, Tile::BM);
    dim3 grid(out.high * (unsigned)cuda_parts(size.n, Tile::BN), 1,
              (unsigned)size.problems * out.parts);
    bool waits = !out.chunks && product_chunks((int)size.k, (int)size.grain) > 1;
    size_t bytes = waits || !(out.plain || out.chunks) ? Tile::sums_bytes : 0;
    auto kernel = multiply<Source, Tile>;
    cuda_allow_shared<multiply<Source, Tile>>((int)Tile::sums_bytes);
    NP_LAUNCH(kernel, grid, Tile::threads, bytes, team->stream, source, out);
}

/* The shapes, and what each is worth where there is enough to do. */
using tile_large = product_tile<128, 128, 8, 8, 8>;
using tile_tall = product_tile<128, 32, 16, 8, 4>;
using tile_medium = product_tile<64, 64, 16, 8, 4>;
using tile_small = product_tile<32, 32, 16, 4, 4>;

/* Computes C with the shape of tile that costs least, chunks apart where that costs less. */
template <class Source>
static bool launch_product(struct np_team *team, const Source &source, product_output out,
                           const product_size &size)
{
    const struct np_cuda_team *t = cuda_team(team);
    size_t chunks = (size_t)product_chunks((int)size.k, (int)size.grain);
    size_t room = t->team.scratch_bytes / sizeof(float);
    bool apart = size.equal && chunks > 1 && size.problems * chunks <= NP_GRID_MOST &&
                 size.m * size.n * size.problems * chunks <= room;
    double best = 0;
    size_t blocks = PRODUCT_BLOCKS;
    int shape = -1;
    const struct np_epilogue &e = out.epilogue;
    out.verdict = t->verdict;
    out.plain = !e.bias && !e.before && !e.residual && e.act == NP_ACT_NONE;
    out.parts = 1;
    if (size.m == 0 || size.n == 0 || size.problems == 0)
        return true;
    for (int cut = 0; cut <= apart; cut++) {
        size_t parts = cut ? chunks : 1;
        const double cost[] = {tile_cost<tile_large>(size, 1.0, parts, blocks),
                               tile_cost<tile_tall>(size, 0.7, parts, blocks),
                               tile_cost<tile_medium>(size, 0.8, parts, blocks),
                               tile_cost<tile_small>(size, 0.5, parts, blocks)};
        for (int i = 0; i < 4; i++)
            if (shape < 0 || cost[i] * (cut ? 1.2 : 1) < best) { /* what adding them costs */
                best = cost[i] * (cut ? 1.2 : 1);
                shape = i;
                out.parts = (int)parts;
            }
    }
    out.chunks = out.parts > 1 ? static_cast<float *>(t->team.scratch) : nullptr;
    switch (shape) {
    case 0:
        launch_tile<Source, tile_large>(t, source, out, size);
        break;
    case 1:
        launch_tile<Source, tile_tall>(t, source, out, size);
        break;
    case 2:
        launch_tile<Source, tile_medium>(t, source, out, size);
        break;
    default:
        launch_tile<Source, tile_small>(t, source, out, size);
        break;
    }
    if (out.chunks) {
        auto kernel = add_chunks<Source>;
        dim3 grid(cuda_blocks(cuda_parts(size.m * size.n, NP_BLOCK), NP_BLOCKS_MOST), 1,
                  (unsigned)size.problems);
        NP_LAUNCH(kernel, grid, NP_BLOCK, 0, t->stream, source, out);
    }
    return true;
}

#endif
