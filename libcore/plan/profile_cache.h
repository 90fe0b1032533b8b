/* A plan's costs: from the model, from the cache of earlier measurements, or measured now.
 *
 * Cache     profile.tsv in the directory that the tool names: key, kind, forward, backward, weight,
 *           and of how many rounds these are the least.
 *           Key and kind are everything a time depends on: sources, compiler, flags, CPU,
 *           instruction set, optimizer, clip, vocabulary, samples, threads and teams; operator and
 *           shapes. Best effort: without a usable cache costs are measured.
 */
#ifndef NP_PLAN_PROFILE_CACHE_H
#define NP_PLAN_PROFILE_CACHE_H

#include "plan/pipelines.h"
#include "plan/plan.h"
#include "plan/profile.h"

/* Fills the plans' kind_cost for their stages, threads and micro-batches. What is to be measured is
 * measured in three rounds over all plans, and of each operator the least counts: then nothing else
 * that the machine does for a while is taken for a plan's own. Where the stages have more threads
 * than there are devices, costs are stretched by the ratio. */
enum np_status np_profile_plans(struct np_plan *plans, size_t count, const struct np_supernet *net,
                                const struct np_partition_request *request, struct np_error *err);

#endif
