/* Rows of two tensors side by side in one: a part of merge_scalar.h and merge_simd.h. */
#ifndef NP_NUM_MERGE_LOOPS_H
#define NP_NUM_MERGE_LOOPS_H

#include <string.h>

#include "num/elementary.h"
#include "num/loops.h"

/* na floats and then nb, zeros if b is NULL; or by turns, na of each. */
NP_INLINE void merge_row(float *y, const float *a, const float *b, size_t na, size_t nb,
                         bool interleave)
{
    if (!interleave) {
        memcpy(y, a, na * sizeof *y);
        if (b)
            memcpy(y + na, b, nb * sizeof *y);
        else
            memset(y + na, 0, nb * sizeof *y);
        return;
    }
    NP_INDEPENDENT
    for (size_t i = 0; i < na; i++) {
        y[2 * i] = a[i];
        y[2 * i + 1] = b[i];
    }
}

/* One of the two parts: n columns from the first on, every step-th. base is NULL wherever based is
 * false. */
NP_INLINE uint32_t split_range(bool based, size_t step, float *out, const float *base,
                               const float *y, size_t n)
{
    uint32_t bad = 0;
    NP_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        float part = based ? base[i] + y[i * step] : y[i * step];
        out[i] = part;
        bad |= np_not_finite(part);
    }
    return bad;
}

/* Not 0 if one of it is not finite. */
NP_INLINE uint32_t split_row(float *out, const float *base, const float *y, size_t n,
                             bool interleave)
{
    if (interleave)
        return base ? split_range(true, 2, out, base, y, n)
                    : split_range(false, 2, out, NULL, y, n);
    return base ? split_range(true, 1, out, base, y, n) : split_range(false, 1, out, NULL, y, n);
}

#endif
