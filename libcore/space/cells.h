/* The blocks of a cell, in their order.
 *
 * One input   edges i -> j, i < j, by j, then i.
 * Two inputs  nodes 0 and 1 are what two fixed blocks make that fit what the cell reads to its
 *             channels; then the edges, none from 0 to 1; then fixed blocks that put nodes 2, 3, ..
 *             behind each other.
 */
#ifndef NP_SPACE_CELLS_H
#define NP_SPACE_CELLS_H

#include "space/recipe.h"

/* Blocks before the first edge. */
static inline int np_cell_lead(const struct np_block *block)
{
    return block->inputs == 2 ? 2 : 0;
}

static inline int np_cell_edges(const struct np_block *block)
{
    int pairs = block->cell * (block->cell - 1) / 2;
    return block->inputs == 2 ? pairs - 1 : pairs;
}

/* Blocks behind the last edge. */
static inline int np_cell_joins(const struct np_block *block)
{
    return block->inputs == 2 ? block->cell - 3 : 0;
}

/* All of them; 1 without a cell. */
static inline int np_cell_blocks(const struct np_block *block)
{
    return block->cell ? np_cell_lead(block) + np_cell_edges(block) + np_cell_joins(block) : 1;
}

#endif
