/* Kernels of num/kernels.h: optimizer updates with the fingerprint of what they write. */
#ifndef NP_NUM_OPTIMIZER_LOOPS_H
#define NP_NUM_OPTIMIZER_LOOPS_H

#include <math.h>

#include "num/elementary.h"
#include "num/loops.h"

/* Updated in blocks that stay in the cache until they are fingerprinted. */
#define UPDATE_BLOCK 1024

static uint64_t fingerprint_range(const float *x, struct np_share range, uint64_t address)
{
    uint64_t sum = 0;
    for (size_t i = range.begin; i < range.end; i++)
        sum += np_fingerprint_mix(address + i, np_float_bits(x[i]));
    return sum;
}

static uint64_t fingerprint(struct np_team *team, const float *x, size_t count, uint64_t address)
{
    return fingerprint_range(x, np_team_share(team, count, NP_SHARE_UNIT), address);
}

/* The gradient as the update sees it. */
NP_INLINE float clip(float g, float scale, float limit)
{
    g = g * scale;
    g = g < -limit ? -limit : g;
    g = g > limit ? limit : g;
    return np_flushf(g);
}

static void adamw_range(const struct np_update *u, struct np_share range)
{
    const float scale = u->scale, limit = u->limit, eps = u->eps, c1 = u->c1, c2 = u->c2;
    const float beta1 = u->beta1, beta2 = u->beta2, rest1 = 1.0f - beta1, rest2 = 1.0f - beta2;
    const float lr = u->lr, decay = u->lr * u->decay;
    const float *gradient = u->g;
    float *w = u->w, *m = u->m, *v = u->v;
    NP_INDEPENDENT
    for (size_t i = range.begin; i < range.end; i++) {
        float g = clip(gradient[i], scale, limit);
        float mi = np_flushf(fmaf(beta1, m[i], rest1 * g));
        float vi = np_flushf(fmaf(beta2, v[i], rest2 * (g * g)));
        float direction = (mi * c1) / (sqrtf(vi * c2) + eps);
        w[i] = np_flushf(fmaf(-lr, direction, fmaf(-decay, w[i], w[i])));
        m[i] = mi;
        v[i] = vi;
    }
}

static uint64_t adamw(struct np_team *team, const struct np_update *u)
{
    struct np_share share = np_team_share(team, u->count, NP_SHARE_UNIT), block;
    uint64_t sum = 0;
    for (block.begin = share.begin; block.begin < share.end; block.begin = block.end) {
        block.end = block.begin + UPDATE_BLOCK < share.end ? block.begin + UPDATE_BLOCK : share.end;
        adamw_range(u, block);
        sum += fingerprint_range(u->w, block, u->address);
        sum += fingerprint_range(u->m, block, u->address + u->count);
        sum += fingerprint_range(u->v, block, u->address + 2 * u->count);
    }
    return sum;
}

static void sgd_range(const struct np_update *u, struct np_share range)
{
    const float scale = u->scale, limit = u->limit, lr = u->lr, decay = u->decay;
    const float *gradient = u->g;
    float *w = u->w;
    NP_INDEPENDENT
    for (size_t i = range.begin; i < range.end; i++) {
        float g = fmaf(decay, w[i], clip(gradient[i], scale, limit));
        w[i] = np_flushf(fmaf(-lr, g, w[i]));
    }
}

NP_INLINE void momentum_range(const struct np_update *u, struct np_share range, bool nesterov)
{
    const float scale = u->scale, limit = u->limit, lr = u->lr, decay = u->decay;
    const float momentum = u->momentum;
    const float *gradient = u->g;
    float *w = u->w, *m = u->m;
    NP_INDEPENDENT
    for (size_t i = range.begin; i < range.end; i++) {
        float g = fmaf(decay, w[i], clip(gradient[i], scale, limit));
        float mi = np_flushf(fmaf(momentum, m[i], g));
        float t = nesterov ? fmaf(momentum, mi, g) : mi;
        w[i] = np_flushf(fmaf(-lr, t, w[i]));
        m[i] = mi;
    }
}

static uint64_t sgd(struct np_team *team, const struct np_update *u)
{
    struct np_share share = np_team_share(team, u->count, NP_SHARE_UNIT), block;
    uint64_t sum = 0;
    for (block.begin = share.begin; block.begin < share.end; block.begin = block.end) {
        block.end = block.begin + UPDATE_BLOCK < share.end ? block.begin + UPDATE_BLOCK : share.end;
        if (!u->m)
            sgd_range(u, block);
        else if (u->nesterov)
            momentum_range(u, block, true);
        else
            momentum_range(u, block, false);
        sum += fingerprint_range(u->w, block, u->address);
        if (u->m)
            sum += fingerprint_range(u->m, block, u->address + u->count);
    }
    return sum;
}

#endif
