/* A plan's costs: from the model, from the cache of earlier measurements, or measured now.
 *
 * Cache     profile.tsv in the directory that the tool names: key, kind, forward, backward, weight.
 *           Key and kind are everything a time depends on: version, CPU, instruction set,
 *           optimizer, vocabulary, samples, threads and teams; operator and shapes. Best effort:
 *           without a usable cache costs are measured.
 */
#ifndef NP_PLAN_PROFILE_CACHE_H
#define NP_PLAN_PROFILE_CACHE_H

#include "plan/pipelines.h"
#include "plan/plan.h"
#include "plan/profile.h"

/* Fills plan->kind_cost for its stages, threads and micro-batches. Where the stages have
 * more threads than there are devices, costs are stretched by the ratio. */
enum np_status np_profile_plan(struct np_plan *plan, const struct np_supernet *net,
                               const struct np_partition_request *request, struct np_error *err);

#endif
