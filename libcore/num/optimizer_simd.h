/* SIMD kernels of num/kernels.h: optimizer updates with the fingerprint of what they write.
 *
 * What a vector's update wrote is fingerprinted while the next one waits for its root and its
 * division, out of registers.
 */
#ifndef NP_NUM_OPTIMIZER_SIMD_H
#define NP_NUM_OPTIMIZER_SIMD_H

#include "num/elementary_simd.h"
#include "num/optimizer_element.h"

/* Running fingerprints of even and of odd elements, and the addresses of the next even ones. */
struct mixed {
    vq even, odd, at;
};

static inline struct mixed mix_begin(uint64_t address)
{
    static const uint64_t even[8] = {0, 2, 4, 6, 8, 10, 12, 14};
    struct mixed m = {q_set1(0), q_set1(0), q_add(q_set1(address), q_load(even))};
    return m;
}

static inline vq mix(vq address, vq bits)
{
    vq x = q_xor(address, q_mul32(bits, q_set1(NP_FINGERPRINT_MUL0)));
    x = q_mul64(q_xor(x, q_high(x)), q_set1(NP_FINGERPRINT_MUL1));
    return q_xor(x, q_high(x));
}

/* Adds v, whose addresses begin `skip` after those that are next. */
static inline void mix_vector(struct mixed *m, uint64_t skip, vf v)
{
    vq even = q_add(m->at, q_set1(skip)), odd = q_add(m->at, q_set1(skip + 1));
    m->even = q_add(m->even, mix(even, q_even(v)));
    m->odd = q_add(m->odd, mix(odd, q_odd(v)));
}

static inline uint64_t mix_total(const struct mixed *m)
{
    return q_total(q_add(m->even, m->odd));
}

static uint64_t fingerprint(struct np_team *team, const float *x, size_t count, uint64_t address)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    struct mixed m = mix_begin(address + share.begin);
    uint64_t sum = 0;
    size_t i = share.begin;
    for (; i + NP_VW <= share.end; i += NP_VW) {
        mix_vector(&m, 0, v_load(x + i));
        m.at = q_add(m.at, q_set1(NP_VW));
    }
    for (; i < share.end; i++)
        sum += np_fingerprint_mix(address + i, np_float_bits(x[i]));
    return sum + mix_total(&m);
}

/* What the update of a vector wrote, as far as there is such a slab. */
struct written {
    vf w, m, v;
};

static inline void mix_written(struct mixed *mixed, size_t count, struct written x, int slabs)
{
    mix_vector(mixed, 0, x.w);
    if (slabs > 1)
        mix_vector(mixed, count, x.m);
    if (slabs > 2)
        mix_vector(mixed, 2 * count, x.v);
    mixed->at = q_add(mixed->at, q_set1(NP_VW));
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
NP_INLINE struct written adamw_vector(const struct np_update *u, float scale, size_t i, vf *bad)
{
    struct written x;
    vf g = clip(u, scale, i, bad), w = v_load(u->w + i), root;
    vf m = v_fma(v_set1(u->beta1), v_load(u->m + i), v_mul(v_set1(1.0f - u->beta1), g));
    vf v = v_fma(v_set1(u->beta2), v_load(u->v + i), v_mul(v_set1(1.0f - u->beta2), v_mul(g, g)));
    x.m = v_flushf(m);
    x.v = v_flushf(v);
    root = v_add(v_sqrt(v_mul(x.v, v_set1(u->c2))), v_set1(u->eps));
    w = v_fma(v_set1(-(u->lr * u->decay)), w, w);
    x.w = v_flushf(v_fma(v_set1(-u->lr), v_div(v_mul(x.m, v_set1(u->c1)), root), w));
    note(bad, x.v);
    note(bad, x.w);
    v_store(u->w + i, x.w);
    v_store(u->m + i, x.m);
    v_store(u->v + i, x.v);
    return x;
}

/* So it does here. The choices are constants wherever this is inlined. */
NP_INLINE struct written sgd_vector(const struct np_update *u, float scale, size_t i, vf *bad,
                                    bool momentum, bool nesterov)
{
    struct written x = {v_zero(), v_zero(), v_zero()};
    vf w = v_load(u->w + i), g = v_fma(v_set1(u->decay), w, clip(u, scale, i, bad));
    if (momentum) {
        x.m = v_flushf(v_fma(v_set1(u->momentum), v_load(u->m + i), g));
        g = nesterov ? v_fma(v_set1(u->momentum), x.m, g) : x.m;
        v_store(u->m + i, x.m);
    }
    x.w = v_flushf(v_fma(v_set1(-u->lr), g, w));
    note(bad, x.w);
    v_store(u->w + i, x.w);
    return x;
}

NP_INLINE struct written plain_vector(const struct np_update *u, float scale, size_t i, vf *bad)
{
    return sgd_vector(u, scale, i, bad, false, false);
}

NP_INLINE struct written momentum_vector(const struct np_update *u, float scale, size_t i, vf *bad)
{
    return sgd_vector(u, scale, i, bad, true, false);
}

NP_INLINE struct written nesterov_vector(const struct np_update *u, float scale, size_t i, vf *bad)
{
    return sgd_vector(u, scale, i, bad, true, true);
}

typedef struct written update_vector(const struct np_update *, float, size_t, vf *);
typedef void update_element(const struct np_update *, float, size_t, struct tally *);

/* Whole vectors of the share, then what is left of it. The update is copied: what the loop writes
 * cannot change it then, and its numbers stay in registers. */
NP_INLINE bool update(struct np_team *team, const struct np_update *given, uint64_t *sum, int slabs,
                      update_vector *vector, update_element *element)
{
    const struct np_update u = *given;
    struct np_share share = np_team_share(team, u.count, NP_SHARE_UNIT);
    struct mixed mixed = mix_begin(u.address + share.begin);
    const float scale = clip_scale(&u);
    struct tally tally = {*sum, scale > 0};
    vf bad = v_zero();
    size_t i = share.begin;
    if (i + NP_VW <= share.end) {
        struct written last = vector(&u, scale, i, &bad);
        for (i += NP_VW; i + NP_VW <= share.end; i += NP_VW) {
            struct written next = vector(&u, scale, i, &bad);
            mix_written(&mixed, u.count, last, slabs);
            last = next;
        }
        mix_written(&mixed, u.count, last, slabs);
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
