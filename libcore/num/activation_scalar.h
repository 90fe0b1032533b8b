/* Scalar kernels of num/kernels.h: activations and their gradients, gated units. */
#ifndef NP_NUM_ACTIVATION_SCALAR_H
#define NP_NUM_ACTIVATION_SCALAR_H

#include "num/activation.h"
#include "num/loops.h"

NP_INLINE bool act_range(enum np_act kind, float *y, const float *x, struct np_share range)
{
    uint32_t bad = 0;
    NP_INDEPENDENT
    for (size_t i = range.begin; i < range.end; i++) {
        bad |= np_not_finite(x[i]);
        y[i] = np_act(kind, x[i]);
    }
    return !bad;
}

static bool act(struct np_team *team, enum np_act kind, float *y, const float *x, size_t count)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    bool ok = true;
#define CALL(constant) ok = act_range(constant, y, x, share)
    NP_ACT_EACH(kind, CALL);
#undef CALL
    return ok;
}

/* base is NULL wherever based is false. */
NP_INLINE bool act_grad_range(enum np_act kind, bool based, float *dx, const float *base,
                              const float *u, const float *dy, struct np_share range)
{
    uint32_t bad = 0;
    NP_INDEPENDENT
    for (size_t i = range.begin; i < range.end; i++) {
        float d = dy[i] * np_act_grad(kind, u[i]);
        d = based ? base[i] + d : d;
        dx[i] = d;
        bad |= np_not_finite(d);
    }
    return !bad;
}

static bool act_grad(struct np_team *team, enum np_act kind, float *dx, const float *base,
                     const float *u, const float *dy, size_t count)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    bool ok = true;
#define CALL(constant)                                                                             \
    ok = base ? act_grad_range(constant, true, dx, base, u, dy, share)                             \
              : act_grad_range(constant, false, dx, NULL, u, dy, share)
    NP_ACT_EACH(kind, CALL);
#undef CALL
    return ok;
}

/* kept is NULL wherever keep is false. */
NP_INLINE bool add_range(enum np_act kind, bool keep, float *y, float *kept, const float *a,
                         const float *b, struct np_share range)
{
    uint32_t bad = 0;
    NP_INDEPENDENT
    for (size_t i = range.begin; i < range.end; i++) {
        float sum = a[i] + b[i];
        bad |= np_not_finite(sum);
        if (keep)
            kept[i] = sum;
        y[i] = np_act(kind, sum);
    }
    return !bad;
}

static bool add(struct np_team *team, enum np_act kind, float *y, float *kept, const float *a,
                const float *b, size_t count)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    bool ok = true;
#define CALL(constant)                                                                             \
    ok = kept && constant != NP_ACT_NONE ? add_range(constant, true, y, kept, a, b, share)         \
                                         : add_range(constant, false, y, NULL, a, b, share)
    NP_ACT_EACH(kind, CALL);
#undef CALL
    return ok;
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
