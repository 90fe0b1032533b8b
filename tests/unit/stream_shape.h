/* The shape of a space for its stream, by hand. */
#ifndef STREAM_SHAPE_H
#define STREAM_SHAPE_H

#include "space/sampler.h"

/* Blocks of so many candidates, each with draws of its own; they lie in each[blocks]. */
static inline struct np_stream_shape stream_shape(struct np_stream_block *each, int blocks,
                                                  int members, const int *candidates)
{
    for (int b = 0; b < blocks; b++)
        each[b] = (struct np_stream_block){.candidates = candidates[b],
                                           .drawn = b,
                                           .width_drawn = b,
                                           .largest = candidates[b] - 1};
    return (struct np_stream_shape){blocks, members, each};
}

#endif
