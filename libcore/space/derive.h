/* A subnet as a recipe of its own: what was found in a space, to be trained by itself.
 *
 * Blocks    as many as the space's, in their order, each with the chosen candidate alone: a run of
 *           it can inherit (run/inherit.h) what the supernet's trained, and computes with it what
 *           the subnet does. Cells are written as blocks; a width stays, in front of the zeros.
 *           What others read or add to gets a name where it has none of its own. Where weights
 *           of an earlier candidate of the block could be its own, `origin` says which one it is.
 * The rest  is the recipe's, but for what chooses among subnets: a step has one member, there are
 *           no ties, entangled weights, distillation and inherited weights; and no calibration
 *           where no batch norm was chosen.
 * Errors    NP_EINPUT: a block that no other reads in the subnet; NP_EMEM.
 * Ownership the text is appended to the caller's buffer.
 */
#ifndef NP_SPACE_DERIVE_H
#define NP_SPACE_DERIVE_H

#include "base/buf.h"
#include "space/supernet.h"

/* choices: a candidate for each block. */
enum np_status np_derive(struct np_buf *text, const struct np_supernet *net,
                         const uint16_t *choices, struct np_error *err);

#endif
