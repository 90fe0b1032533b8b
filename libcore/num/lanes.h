/* The 32-lane sums of num/kernels.h in vector registers: two of AVX-512, four of AVX2, eight of
 * NEON.
 *
 * A sum may be fed in pieces; each but the last must be a multiple of 32 elements.
 */
#ifndef NP_NUM_LANES_H
#define NP_NUM_LANES_H

#include "num/simd.h"

#define LANE_VECTORS (32 / NP_VW)

struct lanes {
    vf v[LANE_VECTORS];
};

/* How many of the elements left belong to vector k. */
static inline size_t lane_part(size_t left, size_t k)
{
    size_t before = k * NP_VW;
    return left <= before ? 0 : left - before < NP_VW ? left - before : NP_VW;
}

/* Loads the first n elements; nothing is left of the choice where n is NP_VW. */
static inline vf lane_load(const float *p, size_t n)
{
    return n == NP_VW ? v_load(p) : v_load_n(p, n);
}

/* The first n elements of a, which is what comes of b there. Idle lanes of a sum are kept this way:
 * adding zero to them would turn -0 into +0. */
static inline vf lane_keep(size_t n, vf a, vf b)
{
    return n == NP_VW ? a : v_first(n, a, b);
}

/* STEP(at, k, n) for every vector of `count` elements in order: n elements from index `at`, which
 * belong to vector k of the lanes. */
#define LANES_EACH(count, STEP)                                                                    \
    do {                                                                                           \
        size_t lanes_at = 0;                                                                       \
        for (; lanes_at + 32 <= (count); lanes_at += 32)                                           \
            for (size_t k = 0; k < LANE_VECTORS; k++)                                              \
                STEP(lanes_at + k * NP_VW, k, NP_VW);                                              \
        for (size_t k = 0; k < LANE_VECTORS; k++) {                                                \
            size_t lanes_n = lane_part((count)-lanes_at, k);                                       \
            if (lanes_n > 0)                                                                       \
                STEP(lanes_at + k * NP_VW, k, lanes_n);                                            \
        }                                                                                          \
    } while (0)

static inline struct lanes lanes_zero(void)
{
    struct lanes s;
    for (size_t k = 0; k < LANE_VECTORS; k++)
        s.v[k] = v_zero();
    return s;
}

static inline struct lanes lanes_add(struct lanes s, const float *x, size_t count)
{
#define STEP(at, k, n) s.v[k] = lane_keep(n, v_add(s.v[k], lane_load(x + (at), n)), s.v[k])
    LANES_EACH(count, STEP);
#undef STEP
    return s;
}

static inline struct lanes lanes_fma(struct lanes s, const float *x, const float *y, size_t count)
{
#define STEP(at, k, n)                                                                             \
    s.v[k] = lane_keep(n, v_fma(lane_load(x + (at), n), lane_load(y + (at), n), s.v[k]), s.v[k])
    LANES_EACH(count, STEP);
#undef STEP
    return s;
}

static inline float lanes_total(struct lanes s)
{
    for (size_t stride = LANE_VECTORS / 2; stride > 0; stride /= 2)
        for (size_t k = 0; k < stride; k++)
            s.v[k] = v_add(s.v[k], s.v[k + stride]);
    return v_total(s.v[0]);
}

static inline float lane_sum(const float *x, size_t count)
{
    return lanes_total(lanes_add(lanes_zero(), x, count));
}

static inline float lane_dot(const float *x, const float *y, size_t count)
{
    return lanes_total(lanes_fma(lanes_zero(), x, y, count));
}

static inline float lane_max(const float *x, size_t count)
{
    struct lanes m;
    size_t i = 0;
    for (size_t k = 0; k < LANE_VECTORS; k++)
        m.v[k] = v_set1(x[0]);
    for (; i + 32 <= count; i += 32)
        for (size_t k = 0; k < LANE_VECTORS; k++)
            m.v[k] = v_max(m.v[k], v_load(x + i + k * NP_VW));
    for (; i < count; i += NP_VW) {
        size_t n = lane_part(count - i, 0);
        m.v[0] = v_max(m.v[0], v_first(n, v_load_n(x + i, n), m.v[0]));
    }
    for (size_t stride = LANE_VECTORS / 2; stride > 0; stride /= 2)
        for (size_t k = 0; k < stride; k++)
            m.v[k] = v_max(m.v[k], m.v[k + stride]);
    return v_most(m.v[0]);
}

#endif
