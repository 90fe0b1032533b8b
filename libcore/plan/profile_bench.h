/* The stop-watch of np_profile_measure: times all kinds of a supernet in one slab a team, for about
 * budget_ns. Private to plan/profile*.c; contracts as in plan/profile.h.
 */
#ifndef NP_PLAN_PROFILE_BENCH_H
#define NP_PLAN_PROFILE_BENCH_H

#include "plan/profile.h"

enum np_status np_profile_bench(struct np_layer_cost *cost, const struct np_supernet *net,
                                const struct np_profile_config *config, double budget_ns,
                                struct np_error *err);

#endif
