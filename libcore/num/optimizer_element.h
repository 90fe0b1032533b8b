/* One element of an optimizer's update, as num/kernels.h puts it: the scalar backend's, and where
 * the others' vectors end.
 */
#ifndef NP_NUM_OPTIMIZER_ELEMENT_H
#define NP_NUM_OPTIMIZER_ELEMENT_H

#include <math.h>

#include "num/elementary.h"
#include "num/loops.h"

/* What an update carries from element to element. */
struct tally {
    uint64_t sum; /* fingerprint of what was written */
    bool finite;
};

/* One of the tensors. */
NP_FN struct np_update np_update_of(const struct np_layer_update *all, int number)
{
    struct np_update u = all->layer;
    size_t offset = all->of[number].offset;
    u.w += offset;
    u.m = u.m ? u.m + offset : u.m;
    u.v = u.v ? u.v + offset : u.v;
    u.g += offset;
    u.count = all->of[number].count;
    u.decay = all->of[number].decay;
    u.address += 3 * offset;
    return u;
}

/* The factor that brings a gradient within the limit of its norm; 0 for a norm that overflows. */
NP_FN float clip_scale(const struct np_update *u)
{
    float norm = u->square ? sqrtf(*u->square) : 0.0f;
    return u->square && norm > u->norm_limit ? u->norm_limit / norm : 1.0f;
}

NP_FN void write_element(float *x, size_t i, float value, uint64_t address, struct tally *t)
{
    x[i] = np_flushf(value);
    t->sum += np_fingerprint_mix(address + i, np_float_bits(x[i]));
    if (!np_is_finite(x[i]))
        t->finite = false;
}

/* The gradient as the update sees it. */
NP_FN float clip_element(const struct np_update *u, float scale, size_t i, struct tally *t)
{
    float g = u->g[i] * scale;
    if (!np_is_finite(u->g[i]))
        t->finite = false;
    g = g < -u->limit ? -u->limit : g;
    g = g > u->limit ? u->limit : g;
    return np_flushf(g);
}

NP_FN void adamw_element(const struct np_update *u, float scale, size_t i, struct tally *t)
{
    float g = clip_element(u, scale, i, t), w = u->w[i], direction;
    float m = fmaf(u->beta1, u->m[i], (1.0f - u->beta1) * g);
    float v = fmaf(u->beta2, u->v[i], (1.0f - u->beta2) * (g * g));
    write_element(u->m, i, m, u->address + u->count, t);
    write_element(u->v, i, v, u->address + 2 * u->count, t);
    direction = (u->m[i] * u->c1) / (sqrtf(u->v[i] * u->c2) + u->eps);
    w = fmaf(-u->lr, direction, fmaf(-(u->lr * u->decay), w, w));
    write_element(u->w, i, w, u->address, t);
}

NP_FN void sgd_element(const struct np_update *u, float scale, size_t i, struct tally *t)
{
    float g = fmaf(u->decay, u->w[i], clip_element(u, scale, i, t));
    if (u->m) {
        float m = fmaf(u->momentum, u->m[i], g);
        write_element(u->m, i, m, u->address + u->count, t);
        g = u->nesterov ? fmaf(u->momentum, u->m[i], g) : u->m[i];
    }
    write_element(u->w, i, fmaf(-u->lr, g, u->w[i]), u->address, t);
}

/* The table's entry for a rule whose tensors name_tensor updates. */
#define NP_LAYER_UPDATE(name)                                                                      \
    static bool name(struct np_team *team, const struct np_layer_update *all, uint64_t *sum)       \
    {                                                                                              \
        bool finite = true;                                                                        \
        for (int i = 0; i < all->count; i++) {                                                     \
            struct np_update u = np_update_of(all, i);                                             \
            finite = name##_tensor(team, &u, sum) && finite;                                       \
        }                                                                                          \
        return finite;                                                                             \
    }

#endif
