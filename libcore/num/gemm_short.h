/* Tiles with short sums, a part of num/gemm_simd.h: rows of A in place, B packed.
 *
 * What is done for a tile besides its sum takes as long as that, so it is done once for all tiles
 * of a shape beside and under each other, and their sums fetch nothing but rows of C. Where a tile
 * is as wide as C, an epilogue may follow, and what that reads is fetched, too.
 */
#ifndef NP_NUM_GEMM_SHORT_H
#define NP_NUM_GEMM_SHORT_H

#include "num/gemm_rows.h"

#define SHORT_STEPS 8 /* inner indices for two prefetched rows of C */
#define APART_AHEAD 3 /* tiles */

NP_INLINE const float *const *fetch_two(struct shape s, const struct tile *t,
                                        const float *const *ahead)
{
    size_t last = t->j + s.vectors * NP_VW - 1;
    __builtin_prefetch(ahead[0] + last, 1);
    if (s.h % 2 == 0 || ahead + 1 < t->ahead_end)
        __builtin_prefetch(ahead[1] + last, 1);
    return ahead + 2;
}

/* The sum of a tile, one chunk. Loops stay as they are written: gcc would move sums between
 * registers from one to the next. */
NP_INLINE void sum_short(struct sums *acc, struct shape s, const struct np_tiles *g,
                         const struct tile *t)
{
    const struct np_stretch *stretch = g->stretch, *end = stretch + g->stretches;
    const float *const *ahead = t->ahead;
    struct cursor at;
    NP_UNROLL
    for (size_t i = 0; i < s.h; i++)
        at.row[i] = t->a[i] + t->a_at;
    for (; stretch < end; stretch++) {
        size_t left = stretch->count;
        at.b = t->b + stretch->from * NR;
        at.b_last = s.vectors > 2 ? t->b_last + stretch->from * NR : NULL;
        at.along = stretch->at;
        for (; left >= SHORT_STEPS; left -= SHORT_STEPS) {
            if (ahead < t->ahead_end)
                ahead = fetch_two(s, t, ahead);
            NP_UNROLL
            for (size_t u = 0; u < SHORT_STEPS; u++)
                step(acc, s, t, &at, false);
        }
        ROLLED
        for (; left > 0; left--)
            step(acc, s, t, &at, false);
    }
}

/* t->tiles of them under each other, and those beside them to column `end`, made of a copy, as in
 * tile_down(). Where all of C is one tile wide, it is written in the order of memory. bare: of no
 * epilogue, as most are; a constant, as what others need makes these slower. */
NP_INLINE void tiles_short(struct shape s, bool bare, const struct np_tiles *g, struct tile *t,
                           size_t end)
{
    bool fetches = g->n > s.vectors * NP_VW;
    struct tile x = *t;
    struct sums acc;
    x.pitch = s.vectors * NP_VW;
    if (bare) {
        x.residual = NULL;
        x.out = NULL;
    }
    for (size_t k = 0; k < t->tiles; k++) {
        x.ahead = (const float *const *)x.c + s.h;
        x.ahead_end = x.ahead + (fetches && k + 1 < t->tiles ? s.h : 0);
        x.b = t->b;
        if (!bare)
            fetch_finish(g, &x, s.h, end - t->j);
        for (x.j = t->j; x.j < end; x.j += s.vectors * NP_VW, x.b += g->sliver) {
            clear(&acc, s);
            sum_short(&acc, s, g, &x);
            finish_sums(&acc, s, &x);
        }
        if (!bare) {
            x.j = t->j;
            finish_tile(g, &x, s.h, end - t->j);
            x.row += s.h;
        }
        x.a += s.h;
        x.c += s.h;
    }
    t->bad = x.bad;
}

typedef void short_function(const struct np_tiles *, struct tile *, size_t end);
#define SHORT_NAME(h, vectors, last) short_##h##_##vectors##_##last
#define SHORT_TILE(h, vectors, last)                                                               \
    static void SHORT_NAME(h, vectors, last)(const struct np_tiles *g, struct tile *t, size_t end) \
    {                                                                                              \
        tiles_short((struct shape){h, vectors, 0, ROWS_SHORT, false, last}, true, g, t, end);      \
    }
#define FINISHED_NAME(h, last) finished_##h##_##last
#define FINISHED_TILE(h, last)                                                                     \
    static void FINISHED_NAME(h, last)(const struct np_tiles *g, struct tile *t, size_t end)       \
    {                                                                                              \
        tiles_short((struct shape){h, 1, 0, ROWS_SHORT, false, last}, false, g, t, end);           \
    }
#define FINISHED_TILES(h) FINISHED_TILE(h, LAST_WHOLE) FINISHED_TILE(h, LAST_PART)
#define SHORT_TILES(h, v) SHORT_TILE(h, v, LAST_WHOLE) SHORT_TILE(h, v, LAST_PART)
#define SHORT_TILES_1(h) SHORT_TILES(h, 1)
#define SHORT_TILES_2(h) SHORT_TILES(h, 2)
#define SHORT_TILES_3(h) SHORT_TILES(h, 3)
#if SHORT_ROWS > 0
#define WIDE_HEIGHTS(X) HEIGHTS(X)
#else
#define WIDE_HEIGHTS(X)
#endif
HEIGHTS(SHORT_TILES_1)
MORE_HEIGHTS(SHORT_TILES_1)
WIDE_HEIGHTS(SHORT_TILES_2)
LOW_HEIGHTS(SHORT_TILES_3)

#define SHORT_LASTS(h, v) SHORT_NAME(h, v, LAST_WHOLE), SHORT_NAME(h, v, LAST_PART)
#define SHORT_1(h) [h - 1][0] = {SHORT_LASTS(h, 1)},
#define SHORT_2(h) [h - 1][1] = {SHORT_LASTS(h, 2)},
#define SHORT_3(h) [h - 1][2] = {SHORT_LASTS(h, 3)},
/* [height - 1][vectors - 1][in part] */
static short_function *const short_functions[HIGH][WIDE][2] = {
    HEIGHTS(SHORT_1) MORE_HEIGHTS(SHORT_1) WIDE_HEIGHTS(SHORT_2) LOW_HEIGHTS(SHORT_3)};

#if SHORT_FINISHES
HEIGHTS(FINISHED_TILES)
#define FINISHED_1(h) [h - 1] = {FINISHED_NAME(h, LAST_WHOLE), FINISHED_NAME(h, LAST_PART)},
static short_function *const finished_functions[HIGH][2] = {HEIGHTS(FINISHED_1)};
#else
static short_function *const finished_functions[HIGH][2] = {{NULL}};
#endif

/* Whether all sums are such, of `turns` of STEPS and one chunk; and then but stored, unless there
 * are tiles that finish them, one vector wide. */
static bool is_short(const struct np_tiles *g, size_t turns)
{
    if (turns > (g->n <= NP_VW ? SHORT_COLUMN : SHORT_ROWS))
        return false;
    if (g->a_trans || g->a_copied || g->groups)
        return false;
    for (size_t k = 0; k + 1 < g->stretches; k++)
        if (g->stretch[k].ends)
            return false;
    if (!is_c_alone(g) && !(SHORT_FINISHES && g->n <= NP_VW))
        return false;
    return g->sliver > 0 && g->first && (g->finish || (SHORT_SMALL && g->small));
}

/* Asks for rows of A, as far as there are. Not a function that could be taken for one without
 * effect. */
NP_INLINE void fetch_rows(const struct np_tiles *g, const float *const *row, size_t count)
{
    const float *const *end = row + np_min(count, (size_t)(g->a + g->m - row));
    for (; row < end; row++)
        for (size_t c = 0; c < g->stretch[0].count; c += LINE)
            __builtin_prefetch(*row + g->a_at + g->stretch[0].at + c);
}

/* Runs tiles whose rows of A have gaps between them, of which processors foresee too little: one by
 * one, while those of a later one are asked for. */
static void short_apart(const struct np_tiles *g, struct tile *t, size_t h, size_t end,
                        short_function *run)
{
    struct tile one = *t;
    one.tiles = 1;
    for (size_t k = 0; k < t->tiles; k++, one.row += h, one.a += h, one.c += h) {
        if (one.row + APART_AHEAD * h < g->m)
            fetch_rows(g, one.a + APART_AHEAD * h, h);
        one.j = t->j;
        run(g, &one, end);
    }
    t->bad = one.bad;
}

/* Those of one height under each other: of the columns, first whole tiles, then the rest. */
static void tile_short_run(const struct np_tiles *g, struct tile *t, struct swath s, size_t h)
{
    size_t whole = s.vectors * NP_VW, count = np_share_count(s.cols) / whole * whole, width;
    const bool apart = g->m > 1 && g->a[0] + g->stretch[0].count < g->a[1];
    for (size_t j = s.cols.begin, end; j < s.cols.end; j = end) {
        end = count > 0 && j == s.cols.begin ? j + count : s.cols.end;
        width = np_min(whole, end - j);
        t->j = j;
        aim(g, t, h, j / NR, width);
        short_function *run = t->out || t->residual
                                  ? finished_functions[h - 1][t->last < NP_VW]
                                  : short_functions[h - 1][(width - 1) / NP_VW][t->last < NP_VW];
        if (apart)
            short_apart(g, t, h, end, run);
        else
            run(g, t, end);
    }
}

/* All tiles of some columns: the higher ones, then those that are a row lower. */
static void tile_short(const struct np_tiles *g, struct tile *t, struct swath s)
{
    size_t tiles = (g->m + s.height - 1) / s.height, low = g->m / tiles, higher = g->m % tiles;
    struct column_finish finish;
    prepare_finish(g, t, &finish);
    t->strip = NULL;
    t->row = 0;
    t->a_at = g->a_at;
    t->a = g->a;
    t->c = g->c;
    t->tiles = higher;
    if (higher > 0)
        tile_short_run(g, t, s, low + 1);
    t->row += higher * (low + 1);
    t->a += higher * (low + 1);
    t->c += higher * (low + 1);
    t->tiles = tiles - higher;
    tile_short_run(g, t, s, low);
}

#endif
