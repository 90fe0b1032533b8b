/* SIMD kernels of num/kernels.h: layer norm, softmax, cross entropy, row sums.
 *
 * What a lane sum adds is computed first, a tile at a time, by loops that the compiler vectorises;
 * the tile stays in the first-level cache.
 */
#ifndef NP_NUM_NORM_SIMD_H
#define NP_NUM_NORM_SIMD_H

#include <math.h>

#include "num/elementary.h"
#include "num/lanes.h"
#include "num/loops.h"

#define TILE 1024 /* floats; a multiple of 32 */

static inline size_t tile_size(size_t begin, size_t count)
{
    return count - begin < TILE ? count - begin : TILE;
}

/* Lane sum of np_expf(x - m); if y is not NULL it receives the terms (it may be x). */
static float exp_sum(float *y, const float *x, float m, size_t count)
{
    struct lanes sum = lanes_zero();
    float tile[TILE];
    for (size_t i = 0, n; i < count; i += n) {
        const float *in = x + i;
        float *e = y ? y + i : tile;
        n = tile_size(i, count);
        NP_INDEPENDENT
        for (size_t j = 0; j < n; j++)
            e[j] = np_expf(in[j] - m);
        sum = lanes_add(sum, e, n);
    }
    return lanes_total(sum);
}

static void layernorm(struct np_team *team, float *y, float *mean, float *rstd, const float *x,
                      const float *gamma, const float *beta, size_t rows, size_t cols, float eps,
                      size_t period, size_t skip)
{
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++) {
        const float *in = x + r * cols;
        float *out = y + r * cols + (period ? r / period * skip : 0);
        float center = lane_sum(in, cols) / (float)cols, scale;
        NP_INDEPENDENT
        for (size_t j = 0; j < cols; j++)
            out[j] = in[j] - center;
        scale = 1.0f / sqrtf(lane_dot(out, out, cols) / (float)cols + eps);
        NP_INDEPENDENT
        for (size_t j = 0; j < cols; j++)
            out[j] = fmaf(out[j] * scale, gamma[j], beta[j]);
        mean[r] = center;
        rstd[r] = scale;
    }
}

/* The two means of layernorm_grad. */
static void layernorm_grad_means(float *a, float *b, const float *x, const float *dy,
                                 const float *gamma, float mean, float rstd, size_t cols)
{
    struct lanes sum_a = lanes_zero(), sum_b = lanes_zero();
    float t[TILE], h[TILE];
    for (size_t i = 0, n; i < cols; i += n) {
        n = tile_size(i, cols);
        for (size_t j = 0; j < n; j++) {
            h[j] = (x[i + j] - mean) * rstd;
            t[j] = dy[i + j] * gamma[i + j];
        }
        sum_a = lanes_add(sum_a, t, n);
        sum_b = lanes_fma(sum_b, t, h, n);
    }
    *a = lanes_total(sum_a) / (float)cols;
    *b = lanes_total(sum_b) / (float)cols;
}

static bool layernorm_grad(struct np_team *team, float *dx, const float *residual, const float *x,
                           const float *dy, const float *mean, const float *rstd,
                           const float *gamma, size_t rows, size_t cols)
{
    struct np_share share = np_team_share(team, rows, 1);
    uint32_t bad = 0;
    for (size_t r = share.begin; r < share.end; r++) {
        const float *in = x + r * cols, *up = dy + r * cols, *other = residual + r * cols;
        float *out = dx + r * cols, a, b;
        float center = mean[r], scale = rstd[r];
        layernorm_grad_means(&a, &b, in, up, gamma, center, scale, cols);
        NP_INDEPENDENT
        for (size_t j = 0; j < cols; j++) {
            float h = (in[j] - center) * scale, t = up[j] * gamma[j];
            float d = scale * ((t - a) - h * b) + other[j];
            out[j] = d;
            bad |= !np_is_finite(d);
        }
    }
    return !bad;
}

static void rowsum(struct np_team *team, float *out, const float *x, size_t rows, size_t cols)
{
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++)
        out[r] = lane_sum(x + r * cols, cols);
}

static float sumsq(struct np_team *team, const float *x, size_t count)
{
    return team->rank == 0 ? lane_dot(x, x, count) : 0.0f;
}

static void softmax(struct np_team *team, float *y, const float *x, size_t rows, size_t cols)
{
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++) {
        const float *in = x + r * cols;
        float *out = y + r * cols;
        float z = exp_sum(out, in, lane_max(in, cols), cols);
        for (size_t j = 0; j < cols; j++)
            out[j] = np_flushf(out[j] / z);
    }
}

static void softmax_grad(struct np_team *team, float *dx, const float *y, const float *dy,
                         size_t rows, size_t cols)
{
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++) {
        const float *p = y + r * cols, *up = dy + r * cols;
        float *out = dx + r * cols, a = lane_dot(p, up, cols);
        NP_INDEPENDENT
        for (size_t j = 0; j < cols; j++)
            out[j] = p[j] * (up[j] - a);
    }
}

/* Lane sum of x - m. */
static float shifted_sum(const float *x, float m, size_t count)
{
    struct lanes sum = lanes_zero();
    float d[TILE];
    for (size_t i = 0, n; i < count; i += n) {
        n = tile_size(i, count);
        for (size_t j = 0; j < n; j++)
            d[j] = x[i + j] - m;
        sum = lanes_add(sum, d, n);
    }
    return lanes_total(sum);
}

static void xent(struct np_team *team, float *loss, const float *logits, const int32_t *targets,
                 size_t rows, size_t classes, float smoothing)
{
    struct np_share share = np_team_share(team, rows, 1);
    float on = 1.0f - smoothing, off = smoothing / (float)classes;
    for (size_t r = share.begin; r < share.end; r++) {
        const float *x = logits + r * classes;
        float m = lane_max(x, classes), log_z = np_logf(exp_sum(NULL, x, m, classes));
        float d_target = x[targets[r]] - m;
        loss[r] = smoothing == 0.0f
                      ? log_z - d_target
                      : fmaf(-off, shifted_sum(x, m, classes), fmaf(-on, d_target, log_z));
    }
}

static void xent_grad(struct np_team *team, float *dlogits, const float *logits,
                      const int32_t *targets, size_t rows, size_t classes, float smoothing,
                      float scale)
{
    struct np_share share = np_team_share(team, rows, 1);
    float on = 1.0f - smoothing, off = smoothing / (float)classes;
    for (size_t r = share.begin; r < share.end; r++) {
        const float *x = logits + r * classes;
        float *d = dlogits + r * classes;
        float z = exp_sum(d, x, lane_max(x, classes), classes);
        float target = (np_flushf(d[targets[r]] / z) - (off + on)) * scale;
        for (size_t v = 0; v < classes; v++)
            d[v] = (np_flushf(d[v] / z) - off) * scale;
        d[targets[r]] = target;
    }
}

#endif
