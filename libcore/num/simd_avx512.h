/* Vectors of AVX-512, a part of num/simd.h, where the names are explained. */
#if !defined(NP_NUM_SIMD_AVX512_H) && defined(__AVX512F__)
#define NP_NUM_SIMD_AVX512_H

#include <stdint.h>

#include "num/simd_x86.h"

#define NP_VW 16
#define NP_SIMD(name) name##_avx512
typedef __m512 vf;
#define v_zero() _mm512_setzero_ps()
#define v_set1(x) _mm512_set1_ps(x)
#define v_load(p) _mm512_loadu_ps(p)
#define v_store(p, v) _mm512_storeu_ps(p, v)
#define v_stream(p, v) _mm512_stream_ps(p, v)
#define v_streamed() _mm_sfence()
#define v_add(a, b) _mm512_add_ps(a, b)
#define v_sub(a, b) _mm512_sub_ps(a, b)
#define v_mul(a, b) _mm512_mul_ps(a, b)
#define v_div(a, b) _mm512_div_ps(a, b)
#define v_max(a, b) _mm512_max_ps(a, b)
#define v_min(a, b) _mm512_min_ps(a, b)
#define v_sqrt(a) _mm512_sqrt_ps(a)
#define v_abs(a) _mm512_abs_ps(a)
#define v_drop(x, a, b) _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_NLT_US), x)
#define v_only(x, a, b) _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OS), x)
#define v_pick(x, limit, a, b) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, limit, _CMP_LE_OS), b, a)
#define v_below(x, a, b) _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(x)), b, a)
#define v_add_same(acc, x, a, b)                                                                   \
    _mm512_mask_add_ps(                                                                            \
        acc, _mm512_cmpeq_epi32_mask(_mm512_castps_si512(a), _mm512_castps_si512(b)), acc, x)
#define v_scale(p, t)                                                                              \
    _mm512_castsi512_ps(                                                                           \
        _mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(t), 23)))
#define v_scale_or_0(p, t, a, b) /* compilers do not see that one instruction adds and drops */    \
    _mm512_castsi512_ps(_mm512_maskz_add_epi32(_mm512_cmp_ps_mask(a, b, _CMP_NLT_US),              \
                                               _mm512_castps_si512(p),                             \
                                               _mm512_slli_epi32(_mm512_castps_si512(t), 23)))
#define v_or(a, b) _mm512_or_ps(a, b)
#define v_any(a) (_mm512_test_epi32_mask(_mm512_castps_si512(a), _mm512_castps_si512(a)) != 0)
#define v_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define v_fms(a, b, c) _mm512_fmsub_ps(a, b, c)
#define v_fnma(a, b, c) _mm512_fnmadd_ps(a, b, c)
#define v_fma1(x, b, c) v_fma(v_set1(x), b, c)
typedef __m256 vh;
#define vh_zero() _mm256_setzero_ps()
#define vh_load(p) _mm256_loadu_ps(p)
#define vh_fma1(x, b, c) _mm256_fmadd_ps(_mm256_set1_ps(x), b, c)
#define vh_widen(v) _mm512_zextps256_ps512(v)
#define np_mask16(n) ((__mmask16)((1u << (n)) - 1))
#define v_load_n(p, n) _mm512_maskz_loadu_ps(np_mask16(n), p)
#define v_store_n(p, n, v) _mm512_mask_storeu_ps(p, np_mask16(n), v)
#define v_first(n, a, b) _mm512_mask_blend_ps(np_mask16(n), b, a)
#if !defined(v_keep) /* an emulator's vectors need more than a register */
#define v_keep(v) __asm__("" : "+v"(v))
#endif
typedef __m512i vi;
#define vi_load(p) _mm512_loadu_si512(p)
#define v_choose(v, i) _mm512_permutexvar_ps(i, v)
/* n + 16 b, n + 1 + 16 b, ...: numbers of elements of two vectors, by turns or every other. */
#define np_turns16(n)                                                                              \
    _mm512_setr_epi32(n, n + 16, n + 1, n + 17, n + 2, n + 18, n + 3, n + 19, n + 4, n + 20,       \
                      n + 5, n + 21, n + 6, n + 22, n + 7, n + 23)
#define np_other16(n)                                                                              \
    _mm512_setr_epi32(n, n + 2, n + 4, n + 6, n + 8, n + 10, n + 12, n + 14, n + 16, n + 18,       \
                      n + 20, n + 22, n + 24, n + 26, n + 28, n + 30)
#define v_zip_low(a, b) _mm512_permutex2var_ps(a, np_turns16(0), b)
#define v_zip_high(a, b) _mm512_permutex2var_ps(a, np_turns16(8), b)
#define v_even(a, b) _mm512_permutex2var_ps(a, np_other16(0), b)
#define v_odd(a, b) _mm512_permutex2var_ps(a, np_other16(1), b)
static inline float v_total(vf v)
{
    return np_total8(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}
static inline float v_most(vf v)
{
    return np_most8(_mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}

typedef __m512i vq;
#define q_set1(x) _mm512_set1_epi64((long long)(x))
#define q_load(p) _mm512_loadu_si512(p)
#define q_add(a, b) _mm512_add_epi64(a, b)
#define q_xor(a, b) _mm512_xor_si512(a, b)
#define q_xor3(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0x96)
#define q_high(a) _mm512_srli_epi64(a, 32)
#define q_mul(a, b) _mm512_mul_epu32(a, b)
#define q_mul64(a, b) _mm512_mullo_epi64(a, b)
static inline void q_mul_bits(vq *even, vq *odd, vf v, uint64_t x)
{
    vq bits = _mm512_castps_si512(v), by = q_set1(x);
    *even = q_mul64(_mm512_and_si512(bits, q_set1(0xffffffff)), by);
    *odd = q_mul64(q_high(bits), by);
}
static inline uint64_t q_total(vq a) /* the compiler's own reduction adds signed numbers */
{
    uint64_t lane[8], sum = 0;
    _mm512_storeu_si512(lane, a);
    for (int i = 0; i < 8; i++)
        sum += lane[i];
    return sum;
}
static inline void q_store4(uint32_t *p, vq a, vq b, vq c, vq d)
{
    const vq low = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
    const vq high = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
    vq ab = _mm512_mask_shuffle_epi32(a, 0xaaaa, b, _MM_PERM_CCAA);
    vq cd = _mm512_mask_shuffle_epi32(c, 0xaaaa, d, _MM_PERM_CCAA);
    _mm512_storeu_si512(p, _mm512_permutex2var_epi64(ab, low, cd));
    _mm512_storeu_si512(p + 16, _mm512_permutex2var_epi64(ab, high, cd));
}

#endif
