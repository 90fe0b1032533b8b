/* Scalar reference of num/kernels.h: layer norm, softmax, cross entropy, row sums. */
#ifndef NP_NUM_NORM_SCALAR_H
#define NP_NUM_NORM_SCALAR_H

#include <math.h>

#include "num/elementary.h"
#include "num/loops.h"

static float lane_total(float lane[32])
{
    for (size_t stride = 16; stride > 0; stride /= 2)
        for (size_t l = 0; l < stride; l++)
            lane[l] = lane[l] + lane[l + stride];
    return lane[0];
}

static float lane_sum(const float *x, size_t count)
{
    float lane[32] = {0};
    for (size_t i = 0; i < count; i++)
        lane[i % 32] = lane[i % 32] + x[i];
    return lane_total(lane);
}

static float lane_dot(const float *x, const float *y, size_t count)
{
    float lane[32] = {0};
    for (size_t i = 0; i < count; i++)
        lane[i % 32] = fmaf(x[i], y[i], lane[i % 32]);
    return lane_total(lane);
}

static float row_max(const float *x, size_t count)
{
    float m = x[0];
    for (size_t i = 1; i < count; i++)
        m = x[i] > m ? x[i] : m;
    return m;
}

/* Lane sum of np_expf(x - m). */
static float exp_sum(const float *x, float m, size_t count)
{
    float lane[32] = {0};
    for (size_t i = 0; i < count; i++)
        lane[i % 32] = lane[i % 32] + np_expf(x[i] - m);
    return lane_total(lane);
}

static void layernorm(struct np_team *team, float *y, float *mean, float *rstd, const float *x,
                      const float *gamma, const float *beta, size_t rows, size_t cols, float eps)
{
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++) {
        const float *in = x + r * cols;
        float *out = y + r * cols;
        float lane[32] = {0}, center = 0.0f;
        if (mean)
            center = mean[r] = lane_sum(in, cols) / (float)cols;
        for (size_t j = 0; j < cols; j++) {
            float d = in[j] - center;
            lane[j % 32] = fmaf(d, d, lane[j % 32]);
        }
        rstd[r] = 1.0f / sqrtf(lane_total(lane) / (float)cols + eps);
        for (size_t j = 0; j < cols; j++) {
            float h = (in[j] - center) * rstd[r];
            out[j] = mean ? fmaf(h, gamma[j], beta[j]) : h * gamma[j];
        }
    }
}

static bool layernorm_grad(struct np_team *team, float *dx, const float *base, const float *x,
                           const float *dy, const float *mean, const float *rstd,
                           const float *gamma, size_t rows, size_t cols)
{
    struct np_share share = np_team_share(team, rows, 1);
    bool ok = true;
    for (size_t r = share.begin; r < share.end; r++) {
        size_t at = r * cols;
        float lane_a[32] = {0}, lane_b[32] = {0}, center = mean ? mean[r] : 0.0f, a, b;
        for (size_t j = 0; j < cols; j++) {
            float h = (x[at + j] - center) * rstd[r], t = dy[at + j] * gamma[j];
            lane_a[j % 32] = lane_a[j % 32] + t;
            lane_b[j % 32] = fmaf(t, h, lane_b[j % 32]);
        }
        a = mean ? lane_total(lane_a) / (float)cols : 0.0f;
        b = lane_total(lane_b) / (float)cols;
        for (size_t j = 0; j < cols; j++) {
            float h = (x[at + j] - center) * rstd[r], t = dy[at + j] * gamma[j];
            float d = rstd[r] * ((t - a) - h * b);
            dx[at + j] = base ? base[at + j] + d : d;
            ok = ok && np_is_finite(dx[at + j]);
        }
    }
    return ok;
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

static void softmax(struct np_team *team, float *y, const float *x, size_t rows, size_t cols)
{
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++) {
        const float *in = x + r * cols;
        float *out = y + r * cols;
        float m = row_max(in, cols), z = exp_sum(in, m, cols);
        for (size_t j = 0; j < cols; j++)
            out[j] = np_flushf(np_expf(in[j] - m) / z);
    }
}

static void softmax_grad(struct np_team *team, float *dx, const float *y, const float *dy,
                         size_t rows, size_t cols)
{
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++) {
        const float *p = y + r * cols, *up = dy + r * cols;
        float a = lane_dot(p, up, cols);
        for (size_t j = 0; j < cols; j++)
            dx[r * cols + j] = p[j] * (up[j] - a);
    }
}

static void xent(struct np_team *team, float *loss, const float *logits, const int32_t *targets,
                 size_t rows, size_t classes, float smoothing)
{
    struct np_share share = np_team_share(team, rows, 1);
    float on = 1.0f - smoothing, off = smoothing / (float)classes;
    for (size_t r = share.begin; r < share.end; r++) {
        const float *x = logits + r * classes;
        if (targets[r] < 0) {
            loss[r] = 0;
            continue;
        }
        float m = row_max(x, classes), log_z = np_logf(exp_sum(x, m, classes));
        float d_target = x[targets[r]] - m, lane[32] = {0};
        if (smoothing == 0.0f) {
            loss[r] = log_z - d_target;
            continue;
        }
        for (size_t v = 0; v < classes; v++)
            lane[v % 32] = lane[v % 32] + (x[v] - m);
        loss[r] = fmaf(-off, lane_total(lane), fmaf(-on, d_target, log_z));
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
        float m = row_max(x, classes), z = exp_sum(x, m, classes);
        for (size_t v = 0; v < classes; v++) {
            float t = v == (size_t)targets[r] ? off + on : off;
            float d = (np_flushf(np_expf(x[v] - m) / z) - t) * scale;
            dlogits[r * classes + v] = targets[r] < 0 ? 0 : d;
        }
    }
}

#endif
