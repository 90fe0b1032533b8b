/* Fits a plan into memory: the cut for time that keeps each stage within plan->device_bytes, and
 * how many flights the stages hold.
 *
 * Memory    exact (plan/stage_memory.h). With all candidates on the device if that fits with any
 *           flights; else with room for those of two steps, or of one, or for the largest.
 * Units     bytes of a stage.
 * Errors    NP_EMEM.
 */
#ifndef NP_PLAN_FIT_H
#define NP_PLAN_FIT_H

#include "plan/plan.h"

/* Cuts for the plan's costs, micro-batches and window; stage_bytes are filled in. *least 0: it fits
 * (or device_bytes is 0: no cap); else the least memory with which it would. */
enum np_status np_fit(struct np_plan *plan, uint64_t *least, const struct np_supernet *net,
                      struct np_error *err);

/* The least memory with which the plan could be run, whatever the cut: one flight, one candidate.
 * Makes that cut. With a reach, for which not all cuts are tried, it may be a little more. */
enum np_status np_fit_least(uint64_t *least, struct np_plan *plan, const struct np_supernet *net,
                            struct np_error *err);

/* Bounds the flights: the first stage holds `most`, and each one fewer than the stage before, for
 * what a flight waits for lies in later stages. No bound where the window lets no more begin. */
void np_fit_flights(struct np_plan *plan, const struct np_supernet *net, int most);
/* The bound that was given, or as good as that. */
int np_fit_most_flights(const struct np_plan *plan, const struct np_supernet *net);

#endif
