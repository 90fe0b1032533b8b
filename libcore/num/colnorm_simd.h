/* SIMD kernels of num/kernels.h: what belongs to the columns of segments.
 *
 * Rows are short and no whole vectors. So what belongs to the columns is repeated, until it is long
 * enough, and rows are worked on as one run of elements beside it.
 */
#ifndef NP_NUM_COLNORM_SIMD_H
#define NP_NUM_COLNORM_SIMD_H

#include <math.h>

#include "num/activation.h"
#include "num/columns_simd.h"

#define NORM_TILE 512 /* floats of a repeated pattern, at most */

/* What belongs to n columns, `times` times; or once, where it lies, if n is large. */
struct col_pattern {
    const float *at;
    float copy[NORM_TILE];
};

/* How many times n columns are repeated for rows of them: whole vectors if possible. */
static size_t col_times(size_t n, size_t rows)
{
    size_t times = np_min(NORM_TILE / n, rows), unit = 16;
    while (unit > 1 && n * unit / 2 % 16 == 0)
        unit /= 2;
    return times > unit ? times - times % unit : times > 0 ? times : 1;
}

static void col_repeat(struct col_pattern *p, const float *from, size_t n, size_t times)
{
    p->at = from;
    if (times == 1)
        return;
    p->at = p->copy;
    for (size_t i = 0; i < times; i++)
        memcpy(p->copy + i * n, from, n * sizeof *from);
}

/* The rows of one segment that a member works on. */
struct col_rows {
    size_t segment, begin, end; /* elements begin .. end - 1 of all */
    size_t times, period;       /* elements of the patterns */
};

/* Those from row `begin` on, of a share of all rows. */
static struct col_rows col_rows_of(size_t begin, size_t end, size_t rows, size_t cols)
{
    struct col_rows r = {.segment = begin / rows, .begin = begin * cols};
    end = np_min(end, (begin / rows + 1) * rows);
    r.end = end * cols;
    r.times = col_times(cols, end - begin);
    r.period = r.times * cols;
    return r;
}

NP_INLINE uint32_t colnorm_run(enum np_act act, float *y, float *kept, const float *residual,
                               const float *x, const float *mean, const float *rstd,
                               const float *gamma, const float *beta, size_t n)
{
    uint32_t bad = 0;
    NP_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        float u = fmaf((x[i] - mean[i]) * rstd[i], gamma[i], beta[i]);
        u = residual ? residual[i] + u : u;
        bad |= np_not_finite(u);
        if (kept)
            kept[i] = u;
        y[i] = np_act(act, u);
    }
    return bad;
}

static bool colnorm(struct np_team *team, float *y, const struct np_colnorm *p)
{
    struct np_share share = np_team_share(team, p->segments * p->rows, 1);
    struct col_pattern mean, rstd, gamma, beta;
    struct col_rows rows;
    uint32_t bad = 0;
    for (size_t r = share.begin; r < share.end; r = rows.end / p->cols) {
        rows = col_rows_of(r, share.end, p->rows, p->cols);
        col_repeat(&mean, p->mean + rows.segment * p->cols, p->cols, rows.times);
        col_repeat(&rstd, p->rstd + rows.segment * p->cols, p->cols, rows.times);
        col_repeat(&gamma, p->gamma, p->cols, rows.times);
        col_repeat(&beta, p->beta, p->cols, rows.times);
        for (size_t i = rows.begin; i < rows.end; i += rows.period) {
            size_t n = np_min(rows.period, rows.end - i);
#define RUN(act, kept, residual)                                                                   \
    colnorm_run(act, y + i, kept, residual, p->x + i, mean.at, rstd.at, gamma.at, beta.at, n)
#define COLNORM(act)                                                                               \
    bad |= !p->residual ? RUN(act, NULL, NULL)                                                     \
           : !p->kept   ? RUN(act, NULL, p->residual + i)                                          \
                        : RUN(act, p->kept + i, p->residual + i)
            NP_ACT_EACH(p->act, COLNORM);
          }
    }
    return !bad;
}

/* du of n elements. */
NP_INLINE void colnorm_slopes(enum np_act act, float *du, const float *x, const float *dy,
                              const float *mean, const float *rstd, const float *gamma,
                              const float *beta, size_t n)
{
    NP_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        du[i] = dy[i] * np_act_grad(act, fmaf((x[i] - mean[i]) * rstd[i], gamma[i], beta[i]));
}

/* sum and dot of n (to NORM_TILE) columns from c on, of rows of segment s; du takes many
 * operations, so some rows' is made first. */
static void colnorm_columns(float *sum, float *dot, const struct np_colnorm *p, const float *dy,
                            struct np_share rows, size_t s, size_t c, size_t n)
{
    float du[NORM_TILE], part[NORM_TILE], part_dot[NORM_TILE];
    size_t at = s * p->cols + c, times = n == p->cols ? col_times(n, rows.end - rows.begin) : 1;
    struct col_terms t = {.a = du, .mean = p->mean + at, .rstd = p->rstd + at, .ld = n};
    struct col_pattern mean, rstd, gamma, beta;
    col_repeat(&mean, t.mean, n, times);
    col_repeat(&rstd, t.rstd, n, times);
    col_repeat(&gamma, p->gamma + c, n, times);
    col_repeat(&beta, p->beta + c, n, times);
    for (size_t begin = rows.begin, end, count; begin < rows.end; begin = end) {
        end = np_min(begin + NP_KC, rows.end);
        memset(part, 0, sizeof part);
        memset(part_dot, 0, sizeof part_dot);
        for (size_t r = begin; r < end; r += count) {
            const float *up = dy + r * p->cols + c;
            t.b = p->x + r * p->cols + c;
            count = np_min(times, end - r);
#define SLOPES(act) colnorm_slopes(act, du, t.b, up, mean.at, rstd.at, gamma.at, beta.at, count *n)
            NP_ACT_EACH(p->act, SLOPES);
            col_block(COL_PLAIN, part, part_dot, &t, count, 0, n);
        }
        np_add_chunk(sum, part, n, begin - rows.begin, false);
        np_add_chunk(dot, part_dot, n, begin - rows.begin, false);
    }
}

static void colnorm_grad_sums(struct np_team *team, float *sum, float *dot,
                              const struct np_colnorm *p, const float *dy, enum np_sum how)
{
    const struct col_units u = col_units_of(team, p->segments, p->rows, p->cols, how);
    const struct col_terms t = {dy, p->x, p->mean, p->rstd, p->gamma, p->beta, p->cols};
#define SUMS(kind) col_segments(kind, team, sum, dot, &t, p->segments, p->rows, 0, how)
    if (p->act == NP_ACT_NONE)
        SUMS(COL_PLAIN);
    else if (p->act == NP_ACT_RELU)
        SUMS(COL_RELU);
    else if (p->act == NP_ACT_RELU6)
        SUMS(COL_RELU6);
    else
        for (size_t i = u.units.begin; i < u.units.end; i++)
            for (size_t c = u.cols.begin; c < u.cols.end; c += NORM_TILE)
                colnorm_columns(sum + i * p->cols + c, dot + i * p->cols + c, p, dy,
                                col_unit(&u, i), i / u.each, c, np_min(NORM_TILE, u.cols.end - c));
}

/* What colnorm_grad reads of n columns. */
struct colnorm_back {
    const float *mean, *rstd, *gamma, *beta, *a, *b;
};

NP_INLINE uint32_t colnorm_grad_run(enum np_act act, float *dx, const float *base, const float *x,
                                    const float *dy, const struct colnorm_back *q, size_t n)
{
    const float *mean = q->mean, *rstd = q->rstd, *gamma = q->gamma, *beta = q->beta;
    const float *a = q->a, *b = q->b;
    uint32_t bad = 0;
    NP_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        float h = (x[i] - mean[i]) * rstd[i];
        float du = dy[i] * np_act_grad(act, fmaf(h, gamma[i], beta[i]));
        float d = rstd[i] * ((du * gamma[i] - a[i]) - h * b[i]);
        d = base ? base[i] + d : d;
        bad |= np_not_finite(d);
        dx[i] = d;
    }
    return bad;
}

static bool colnorm_grad(struct np_team *team, float *dx, const float *base,
                         const struct np_colnorm *p, const float *dy, const float *a,
                         const float *b)
{
    struct np_share share = np_team_share(team, p->segments * p->rows, 1);
    struct col_pattern copies[6];
    struct col_rows rows;
    uint32_t bad = 0;
    for (size_t r = share.begin; r < share.end; r = rows.end / p->cols) {
        rows = col_rows_of(r, share.end, p->rows, p->cols);
        const size_t first = rows.segment * p->cols;
        const float *from[6] = {p->mean + first, p->rstd + first, p->gamma,
                                p->beta,         a + first,       b + first};
        for (size_t i = 0; i < 6; i++)
            col_repeat(&copies[i], from[i], p->cols, rows.times);
        struct colnorm_back q = {copies[0].at, copies[1].at, copies[2].at,
                                 copies[3].at, copies[4].at, copies[5].at};
        for (size_t i = rows.begin; i < rows.end; i += rows.period) {
            const float *other = base ? base + i : NULL;
            size_t n = np_min(rows.period, rows.end - i);
#define GRAD(act)                                                                                  \
    bad |= other ? colnorm_grad_run(act, dx + i, other, p->x + i, dy + i, &q, n)                   \
                 : colnorm_grad_run(act, dx + i, NULL, p->x + i, dy + i, &q, n)
            NP_ACT_EACH(p->act, GRAD);
        }
    }
    return !bad;
}

/* y = x * s, or s where x is NULL; then base + y if there is a base. */
NP_INLINE uint32_t col_apply(float *y, const float *base, const float *x, const float *s, size_t n)
{
    uint32_t bad = 0;
    NP_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        float v = x ? x[i] * s[i] : s[i];
        v = base ? base[i] + v : v;
        bad |= np_not_finite(v);
        y[i] = v;
    }
    return bad;
}

static bool col_scale(struct np_team *team, float *y, const float *base, const float *x,
                      const float *s, size_t segments, size_t rows, size_t cols)
{
    struct np_share share = np_team_share(team, segments * rows, 1);
    struct col_pattern scale;
    struct col_rows part;
    uint32_t bad = 0;
    for (size_t r = share.begin; r < share.end; r = part.end / cols) {
        part = col_rows_of(r, share.end, rows, cols);
        col_repeat(&scale, s + part.segment * cols, cols, part.times);
        for (size_t i = part.begin; i < part.end; i += part.period) {
            size_t n = np_min(part.period, part.end - i);
            bad |= base ? col_apply(y + i, base + i, x + i, scale.at, n)
                        : col_apply(y + i, NULL, x + i, scale.at, n);
        }
    }
    return !bad;
}

static bool col_spread(struct np_team *team, float *y, const float *base, const float *s,
                       size_t segments, size_t rows, size_t cols)
{
    struct np_share share = np_team_share(team, segments * rows, 1);
    struct col_pattern spread;
    struct col_rows part;
    uint32_t bad = 0;
    for (size_t r = share.begin; r < share.end; r = part.end / cols) {
        part = col_rows_of(r, share.end, rows, cols);
        col_repeat(&spread, s + part.segment * cols, cols, part.times);
        for (size_t i = part.begin; i < part.end; i += part.period) {
            size_t n = np_min(part.period, part.end - i);
            bad |= base ? col_apply(y + i, base + i, NULL, spread.at, n)
                        : col_apply(y + i, NULL, NULL, spread.at, n);
        }
    }
    return !bad;
}

#endif
