/* The 32-lane sums of num/kernels.h in vector registers: two of AVX-512, four of AVX2.
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

/* The first n (0..NP_VW) elements of a, the others of b. A sum's idle lanes are kept this way:
 * adding zero to them would turn -0 into +0. */
static inline vf v_first(size_t n, vf a, vf b)
{
#if NP_VW == 16
    return _mm512_mask_blend_ps((__mmask16)((1u << n) - 1), b, a);
#else
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(np_mask8(n)));
#endif
}

/* How many of the elements left belong to vector k. */
static inline size_t lane_part(size_t left, size_t k)
{
    size_t before = k * NP_VW;
    return left <= before ? 0 : left - before < NP_VW ? left - before : NP_VW;
}

static inline struct lanes lanes_zero(void)
{
    struct lanes s;
    for (size_t k = 0; k < LANE_VECTORS; k++)
        s.v[k] = v_zero();
    return s;
}

static inline struct lanes lanes_add(struct lanes s, const float *x, size_t count)
{
    size_t i = 0;
    for (; i + 32 <= count; i += 32)
        for (size_t k = 0; k < LANE_VECTORS; k++)
            s.v[k] = v_add(s.v[k], v_load(x + i + k * NP_VW));
    for (size_t k = 0; i < count && k < LANE_VECTORS; k++) {
        size_t n = lane_part(count - i, k);
        if (n > 0)
            s.v[k] = v_first(n, v_add(s.v[k], v_load_n(x + i + k * NP_VW, n)), s.v[k]);
    }
    return s;
}

static inline struct lanes lanes_fma(struct lanes s, const float *x, const float *y, size_t count)
{
    size_t i = 0;
    for (; i + 32 <= count; i += 32)
        for (size_t k = 0; k < LANE_VECTORS; k++)
            s.v[k] = v_fma(v_load(x + i + k * NP_VW), v_load(y + i + k * NP_VW), s.v[k]);
    for (size_t k = 0; i < count && k < LANE_VECTORS; k++) {
        size_t n = lane_part(count - i, k), at = i + k * NP_VW;
        if (n > 0)
            s.v[k] = v_first(n, v_fma(v_load_n(x + at, n), v_load_n(y + at, n), s.v[k]), s.v[k]);
    }
    return s;
}

/* Strides 4, 2, 1 after the wider ones. */
static inline float lanes_total8(__m256 v)
{
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

static inline float lanes_total(struct lanes s)
{
#if NP_VW == 16
    __m512 x = _mm512_add_ps(s.v[0], s.v[1]);
    __m256 high = _mm512_extractf32x8_ps(x, 1);
    return lanes_total8(_mm256_add_ps(_mm512_castps512_ps256(x), high));
#else
    __m256 low = _mm256_add_ps(s.v[0], s.v[2]), high = _mm256_add_ps(s.v[1], s.v[3]);
    return lanes_total8(_mm256_add_ps(low, high));
#endif
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
    vf half[LANE_VECTORS / 2], all;
    float part[NP_VW], result;
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
    for (size_t k = 0; k < LANE_VECTORS / 2; k++)
        half[k] = v_max(m.v[k], m.v[k + LANE_VECTORS / 2]);
    all = v_max(half[0], half[LANE_VECTORS / 2 - 1]);
    v_store(part, all);
    result = part[0];
    for (size_t k = 1; k < NP_VW; k++)
        result = part[k] > result ? part[k] : result;
    return result;
}

#endif
