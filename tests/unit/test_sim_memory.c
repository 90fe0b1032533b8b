/* The simulator where stages hold less than all layers. */
#include <check.h>
#include <string.h>

#include "sim_bench.h"
#include "suite.h"

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
    bench_open(&b, 24, 8, 1 + _i, 1 + _i % 3);
    b.config.sched.unit = 1 + _i % 2;
    b.config.sched.lookahead = 3 * _i;
    b.config.overhead = 0.25;
    b.config.transfer = 0.5;
    all = bench_run(&b, NP_SIM_CSP);
    give_memory(&b, 8, 100);
    for (int i = 0; i < 3; i++) {
        b.memory.policy = policies[i];
        report = bench_run(&b, NP_SIM_CSP);
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
    bench_open(&b, 1, 2, 1, 1);
    b.steps = 5;
    b.stream = tmpfile();
    ck_assert_ptr_nonnull(b.stream);
    fputs("0 1 0 1 0", b.stream);
    rewind(b.stream);
    give_memory(&b, 1, 10);
    b.memory.speed.read_per_byte = 2;
    b.memory.speed.write_per_byte = 3;
    report = bench_run(&b, NP_SIM_CSP);
    fclose(b.stream);
    /* 0 and 1 are made, then three times one is written (13) and the other fetched (12); the first
     * change only writes. */
    bench_near(report.makespan, 5 * 3 + 13 + 3 * 25);
    bench_near(b.sums[0].copy, 4 * 13 + 3 * 12);
    bench_near(b.sums[0].stall, 13 + 3 * 25);
    bench_near(report.sequential, 15);
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
    bench_open(&b, 24, 8, _i, 2);
    b.steps = 100;
    b.config.sched.lookahead = 32;
    give_memory(&b, 2, 0);
    b.memory.speed = (struct np_copy_speed){
        .read_per_byte = 0.01, .write_per_byte = 0.01, .both_per_byte = 0.01};
    alone = bench_run(&b, NP_SIM_CSP);
    b.memory.speed.busy_per_byte = 0.25;
    beside = bench_run(&b, NP_SIM_CSP);
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
    bench_open(&b, 24, 8, 1 + 3 * (_i % 2), 1 + _i / 2);
    b.steps = 100;
    b.config.check = true;
    b.config.sched.lookahead = 32;
    b.config.on_task = bench_note_order;
    b.config.on_copy = note_copy;
    for (int subnets = 8; subnets > 0; subnets /= 2) {
        uint64_t now = 0;
        memset(b.last_end, 0, sizeof b.last_end);
        memset(b.held, 0, sizeof b.held);
        memset(b.most, 0, sizeof b.most);
        give_memory(&b, subnets, 0.5);
        ck_assert_uint_eq(bench_run(&b, NP_SIM_CSP).steps, 100);
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

/* With room for a window of subnets, fetching ahead costs next to nothing, on
 * demand a lot; and at 96 steps of look-ahead 98 % of the visits find their layer. */
START_TEST(published_stream_with_context_switching)
{
    static struct bench b;
    double free_run, ahead, demand, rate;
    bench_open(&b, 112, 24, 8, 8);
    b.stream = bench_published();
    if (!b.stream)
        return;
    b.config.sched.lookahead = 96;
    b.steps = 300;
    free_run = bench_run(&b, NP_SIM_CSP).makespan;
    give_memory(&b, 4, 1);
    ahead = bench_run(&b, NP_SIM_CSP).makespan;
    rate = hit_rate(&b);
    b.memory.policy = NP_CONTEXT_DEMAND;
    demand = bench_run(&b, NP_SIM_CSP).makespan;
    fclose(b.stream);
    ck_assert_double_ge(rate, 0.98);
    ck_assert_double_le(ahead, 1.01 * free_run);
    ck_assert_double_ge(demand, 1.2 * free_run);
}
END_TEST

/* Where the backward passes and the copies off the device of the test below begin. */
struct beginnings {
    struct bench bench;
    double backward[64], leaving[64];
    int backwards, leavings;
};

static void note_backward(void *beginnings, const struct np_span *span)
{
    struct beginnings *b = beginnings;
    if (span->task.kind == NP_TASK_B)
        b->backward[b->backwards++] = span->start;
}

static void note_leaving(void *beginnings, const struct np_copy_span *span)
{
    struct beginnings *b = beginnings;
    if (span->copy.kind == NP_COPY_WRITE)
        b->leaving[b->leavings++] = span->start;
}

/* One block, every step another candidate, room for three: the backward pass of a step is the first
 * task after which the layer of the step after the next may come, and makes room for it. Threads
 * copy, and find that the pass has begun, not that the one before it has ended. */
START_TEST(copiers_begin_after_the_next_task)
{
    static struct beginnings b;
    int found = 0;
    bench_open(&b.bench, 1, 6, 1, 1);
    b.bench.steps = 40;
    b.bench.stream = tmpfile();
    ck_assert_ptr_nonnull(b.bench.stream);
    for (int step = 0; step < 40; step++)
        fprintf(b.bench.stream, "%d\n", step % 6);
    b.bench.config.sched.lookahead = 8;
    b.bench.config.on_task = note_backward;
    b.bench.config.on_copy = note_leaving;
    give_memory(&b.bench, 3, 0.25);
    bench_run(&b.bench, NP_SIM_CSP);
    fclose(b.bench.stream);
    for (int i = 0; i < b.leavings; i++)
        for (int k = 0; k < b.backwards; k++)
            found += b.leaving[i] == b.backward[k];
    ck_assert_int_ge(b.leavings, 30);
    ck_assert_int_eq(found, b.leavings);
}
END_TEST

/* A stage that does nothing but wait for its copies has more than one of them under way. */
START_TEST(copiers_work_side_by_side)
{
    static struct bench b;
    struct np_sim_report report;
    bench_open(&b, 24, 8, 1, 1);
    b.steps = 100;
    b.config.sched.lookahead = 32;
    give_memory(&b, 2, 1000);
    report = bench_run(&b, NP_SIM_CSP);
    ck_assert_double_gt(b.sums[0].copy, 1.5 * report.makespan);
    ck_assert_double_le(b.sums[0].copy, NP_COPIERS * report.makespan);
}
END_TEST

enum { BLOCKS = 5 };

/* The copies that may begin now are over at once; how many layers came. */
static int bring(struct np_context *context)
{
    struct np_copy copy;
    int count = 0;
    while (np_context_next(context, &copy)) {
        ck_assert_int_eq(copy.kind, NP_COPY_MAKE);
        np_context_copied(context, &copy);
        count++;
    }
    return count;
}

/* With room for everything: the first pass and two visits of the second, which wants the same; two
 * of the next step's layers before the second begins, and one more with each of its visits. */
START_TEST(fetched_a_pass_and_two_visits_ahead)
{
    static struct bench b;
    struct np_contexts *contexts;
    struct np_context *c;
    uint16_t choices[2][BLOCKS] = {{0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}};
    bench_open(&b, BLOCKS, 2, 1, 1);
    give_memory(&b, 2, 0);
    struct np_contexts_config config = {.sched = b.config.sched, .bytes = b.bytes, .room = b.room};
    config.sched.window = 1;
    config.sched.lookahead = 2;
    ck_assert_int_eq(np_contexts_new(&contexts, &config, NULL), NP_OK);
    c = np_contexts_all(contexts)[0];
    for (int s = 0; s < 2; s++)
        ck_assert_int_eq(np_contexts_push(contexts, choices[s], (uint64_t)s, s == 1, NULL), NP_OK);
    ck_assert_int_eq(bring(c), BLOCKS);
    for (int visit = 0; visit < 2 * BLOCKS; visit++) {
        bool forward = visit < BLOCKS;
        uint32_t layer = 2 * (uint32_t)(forward ? visit : 2 * BLOCKS - 1 - visit);
        ck_assert(
            np_context_enter(c, layer, 0, forward ? NP_CONTEXT_FORWARD : NP_CONTEXT_BACKWARD));
        ck_assert_int_eq(bring(c), visit >= BLOCKS - 2 && visit < 2 * BLOCKS - 2);
        np_context_leave(c, layer, !forward);
        ck_assert_int_eq(bring(c), 0);
    }
    np_contexts_free(contexts);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim_memory");
    TCase *tests = suite_case(suite, "memory");
    tcase_add_loop_test(tests, memory_for_everything_changes_nothing, 0, 6);
    tcase_add_test(tests, copies_take_their_time);
    tcase_add_loop_test(tests, copies_take_processors, 1, 3);
    tcase_add_loop_test(tests, memory_is_never_exceeded, 0, 4);
    tcase_add_test(tests, copiers_begin_after_the_next_task);
    tcase_add_test(tests, copiers_work_side_by_side);
    tcase_add_test(tests, fetched_a_pass_and_two_visits_ahead);
    tcase_add_test(tests, published_stream_with_context_switching);
    return suite_run(suite);
}
