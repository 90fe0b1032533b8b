/* Body of gemm_<isa>.c. Contracts stand in num/gemm.h.
 *
 * A tile goes along all slivers of B before the next one begins: its rows of A stay in the first
 * cache, a panel of B in the second. Where A is packed and an epilogue reads nothing, tiles go down
 * a sliver of B, which stays in the first, before the next one begins.
 */
#ifndef NP_NUM_GEMM_SIMD_H
#define NP_NUM_GEMM_SIMD_H

#include <string.h>

#include "num/chunk.h"
#include "num/gemm.h"
#include "num/gemm_finish.h"
#include "num/gemm_pack.h"
#include "num/gemm_tile.h"
#include "num/grid.h"
#include "num/simd.h"

/* Rows of C, and behind them, where sums are finished, those of the epilogue's matrices, the
 * residual's first. Returns how many there are. */
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

/* What lies under a row of tiles, to fetch before it is worked on. */
struct under {
    const float *const *row;
    size_t count;
    const float *rows[5 * HIGH];
};

static bool is_narrow(const struct np_tiles *g)
{
    return g->groups && g->groups->lanes > 0;
}

/* Whether that is C alone. */
static bool is_c_alone(const struct np_tiles *g)
{
    const struct np_finish *f = g->finish;
    return !is_narrow(g) && (!f || (f->plain && !f->epilogue->residual));
}

static void find_under(const struct np_tiles *g, struct under *u, size_t i, size_t h)
{
    bool alone = is_c_alone(g);
    u->row = alone ? (const float *const *)(g->c + i) : u->rows;
    u->count = alone ? h : rows_under(g, u->rows, i, h);
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

/* Columns of C that are worked on with tiles of one shape: at most so many vectors, rows. */
struct swath {
    struct np_share cols;
    size_t vectors, height;
};

/* Where a sliver of B begins, of which a tile has `width` columns. */
static const float *sliver_at(const struct np_tiles *g, size_t j, size_t number, size_t width,
                              size_t *step)
{
    bool tail = width < NR && g->tail;
    *step = tail ? NR : g->b_step;
    return tail ? g->tail : g->sliver > 0 ? g->b + number * g->sliver : g->b + j;
}

static enum left left_of(const struct np_tiles *g, const struct tile *t)
{
    if (t->strip)
        return STRIPS;
    return g->a_trans ? LINES : g->sliver > 0 ? ROWS : ROWS_DIRECT;
}

/* Aims at columns j .. j + width - 1, from sliver `number` of B on; a third vector is of the next.
 * Returns what computes such a tile. */
static tile_function *aim(const struct np_tiles *g, struct tile *t, size_t h, size_t number,
                          size_t width)
{
    size_t vectors = (width + NP_VW - 1) / NP_VW;
    t->b = sliver_at(g, t->j, number, np_min(width, NR), &t->b_step);
    t->last = width - (vectors - 1) * NP_VW;
    if (vectors > 2)
        t->b_last = sliver_at(g, t->j + NR, number + 1, width - NR, &t->last_step);
    if (!is_narrow(g))
        return tile_for(h, vectors, left_of(g, t), t->last);
    t->seen = width / g->groups->cols * g->groups->depth;
    return narrow_functions[h - 1][g->a_trans][width < NP_VW || t->seen < NP_VW];
}

/* Where the groups are, as a row of tiles goes along the columns. */
struct along {
    size_t at, apart, end; /* of A, from one to the next; the columns of one end */
    size_t group;          /* columns */
};

static struct along along_groups(const struct np_tiles *g, struct tile *t, struct swath s)
{
    const struct np_groups *groups = g->groups;
    struct along x = {.at = g->a_at + (g->a_trans ? t->row : 0), .end = s.cols.begin};
    x.group = s.cols.end - s.cols.begin;
    if (!groups)
        return x;
    x.group = groups->lanes > 0 ? groups->lanes : groups->cols;
    x.apart = x.group / groups->cols * groups->depth;
    if (groups->lanes > 0) {
        t->order = groups->order + (g->a_trans ? (g->channel + t->row) * NP_VW : 0);
        x.at = g->a_at - (g->a_trans ? g->channel : 0);
    }
    return x;
}

/* Rows of A to fetch for the next row of tiles; behind the last are none. */
static const float *const *next_rows_of(const struct np_tiles *g, const float **to, size_t begin)
{
    if (begin + MOST_AHEAD <= g->m)
        return g->a + begin;
    for (size_t r = 0; r < MOST_AHEAD; r++)
        to[r] = g->a[np_min(begin + r, g->m - 1)];
    return to;
}

/* Where the sums of a row of tiles wait to be finished. */
struct waiting {
    struct np_share cols;
    float out[MR * FINISHED];
};

/* The tile at column j, `width` wide, is next; those of groups are finished one by one, as they
 * need not begin where a vector ends. */
static void wait_for(struct waiting *w, struct tile *t, struct swath s, size_t width, bool groups)
{
    if (t->j == w->cols.end) {
        size_t end = t->j + (groups ? width : FINISHED);
        w->cols = (struct np_share){t->j, np_min(end, s.cols.end)};
        t->pitch = (np_share_count(w->cols) + NP_VW - 1) / NP_VW * NP_VW;
    }
    t->out = w->out + (t->j - w->cols.begin);
}

/* One row of tiles; strip: its A, if that is packed; `turns` of STEPS inner indices. */
static void tile_row(const struct np_tiles *g, struct tile *t, struct swath s, struct band band,
                     const float *strip, size_t turns)
{
    size_t i = band.row, h = band.height, j = s.cols.begin;
    _Alignas(64) float copy[HIGH * (NP_KC + NP_GEMM_PAD)];
    struct waiting waiting;
    const float *copied[HIGH], *after[MOST_AHEAD], *const *next = NULL;
    const struct np_finish *f = g->finish;
    struct under under;
    bool narrow = is_narrow(g), waits = f && !f->plain;
    size_t sliver = narrow ? g->groups->lanes : s.vectors * NP_VW, number = s.cols.begin / NR;
    waiting.cols.end = j;
    t->row = i;
    t->a = g->a_trans ? g->a : g->a + i;
    t->strip = strip;
    t->c = g->c + i;
    struct along x = along_groups(g, t, s);
    if (!g->a_trans)
        next = next_rows_of(g, after, i + h);
    find_under(g, &under, i, h);
    for (size_t r = 0; narrow && !g->a_trans && r < h; r++)
        under.rows[under.count++] = next[r] + g->a_at + g->stretch[g->stretches - 1].at;
    t->tiles = 1;
    if (f)
        t->residual = f->plain && f->epilogue->residual ? under.row + h : NULL;
    t->ahead = under.row;
    t->ahead_end = t->rows_end = under.row + under.count;
    for (size_t width; j < s.cols.end; j += width, number++) {
        t->j = j;
        t->next = NULL;
        if (j == x.end) {
            t->a_at = x.at;
            x.at += x.apart;
            x.end = np_min(j + x.group, s.cols.end);
            t->next = turns <= SHORT_SUM ? NULL : next;
            if (g->a_copied && !strip) {
                copy_rows(g, g->a + i, t->a_at, h, copy, copied);
                t->a = copied;
            }
        }
        width = np_min(sliver, x.end - j);
        /* What the sum is too short to fetch; where rows are short, memory is read in order. */
        for (size_t r = turns; g->n > s.vectors * NP_VW && r < under.count; r++)
            for (size_t c = 0; c < width; c += LINE)
                __builtin_prefetch(under.row[r] + j + c, 1);
        if (waits)
            wait_for(&waiting, t, s, width, g->groups);
        aim(g, t, h, number, width)(g, t);
        if (waits && j + width == waiting.cols.end)
            t->bad = v_or(t->bad, finish_tiles(f, waiting.out, i, h, waiting.cols.begin,
                                               np_share_count(waiting.cols)));
    }
}

/* Whether the columns are those of one tile, which needs nothing but its rows. */
static bool is_column(const struct np_tiles *g, struct swath s)
{
    return s.cols.end - s.cols.begin <= s.vectors * NP_VW && !g->a_trans && !g->a_copied &&
           !g->groups && is_c_alone(g);
}

/* All tiles of such columns. They are many, and short: what tile_row() finds for each row of tiles
 * is found once. */
static void tile_column(const struct np_tiles *g, struct tile *t, struct swath s, size_t turns)
{
    size_t tiles = (g->m + s.height - 1) / s.height, low = g->m / tiles, higher = g->m % tiles;
    const float *after[MOST_AHEAD];
    tile_function *run = NULL;
    t->strip = NULL;
    t->a_at = g->a_at;
    t->row = 0;
    t->j = s.cols.begin;
    for (size_t k = 0, h; k < tiles; k++, t->row += h) {
        size_t from = t->row, end;
        h = low + (k < higher);
        if (k == 0 || k == higher)
            run = aim(g, t, h, t->j / NR, s.cols.end - t->j);
        t->a = g->a + t->row;
        t->c = g->c + t->row;
        from += turns <= SHORT_SUM ? h : 0;
        end = np_min(from + h, g->m);
        t->ahead = (const float *const *)g->c + from;
        t->ahead_end = (const float *const *)g->c + end;
        t->next = turns <= SHORT_SUM ? NULL : next_rows_of(g, after, t->row + h);
        run(g, t);
    }
}

/* Tiles with packed A under each other, `width` columns from t->j on; under them is C alone. */
static void tile_strips(const struct np_tiles *g, struct tile *t, const float *strips,
                        const struct band *band, size_t count, size_t width, size_t turns)
{
    const float *const *rows = (const float *const *)g->c;
    t->a_at = g->a_at;
    t->rows_end = rows + g->m;
    for (size_t k = 0; k < count; k += t->tiles) {
        size_t i = band[k].row, h = band[k].height, from = turns <= SHORT_SUM ? i + h : i;
        t->row = i;
        t->c = g->c + i;
        t->strip = strips + k * STRIP_SIZE;
        t->ahead = rows + np_min(from, g->m);
        t->ahead_end = rows + np_min(from + h, g->m);
        for (t->tiles = 1; k + t->tiles < count && band[k + t->tiles].height == h;)
            t->tiles++;
        aim(g, t, h, t->j / NR, width)(g, t);
    }
}

/* Stretches that follow each other are one where A is packed. */
static size_t join_stretches(const struct np_tiles *g, struct np_stretch *to)
{
    size_t count = 0;
    for (const struct np_stretch *s = g->stretch; s < g->stretch + g->stretches; s++) {
        struct np_stretch *last = to + count - 1;
        if (count > 0 && !last->ends && last->from + last->count == s->from &&
            last->low == s->low && last->high == s->high) {
            last->count += s->count;
            last->ends = s->ends;
        } else {
            to[count++] = *s;
        }
    }
    return count;
}

/* All rows of tiles of some columns, with packed A. */
static void tile_packed(const struct np_tiles *g, struct tile *t, struct swath s,
                        const struct band *band, size_t tiles, size_t turns)
{
    _Alignas(64) float strips[NP_GEMM_PACKS_A ? STRIPS_AT_ONCE * STRIP_SIZE : 1];
    struct np_stretch stretch[NP_KC];
    struct np_tiles x = *g;
    size_t wide = s.vectors * NP_VW;
    bool alone = is_c_alone(g);
    x.stretch = stretch;
    x.stretches = join_stretches(g, stretch);
    for (size_t count; tiles > 0; tiles -= count, band += count) {
        count = np_min(STRIPS_AT_ONCE, tiles);
        pack_a(g, strips, band, count);
        struct coming coming = coming_a(g, band, count, s.cols.end - s.cols.begin);
        t->coming = &coming;
        for (t->j = s.cols.begin; alone && t->j < s.cols.end; t->j += wide)
            tile_strips(&x, t, strips, band, count, np_min(wide, s.cols.end - t->j), turns);
        for (size_t k = 0; !alone && k < count; k++)
            tile_row(&x, t, s, band[k], strips + k * STRIP_SIZE, turns);
    }
}

/* Cuts all rows in bands of about the same height. Returns how many there are. */
static size_t cut_rows(const struct np_tiles *g, struct band *band, size_t height)
{
    size_t count = (g->m + height - 1) / height, low = g->m / count, higher = g->m % count, row = 0;
    for (size_t k = 0; k < count; row += band[k++].height)
        band[k] = (struct band){row, low + (k < higher)};
    return count;
}

/* All rows of tiles of some columns. */
static void tile_rows(const struct np_tiles *g, struct tile *t, struct swath s, size_t turns)
{
    if (is_column(g, s)) {
        tile_column(g, t, s, turns);
        return;
    }
    struct band band[NP_GEMM_ROWS / LOW];
    size_t tiles = cut_rows(g, band, s.height), n = s.cols.end - s.cols.begin;
    if (NP_GEMM_PACKS_A && !g->groups && n >= PACKED_COLS)
        tile_packed(g, t, s, band, tiles, turns);
    else
        for (size_t k = 0; k < tiles; k++)
            tile_row(g, t, s, band[k], NULL, turns);
}

/* The columns that are left over where tiles are two vectors wide: they go with the last two. */
static size_t left_over(const struct np_tiles *g)
{
    size_t rest = g->n % NR;
    return WIDE > 2 && !g->groups && g->n > NR && rest > 0 && rest <= NP_VW ? NR + rest : 0;
}

bool NP_SIMD(np_gemm_tiles)(const struct np_tiles *g)
{
    size_t turns = 0, wide = left_over(g);
    struct swath most = {{0, g->n - wide}, 2, MR}, last = {{g->n - wide, g->n}, WIDE, LOW};
    struct tile t = {.bad = v_zero()};
    if (!g->groups && g->n <= NP_VW)
        most.height = HIGH;
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
