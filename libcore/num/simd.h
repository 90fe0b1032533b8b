/* Float vectors of the instruction set a file is compiled for (its name ends in it).
 *
 * The SIMD backends share one body of code, written with these names; NP_VW is the width in floats,
 * NP_SIMD(name) the name of this backend's function. No other file holds intrinsics: what a body
 * needs and does not find here is added here, for every instruction set.
 *
 *   v_zero() v_set1(x)               all elements
 *   v_load(p) v_store(p, v)          any alignment
 *   v_stream(p, v)                   v_store past the caches, where the instruction set can; p is
 *                                    aligned to a vector. v_streamed() makes it visible to others
 *                                    who wait
 *   v_load_n(p, n) v_store_n(p, n, v)  the first n (0..NP_VW) elements; the others read as zero,
 *                                    are not written; nothing outside is touched
 *   v_first(n, a, b)                 the first n (0..NP_VW) elements of a, the others of b
 *   v_add v_sub v_mul v_div          (a, b), rounded
 *   v_fma(a, b, c)                   a * b + c, rounded once; the compiler may not fuse anything
 *                                    else (-ffp-contract=off)
 *   v_fms(a, b, c) v_fnma(a, b, c)   a * b - c, c - a * b, rounded once
 *   v_fma1(x, b, c)                  v_fma(v_set1(x), b, c)
 *   v_fma1_to(c, x, b)               c = v_fma1(x, b, c), in the register of c: where there are
 *                                    just enough of them, gcc moves and spills sums otherwise
 *   v_fma1_from(c, x, p)             the same of v_load(p), which takes no register
 *   v_max(a, b) v_min(a, b)          a > b ? a : b, a < b ? a : b
 *   v_sqrt(a) v_abs(a)
 *   v_drop(x, a, b) v_only(x, a, b)  a < b ? +0 : x, a < b ? x : +0
 *   v_pick(x, limit, a, b)           x <= limit ? a : b
 *   v_below(x, a, b)                 the sign bit of x is set ? a : b
 *   v_add_same(acc, x, a, b)         a and b have the same bits ? acc + x : acc, which is not -0
 *   v_scale(p, t)                    the bits of p plus those of t shifted left by 23: p * 2^n for
 *                                    the n in the low bits of t
 *   v_scale_or_0(p, t, a, b)         a < b ? +0 : v_scale(p, t)
 *   v_or(a, b) v_any(a)              bits; whether any is set
 *   vh vh_zero vh_load vh_fma1       half a vector where that is worth having, else a vector;
 *                                    vh_widen(v): the rest is zero
 *   v_keep(v)                        v, which was loaded, stays in its register; without it gcc
 *                                    reads it from memory again for every use
 *   vi vi_load(p)                    NP_VW int32_t: numbers of elements
 *   v_choose(v, i)                   element i[l] of v for every l
 *   v_total(v)                       sum of all: halves are added to each other until one is left
 *   v_most(v)                        the largest element
 *   v_zip_low(a, b) v_zip_high(a, b) the first half, the second of a[0] b[0] a[1] b[1] ...
 *   v_even(a, b) v_odd(a, b)         elements 0, 2, ..., 1, 3, ... of a and then b
 *   v_transpose8(to, ld, from, at)   to[i * ld + j] = from[j][at + i] for i, j < 8; x86: i ascends,
 *                                    so that with ld < 8 what is behind ld floats comes later
 *
 * Vectors of NP_VW / 2 unsigned 64-bit integers:
 *
 *   q_set1(x) q_load(p)              all lanes; lane i from p[i]
 *   q_add q_xor q_xor3               (a, b), (a, b, c)
 *   q_high(a)                        a >> 32
 *   q_mul(a, b)                      the product of the lower halves
 *   q_mul64(a, b)                    the lower half of the product
 *   q_mul_bits(even, odd, v, x)      *even, *odd: the bits of the elements 0, 2, ... and 1, 3, ...
 *                                    of floats, as integers, times the integer x
 *   q_total(a)                       sum of all lanes
 *   q_store4(p, a, b, c, d)          p[4i], p[4i + 1], ...: the lower halves of a, b, c, d, lane i
 */
#ifndef NP_NUM_SIMD_H
#define NP_NUM_SIMD_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>

static inline float np_total8(__m256 v)
{
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

static inline float np_most8(__m256 v)
{
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

/* Both x86 backends use 256-bit vectors for it. */
static inline void v_transpose8(float *to, size_t ld, const float *const from[8], size_t at)
{
    __m256 a[8], b[8];
    for (size_t i = 0; i < 8; i++)
        a[i] = _mm256_loadu_ps(from[i] + at);
    for (size_t i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    for (size_t i = 0; i < 8; i += 4) {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    for (size_t i = 0; i < 4; i++)
        _mm256_storeu_ps(to + i * ld, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
    for (size_t i = 0; i < 4; i++)
        _mm256_storeu_ps(to + (i + 4) * ld, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
}
#endif

#if defined(__AVX512F__)
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

#elif defined(__AVX2__)
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

#elif defined(__aarch64__)
#include <arm_neon.h>

#define NP_VW 4
#define NP_SIMD(name) name##_neon
typedef float32x4_t vf;
#define v_zero() vdupq_n_f32(0.0f)
#define v_set1(x) vdupq_n_f32(x)
#define v_load(p) vld1q_f32(p)
#define v_store(p, v) vst1q_f32(p, v)
#define v_stream(p, v) v_store(p, v)
#define v_streamed() ((void)0)
#define v_add(a, b) vaddq_f32(a, b)
#define v_sub(a, b) vsubq_f32(a, b)
#define v_mul(a, b) vmulq_f32(a, b)
#define v_div(a, b) vdivq_f32(a, b)
#define v_fma(a, b, c) vfmaq_f32(c, a, b)
#define v_fms(a, b, c) vfmaq_f32(vnegq_f32(c), a, b)
#define v_fnma(a, b, c) vfmsq_f32(c, a, b)
#define v_fma1(x, b, c) vfmaq_n_f32(c, b, x)
#define v_keep(v) __asm__("" : "+w"(v))
typedef uint8x16_t vi; /* bytes of a vector */
static inline vi vi_load(const int32_t *p)
{
    uint32x4_t each = vmulq_n_u32(vreinterpretq_u32_s32(vld1q_s32(p)), 0x04040404);
    return vreinterpretq_u8_u32(vaddq_u32(each, vdupq_n_u32(0x03020100)));
}
#define v_choose(v, i) vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(v), i))
#define v_zip_low(a, b) vzip1q_f32(a, b)
#define v_zip_high(a, b) vzip2q_f32(a, b)
#define v_even(a, b) vuzp1q_f32(a, b)
#define v_odd(a, b) vuzp2q_f32(a, b)

#define v_sqrt(a) vsqrtq_f32(a)
#define v_abs(a) vabsq_f32(a)

/* Not vmaxq and vminq, which order the zeros. */
static inline vf v_max(vf a, vf b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

static inline vf v_min(vf a, vf b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

static inline vf v_drop(vf x, vf a, vf b)
{
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(x), vcltq_f32(a, b)));
}

static inline vf v_only(vf x, vf a, vf b)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), vcltq_f32(a, b)));
}

static inline vf v_pick(vf x, vf limit, vf a, vf b)
{
    return vbslq_f32(vcleq_f32(x, limit), a, b);
}

static inline vf v_below(vf x, vf a, vf b)
{
    return vbslq_f32(vcltzq_s32(vreinterpretq_s32_f32(x)), a, b);
}

static inline vf v_add_same(vf acc, vf x, vf a, vf b)
{
    uint32x4_t same = vceqq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b));
    return v_add(acc, vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), same)));
}

static inline vf v_scale(vf p, vf t)
{
    uint32x4_t shifted = vshlq_n_u32(vreinterpretq_u32_f32(t), 23);
    return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(p), shifted));
}

static inline vf v_or(vf a, vf b)
{
    return vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)));
}
#define v_any(a) (vmaxvq_u32(vreinterpretq_u32_f32(a)) != 0)

static inline vf v_first(size_t n, vf a, vf b)
{
    static const uint32_t index[4] = {0, 1, 2, 3};
    return vbslq_f32(vcltq_u32(vld1q_u32(index), vdupq_n_u32((uint32_t)n)), a, b);
}

static inline vf v_load_n(const float *p, size_t n)
{
    vf v = v_zero();
    if (n >= NP_VW)
        return v_load(p);
    if (n == 1)
        return vld1q_lane_f32(p, v, 0);
    if (n >= 2)
        v = vcombine_f32(vld1_f32(p), vdup_n_f32(0.0f));
    return n == 3 ? vld1q_lane_f32(p + 2, v, 2) : v;
}

static inline void v_store_n(float *p, size_t n, vf v)
{
    if (n >= NP_VW)
        v_store(p, v);
    else if (n == 1)
        vst1q_lane_f32(p, v, 0);
    else if (n >= 2)
        vst1_f32(p, vget_low_f32(v));
    if (n == 3)
        vst1q_lane_f32(p + 2, v, 2);
}

static inline float v_total(vf v)
{
    return vpadds_f32(vadd_f32(vget_low_f32(v), vget_high_f32(v)));
}
#define v_most(v) vmaxvq_f32(v)

typedef uint64x2_t vq;
#define q_set1(x) vdupq_n_u64(x)
#define q_load(p) vld1q_u64(p)
#define q_add(a, b) vaddq_u64(a, b)
#define q_xor(a, b) veorq_u64(a, b)
#define q_xor3(a, b, c) q_xor(q_xor(a, b), c)
#define q_high(a) vshrq_n_u64(a, 32)
#define q_mul(a, b) vmull_u32(vmovn_u64(a), vmovn_u64(b))
static inline vq q_mul64(vq a, vq b)
{
    vq cross = vmlal_u32(q_mul(q_high(a), b), vmovn_u64(a), vshrn_n_u64(b, 32));
    return q_add(q_mul(a, b), vshlq_n_u64(cross, 32));
}
static inline void q_mul_bits(vq *even, vq *odd, vf v, uint64_t x)
{
    uint32x4_t bits = vreinterpretq_u32_f32(v), upper = vmulq_n_u32(bits, (uint32_t)(x >> 32));
    uint32x2_t by = vdup_n_u32((uint32_t)x);
    vq wide = vreinterpretq_u64_u32(bits), cross = vreinterpretq_u64_u32(upper);
    *even = q_add(vmull_u32(vmovn_u64(wide), by), vshlq_n_u64(cross, 32));
    *odd =
        q_add(vmull_u32(vshrn_n_u64(wide, 32), by), vandq_u64(cross, q_set1(0xffffffffull << 32)));
}
#define q_total(a) vaddvq_u64(a)
static inline void q_store4(uint32_t *p, vq a, vq b, vq c, vq d)
{
    vq ab = vreinterpretq_u64_u32(vtrn1q_u32(vreinterpretq_u32_u64(a), vreinterpretq_u32_u64(b)));
    vq cd = vreinterpretq_u64_u32(vtrn1q_u32(vreinterpretq_u32_u64(c), vreinterpretq_u32_u64(d)));
    vst1q_u32(p, vreinterpretq_u32_u64(vzip1q_u64(ab, cd)));
    vst1q_u32(p + 4, vreinterpretq_u32_u64(vzip2q_u64(ab, cd)));
}

/* Four 4 x 4 blocks. */
static inline void v_transpose8(float *to, size_t ld, const float *const from[8], size_t at)
{
    for (size_t j = 0; j < 8; j += 4)
        for (size_t i = 0; i < 8; i += 4) {
            float *y = to + i * ld + j;
            float32x4x2_t a = vtrnq_f32(v_load(from[j] + at + i), v_load(from[j + 1] + at + i));
            float32x4x2_t b = vtrnq_f32(v_load(from[j + 2] + at + i), v_load(from[j + 3] + at + i));
            v_store(y, vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0])));
            v_store(y + ld, vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1])));
            v_store(y + 2 * ld, vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0])));
            v_store(y + 3 * ld, vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1])));
        }
}

#else
#error "num/simd.h: this file's name must end in _avx2, _avx512 or _neon, as its instruction set"
#endif

#ifndef v_scale_or_0
#define v_scale_or_0(p, t, a, b) v_drop(v_scale(p, t), a, b)
#endif
#ifndef v_fma1_from
#define v_fma1_from(c, x, p) ((c) = v_fma1(x, v_load(p), c))
#endif
#ifndef v_fma1_to
#define v_fma1_to(c, x, b) ((c) = v_fma1(x, b, c))
#endif
#if NP_VW < 16
typedef vf vh;
#define vh_zero() v_zero()
#define vh_load(p) v_load(p)
#define vh_fma1(x, b, c) v_fma1(x, b, c)
#define vh_widen(v) (v)
#endif

#endif
