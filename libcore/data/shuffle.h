/* Permutations by address: where a number goes in the order that a key and an epoch name, with
 * nothing stored or drawn before.
 *
 * A Feistel network permutes the least 4^h numbers that the n are among: x is two halves of h bits,
 * and each of NP_SHUFFLE_ROUNDS rounds r makes (left, right) (right, left ^ f(right)), f being the
 * low h bits of the first word of np_draw(key, epoch, right + 2^32 * r). What it makes of a number
 * below n is followed until it is below n again, less than 4 times on average.
 */
#ifndef NP_DATA_SHUFFLE_H
#define NP_DATA_SHUFFLE_H

#include "num/philox.h"

#define NP_SHUFFLE_ROUNDS 8

/* Where x goes, 0 <= x < n. */
static inline uint64_t np_shuffle(struct np_draw_key key, uint64_t epoch, uint64_t x, uint64_t n)
{
    unsigned half = 0;
    while (half < 32 && (n - 1) >> 2 * half)
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t r = 0; r < NP_SHUFFLE_ROUNDS; r++) {
            uint64_t mixed = left ^ (np_draw(key, epoch, right | r << 32).w[0] & mask);
            left = right;
            right = mixed;
        }
        x = left << half | right;
    } while (x >= n);
    return x;
}

#endif
