/* Rows of tiles whose A is packed, a part of num/gemm_simd.h.
 *
 * A few of them go down a sliver of B, which stays in the first cache, before the next one begins.
 * Where an epilogue is more than an addition, the sums of FINISHED columns wait where they are
 * stored, and are then finished.
 */
#ifndef NP_NUM_GEMM_STRIPS_H
#define NP_NUM_GEMM_STRIPS_H

#include "num/gemm_pack.h"
#include "num/gemm_rows.h"

#define UNDER 4 /* matrices: C, and those of an epilogue */

/* What lies under all rows of tiles: `each` rows for one of C, row of tiles after row of tiles. */
struct under_strips {
    const float *const *row;
    size_t each;
    const float *rows[NP_GEMM_PACKS_A ? UNDER * NP_GEMM_ROWS : 1];
};

static void find_under_strips(const struct np_tiles *g, struct under_strips *u,
                              const struct band *band, size_t tiles)
{
    size_t count = 0;
    u->row = (const float *const *)g->c;
    u->each = 1;
    if (is_c_alone(g))
        return;
    for (size_t k = 0; k < tiles; k++)
        count += rows_under(g, u->rows + count, band[k].row, band[k].height);
    u->row = u->rows;
    u->each = count / g->m;
}

/* Rows of tiles that are worked on together: those of one height under each other are a run. */
struct strips {
    struct tile run[2];
    size_t height[2], runs, tiles;
};

static void find_runs(const struct np_tiles *g, struct strips *s, const struct tile *t,
                      const struct under_strips *under, const struct band *band, size_t count,
                      size_t turns)
{
    bool residual = g->finish && g->finish->plain && g->finish->epilogue->residual;
    s->runs = 0;
    s->tiles = count;
    for (size_t k = 0; k < count; k += s->run[s->runs++].tiles) {
        size_t i = band[k].row, h = band[k].height, from = turns <= SHORT_SUM ? i + h : i;
        struct tile *run = &s->run[s->runs];
        s->height[s->runs] = h;
        *run = *t;
        for (run->tiles = 1; k + run->tiles < count && band[k + run->tiles].height == h;)
            run->tiles++;
        run->row = i;
        run->c = g->c + i;
        run->strip = t->strip + k * STRIP_SIZE;
        run->each = under->each;
        run->residual = residual ? under->row + h : NULL;
        run->ahead = under->row + under->each * np_min(from, g->m);
        run->ahead_end = under->row + under->each * np_min(from + h, g->m);
        run->rows_end = under->row + under->each * g->m;
    }
}

/* A sliver of B, packed; the one after it is fetched while there is work with this one. */
static void copy_sliver(const struct np_tiles *g, float *dst, struct coming *coming,
                        struct np_share cols, size_t tiles)
{
    const struct np_stretch *last = g->stretch + g->stretches - 1;
    const float *b = g->b + cols.begin;
    size_t depth = last->from + last->count, width = np_min(NR, cols.end - cols.begin);
    size_t low = np_min(NP_VW, width), high = width - low;
    coming->b = b + NR;
    coming->b_step = g->b_step;
    coming->lines = cols.end - cols.begin > NR ? depth : 0;
    coming->each = (depth + tiles - 1) / tiles;
    for (size_t p = 0; p < depth; p++, b += g->b_step, dst += NR) {
        v_store(dst, v_load_n(b, low));
        v_store(dst + NP_VW, v_load_n(b + low, high));
    }
}

/* All tiles of some columns. */
static void tile_slivers(const struct np_tiles *g, struct strips *s, struct np_share cols)
{
    _Alignas(64) float copy[NP_GEMM_PACKS_A ? NP_KC * NR : 1];
    struct np_tiles x = *g;
    if (g->strips) {
        x.b = copy;
        x.b_step = NR;
        x.sliver = sizeof copy / sizeof *copy;
    }
    for (size_t j = cols.begin; j < cols.end; j += NR) {
        size_t number = g->strips ? 0 : j / NR;
        if (g->strips)
            copy_sliver(g, copy, s->run[0].coming, (struct np_share){j, cols.end}, s->tiles);
        for (size_t r = 0; r < s->runs; r++) {
            s->run[r].j = j;
            aim(&x, &s->run[r], s->height[r], number, np_min(NR, cols.end - j))(&x, &s->run[r]);
        }
    }
}

/* The epilogue of the sums in a row of tiles, as finish_row(). */
static vf finish_band(const struct np_tiles *g, struct band band, struct np_share cols)
{
    vf bad = v_zero();
    for (size_t i = band.row; i < band.row + band.height; i++)
        bad = v_or(
            bad, finish_row(g->finish, g->c[i] + cols.begin, i, cols.begin, np_share_count(cols)));
    return bad;
}

/* All tiles of some columns, and what happens to their sums. */
static void tile_and_finish(const struct np_tiles *g, struct tile *t, struct strips *s,
                            struct np_share cols, const struct band *band, size_t count)
{
    for (struct np_share part = {cols.begin, 0}; part.begin < cols.end; part.begin = part.end) {
        part.end = np_min(part.begin + FINISHED, cols.end);
        tile_slivers(g, s, part);
        for (size_t k = 0; k < count; k++)
            t->bad = v_or(t->bad, finish_band(g, band[k], part));
    }
}

/* Stretches that follow each other are one where A is packed. */
static size_t join_stretches(const struct np_tiles *g, struct np_stretch *to)
{
    size_t count = 0;
    for (const struct np_stretch *s = g->stretch; s < g->stretch + g->stretches; s++) {
        struct np_stretch *last = to + count - 1;
        if (count > 0 && !last->ends && last->from + last->count == s->from &&
            last->rows == s->rows) {
            last->count += s->count;
            last->ends = s->ends;
        } else {
            to[count++] = *s;
        }
    }
    return count;
}

/* All rows of tiles of some columns. */
static void tile_packed(const struct np_tiles *g, struct tile *t, struct np_share cols,
                        const struct band *band, size_t tiles, size_t turns)
{
    _Alignas(64) float few[NP_GEMM_PACKS_A ? STRIPS_AT_ONCE * STRIP_SIZE : 1];
    float *a = g->strips ? g->strips : few;
    struct under_strips under;
    struct np_stretch stretch[NP_KC];
    struct np_tiles x = *g;
    x.stretch = stretch;
    x.stretches = join_stretches(g, stretch);
    find_under_strips(g, &under, band, tiles);
    for (size_t count; tiles > 0; tiles -= count, band += count) {
        struct strips s;
        count = np_min(g->strips ? MOST_STRIPS : STRIPS_AT_ONCE, tiles);
        pack_a(g, a, band, count);
        struct coming coming = coming_a(g, band, count, np_share_count(cols));
        t->coming = &coming;
        t->strip = a;
        t->a_at = g->a_at;
        find_runs(&x, &s, t, &under, band, count, turns);
        if (g->finish && !g->finish->plain)
            tile_and_finish(&x, t, &s, cols, band, count);
        else
            tile_slivers(&x, &s, cols);
        for (size_t r = 0; r < s.runs; r++)
            t->bad = v_or(t->bad, s.run[r].bad);
    }
}

#endif
