/* The SIMD backends of the target this is compiled for; the makefile leaves out the files of the
 * others, and of AVX-512 with NP_NO_AVX512. Private to num/.
 */
#ifndef NP_NUM_ISA_H
#define NP_NUM_ISA_H

#if defined(__x86_64__) && defined(NP_NO_AVX512)
#define NP_EACH_SIMD(X) X(avx2)
#elif defined(__x86_64__)
#define NP_EACH_SIMD(X) X(avx2) X(avx512)
#elif defined(__aarch64__)
#define NP_EACH_SIMD(X) X(neon)
#else
#define NP_EACH_SIMD(X)
#endif

#endif
