/* The memory model: what a stage holds while it trains.
 *
 * Per position: weights and moments of every candidate, delayed versions of shared layers, open
 * gradient sums and activations for every step of the window; per stage: the largest workspace.
 * Upper bounds: every step in flight takes the largest candidate.
 *
 * Units     bytes.
 */
#ifndef NP_PLAN_MEMORY_H
#define NP_PLAN_MEMORY_H

#include "plan/plan.h"

/* What one position adds to the stage that is its home, under the plan's window, micro-batches. */
uint64_t np_memory_position(const struct np_plan *plan, const struct np_supernet *net,
                            int position);
/* Scratch of a stage, whatever its positions. */
uint64_t np_memory_work(const struct np_plan *plan, const struct np_supernet *net);
/* Estimated bytes of a stage. */
uint64_t np_memory_stage(const struct np_plan *plan, const struct np_supernet *net, int stage);

#endif
