/* Float vectors of the instruction set a file is compiled for (its name ends in it).
 *
 * The SIMD backends share one body of code, written with these names; NP_VW is the width in floats,
 * NP_SIMD(name) the name of this backend's function. Intrinsics are in simd_<isa>.h alone: what a
 * body needs and does not find is added here, and there for every instruction set.
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

#if defined(__AVX512F__)
#include "num/simd_avx512.h"
#elif defined(__AVX2__)
#include "num/simd_avx2.h"
#elif defined(__aarch64__)
#include "num/simd_neon.h"
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
