/* The memory model: what a stage holds while it trains.
 *
 * Per position: weights and moments of every candidate, delayed versions of shared layers, open
 * gradient sums, and for every step of the window the value made, its gradient and what operators
 * keep; per stage: the values, and gradients, that come from earlier stages to this one or a later
 * one, and the largest workspace. Upper bounds: every step in flight takes the largest candidate.
 *
 * Units     bytes.
 */
#ifndef NP_PLAN_MEMORY_H
#define NP_PLAN_MEMORY_H

#include "plan/plan.h"

/* What one position adds to the stage that is its home, under the plan's window, micro-batches. */
uint64_t np_memory_position(const struct np_plan *plan, const struct np_supernet *net,
                            int position);
/* bytes[positions]: what a stage that begins at a position holds of earlier stages' values. */
void np_memory_enter(uint64_t *bytes, const struct np_plan *plan, const struct np_supernet *net);
/* Scratch of a stage, whatever its positions. */
uint64_t np_memory_work(const struct np_plan *plan, const struct np_supernet *net);
/* Estimated bytes of a stage. */
uint64_t np_memory_stage(const struct np_plan *plan, const struct np_supernet *net, int stage);

#endif
