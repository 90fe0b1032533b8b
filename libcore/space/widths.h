/* Blocks whose channels are a choice: candidates that make, and read, fewer than their block.
 *
 * Which   a block with `widths` has its candidates once for each width, in that order, so that
 *         number i of `count` has width number i / (count / widths). It makes the first channels
 *         of what its block makes, as many as its width; the others are +0.
 * Reads   of what a block with the same tie_widths made, as many channels as that made, since both
 *         have the width of one number; else, if its operator keeps the channels, as its block
 *         does, and what it reads is of no width, as many as it makes; else all.
 */
#ifndef NP_SPACE_WIDTHS_H
#define NP_SPACE_WIDTHS_H

#include "space/program.h"
#include "space/recipe.h"

/* Candidates of each width. */
static inline int np_width_candidates(const struct np_block *block)
{
    return block->widths ? block->count / block->widths : block->count;
}

/* The channels that a candidate, of spec->op, reads and makes: of shapes in, out of its block's,
 * where x made what it reads, NULL the stem. */
struct np_channels {
    int reads, makes;
};
struct np_channels np_width_channels(const struct np_block *block, int candidate,
                                     const struct np_block *x, struct np_shape in,
                                     struct np_shape out);

/* Whether two blocks have widths that are drawn alike. */
bool np_widths_tied(const struct np_block *a, const struct np_block *b);

#endif
