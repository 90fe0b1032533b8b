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
static void copy_rows(const struct np_tiles *g, const float *const *a, size_t at, size_t h,
                      float *copy, const float **to)
{
    for (size_t r = 0; r < h; r++, copy += NP_KC + NP_GEMM_PAD) {
        for (size_t k = 0; k < g->stretches; k++)
            memcpy(copy + g->stretch[k].from, a[r] + at + g->stretch[k].at,
                   g->stretch[k].count * sizeof *copy);
        to[r] = copy;
    }
}

/* The tile's columns j .. j + width - 1, sliver `number` of B. */
static void run_tile(const struct np_tiles *g, struct tile *t, size_t h, size_t number,
                     size_t width)
{
    size_t vectors = width > NP_VW ? 2 : 1;
    bool tail = width < NR && g->tail;
    t->b = tail ? g->tail : g->sliver > 0 ? g->b + number * g->sliver : g->b + t->j;
    t->b_step = tail ? NR : g->b_step;
    t->last = width - (vectors - 1) * NP_VW;
    if (g->groups && g->groups->lanes > 0) {
        t->seen = width / g->groups->cols * g->groups->depth;
        narrow_functions[h - 1][g->a_trans][width < NP_VW || t->seen < NP_VW](g, t);
    } else {
        tile_for(h, vectors, t->strip ? STRIPS : g->a_trans ? LINES : ROWS, t->last)(g, t);
    }
}

/* One row of tiles; strip: its A, if that is packed, and so is what is coming; `turns` of STEPS
 * inner indices. */
static void tile_row(const struct np_tiles *g, struct band band, const float *strip,
                     struct coming *coming, size_t turns, vf *bad)
{
    size_t i = band.row, h = band.height;
    _Alignas(64) float out[MR * NR], copy[MR * (NP_KC + NP_GEMM_PAD)];
    const float *copied[MR], *next[AHEAD * LINE / STEPS], *ahead[5 * MR];
    const struct np_finish *f = g->finish;
    const struct np_groups *groups = g->groups;
    struct tile t = {.a = g->a_trans ? g->a : g->a + i, .strip = strip, .row = i};
    bool narrow = groups && groups->lanes > 0;
    size_t sliver = narrow ? groups->lanes : NR, group = narrow ? sliver : g->n;
    size_t at = g->a_at + (g->a_trans ? i : 0), apart = 0, end = 0, number = 0, width, count;
    if (groups) {
        group = narrow ? sliver : groups->cols;
        apart = group / groups->cols * groups->depth;
    }
    if (narrow) {
        t.order = groups->order + (g->a_trans ? (g->channel + i) * NP_VW : 0);
        at = g->a_at - (g->a_trans ? g->channel : 0);
    }
    for (size_t r = 0; !g->a_trans && r < AHEAD * LINE / STEPS; r++)
        next[r] = g->a[np_min(i + h + r, g->m - 1)];
    t.c = g->c + i;
    t.bad = *bad;
    count = rows_under(g, ahead, i, h);
    for (size_t r = 0; narrow && !g->a_trans && r < h; r++)
        ahead[count++] = next[r] + g->a_at + g->stretch[g->stretches - 1].at;
    t.ahead = ahead;
    t.ahead_end = ahead + count;
    if (f) {
        t.bias = f->epilogue->bias ? f->epilogue->bias + f->col : NULL;
        t.out = f->plain ? NULL : out;
        t.residual = f->plain && f->epilogue->residual ? ahead + h : NULL;
    }
    for (t.j = 0; t.j < g->n; t.j += width, number++) {
        t.next = NULL;
        if (t.j == end) {
            t.a_at = at;
            at += apart;
            end = np_min(end + group, g->n);
            t.next = g->a_trans ? NULL : next;
            if (g->a_copied && !strip) {
                copy_rows(g, g->a + i, t.a_at, h, copy, copied);
                t.a = copied;
            }
        }
        width = np_min(sliver, end - t.j);
        /* What the sum is too short to fetch; where rows are short, memory is read in order. */
        for (size_t r = turns; g->n > NR && r < count; r++)
            for (size_t c = 0; c < width; c += LINE)
                __builtin_prefetch(ahead[r] + t.j + c, 1);
        if (strip)
            fetch_coming(coming);
        run_tile(g, &t, h, number, width);
        if (t.out)
            t.bad = v_or(t.bad, finish_tile(f, out, i, h, t.j, width));
    }
    *bad = t.bad;
}

bool NP_SIMD(np_gemm_tiles)(const struct np_tiles *g)
{
    _Alignas(64) float strips[NP_GEMM_PACKS_A ? STRIPS_AT_ONCE * STRIP_SIZE : 1];
    struct band band[STRIPS_AT_ONCE];
    size_t tiles = (g->m + MR - 1) / MR, turns = 0, row = 0;
    bool packed = NP_GEMM_PACKS_A && !g->groups && g->n >= PACKED_COLS;
    struct coming coming = {0};
    vf bad = v_zero();
    for (size_t k = 0; k < g->stretches; k++)
        turns += g->stretch[k].count / STEPS;
    turns = turns > 0 ? turns : 1;
    for (size_t number = 0, count; number < tiles; number += count) {
        count = np_min(STRIPS_AT_ONCE, tiles - number);
        for (size_t k = 0; k < count; row += band[k++].height)
            band[k] = (struct band){row, g->m / tiles + (number + k < g->m % tiles)};
        if (packed) {
            pack_a(g, strips, band, count);
            coming = coming_a(g, band, count);
        }
        for (size_t k = 0; k < count; k++)
            tile_row(g, band[k], packed ? strips + k * STRIP_SIZE : NULL, &coming, turns, &bad);
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
