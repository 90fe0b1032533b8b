/* SIMD kernels of num/kernels.h: optimizer updates with the fingerprint of what they write.
 *
 * A block is updated, then fingerprinted, out of the first cache: one loop of both, whose passes
 * take more instructions than a processor looks ahead, would wait for every root and division.
 */
#ifndef NP_NUM_OPTIMIZER_SIMD_H
#define NP_NUM_OPTIMIZER_SIMD_H

#include "num/elementary_simd.h"
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

static inline vq mix(vq address, vq bits)
{
    vq x = q_xor(address, q_mul32(bits, q_set1(NP_FINGERPRINT_MUL0)));
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
        vf v = v_load(x + i);
        m.even = q_add(m.even, mix(m.at, q_even(v)));
        m.odd = q_add(m.odd, mix(q_add(m.at, q_set1(1)), q_odd(v)));
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

/* Sets bits of *bad where x is not finite. */
static inline void note(vf *bad, vf x)
{
    *bad = v_or(*bad, v_sub(x, x));
}

/* The gradient as the update sees it. */
static inline vf clip(const struct np_update *u, float scale, size_t i, vf *bad)
{
    vf raw = v_load(u->g + i), g = v_mul(raw, v_set1(scale));
    note(bad, raw);
    g = v_max(v_set1(-u->limit), g);
    return v_flushf(v_min(v_set1(u->limit), g));
}

/* m that is not finite makes a w that is not. */
NP_INLINE void adamw_vector(const struct np_update *u, float scale, size_t i, vf *bad)
{
    vf g = clip(u, scale, i, bad), w = v_load(u->w + i), root;
    vf m = v_fma(v_set1(u->beta1), v_load(u->m + i), v_mul(v_set1(1.0f - u->beta1), g));
    vf v = v_fma(v_set1(u->beta2), v_load(u->v + i), v_mul(v_set1(1.0f - u->beta2), v_mul(g, g)));
    m = v_flushf(m);
    v = v_flushf(v);
    root = v_add(v_sqrt(v_mul(v, v_set1(u->c2))), v_set1(u->eps));
    w = v_fma(v_set1(-(u->lr * u->decay)), w, w);
    w = v_flushf(v_fma(v_set1(-u->lr), v_div(v_mul(m, v_set1(u->c1)), root), w));
    note(bad, v);
    note(bad, w);
    v_store(u->w + i, w);
    v_store(u->m + i, m);
    v_store(u->v + i, v);
}

/* So it does here. The choices are constants wherever this is inlined. */
NP_INLINE void sgd_vector(const struct np_update *u, float scale, size_t i, vf *bad, bool momentum,
                          bool nesterov)
{
    vf w = v_load(u->w + i), g = v_fma(v_set1(u->decay), w, clip(u, scale, i, bad));
    if (momentum) {
        vf m = v_flushf(v_fma(v_set1(u->momentum), v_load(u->m + i), g));
        g = nesterov ? v_fma(v_set1(u->momentum), m, g) : m;
        v_store(u->m + i, m);
    }
    w = v_flushf(v_fma(v_set1(-u->lr), g, w));
    note(bad, w);
    v_store(u->w + i, w);
}

NP_INLINE void plain_vector(const struct np_update *u, float scale, size_t i, vf *bad)
{
    sgd_vector(u, scale, i, bad, false, false);
}

NP_INLINE void momentum_vector(const struct np_update *u, float scale, size_t i, vf *bad)
{
    sgd_vector(u, scale, i, bad, true, false);
}

NP_INLINE void nesterov_vector(const struct np_update *u, float scale, size_t i, vf *bad)
{
    sgd_vector(u, scale, i, bad, true, true);
}

typedef void update_vector(const struct np_update *, float, size_t, vf *);
typedef void update_element(const struct np_update *, float, size_t, struct tally *);

/* Whole vectors of the share, then what is left of it. The update is copied: what the loop writes
 * cannot change it then, and its numbers stay in registers. */
NP_INLINE bool update(struct np_team *team, const struct np_update *given, uint64_t *sum, int slabs,
                      update_vector *vector, update_element *element)
{
    const struct np_update u = *given;
    const float *const slab[3] = {u.w, u.m, u.v};
    struct np_share share = np_team_share(team, u.count, NP_SHARE_UNIT);
    struct mixed mixed = mix_begin();
    const float scale = clip_scale(&u);
    struct tally tally = {*sum, scale > 0};
    vf bad = v_zero();
    size_t i = share.begin;
    while (i + NP_VW <= share.end) {
        size_t begin = i, stop = share.end - begin < BLOCK ? share.end : begin + BLOCK;
        for (; i + NP_VW <= stop; i += NP_VW)
            vector(&u, scale, i, &bad);
        for (size_t k = 0; k < (size_t)slabs; k++)
            mix_floats(&mixed, slab[k] + begin, i - begin, u.address + k * u.count + begin);
    }
    for (; i < share.end; i++)
        element(&u, scale, i, &tally);
    *sum = tally.sum + mix_total(&mixed);
    return tally.finite && !v_any(bad);
}

static bool adamw(struct np_team *team, const struct np_update *u, uint64_t *sum)
{
    return update(team, u, sum, 3, adamw_vector, adamw_element);
}

static bool sgd(struct np_team *team, const struct np_update *u, uint64_t *sum)
{
    if (!u->m)
        return update(team, u, sum, 1, plain_vector, sgd_element);
    if (u->nesterov)
        return update(team, u, sum, 2, nesterov_vector, sgd_element);
    return update(team, u, sum, 2, momentum_vector, sgd_element);
}

#endif
