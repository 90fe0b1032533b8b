/* Rows of tiles whose A is read in place, a part of num/gemm_simd.h.
 *
 * A tile goes along all slivers of B before the next one begins: its rows of A stay in the first
 * cache, a panel of B in the second.
 */
#ifndef NP_NUM_GEMM_ROWS_H
#define NP_NUM_GEMM_ROWS_H

#include <string.h>

#include "num/chunk.h"
#include "num/gemm_finish.h"
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
    const float *rows[5 * TALL];
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
    if (g->across > 0)
        return window_functions[h - 1];
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

/* One row of tiles, of `turns` of STEPS inner indices; A is read in place. */
static void tile_row(const struct np_tiles *g, struct tile *t, struct swath s, struct band band,
                     size_t turns)
{
    size_t i = band.row, h = band.height, j = s.cols.begin;
    _Alignas(64) float copy[HIGH * (NP_KC + NP_GEMM_PAD)];
    struct waiting waiting;
    const float *copied[HIGH], *after[MOST_AHEAD], *const *next = NULL;
    const struct np_finish *f = g->finish;
    struct under under;
    bool narrow = is_narrow(g), waits = f && !f->plain;
    size_t sliver = narrow ? g->groups->lanes : s.vectors * NP_VW, number = s.cols.begin / NR;
    size_t below = np_min(h, g->m - i - h);
    waiting.cols.end = j;
    t->row = i;
    t->a = g->a_trans ? g->a : g->a + i;
    t->strip = NULL;
    t->each = 0;
    t->c = g->c + i;
    struct along x = along_groups(g, t, s);
    if (!g->a_trans)
        next = next_rows_of(g, after, i + h);
    find_under(g, &under, i, h);
    for (size_t r = 0; narrow && !g->a_trans && r < h; r++)
        under.rows[under.count++] = next[r] + g->a_at + g->stretch[g->stretches - 1].at;
    if (f)
        t->residual = f->plain && f->epilogue->residual ? under.row + h : NULL;
    t->ahead = under.row;
    t->ahead_end = under.row + under.count;
    for (size_t width, k = 0, tiles = 0; j < s.cols.end; j += width, number++, k++) {
        t->j = j;
        t->next = NULL;
        if (j == x.end) {
            t->a_at = x.at;
            t->next_at = x.at + h + below - 1;
            x.at += x.apart;
            x.end = np_min(j + x.group, s.cols.end);
            tiles = (x.end - j + sliver - 1) / sliver;
            k = 0;
            t->next = turns <= SHORT_SUM ? NULL : next;
            if (g->a_copied) {
                copy_rows(g, g->a + i, t->a_at, h, copy, copied);
                t->a = copied;
            }
        }
        width = np_min(sliver, x.end - j);
        /* What the sum is too short to fetch; where rows are short, memory is read in order. */
        for (size_t r = turns; g->n > s.vectors * NP_VW && r < under.count; r++)
            for (size_t c = 0; c < width; c += LINE)
                __builtin_prefetch(under.row[r] + j + c, 1);
        t->next_line = below > 0 && tiles >= STEPS ? k : STEPS;
        if (waits)
            wait_for(&waiting, t, s, width, g->groups);
        aim(g, t, h, number, width)(g, t);
        if (waits && j + width == waiting.cols.end)
            t->bad = v_or(t->bad, finish_rows(f, waiting.out, t->pitch, i, h, waiting.cols.begin,
                                              np_share_count(waiting.cols)));
    }
}

/* Whether the columns are those of one tile. */
static bool is_column(const struct np_tiles *g, struct swath s)
{
    return s.cols.end - s.cols.begin <= s.vectors * NP_VW && !g->a_trans && !g->a_copied &&
           !g->groups;
}

/* What tiles under each other need for their epilogues: the residual's rows, or room for the sums
 * of one. */
struct column_finish {
    const float *residual[NP_GEMM_ROWS];
    _Alignas(64) float out[MR * NR];
};

_Static_assert(HIGH <= 2 * MR && LOW * WIDE <= 2 * MR, "a buffer of MR x NR holds any tile");

static void prepare_finish(const struct np_tiles *g, struct tile *t, struct column_finish *x)
{
    const struct np_finish *f = g->finish;
    bool residual = f && f->plain && f->epilogue->residual;
    t->out = f && !f->plain ? x->out : NULL;
    t->residual = residual ? x->residual : NULL;
    t->each = 1;
    for (size_t i = 0; residual && i < g->m; i++)
        x->residual[i] = f->epilogue->residual + f->row[i] * f->epilogue->ld + f->col;
}

/* Asks for what an epilogue reads and writes beside C, two tiles further down. */
NP_INLINE void fetch_finish(const struct np_tiles *g, const struct tile *t, size_t h, size_t width)
{
    const struct np_epilogue *e = g->finish->epilogue;
    const size_t begin = t->row + 2 * h, end = np_min(begin + h, g->m);
    for (size_t r = begin; r < end; r++)
        for (size_t k = 0; k < width; k += LINE) {
            size_t at = g->finish->row[r] * e->ld + g->finish->col + t->j + k;
            if (e->before)
                __builtin_prefetch(e->before + at);
            if (e->residual)
                __builtin_prefetch(e->residual + at);
            if (e->kept)
                __builtin_prefetch(e->kept + at, 1);
        }
}

/* Finishes the sums of a tile that wait. */
NP_INLINE void finish_tile(const struct np_tiles *g, struct tile *t, size_t h, size_t width)
{
    if (t->out)
        t->bad = v_or(t->bad, finish_rows(g->finish, t->out, t->pitch, t->row, h, t->j, width));
}

/* All tiles of such columns. They are many, and short: what tile_row() finds for each row of tiles
 * is found once. */
static void tile_column(const struct np_tiles *g, struct tile *t, struct swath s, size_t turns)
{
    size_t tiles = (g->m + s.height - 1) / s.height, low = g->m / tiles, higher = g->m % tiles;
    const float *after[MOST_AHEAD];
    tile_function *run = NULL;
    struct column_finish finish;
    prepare_finish(g, t, &finish);
    t->pitch = (np_share_count(s.cols) + NP_VW - 1) / NP_VW * NP_VW;
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
        if (t->out || t->residual)
            fetch_finish(g, t, h, np_share_count(s.cols));
        run(g, t);
        finish_tile(g, t, h, np_share_count(s.cols));
    }
}

#endif
