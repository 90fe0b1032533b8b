/* Items whose last repeats may be passed over: how many are there is drawn once for all of them.
 *
 * How     the blocks of a repeat that not every depth has get one candidate more, the last of each
 *         width: an identity, which keeps the shape and so has no weights. A block's level is the
 *         number of depths in which it is passed over, the first ones; a subnet of depth number d,
 *         from 0, takes that candidate where level > d, and one of the others elsewhere.
 * Bits    nothing but the choices of a subnet: whoever reads them need not know of depths.
 */
#ifndef NP_SPACE_DEPTH_H
#define NP_SPACE_DEPTH_H

#include "space/widths.h"

/* Whether the candidate is the one by which the block is passed over. */
static inline bool np_depth_passes(const struct np_block *block, int candidate)
{
    int each = np_width_candidates(block);
    return block->level > 0 && candidate % each == each - 1;
}

/* How often a subnet drawn uniformly takes the candidate, in terms of the mean over the block's: 1
 * without a depth. */
static inline double np_depth_odds(const struct np_recipe *recipe, const struct np_block *block,
                                   int candidate)
{
    double passed, each = np_width_candidates(block);
    if (block->level == 0)
        return 1;
    passed = (double)block->level / recipe->depths[block->depth].count;
    return each * (np_depth_passes(block, candidate) ? passed : (1 - passed) / (each - 1));
}

#endif
