/* Words for the kernels that draw (num/random_loops.h), as num/philox.h gives them. */
#ifndef NP_NUM_DRAW_SCALAR_H
#define NP_NUM_DRAW_SCALAR_H

#include "num/philox.h"

#define DRAW_BLOCKS 64 /* Philox blocks drawn at a time */

/* The words of blocks block .. block + DRAW_BLOCKS - 1. */
static void draw_words(uint32_t words[4 * DRAW_BLOCKS], struct np_draw_key key, uint64_t step,
                       uint64_t block)
{
    for (uint64_t i = 0; i < DRAW_BLOCKS; i++) {
        struct np_philox drawn = np_draw(key, step, block + i);
        for (uint64_t j = 0; j < 4; j++)
            words[4 * i + j] = drawn.w[j];
    }
}

#endif
