/* The simulator against closed forms and the published figures. */
#include <check.h>
#include <string.h>

#include "sim_bench.h"
#include "suite.h"
#include "team_run.h"

/* F takes f and B with W takes b per piece and stage: (M + S - 1) (f + b) a step. */
START_TEST(draining_schedules_match_their_closed_form)
{
    static struct bench b;
    static const int stages[] = {1, 2, 4, 8}, micro_batches[] = {1, 3, 8, 16};
    int s = stages[_i % 4], m = micro_batches[_i / 4];
    double blocks = 16 / s;
    bench_open(&b, 16, 4, s, m);
    b.steps = 20;
    bench_near(bench_run(&b, NP_SIM_GPIPE).makespan, 20 * (m + s - 1) * 3 * blocks);
    bench_near(bench_run(&b, NP_SIM_1F1B).makespan, 20 * (m + s - 1) * 3 * blocks);
    bench_near(bench_run(&b, NP_SIM_SEQUENTIAL).makespan, 20.0 * 16 * 3 * m);
    bench_near(bench_run(&b, NP_SIM_SEQUENTIAL).bubble, 1 - 1.0 / s);
    b.config.overhead = 0.5;
    bench_near(bench_run(&b, NP_SIM_GPIPE).makespan, 20 * (m + s - 1) * (3 * blocks + 1));
    bench_near(bench_run(&b, NP_SIM_SEQUENTIAL).makespan, 20.0 * m * (16 * 3 + s));
    b.config.transfer = 2;
    bench_near(bench_run(&b, NP_SIM_SEQUENTIAL).makespan, 20.0 * m * (16 * 3 + s + 4 * (s - 1)));
}
END_TEST

START_TEST(one_stage_gains_nothing)
{
    static struct bench b;
    static const enum np_sim_schedule all[] = {NP_SIM_CSP, NP_SIM_SEQUENTIAL, NP_SIM_GPIPE,
                                               NP_SIM_1F1B, NP_SIM_NASPIPE};
    bench_open(&b, 12, 3, 1, 1 + _i % 2);
    b.config.check = true;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct np_sim_report report = bench_run(&b, all[i]);
        ck_assert_uint_eq(report.steps, 400);
        bench_near(report.speedup, 1);
        ck_assert_double_le(report.bubble, 1e-9);
    }
}
END_TEST

/* Everything at once, under the rule's checker: groups, shared positions, units, overheads. */
START_TEST(checked_runs_of_mixed_pipelines)
{
    static struct bench b;
    bench_open(&b, 14, 5, 3, 2);
    for (int p = 0; p < 14; p += 13) { /* a stem and a head */
        b.kind[p] = _i % 3 ? NP_SHARED_DELAY : NP_SHARED_FROZEN;
        for (int q = p + 1; q <= 14; q++)
            b.layer_first[q] -= 4;
    }
    for (uint32_t layer = 0; layer < b.layer_first[14]; layer++) {
        b.cost[layer].f = (float)bench_draw(0, 0, (int)layer, 5);
        b.weightless[layer] = bench_draw(1, 0, (int)layer, 6) == 0;
    }
    b.steps = 60;
    b.config.sched.members = 1 + _i % 4;
    b.config.sched.unit = 1 + _i % 3;
    b.config.sched.delay = 1 + _i % 2;
    b.config.sched.lookahead = _i % 5;
    b.config.overhead = 0.25 * (_i % 2);
    b.config.transfer = 0.75 * (_i % 3);
    b.config.check = true;
    b.config.on_task = bench_note_order;
    ck_assert_uint_eq(bench_run(&b, NP_SIM_CSP).steps, 60);
    memset(b.last_end, 0, sizeof b.last_end);
    ck_assert_uint_eq(bench_run(&b, NP_SIM_1F1B).steps, 60);
}
END_TEST

/* As many devices in replicas of shorter pipelines, under the rule's checker: layers that never
 * conflict keep all of them busy. */
START_TEST(replicas_keep_the_rule_and_the_pace)
{
    static struct bench b;
    int replicas = 2 << _i % 3;
    bench_open(&b, 48, 96, 8 / replicas, 16);
    b.steps = 60;
    b.config.sched.replicas = replicas;
    b.config.sched.unit = 1 + _i / 3;
    b.config.transfer = 0.5 * (_i / 3);
    b.config.check = true;
    b.config.on_task = bench_note_order;
    struct np_sim_report report = bench_run(&b, NP_SIM_CSP);
    ck_assert_uint_eq(report.steps, 60);
    bench_near(report.sequential, 60.0 * 48 * 16 * 3);
    ck_assert_double_ge(report.speedup, 7.6);
    bench_near(report.bubble, 1 - report.speedup / 8);
}
END_TEST

START_TEST(only_csp_has_replicas)
{
    static struct bench b;
    struct np_sim_report report;
    struct np_error err;
    bench_open(&b, 8, 4, 2, 2);
    b.config.sched.replicas = 2;
    for (int schedule = NP_SIM_SEQUENTIAL; schedule <= NP_SIM_NASPIPE; schedule++) {
        b.config.schedule = (enum np_sim_schedule)schedule;
        ck_assert_int_eq(np_sim_run(&report, &b.config, &err), NP_EINPUT);
    }
}
END_TEST

START_TEST(naspipe_refuses_groups)
{
    static struct bench b;
    struct np_sim_report report;
    struct np_error err;
    bench_open(&b, 8, 4, 2, 1);
    b.config.sched.members = 2;
    b.config.schedule = NP_SIM_NASPIPE;
    ck_assert_int_eq(np_sim_run(&report, &b.config, &err), NP_EINPUT);
}
END_TEST

/* Whatever the window: one step at a time, too. */
START_TEST(every_step_is_run)
{
    static struct bench b;
    for (int schedule = NP_SIM_CSP; schedule <= NP_SIM_NASPIPE; schedule++) {
        bench_open(&b, 8, 3, 3, 2);
        b.steps = 37;
        b.config.sched.window = _i;
        ck_assert_uint_eq(bench_run(&b, (enum np_sim_schedule)schedule).steps, 37);
    }
}
END_TEST

/* What is known is no matter for the order, only for who asks what comes next. */
START_TEST(lookahead_changes_nothing)
{
    static struct bench b;
    double makespan;
    bench_open(&b, 48, 24, 8, 2);
    makespan = bench_run(&b, NP_SIM_CSP).makespan;
    b.config.sched.lookahead = 20;
    bench_near(bench_run(&b, NP_SIM_CSP).makespan, makespan);
}
END_TEST

/* A fingerprint of which task runs when. */
static void note_task(void *context, const struct np_span *span)
{
    struct bench *b = context;
    const struct np_task *task = &span->task;
    uint64_t what = task->step << 40 | (uint64_t)task->first << 24 | (uint64_t)task->micro << 16 |
                    (uint64_t)task->stage << 8 | (uint64_t)task->kind;
    b->order = (b->order ^ what ^ (uint64_t)(4 * span->start)) * 0x9e3779b97f4a7c15u;
    b->order ^= b->order >> 31;
}

START_TEST(wide_flight_windows_change_nothing)
{
    static struct bench b;
    uint64_t order;
    bench_open(&b, 48, 24, 8, 1 + _i);
    b.config.on_task = note_task;
    bench_run(&b, NP_SIM_CSP);
    order = b.order;
    b.order = 0;
    b.config.sched.in_flight = b.in_flight;
    for (int k = 0; k < 8; k++)
        b.in_flight[k] = b.config.sched.window * (1 + _i);
    bench_run(&b, NP_SIM_CSP);
    ck_assert_uint_eq(b.order, order);
}
END_TEST

/* One flight at a time overlaps its own W alone (a third of the time); as many as the stages behind
 * need cost little. */
START_TEST(narrow_flight_windows_cost_time_only)
{
    static struct bench b;
    double free_run;
    bench_open(&b, 48, 96, 8, 8);
    b.config.check = true;
    free_run = bench_run(&b, NP_SIM_CSP).speedup;
    b.config.sched.in_flight = b.in_flight;
    for (int k = 0; k < 8; k++)
        b.in_flight[k] = 1;
    ck_assert_double_le(bench_run(&b, NP_SIM_CSP).speedup, 1.5);
    for (int k = 0; k < 8; k++)
        b.in_flight[k] = 2 * (8 - k) + 2;
    ck_assert_double_ge(bench_run(&b, NP_SIM_CSP).speedup, 0.95 * free_run);
}
END_TEST

/* Floors a little below what was measured; the bound of naspipe is from both sides. */
START_TEST(drawn_spaces_reach_their_figures)
{
    static struct bench b;
    bench_open(&b, 48, 96, 8, 1);
    ck_assert_double_ge(bench_run(&b, NP_SIM_CSP).speedup, 4.75);
    ck_assert_double_ge(bench_run(&b, NP_SIM_NASPIPE).speedup, 2.9);
    ck_assert_double_le(bench_run(&b, NP_SIM_NASPIPE).speedup, 3.2);
    bench_open(&b, 48, 96, 8, 8);
    ck_assert_double_ge(bench_run(&b, NP_SIM_CSP).speedup, 7.97);
    bench_near(bench_run(&b, NP_SIM_GPIPE).speedup, 64 / 15.0);
    bench_open(&b, 48, 72, 16, 8);
    ck_assert_double_ge(bench_run(&b, NP_SIM_CSP).speedup, 15.5);
    bench_open(&b, 48, 24, 8, 8);
    ck_assert_double_ge(bench_run(&b, NP_SIM_CSP).speedup, 7.7);
}
END_TEST

/* Candidates that cost from 1/4 to 4, as their logarithms are spread evenly. */
static void draw_costs(struct bench *b)
{
    for (uint32_t layer = 0; layer < b->layer_first[b->config.sched.positions]; layer++) {
        float cost = exp2f((float)bench_draw(9, 0, (int)layer, 1 << 16) / (1 << 14) - 2);
        b->cost[layer] = (struct np_layer_cost){cost, cost, cost};
    }
}

/* A layer that changes stages wakes who waits for it there; what else a cut could do wrong, the
 * rule says. */
START_TEST(balanced_cuts_keep_the_rule_and_pay)
{
    static struct bench b;
    double home;
    bench_open(&b, 24, 6, 4 + 2 * (_i % 2), 8);
    draw_costs(&b);
    b.config.sched.unit = 1 + _i / 2 % 2;
    b.config.transfer = 0.5 * (_i % 3);
    b.config.check = true;
    b.config.on_task = bench_note_order;
    home = bench_run(&b, NP_SIM_CSP).speedup;
    for (int reach = 2; reach <= 8; reach *= 2) {
        memset(b.last_end, 0, sizeof b.last_end);
        b.config.sched.reach = reach;
        ck_assert_double_ge(bench_run(&b, NP_SIM_CSP).speedup, 1.05 * home);
    }
}
END_TEST

/* Where all candidates of all blocks cost the same there is nothing to balance. */
START_TEST(equal_costs_stay_at_home)
{
    static struct bench b;
    uint64_t order;
    bench_open(&b, 48, 24, 8, 4);
    b.config.on_task = note_task;
    bench_run(&b, NP_SIM_CSP);
    order = b.order;
    b.order = 0;
    b.config.sched.reach = 3;
    bench_run(&b, NP_SIM_CSP);
    ck_assert_uint_eq(b.order, order);
}
END_TEST

/* A fair group has no conflicts inside it. */
START_TEST(fair_groups_fill_the_pipeline)
{
    static struct bench b;
    bench_open(&b, 48, 12, 8, 1);
    b.fair = true;
    b.steps = 60;
    b.config.sched.members = 12;
    b.config.check = true;
    ck_assert_double_ge(bench_run(&b, NP_SIM_CSP).speedup, 7.0);
}
END_TEST

START_TEST(published_stream_reaches_its_figures)
{
    static const struct {
        enum np_sim_schedule schedule;
        int replicas, micro_batches;
        double least, most;
    } figures[] = {{NP_SIM_NASPIPE, 1, 1, 1.155, 1.165}, {NP_SIM_GPIPE, 1, 8, 4.266, 4.267},
                   {NP_SIM_CSP, 1, 1, 1.82, 1.84},       {NP_SIM_CSP, 1, 4, 4.95, 8},
                   {NP_SIM_CSP, 1, 8, 7.0, 7.1},         {NP_SIM_CSP, 1, 16, 7.9, 8},
                   {NP_SIM_CSP, 2, 8, 7.45, 8},          {NP_SIM_CSP, 4, 8, 7.95, 8},
                   {NP_SIM_CSP, 2, 16, 7.95, 8}};
    static struct bench b;
    double speedup;
    int stages = 8 / figures[_i].replicas;
    bench_open(&b, 112, 24, stages, figures[_i].micro_batches);
    b.config.sched.replicas = figures[_i].replicas;
    b.stream = bench_published();
    if (!b.stream)
        return;
    b.steps = figures[_i].schedule == NP_SIM_CSP ? 600 : 2500;
    speedup = bench_run(&b, figures[_i].schedule).speedup;
    fclose(b.stream);
    ck_assert_uint_eq(b.at, b.steps);
    ck_assert_double_ge(speedup, figures[_i].least);
    ck_assert_double_le(speedup, figures[_i].most);
}
END_TEST

/* The published rule, with a stem and a head of every step's that are read with a delay: by D = 1
 * the steps follow each other, later ones wait less; nothing waits where that is further off than
 * the window. */
START_TEST(naspipe_reads_with_a_delay)
{
    static struct bench b;
    double before = 0;
    bench_open(&b, 12, 300, 4, 1);
    b.steps = 100;
    for (int p = 0; p < 12; p += 11) {
        b.kind[p] = NP_SHARED_DELAY;
        for (int q = p + 1; q <= 12; q++)
            b.layer_first[q] -= 299;
    }
    b.config.sched.window = 6;
    for (int delay = 1; delay <= 7; delay++) {
        b.config.sched.delay = delay;
        double speedup = bench_run(&b, NP_SIM_NASPIPE).speedup;
        ck_assert_double_ge(speedup, 0.99 * before);
        if (delay == 1)
            bench_near(speedup, 1);
        before = speedup;
    }
    ck_assert_double_ge(before, 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim");
    TCase *tests = suite_case(suite, "schedules");
    tcase_add_test(tests, naspipe_reads_with_a_delay);
    tcase_add_loop_test(tests, draining_schedules_match_their_closed_form, 0, 16);
    tcase_add_loop_test(tests, one_stage_gains_nothing, 0, 2);
    tcase_add_loop_test(tests, checked_runs_of_mixed_pipelines, 0, 12);
    tcase_add_loop_test(tests, replicas_keep_the_rule_and_the_pace, 0, 6);
    tcase_add_test(tests, only_csp_has_replicas);
    tcase_add_test(tests, naspipe_refuses_groups);
    tcase_add_loop_test(tests, every_step_is_run, 1, 5);
    tcase_add_test(tests, lookahead_changes_nothing);
    tcase_add_loop_test(tests, wide_flight_windows_change_nothing, 0, 3);
    tcase_add_test(tests, narrow_flight_windows_cost_time_only);
    tcase_add_test(tests, drawn_spaces_reach_their_figures);
    tcase_add_loop_test(tests, balanced_cuts_keep_the_rule_and_pay, 0, tests_are_full() ? 6 : 2);
    tcase_add_test(tests, equal_costs_stay_at_home);
    tcase_add_test(tests, fair_groups_fill_the_pipeline);
    tcase_add_loop_test(tests, published_stream_reaches_its_figures, 0, tests_are_full() ? 9 : 4);
    return suite_run(suite);
}
