/* Attention without the matrix of all scores. A block has 32 rows of one head (queries; keys for
 * the gradients of keys and values), a warp eight of them, and walks over tiles of 32 positions:
 * lane l has position l of each, so it is lane l of the sums over positions. Scores are computed
 * again where they are needed again, unless the block's fit into shared memory.
 */
#include "cuda/launch.cuh"

extern "C" {
#include "num/attention.h"
}

#define TILE NP_ATTN_TILE
#define EACH 8 /* rows of a warp */
#define THREADS (TILE / EACH * NP_WARP)
#define GAP 4 /* behind rows: quads of eight lanes fill all banks */

/* Bytes that a block keeps in shared memory, of scores and of offsets' sums: two blocks at a time.
 * Tests have fewer. */
#ifndef NP_ATTENTION_SCORES
#define NP_ATTENTION_SCORES (64 << 10)
#endif
#ifndef NP_ATTENTION_OFFSETS
#define NP_ATTENTION_OFFSETS (64 << 10)
#endif

static_assert(TILE == NP_WARP, "a lane is a position of a tile");

/* Rows of channels of one head; `count` of them. */
struct head_rows {
    const float *at;
    size_t ld;
    int count;
};

/* Everything a block's threads share about their tile of rows; SLICE: channels of a step. */
template <int SLICE> struct attention_shared {
    float rows[TILE][SLICE + GAP];
    float lanes[TILE][SLICE + GAP];
    float weights[TILE][TILE + GAP];
};

/* A slice of channels from `channel` on of 32 rows from `first` on; `padding` elsewhere. All are
 * sent for before the first is stored. */
template <int SLICE>
static __device__ void load_tile(float to[TILE][SLICE + GAP], const head_rows &from, int first,
                                 int channel, int width, float padding)
{
    constexpr int count = TILE * SLICE / THREADS, apart = THREADS / SLICE;
    int row = threadIdx.x / SLICE, lane = threadIdx.x % SLICE;
    const float *at = from.at + (first + row) * from.ld + channel + lane;
    bool some = channel + lane < width;
    float v[count];
#pragma unroll
    for (int i = 0; i < count; i++) {
        v[i] = padding;
        if (some && first + row + i * apart < from.count)
            v[i] = at[i * apart * from.ld];
    }
#pragma unroll
    for (int i = 0; i < count; i++)
        to[row + i * apart][lane] = v[i];
}

/* dots[e] = chunked sum over channels of row e of the thread's warp times the lane's position. What
 * is padded adds -0. */
template <int SLICE>
static __device__ void tile_dots(float dots[EACH], attention_shared<SLICE> &s,
                                 const head_rows &rows, int first_row, const head_rows &lanes,
                                 int first_lane, int width)
{
    int warp = threadIdx.x / NP_WARP, lane = threadIdx.x % NP_WARP;
    float acc[EACH] = {};
    for (int channel = 0; channel < width; channel += SLICE) {
        __syncthreads();
        load_tile<SLICE>(s.rows, rows, first_row, channel, width, -0.0f);
        load_tile<SLICE>(s.lanes, lanes, first_lane, channel, width, 0.0f);
        __syncthreads();
#pragma unroll
        for (int c = 0; c < SLICE; c += 4) {
            float4 b = *reinterpret_cast<const float4 *>(&s.lanes[lane][c]);
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                float4 a = *reinterpret_cast<const float4 *>(&s.rows[warp * EACH + e][c]);
                acc[e] = np_fmaf(a.x, b.x, acc[e]);
                acc[e] = np_fmaf(a.y, b.y, acc[e]);
                acc[e] = np_fmaf(a.z, b.z, acc[e]);
                acc[e] = np_fmaf(a.w, b.w, acc[e]);
            }
        }
        if ((channel + SLICE) % NP_KC == 0 || channel + SLICE >= width)
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                dots[e] = channel < NP_KC ? acc[e] : dots[e] + acc[e];
                acc[e] = 0.0f;
            }
    }
}

/* Chunked sums over positions of weights times rows of channels: for the warp's eight rows, and the
 * lane's channels lane, lane + 32, ... of a slice. */
template <int SLICE> struct tile_sums {
    static constexpr int parts = SLICE / NP_WARP;
    float total[EACH][parts], acc[EACH][parts];
    bool begun;

    __device__ void begin()
    {
        begun = false;
        for (int e = 0; e < EACH; e++)
            for (int x = 0; x < parts; x++)
                acc[e][x] = 0.0f;
    }

    /* Adds the tile of positions from `first` on, whose weights w[e] are the lane's; `last`: there
     * is none after it. Positions at `end` and beyond weigh -0. */
    __device__ void add(attention_shared<SLICE> &s, const float w[EACH], const head_rows &from,
                        int first, int end, int channel, int width, bool last)
    {
        int warp = threadIdx.x / NP_WARP, lane = threadIdx.x % NP_WARP;
        head_rows seen = {from.at, from.ld, end};
        __syncwarp(); /* the weights of the tile before have been read */
#pragma unroll
        for (int e = 0; e < EACH; e++)
            s.weights[warp * EACH + e][lane] = first + lane < end ? w[e] : -0.0f;
        __syncthreads();
        load_tile<SLICE>(s.lanes, seen, first, channel, width, 0.0f);
        __syncthreads();
#pragma unroll
        for (int x = 0; x < parts; x++) {
#pragma unroll
            for (int j = 0; j < TILE; j += 4) {
                float v[4];
                for (int i = 0; i < 4; i++)
                    v[i] = s.lanes[j + i][x * NP_WARP + lane];
#pragma unroll
                for (int e = 0; e < EACH; e++) {
                    float4 p = *reinterpret_cast<const float4 *>(&s.weights[warp * EACH + e][j]);
                    acc[e][x] = np_fmaf(p.x, v[0], acc[e][x]);
                    acc[e][x] = np_fmaf(p.y, v[1], acc[e][x]);
                    acc[e][x] = np_fmaf(p.z, v[2], acc[e][x]);
                    acc[e][x] = np_fmaf(p.w, v[3], acc[e][x]);
                }
            }
        }
        if ((first + TILE) % NP_KC == 0 || last)
            close();
    }

    __device__ void close()
    {
#pragma unroll
        for (int e = 0; e < EACH; e++)
#pragma unroll
            for (int x = 0; x < parts; x++) {
                total[e][x] = begun ? total[e][x] + acc[e][x] : acc[e][x];
                acc[e][x] = 0.0f;
            }
        begun = true;
    }

    __device__ void store(float *to, size_t ld, int first, int count, int channel, int width) const
    {
        int row = first + (int)threadIdx.x / NP_WARP * EACH;
        for (int e = 0; e < EACH; e++)
            for (int x = 0; x < parts; x++) {
                int c = channel + x * NP_WARP + (int)threadIdx.x % NP_WARP;
                if (row + e < count && c < width)
                    to[(row + e) * ld + c] = total[e][x];
            }
    }
};

static inline __device__ float probability(float s, float most, float sum)
{
    float p = np_expf(s - most) / sum;
    return p < NP_FLUSH ? 0.0f : p;
}

/* The score of a query and a key whose rows give this sum of products; what is none has any. */
static inline __device__ float scored(const struct np_head &h, float dot, int query, int key)
{
    if (!h.relative || query >= (int)h.queries || key >= (int)np_seen(&h, query))
        return dot * h.scale;
    return np_fmaf(dot, h.scale, h.relative[np_offset(&h, query, key)]);
}

/* The head of a block, and the first row of its tile of `rows`: tiles of a head are neighbours. */
static inline __device__ struct np_head head_of(const struct np_attention &at, size_t rows,
                                                int *first)
{
    unsigned tiles = (unsigned)cuda_parts(rows, TILE);
    *first = (int)(blockIdx.x % tiles * TILE);
    return np_head_at(&at, blockIdx.x / tiles);
}

/* A block's tile of queries and the walk over its keys. */
struct query_tile {
    int first, row, lane, end; /* first of the tile, of the warp; where the sums over keys end */
    struct np_head h;
    head_rows q, k, v;
    float *strip; /* scores of all keys, NULL where they do not fit */

    __device__ query_tile(const struct np_attention &at, float *strip_or_null)
        : h(head_of(at, at.queries, &first)), strip(strip_or_null)
    {
        q = {h.q, h.ldq, (int)h.queries};
        k = {h.k, h.ldk, (int)h.keys};
        v = {h.v, h.ldk, (int)h.keys};
        row = first + threadIdx.x / NP_WARP * EACH;
        lane = threadIdx.x % NP_WARP;
        end = (int)np_keys_end(&h, first);
    }

    __device__ bool seen(int e, int key) const
    {
        return key < (int)np_seen(&h, row + e) && key < (int)h.keys;
    }

    /* The scores of the keys of a tile: from the strip where they are not `fresh`. */
    template <int SLICE>
    __device__ void scores(float score[EACH], attention_shared<SLICE> &s, int key, bool fresh) const
    {
        float *kept = strip ? strip + key * TILE + threadIdx.x : nullptr;
        if (!fresh && kept) {
            for (int e = 0; e < EACH; e++)
                score[e] = kept[e * THREADS];
            return;
        }
        tile_dots<SLICE>(score, s, q, first, k, key, (int)h.width);
        for (int e = 0; e < EACH; e++) {
            score[e] = scored(h, score[e], row + e, key + lane);
            if (kept)
                kept[e * THREADS] = score[e];
        }
    }
};

/* Grid: heads and their tiles of queries; slices of channels. */
template <int SLICE>
static __global__ void __launch_bounds__(THREADS, 1)
    attend(float *out, float *stats, struct np_attention at, bool kept)
{
    NP_SHARED(attention_shared<SLICE>, shared, [1]);
    attention_shared<SLICE> &s = shared[0];
    NP_SHARED_DYNAMIC(float, strip);
    query_tile t(at, kept ? strip : nullptr);
    int channel = blockIdx.y * SLICE, width = (int)t.h.width;
    float score[EACH], most[EACH], sum[EACH] = {};
    tile_sums<SLICE> sums;
    for (int e = 0; e < EACH; e++)
        most[e] = -INFINITY;
    for (int key = 0; key < t.end; key += TILE) {
        t.template scores<SLICE>(score, s, key, true);
        for (int e = 0; e < EACH; e++)
            if (t.seen(e, key + t.lane))
                most[e] = score[e] > most[e] ? score[e] : most[e];
    }
    for (int e = 0; e < EACH; e++)
        most[e] = cuda_lane_max(most[e]) + 0.0f; /* zeros of both signs become +0 */
    for (int key = 0; key < t.end; key += TILE) {
        t.template scores<SLICE>(score, s, key, false);
        for (int e = 0; e < EACH; e++)
            if (t.seen(e, key + t.lane))
                sum[e] = sum[e] + np_expf(score[e] - most[e]);
    }
    for (int e = 0; e < EACH; e++) {
        sum[e] = cuda_lane_total(sum[e]);
        if (blockIdx.y == 0 && t.lane == 0 && t.row + e < (int)t.h.queries) {
            float *to = stats + t.h.stats_offset + 2 * (t.row + e);
            to[0] = most[e];
            to[1] = sum[e];
        }
    }
    sums.begin();
    for (int key = 0; key < t.end; key += TILE) {
        t.template scores<SLICE>(score, s, key, false);
        for (int e = 0; e < EACH; e++)
            score[e] = t.seen(e, key + t.lane) ? probability(score[e], most[e], sum[e]) : 0.0f;
        sums.add(s, score, t.v, key, t.end, channel, width, key + TILE >= t.end);
    }
    sums.store(out + t.h.out_offset, t.h.ld_out, t.first, (int)t.h.queries, channel, width);
}

/* dq, and the sums a of all queries, for attend_keys. */
template <int SLICE>
static __global__ void __launch_bounds__(THREADS, 1)
    attend_queries(float *dq, float *all_a, const float *dout, const float *stats,
                   struct np_attention at, bool kept)
{
    NP_SHARED(attention_shared<SLICE>, shared, [1]);
    attention_shared<SLICE> &s = shared[0];
    NP_SHARED_DYNAMIC(float, strip);
    query_tile t(at, kept ? strip : nullptr);
    head_rows up = {dout + t.h.out_offset, t.h.ld_out, (int)t.h.queries};
    int channel = blockIdx.y * SLICE, width = (int)t.h.width;
    float p[EACH], dp[EACH], a[EACH] = {}, most[EACH], sum[EACH];
    tile_sums<SLICE> sums;
    for (int e = 0; e < EACH; e++) {
        int query = t.row + e < (int)t.h.queries ? t.row + e : (int)t.h.queries - 1;
        most[e] = stats[t.h.stats_offset + 2 * query];
        sum[e] = stats[t.h.stats_offset + 2 * query + 1];
    }
    for (int key = 0; key < t.end; key += TILE) {
        t.template scores<SLICE>(p, s, key, true);
        tile_dots<SLICE>(dp, s, up, t.first, t.v, key, width);
        for (int e = 0; e < EACH; e++)
            if (t.seen(e, key + t.lane))
                a[e] = np_fmaf(probability(p[e], most[e], sum[e]), dp[e], a[e]);
    }
    for (int e = 0; e < EACH; e++) {
        a[e] = cuda_lane_total(a[e]);
        if (blockIdx.y == 0 && t.lane == 0 && t.row + e < (int)t.h.queries)
            all_a[t.h.stats_offset / 2 + t.row + e] = a[e];
    }
    sums.begin();
    for (int key = 0; key < t.end; key += TILE) {
        t.template scores<SLICE>(p, s, key, false);
        tile_dots<SLICE>(dp, s, up, t.first, t.v, key, width);
        for (int e = 0; e < EACH; e++) {
            float ds = (probability(p[e], most[e], sum[e]) * (dp[e] - a[e])) * t.h.scale;
            p[e] = t.seen(e, key + t.lane) ? ds : 0.0f;
        }
        sums.add(s, p, t.k, key, t.end, channel, width, key + TILE >= t.end);
    }
    sums.store(dq + t.h.q_offset, t.h.ldq, t.first, (int)t.h.queries, channel, width);
}

/* dk and dv: rows are keys, lanes queries. */
template <int SLICE>
static __global__ void __launch_bounds__(THREADS, 1)
    attend_keys(float *dk, float *dv, const float *all_a, const float *dout, const float *stats,
                struct np_attention at)
{
    NP_SHARED(attention_shared<SLICE>, shared, [1]);
    attention_shared<SLICE> &s = shared[0];
    int first;
    const struct np_head h = head_of(at, at.keys, &first);
    int queries = (int)h.queries, keys = (int)h.keys, rows = (int)h.rows, width = (int)h.width;
    head_rows q = {h.q, h.ldq, queries}, k = {h.k, h.ldk, keys}, v = {h.v, h.ldk, keys};
    head_rows up = {dout + h.out_offset, h.ld_out, queries};
    int row = first + threadIdx.x / NP_WARP * EACH;
    int channel = blockIdx.y * SLICE, lane = threadIdx.x % NP_WARP;
    tile_sums<SLICE> k_sums, v_sums;
    k_sums.begin();
    v_sums.begin();
    for (int i = (int)np_queries_begin(&h, first); i < queries; i += TILE) {
        float p[EACH], ds[EACH];
        int query = i + lane < queries ? i + lane : queries - 1;
        const float *most_sum = stats + h.stats_offset + 2 * query;
        float a = all_a[h.stats_offset / 2 + query];
        tile_dots<SLICE>(p, s, k, first, q, i, width);
        tile_dots<SLICE>(ds, s, v, first, up, i, width);
        for (int e = 0; e < EACH; e++) {
            bool seen = row + e < (int)np_seen(&h, query);
            p[e] = probability(scored(h, p[e], query, row + e), most_sum[0], most_sum[1]);
            ds[e] = seen ? (p[e] * (ds[e] - a)) * h.scale : 0.0f;
            p[e] = seen ? p[e] : 0.0f;
        }
        v_sums.add(s, p, up, i, queries, channel, width, i + TILE >= queries);
        k_sums.add(s, ds, q, i, queries, channel, width, i + TILE >= queries);
    }
    v_sums.store(dv + h.k_offset, h.ldk, first, rows, channel, width);
    k_sums.store(dk + h.k_offset, h.ldk, first, rows, channel, width);
}

/* What offsets get: a block has a head of a sample, and goes through its queries in order. Queries
 * that lie equally far from keys are added by one warp, one after the other; their sums are in
 * shared memory if they are `kept` there. */
template <int SLICE>
static __global__ void __launch_bounds__(THREADS, 1)
    attend_offsets(float *drelative, const float *all_a, const float *dout, const float *stats,
                   struct np_attention at, bool kept)
{
    NP_SHARED(attention_shared<SLICE>, shared, [1]);
    attention_shared<SLICE> &s = shared[0];
    NP_SHARED_DYNAMIC(float, strip);
    const struct np_head h = np_head_at(&at, blockIdx.x);
    int queries = (int)h.queries, keys = (int)h.keys, width = (int)h.width;
    head_rows q = {h.q, h.ldq, queries}, k = {h.k, h.ldk, keys}, v = {h.v, h.ldk, keys};
    head_rows up = {dout + h.out_offset, h.ld_out, queries};
    int warp = threadIdx.x / NP_WARP, lane = threadIdx.x % NP_WARP;
    float *to = drelative + h.relative_offset, *sums = kept ? strip : to;
    for (size_t o = threadIdx.x; o < h.offsets; o += THREADS)
        sums[o] = 0.0f;
    for (int first = 0; first < queries; first += TILE)
        for (int key = 0; key < (int)np_keys_end(&h, first); key += TILE) {
            float p[EACH], dp[EACH];
            tile_dots<SLICE>(p, s, q, first, k, key, width);
            tile_dots<SLICE>(dp, s, up, first, v, key, width);
            for (int e = 0; e < EACH; e++) {
                int row = warp * EACH + e;
                int query = first + row < queries ? first + row : queries - 1;
                const float *most_sum = stats + h.stats_offset + 2 * query;
                float a = all_a[h.stats_offset / 2 + query];
                float score = scored(h, p[e], query, key + lane);
                s.weights[row][lane] = probability(score, most_sum[0], most_sum[1]) * (dp[e] - a);
            }
            __syncthreads();
            for (int i = first; warp == 0 && i < first + TILE && i < queries; i++) {
                if (key + lane < (int)np_seen(&h, i))
                    sums[np_offset(&h, i, key + lane)] += s.weights[i - first][lane];
                __syncwarp();
            }
        }
    __syncthreads();
    for (size_t o = threadIdx.x; kept && o < h.offsets; o += THREADS)
        to[o] = sums[o];
}

/* Blocks for tiles of `rows` of all heads, and for slices of channels. */
static dim3 grid_of(const struct np_attention *at, size_t rows, size_t slice)
{
    size_t width = at->width / at->heads;
    return dim3((unsigned)(np_head_count(at) * cuda_parts(rows, TILE)),
                (unsigned)cuda_parts(width, slice));
}

static size_t strip_bytes(const struct np_attention *at)
{
    size_t bytes = cuda_parts(at->keys, TILE) * TILE * TILE * sizeof(float);
    return bytes <= NP_ATTENTION_SCORES ? bytes : 0;
}

template <int SLICE>
static void launch_forward(const struct np_cuda_team *t, float *out, float *stats,
                           const struct np_attention *at)
{
    size_t strip = strip_bytes(at);
    auto kernel = attend<SLICE>;
    cuda_allow_shared<attend<SLICE>>(NP_ATTENTION_SCORES);
    NP_LAUNCH(t, kernel, grid_of(at, at->queries, SLICE), THREADS, strip, out, stats, *at,
              strip > 0);
}

template <int SLICE>
static void launch_offsets(const struct np_cuda_team *t, float *drelative, const float *a,
                           const float *dout, const float *stats, const struct np_attention *at)
{
    size_t offsets = np_offset_count(at->queries / at->across, at->across, at->causal);
    size_t bytes = offsets * sizeof(float);
    bytes = bytes <= NP_ATTENTION_OFFSETS ? bytes : 0;
    auto kernel = attend_offsets<SLICE>;
    cuda_allow_shared<attend_offsets<SLICE>>(NP_ATTENTION_OFFSETS);
    NP_LAUNCH(t, kernel, dim3((unsigned)np_head_count(at)), THREADS, bytes, drelative, a, dout,
              stats, *at, bytes > 0);
}

template <int SLICE>
static void launch_backward(const struct np_cuda_team *t, float *dq, float *dk, float *dv,
                            float *drelative, const float *dout, const float *stats,
                            const struct np_attention *at)
{
    size_t strip = strip_bytes(at);
    float *a = static_cast<float *>(t->team.scratch);
    auto for_queries = attend_queries<SLICE>;
    auto for_keys = attend_keys<SLICE>;
    cuda_allow_shared<attend_queries<SLICE>>(NP_ATTENTION_SCORES);
    NP_LAUNCH(t, for_queries, grid_of(at, at->queries, SLICE), THREADS, strip, dq, a, dout, stats,
              *at, strip > 0);
    NP_LAUNCH(t, for_keys, grid_of(at, at->keys, SLICE), THREADS, 0, dk, dv, a, dout, stats, *at);
    if (at->relative)
        launch_offsets<SLICE>(t, drelative, a, dout, stats, at);
}

void np_cuda_attention(struct np_team *team, float *out, float *stats,
                       const struct np_attention *at)
{
    if (at->width / at->heads <= 32)
        launch_forward<32>(cuda_team(team), out, stats, at);
    else
        launch_forward<64>(cuda_team(team), out, stats, at);
}

void np_cuda_attention_grad(struct np_team *team, float *dq, float *dk, float *dv, float *drelative,
                            const float *dout, const float *stats, const struct np_attention *at)
{
    if (at->width / at->heads <= 32)
        launch_backward<32>(cuda_team(team), dq, dk, dv, drelative, dout, stats, at);
    else
        launch_backward<64>(cuda_team(team), dq, dk, dv, drelative, dout, stats, at);
}
