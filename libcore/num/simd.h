/* Float vectors of the instruction set a file is compiled for (its name ends in it).
 *
 * The SIMD backends share one body of code, written with these names; NP_VW is the width in floats.
 * v_fma is the only fused operation; the compiler may not fuse others (-ffp-contract=off).
 */
#ifndef NP_NUM_SIMD_H
#define NP_NUM_SIMD_H

#include <immintrin.h>
#include <stddef.h>

#if defined(__AVX512F__)
#define NP_VW 16
#define NP_SIMD(name) name##_avx512
typedef __m512 vf;
#define v_zero() _mm512_setzero_ps()
#define v_set1(x) _mm512_set1_ps(x)
#define v_load(p) _mm512_loadu_ps(p)
#define v_store(p, v) _mm512_storeu_ps(p, v)
#define v_add(a, b) _mm512_add_ps(a, b)
#define v_sub(a, b) _mm512_sub_ps(a, b)
#define v_mul(a, b) _mm512_mul_ps(a, b)
#define v_div(a, b) _mm512_div_ps(a, b)
#define v_max(a, b) _mm512_max_ps(a, b)
#define v_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
/* The first n (0..NP_VW) elements; the others read as zero, are not written. */
#define v_load_n(p, n) _mm512_maskz_loadu_ps((__mmask16)((1u << (n)) - 1), p)
#define v_store_n(p, n, v) _mm512_mask_storeu_ps(p, (__mmask16)((1u << (n)) - 1), v)
#elif defined(__AVX2__)
#define NP_VW 8
#define NP_SIMD(name) name##_avx2
typedef __m256 vf;
#define v_zero() _mm256_setzero_ps()
#define v_set1(x) _mm256_set1_ps(x)
#define v_load(p) _mm256_loadu_ps(p)
#define v_store(p, v) _mm256_storeu_ps(p, v)
#define v_add(a, b) _mm256_add_ps(a, b)
#define v_sub(a, b) _mm256_sub_ps(a, b)
#define v_mul(a, b) _mm256_mul_ps(a, b)
#define v_div(a, b) _mm256_div_ps(a, b)
#define v_max(a, b) _mm256_max_ps(a, b)
#define v_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
static inline __m256i np_mask8(size_t n)
{
    static const int ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    return _mm256_loadu_si256((const __m256i *)(const void *)(ones + 8 - n));
}
#define v_load_n(p, n) _mm256_maskload_ps(p, np_mask8(n))
#define v_store_n(p, n, v) _mm256_maskstore_ps(p, np_mask8(n), v)
#else
#error "num/simd.h: compile this file for AVX2 or AVX-512 (its name must end in _avx2 or _avx512)"
#endif

#endif
