/* SIMD kernels of num/kernels.h: what belongs to the columns of segments.
 *
 * Rows are short and no whole vectors. So what belongs to the columns is repeated, until it is long
 * enough, and all rows of a segment are worked on as one run of elements beside it.
 */
#ifndef NP_NUM_COLNORM_SIMD_H
#define NP_NUM_COLNORM_SIMD_H

#include <assert.h>

#include "num/activation_lanes.h"
#include "num/columns_simd.h"

#define NORM_TILE 512 /* floats of a repeated pattern, at most */

#define NORM_LINES 16        /* rows that end with a cache line */
#define NORM_FAR (2 * V_FAR) /* V_FAR of what is read next, by the layer after the norm */

/* What belongs to n columns, `times` times and then again as far as a block that begins in there
 * reaches. */
struct col_pattern {
    _Alignas(64) float copy[NORM_TILE + 32];
};

/* How many times n columns are repeated for rows of them: so that a block wraps around once, and to
 * whole cache lines if possible. 0: they are read where they lie. */
static size_t col_times(size_t n, size_t rows)
{
    size_t least = (n + 31) / n, times = np_min(NORM_TILE / n, rows > least ? rows : least);
    size_t unit = 16;
    while (unit > 1 && n * unit / 2 % 16 == 0)
        unit /= 2;
    return times > unit ? times - times % unit : times;
}

/* Returns where they are; if times is 0, they are once, where they lie. */
static const float *col_repeat(struct col_pattern *p, const float *from, size_t n, size_t times)
{
    const size_t count = times * n + 32;
    if (times == 0)
        return from;
    memcpy(p->copy, from, n * sizeof *from);
    for (size_t done = n, more; done < count; done += more) {
        more = np_min(done, count - done);
        memcpy(p->copy + done, p->copy, more * sizeof *from);
    }
    return p->copy;
}

/* What a member works on: rows of one segment after the other. */
struct col_rows {
    size_t rows, cols;    /* of a segment */
    struct np_deal deal;  /* of all rows */
    size_t segment;       /* the one whose patterns are made; SIZE_MAX: none */
    size_t times, period; /* of the patterns; elements of these */
    size_t at, end;       /* elements that were taken and not worked on */
};

static struct col_rows col_rows_of(struct np_team *team, size_t segments, size_t rows, size_t cols)
{
    const size_t all = segments * rows, few = 1024 * (size_t)team->size;
    struct col_rows r = {.rows = rows, .cols = cols, .segment = SIZE_MAX};
    r.deal = np_team_deal(team, all, all < few ? 1 : NORM_LINES);
    r.times = col_times(cols, rows);
    r.period = r.times > 0 ? r.times * cols : cols;
    return r;
}

/* The caller's next elements, at most those of a row if patterns are read where they lie; false if
 * there are none left. *other: of another segment than those before. */
static bool col_next(struct col_rows *r, struct np_share *run, bool *other)
{
    struct np_share rows;
    *other = false;
    if (r->at == r->end) {
        if (!np_deal_run(&r->deal, r->rows, &rows))
            return false;
        *other = rows.begin / r->rows != r->segment;
        r->segment = rows.begin / r->rows;
        r->at = rows.begin * r->cols;
        r->end = rows.end * r->cols;
    }
    *run = (struct np_share){r->at, r->times > 0 ? r->end : r->at + r->cols};
    r->at = run->end;
    return true;
}

/* STEP(at, col, m) for every block of n elements: m from `at`, beside those from `col` on of
 * patterns of `period`. */
#define COL_BLOCKS(n, period, STEP)                                                                \
    do {                                                                                           \
        size_t block_at = 0, block_col = 0;                                                        \
        for (; block_at + 32 <= (n); block_at += 32) {                                             \
            STEP(block_at, block_col, 32);                                                         \
            block_col += 32;                                                                       \
            block_col -= block_col >= (period) ? (period) : 0;                                     \
        }                                                                                          \
        if (block_at < (n))                                                                        \
            STEP(block_at, block_col, (n)-block_at);                                               \
    } while (0)

/* What a norm reads of the columns. */
struct colnorm_cols {
    const float *mean, *rstd, *gamma, *beta, *a, *b; /* a, b: colnorm_grad; else NULL */
    size_t period;
};

/* Those of columns c.. of a segment. */
static struct colnorm_cols colnorm_cols_of(const struct np_colnorm *p, size_t segment, size_t c)
{
    size_t at = segment * p->cols + c;
    return (struct colnorm_cols){.mean = p->mean + at,
                                 .rstd = p->rstd + at,
                                 .gamma = p->gamma + c,
                                 .beta = p->beta + c,
                                 .period = p->cols};
}

/* The same for n columns, repeated; copies: one of each. */
static void colnorm_repeat(struct colnorm_cols *q, struct col_pattern *copies, size_t n,
                           size_t times)
{
    const float **each[] = {&q->mean, &q->rstd, &q->gamma, &q->beta, &q->a, &q->b};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        if (*each[i])
            *each[i] = col_repeat(&copies[i], *each[i], n, times);
    q->period = times > 0 ? times * n : n;
}

/* h of m elements. */
NP_INLINE struct lanes l_colnorm_h(const struct colnorm_cols *q, const float *x, size_t col,
                                   size_t m)
{
    struct lanes h = l_sub(lanes_load(x, m), lanes_load(q->mean + col, m));
    return l_mul(h, lanes_load(q->rstd + col, m));
}

/* fma(h, gamma, beta) */
NP_INLINE struct lanes l_colnorm_u(const struct colnorm_cols *q, struct lanes h, size_t col,
                                   size_t m)
{
    return l_fma(h, lanes_load(q->gamma + col, m), lanes_load(q->beta + col, m));
}

/* n elements; act, and which of kept and residual are NULL, are constants. far: y and kept go past
 * the caches, and are aligned. */
NP_INLINE vf colnorm_run(enum np_act act, float *y, float *kept, const float *residual,
                         const float *x, const struct colnorm_cols *cols, size_t n, bool far,
                         vf bad)
{
    const struct colnorm_cols q = *cols; /* or it is read again after every store */
#define STEP(at, col, m)                                                                           \
    do {                                                                                           \
        struct lanes u = l_colnorm_u(&q, l_colnorm_h(&q, x + (at), col, m), col, m);               \
        u = residual ? l_add(lanes_load(residual + (at), m), u) : u;                               \
        bad = lanes_bad(bad, u);                                                                   \
        if (kept)                                                                                  \
            lanes_put(kept + (at), m, u, far);                                                     \
        lanes_put(y + (at), m, l_act(act, u), far);                                                \
    } while (0)
    COL_BLOCKS(n, q.period, STEP);
#undef STEP
    return bad;
}

/* Activations have functions of their own: one of all of them takes compilers minutes. */
typedef vf colnorm_act(float *y, float *kept, const float *residual, const float *x,
                       const struct colnorm_cols *, size_t n, bool far, vf bad);
#define COLNORM(act)                                                                               \
    static vf colnorm_##act(float *y, float *kept, const float *residual, const float *x,          \
                            const struct colnorm_cols *q, size_t n, bool far, vf bad)              \
    {                                                                                              \
        if (!residual)                                                                             \
            return colnorm_run(NP_ACT_##act, y, NULL, NULL, x, q, n, far, bad);                    \
        if (!kept)                                                                                 \
            return colnorm_run(NP_ACT_##act, y, NULL, residual, x, q, n, far, bad);                \
        return colnorm_run(NP_ACT_##act, y, kept, residual, x, q, n, far, bad);                    \
    }
NP_ACT_LIST(COLNORM)

static colnorm_act *const colnorm_acts[] = {
#define COLNORM_ENTRY(act) [NP_ACT_##act] = colnorm_##act,
    NP_ACT_LIST(COLNORM_ENTRY)};

static bool colnorm(struct np_team *team, float *y, const struct np_colnorm *p)
{
    struct col_rows rows = col_rows_of(team, p->segments, p->rows, p->cols);
    struct col_pattern copies[4];
    struct colnorm_cols q = {.period = 0};
    vf bad = v_zero();
    bool other, far = p->segments * p->rows * p->cols >= NORM_FAR;
    for (struct np_share run; col_next(&rows, &run, &other);) {
        const size_t at = run.begin, n = run.end - at;
        const float *residual = p->residual ? p->residual + at : NULL;
        float *kept = p->kept ? p->kept + at : NULL;
        if (other) {
            q = colnorm_cols_of(p, rows.segment, 0);
            colnorm_repeat(&q, copies, p->cols, rows.times);
        }
        bad = colnorm_acts[p->act](y + at, kept, residual, p->x + at, &q, n,
                                   far && v_is_aligned(y + at) && v_is_aligned(kept), bad);
    }
    if (far)
        v_streamed();
    return !v_any(bad);
}

/* dy * act'(u) */
NP_INLINE struct lanes l_act_back(enum np_act act, struct lanes dy, struct lanes u)
{
    return act == NP_ACT_NONE ? dy : l_mul(dy, l_act_grad(act, u));
}

/* du of n elements. */
NP_INLINE void colnorm_slopes(enum np_act act, float *du, const float *x, const float *dy,
                              const struct colnorm_cols *q, size_t n)
{
#define STEP(at, col, m)                                                                           \
    do {                                                                                           \
        struct lanes u = l_colnorm_u(q, l_colnorm_h(q, x + (at), col, m), col, m);                 \
        lanes_store(du + (at), m, l_act_back(act, lanes_load(dy + (at), m), u));                   \
    } while (0)
    COL_BLOCKS(n, q->period, STEP);
#undef STEP
}

/* Of those activations of whose slopes colnorm_grad_sums makes no kind of sum. */
static void colnorm_other_slopes(enum np_act act, float *du, const float *x, const float *dy,
                                 const struct colnorm_cols *q, size_t n)
{
    switch (act) {
    case NP_ACT_GELU:
        colnorm_slopes(NP_ACT_GELU, du, x, dy, q, n);
        break;
    case NP_ACT_SWISH:
        colnorm_slopes(NP_ACT_SWISH, du, x, dy, q, n);
        break;
    case NP_ACT_SIGMOID:
        colnorm_slopes(NP_ACT_SIGMOID, du, x, dy, q, n);
        break;
    case NP_ACT_HSIGMOID:
        colnorm_slopes(NP_ACT_HSIGMOID, du, x, dy, q, n);
        break;
    default:
        assert(!"one of colnorm_grad_sums' own");
    }
}

/* sum and dot of n (to NORM_TILE) columns from c on, of rows of segment s; du takes many
 * operations, so some rows' is made first. */
static void colnorm_columns(float *sum, float *dot, const struct np_colnorm *p, const float *dy,
                            struct np_share rows, size_t s, size_t c, size_t n, bool onto)
{
    _Alignas(64) float du[NORM_TILE], part[NORM_TILE], part_dot[NORM_TILE];
    size_t times = n == p->cols ? col_times(n, rows.end - rows.begin) : 0;
    const size_t most = times > 0 ? times : 1;
    struct colnorm_cols q = colnorm_cols_of(p, s, c);
    struct col_terms t = {.a = du, .mean = q.mean, .rstd = q.rstd, .ld = n};
    struct col_pattern copies[4];
    colnorm_repeat(&q, copies, n, times);
    for (size_t begin = rows.begin, end, count; begin < rows.end; begin = end) {
        end = np_min(begin + NP_KC, rows.end);
        memset(part, 0, sizeof part);
        memset(part_dot, 0, sizeof part_dot);
        for (size_t r = begin; r < end; r += count) {
            const float *up = dy + r * p->cols + c;
            t.b = p->x + r * p->cols + c;
            count = np_min(most, end - r);
            /* whole blocks, as far as there are elements: parts of them take longer */
            size_t whole =
                n == p->cols ? np_min((count * n + 31) / 32 * 32, (rows.end - r) * n) : n;
            colnorm_other_slopes(p->act, du, t.b, up, &q, whole);
            col_block(COL_PLAIN, false, part, part_dot, &t, count, 0, n);
        }
        np_add_chunk(sum, part, n, begin - rows.begin, onto);
        np_add_chunk(dot, part_dot, n, begin - rows.begin, onto);
    }
}

static void colnorm_other_sums(struct np_team *team, float *sum, float *dot,
                               const struct np_colnorm *p, const float *dy, enum np_sum how)
{
    struct col_units u = col_units_of(team, p->segments, p->rows, p->cols, how);
    struct np_share cols;
    for (size_t i; col_next_unit(&u, &i, &cols);)
        for (size_t c = cols.begin; c < cols.end; c += NORM_TILE)
            colnorm_columns(sum + i * p->cols + c, dot + i * p->cols + c, p, dy, col_unit(&u, i),
                            i / u.each, c, np_min(NORM_TILE, cols.end - c), how == NP_SUM_ONTO);
}

static void colnorm_grad_sums(struct np_team *team, float *sum, float *dot,
                              const struct np_colnorm *p, const float *dy, enum np_sum how)
{
    const struct col_terms t = {.a = dy,
                                .b = p->x,
                                .mean = p->mean,
                                .rstd = p->rstd,
                                .gamma = p->gamma,
                                .beta = p->beta,
                                .ld = p->cols};
#define SUMS(kind) col_segments(kind, team, sum, dot, &t, p->segments, p->rows, 0, how)
    if (p->act == NP_ACT_NONE)
        SUMS(COL_PLAIN);
    else if (p->act == NP_ACT_RELU)
        SUMS(COL_RELU);
    else if (p->act == NP_ACT_RELU6)
        SUMS(COL_RELU6);
    else if (p->act == NP_ACT_HSWISH)
        SUMS(COL_HSWISH);
    else
        colnorm_other_sums(team, sum, dot, p, dy, how);
}

NP_INLINE vf colnorm_grad_run(enum np_act act, float *dx, const float *base, const float *x,
                              const float *dy, const struct colnorm_cols *cols, size_t n, vf bad)
{
    const struct colnorm_cols q = *cols;
#define STEP(at, col, m)                                                                           \
    do {                                                                                           \
        struct lanes h = l_colnorm_h(&q, x + (at), col, m), d = lanes_load(dy + (at), m);          \
        d = l_act_back(act, d, l_colnorm_u(&q, h, col, m));                                        \
        d = l_sub(l_mul(d, lanes_load(q.gamma + (col), m)), lanes_load(q.a + (col), m));           \
        d = l_sub(d, l_mul(h, lanes_load(q.b + (col), m)));                                        \
        d = l_mul(lanes_load(q.rstd + (col), m), d);                                               \
        d = base ? l_add(lanes_load(base + (at), m), d) : d;                                       \
        bad = lanes_bad(bad, d);                                                                   \
        lanes_store(dx + (at), m, d);                                                              \
    } while (0)
    COL_BLOCKS(n, q.period, STEP);
#undef STEP
    return bad;
}

typedef vf colnorm_grad_act(float *dx, const float *base, const float *x, const float *dy,
                            const struct colnorm_cols *, size_t n, vf bad);
#define COLNORM_GRAD(act)                                                                          \
    static vf colnorm_grad_##act(float *dx, const float *base, const float *x, const float *dy,    \
                                 const struct colnorm_cols *q, size_t n, vf bad)                   \
    {                                                                                              \
        if (!base)                                                                                 \
            return colnorm_grad_run(NP_ACT_##act, dx, NULL, x, dy, q, n, bad);                     \
        return colnorm_grad_run(NP_ACT_##act, dx, base, x, dy, q, n, bad);                         \
    }
NP_ACT_LIST(COLNORM_GRAD)

static colnorm_grad_act *const colnorm_grad_acts[] = {
#define COLNORM_GRAD_ENTRY(act) [NP_ACT_##act] = colnorm_grad_##act,
    NP_ACT_LIST(COLNORM_GRAD_ENTRY)};

static bool colnorm_grad(struct np_team *team, float *dx, const float *base,
                         const struct np_colnorm *p, const float *dy, const float *a,
                         const float *b)
{
    struct col_rows rows = col_rows_of(team, p->segments, p->rows, p->cols);
    struct col_pattern copies[6];
    struct colnorm_cols q = {.period = 0};
    vf bad = v_zero();
    bool other;
    for (struct np_share run; col_next(&rows, &run, &other);) {
        const size_t at = run.begin, n = run.end - at;
        const float *onto = base ? base + at : NULL;
        if (other) {
            q = colnorm_cols_of(p, rows.segment, 0);
            q.a = a + rows.segment * p->cols;
            q.b = b + rows.segment * p->cols;
            colnorm_repeat(&q, copies, p->cols, rows.times);
        }
        bad = colnorm_grad_acts[p->act](dx + at, onto, p->x + at, dy + at, &q, n, bad);
    }
    return !v_any(bad);
}

/* n elements of y = x * s, or s where x is NULL; then base + y if there is a base. */
NP_INLINE vf col_apply(float *y, const float *base, const float *x, const float *s, size_t period,
                       size_t n, vf bad)
{
#define STEP(at, col, m)                                                                           \
    do {                                                                                           \
        struct lanes v = lanes_load(s + (col), m);                                                 \
        v = x ? l_mul(lanes_load(x + (at), m), v) : v;                                             \
        v = base ? l_add(lanes_load(base + (at), m), v) : v;                                       \
        bad = lanes_bad(bad, v);                                                                   \
        lanes_store(y + (at), m, v);                                                               \
    } while (0)
    COL_BLOCKS(n, period, STEP);
#undef STEP
    return bad;
}

/* col_apply to all rows. */
NP_INLINE bool col_apply_rows(struct np_team *team, float *y, const float *base, const float *x,
                              const float *s, size_t segments, size_t rows, size_t cols)
{
    struct col_rows part = col_rows_of(team, segments, rows, cols);
    struct col_pattern copy;
    const float *scale = NULL;
    vf bad = v_zero();
    bool other;
    for (struct np_share run; col_next(&part, &run, &other);) {
        const size_t at = run.begin, n = run.end - at;
        const float *in = x ? x + at : NULL;
        if (other)
            scale = col_repeat(&copy, s + part.segment * cols, cols, part.times);
        bad = base ? col_apply(y + at, base + at, in, scale, part.period, n, bad)
                   : col_apply(y + at, NULL, in, scale, part.period, n, bad);
    }
    return !v_any(bad);
}

static bool col_scale(struct np_team *team, float *y, const float *base, const float *x,
                      const float *s, size_t segments, size_t rows, size_t cols)
{
    return col_apply_rows(team, y, base, x, s, segments, rows, cols);
}

static bool col_spread(struct np_team *team, float *y, const float *base, const float *s,
                       size_t segments, size_t rows, size_t cols)
{
    return col_apply_rows(team, y, base, NULL, s, segments, rows, cols);
}

#endif
