/* Body of gemm_<isa>.c. Contracts stand in num/gemm.h. */
#ifndef NP_NUM_GEMM_SIMD_H
#define NP_NUM_GEMM_SIMD_H

#include "num/chunk.h"
#include "num/gemm.h"
#include "num/gemm_rows.h"
#include "num/gemm_short.h"
#include "num/gemm_strips.h"
#include "num/simd.h"

/* Cuts all rows in bands of about the same height. Returns how many there are. */
static size_t cut_rows(const struct np_tiles *g, struct band *band, size_t height)
{
    size_t count = (g->m + height - 1) / height, low = g->m / count, higher = g->m % count, row = 0;
    for (size_t k = 0; k < count; row += band[k++].height)
        band[k] = (struct band){row, low + (k < higher)};
    return count;
}

static bool pays_to_pack(const struct np_tiles *g, size_t n)
{
    bool pieces = g->a_trans || g->stretches > 1;
    return NP_GEMM_PACKS_A && !g->groups && n >= (pieces ? PACKED_COLS : WHOLE_COLS);
}

/* All rows of tiles of some columns. */
static void tile_rows(const struct np_tiles *g, struct tile *t, struct swath s, size_t turns)
{
    if (is_short(g, turns)) {
        tile_short(g, t, s);
        return;
    }
    if (is_column(g, s)) {
        tile_column(g, t, s, turns);
        return;
    }
    struct band band[NP_GEMM_ROWS / LOWEST];
    size_t tiles = cut_rows(g, band, s.height);
    if (pays_to_pack(g, np_share_count(s.cols)))
        tile_packed(g, t, s.cols, band, tiles, turns);
    else
        for (size_t k = 0; k < tiles; k++)
            tile_row(g, t, s, band[k], turns);
}

/* The columns that are left over where tiles are two vectors wide: they go with the last two. */
static size_t left_over(const struct np_tiles *g)
{
    size_t rest = g->n % NR;
    bool may = WIDE > 2 && !g->groups && !g->strips;
    return may && g->n > NR && rest > 0 && rest <= NP_VW ? NR + rest : 0;
}

bool NP_SIMD(np_gemm_tiles)(const struct np_tiles *g)
{
    size_t turns = 0, wide = left_over(g);
    struct swath most = {{0, g->n - wide}, 2, MR}, last = {{g->n - wide, g->n}, WIDE, LOW};
    struct tile t = {.bad = v_zero()};
    if (!g->groups && g->n <= NP_VW)
        most.height = !g->a_trans ? COLUMN_HIGH : g->n > NP_VW / 2 ? TALL : HIGH;
    if (g->finish && g->finish->epilogue->bias)
        t.bias = g->finish->epilogue->bias + g->finish->col;
    for (size_t k = 0; k < g->stretches; k++)
        turns += g->stretch[k].count / STEPS;
    turns = turns > 0 ? turns : 1;
    if (wide < g->n)
        tile_rows(g, &t, most, turns);
    if (wide > 0)
        tile_rows(g, &t, last, turns);
    return !v_any(t.bad);
}

/* The stretches of a panel of kc inner indices in chunks of `step`. */
static size_t chunks(struct np_stretch *stretch, size_t kc, size_t step)
{
    size_t count = 0;
    for (size_t p = 0; p < kc; p += step)
        stretch[count++] = (struct np_stretch){p, np_min(step, kc - p), p, true, NP_GEMM_ALL};
    return count;
}

void NP_SIMD(np_gemm_run)(const struct np_gemm *g)
{
    struct np_stretch stretch[NP_KC];
    const float *a[NP_GEMM_ROWS];
    float *c[NP_GEMM_ROWS];
    bool trans = g->a_col != 1;
    struct np_tiles x = {.n = g->n, .a = a, .a_trans = trans, .stretch = stretch, .c = c};
    x.stretches = chunks(stretch, g->kc, g->step);
    x.b = g->b;
    x.b_step = NR;
    x.sliver = g->sliver;
    x.first = g->first;
    x.small = true;
    for (size_t p = 0; trans && p < g->kc; p++)
        a[p] = g->a + p * g->a_col;
    for (size_t i = 0; i < g->m; i += x.m) {
        x.m = np_min(NP_GEMM_ROWS, g->m - i);
        x.a_at = i;
        for (size_t r = 0; r < x.m; r++) {
            c[r] = g->c + (i + r) * g->ldc;
            if (!trans)
                a[r] = g->a + (i + r) * g->a_row;
        }
        NP_SIMD(np_gemm_tiles)(&x);
    }
}

#endif
