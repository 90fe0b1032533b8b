/* Kernels of num/kernels.h: element by element without a transcendental function. */
#ifndef NP_NUM_ELEMENTWISE_LOOPS_H
#define NP_NUM_ELEMENTWISE_LOOPS_H

#include <math.h>
#include <string.h>

#include "num/elementary.h"
#include "num/loops.h"

static void bias_add(struct np_team *team, float *y, const float *x, const float *bias, size_t rows,
                     size_t cols)
{
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++) {
        const float *in = x + r * cols;
        float *out = y + r * cols;
        NP_INDEPENDENT
        for (size_t j = 0; j < cols; j++)
            out[j] = in[j] + bias[j];
    }
}

static void distill(struct np_team *team, float *y, const float *p, const float *q,
                    const int32_t *targets, size_t rows, size_t classes, float scale)
{
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++) {
        const size_t begin = r * classes, end = targets[r] < 0 ? begin : begin + classes;
        NP_INDEPENDENT
        for (size_t i = begin; i < end; i++)
            y[i] = y[i] + (p[i] - q[i]) * scale;
    }
}

enum { MOMENT_COLS = 64 }; /* that are summed before they are divided */

/* The totals of n columns from `col` on. */
static void add_moment(float *total, const struct np_moments *all, int number, size_t col, size_t n)
{
    const float *chunk = all->of[number].sums + col;
    memcpy(total, chunk, n * sizeof *total);
    for (size_t k = 1; k < all->chunks; k++) {
        chunk += all->cols;
        NP_INDEPENDENT
        for (size_t j = 0; j < n; j++)
            total[j] = total[j] + chunk[j];
    }
}

/* What is made of them; whether something is not finite. */
static uint32_t divide_moment(const float *total, const struct np_moments *all, int number,
                              size_t col, size_t n)
{
    const struct np_moment *m = &all->of[number];
    uint32_t bad = 0;
    for (size_t j = 0, i = col; j < n; j++, i++) {
        float quotient = (m->gamma ? m->gamma[i] * total[j] : total[j]) / all->by;
        bad |= np_not_finite(quotient);
        if (m->quotient)
            m->quotient[i] = quotient;
        if (m->stats) {
            m->stats[i] = m->stats[i] + quotient;
            bad |= np_not_finite(m->stats[i]);
        }
        if (m->rstd) {
            m->rstd[i] = 1.0f / sqrtf(quotient + all->eps);
            bad |= np_not_finite(m->rstd[i]);
        }
    }
    return bad;
}

static bool moments(struct np_team *team, const struct np_moments *all)
{
    struct np_share share = np_team_share(team, all->cols, NP_SHARE_UNIT);
    uint32_t bad = 0;
    for (int number = 0; number < all->count; number++) {
        const struct np_moment *m = &all->of[number];
        for (size_t i = share.begin, n; i < share.end; i += n) {
            float total[MOMENT_COLS];
            n = np_min(share.end - i, MOMENT_COLS);
            add_moment(total, all, number, i, n);
            if (m->total)
                memcpy(m->total + i, total, n * sizeof *total);
            if (m->quotient || m->stats || m->rstd)
                bad |= divide_moment(total, all, number, i, n);
        }
    }
    return !bad;
}

static bool norm_weight(struct np_team *team, float *dgamma, float *dbeta, const float *dot,
                        const float *sum, size_t cols, bool accumulate)
{
    struct np_share share = np_team_share(team, cols, NP_SHARE_UNIT);
    uint32_t bad = 0;
    for (size_t i = share.begin; i < share.end; i++) {
        float gamma = 0.0f + dot[i], beta = 0.0f + sum[i];
        dgamma[i] = accumulate ? dgamma[i] + gamma : gamma;
        dbeta[i] = accumulate ? dbeta[i] + beta : beta;
        bad |= np_not_finite(dgamma[i]) | np_not_finite(dbeta[i]);
    }
    return !bad;
}

static bool all_finite(struct np_team *team, const float *x, size_t count)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    uint32_t bad = 0;
    for (size_t i = share.begin; i < share.end; i++)
        bad |= np_not_finite(x[i]);
    return !bad;
}

static void fill(struct np_team *team, float *y, size_t count, float value)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    for (size_t i = share.begin; i < share.end; i++)
        y[i] = value;
}

static void copy(struct np_team *team, float *y, const float *x, size_t count)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    if (y != x)
        memcpy(y + share.begin, x + share.begin, (share.end - share.begin) * sizeof *y);
}

/* Where a row of a slice lies in its tensor. */
static size_t slice_row(const struct np_slice *slice, size_t row)
{
    size_t k = row % slice->count[2], j = row / slice->count[2] % slice->count[1];
    size_t i = row / slice->count[2] / slice->count[1];
    return i * slice->stride[0] + j * slice->stride[1] + k * slice->stride[2];
}

static void gather(struct np_team *team, float *y, const float *x, const struct np_slice *slice)
{
    size_t rows = slice->count[0] * slice->count[1] * slice->count[2], width = slice->count[3];
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++)
        memcpy(y + r * width, x + slice_row(slice, r), width * sizeof *y);
}

static void scatter(struct np_team *team, float *y, const float *x, const struct np_slice *slice)
{
    size_t rows = slice->count[0] * slice->count[1] * slice->count[2], width = slice->count[3];
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++)
        memcpy(y + slice_row(slice, r), x + r * width, width * sizeof *y);
}

static bool divide(struct np_team *team, float *y, const float *x, const float *gamma, size_t count,
                   float by)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    uint32_t bad = 0;
    NP_INDEPENDENT
    for (size_t i = share.begin; i < share.end; i++) {
        float quotient = (gamma ? gamma[i] * x[i] : x[i]) / by;
        bad |= np_not_finite(quotient);
        y[i] = quotient;
    }
    return !bad;
}

static bool rstd(struct np_team *team, float *y, const float *x, size_t count, float eps)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    uint32_t bad = 0;
    for (size_t i = share.begin; i < share.end; i++) {
        float root = 1.0f / sqrtf(x[i] + eps);
        bad |= np_not_finite(x[i]) | np_not_finite(root);
        y[i] = root;
    }
    return !bad;
}

static void spread(struct np_team *team, float *y, const float *x, size_t count, size_t width)
{
    struct np_share share = np_team_share(team, count, 1);
    for (size_t i = share.begin; i < share.end; i++)
        for (size_t j = 0; j < width; j++)
            y[i * width + j] = x[i];
}

static void hits(struct np_team *team, int32_t *hits, const float *logits, const int32_t *targets,
                 size_t rows, size_t classes)
{
    struct np_share share = np_team_share(team, rows, NP_SHARE_UNIT);
    for (size_t r = share.begin; r < share.end; r++) {
        hits[r] = np_first_largest(logits + r * classes, classes) == (size_t)targets[r];
    }
}

#endif
