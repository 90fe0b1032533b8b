/* Angles of rotary positions, as parts of a turn: integers, so that no position is too far for them
 * and every machine has the same. Position t turns pair i of a head of `width` floats by
 * t * base^(-2i / width) radians.
 *
 * Source    Su et al., RoFormer (2021), section 3.2.2, whose base is 10000.
 */
#ifndef NP_NUM_ROTARY_H
#define NP_NUM_ROTARY_H

#include <stddef.h>
#include <stdint.h>

#include "num/function.h"

#define NP_ROTARY_BASE 10000
#define NP_ROTARY_BASE_MOST (1 << 30)

/* log2(base), base from 2 on, within a unit in the last place: n halvings leave m, 1 <= m < 2; with
 * z = (m - 1) / (m + 1), atanh's series at z to the term of z^33, times 2 / ln 2, plus n. All in
 * double. */
NP_FN double np_rotary_octaves(int base)
{
    double n = 0.0, m = (double)base, sum = 0.0;
    for (; m >= 2.0; m *= 0.5)
        n += 1.0;
    double z = (m - 1.0) / (m + 1.0);
    for (int k = 33; k > 0; k -= 2)
        sum = 1.0 / (double)k + z * z * sum;
    return n + z * sum * 0x1.71547652b82fep+1; /* 2 / ln 2 */
}

/* 2^64 * base^(-2i / width) / (2 pi), rounded down: what a position is a part of a turn. With
 * e = i / (width / 2) * octaves, n the whole number in it and f the rest: the polynomial that
 * begins exp's series at -f ln 2, times 2^64 / (2 pi), as a whole number, shifted by n. All in
 * double. */
NP_FN uint64_t np_rotary_step(size_t i, size_t width, double octaves)
{
    double e = (double)i / (double)(width / 2) * octaves;
    int n = (int)e;
    double z = (e - (double)n) * -0x1.62e42fefa39efp-1, sum = 1.0; /* -ln 2 */
    for (int k = 18; k > 0; k--)
        sum = 1.0 + sum * z / (double)k;
    return (uint64_t)(sum * 0x1.45f306dc9c883p+61) >> n; /* 2^64 / (2 pi) */
}

/* Where a position has turned to: the first 24 bits, in [0, 1). */
NP_FN float np_rotary_turn(uint64_t step, size_t position)
{
    return (float)(uint32_t)(step * (uint64_t)position >> 40) * 0x1p-24f;
}

#endif
