/* SIMD kernels of num/kernels.h: sums over rows, the transpose.
 *
 * Rows are read a block at a time, in which groups of columns are summed one after the other, their
 * sums in registers.
 */
#ifndef NP_NUM_COLUMNS_SIMD_H
#define NP_NUM_COLUMNS_SIMD_H

#include <string.h>

#include "num/chunk_sums.h"
#include "num/lanes.h"
#include "num/simd_loops.h"

#define COL_TILE 1024  /* columns whose sums are kept at a time */
#define COL_BLOCK 2048 /* floats of a block of rows, at least 4 rows: jumps that a cache bears */
#define COL_GROUP 8    /* vectors of columns that are summed together */
#define COL_NARROW 64  /* columns of rows so short that jumps from one to the next are foreseen */
#define COL_AHEAD 2048 /* floats ahead of those that are asked for */
#define COL_NEAR (1 << 20)  /* floats that a cache may still hold when they have been written ... */
#define COL_LARGE (1 << 22) /* ... and when they have been read since */
#define COL_APART 8192      /* floats that pay for members who meet twice */

/* What is summed: a; a * b; (a - mean)^2; a * (b * rstd) with rstd of rows; or two sums,
 * h = (b - mean) * rstd: a and a * h with mean and rstd of rows, the same with those of columns,
 * and with a times an activation's slope at fma(h, gamma, beta) for a. */
enum col_kind {
    COL_SUM,
    COL_DOT,
    COL_SQUARE,
    COL_SCALED,
    COL_ROWS,
    COL_PLAIN,
    COL_RELU,
    COL_RELU6,
    COL_HSWISH
};

/* Terms of rows that lie ld apart; far: of one array, in memory rather than in a cache. */
struct col_terms {
    const float *a, *b, *mean, *rstd, *gamma, *beta;
    size_t ld;
    bool far;
};

/* Whether one array is summed. */
NP_INLINE bool col_is_one(enum col_kind kind)
{
    return kind == COL_SUM || kind == COL_SQUARE;
}

/* Whether so many floats come from memory, where that matters. */
NP_INLINE bool col_is_far(enum col_kind kind, size_t floats)
{
    return col_is_one(kind) && floats > (kind == COL_SUM ? COL_NEAR : COL_LARGE);
}

/* Rows of a block of n columns. Groups jump from row to row, which caches bear, the next block of
 * one array being asked for; but what comes from memory comes several times as fast in the order of
 * its addresses, or nearly so, in which processors foresee what is wanted. Of two arrays they
 * foresee too little: it is asked for, in that order, wherever it is. */
NP_INLINE size_t col_rows_of_block(enum col_kind kind, size_t n, bool far)
{
    if (n > COL_NARROW && !col_is_one(kind))
        return np_min(COL_TILE / n, 32 / NP_VW);
    if (n > COL_NARROW && far)
        return n <= 2 * COL_NARROW ? 2 : 1;
    return COL_BLOCK / n > 4 ? COL_BLOCK / n : 4;
}

/* Whether what such blocks read is asked for ahead. Elsewhere it takes longer than it saves. */
NP_INLINE bool col_fetches(enum col_kind kind, size_t n, bool far)
{
    return col_is_one(kind) ? !far : n > COL_NARROW;
}

/* act'(u), kind saying which. */
NP_INLINE vf col_slope(enum col_kind kind, vf u)
{
    const vf one = v_set1(1.0f);
    if (kind == COL_HSWISH) {
        vf middle = v_fma(u, v_set1(NP_THIRD), v_set1(0.5f));
        return v_only(v_pick(v_set1(3.0f), u, one, middle), v_set1(-3.0f), u);
    }
    vf slope = v_only(one, v_zero(), u);
    return kind == COL_RELU6 ? v_only(slope, u, v_set1(6.0f)) : slope;
}

/* A cache line of each array that is summed, `ahead` of here. */
NP_INLINE void col_fetch(enum col_kind kind, const float *a, const float *b, size_t ahead)
{
    if (col_is_one(kind)) {
        __builtin_prefetch(a + ahead);
        return;
    }
    __builtin_prefetch(a + ahead, 0, 2); /* to the second cache */
    __builtin_prefetch(b + ahead, 0, 2);
}

/* One group: columns c .. c + (vectors - 1) * NP_VW + last - 1; sum and dot are those of column c.
 * fetch: what is wanted later is asked for. kind, fetch and vectors are constants. */
NP_INLINE void col_group(enum col_kind kind, bool fetch, size_t vectors, float *sum, float *dot,
                         const struct col_terms *t, size_t rows, size_t c, size_t last)
{
    const bool both = kind >= COL_ROWS, normed = kind > COL_ROWS, sloped = kind > COL_PLAIN;
    const size_t ahead = col_is_one(kind) ? rows * t->ld : COL_AHEAD;
    vf total[COL_GROUP], product[COL_GROUP], mean[COL_GROUP], rstd[COL_GROUP];
    vf gamma[COL_GROUP], beta[COL_GROUP];
    const float *a = t->a + c, *b = t->b + c;
    NP_UNROLL
    for (size_t g = 0; g < vectors; g++) {
        size_t n = g + 1 < vectors ? NP_VW : last;
        total[g] = v_load(sum + g * NP_VW);
        if (both)
            product[g] = v_load(dot + g * NP_VW);
        if (kind == COL_SQUARE || normed)
            mean[g] = v_load_n(t->mean + c + g * NP_VW, n);
        if (normed)
            rstd[g] = v_load_n(t->rstd + c + g * NP_VW, n);
        if (sloped) {
            gamma[g] = v_load_n(t->gamma + c + g * NP_VW, n);
            beta[g] = v_load_n(t->beta + c + g * NP_VW, n);
        }
    }
    for (size_t r = 0; r < rows; r++, a += t->ld, b += t->ld) {
        NP_UNROLL
        for (size_t g = 0; g < vectors; g++) {
            size_t n = g + 1 < vectors ? NP_VW : last;
            if (fetch && g * NP_VW % 16 == 0)
                col_fetch(kind, a + g * NP_VW, b + g * NP_VW, ahead);
            /* whole vectors without a mask: of masked loads not all processors foresee the next */
            vf x = lane_load(a + g * NP_VW, n), y = x;
            if (kind == COL_SQUARE)
                x = y = v_sub(x, mean[g]);
            else if (kind != COL_SUM)
                y = lane_load(b + g * NP_VW, n);
            if (kind == COL_ROWS)
                y = v_sub(y, v_set1(t->mean[r]));
            if (kind == COL_ROWS || kind == COL_SCALED)
                y = v_mul(y, v_set1(t->rstd[r]));
            if (normed)
                y = v_mul(v_sub(y, mean[g]), rstd[g]);
            if (sloped)
                x = v_mul(x, col_slope(kind, v_fma(y, gamma[g], beta[g])));
            if (kind != COL_SUM && !both)
                total[g] = v_fma(x, y, total[g]);
            else
                total[g] = v_add(total[g], x);
            if (both)
                product[g] = v_fma(x, y, product[g]);
        }
    }
    NP_UNROLL
    for (size_t g = 0; g < vectors; g++) {
        v_store(sum + g * NP_VW, total[g]);
        if (both)
            v_store(dot + g * NP_VW, product[g]);
    }
}

/* sum (and dot) += the terms of a block's rows, n columns from c on. Both have room for whole
 * vectors. */
NP_INLINE void col_block(enum col_kind kind, bool fetch, float *sum, float *dot,
                         const struct col_terms *t, size_t rows, size_t c, size_t n)
{
    const size_t most = kind >= COL_ROWS ? COL_GROUP / 2 : COL_GROUP;
    size_t j = 0;
    for (; j + most * NP_VW < n; j += most * NP_VW)
        col_group(kind, fetch, most, sum + j, dot + j, t, rows, c + j, NP_VW);
    for (size_t last; j < n; j += 4 * NP_VW) {
        last = np_min(n - j - 1, 4 * NP_VW - 1) % NP_VW + 1;
        if (n - j > 3 * NP_VW)
            col_group(kind, fetch, 4, sum + j, dot + j, t, rows, c + j, last);
        else if (n - j > 2 * NP_VW)
            col_group(kind, fetch, 3, sum + j, dot + j, t, rows, c + j, last);
        else if (n - j > NP_VW)
            col_group(kind, fetch, 2, sum + j, dot + j, t, rows, c + j, last);
        else
            col_group(kind, fetch, 1, sum + j, dot + j, t, rows, c + j, last);
    }
}

/* Chunked sums over rows: sum (and dot) of columns cols. */
NP_INLINE void col_chunks(enum col_kind kind, float *sum, float *dot, struct col_terms t,
                          size_t rows, struct np_share cols, size_t grain, bool accumulate)
{
    const bool both = kind >= COL_ROWS;
    _Alignas(64) float part[COL_TILE], part_dot[COL_TILE];
    for (size_t c = cols.begin, n; c < cols.end; c += n) {
        n = np_min(COL_TILE, cols.end - c);
        const size_t wide = (n + NP_VW - 1) / NP_VW * NP_VW;
        for (size_t begin = 0, end, count; begin < rows; begin = end) {
            end = np_chunk_end(begin, rows, grain);
            memset(part, 0, wide * sizeof *part);
            memset(part_dot, 0, both ? wide * sizeof *part_dot : 0);
            for (size_t r = begin; r < end; r += count) {
                struct col_terms block = t;
                count = np_min(col_rows_of_block(kind, n, t.far), end - r);
                block.a = t.a + r * t.ld;
                block.b = t.b ? t.b + r * t.ld : block.a;
                if (kind == COL_ROWS)
                    block.mean = t.mean + r;
                if (kind == COL_ROWS || kind == COL_SCALED)
                    block.rstd = t.rstd + r;
                if (col_fetches(kind, n, t.far))
                    col_block(kind, true, part, part_dot, &block, count, c, n);
                else
                    col_block(kind, false, part, part_dot, &block, count, c, n);
            }
            np_add_chunk(sum + c, part, n, begin, accumulate);
            if (both)
                np_add_chunk(dot + c, part_dot, n, begin, accumulate);
        }
    }
}

/* The caller's columns of one segment: in cache lines, if there are enough for all. */
static inline struct np_share col_share(const struct np_team *team, size_t cols)
{
    return np_team_share(team, cols, cols < 64 * (size_t)team->size ? 4 : NP_SHARE_UNIT);
}

/* What has a sum of its own: a segment, or a chunk of one where these are kept. Members read rows
 * that are next to each other, those that they wrote. Where whole units would not come out even,
 * each falls into parts, of columns, as many as its rows are worth: members share but one unit. */
struct col_units {
    size_t rows, length, each; /* of a segment; of a unit, but the last; units of a segment */
    size_t cols, parts, last;  /* of a unit; of the last one */
    size_t count;              /* of units */
    struct np_deal deal;       /* of all parts */
};

/* Whether whole units leave nobody with more than 17 rows for 16 of an even share. */
static bool col_units_even(const struct col_units *u, size_t size, size_t all)
{
    size_t most = 0;
    for (size_t rank = 0; rank < size; rank++) {
        size_t begin = u->count * rank / size, end = u->count * (rank + 1) / size;
        size_t rows = np_min(end * u->length, all) - np_min(begin * u->length, all);
        most = rows > most ? rows : most;
    }
    return 16 * most * size <= 17 * all;
}

static struct col_units col_units_of(struct np_team *team, size_t segments, size_t rows,
                                     size_t cols, enum np_sum how)
{
    size_t size = (size_t)team->size;
    struct col_units u = {.rows = rows, .length = rows, .each = 1, .cols = cols, .parts = 1};
    if (how == NP_SUM_CHUNKS) {
        u.length = NP_KC;
        u.each = np_chunks(rows);
    }
    u.count = segments * u.each;
    if (!col_units_even(&u, size, segments * rows))
        u.parts = 2 * size;
    u.last = u.parts;
    if (segments == 1) {
        size_t left = rows - (u.each - 1) * u.length;
        u.last = (u.parts * left + u.length - 1) / u.length;
    }
    u.deal = np_team_deal(team, (u.count - 1) * u.parts + u.last, 1);
    return u;
}

/* The caller's next columns of a unit; false if there are none left. */
static bool col_next_unit(struct col_units *u, size_t *unit, struct np_share *cols)
{
    struct np_team first = {.size = (int)u->parts}, last;
    struct np_share run;
    if (!np_deal_run(&u->deal, u->parts, &run))
        return false;
    *unit = run.begin / u->parts;
    if (*unit + 1 == u->count)
        first.size = (int)u->last;
    last = first;
    first.rank = (int)(run.begin % u->parts);
    last.rank = (int)((run.end - 1) % u->parts);
    *cols = (struct np_share){col_share(&first, u->cols).begin, col_share(&last, u->cols).end};
    return true;
}

/* The rows of unit i, of all segments' rows. */
static struct np_share col_unit(const struct col_units *u, size_t i)
{
    size_t first = i % u->each * u->length, begin = i / u->each * u->rows + first;
    return (struct np_share){begin, begin + np_min(u->length, u->rows - first)};
}

NP_INLINE void col_segments(enum col_kind kind, struct np_team *team, float *out, float *dot,
                            const struct col_terms *t, size_t segments, size_t rows, size_t grain,
                            enum np_sum how)
{
    struct col_units u = col_units_of(team, segments, rows, t->ld, how);
    struct np_share cols;
    for (size_t i; col_next_unit(&u, &i, &cols);) {
        struct np_share unit = col_unit(&u, i);
        struct col_terms part = *t;
        part.far = col_is_far(kind, segments * rows * t->ld);
        part.a = t->a + unit.begin * t->ld;
        part.b = t->b ? t->b + unit.begin * t->ld : NULL;
        part.mean = t->mean ? t->mean + i / u.each * t->ld : NULL;
        part.rstd = t->rstd ? t->rstd + i / u.each * t->ld : NULL;
        col_chunks(kind, out + i * t->ld, dot ? dot + i * t->ld : NULL, part, unit.end - unit.begin,
                   cols, grain, how == NP_SUM_ONTO);
    }
}

/* Of one segment, members may sum chunks rather than columns: rows that they wrote. */
struct col_shared {
    enum col_kind kind;
    struct col_terms terms;
    size_t cols;
};

static void col_shared_chunk(void *context, float *sums, struct np_share rows, struct np_share cols)
{
    const struct col_shared *c = context;
    const size_t count = rows.end - rows.begin;
    struct col_terms t = c->terms;
    t.a += rows.begin * t.ld;
    if (c->kind == COL_SUM) {
        col_chunks(COL_SUM, sums, NULL, t, count, cols, 0, false);
        return;
    }
    t.b += rows.begin * t.ld;
    t.rstd += rows.begin;
    if (c->kind == COL_SCALED) {
        col_chunks(COL_SCALED, sums, NULL, t, count, cols, 0, false);
        return;
    }
    t.mean += rows.begin;
    col_chunks(COL_ROWS, sums, sums + c->cols, t, count, cols, 0, false);
}

/* False, and nothing done, if it would not pay. */
static bool col_share_chunks(struct np_team *team, struct col_shared *c, float *out, float *dot,
                             size_t rows, size_t grain, bool accumulate)
{
    struct np_chunk_sums s = {.team = team, .out = out, .last = dot, .width = c->cols};
    s.cols.end = c->cols;
    s.lines = dot ? 2 : 1;
    s.count = rows;
    s.grain = grain;
    s.accumulate = accumulate;
    s.room = team->scratch_bytes / sizeof(float);
    s.sum = col_shared_chunk;
    s.context = c;
    if (team->size == 1 || np_chunk_count(rows, grain) < 2 * (size_t)team->size ||
        rows * c->cols < COL_APART * (size_t)team->size || s.lines * c->cols > s.room)
        return false;
    np_sums_run(&s);
    return true;
}

static void col_sum(struct np_team *team, float *out, const float *x, size_t segments, size_t rows,
                    size_t cols, size_t grain, enum np_sum how)
{
    struct col_shared c = {COL_SUM, {.a = x, .ld = cols}, cols};
    c.terms.far = col_is_far(COL_SUM, segments * rows * cols);
    if (how == NP_SUM_CHUNKS || segments > 1 ||
        !col_share_chunks(team, &c, out, NULL, rows, grain, how == NP_SUM_ONTO))
        col_segments(COL_SUM, team, out, NULL, &c.terms, segments, rows, grain, how);
}

static void col_square(struct np_team *team, float *out, const float *x, const float *mean,
                       size_t segments, size_t rows, size_t cols, enum np_sum how)
{
    struct col_terms t = {.a = x, .mean = mean, .ld = cols};
    col_segments(COL_SQUARE, team, out, NULL, &t, segments, rows, 0, how);
}

static void col_dot(struct np_team *team, float *out, const float *a, const float *b,
                    size_t segments, size_t rows, size_t cols, size_t grain)
{
    struct col_terms t = {.a = a, .b = b, .ld = cols};
    col_segments(COL_DOT, team, out, NULL, &t, segments, rows, grain, NP_SUM_NEW);
}

static void layernorm_grad_weight(struct np_team *team, float *dgamma, float *dbeta, const float *x,
                                  const float *dy, const float *mean, const float *rstd,
                                  size_t rows, size_t cols, size_t grain, bool accumulate)
{
    struct col_shared c = {
        COL_ROWS, {.a = dy, .b = x, .mean = mean, .rstd = rstd, .ld = cols}, cols};
    if (!mean) {
        c.kind = COL_SCALED;
        if (!col_share_chunks(team, &c, dgamma, NULL, rows, grain, accumulate))
            col_chunks(COL_SCALED, dgamma, NULL, c.terms, rows, col_share(team, cols), grain,
                       accumulate);
        return;
    }
    if (!col_share_chunks(team, &c, dbeta, dgamma, rows, grain, accumulate))
        col_chunks(COL_ROWS, dbeta, dgamma, c.terms, rows, col_share(team, cols), grain,
                   accumulate);
}

/* Columns c..c+7 of rows r..r+15. */
static void transpose_block(float *y, const float *x, size_t rows, size_t cols, size_t r, size_t c)
{
    for (size_t part = r; part < r + 16; part += 8) {
        const float *from[8];
        for (size_t i = 0; i < 8; i++)
            from[i] = x + (part + i) * cols;
        v_transpose8(y + c * rows + part, rows, from, c);
    }
}

/* Tiles of 64 columns are read a whole row of the tile at a time, for the sake of the pages, and
 * written in whole cache lines. */
static void transpose(struct np_team *team, float *y, const float *x, size_t rows, size_t cols)
{
    struct np_share share = np_team_share(team, cols, NP_SHARE_UNIT);
    size_t whole = rows / 16 * 16;
    for (size_t c0 = share.begin, c1; c0 < share.end; c0 = c1) {
        c1 = share.end - c0 < 64 ? share.end : c0 + 64;
        for (size_t r = 0; r < whole; r += 16) {
            size_t c = c0;
            for (; c + 8 <= c1; c += 8)
                transpose_block(y, x, rows, cols, r, c);
            for (; c < c1; c++)
                for (size_t i = r; i < r + 16; i++)
                    y[c * rows + i] = x[i * cols + c];
        }
        for (size_t r = whole; r < rows; r++)
            for (size_t c = c0; c < c1; c++)
                y[c * rows + r] = x[r * cols + c];
    }
}

#endif
