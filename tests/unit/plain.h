/* Layers run plainly, in float: one node after the other by the scalar kernels, nothing fused,
 * nothing shared, every value and every gift in memory of its own. It says what bits ops/op.h
 * means; operators must give them however they go about it.
 */
#ifndef PLAIN_H
#define PLAIN_H

#include "ops/op.h"

/* F, B and W of the whole mini-batch as `call` says, on a team of one; io, g and accumulate as in
 * ops/op.h. */
void plain_run(const struct np_op_call *call, const struct np_op_forward *in,
               const struct np_op_backward *io, float *g, bool accumulate);

#endif
