/* The best plan of one pipeline: stages, threads and micro-batches are given; the cut, window,
 * unit, flights in flight and reach are searched, unless the request says what they are.
 *
 * Balanced  cuts (sched/balance.h) hold more activations and move layers: where they are not asked
 *           for they must save 2 % of the time, and where memory is bounded leave all layers room.
 *
 * Units     bytes of a stage.
 * Errors    NP_EMEM; those of np_profile_plan.
 */
#ifndef NP_PLAN_SEARCH_H
#define NP_PLAN_SEARCH_H

#include "plan/pipelines.h"
#include "plan/plan.h"

/* best is initialised, and the caller's to clear: stages 0, *least_bytes what would do, if nothing
 * fits in the request's memory. The pipeline is legal: as many positions as stages, micro-batches
 * on grain boundaries. */
enum np_status np_search_pipeline(struct np_plan *best, uint64_t *least_bytes,
                                  const struct np_pipeline *pipeline, const struct np_supernet *net,
                                  const struct np_partition_request *request, struct np_error *err);

#endif
