/* Words for the kernels that draw (num/random_loops.h): a Philox block in every 64-bit lane.
 *
 * The lower half of a lane holds a word of the state; the upper half holds what a multiplication
 * left there, which the next one ignores.
 */
#ifndef NP_NUM_DRAW_SIMD_H
#define NP_NUM_DRAW_SIMD_H

#include "num/philox.h"
#include "num/simd.h"

#define DRAW_BLOCKS 96 /* Philox blocks drawn at a time */
#define DRAW_LANES (NP_VW / 2)
#define GROUPS 3 /* of lanes at a time: a round waits for its multiplication */

/* The words of blocks block .. block + DRAW_BLOCKS - 1. */
static void draw_words(uint32_t words[4 * DRAW_BLOCKS], struct np_draw_key key, uint64_t step,
                       uint64_t block)
{
    static const uint64_t lane[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const vq low = q_set1(step), high = q_set1(step >> 32), lanes = q_load(lane);
    const vq mul0 = q_set1(NP_PHILOX_MUL0), mul1 = q_set1(NP_PHILOX_MUL1);
    vq keys[NP_PHILOX_ROUNDS][2];
    for (int r = 0; r < NP_PHILOX_ROUNDS; r++) {
        keys[r][0] = q_set1(key.k[0]);
        keys[r][1] = q_set1(key.k[1]);
        key.k[0] += NP_PHILOX_KEY0;
        key.k[1] += NP_PHILOX_KEY1;
    }
    for (uint64_t i = 0; i < DRAW_BLOCKS; i += GROUPS * DRAW_LANES) {
        vq w[GROUPS][4];
        for (uint64_t g = 0; g < GROUPS; g++) {
            w[g][0] = q_add(q_set1(block + i + g * DRAW_LANES), lanes);
            w[g][1] = q_high(w[g][0]);
            w[g][2] = low;
            w[g][3] = high;
        }
        for (int r = 0; r < NP_PHILOX_ROUNDS; r++)
            for (uint64_t g = 0; g < GROUPS; g++) {
                vq a = q_mul(w[g][0], mul0), b = q_mul(w[g][2], mul1);
                w[g][0] = q_xor3(q_high(b), w[g][1], keys[r][0]);
                w[g][2] = q_xor3(q_high(a), w[g][3], keys[r][1]);
                w[g][1] = b;
                w[g][3] = a;
            }
        for (uint64_t g = 0; g < GROUPS; g++)
            q_store4(words + 4 * (i + g * DRAW_LANES), w[g][0], w[g][1], w[g][2], w[g][3]);
    }
}

#endif
