/* The SIMD backends of the target this is compiled for; the makefile leaves out the files of the
 * others. Private to num/.
 */
#ifndef NP_NUM_ISA_H
#define NP_NUM_ISA_H

#if defined(__x86_64__)
#define NP_EACH_SIMD(X) X(avx2) X(avx512)
#elif defined(__aarch64__)
#define NP_EACH_SIMD(X) X(neon)
#else
#define NP_EACH_SIMD(X)
#endif

#endif
