/* Subnets for a search to try: children of those that were good, or, without any, drawn uniformly.
 *
 * Genes     are what a sampler draws once (space/sampler.h): the candidate of a block, or of those
 *           that are tied; the number of a width; that of a depth.
 * Children  half of them have one parent, and each gene is drawn anew with a probability; half have
 *           two, and each gene is either's, as often. A candidate that a parent has not, for it
 *           passes over the block, is the other's, or drawn.
 * Draws     are a function of (seed, round, child) and the parents.
 * Threads   any.
 */
#ifndef NP_SPACE_BREED_H
#define NP_SPACE_BREED_H

#include "space/sampler.h"

struct np_breed {
    const struct np_stream_shape *shape;
    const uint16_t *parents; /* [count][blocks]; borrowed */
    size_t count;            /* 0: all is drawn */
    double mutation;         /* the probability, 0 .. 1 */
    uint64_t seed, round;
};

/* choices[blocks]: child 0, 1, .. of the round. */
void np_breed_child(uint16_t *choices, const struct np_breed *breed, uint32_t child);

#endif
