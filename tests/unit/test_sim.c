/* The simulator against closed forms and the published figures. */
#include <check.h>
#include <math.h>
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
    struct np_sim_memory memory;
    uint64_t bytes[MOST_LAYERS], room[MOST_STAGES], held[MOST_STAGES], most[MOST_STAGES];
    struct np_sim_stage sums[MOST_STAGES];
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
    if (b->stream && b->at == 0 && fscanf(b->stream, "#%*[^\n]") == EOF)
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
    if (b->stream)
        rewind(b->stream);
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

static void note_order(void *context, const struct np_span *span)
{
    struct bench *b = context;
    ck_assert_msg(span->start >= b->last_end[span->task.device], "two tasks of a device overlap");
    b->last_end[span->task.device] = span->end;
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

/* As many devices in replicas of shorter pipelines, under the rule's checker: layers that never
 * conflict keep all of them busy. */
START_TEST(replicas_keep_the_rule_and_the_pace)
{
    static struct bench b;
    int replicas = 2 << _i % 3;
    open_bench(&b, 48, 96, 8 / replicas, 16);
    b.steps = 60;
    b.config.sched.replicas = replicas;
    b.config.sched.unit = 1 + _i / 3;
    b.config.transfer = 0.5 * (_i / 3);
    b.config.check = true;
    b.config.on_task = note_order;
    struct np_sim_report report = run(&b, NP_SIM_CSP);
    ck_assert_uint_eq(report.steps, 60);
    ck_near(report.sequential, 60.0 * 48 * 16 * 3);
    ck_assert_double_ge(report.speedup, 7.6);
    ck_near(report.bubble, 1 - report.speedup / 8);
}
END_TEST

START_TEST(only_csp_has_replicas)
{
    static struct bench b;
    struct np_sim_report report;
    struct np_error err;
    open_bench(&b, 8, 4, 2, 2);
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

/* Candidates that cost from 1/4 to 4, as their logarithms are spread evenly. */
static void draw_costs(struct bench *b)
{
    for (uint32_t layer = 0; layer < b->layer_first[b->config.sched.positions]; layer++) {
        float cost = exp2f((float)draw(9, 0, (int)layer, 1 << 16) / (1 << 14) - 2);
        b->cost[layer] = (struct np_layer_cost){cost, cost, cost};
    }
}

/* A layer that changes stages wakes who waits for it there; what else a cut could do wrong, the
 * rule says. */
START_TEST(balanced_cuts_keep_the_rule_and_pay)
{
    static struct bench b;
    double home;
    open_bench(&b, 24, 6, 4 + 2 * (_i % 2), 8);
    draw_costs(&b);
    b.config.sched.unit = 1 + _i / 2 % 2;
    b.config.transfer = 0.5 * (_i % 3);
    b.config.check = true;
    b.config.on_task = note_order;
    home = run(&b, NP_SIM_CSP).speedup;
    for (int reach = 2; reach <= 8; reach *= 2) {
        memset(b.last_end, 0, sizeof b.last_end);
        b.config.sched.reach = reach;
        ck_assert_double_ge(run(&b, NP_SIM_CSP).speedup, 1.05 * home);
    }
}
END_TEST

/* Where all candidates of all blocks cost the same there is nothing to balance. */
START_TEST(equal_costs_stay_at_home)
{
    static struct bench b;
    uint64_t order;
    open_bench(&b, 48, 24, 8, 4);
    b.config.on_task = note_task;
    run(&b, NP_SIM_CSP);
    order = b.order;
    b.order = 0;
    b.config.sched.reach = 3;
    run(&b, NP_SIM_CSP);
    ck_assert_uint_eq(b.order, order);
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

/* Every layer takes a byte, and a stage has room for `subnets` of its part of a subnet. */
static void give_memory(struct bench *b, int subnets, double copy_time)
{
    const struct np_sched_config *c = &b->config.sched;
    for (uint32_t l = 0; l < b->layer_first[c->positions]; l++)
        b->bytes[l] = 1;
    for (int k = 0; k < c->stages; k++)
        b->room[k] = (uint64_t)(subnets * (c->stage_first[k + 1] - c->stage_first[k]));
    b->memory = (struct np_sim_memory){b->bytes, b->room, NP_CONTEXT_AHEAD, {.latency = copy_time}};
    b->config.memory = &b->memory;
    b->config.stages = b->sums;
}

static double hit_rate(const struct bench *b)
{
    double hits = 0, visits = 0;
    for (int k = 0; k < b->config.sched.stages; k++) {
        const struct np_context_sums *s = &b->sums[k].sums;
        hits += (double)s->hits;
        visits += (double)(s->hits + s->late + s->misses);
    }
    return hits / visits;
}

START_TEST(memory_for_everything_changes_nothing)
{
    static struct bench b;
    static const enum np_context_policy policies[] = {NP_CONTEXT_AHEAD, NP_CONTEXT_DEMAND,
                                                      NP_CONTEXT_LRU};
    struct np_sim_report all, report;
    open_bench(&b, 24, 8, 1 + _i, 1 + _i % 3);
    b.config.sched.unit = 1 + _i % 2;
    b.config.sched.lookahead = 3 * _i;
    b.config.overhead = 0.25;
    b.config.transfer = 0.5;
    all = run(&b, NP_SIM_CSP);
    give_memory(&b, 8, 100);
    for (int i = 0; i < 3; i++) {
        b.memory.policy = policies[i];
        report = run(&b, NP_SIM_CSP);
        ck_assert(report.makespan == all.makespan && report.busy == all.busy);
        for (int k = 0; k < b.config.sched.stages; k++) {
            ck_assert_uint_eq(b.sums[k].sums.bytes_in + b.sums[k].sums.bytes_out, 0);
            ck_assert(b.sums[k].copy == 0 && b.sums[k].stall == 0);
        }
    }
}
END_TEST

/* One stage, one block of two candidates, room for one: the alternating stream pays a write and a
 * fetch at every change, and the copies of the first visit are the making. */
START_TEST(copies_take_their_time)
{
    static struct bench b;
    struct np_sim_report report;
    open_bench(&b, 1, 2, 1, 1);
    b.steps = 5;
    b.stream = tmpfile();
    ck_assert_ptr_nonnull(b.stream);
    fputs("0 1 0 1 0", b.stream);
    rewind(b.stream);
    give_memory(&b, 1, 10);
    b.memory.speed.read_per_byte = 2;
    b.memory.speed.write_per_byte = 3;
    report = run(&b, NP_SIM_CSP);
    fclose(b.stream);
    /* 0 and 1 are made, then three times one is written (13) and the other fetched (12); the first
     * change only writes. */
    ck_near(report.makespan, 5 * 3 + 13 + 3 * 25);
    ck_near(b.sums[0].copy, 4 * 13 + 3 * 12);
    ck_near(b.sums[0].stall, 13 + 3 * 25);
    ck_near(report.sequential, 15);
    ck_assert_uint_eq(b.sums[0].sums.made, 2);
    ck_assert_uint_eq(b.sums[0].sums.bytes_in, 3);
    ck_assert_uint_eq(b.sums[0].sums.bytes_out, 4);
    ck_assert_uint_eq(b.sums[0].sums.peak_bytes, 1);
}
END_TEST

/* What copies take of a processor lengthens what is computed beside them, and nothing else; several
 * stages seldom compute all at once here. */
START_TEST(copies_take_processors)
{
    static struct bench b;
    struct np_sim_report alone, beside;
    double copied = 0;
    open_bench(&b, 24, 8, _i, 2);
    b.steps = 100;
    b.config.sched.lookahead = 32;
    give_memory(&b, 2, 0);
    b.memory.speed = (struct np_copy_speed){
        .read_per_byte = 0.01, .write_per_byte = 0.01, .both_per_byte = 0.01};
    alone = run(&b, NP_SIM_CSP);
    b.memory.speed.busy_per_byte = 0.25;
    beside = run(&b, NP_SIM_CSP);
    for (int k = 0; k < _i; k++)
        copied += (double)(b.sums[k].sums.bytes_in + b.sums[k].sums.bytes_out);
    ck_assert_double_gt(copied, 100);
    ck_assert_double_gt(beside.busy, alone.busy + (_i == 1 ? 0.1 : 0.01) * copied);
    ck_assert_double_le(beside.busy, alone.busy + 0.25 * copied + 1e-6);
    ck_assert_double_gt(beside.makespan, alone.makespan);
}
END_TEST

/* What copies bring less what they take: at least that is held when a copy starts. */
static void note_copy(void *context, const struct np_copy_span *span)
{
    struct bench *b = context;
    ck_assert(span->end >= span->start);
    if (span->copy.kind == NP_COPY_MAKE || span->copy.kind == NP_COPY_FETCH)
        b->held[span->stage] += span->bytes;
    if (b->held[span->stage] > b->most[span->stage])
        b->most[span->stage] = b->held[span->stage];
    if (span->copy.kind == NP_COPY_DROP || span->copy.kind == NP_COPY_WRITE)
        b->held[span->stage] -= span->bytes;
}

/* Any memory gives the same order of versions (checked), and is never exceeded; less of it never
 * copies less. */
START_TEST(memory_is_never_exceeded)
{
    static struct bench b;
    uint64_t copied = 0;
    open_bench(&b, 24, 8, 1 + 3 * (_i % 2), 1 + _i / 2);
    b.steps = 100;
    b.config.check = true;
    b.config.sched.lookahead = 32;
    b.config.on_task = note_order;
    b.config.on_copy = note_copy;
    for (int subnets = 8; subnets > 0; subnets /= 2) {
        uint64_t now = 0;
        memset(b.last_end, 0, sizeof b.last_end);
        memset(b.held, 0, sizeof b.held);
        memset(b.most, 0, sizeof b.most);
        give_memory(&b, subnets, 0.5);
        ck_assert_uint_eq(run(&b, NP_SIM_CSP).steps, 100);
        for (int k = 0; k < b.config.sched.stages; k++) {
            ck_assert_uint_le(b.sums[k].sums.peak_bytes, b.room[k]);
            ck_assert_uint_le(b.most[k], b.sums[k].sums.peak_bytes);
            now += b.sums[k].sums.bytes_out;
        }
        ck_assert_uint_ge(now, copied);
        copied = now;
    }
    ck_assert_uint_gt(copied, 0);
}
END_TEST

static FILE *open_published(void)
{
    const char *folder = getenv("NP_TEST_DATA");
    char path[4096];
    FILE *file;
    snprintf(path, sizeof path, "%s/published-112x24.subnets", folder ? folder : "../shared/data");
    file = fopen(path, "r");
    return file;
}

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
    open_bench(&b, 112, 24, stages, figures[_i].micro_batches);
    b.config.sched.replicas = figures[_i].replicas;
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

/* schedule.md, 10: with room for a window of subnets, fetching ahead costs next to nothing, on
 * demand a lot; and at 96 steps of look-ahead 98 % of the visits find their layer. */
START_TEST(published_stream_with_context_switching)
{
    static struct bench b;
    double free_run, ahead, demand, rate;
    open_bench(&b, 112, 24, 8, 8);
    b.stream = open_published();
    if (!b.stream) {
        fprintf(stderr, "test_sim: SKIPPED: no published-112x24.subnets in $NP_TEST_DATA\n");
        return;
    }
    b.config.sched.lookahead = 96;
    b.steps = 300;
    free_run = run(&b, NP_SIM_CSP).makespan;
    give_memory(&b, 4, 1);
    ahead = run(&b, NP_SIM_CSP).makespan;
    rate = hit_rate(&b);
    b.memory.policy = NP_CONTEXT_DEMAND;
    demand = run(&b, NP_SIM_CSP).makespan;
    fclose(b.stream);
    ck_assert_double_ge(rate, 0.98);
    ck_assert_double_le(ahead, 1.01 * free_run);
    ck_assert_double_ge(demand, 1.2 * free_run);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim");
    TCase *tests = suite_case(suite, "schedules");
    tcase_add_loop_test(tests, draining_schedules_match_their_closed_form, 0, 16);
    tcase_add_loop_test(tests, one_stage_gains_nothing, 0, 2);
    tcase_add_loop_test(tests, checked_runs_of_mixed_pipelines, 0, 12);
    tcase_add_loop_test(tests, replicas_keep_the_rule_and_the_pace, 0, 6);
    tcase_add_test(tests, only_csp_has_replicas);
    tcase_add_test(tests, naspipe_refuses_groups);
    tcase_add_test(tests, lookahead_changes_nothing);
    tcase_add_loop_test(tests, wide_flight_windows_change_nothing, 0, 3);
    tcase_add_test(tests, narrow_flight_windows_cost_time_only);
    tcase_add_test(tests, drawn_spaces_reach_their_figures);
    tcase_add_loop_test(tests, balanced_cuts_keep_the_rule_and_pay, 0, 6);
    tcase_add_test(tests, equal_costs_stay_at_home);
    tcase_add_test(tests, fair_groups_fill_the_pipeline);
    tcase_add_loop_test(tests, published_stream_reaches_its_figures, 0, 9);
    tcase_add_loop_test(tests, memory_for_everything_changes_nothing, 0, 6);
    tcase_add_test(tests, copies_take_their_time);
    tcase_add_loop_test(tests, copies_take_processors, 1, 3);
    tcase_add_loop_test(tests, memory_is_never_exceeded, 0, 4);
    tcase_add_test(tests, published_stream_with_context_switching);
    return suite_run(suite);
}
