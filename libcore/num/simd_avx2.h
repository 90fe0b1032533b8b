/* Vectors of AVX2, a part of num/simd.h, where the names are explained. */
#if !defined(NP_NUM_SIMD_AVX2_H) && defined(__AVX2__)
#define NP_NUM_SIMD_AVX2_H

#include <stdint.h>

#include "num/simd_x86.h"

#define NP_VW 8
#define NP_SIMD(name) name##_avx2
typedef __m256 vf;
#define v_zero() _mm256_setzero_ps()
#define v_set1(x) _mm256_set1_ps(x)
#define v_load(p) _mm256_loadu_ps(p)
#define v_store(p, v) _mm256_storeu_ps(p, v)
#define v_stream(p, v) _mm256_stream_ps(p, v)
#define v_streamed() _mm_sfence()
#define v_add(a, b) _mm256_add_ps(a, b)
#define v_sub(a, b) _mm256_sub_ps(a, b)
#define v_mul(a, b) _mm256_mul_ps(a, b)
#define v_div(a, b) _mm256_div_ps(a, b)
#define v_max(a, b) _mm256_max_ps(a, b)
#define v_min(a, b) _mm256_min_ps(a, b)
#define v_sqrt(a) _mm256_sqrt_ps(a)
#define v_abs(a) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a)
#define v_drop(x, a, b) _mm256_andnot_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ), x)
#define v_only(x, a, b) _mm256_and_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ), x)
#define v_pick(x, limit, a, b) _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, limit, _CMP_LE_OS))
#define v_below(x, a, b) _mm256_blendv_ps(b, a, x)
#define v_add_same(acc, x, a, b)                                                                   \
    v_add(acc, _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_castps_si256(a),     \
                                                                       _mm256_castps_si256(b)))))
#define v_scale(p, t)                                                                              \
    _mm256_castsi256_ps(                                                                           \
        _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23)))
#define v_or(a, b) _mm256_or_ps(a, b)
#define v_any(a) (!_mm256_testz_si256(_mm256_castps_si256(a), _mm256_castps_si256(a)))
#define v_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define v_fms(a, b, c) _mm256_fmsub_ps(a, b, c)
#define v_fnma(a, b, c) _mm256_fnmadd_ps(a, b, c)
#define v_fma1(x, b, c) v_fma(v_set1(x), b, c)
#define v_fma1_from(c, x, p)                                                                       \
    __asm__("vfmadd231ps %2, %1, %0"                                                               \
            : "+x"(c)                                                                              \
            : "x"(v_set1(x)), "m"(*(const __m256_u *)(const void *)(p)))
#define v_fma1_to(c, x, b) __asm__("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(v_set1(x)), "x"(b))
static inline __m256i np_mask8(size_t n)
{
    static const int ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    return _mm256_loadu_si256((const __m256i *)(const void *)(ones + 8 - n));
}
#define v_load_n(p, n) _mm256_maskload_ps(p, np_mask8(n))
/* Not _mm256_maskstore_ps, which takes AMD's processors 12 cycles. */
static inline void v_store_n(float *p, size_t n, vf v)
{
    __m128 part = _mm256_castps256_ps128(v);
    if (n >= NP_VW) {
        v_store(p, v);
        return;
    }
    if (n & 4) {
        _mm_storeu_ps(p, part);
        part = _mm256_extractf128_ps(v, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)p, part);
        part = _mm_movehl_ps(part, part);
        p += 2;
    }
    if (n & 1)
        _mm_store_ss(p, part);
}
#define v_first(n, a, b) _mm256_blendv_ps(b, a, _mm256_castsi256_ps(np_mask8(n)))
#define v_keep(v) __asm__("" : "+x"(v))
typedef __m256i vi;
#define vi_load(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define v_choose(v, i) _mm256_permutevar8x32_ps(v, i)
#define v_zip_low(a, b)                                                                            \
    _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x20)
#define v_zip_high(a, b)                                                                           \
    _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x31)
#define np_pairs8(v) _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8))
#define v_even(a, b) np_pairs8(_mm256_shuffle_ps(a, b, 0x88))
#define v_odd(a, b) np_pairs8(_mm256_shuffle_ps(a, b, 0xdd))
#define v_total(v) np_total8(v)
#define v_most(v) np_most8(v)

typedef __m256i vq;
#define q_set1(x) _mm256_set1_epi64x((long long)(x))
#define q_load(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define q_add(a, b) _mm256_add_epi64(a, b)
#define q_xor(a, b) _mm256_xor_si256(a, b)
#define q_xor3(a, b, c) q_xor(q_xor(a, b), c)
#define q_high(a) _mm256_srli_epi64(a, 32)
#define q_mul(a, b) _mm256_mul_epu32(a, b)
/* From products of 32-bit numbers, whose lower halves are all that the upper one takes of them. */
#define q_upper(a) _mm256_and_si256(a, q_set1(0xffffffffull << 32))
static inline vq q_mul64(vq a, vq b)
{
    vq cross = _mm256_mullo_epi32(a, _mm256_shuffle_epi32(b, 0xb1));
    return q_add(q_add(q_mul(a, b), _mm256_slli_epi64(cross, 32)), q_upper(cross));
}
static inline void q_mul_bits(vq *even, vq *odd, vf v, uint64_t x)
{
    vq bits = _mm256_castps_si256(v), by = q_set1(x);
    vq upper = _mm256_mullo_epi32(bits, _mm256_set1_epi32((int)(uint32_t)(x >> 32)));
    *even = q_add(q_mul(bits, by), _mm256_slli_epi64(upper, 32));
    *odd = q_add(q_mul(q_high(bits), by), q_upper(upper));
}
static inline uint64_t q_total(vq a)
{
    uint64_t lane[4];
    _mm256_storeu_si256((__m256i *)(void *)lane, a);
    return lane[0] + lane[1] + lane[2] + lane[3];
}
static inline void q_store4(uint32_t *p, vq a, vq b, vq c, vq d)
{
    vq ab = _mm256_blend_epi32(a, _mm256_slli_epi64(b, 32), 0xaa);
    vq cd = _mm256_blend_epi32(c, _mm256_slli_epi64(d, 32), 0xaa);
    vq even = _mm256_unpacklo_epi64(ab, cd), odd = _mm256_unpackhi_epi64(ab, cd);
    __m256i *to = (__m256i *)(void *)p;
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
}

#endif
