/* The best plan of one pipeline: stages, threads and micro-batches are given; the cut, window,
 * unit, flights in flight and reach are searched, unless the request says what they are.
 *
 * Balanced  cuts (sched/balance.h) hold more activations and move layers: where they are not asked
 *           for they must save 2 % of the time, and where memory is bounded leave all layers room.
 *
 * Units     bytes of a stage.
 * Errors    NP_EMEM; NP_EINPUT from the simulator.
 */
#ifndef NP_PLAN_SEARCH_H
#define NP_PLAN_SEARCH_H

#include "plan/pipelines.h"
#include "plan/plan.h"

/* A plan for the pipeline, the caller's to clear, that lacks what is searched, and costs
 * (plan/profile_cache.h). The pipeline is legal: as many positions as stages, micro-batches on
 * grain boundaries. */
enum np_status np_search_begin(struct np_plan *plan, const struct np_pipeline *pipeline,
                               const struct np_supernet *net,
                               const struct np_partition_request *request, struct np_error *err);

/* The least memory with which the plan could be run under cuts of the request's kind, its unit and
 * reach too, where it says none: makes that cut (plan/fit.h). */
enum np_status np_search_least(uint64_t *least_bytes, struct np_plan *plan,
                               const struct np_supernet *net,
                               const struct np_partition_request *request, struct np_error *err);

/* Makes the best of it, *least_bytes 0; or says what memory would do, if it fits with nothing. */
enum np_status np_search_plan(struct np_plan *plan, uint64_t *least_bytes,
                              const struct np_supernet *net,
                              const struct np_partition_request *request, struct np_error *err);

#endif
