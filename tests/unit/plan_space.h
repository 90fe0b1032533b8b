/* The supernet that tests of plans plan for: a stem, six blocks of three candidates and a head, of
 * the recipe that plan_setup writes where the test runs. */
#ifndef NP_TEST_PLAN_SPACE_H
#define NP_TEST_PLAN_SPACE_H

#include "plan/partition.h"
#include "plan/plan.h"

extern struct np_recipe plan_recipe;
extern struct np_supernet plan_net;

void plan_setup(void);
void plan_teardown(void);

/* By the model, for the best instruction set and 4 processors. */
struct np_partition_request plan_request(int stages);
enum np_status plan_partition(struct np_plan *plan, const struct np_partition_request *request,
                              struct np_error *err);

/* Every stage's bytes are the sum of their parts. */
void plan_assert_memory_filled(const struct np_plan *plan);

#endif
