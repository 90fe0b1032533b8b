/* AVX-512 for machines with AVX2 only: SIMDe's intrinsics in place of the compiler's, and those
 * that it has not. Compiled ahead of the *_avx512.c of libcore/num (`make check-avx512`), whose
 * code, bits and memory accesses are then tested as they stand; not its speed.
 */
#ifndef NP_TESTS_SIMDE_AVX512_H
#define NP_TESTS_SIMDE_AVX512_H

#include <assert.h>
#include <stdint.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/fma.h>

#define __AVX512F__ 1
#define v_keep(v) ((void)(v))

static inline __m256 emulated_upper_half(__m512 v)
{
    float lanes[16];
    _mm512_storeu_ps(lanes, v);
    return _mm256_loadu_ps(lanes + 8);
}
#define _mm512_extractf32x8_ps(v, half) emulated_upper_half(v)

static inline __m512 emulated_widen(__m256 v)
{
    float lanes[16] = {0};
    _mm256_storeu_ps(lanes, v);
    return _mm512_loadu_ps(lanes);
}
#define _mm512_zextps256_ps512(v) emulated_widen(v)

/* Elements that the mask leaves out are neither read nor written. */
static inline __m512 emulated_load(unsigned mask, const float *p)
{
    float lanes[16];
    for (unsigned i = 0; i < 16; i++)
        lanes[i] = mask >> i & 1 ? p[i] : 0.0f;
    return _mm512_loadu_ps(lanes);
}
#define _mm512_maskz_loadu_ps(mask, p) emulated_load(mask, p)

static inline void emulated_store(float *p, unsigned mask, __m512 v)
{
    float lanes[16];
    _mm512_storeu_ps(lanes, v);
    for (unsigned i = 0; i < 16; i++)
        if (mask >> i & 1)
            p[i] = lanes[i];
}
#define _mm512_mask_storeu_ps(p, mask, v) emulated_store(p, mask, v)

/* As the instruction does, this fails where p is not aligned. */
static inline void emulated_stream(float *p, __m512 v)
{
    assert((uintptr_t)p % sizeof v == 0);
    _mm512_storeu_ps(p, v);
}
#define _mm512_stream_ps(p, v) emulated_stream(p, v)

/* In each four elements where the mask says so, those of b that pairs of bits of `order` name. */
static inline __m512i emulated_shuffle(__m512i a, unsigned mask, __m512i b, unsigned order)
{
    int to[16], from[16];
    _mm512_storeu_si512(to, a);
    _mm512_storeu_si512(from, b);
    for (unsigned i = 0; i < 16; i++)
        if (mask >> i & 1)
            to[i] = from[(i & ~3u) + (order >> 2 * (i & 3) & 3)];
    return _mm512_loadu_si512(to);
}
#define _mm512_mask_shuffle_epi32(a, mask, b, order) emulated_shuffle(a, mask, b, order)

#endif
