/* np_expf and np_flushf (num/elementary.h) of a whole vector, for loops that keep what they compute
 * in registers; operation for operation the same.
 */
#ifndef NP_NUM_ELEMENTARY_SIMD_H
#define NP_NUM_ELEMENTARY_SIMD_H

#include "num/elementary.h"
#include "num/kernels.h"
#include "num/simd.h"

static inline vf v_expf(vf x)
{
    vf t = v_fma(x, v_set1(NP_LOG2E), v_set1(NP_ROUND)), n = v_sub(t, v_set1(NP_ROUND));
    vf r = v_add(v_fma(n, v_set1(-NP_LN2_HI), x), v_fma(n, v_set1(-NP_LN2_LO), v_zero()));
    vf p = v_fma(v_set1(NP_EXP6), r, v_set1(NP_EXP5));
    p = v_fma(p, r, v_set1(NP_EXP4));
    p = v_fma(p, r, v_set1(NP_EXP3));
    p = v_fma(p, r, v_set1(NP_EXP2));
    p = v_fma(p, r, v_set1(1.0f));
    p = v_fma(p, r, v_set1(1.0f));
    p = v_drop(v_scale(p, t), x, v_set1(NP_EXP_LEAST));
    return v_pick(x, v_set1(NP_EXP_MOST), p, v_add(x, v_set1(INFINITY)));
}

static inline vf v_flushf(vf x)
{
    return v_drop(x, v_abs(x), v_set1(NP_FLUSH));
}

#endif
