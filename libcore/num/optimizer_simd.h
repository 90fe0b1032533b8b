/* SIMD kernels of num/kernels.h: optimizer updates with the fingerprint of what they write.
 *
 * A block is updated, then fingerprinted, out of the first cache: one loop of both, whose passes
 * take more instructions than a processor looks ahead, would wait for every root and division.
 */
#ifndef NP_NUM_OPTIMIZER_SIMD_H
#define NP_NUM_OPTIMIZER_SIMD_H

#include "num/elementary_lanes.h"
#include "num/optimizer_element.h"

#define BLOCK 64 /* floats */

/* Running fingerprints of even and of odd elements, and the addresses of the next even ones. */
struct mixed {
    vq even, odd, at;
};

static inline struct mixed mix_begin(void)
{
    return (struct mixed){q_set1(0), q_set1(0), q_set1(0)};
}

static inline void mix_seek(struct mixed *m, uint64_t address)
{
    static const uint64_t even[8] = {0, 2, 4, 6, 8, 10, 12, 14};
    m->at = q_add(q_set1(address), q_load(even));
}

/* np_fingerprint_mix of addresses and what their bits are multiplied to */
static inline vq mix(vq address, vq product)
{
    vq x = q_xor(address, product);
    x = q_mul64(q_xor(x, q_high(x)), q_set1(NP_FINGERPRINT_MUL1));
    return q_xor(x, q_high(x));
}

/* Adds whole vectors of x[0..count-1], the first of which is at address; returns how many floats
 * these are. */
static inline size_t mix_floats(struct mixed *mixed, const float *x, size_t count, uint64_t address)
{
    struct mixed m = *mixed;
    size_t i = 0;
    mix_seek(&m, address);
    for (; i + NP_VW <= count; i += NP_VW) {
        vq even, odd;
        q_mul_bits(&even, &odd, v_load(x + i), NP_FINGERPRINT_MUL0);
        m.even = q_add(m.even, mix(m.at, even));
        m.odd = q_add(m.odd, mix(q_add(m.at, q_set1(1)), odd));
        m.at = q_add(m.at, q_set1(NP_VW));
    }
    *mixed = m;
    return i;
}

static inline uint64_t mix_total(const struct mixed *m)
{
    return q_total(q_add(m->even, m->odd));
}

static uint64_t fingerprint(struct np_team *team, const float *x, size_t count, uint64_t address)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    struct mixed m = mix_begin();
    uint64_t sum = 0;
    size_t i = share.begin;
    i += mix_floats(&m, x + i, share.end - i, address + i);
    for (; i < share.end; i++)
        sum += np_fingerprint_mix(address + i, np_float_bits(x[i]));
    return sum + mix_total(&m);
}

/* The gradient of 32 elements from i on, as the update sees it. */
NP_INLINE struct lanes clip(const struct np_update *u, float scale, size_t i, vf *bad)
{
    struct lanes raw = lanes_load(u->g + i, 32), g = l_mul(raw, l_set1(scale));
    *bad = lanes_bad(*bad, raw);
    g = l_max(l_set1(-u->limit), g);
    return l_flush(l_min(l_set1(u->limit), g));
}

/* m that is not finite makes a w that is not. */
NP_INLINE void adamw_lanes(const struct np_update *u, float scale, size_t i, vf *bad)
{
    struct lanes g = clip(u, scale, i, bad), m, v, w, root;
    m = l_mul(l_set1(1.0f - u->beta1), g);
    m = l_flush(l_fma(l_set1(u->beta1), lanes_load(u->m + i, 32), m));
    v = l_mul(l_set1(1.0f - u->beta2), l_mul(g, g));
    v = l_flush(l_fma(l_set1(u->beta2), lanes_load(u->v + i, 32), v));
    lanes_store(u->m + i, 32, m);
    lanes_store(u->v + i, 32, v);
    *bad = lanes_bad(*bad, v);
    root = l_add(l_sqrt(l_mul(v, l_set1(u->c2))), l_set1(u->eps));
    m = l_div(l_mul(m, l_set1(u->c1)), root);
    w = lanes_load(u->w + i, 32);
    w = l_fma(l_set1(-(u->lr * u->decay)), w, w);
    w = l_flush(l_fma(l_set1(-u->lr), m, w));
    *bad = lanes_bad(*bad, w);
    lanes_store(u->w + i, 32, w);
}

/* So it does here. The choices are constants wherever this is inlined. */
NP_INLINE void sgd_lanes(const struct np_update *u, float scale, size_t i, vf *bad, bool momentum,
                         bool nesterov)
{
    struct lanes w = lanes_load(u->w + i, 32), g = clip(u, scale, i, bad);
    g = l_fma(l_set1(u->decay), w, g);
    if (momentum) {
        struct lanes m = l_fma(l_set1(u->momentum), lanes_load(u->m + i, 32), g);
        m = l_flush(m);
        g = nesterov ? l_fma(l_set1(u->momentum), m, g) : m;
        lanes_store(u->m + i, 32, m);
    }
    w = l_flush(l_fma(l_set1(-u->lr), g, w));
    *bad = lanes_bad(*bad, w);
    lanes_store(u->w + i, 32, w);
}

NP_INLINE void plain_lanes(const struct np_update *u, float scale, size_t i, vf *bad)
{
    sgd_lanes(u, scale, i, bad, false, false);
}

NP_INLINE void momentum_lanes(const struct np_update *u, float scale, size_t i, vf *bad)
{
    sgd_lanes(u, scale, i, bad, true, false);
}

NP_INLINE void nesterov_lanes(const struct np_update *u, float scale, size_t i, vf *bad)
{
    sgd_lanes(u, scale, i, bad, true, true);
}

typedef void update_lanes(const struct np_update *, float, size_t, vf *);
typedef void update_element(const struct np_update *, float, size_t, struct tally *);

/* 32 elements of the share at a time, then what is left of it. The update is copied: what the loop
 * writes cannot change it then. */
NP_INLINE bool update(struct np_team *team, const struct np_update *given, uint64_t *sum, int slabs,
                      update_lanes *lanes, update_element *element)
{
    const struct np_update u = *given;
    const float *const slab[3] = {u.w, u.m, u.v};
    struct np_share share = np_team_share(team, u.count, NP_SHARE_UNIT);
    struct mixed mixed = mix_begin();
    const float scale = clip_scale(&u);
    struct tally tally = {*sum, scale > 0};
    vf bad = v_zero();
    size_t i = share.begin;
    while (i + 32 <= share.end) {
        size_t begin = i, stop = share.end - begin < BLOCK ? share.end : begin + BLOCK;
        for (; i + 32 <= stop; i += 32)
            lanes(&u, scale, i, &bad);
        for (size_t k = 0; k < (size_t)slabs; k++)
            mix_floats(&mixed, slab[k] + begin, i - begin, u.address + k * u.count + begin);
    }
    for (; i < share.end; i++)
        element(&u, scale, i, &tally);
    *sum = tally.sum + mix_total(&mixed);
    return tally.finite && !v_any(bad);
}

static bool adamw_tensor(struct np_team *team, const struct np_update *u, uint64_t *sum)
{
    return update(team, u, sum, 3, adamw_lanes, adamw_element);
}

static bool sgd_tensor(struct np_team *team, const struct np_update *u, uint64_t *sum)
{
    if (!u->m)
        return update(team, u, sum, 1, plain_lanes, sgd_element);
    if (u->nesterov)
        return update(team, u, sum, 2, nesterov_lanes, sgd_element);
    return update(team, u, sum, 2, momentum_lanes, sgd_element);
}

NP_LAYER_UPDATE(adamw)
NP_LAYER_UPDATE(sgd)

#endif
