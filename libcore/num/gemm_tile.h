/* Register tiles, a part of num/gemm_simd.h: their sums over the inner indices. */
#ifndef NP_NUM_GEMM_TILE_H
#define NP_NUM_GEMM_TILE_H

#include "num/gemm_sums.h"

/* Where the operands of the next inner index are. */
struct cursor {
    const float *row[TALL];   /* elements of A, one after the other */
    const float *const *line; /* transposed: one of these each */
    const float *strip;       /* packed */
    const float *b, *b_last;
    size_t pitch;
    size_t along;  /* ROWS_SHORT: of all rows' elements */
    uint64_t rows; /* of the tile, bit by bit: those that the inner indices are for */
};

NP_INLINE bool is_rows(enum left left)
{
    return left == ROWS || left == ROWS_DIRECT || left == ROWS_SHORT;
}

/* One inner index, of which only at->rows want something if `some`. */
NP_INLINE void step(struct sums *acc, struct shape s, const struct tile *t, struct cursor *at,
                    bool some)
{
    size_t whole = s.vectors - (s.last == LAST_HALF);
    vf b0 = whole > 0 ? v_load(at->b) : v_zero(), b1 = whole > 1 ? v_load(at->b + NP_VW) : b0;
    vf b2 = whole > 2 && s.left != ROWS_SHORT ? v_load(at->b_last) : b0;
    vh b_half = s.last == LAST_HALF ? vh_load(at->b + whole * NP_VW) : vh_zero();
    const float *line = s.left == LINES ? *at->line++ + t->a_at : at->strip, *part[TALL];
    if (some)
        NP_OPAQUE(at->rows); /* or gcc works out every row's before the loop, and spills it */
    NP_UNROLL
    for (size_t l = 0; l < s.lines; l++) {
        part[l] = line + l * at->pitch;
        NP_OPAQUE(part[l]); /* the same with addresses */
    }
    bool rows = is_rows(s.left), known = s.left == ROWS_SHORT || (ROWS_KNOW_B && s.left == ROWS);
    NP_UNROLL
    for (size_t i = 0; i < s.h; i++) {
        if (some && !(at->rows >> i & 1))
            continue;
        float x = s.left == ROWS_SHORT ? at->row[i][at->along]
                  : rows               ? *at->row[i]++
                  : s.lines > 0        ? part[i * s.lines / s.h][i % (s.h / s.lines)]
                                       : line[i];
        if (whole > 0)
            v_fma1_to(acc->v[i][0], x, b0);
        if (whole > 1)
            v_fma1_to(acc->v[i][1], x, b1);
        if (whole > 2 && s.left == ROWS_SHORT)
            v_fma1_from(acc->v[i][2], x, at->b_last);
        else if (whole > 2)
            v_fma1_to(acc->v[i][2], x, b2);
        if (s.last == LAST_HALF)
            acc->half[i] = vh_fma1(x, b_half, acc->half[i]);
    }
    if (s.left == ROWS_SHORT)
        at->along++;
    at->b += known ? NR : t->b_step;
    if (s.vectors > 2)
        at->b_last += known ? NR : t->last_step;
    if (s.left == STRIPS)
        at->strip += STRIP;
}

/* A stretch of a tap where groups are narrow: every lane meets a float of its own group, all of
 * which lie in a vector for each row. */
NP_INLINE const float *const *sum_narrow(struct sums *acc, struct shape s, const struct np_tiles *g,
                                         const struct tile *t, const struct np_stretch *stretch,
                                         const float *const *ahead)
{
    size_t channel = (g->channel + stretch->from) % g->groups->depth;
    const int32_t *order = t->order + channel * NP_VW;
    const float *b = t->b + stretch->from * t->b_step;
    vf x[HIGH];
    if (stretch->count == 0) /* nothing is seen, and there may be no channels before */
        return ahead;
    NP_UNROLL
    for (size_t i = 0; i < s.h; i++)
        x[i] = load_last(t->a[i] + t->a_at + stretch->at - channel, s.last, t->seen);
    for (size_t p = 0; p < stretch->count; p++, order += NP_VW, b += t->b_step) {
        vi which = vi_load(order);
        vf column = v_load(b);
        for (size_t u = 0; u < 2 && ahead < t->ahead_end; u++)
            __builtin_prefetch(*ahead++ + t->j, 1);
        NP_UNROLL
        for (size_t i = 0; i < s.h; i++)
            acc->v[i][0] = v_fma(v_choose(x[i], which), column, acc->v[i][0]);
    }
    return ahead;
}

/* The same, transposed: the rows of the tile belong to one tap. */
NP_INLINE void sum_narrow_lines(struct sums *acc, struct shape s, const struct tile *t,
                                const struct np_stretch *stretch)
{
    const float *const *line = t->a + stretch->from;
    const float *b = t->b + stretch->from * t->b_step;
    for (size_t p = 0; p < stretch->count; p++, b += t->b_step) {
        vf x = load_last(line[p] + t->a_at, s.last, t->seen), column = v_load(b);
        NP_UNROLL
        for (size_t i = 0; i < s.h; i++)
            acc->v[i][0] = v_fma(v_choose(x, vi_load(t->order + i * NP_VW)), column, acc->v[i][0]);
    }
}

/* A stretch that is not for all rows of C. */
NP_INLINE void sum_some(struct sums *acc, struct shape s, const struct tile *t, struct cursor *at,
                        const struct np_stretch *stretch)
{
    at->rows = stretch->rows >> t->row;
    ROLLED
    for (size_t p = 0; p < stretch->count; p++)
        step(acc, s, t, at, true);
}

/* A stretch; returns the first row that is left to fetch. */
NP_INLINE const float *const *sum_stretch(struct sums *acc, struct shape s,
                                          const struct np_tiles *g, const struct tile *t,
                                          const struct np_stretch *stretch,
                                          const float *const *ahead)
{
    bool rows = is_rows(s.left);
    struct cursor at;
    size_t p = 0;
    at.line = t->a + stretch->from;
    at.pitch = g->pitch;
    at.strip = s.left == STRIPS ? t->strip + stretch->from * STRIP : NULL;
    at.b = t->b + stretch->from * t->b_step;
    at.b_last = s.vectors > 2 ? t->b_last + stretch->from * t->last_step : NULL;
    NP_UNROLL
    for (size_t i = 0; i < s.h; i++)
        at.row[i] = rows ? t->a[i] + (g->a_copied ? stretch->from : t->a_at + stretch->at) : NULL;
    if (!rows && stretch->rows != NP_GEMM_ALL) {
        sum_some(acc, s, t, &at, stretch);
        p = stretch->count;
    }
    for (; p + STEPS <= stretch->count; p += STEPS) {
        /* One by one while the sum runs: all at once would stall it. */
        if (ahead < t->ahead_end) {
            __builtin_prefetch(*ahead + t->j, 1);
            if (s.vectors > 2)
                __builtin_prefetch(*ahead + t->j + LINE, 1);
            if (s.vectors > 1)
                __builtin_prefetch(*ahead + t->j + s.vectors * NP_VW - 1, 1);
            ahead++;
        }
        if (rows && t->next) {
            NP_UNROLL
            for (size_t u = 0; u < AHEAD(s.h); u++)
                __builtin_prefetch(t->next[p % LINE / STEPS * AHEAD(s.h) + u] + t->a_at +
                                   stretch->at + p);
        }
        if (s.left == LINES && t->next_line < STEPS)
            __builtin_prefetch(at.line[t->next_line] + t->next_at);
        NP_UNROLL
        for (size_t u = 0; u < STEPS; u++)
            step(acc, s, t, &at, false);
    }
    for (; p < stretch->count; p++)
        step(acc, s, t, &at, false);
    return ahead;
}

NP_INLINE void tile_sum(struct shape s, const struct np_tiles *g, struct tile *t)
{
    const struct np_stretch *stretch = g->stretch, *end = stretch + g->stretches;
    const float *const *ahead = t->ahead;
    struct sums acc;
    clear(&acc, s);
    for (bool first = g->first;; stretch++) {
        if (s.narrow && s.left == LINES)
            sum_narrow_lines(&acc, s, t, stretch);
        else if (s.narrow)
            ahead = sum_narrow(&acc, s, g, t, stretch, ahead);
        else
            ahead = sum_stretch(&acc, s, g, t, stretch, ahead);
        if (!stretch->ends)
            continue;
        NP_UNROLL
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

NP_INLINE void fetch_coming(struct coming *c)
{
    for (c->due += c->count; c->due >= c->tiles; c->due -= c->tiles, c->row++)
        for (size_t k = 0; k < c->width + LINE - 1; k += LINE)
            __builtin_prefetch(*c->row + c->at + k, 0, 2);
    for (size_t n = np_min(c->each, c->lines); n > 0; n--, c->lines--, c->b += c->b_step)
        __builtin_prefetch(c->b, 0, 2);
}

/* Tiles with packed A under each other, made of a copy, which nothing points to: stores of vectors
 * may change whatever else is in memory. */
NP_INLINE void tile_down(struct shape s, const struct np_tiles *g, struct tile *t)
{
    struct tile x = *t;
    for (size_t k = 0; k < t->tiles; k++) {
        fetch_coming(x.coming);
        tile_sum(s, g, &x);
        x.row += s.h;
        x.c += s.h;
        x.strip += STRIP_SIZE;
        x.ahead = x.ahead_end;
        x.ahead_end += np_min(x.each * s.h, (size_t)(x.rows_end - x.ahead));
    }
    t->bad = x.bad;
}

typedef void tile_function(const struct np_tiles *, struct tile *);
#define NAME(h, vectors, left, last) tile_##h##_##vectors##_##left##_##last
#define TILE(h, vectors, left, last)                                                               \
    static void NAME(h, vectors, left, last)(const struct np_tiles *g, struct tile *t)             \
    {                                                                                              \
        struct shape s = {h, vectors, 0, left, false, last};                                       \
        if (left == STRIPS)                                                                        \
            tile_down(s, g, t);                                                                    \
        else                                                                                       \
            tile_sum(s, g, t);                                                                     \
    }
#if NP_VW == 16 /* where masks cost nothing */
#define TILES(h, v, left) TILE(h, v, left, LAST_PART) TILE(h, v, left, LAST_HALF)
#define LASTS(h, v, left)                                                                          \
    NAME(h, v, left, LAST_PART), NAME(h, v, left, LAST_PART), NAME(h, v, left, LAST_HALF)
#else
#define TILES(h, v, left) TILE(h, v, left, LAST_WHOLE) TILE(h, v, left, LAST_PART)
#define LASTS(h, v, left) NAME(h, v, left, LAST_WHOLE), NAME(h, v, left, LAST_PART), NULL
#endif
#if ROWS_KNOW_B
#define TILES_IN_PLACE(h, v) TILES(h, v, ROWS) TILES(h, v, ROWS_DIRECT) TILES(h, v, LINES)
#define LASTS_DIRECT(h, v) LASTS(h, v, ROWS_DIRECT)
#else
#define TILES_IN_PLACE(h, v) TILES(h, v, ROWS) TILES(h, v, LINES)
#define LASTS_DIRECT(h, v) LASTS(h, v, ROWS)
#endif
#define TILES_OF_1(h) TILES_IN_PLACE(h, 1)
#define TILES_OF_3(h) TILES_IN_PLACE(h, 3)
#if NP_GEMM_PACKS_A
#define TILES_OF_2(h) TILES_IN_PLACE(h, 2) TILES(h, 2, STRIPS)
#define PACKED_LASTS(h) LASTS(h, 2, STRIPS)
#else
#define TILES_OF_2(h) TILES_IN_PLACE(h, 2)
#define PACKED_LASTS(h) NULL
#endif
HEIGHTS(TILES_OF_1)
MORE_HEIGHTS(TILES_OF_1)
HEIGHTS(TILES_OF_2)
LOW_HEIGHTS(TILES_OF_3)

#define IN_PLACE(h, v)                                                                             \
    {LASTS(h, v, ROWS)}, {LASTS_DIRECT(h, v)},                                                     \
    {                                                                                              \
        LASTS(h, v, LINES)                                                                         \
    }
#define ENTRIES_1(h) [h - 1][0] = {IN_PLACE(h, 1)},
#define ENTRIES_2(h) [h - 1][1] = {IN_PLACE(h, 2), {PACKED_LASTS(h)}},
#define ENTRIES_3(h) [h - 1][2] = {IN_PLACE(h, 3)},
/* [height - 1][vectors - 1][left][last] */
static tile_function *const tile_functions[HIGH][WIDE][LEFTS][3] = {
    HEIGHTS(ENTRIES_1) MORE_HEIGHTS(ENTRIES_1) HEIGHTS(ENTRIES_2) LOW_HEIGHTS(ENTRIES_3)};

#define NARROW_NAME(h, left, last) narrow_##h##_##left##_##last
#define NARROW(h, left, last)                                                                      \
    static void NARROW_NAME(h, left, last)(const struct np_tiles *g, struct tile *t)               \
    {                                                                                              \
        tile_sum((struct shape){h, 1, 0, left, true, last}, g, t);                                 \
    }
#define NARROW_OF(h)                                                                               \
    NARROW(h, ROWS, LAST_WHOLE)                                                                    \
    NARROW(h, ROWS, LAST_PART) NARROW(h, LINES, LAST_WHOLE) NARROW(h, LINES, LAST_PART)
HEIGHTS(NARROW_OF)

#define NARROW_LASTS(h, left) NARROW_NAME(h, left, LAST_WHOLE), NARROW_NAME(h, left, LAST_PART)
#define NARROW_ENTRY(h) {{NARROW_LASTS(h, ROWS)}, {NARROW_LASTS(h, LINES)}},
/* [height - 1][left][in part] */
static tile_function *const narrow_functions[MR][2][2] = {HEIGHTS(NARROW_ENTRY)};

#define WINDOW_NAME(h, across) window_##h##_##across
#define WINDOW_TILE(h, across)                                                                     \
    static void WINDOW_NAME(h, across)(const struct np_tiles *g, struct tile *t)                   \
    {                                                                                              \
        tile_sum((struct shape){h, 1, (h) / (across), LINES, false, LAST_PART}, g, t);             \
    }
#define WINDOW_ENTRY(h, across) [h - 1] = WINDOW_NAME(h, across),
#if NP_VW == 16
NP_GEMM_WINDOWS(WINDOW_TILE)
static tile_function *const window_functions[TALL] = {NP_GEMM_WINDOWS(WINDOW_ENTRY)};
#else
static tile_function *const window_functions[TALL] = {NULL};
#endif

#define TALL_TILE(h) TILE(h, 1, LINES, LAST_PART)
TALL_HEIGHTS(TALL_TILE)
#define TALL_ENTRY(h) [h - HIGH - 1] = NAME(h, 1, LINES, LAST_PART),
/* [height - HIGH - 1] */
static tile_function *const tall_functions[TALL - HIGH + 1] = {TALL_HEIGHTS(TALL_ENTRY)};

static inline tile_function *tile_for(size_t h, size_t vectors, enum left left, size_t last)
{
    enum last kind = last == NP_VW ? LAST_WHOLE : LAST_PART;
    if (h > HIGH)
        return tall_functions[h - HIGH - 1];
    if (NP_VW == 16 && last <= NP_VW / 2)
        kind = LAST_HALF;
    return tile_functions[h - 1][vectors - 1][left][kind];
}

#endif
