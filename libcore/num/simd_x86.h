/* What AVX2 and AVX-512 share, a part of num/simd.h. */
#if !defined(NP_NUM_SIMD_X86_H) && defined(__x86_64__)
#define NP_NUM_SIMD_X86_H

#include <immintrin.h>
#include <stddef.h>

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
