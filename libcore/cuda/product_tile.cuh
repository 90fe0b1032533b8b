/* What a block does of a matrix product (cuda/product.cuh).
 *
 * A block computes a tile of C, a thread TM x TN elements of it. Slabs of the inner index go
 * through shared memory, two buffers in turn: while one is multiplied the next is on its way from
 * memory to registers. A slab never crosses the border of a chunk. A chunk is summed in registers;
 * the sum of the chunks before it waits in shared memory, where only its owner looks, so that both
 * need not be in registers at once. Where C has few tiles and many chunks, blocks sum one chunk
 * each and leave it in scratch; a second kernel adds them in order.
 *
 * Source  says what the matrices are:
 *         enter(z) begins with problem z of the batch and sets m, n, k, grain; a_quad(i, p) and
 *         b_quad(j, p) say where a thread's four rows or columns are, and the walk begins with p;
 *         a_load and b_load fetch four numbers from inner index p on, of a chunk that ends at
 *         `end`: along the inner index where a_inner (b_inner), else along the rows (columns);
 *         c_row(i) and c_column(j) place C's element. `sparse`: A may be absent(), and such
 *         products are left out. `whole`: no tile and no slab lacks anything. may_be_whole: it has
 *         `aligned`, and as_whole(BK) makes the when_whole that is read in slabs of BK.
 * Padding beyond the end of a chunk A is -0 and B +0: their product -0 changes no sum, not even
 *         its sign.
 */
#ifndef NP_CUDA_PRODUCT_TILE_CUH
#define NP_CUDA_PRODUCT_TILE_CUH

#include "cuda/launch.cuh"

extern "C" {
#include "num/epilogue.h"
}

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
    bool quads;             /* C's begin at multiples of 16 bytes */
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

/* Between rows of a slab, so that the quads of a row, stored down its columns, meet few others in
 * their banks. */
#define SLAB_GAP 4

/* Slabs of both operands. */
template <int BM, int BN, int BK> struct product_slab {
    float a[BK][BM + SLAB_GAP], b[BK][BN + SLAB_GAP];
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
        return inner ? q / (BK / 4) : q % (WIDE / 4) * 4;
    }

    static __device__ int depth(int q, bool inner)
    {
        return inner ? q % (BK / 4) * 4 : q / (WIDE / 4);
    }

    static __device__ void store(float slab[][WIDE + SLAB_GAP], int q, bool inner, const float v[4])
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

/* BLOCKS: of a multiprocessor, for which a thread has so few registers; one less where tiles may
 * lack something, which takes registers. ALONE and EACH: what 256
 * inner indices take, nanoseconds on an H100: of a block that has a multiprocessor for itself, and
 * of each of those that keep one busy. */
template <int BM_, int BN_, int BK_, int TM_, int TN_, int BLOCKS_, int ALONE_, int EACH_>
struct product_tile {
    static constexpr int BM = BM_, BN = BN_, BK = BK_, TM = TM_, TN = TN_, BLOCKS = BLOCKS_;
    static constexpr int ALONE = ALONE_, EACH = EACH_;
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
            a_place[i] = s.a_quad(top + A::row(threadIdx.x + i * Tile::threads, s.a_inner),
                                  at + A::depth(threadIdx.x + i * Tile::threads, s.a_inner));
#pragma unroll
        for (int i = 0; i < B::each; i++)
            b_place[i] = s.b_quad(left + B::row(threadIdx.x + i * Tile::threads, s.b_inner),
                                  at + B::depth(threadIdx.x + i * Tile::threads, s.b_inner));
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

/* Has the compiler work out anew what follows from these numbers. It would do so once for all of a
 * loop's turns, and keep addresses in the registers of what the loop is for. */
static inline __device__ void forget(int *a, int *b, int *c, int *d)
{
    asm volatile("" : "+r"(*a), "+r"(*b), "+r"(*c), "+r"(*d));
}

/* What a thread does with the sums that it owns. `sums`: where they wait, [quad][thread][4]. */
template <class Source, class Tile> struct product_owner {
    const Source &source;
    const product_output &out;
    float *sums;
    int top, left, tx, ty;

    __device__ bool inside(int e, int f, int *i, int *j) const
    {
        *i = top + spread<Tile::BM, Tile::TM>(ty, e);
        *j = left + spread<Tile::BN, Tile::TN>(tx, f);
        return Source::whole || (*i < source.m && *j < source.n);
    }

    /* Quad f / 4 of row e, where it waits. */
    __device__ float4 &waiting(int e, int f) const
    {
        return quad_at(&sums[((e * Tile::TN + f) / 4 * Tile::threads + threadIdx.x) * 4]);
    }

    /* Adds a chunk; acc begins anew. The last chunk's sums go to C, those that have more than a
     * store before them through shared memory: the epilogue is long, and not unrolled. */
    __device__ void close(float acc[Tile::TM][Tile::TN], bool first, bool last) const
    {
        product_owner here = *this;
        forget(&here.top, &here.left, &here.tx, &here.ty);
#pragma unroll
        for (int e = 0; e < Tile::TM; e++)
#pragma unroll
            for (int f = 0; f < Tile::TN; f += 4)
                here.close_quad(&acc[e][f], e, f, first, last);
        if (last && !out.plain)
            here.end();
    }

    __device__ __forceinline__ void close_quad(float *acc, int e, int f, bool first,
                                               bool last) const
    {
        int i, j;
        float4 sum = {acc[0], acc[1], acc[2], acc[3]};
        acc[0] = acc[1] = acc[2] = acc[3] = 0.0f;
        if (!first) {
            sum = add(waiting(e, f), sum);
        } else if (out.accumulate) {
            float4 c = {};
            if (inside(e, f, &i, &j))
                c = load_c(i, j);
            sum = add(c, sum);
        }
        if (!last || !out.plain)
            waiting(e, f) = sum;
        else if (inside(e, f, &i, &j))
            store_c(i, j, sum);
    }

    static __device__ float4 add(const float4 &a, const float4 &b)
    {
        return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
    }

    __device__ float *c_at(int i, int j) const
    {
        return &out.c[source.c_row(i) * out.ld + source.c_column(j)];
    }

    /* A quad of C, or what of it there is. */
    __device__ float4 load_c(int i, int j) const
    {
        float v[4];
        load_quad(v, c_at(i, j), Source::whole ? 4 : source.n - j, out.quads, 0.0f);
        return {v[0], v[1], v[2], v[3]};
    }

    __device__ void store_c(int i, int j, const float4 &sum) const
    {
        int count = Source::whole ? 4 : source.n - j;
        float *c = c_at(i, j), v[4] = {sum.x, sum.y, sum.z, sum.w};
        bool finite = true;
        if (out.quads && count >= 4)
            quad_at(c) = sum;
        for (int e = 0; e < 4; e++)
            if (e < count) {
                if (!out.quads || count < 4)
                    c[e] = v[e];
                finite = finite && np_is_finite(v[e]);
            }
        cuda_judge(out.verdict, !finite);
    }

    __device__ void end() const
    {
        int i, j;
#pragma unroll 1
        for (int x = 0; x < Tile::TM * Tile::TN; x++)
            if (inside(x / Tile::TN, x % Tile::TN, &i, &j))
                put_element(out, source.c_row(i), source.c_column(j),
                            sums[(x / 4 * Tile::threads + threadIdx.x) * 4 + x % 4]);
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
static __global__ void __launch_bounds__(Tile::threads,
                                         Source::whole ? Tile::BLOCKS : Tile::BLOCKS - 1)
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
#pragma unroll 2 // what differs between turns are constants then, and not in registers
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

#endif
