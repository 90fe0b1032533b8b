/* Where the buffers of a stage's flights lie, and what positions add up to there. */
#include <check.h>

#include "plan/stage_memory.h"
#include "plan_space.h"
#include "suite.h"

/* What positions add up to is never less than the exact figure, and little more. */
START_TEST(positions_add_up)
{
    struct np_plan plan;
    struct np_partition_request r = plan_request(3);
    uint64_t bytes[8], beside;
    r.window = 3;
    r.micro_batches = 1 + _i % 2;
    r.recompute = _i / 2 ? NP_RECOMPUTE_ALWAYS : NP_RECOMPUTE_NEVER;
    r.unit = 1 + _i / 2;
    plan_recipe.distill = _i == 4 ? 0.5 : 0;
    ck_assert_int_eq(plan_partition(&plan, &r, NULL), NP_OK);
    for (int k = 0; k < 3; k++) {
        uint64_t sum;
        ck_assert_int_eq(
            np_memory_positions(bytes, &beside, &plan, plan.in_flight[k], 1 << 20, &plan_net, NULL),
            NP_OK);
        sum = beside;
        for (int p = plan.stage_first[k]; p < plan.stage_first[k + 1]; p++)
            sum += bytes[p];
        ck_assert_uint_ge(sum, plan.stage_bytes[k]);
        ck_assert_uint_le(sum, plan.stage_bytes[k] + beside);
    }
    np_plan_clear(&plan);
}
END_TEST

/* The positions of a unit have an entry each, which the next unit's take over. */
START_TEST(entries_are_of_a_unit)
{
    struct np_flight_layout layout;
    int first[] = {0, 3, plan_net.positions};
    struct np_flight_shape shape = {.stages = 2,
                                    .stage_first = first,
                                    .unit = _i,
                                    .window = 1,
                                    .micro_batches = 1,
                                    .threads = 1,
                                    .recompute = true};
    ck_assert_int_eq(np_flight_layout_init(&layout, &plan_net, &shape, NULL), NP_OK);
    for (int k = 0; k < 2; k++) {
        const struct np_flight_stage *stage = &layout.stage[k];
        int positions = first[k + 1] - first[k], most = _i < positions ? _i : positions;
        ck_assert_uint_eq(stage->entries, (size_t)most);
        for (int p = 0; p < positions; p++)
            ck_assert_uint_eq(np_flight_entry(stage, first[k] + p), (size_t)(p % most));
    }
    np_flight_layout_clear(&layout);
}
END_TEST

/* A slot has room for each position's largest candidate. */
START_TEST(layers_add_up_to_a_slot)
{
    struct np_flight_layout layout;
    int first[] = {0, plan_net.positions};
    size_t floats = 0, samples = (size_t)(plan_recipe.batch / _i);
    struct np_flight_shape shape = {
        .stages = 1, .stage_first = first, .window = 2, .micro_batches = _i, .threads = 1};
    for (int p = 0; p < plan_net.positions; p++) {
        size_t most = 0;
        for (uint32_t l = plan_net.layer_first[p]; l < plan_net.layer_first[p + 1]; l++) {
            size_t layer = np_flight_layer_floats(&plan_net, l, samples);
            most = layer > most ? layer : most;
        }
        floats += most;
    }
    ck_assert_int_eq(np_flight_layout_init(&layout, &plan_net, &shape, NULL), NP_OK);
    ck_assert_uint_eq(layout.stage[0].slot_floats, floats);
    np_flight_layout_clear(&layout);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("flight_layout");
    TCase *tests = suite_case(suite, "flight_layout");
    tcase_add_checked_fixture(tests, plan_setup, plan_teardown);
    tcase_add_loop_test(tests, positions_add_up, 0, 5);
    tcase_add_loop_test(tests, entries_are_of_a_unit, 1, 8);
    tcase_add_loop_test(tests, layers_add_up_to_a_slot, 1, 3);
    return suite_run_in(suite, (char[]){"/tmp/np-flights-XXXXXX"});
}
