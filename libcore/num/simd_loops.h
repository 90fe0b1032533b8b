/* Helpers of loops over vectors (num/simd.h). Private to num/.
 */
#ifndef NP_NUM_SIMD_LOOPS_H
#define NP_NUM_SIMD_LOOPS_H

#include "num/elementary.h"
#include "num/loops.h"
#include "num/simd.h"

/* n (1..NP_VW) elements; where n is the constant NP_VW, without a mask. */
NP_INLINE vf v_part(const float *p, size_t n)
{
    return __builtin_constant_p(n) && n == NP_VW ? v_load(p) : v_load_n(p, n);
}

NP_INLINE void v_put(float *p, size_t n, vf v)
{
    if (n == NP_VW)
        v_store(p, v);
    else
        v_store_n(p, n, v);
}

/* Floats that no cache holds until they are read: what is written goes past it, and what was there
 * before is not read for it. */
#define V_FAR (1 << 20)

/* To a cache line. */
static inline bool v_is_aligned(const float *p)
{
    return (uintptr_t)p % (16 * sizeof *p) == 0;
}

/* Past the caches if far: p is aligned to a vector. */
NP_INLINE void v_write(float *p, vf v, bool far)
{
    if (far)
        v_stream(p, v);
    else
        v_store(p, v);
}

/* What collects elements that are not finite: begins as v_zero(), becomes NaN where one was met. */
NP_INLINE vf v_not_finite(vf bad, vf v)
{
    return v_or(bad, v_sub(v, v));
}

static inline bool v_all_finite(vf bad)
{
    float part[NP_VW];
    bool finite = true;
    v_store(part, bad);
    for (size_t i = 0; i < NP_VW; i++)
        finite = finite && np_is_finite(part[i]);
    return finite;
}

#endif
