/* SIMD kernels of num/kernels.h: activations and their gradients, gated units. */
#ifndef NP_NUM_ACTIVATION_SIMD_H
#define NP_NUM_ACTIVATION_SIMD_H

#include "num/activation_lanes.h"
#include "num/loops.h"

#define ACT_AHEAD 512 /* floats */

/* Asks memory for what is read soon where a kind takes so long that it would rest meanwhile. */
NP_INLINE void act_fetch(enum np_act kind, const float *p)
{
    if (kind == NP_ACT_GELU || kind == NP_ACT_SWISH || kind == NP_ACT_SIGMOID)
        lanes_fetch(p + ACT_AHEAD);
}

NP_INLINE bool act_range(enum np_act kind, float *y, const float *x, struct np_share range)
{
    vf bad = v_zero();
#define STEP(at, n)                                                                                \
    do {                                                                                           \
        struct lanes u = lanes_load(x + (at), n);                                                  \
        act_fetch(kind, x + (at));                                                                 \
        bad = lanes_bad(bad, u);                                                                   \
        lanes_store(y + (at), n, l_act(kind, u));                                                  \
    } while (0)
    LANES_BLOCKS(range.begin, range.end, STEP);
#undef STEP
    return !v_any(bad);
}

static bool act(struct np_team *team, enum np_act kind, float *y, const float *x, size_t count)
{
    struct np_deal deal = np_team_deal(team, count, NP_SHARE_UNIT);
    bool ok = true;
#define CALL(constant) ok = act_range(constant, y, x, part) && ok
    for (struct np_share part; np_deal_piece(&deal, &part);)
        NP_ACT_EACH(kind, CALL);
#undef CALL
    return ok;
}

/* base is NULL wherever based is false. */
NP_INLINE bool act_grad_range(enum np_act kind, bool based, float *dx, const float *base,
                              const float *u, const float *dy, struct np_share range)
{
    vf bad = v_zero();
#define STEP(at, n)                                                                                \
    do {                                                                                           \
        struct lanes d = l_act_grad(kind, lanes_load(u + (at), n));                                \
        act_fetch(kind, u + (at));                                                                 \
        act_fetch(kind, dy + (at));                                                                \
        d = l_mul(lanes_load(dy + (at), n), d);                                                    \
        d = based ? l_add(lanes_load(base + (at), n), d) : d;                                      \
        bad = lanes_bad(bad, d);                                                                   \
        lanes_store(dx + (at), n, d);                                                              \
    } while (0)
    LANES_BLOCKS(range.begin, range.end, STEP);
#undef STEP
    return !v_any(bad);
}

static bool act_grad(struct np_team *team, enum np_act kind, float *dx, const float *base,
                     const float *u, const float *dy, size_t count)
{
    struct np_deal deal = np_team_deal(team, count, NP_SHARE_UNIT);
    bool ok = true;
#define CALL(constant)                                                                             \
    ok = (base ? act_grad_range(constant, true, dx, base, u, dy, part)                             \
               : act_grad_range(constant, false, dx, NULL, u, dy, part)) &&                        \
         ok
    for (struct np_share part; np_deal_piece(&deal, &part);)
        NP_ACT_EACH(kind, CALL);
#undef CALL
    return ok;
}

/* kept is NULL wherever keep is false. */
NP_INLINE bool add_range(enum np_act kind, bool keep, float *y, float *kept, const float *a,
                         const float *b, struct np_share range)
{
    vf bad = v_zero();
#define STEP(at, n)                                                                                \
    do {                                                                                           \
        struct lanes sum = l_add(lanes_load(a + (at), n), lanes_load(b + (at), n));                \
        bad = lanes_bad(bad, sum);                                                                 \
        if (keep)                                                                                  \
            lanes_store(kept + (at), n, sum);                                                      \
        lanes_store(y + (at), n, l_act(kind, sum));                                                \
    } while (0)
    LANES_BLOCKS(range.begin, range.end, STEP);
#undef STEP
    return !v_any(bad);
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
    struct np_deal deal = np_team_deal(team, rows, 1);
    for (size_t r; np_deal_item(&deal, &r);) {
        float *value = u + r * 2 * cols, *gate = value + cols, *out = y + r * cols;
#define STEP(at, n)                                                                                \
    do {                                                                                           \
        struct lanes a = l_add(lanes_load(value + (at), n), lanes_load(bias + (at), n));           \
        struct lanes b = l_add(lanes_load(gate + (at), n), lanes_load(bias + cols + (at), n));     \
        lanes_store(value + (at), n, a);                                                           \
        lanes_store(gate + (at), n, b);                                                            \
        lanes_store(out + (at), n, l_mul(a, l_sigmoid(b)));                                        \
    } while (0)
        LANES_BLOCKS(0, cols, STEP);
#undef STEP
    }
}

static void glu_grad(struct np_team *team, float *du, const float *u, const float *dy, size_t rows,
                     size_t cols)
{
    struct np_deal deal = np_team_deal(team, rows, 1);
    for (size_t r; np_deal_item(&deal, &r);) {
        const float *value = u + r * 2 * cols, *gate = value + cols, *up = dy + r * cols;
        float *da = du + r * 2 * cols, *db = da + cols;
#define STEP(at, n)                                                                                \
    do {                                                                                           \
        struct lanes s = l_sigmoid(lanes_load(gate + (at), n)), d = lanes_load(up + (at), n);      \
        struct lanes both = l_mul(l_mul(d, lanes_load(value + (at), n)), s);                       \
        lanes_store(da + (at), n, l_mul(d, s));                                                    \
        lanes_store(db + (at), n, l_mul(both, l_sub(l_set1(1.0f), s)));                            \
    } while (0)
        LANES_BLOCKS(0, cols, STEP);
#undef STEP
    }
}

#endif
