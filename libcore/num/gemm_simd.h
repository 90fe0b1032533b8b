/* Body of gemm_<isa>.c. Contracts stand in num/gemm.h.
 *
 * A tile goes along all slivers of B before the next one begins: its rows of A stay in the first
 * cache, a panel of B in the second.
 */
#ifndef NP_NUM_GEMM_SIMD_H
#define NP_NUM_GEMM_SIMD_H

#include <string.h>

#include "num/chunk.h"
#include "num/gemm.h"
#include "num/gemm_finish.h"
#include "num/gemm_pack.h"
#include "num/gemm_tile.h"
#include "num/simd.h"

/* The rows of C under a row of tiles; behind them, where sums are finished, those of the epilogue's
 * matrices, the residual's first. Returns how many there are. */
static size_t rows_under(const struct np_tiles *g, const float **to, size_t i, size_t h)
{
    const struct np_finish *f = g->finish;
    size_t count = 0;
    for (; count < h; count++)
        to[count] = g->c[i + count];
    if (!f)
        return count;
    const float *matrix[] = {f->epilogue->residual, f->epilogue->before, f->epilogue->kept};
    for (size_t m = 0; m < sizeof matrix / sizeof *matrix; m++)
        for (size_t r = 0; matrix[m] && r < h; r++)
            to[count++] = matrix[m] + f->row[i + r] * f->epilogue->ld + f->col;
    return count;
}

/* Rows of A under a row of tiles, after each other in the first cache. */
static void copy_rows(const struct np_tiles *g, const float *const *a, size_t h, float *copy,
                      const float **to)
{
    for (size_t r = 0; r < h; r++, copy += NP_KC + NP_GEMM_PAD) {
        for (size_t k = 0; k < g->stretches; k++)
            memcpy(copy + g->stretch[k].from, a[r] + g->stretch[k].at,
                   g->stretch[k].count * sizeof *copy);
        to[r] = copy;
    }
}

/* One row of tiles, h high, whose first row is row i. */
static void tile_row(const struct np_tiles *g, size_t i, size_t h, vf *bad)
{
    _Alignas(64) float out[MR * NR], copy[MR * (NP_KC + NP_GEMM_PAD)];
    const float *copied[MR], *next[AHEAD * LINE / STEPS], *ahead[4 * MR];
    const struct np_finish *f = g->finish;
    struct tile t = {.a = g->a_trans ? g->a : g->a + i, .row = i, .c = g->c + i, .bad = *bad};
    if (g->a_trans)
        t.a_at = g->a_at + i;
    for (size_t r = 0; !g->a_trans && r < AHEAD * LINE / STEPS; r++)
        next[r] = g->a[np_min(i + h + r, g->m - 1)];
    if (g->a_copied) {
        copy_rows(g, t.a, h, copy, copied);
        t.a = copied;
    }
    t.ahead = ahead;
    t.ahead_end = ahead + rows_under(g, ahead, i, h);
    if (f) {
        t.bias = f->epilogue->bias ? f->epilogue->bias + f->col : NULL;
        t.out = f->plain ? NULL : out;
        t.residual = f->plain && f->epilogue->residual ? ahead + h : NULL;
    }
    for (t.j = 0; t.j < g->n; t.j += NR) {
        size_t width = np_min(NR, g->n - t.j), vectors = width > NP_VW ? 2 : 1;
        bool tail = width < NR && g->tail;
        t.b = tail ? g->tail : g->b + t.j / NR * g->sliver;
        t.b_step = tail ? NR : g->b_step;
        t.last = width - (vectors - 1) * NP_VW;
        t.next = t.j == 0 && !g->a_trans ? next : NULL;
        tile_for(h, vectors, g->a_trans, t.last)(g, &t);
        if (t.out)
            t.bad = v_or(t.bad, finish_tile(f, out, i, h, t.j, width));
    }
    *bad = t.bad;
}

bool NP_SIMD(np_gemm_tiles)(const struct np_tiles *g)
{
    size_t tiles = (g->m + MR - 1) / MR;
    vf bad = v_zero();
    for (size_t i = 0, number = 0, h; i < g->m; i += h, number++) {
        h = g->m / tiles + (number < g->m % tiles);
        tile_row(g, i, h, &bad);
    }
    return !v_any(bad);
}

/* The stretches of a panel of kc inner indices in chunks of `step`. */
static size_t chunks(struct np_stretch *stretch, size_t kc, size_t step)
{
    size_t count = 0;
    for (size_t p = 0; p < kc; p += step)
        stretch[count++] = (struct np_stretch){p, np_min(step, kc - p), p, true, 0, SIZE_MAX};
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
