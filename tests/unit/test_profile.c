/* What plans are told that layers cost: what is measured alike, and what takes longer than that. */
#include <check.h>
#include <math.h>

#include "plan/profile_cache.h"
#include "plan_space.h"
#include "suite.h"

/* Two stages and two replicas are both two teams of one thread; one stage has the machine for
 * itself. */
START_TEST(what_runs_alike_costs_alike)
{
    struct np_layer_cost costs[4][16];
    struct np_plan plans[] = {
        {.stages = 2, .threads = 1, .micro_batches = 4, .kind_cost = costs[0]},
        {.stages = 2, .threads = 1, .micro_batches = 8, .kind_cost = costs[1]},
        {.stages = 1, .replicas = 2, .threads = 1, .micro_batches = 4, .kind_cost = costs[2]},
        {.stages = 1, .threads = 1, .micro_batches = 4, .kind_cost = costs[3]}};
    struct np_partition_request r = plan_request(0);
    size_t bytes = (size_t)plan_net.kind_count * sizeof **costs;
    ck_assert_uint_le(bytes, sizeof *costs);
    r.model = false;
    r.processors = 2;
    ck_assert_int_eq(np_profile_plans(plans, 4, &plan_net, &r, NULL), NP_OK);
    for (int k = 0; k < plan_net.kind_count; k++)
        ck_assert(costs[0][k].f >= 0 && costs[0][k].w >= 0);
    ck_assert_mem_eq(costs[0], costs[2], bytes);
    ck_assert_mem_ne(costs[0], costs[1], bytes);
    ck_assert_mem_ne(costs[0], costs[3], bytes);
}
END_TEST

/* Two stages of one processor take turns. */
START_TEST(more_stages_than_processors_take_longer)
{
    struct np_layer_cost costs[2][16];
    struct np_plan plans[] = {
        {.stages = 1, .threads = 1, .micro_batches = 4, .kind_cost = costs[0]},
        {.stages = 2, .threads = 1, .micro_batches = 4, .kind_cost = costs[1]}};
    struct np_partition_request r = plan_request(0);
    r.model = false;
    r.processors = 1;
    ck_assert_int_eq(np_profile_plans(plans, 2, &plan_net, &r, NULL), NP_OK);
    for (int k = 0; k < plan_net.kind_count; k++) {
        ck_assert(costs[1][k].f == roundf(2 * costs[0][k].f));
        ck_assert(costs[1][k].b == roundf(2 * costs[0][k].b));
        ck_assert(costs[1][k].w == roundf(2 * costs[0][k].w));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("profile");
    TCase *tests = suite_case(suite, "profile");
    tcase_add_checked_fixture(tests, plan_setup, plan_teardown);
    tcase_add_test(tests, what_runs_alike_costs_alike);
    tcase_add_test(tests, more_stages_than_processors_take_longer);
    return suite_run_in(suite, (char[]){"/tmp/np-profile-XXXXXX"});
}
