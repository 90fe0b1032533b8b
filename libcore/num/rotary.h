/* Angles of rotary positions, as parts of a turn: integers, so that no position is too far for them
 * and every machine has the same. Position t turns pair i of a head of `width` floats by
 * t * 10000^(-2i / width) radians.
 */
#ifndef NP_NUM_ROTARY_H
#define NP_NUM_ROTARY_H

#include <stddef.h>
#include <stdint.h>

#include "num/function.h"

/* 2^64 * 10000^(-2i / width) / (2 pi), rounded down: what a position is a part of a turn. With
 * e = i / (width / 2) * log2(10000), n the whole number in it and f the rest: the polynomial that
 * begins exp's series at -f ln 2, times 2^64 / (2 pi), as a whole number, shifted by n. All in
 * double. */
NP_FN uint64_t np_rotary_step(size_t i, size_t width)
{
    double e = (double)i / (double)(width / 2) * 0x1.a934f0979a371p+3; /* log2(10000) */
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
