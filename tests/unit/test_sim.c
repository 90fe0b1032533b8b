/* The simulator against closed forms and the published figures. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "num/philox.h"
#include "sched/sim.h"
#include "suite.h"

enum { MOST_POSITIONS = 112, MOST_LAYERS = 48 * 96, MOST_STAGES = 64 };

/* A space of blocks x candidates with equal costs, and a stream of its subnets. */
struct bench {
    uint32_t layer_first[MOST_POSITIONS + 1];
    enum np_shared_kind kind[MOST_POSITIONS];
    struct np_layer_cost cost[MOST_LAYERS];
    bool weightless[MOST_LAYERS];
    int stage_first[MOST_STAGES + 1], in_flight[MOST_STAGES];
    struct np_sim_config config;
    uint64_t steps, at;
    bool fair;    /* members are a random permutation of the candidates, at every block */
    FILE *stream; /* NULL: drawn */
    double last_end[MOST_STAGES];
    uint64_t order;
};

static uint32_t draw(uint64_t step, int member, int position, uint32_t below)
{
    struct np_draw_key key = np_draw_key(1, NP_DRAW_SUBNET, (uint32_t)member, 0, 0);
    return (uint32_t)np_philox_below(np_draw(key, step, (uint64_t)position), below);
}

static void draw_fair(const struct bench *b, uint16_t *choices, int position)
{
    const struct np_sched_config *c = &b->config.sched;
    for (int i = 0; i < c->members; i++) {
        int j = (int)draw(b->at, i, position, (uint32_t)i + 1);
        choices[i * c->positions + position] = choices[j * c->positions + position];
        choices[j * c->positions + position] = (uint16_t)i;
    }
}

static bool next_step(void *context, uint16_t *choices)
{
    struct bench *b = context;
    const struct np_sched_config *c = &b->config.sched;
    if (b->at == b->steps)
        return false;
    for (int p = 0; p < c->positions; p++) {
        uint32_t candidates = b->layer_first[p + 1] - b->layer_first[p];
        if (b->stream && fscanf(b->stream, "%hu", &choices[p]) != 1)
            return false;
        if (b->fair)
            draw_fair(b, choices, p);
        else if (!b->stream)
            for (int i = 0; i < c->members; i++)
                choices[i * c->positions + p] = (uint16_t)draw(b->at, i, p, candidates);
    }
    b->at++;
    return true;
}

static void open_bench(struct bench *b, int blocks, int candidates, int stages, int micro_batches)
{
    memset(b, 0, sizeof *b);
    for (int p = 0; p <= blocks; p++)
        b->layer_first[p] = (uint32_t)(p * candidates);
    for (int layer = 0; layer < blocks * candidates; layer++)
        b->cost[layer] = (struct np_layer_cost){1, 1, 1};
    for (int k = 0; k <= stages; k++)
        b->stage_first[k] = blocks * k / stages;
    b->steps = 400;
    b->config =
        (struct np_sim_config){.sched = {.positions = blocks,
                                         .layer_first = b->layer_first,
                                         .kind = b->kind,
                                         .delay = 1,
                                         .cost = b->cost,
                                         .weightless = b->weightless,
                                         .stages = stages,
                                         .stage_first = b->stage_first,
                                         .unit = 1,
                                         .members = 1,
                                         .micro_batches = micro_batches,
                                         .window = np_sched_default_window(stages, micro_batches)},
                               .next_step = next_step,
                               .context = b};
}

static struct np_sim_report run(struct bench *b, enum np_sim_schedule schedule)
{
    struct np_sim_report report;
    struct np_error err;
    enum np_status status;
    b->config.schedule = schedule;
    b->at = 0;
    status = np_sim_run(&report, &b->config, &err);
    ck_assert_msg(status == NP_OK, "%s", err.msg);
    return report;
}

static void ck_near(double value, double expected)
{
    ck_assert_double_le(value, expected + 1e-9 * expected);
    ck_assert_double_ge(value, expected - 1e-9 * expected);
}

/* F takes f and B with W takes b per piece and stage: (M + S - 1) (f + b) a step. */
START_TEST(draining_schedules_match_their_closed_form)
{
    static struct bench b;
    static const int stages[] = {1, 2, 4, 8}, micro_batches[] = {1, 3, 8, 16};
    int s = stages[_i % 4], m = micro_batches[_i / 4];
    double blocks = 16 / s;
    open_bench(&b, 16, 4, s, m);
    b.steps = 20;
    ck_near(run(&b, NP_SIM_GPIPE).makespan, 20 * (m + s - 1) * 3 * blocks);
    ck_near(run(&b, NP_SIM_1F1B).makespan, 20 * (m + s - 1) * 3 * blocks);
    ck_near(run(&b, NP_SIM_SEQUENTIAL).makespan, 20.0 * 16 * 3 * m);
    ck_near(run(&b, NP_SIM_SEQUENTIAL).bubble, 1 - 1.0 / s);
    b.config.overhead = 0.5;
    ck_near(run(&b, NP_SIM_GPIPE).makespan, 20 * (m + s - 1) * (3 * blocks + 1));
    ck_near(run(&b, NP_SIM_SEQUENTIAL).makespan, 20.0 * m * (16 * 3 + s));
    b.config.transfer = 2;
    ck_near(run(&b, NP_SIM_SEQUENTIAL).makespan, 20.0 * m * (16 * 3 + s + 4 * (s - 1)));
}
END_TEST

START_TEST(one_stage_gains_nothing)
{
    static struct bench b;
    static const enum np_sim_schedule all[] = {NP_SIM_CSP, NP_SIM_SEQUENTIAL, NP_SIM_GPIPE,
                                               NP_SIM_1F1B, NP_SIM_NASPIPE};
    open_bench(&b, 12, 3, 1, 1 + _i % 2);
    b.config.check = true;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct np_sim_report report = run(&b, all[i]);
        ck_assert_uint_eq(report.steps, 400);
        ck_near(report.speedup, 1);
        ck_assert_double_le(report.bubble, 1e-9);
    }
}
END_TEST

static void note_order(void *context, const struct np_task *task, double start, double end)
{
    struct bench *b = context;
    ck_assert_msg(start >= b->last_end[task->stage], "two tasks of a stage overlap");
    b->last_end[task->stage] = end;
}

/* Everything at once, under the rule's checker: groups, shared positions, units, overheads. */
START_TEST(checked_runs_of_mixed_pipelines)
{
    static struct bench b;
    open_bench(&b, 14, 5, 3, 2);
    for (int p = 0; p < 14; p += 13) { /* a stem and a head */
        b.kind[p] = _i % 3 ? NP_SHARED_DELAY : NP_SHARED_FROZEN;
        for (int q = p + 1; q <= 14; q++)
            b.layer_first[q] -= 4;
    }
    for (uint32_t layer = 0; layer < b.layer_first[14]; layer++) {
        b.cost[layer].f = (float)draw(0, 0, (int)layer, 5);
        b.weightless[layer] = draw(1, 0, (int)layer, 6) == 0;
    }
    b.steps = 60;
    b.config.sched.members = 1 + _i % 4;
    b.config.sched.unit = 1 + _i % 3;
    b.config.sched.delay = 1 + _i % 2;
    b.config.sched.lookahead = _i % 5;
    b.config.overhead = 0.25 * (_i % 2);
    b.config.transfer = 0.75 * (_i % 3);
    b.config.check = true;
    b.config.on_task = note_order;
    ck_assert_uint_eq(run(&b, NP_SIM_CSP).steps, 60);
    memset(b.last_end, 0, sizeof b.last_end);
    ck_assert_uint_eq(run(&b, NP_SIM_1F1B).steps, 60);
}
END_TEST

START_TEST(naspipe_refuses_groups)
{
    static struct bench b;
    struct np_sim_report report;
    struct np_error err;
    open_bench(&b, 8, 4, 2, 1);
    b.config.sched.members = 2;
    b.config.schedule = NP_SIM_NASPIPE;
    ck_assert_int_eq(np_sim_run(&report, &b.config, &err), NP_EINPUT);
}
END_TEST

/* What is known is no matter for the order, only for who asks what comes next. */
START_TEST(lookahead_changes_nothing)
{
    static struct bench b;
    double makespan;
    open_bench(&b, 48, 24, 8, 2);
    makespan = run(&b, NP_SIM_CSP).makespan;
    b.config.sched.lookahead = 20;
    ck_near(run(&b, NP_SIM_CSP).makespan, makespan);
}
END_TEST

/* A fingerprint of which task runs when. */
static void note_task(void *context, const struct np_task *task, double start, double end)
{
    struct bench *b = context;
    uint64_t what = task->step << 40 | (uint64_t)task->first << 24 | (uint64_t)task->micro << 16 |
                    (uint64_t)task->stage << 8 | (uint64_t)task->kind;
    b->order = (b->order ^ what ^ (uint64_t)(4 * start)) * 0x9e3779b97f4a7c15u;
    b->order ^= b->order >> 31;
    (void)end;
}

START_TEST(wide_flight_windows_change_nothing)
{
    static struct bench b;
    uint64_t order;
    open_bench(&b, 48, 24, 8, 1 + _i);
    b.config.on_task = note_task;
    run(&b, NP_SIM_CSP);
    order = b.order;
    b.order = 0;
    b.config.sched.in_flight = b.in_flight;
    for (int k = 0; k < 8; k++)
        b.in_flight[k] = b.config.sched.window * (1 + _i);
    run(&b, NP_SIM_CSP);
    ck_assert_uint_eq(b.order, order);
}
END_TEST

/* One flight at a time overlaps its own W alone (a third of the time); as many as the stages behind
 * need cost little. */
START_TEST(narrow_flight_windows_cost_time_only)
{
    static struct bench b;
    double free_run;
    open_bench(&b, 48, 96, 8, 8);
    b.config.check = true;
    free_run = run(&b, NP_SIM_CSP).speedup;
    b.config.sched.in_flight = b.in_flight;
    for (int k = 0; k < 8; k++)
        b.in_flight[k] = 1;
    ck_assert_double_le(run(&b, NP_SIM_CSP).speedup, 1.5);
    for (int k = 0; k < 8; k++)
        b.in_flight[k] = 2 * (8 - k) + 2;
    ck_assert_double_ge(run(&b, NP_SIM_CSP).speedup, 0.95 * free_run);
}
END_TEST

/* Floors a little below what was measured; the bound of naspipe is from both sides. */
START_TEST(drawn_spaces_reach_their_figures)
{
    static struct bench b;
    open_bench(&b, 48, 96, 8, 1);
    ck_assert_double_ge(run(&b, NP_SIM_CSP).speedup, 4.75);
    ck_assert_double_ge(run(&b, NP_SIM_NASPIPE).speedup, 2.9);
    ck_assert_double_le(run(&b, NP_SIM_NASPIPE).speedup, 3.2);
    open_bench(&b, 48, 96, 8, 8);
    ck_assert_double_ge(run(&b, NP_SIM_CSP).speedup, 7.97);
    ck_near(run(&b, NP_SIM_GPIPE).speedup, 64 / 15.0);
    open_bench(&b, 48, 72, 16, 8);
    ck_assert_double_ge(run(&b, NP_SIM_CSP).speedup, 15.5);
    open_bench(&b, 48, 24, 8, 8);
    ck_assert_double_ge(run(&b, NP_SIM_CSP).speedup, 7.7);
}
END_TEST

/* A fair group has no conflicts inside it. */
START_TEST(fair_groups_fill_the_pipeline)
{
    static struct bench b;
    open_bench(&b, 48, 12, 8, 1);
    b.fair = true;
    b.steps = 60;
    b.config.sched.members = 12;
    b.config.check = true;
    ck_assert_double_ge(run(&b, NP_SIM_CSP).speedup, 7.0);
}
END_TEST

static FILE *open_published(void)
{
    const char *folder = getenv("NP_TEST_DATA");
    char path[4096];
    FILE *file;
    snprintf(path, sizeof path, "%s/published-112x24.subnets", folder ? folder : "../shared/data");
    file = fopen(path, "r");
    if (file && fscanf(file, "#%*[^\n]") == EOF) {
        fclose(file);
        return NULL;
    }
    return file;
}

START_TEST(published_stream_reaches_its_figures)
{
    static const struct {
        enum np_sim_schedule schedule;
        int micro_batches;
        double least, most;
    } figures[] = {{NP_SIM_NASPIPE, 1, 1.155, 1.165}, {NP_SIM_GPIPE, 8, 4.266, 4.267},
                   {NP_SIM_CSP, 1, 1.82, 1.84},       {NP_SIM_CSP, 4, 4.95, 8},
                   {NP_SIM_CSP, 8, 7.0, 8},           {NP_SIM_CSP, 16, 7.9, 8}};
    static struct bench b;
    double speedup;
    open_bench(&b, 112, 24, 8, figures[_i].micro_batches);
    b.stream = open_published();
    if (!b.stream) {
        fprintf(stderr, "test_sim: SKIPPED: no published-112x24.subnets in $NP_TEST_DATA\n");
        return;
    }
    b.steps = figures[_i].schedule == NP_SIM_CSP ? 600 : 2500;
    speedup = run(&b, figures[_i].schedule).speedup;
    fclose(b.stream);
    ck_assert_uint_eq(b.at, b.steps);
    ck_assert_double_ge(speedup, figures[_i].least);
    ck_assert_double_le(speedup, figures[_i].most);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim");
    TCase *tests = suite_case(suite, "schedules");
    tcase_add_loop_test(tests, draining_schedules_match_their_closed_form, 0, 16);
    tcase_add_loop_test(tests, one_stage_gains_nothing, 0, 2);
    tcase_add_loop_test(tests, checked_runs_of_mixed_pipelines, 0, 12);
    tcase_add_test(tests, naspipe_refuses_groups);
    tcase_add_test(tests, lookahead_changes_nothing);
    tcase_add_loop_test(tests, wide_flight_windows_change_nothing, 0, 3);
    tcase_add_test(tests, narrow_flight_windows_cost_time_only);
    tcase_add_test(tests, drawn_spaces_reach_their_figures);
    tcase_add_test(tests, fair_groups_fill_the_pipeline);
    tcase_add_loop_test(tests, published_stream_reaches_its_figures, 0, 6);
    return suite_run(suite);
}
