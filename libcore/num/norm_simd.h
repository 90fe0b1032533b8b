/* SIMD kernels of num/kernels.h: layer norm, softmax, cross entropy, row sums.
 *
 * A row is read two or three times and stays in the first-level cache between; what a lane sum adds
 * is computed in registers.
 */
#ifndef NP_NUM_NORM_SIMD_H
#define NP_NUM_NORM_SIMD_H

#include <math.h>

#include "num/elementary_lanes.h"
#include "num/loops.h"

/* Lane sum of the squares of x - mean; another row may follow. */
static float square_sum(const float *x, float mean, size_t count)
{
    struct lanes s = lanes_zero();
    const vf center = v_set1(mean);
#define STEP(at, k, n)                                                                             \
    do {                                                                                           \
        vf d = v_sub(lane_load(x + (at), n), center);                                              \
        __builtin_prefetch(x + count + (at));                                                      \
        s.v[k] = lane_keep(n, v_fma(d, d, s.v[k]), s.v[k]);                                        \
    } while (0)
    LANES_EACH(count, STEP);
#undef STEP
    return lanes_total(s);
}

/* y, with a mean or (beta is NULL) without. */
static void layernorm_row(float *y, const float *x, float mean, float rstd, const float *gamma,
                          const float *beta, size_t cols)
{
    const vf center = v_set1(mean), scale = v_set1(rstd);
#define STEP(at, k, n)                                                                             \
    do {                                                                                           \
        vf h = v_mul(v_sub(lane_load(x + (at), n), center), scale);                                \
        v_put(y + (at), n, v_fma(h, lane_load(gamma + (at), n), lane_load(beta + (at), n)));       \
    } while (0)
    if (beta) {
        LANES_EACH(cols, STEP);
        return;
    }
#undef STEP
#define STEP(at, k, n)                                                                             \
    v_put(y + (at), n, v_mul(v_mul(lane_load(x + (at), n), scale), lane_load(gamma + (at), n)))
    LANES_EACH(cols, STEP);
#undef STEP
}

static void layernorm(struct np_team *team, float *y, float *mean, float *rstd, const float *x,
                      const float *gamma, const float *beta, size_t rows, size_t cols, float eps)
{
    struct np_deal deal = np_team_deal(team, rows, 1);
    for (size_t r; np_deal_item(&deal, &r);) {
        const float *in = x + r * cols;
        float center = 0.0f;
        if (mean)
            center = mean[r] = lane_sum(in, cols) / (float)cols;
        rstd[r] = 1.0f / sqrtf(square_sum(in, center, cols) / (float)cols + eps);
        layernorm_row(y + r * cols, in, center, rstd[r], gamma, beta, cols);
    }
}

/* A row of layernorm_grad: `scale` times what is in its parentheses. */
struct norm_row {
    const float *x, *dy, *gamma;
    vf mean, rstd;
};

static inline vf norm_h(const struct norm_row *row, size_t at, size_t n)
{
    return v_mul(v_sub(lane_load(row->x + at, n), row->mean), row->rstd);
}

static inline vf norm_t(const struct norm_row *row, size_t at, size_t n)
{
    return v_mul(lane_load(row->dy + at, n), lane_load(row->gamma + at, n));
}

/* The two means. */
static void layernorm_grad_means(float *a, float *b, const struct norm_row *row, size_t cols)
{
    struct lanes sum = lanes_zero(), dot = lanes_zero();
#define STEP(at, k, n)                                                                             \
    do {                                                                                           \
        vf t = norm_t(row, at, n);                                                                 \
        sum.v[k] = lane_keep(n, v_add(sum.v[k], t), sum.v[k]);                                     \
        dot.v[k] = lane_keep(n, v_fma(t, norm_h(row, at, n), dot.v[k]), dot.v[k]);                 \
    } while (0)
    LANES_EACH(cols, STEP);
#undef STEP
    *a = lanes_total(sum) / (float)cols;
    *b = lanes_total(dot) / (float)cols;
}

/* Writes dx; returns the bits of what is not finite. based is a constant wherever this is
 * inlined. */
NP_INLINE vf layernorm_grad_row(float *dx, const float *base, bool based,
                                const struct norm_row *row, float mean_t, float mean_th,
                                size_t cols)
{
    const vf a = v_set1(mean_t), b = v_set1(mean_th);
    vf bad = v_zero();
#define STEP(at, k, n)                                                                             \
    do {                                                                                           \
        vf h = norm_h(row, at, n), t = norm_t(row, at, n), d;                                      \
        d = v_mul(row->rstd, v_sub(v_sub(t, a), v_mul(h, b)));                                     \
        d = based ? v_add(lane_load(base + (at), n), d) : d;                                       \
        bad = v_or(bad, lane_keep(n, v_sub(d, d), bad));                                           \
        v_put(dx + (at), n, d);                                                                    \
    } while (0)
    LANES_EACH(cols, STEP);
#undef STEP
    return bad;
}

static bool layernorm_grad(struct np_team *team, float *dx, const float *base, const float *x,
                           const float *dy, const float *mean, const float *rstd,
                           const float *gamma, size_t rows, size_t cols)
{
    struct np_deal deal = np_team_deal(team, rows, 1);
    vf bad = v_zero();
    for (size_t r; np_deal_item(&deal, &r);) {
        size_t at = r * cols;
        struct norm_row row = {x + at, dy + at, gamma, v_set1(mean ? mean[r] : 0.0f),
                               v_set1(rstd[r])};
        float a, b;
        layernorm_grad_means(&a, &b, &row, cols);
        a = mean ? a : 0.0f;
        bad = v_or(bad, base ? layernorm_grad_row(dx + at, base + at, true, &row, a, b, cols)
                             : layernorm_grad_row(dx + at, NULL, false, &row, a, b, cols));
    }
    return !v_any(bad);
}

static void rowsum(struct np_team *team, float *out, const float *x, size_t rows, size_t cols)
{
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++)
        out[r] = lane_sum(x + r * cols, cols);
}

static void sumsq(struct np_team *team, float *sum, const float *x, size_t count, bool accumulate)
{
    if (team->rank == 0)
        *sum = accumulate ? *sum + lane_dot(x, x, count) : lane_dot(x, x, count);
}

/* Rows of softmax overlap, or units that divide would rest while others compute exponentials and
 * both while the largest element is looked for: a pass over a row looks for the largest of the next
 * one and divides the last one. */
#define SOFT_AHEAD 128       /* floats of y that are asked for */
#define SOFT_NEAR (2u << 20) /* floats of y that a cache may hold */

/* A row of y that waits for its division by z; for xent_grad less off and times scale then. */
struct soft_last {
    float *y, z, off, scale;
};

/* grad is a constant wherever these are inlined. */
NP_INLINE void soft_divide(const struct soft_last *last, bool grad, size_t at, size_t n)
{
    struct lanes p = l_flush_small(l_div(lanes_load(last->y + at, n), l_set1(last->z)));
    if (grad)
        p = l_mul(l_sub(p, l_set1(last->off)), l_set1(last->scale));
    lanes_store(last->y + at, n, p);
}

/* Returns the lane sum of y = np_expf(x - *most), which becomes the largest of next; `waits` is a
 * constant: whether there is a last row. */
NP_INLINE float soft_row(float *y, const float *x, const float *next, float *most,
                         const struct soft_last *given, bool waits, bool grad, size_t cols)
{
    const struct soft_last last = *given;
    struct lanes sum = lanes_zero();
    const float m = *most;
    vf top = v_set1(next[0]);
#define STEP(at, n)                                                                                \
    do {                                                                                           \
        struct lanes e;                                                                            \
        top = lanes_most(top, lanes_load(next + (at), n), n);                                      \
        lanes_fetch(next + (at) + cols);                                                           \
        lanes_fetch_to(y + (at) + SOFT_AHEAD);                                                     \
        if (waits)                                                                                 \
            soft_divide(&last, grad, at, n);                                                       \
        e = l_exp_below(l_sub(lanes_load(x + (at), n), l_set1(m)));                                \
        sum = lanes_plus(sum, e, n);                                                               \
        lanes_store(y + (at), n, e);                                                               \
    } while (0)
    LANES_BLOCKS(0, cols, STEP);
#undef STEP
    *most = v_most(top);
    return lanes_total(sum);
}

/* What a row of xent_grad has at its target; all of it is +0 where there is none. */
NP_INLINE void soft_finish(float *y, int32_t target, float at_target, size_t cols)
{
    if (target >= 0)
        y[target] = at_target;
    else
        memset(y, 0, cols * sizeof *y);
}

/* softmax, or if grad xent_grad; on, targets, and of `last` off and scale are then set. Far from
 * the caches rows do not overlap: memory is better off with one row at a time. */
NP_INLINE void soft_rows(struct np_team *team, float *y, const float *x, size_t rows, size_t cols,
                         bool grad, struct soft_last last, float on, const int32_t *targets)
{
    struct np_deal deal = np_team_deal(team, rows, 1);
    const bool near = rows * cols <= SOFT_NEAR;
    for (struct np_share part; np_deal_piece(&deal, &part);) {
        float most = 0, target = 0;
        bool waits = false;
        for (size_t r = part.begin; r < part.end; r++) {
            const float *in = x + r * cols, *next = near && r + 1 < part.end ? in + cols : in;
            float *out = y + r * cols;
            if (!near || r == part.begin)
                most = lane_max(in, cols);
            if (waits)
                last.z = soft_row(out, in, next, &most, &last, true, grad, cols);
            else
                last.z = soft_row(out, in, next, &most, &last, false, grad, cols);
            if (grad && waits)
                soft_finish(last.y, targets[r - 1], target, cols);
            last.y = out;
            if (grad && targets[r] >= 0)
                target = (np_flushf(out[targets[r]] / last.z) - (last.off + on)) * last.scale;
            waits = near && r + 1 < part.end;
            if (waits)
                continue;
#define STEP(at, n) soft_divide(&last, grad, at, n)
            LANES_BLOCKS(0, cols, STEP);
#undef STEP
            if (grad)
                soft_finish(out, targets[r], target, cols);
        }
    }
}

static void softmax(struct np_team *team, float *y, const float *x, size_t rows, size_t cols)
{
    soft_rows(team, y, x, rows, cols, false, (struct soft_last){.z = 1}, 0, NULL);
}

static void xent_grad(struct np_team *team, float *dlogits, const float *logits,
                      const int32_t *targets, size_t rows, size_t classes, float smoothing,
                      float scale)
{
    struct soft_last last = {.off = smoothing / (float)classes, .scale = scale};
    soft_rows(team, dlogits, logits, rows, classes, true, last, 1.0f - smoothing, targets);
}

static void softmax_grad(struct np_team *team, float *dx, const float *y, const float *dy,
                         size_t rows, size_t cols)
{
    struct np_deal deal = np_team_deal(team, rows, 1);
    for (size_t r; np_deal_item(&deal, &r);) {
        const float *p = y + r * cols, *up = dy + r * cols;
        float *out = dx + r * cols, a = lane_dot(p, up, cols);
        NP_INDEPENDENT
        for (size_t j = 0; j < cols; j++)
            out[j] = p[j] * (up[j] - a);
    }
}

/* Lane sums of np_expf(x - *most) and, if smooth (a constant wherever this is inlined), of
 * x - *most, which becomes the largest of next. */
NP_INLINE void xent_sums(float *z, float *far, const float *x, const float *next, float *most,
                         size_t count, bool smooth)
{
    struct lanes e = lanes_zero(), d = lanes_zero();
    const float m = *most;
    vf top = v_set1(next[0]);
#define STEP(at, n)                                                                                \
    do {                                                                                           \
        struct lanes below = l_sub(lanes_load(x + (at), n), l_set1(m));                            \
        top = lanes_most(top, lanes_load(next + (at), n), n);                                      \
        lanes_fetch(next + (at) + count);                                                          \
        if (smooth)                                                                                \
            d = lanes_plus(d, below, n);                                                           \
        e = lanes_plus(e, l_exp_below(below), n);                                                  \
    } while (0)
    LANES_BLOCKS(0, count, STEP);
#undef STEP
    *z = lanes_total(e);
    *far = smooth ? lanes_total(d) : 0.0f;
    *most = v_most(top);
}

static void xent(struct np_team *team, float *loss, const float *logits, const int32_t *targets,
                 size_t rows, size_t classes, float smoothing)
{
    struct np_deal deal = np_team_deal(team, rows, 1);
    float on = 1.0f - smoothing, off = smoothing / (float)classes;
    for (struct np_share part; np_deal_piece(&deal, &part);) {
        float most = lane_max(logits + part.begin * classes, classes);
        for (size_t r = part.begin; r < part.end; r++) {
            const float *x = logits + r * classes, *next = r + 1 < part.end ? x + classes : x;
            float d_target = targets[r] < 0 ? 0 : x[targets[r]] - most, z, far;
            if (smoothing == 0.0f) {
                xent_sums(&z, &far, x, next, &most, classes, false);
                loss[r] = np_logf(z) - d_target;
            } else {
                xent_sums(&z, &far, x, next, &most, classes, true);
                loss[r] = fmaf(-off, far, fmaf(-on, d_target, np_logf(z)));
            }
            loss[r] = targets[r] < 0 ? 0 : loss[r];
        }
    }
}

#endif
