/* Helpers of the loops that every CPU backend is made of. Private to num/.
 *
 * The *_loops.h files hold kernels whose plain loop is also the fast one: each backend includes
 * them and the compiler vectorises them for its instruction set. Kernels that need another shape of
 * loop to be fast stand in a pair, *_scalar.h (reads like num/kernels.h) and *_simd.h.
 */
#ifndef NP_NUM_LOOPS_H
#define NP_NUM_LOOPS_H

#include <stddef.h>

#include "num/chunk.h"
#include "num/kernels.h"

/* Before a loop whose iterations are independent though the compiler cannot see it: outputs are
 * either equal to an input or apart from it. */
#if defined(__GNUC__) && !defined(__clang__)
#define NP_INDEPENDENT _Pragma("GCC ivdep")
#else
#define NP_INDEPENDENT
#endif

/* NP_INLINE: functions that are compiled anew for the constants that they are called with.
 * NP_UNROLL: before a loop whose bounds are constants, so that arrays it indexes live in registers.
 * With NP_COMPACT they stay functions and loops: what is compiled to be checked, not to be fast,
 * would take minutes. */
#if defined(NP_COMPACT)
#define NP_INLINE static inline
#define NP_UNROLL
#else
#define NP_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define NP_UNROLL _Pragma("clang loop unroll(full)")
#else
#define NP_UNROLL _Pragma("GCC unroll 32")
#endif
#endif

/* The compiler knows nothing about integer or pointer x from here on. */
#define NP_OPAQUE(x) __asm__("" : "+r"(x))

/* Shares begin at cache lines of the output where its allocation does. */
#define NP_SHARE_UNIT 16

#endif
