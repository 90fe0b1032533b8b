/* Register tiles, a part of num/gemm_simd.h.
 *
 * MR x NR is as large as the registers allow: MR * 2 sums, two vectors of B, one element of A. The
 * last vector of a tile may be whole, in part outside of C, or, where registers are wide enough for
 * it to pay, summed in halves of registers.
 */
#ifndef NP_NUM_GEMM_TILE_H
#define NP_NUM_GEMM_TILE_H

#include "num/chunk.h"
#include "num/gemm.h"
#include "num/loops.h"
#include "num/simd.h"

#if NP_VW == 16
#define MR 14
#define HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#elif NP_VW == 8
#define MR 6
#define HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
#define MR 12
#define HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#endif
#define NR (2 * NP_VW)
#define STEPS 4                                /* inner indices per prefetched row of C */
#define LINE 16                                /* floats of a cache line */
#define AHEAD ((MR * STEPS + LINE - 1) / LINE) /* rows of A to prefetch a line of per STEPS */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* One tile of C: where its operands begin. */
struct tile {
    const float *const *a;
    size_t a_at;
    size_t row; /* of C, where the tile begins */
    const float *b;
    size_t b_step;
    const float *const *next; /* not NULL: MR or more rows of A to fetch for the next tile */
    float *const *c;          /* rows; the tile begins at column j of them */
    const float *const *ahead, *const *ahead_end; /* rows, those of C first, to fetch meanwhile */
    size_t j, last;                               /* columns of the last vector */
    float *out; /* finished sums go here, rows after each other; NULL: to c */
    const float *bias;
    const float *const *residual; /* rows; NULL: none is added here */
    vf bad;                       /* 0, NaN where a finished sum was not finite */
};

enum last { LAST_WHOLE, LAST_PART, LAST_HALF };

/* What a tile function is made for; all constants where this is inlined. */
struct shape {
    size_t h, vectors;
    bool trans;
    enum last last;
};

/* Sums of a chunk. While it runs, a last vector that is half lies in its own registers. */
struct sums {
    vf v[MR][2];
    vh half[MR];
};

NP_INLINE vf load_last(const float *p, enum last last, size_t n)
{
    return last == LAST_WHOLE ? v_load(p) : v_load_n(p, n);
}

NP_INLINE void store_last(float *p, enum last last, size_t n, vf v)
{
    if (last == LAST_WHOLE)
        v_store(p, v);
    else
        v_store_n(p, n, v);
}

NP_INLINE void clear(struct sums *acc, struct shape s)
{
    UNROLL
    for (size_t i = 0; i < s.h; i++) {
        acc->v[i][0] = acc->v[i][1] = v_zero();
        acc->half[i] = vh_zero();
    }
}

/* Adds a chunk to what `rows` hold. */
NP_INLINE void add_rows(struct sums *acc, struct shape s, const struct tile *t,
                        const float *const *rows)
{
    size_t last = s.vectors - 1;
    UNROLL
    for (size_t i = 0; i < s.h; i++) {
        const float *c = rows[i] + t->j;
        if (last > 0)
            acc->v[i][0] = v_add(v_load(c), acc->v[i][0]);
        acc->v[i][last] = v_add(load_last(c + last * NP_VW, s.last, t->last), acc->v[i][last]);
    }
}

NP_INLINE void store_chunk(struct sums *acc, struct shape s, const struct tile *t)
{
    size_t last = s.vectors - 1;
    UNROLL
    for (size_t i = 0; i < s.h; i++) {
        float *c = t->c[i] + t->j;
        if (last > 0)
            v_store(c, acc->v[i][0]);
        store_last(c + last * NP_VW, s.last, t->last, acc->v[i][last]);
    }
}

NP_INLINE void add_bias(struct sums *acc, struct shape s, const float *bias, size_t n)
{
    size_t last = s.vectors - 1;
    vf low = v_load_n(bias, last > 0 ? NP_VW : n), high = load_last(bias + last * NP_VW, s.last, n);
    UNROLL
    for (size_t i = 0; i < s.h; i++) {
        if (last > 0)
            acc->v[i][0] = v_add(acc->v[i][0], low);
        acc->v[i][last] = v_add(acc->v[i][last], high);
    }
}

/* The sums are complete: to where they are finished, or finished here. */
NP_INLINE void finish_sums(struct sums *acc, struct shape s, struct tile *t)
{
    vf bad = t->bad;
    if (t->bias)
        add_bias(acc, s, t->bias + t->j, t->last);
    if (t->residual)
        add_rows(acc, s, t, t->residual);
    if (t->out) {
        UNROLL
        for (size_t i = 0; i < s.h; i++)
            for (size_t v = 0; v < s.vectors; v++)
                v_store(t->out + (i * s.vectors + v) * NP_VW, acc->v[i][v]);
        return;
    }
    UNROLL
    for (size_t i = 0; i < s.h; i++)
        for (size_t v = 0; v < s.vectors; v++)
            bad = v_or(bad, v_sub(acc->v[i][v], acc->v[i][v]));
    t->bad = bad;
    store_chunk(acc, s, t);
}

/* Where the operands of the next inner index are. */
struct cursor {
    const float *row[MR];     /* elements of A, one after the other */
    const float *const *line; /* transposed: one of these each */
    const float *b;
    size_t from, rows; /* of the tile, those that the inner indices are for */
};

/* One inner index, of which only rows at->from.. want something if `some`. */
NP_INLINE void step(struct sums *acc, struct shape s, const struct tile *t, struct cursor *at,
                    bool some)
{
    size_t whole = s.vectors - (s.last == LAST_HALF);
    vf b0 = whole > 0 ? v_load(at->b) : v_zero(), b1 = whole > 1 ? v_load(at->b + NP_VW) : b0;
    vh b_half = s.last == LAST_HALF ? vh_load(at->b + whole * NP_VW) : vh_zero();
    const float *line = s.trans ? *at->line++ + t->a_at : NULL;
    UNROLL
    for (size_t i = 0; i < s.h; i++) {
        if (some && i - at->from >= at->rows)
            continue;
        float x = s.trans ? line[i] : *at->row[i]++;
        if (whole > 0)
            acc->v[i][0] = v_fma1(x, b0, acc->v[i][0]);
        if (whole > 1)
            acc->v[i][1] = v_fma1(x, b1, acc->v[i][1]);
        if (s.last == LAST_HALF)
            acc->half[i] = vh_fma1(x, b_half, acc->half[i]);
    }
    at->b += t->b_step;
}

/* A stretch that is not for all rows of the tile. */
NP_INLINE void sum_some(struct sums *acc, struct shape s, const struct tile *t, struct cursor *at,
                        const struct np_stretch *stretch)
{
    size_t low = stretch->low > t->row ? stretch->low - t->row : 0;
    size_t high = stretch->high > t->row ? np_min(stretch->high - t->row, s.h) : 0;
    at->from = low;
    at->rows = high > low ? high - low : 0;
    for (size_t p = 0; at->rows > 0 && p < stretch->count; p++)
        step(acc, s, t, at, true);
}

NP_INLINE bool is_for_all(const struct tile *t, size_t h, const struct np_stretch *stretch)
{
    return stretch->low <= t->row && t->row + h <= stretch->high;
}

NP_INLINE void tile_sum(struct shape s, const struct np_tiles *g, struct tile *t)
{
    const struct np_stretch *stretch = g->stretch, *end = stretch + g->stretches;
    struct cursor at;
    const float *const *ahead = t->ahead;
    struct sums acc;
    clear(&acc, s);
    for (bool first = g->first;; stretch++) {
        size_t p = 0;
        at.line = t->a + stretch->from;
        at.b = t->b + stretch->from * t->b_step;
        UNROLL
        for (size_t i = 0; i < s.h; i++)
            at.row[i] = s.trans ? NULL : t->a[i] + (g->a_copied ? stretch->from : stretch->at);
        if (s.trans && !is_for_all(t, s.h, stretch)) {
            sum_some(&acc, s, t, &at, stretch);
            p = stretch->count;
        }
        for (; p + STEPS <= stretch->count; p += STEPS) {
            /* One by one while the sum runs: all at once would stall it. */
            if (ahead < t->ahead_end) {
                __builtin_prefetch(*ahead + t->j, 1);
                if (s.vectors > 1)
                    __builtin_prefetch(*ahead + t->j + NR - 1, 1);
                ahead++;
            }
            if (!s.trans && t->next) {
                UNROLL
                for (size_t u = 0; u < AHEAD; u++)
                    __builtin_prefetch(t->next[p % LINE / STEPS * AHEAD + u] + stretch->at + p);
            }
            UNROLL
            for (size_t u = 0; u < STEPS; u++)
                step(&acc, s, t, &at, false);
        }
        for (; p < stretch->count; p++)
            step(&acc, s, t, &at, false);
        if (!stretch->ends)
            continue;
        UNROLL
        for (size_t i = 0; i < s.h; i++)
            if (s.last == LAST_HALF)
                acc.v[i][s.vectors - 1] = vh_widen(acc.half[i]);
        if (!first)
            add_rows(&acc, s, t, (const float *const *)t->c);
        if (stretch + 1 == end)
            break;
        first = false;
        store_chunk(&acc, s, t);
        clear(&acc, s);
    }
    if (g->finish)
        finish_sums(&acc, s, t);
    else
        store_chunk(&acc, s, t);
}

typedef void tile_function(const struct np_tiles *, struct tile *);
#define NAME(h, vectors, trans, last) tile_##h##_##vectors##_##trans##_##last
#define TILE(h, vectors, trans, last)                                                              \
    static void NAME(h, vectors, trans, last)(const struct np_tiles *g, struct tile *t)            \
    {                                                                                              \
        tile_sum((struct shape){h, vectors, trans, last}, g, t);                                   \
    }
#define TILES(h, last)                                                                             \
    TILE(h, 1, 0, last) TILE(h, 1, 1, last) TILE(h, 2, 0, last) TILE(h, 2, 1, last)
#if NP_VW == 16 /* where masks cost nothing */
#define TILES_OF(h) TILES(h, LAST_PART) TILES(h, LAST_HALF)
#define LASTS(h, v, trans)                                                                         \
    NAME(h, v, trans, LAST_PART), NAME(h, v, trans, LAST_PART), NAME(h, v, trans, LAST_HALF)
#else
#define TILES_OF(h) TILES(h, LAST_WHOLE) TILES(h, LAST_PART)
#define LASTS(h, v, trans) NAME(h, v, trans, LAST_WHOLE), NAME(h, v, trans, LAST_PART), NULL
#endif
HEIGHTS(TILES_OF)

#define ENTRY(h) {{{LASTS(h, 1, 0)}, {LASTS(h, 1, 1)}}, {{LASTS(h, 2, 0)}, {LASTS(h, 2, 1)}}},
/* [height - 1][vectors - 1][transposed][last] */
static tile_function *const tile_functions[MR][2][2][3] = {HEIGHTS(ENTRY)};

static inline tile_function *tile_for(size_t h, size_t vectors, bool trans, size_t last)
{
    enum last kind = last == NP_VW ? LAST_WHOLE : LAST_PART;
    if (NP_VW == 16 && last <= NP_VW / 2)
        kind = LAST_HALF;
    return tile_functions[h - 1][vectors - 1][trans][kind];
}

#endif
