/* Functions that C and CUDA C compile from the same text: per-element arithmetic, geometry, random
 * numbers. Compile without contraction (-ffp-contract=off, nvcc --fmad=false).
 */
#ifndef NP_NUM_FUNCTION_H
#define NP_NUM_FUNCTION_H

#ifdef __FAST_MATH__
#error "num/function.h: -ffast-math changes bits; compile without it"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error "num/function.h: float is computed in another precision here (-mfpmath=sse on x86)"
#endif
#if !defined(__SIZEOF_INT128__)
#error "num/function.h: naspipe is for machines of 64 bits"
#endif

#ifdef __CUDACC__
#define NP_FN static inline __host__ __device__
#else
#define NP_FN static inline
#endif

#ifdef __CUDA_ARCH__
#define np_fmaf(a, b, c) __fmaf_rn(a, b, c)
#else
#define np_fmaf(a, b, c) __builtin_fmaf(a, b, c)
#endif

#endif
