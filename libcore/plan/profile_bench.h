/* The stop-watch of np_profile_measure: times all kinds of a supernet in one slab a team, kind k
 * with samples[k] samples, for about budget_ns; what depends on samples is scaled to
 * config->samples. Private to plan/profile*.c; contracts as in plan/profile.h.
 */
#ifndef NP_PLAN_PROFILE_BENCH_H
#define NP_PLAN_PROFILE_BENCH_H

#include "plan/profile.h"

enum np_status np_profile_bench(struct np_layer_cost *cost, const struct np_supernet *net,
                                const struct np_profile_config *config, const size_t *samples,
                                double budget_ns, struct np_error *err);
/* The same on config->device. */
enum np_status np_profile_bench_device(struct np_layer_cost *cost, const struct np_supernet *net,
                                       const struct np_profile_config *config,
                                       const size_t *samples, double budget_ns,
                                       struct np_error *err);
/* Sorts them; count > 0. */
float np_profile_median(float *values, size_t count);

#endif
