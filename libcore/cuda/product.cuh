/* Matrix products in tiles, for whatever can be read as two matrices: C = A B by chunked sums
 * (cuda/product_tile.cuh). The shape of the tiles, and whether chunks are summed apart, is what is
 * expected to cost least; it changes no bit.
 */
#ifndef NP_CUDA_PRODUCT_CUH
#define NP_CUDA_PRODUCT_CUH

#include "cuda/product_tile.cuh"

/* Every quad of columns of a problem begins at a multiple of 16 bytes. */
static inline bool columns_in_quads(const float *p, size_t ld, size_t columns)
{
    return (uintptr_t)p % sizeof(float4) == 0 && ld % 4 == 0 && columns % 4 == 0;
}

/* The sizes that a launch is chosen by: the largest problem of the batch. */
struct product_size {
    size_t m, n, k, grain, problems;
    bool equal; /* all problems have these sizes: chunks may be summed apart */
};

/* Multiprocessors of a large GPU. A constant, so that the same launches are made everywhere; tests
 * vary it, to try all. */
#ifndef PRODUCT_PROCESSORS
#define PRODUCT_PROCESSORS 132
#endif

/* About the nanoseconds of a launch. */
template <class Tile> static inline double tile_cost(const product_size &size, size_t parts)
{
    size_t tiles = cuda_parts(size.m, Tile::BM) * cuda_parts(size.n, Tile::BN) * size.problems;
    double busy = (double)cuda_parts(tiles * parts, PRODUCT_PROCESSORS) * Tile::EACH;
    return (busy > Tile::ALONE ? busy : Tile::ALONE) * (double)size.k / 256 / (double)parts;
}

/* And of adding chunks: a launch, and what they are read and written at. */
static inline double add_cost(const product_size &size, size_t parts)
{
    return 4000 + 8e-4 * (double)(size.m * size.n * size.problems * parts);
}

template <class Source, class Tile>
static void launch_multiply(const struct np_cuda_team *team, const Source &source,
                            product_output out, const product_size &size)
{
    out.high = (unsigned)cuda_parts(size.m, Tile::BM);
    dim3 grid(out.high * (unsigned)cuda_parts(size.n, Tile::BN), 1,
              (unsigned)size.problems * out.parts);
    bool waits = !out.chunks && product_chunks((int)size.k, (int)size.grain) > 1;
    size_t bytes = waits || !(out.plain || out.chunks) ? Tile::sums_bytes : 0;
    auto kernel = multiply<Source, Tile>;
    cuda_allow_shared<multiply<Source, Tile>>((int)Tile::sums_bytes);
    NP_LAUNCH(team, kernel, grid, Tile::threads, bytes, source, out);
}

template <class Source, class Tile>
static void launch_tile(const struct np_cuda_team *team, const Source &source,
                        const product_output &out, const product_size &size)
{
    if constexpr (Source::may_be_whole) {
        if (source.aligned && size.m % Tile::BM == 0 && size.n % Tile::BN == 0 &&
            size.k % Tile::BK == 0 && size.grain % Tile::BK == 0) {
            launch_multiply<typename Source::when_whole, Tile>(team, source.as_whole(Tile::BK), out,
                                                               size);
            return;
        }
    }
    launch_multiply<Source, Tile>(team, source, out, size);
}

using tile_large = product_tile<128, 128, 8, 8, 8, 2, 28000, 26000>;
using tile_tall = product_tile<128, 32, 16, 8, 4, 3, 15000, 10800>;
using tile_medium = product_tile<64, 64, 16, 8, 4, 4, 11500, 8200>;
using tile_quick = product_tile<64, 64, 16, 4, 4, 3, 10000, 9400>;
using tile_small = product_tile<32, 32, 16, 4, 4, 8, 6200, 3050>;

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
    int shape = -1;
    const struct np_epilogue &e = out.epilogue;
    out.verdict = t->verdict;
    out.plain = !e.bias && !e.before && !e.residual && e.act == NP_ACT_NONE;
    out.quads = columns_in_quads(out.c, out.ld, size.n);
    out.parts = 1;
    if (size.m == 0 || size.n == 0 || size.problems == 0)
        return true;
    for (int cut = 0; cut <= apart; cut++) {
        size_t parts = cut ? chunks : 1;
        const double cost[] = {
            tile_cost<tile_large>(size, parts), tile_cost<tile_tall>(size, parts),
            tile_cost<tile_medium>(size, parts), tile_cost<tile_quick>(size, parts),
            tile_cost<tile_small>(size, parts)};
        double more = cut ? add_cost(size, parts) : 0;
        for (int i = 0; i < 5; i++)
            if (shape < 0 || cost[i] + more < best) {
                best = cost[i] + more;
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
    case 3:
        launch_tile<Source, tile_quick>(t, source, out, size);
        break;
    default:
        launch_tile<Source, tile_small>(t, source, out, size);
        break;
    }
    if (out.chunks) {
        auto kernel = add_chunks<Source>;
        dim3 grid(cuda_blocks(cuda_parts(size.m * size.n, NP_BLOCK), NP_BLOCKS_MOST), 1,
                  (unsigned)size.problems);
        NP_LAUNCH(t, kernel, grid, NP_BLOCK, 0, source, out);
    }
    return true;
}

#endif
