/* Kernels of num/kernels.h: activations, gated or not, with their bias, and their gradients. */
#ifndef NP_NUM_ACTIVATION_LOOPS_H
#define NP_NUM_ACTIVATION_LOOPS_H

#include "num/elementary.h"
#include "num/loops.h"

/* kind is a constant wherever these are inlined: no choice is left inside a loop. */
NP_INLINE float act(enum np_act kind, float u)
{
    return kind == NP_ACT_RELU ? np_reluf(u) : kind == NP_ACT_GELU ? np_geluf(u) : np_swishf(u);
}

NP_INLINE float act_derivative(enum np_act kind, float u)
{
    return kind == NP_ACT_RELU   ? np_relu_gradf(u)
           : kind == NP_ACT_GELU ? np_gelu_gradf(u)
                                 : np_swish_gradf(u);
}

NP_INLINE void bias_act_rows(enum np_act kind, float *y, float *x, const float *bias,
                             struct np_share rows, size_t cols)
{
    for (size_t r = rows.begin; r < rows.end; r++) {
        float *u = x + r * cols, *out = y + r * cols;
        NP_INDEPENDENT
        for (size_t j = 0; j < cols; j++) {
            float sum = u[j] + bias[j];
            u[j] = sum;
            out[j] = act(kind, sum);
        }
    }
}

static void bias_act(struct np_team *team, enum np_act kind, float *y, float *x, const float *bias,
                     size_t rows, size_t cols)
{
    struct np_share share = np_team_share(team, rows, 1);
    switch (kind) {
    case NP_ACT_RELU:
        bias_act_rows(NP_ACT_RELU, y, x, bias, share, cols);
        break;
    case NP_ACT_GELU:
        bias_act_rows(NP_ACT_GELU, y, x, bias, share, cols);
        break;
    case NP_ACT_SWISH:
        bias_act_rows(NP_ACT_SWISH, y, x, bias, share, cols);
        break;
    }
}

NP_INLINE void act_grad_range(enum np_act kind, float *dx, const float *u, const float *dy,
                              struct np_share range)
{
    NP_INDEPENDENT
    for (size_t i = range.begin; i < range.end; i++)
        dx[i] = dy[i] * act_derivative(kind, u[i]);
}

static void act_grad(struct np_team *team, enum np_act kind, float *dx, const float *u,
                     const float *dy, size_t count)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    switch (kind) {
    case NP_ACT_RELU:
        act_grad_range(NP_ACT_RELU, dx, u, dy, share);
        break;
    case NP_ACT_GELU:
        act_grad_range(NP_ACT_GELU, dx, u, dy, share);
        break;
    case NP_ACT_SWISH:
        act_grad_range(NP_ACT_SWISH, dx, u, dy, share);
        break;
    }
}

static void bias_glu(struct np_team *team, float *y, float *u, const float *bias, size_t rows,
                     size_t cols)
{
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++) {
        float *value = u + r * 2 * cols, *gate = value + cols, *out = y + r * cols;
        NP_INDEPENDENT
        for (size_t j = 0; j < cols; j++) {
            float a = value[j] + bias[j], b = gate[j] + bias[cols + j];
            value[j] = a;
            gate[j] = b;
            out[j] = a * np_sigmoidf(b);
        }
    }
}

static void glu_grad(struct np_team *team, float *du, const float *u, const float *dy, size_t rows,
                     size_t cols)
{
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++) {
        const float *value = u + r * 2 * cols, *gate = value + cols, *up = dy + r * cols;
        float *da = du + r * 2 * cols, *db = da + cols;
        NP_INDEPENDENT
        for (size_t j = 0; j < cols; j++) {
            float s = np_sigmoidf(gate[j]);
            da[j] = up[j] * s;
            db[j] = ((up[j] * value[j]) * s) * (1.0f - s);
        }
    }
}

#endif
