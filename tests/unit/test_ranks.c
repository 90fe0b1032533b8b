/* Ranks as devices: the bits of one process, whatever the stages, memories and delays. Between
 * threads, so that the sanitizers see all ranks at once; processes are tests/cli/mpi.bats'. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "exec/train.h"
#include "mpi/calls.h"
#include "mpi/desk.h"
#include "mpi/mpi_device.h"
#include "mpi/pulse.h"
#include "plan/profile_link.h"
#include "suite.h"
#include "team_run.h"
#include "thread_wire.h"
#include "tiny.h"

enum { MOST_RANKS = 4, DEADLINE_S = 60 };

/* The ranks but the first: a thread each. */
struct job {
    int count;
    struct np_ranks *ranks;
    struct np_device devices[MOST_RANKS];
    struct np_link *link;
    struct np_wire *wire; /* of the first */
    pthread_t others[MOST_RANKS];
};

static void *other_main(void *wire)
{
    struct np_ranks *ranks;
    struct np_error err;
    tiny_must(np_ranks_of(&ranks, wire, DEADLINE_S, &err), &err);
    tiny_must(np_ranks_serve(ranks, &np_device_host, np_kernels_get(tiny_best_isa()), &err), &err);
    np_ranks_close(ranks);
    return NULL;
}

static void open_job(struct job *job, int count)
{
    struct np_wire *wires[MOST_RANKS];
    struct np_error err;
    *job = (struct job){.count = count};
    thread_wires(wires, count);
    job->wire = wires[0];
    for (int i = 1; i < count; i++)
        ck_assert_int_eq(pthread_create(&job->others[i], NULL, other_main, wires[i]), 0);
    tiny_must(np_ranks_of(&job->ranks, wires[0], DEADLINE_S, &err), &err);
    ck_assert_int_eq(np_ranks_count(job->ranks), count);
    tiny_must(np_ranks_devices(job->ranks, job->devices, &np_device_host,
                               np_kernels_get(tiny_best_isa()), &err),
              &err);
    tiny_must(np_ranks_link(&job->link, job->ranks, &err), &err);
}

static void close_job(struct job *job)
{
    np_link_free(job->link);
    np_ranks_close(job->ranks);
    for (int i = 1; i < job->count; i++)
        ck_assert_int_eq(pthread_join(job->others[i], NULL), 0);
}

static struct np_train_config config_of(struct tiny *t, struct tiny_outcome *o,
                                        const struct np_plan *plan, const struct job *job)
{
    return (struct np_train_config){.net = &t->net,
                                    .data = t->data,
                                    .kernels = job->devices->ops->kernels(job->devices),
                                    .devices = job->devices,
                                    .device_count = job->count,
                                    .link = job->link,
                                    .plan = plan,
                                    .hooks = {.context = o, .step = tiny_on_step}};
}

static void train_alone(struct tiny *t, struct tiny_outcome *o)
{
    const struct np_plan plan = {.stages = 1, .threads = 1};
    const struct np_train_config config = {.net = &t->net,
                                           .data = t->data,
                                           .kernels = np_kernels_get(tiny_best_isa()),
                                           .plan = &plan,
                                           .hooks = {.context = o, .step = tiny_on_step}};
    struct np_stream *stream = tiny_stream(t, 0);
    uint64_t next;
    tiny_must(np_state_new(&o->state, &t->net, &t->err), &t->err);
    tiny_must(np_train_sequential(&config, o->state, stream, 0, TINY_STEPS, &next, &t->err),
              &t->err);
    np_stream_close(stream);
    np_state_free(o->state);
}

static void train_on_ranks(struct tiny *t, struct tiny_outcome *o, int count,
                           const struct tiny_shape *shape)
{
    struct np_plan plan;
    struct job job;
    struct np_engine *engine;
    struct np_stream *stream = tiny_stream(t, 0);
    uint64_t next;
    open_job(&job, count);
    tiny_plan(t, &plan, shape);
    plan.memories = count;
    struct np_train_config config = config_of(t, o, &plan, &job);
    config.delay_seed = shape->delay_seed;
    tiny_must(np_state_new(&o->state, &t->net, &t->err), &t->err);
    tiny_must(np_train_place(&config, o->state, &t->err), &t->err);
    tiny_must(np_engine_new(&engine, &config, o->state, &t->err), &t->err);
    tiny_must(np_engine_train(engine, stream, 0, TINY_STEPS, &next, &t->err), &t->err);
    ck_assert_uint_eq(next, TINY_STEPS);
    np_engine_free(engine);
    np_state_free(o->state);
    np_stream_close(stream);
    np_plan_clear(&plan);
    tiny_must(np_ranks_still_there(job.ranks, &t->err), &t->err);
    close_job(&job);
}

START_TEST(bits_of_one_process)
{
    static const struct {
        int ranks;
        struct tiny_shape shape;
    } runs[] = {{1, {2, 2, 2, 2, 1, NP_ISA_SCALAR, 0, 0, 0, 0, false}},
                {2, {2, 2, 3, 1, 1, NP_ISA_SCALAR, 0, 0, 0, 0, false}},
                {3, {3, 4, 4, 2, 2, NP_ISA_SCALAR, 7, -1, 2, 0, false}},
                {4, {4, 2, 3, 1, 1, NP_ISA_SCALAR, 0, 1, 0, 0, false}},
                {2, {2, 2, 3, 1, 1, NP_ISA_SCALAR, 9, 0, 0, 2, false}},
                {4, {2, 4, 2, 1, 2, NP_ISA_SCALAR, 0, 2, 0, 2, true}},
                {2, {2, 1, 3, 1, 1, NP_ISA_SCALAR, 10, 0, 0, 2, false}}};
    struct tiny t;
    if (!tiny_is_tried(_i))
        return;
    tiny_open(&t, (enum tiny_kind)_i, NULL, 0);
    struct tiny_outcome alone = {.steps = 0};
    train_alone(&t, &alone);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct tiny_outcome o = {.steps = 0};
        struct tiny_shape shape = runs[i].shape;
        if (t.net.whole_batch)
            shape.micro_batches = 1;
        if (!tiny_may_share(&t, &shape) || (!tests_are_full() && (i + (size_t)_i) % 3 != 0))
            continue;
        train_on_ranks(&t, &o, runs[i].ranks, &shape);
        ck_assert_mem_eq(alone.fingerprints, o.fingerprints, sizeof o.fingerprints);
        ck_assert_mem_eq(alone.losses, o.losses, sizeof o.losses);
    }
    tiny_close(&t);
}
END_TEST

/* A rank's memory is written and read from rank 0; what it has no room for is told by its name. */
START_TEST(memory_of_ranks)
{
    const float values[5] = {1, 2, 3, 4, 5};
    float back[5] = {0};
    struct np_error err;
    struct job job;
    open_job(&job, 3);
    for (int i = 0; i < 3; i++) {
        const struct np_device *device = &job.devices[i];
        float *block;
        tiny_must(np_device_alloc(device, &block, sizeof values, &err), &err);
        tiny_must(np_device_copy(device, block, values, sizeof values, &err), &err);
        memset(back, 0, sizeof back);
        tiny_must(np_device_copy(device, back, block, sizeof values, &err), &err);
        ck_assert_mem_eq(back, values, sizeof values);
        np_device_release(device, block);
    }
    void *none;
    ck_assert_int_eq(np_device_alloc(&job.devices[2], &none, UINT64_MAX, &err), NP_EMEM);
    ck_assert_ptr_nonnull(strstr(err.msg, "rank 2: "));
    close_job(&job);
}
END_TEST

/* What there is no memory for, as of more than an order holds, ends the job, and nobody waits for
 * what it would have done: neither who awaits the task, nor who awaits what another crew stamps. A
 * job that has failed releases nothing, which the address sanitizer would tell. */
START_TEST(orders_that_are_lost)
{
    const struct np_crew_config config = {.size = 1};
    struct np_stamp *stamp;
    struct np_crew *crews[2];
    struct np_error err;
    struct job job;
    char byte = 0;
    if (!tests_are_full())
        return;
    open_job(&job, 1);
    for (int i = 0; i < 2; i++)
        tiny_must(np_crew_new(&crews[i], job.devices, &config, &err), &err);
    tiny_must(np_stamp_new(&stamp, crews[0], &err), &err);
    np_crew_send(crews[0], &byte, &byte, (size_t)5 << 30);
    if (_i == 0) {
        ck_assert_int_eq(np_crew_finish(crews[0], &err), NP_EMEM);
        ck_assert_str_eq(err.msg, "out of memory for orders");
    } else {
        np_crew_stamp(crews[0], stamp);
        np_crew_after(crews[1], stamp);
        ck_assert_int_eq(_i == 1 ? np_stamp_await(crews[0], stamp, &err)
                                 : np_crew_finish(crews[1], &err),
                         NP_EMEM);
        ck_assert_ptr_nonnull(strstr(err.msg, "out of memory for orders"));
    }
    np_stamp_free(stamp, crews[0]);
    np_crew_free(crews[1]);
    np_crew_free(crews[0]);
    thread_wires_break(job.wire);
    close_job(&job);
}
END_TEST

/* A crew that only waits for others, as that of a first stage's carrier does, is told so in letters
 * and keeps no list of it. */
START_TEST(orders_of_who_only_waits)
{
    const struct np_crew_config config = {.size = 1};
    struct np_stamp *stamp;
    struct np_crew *crews[2];
    struct np_error err;
    struct job job;
    open_job(&job, 2);
    for (int i = 0; i < 2; i++)
        tiny_must(np_crew_new(&crews[i], &job.devices[1], &config, &err), &err);
    tiny_must(np_stamp_new(&stamp, crews[0], &err), &err);
    np_crew_stamp(crews[0], stamp);
    for (int i = 0; i < 10000; i++)
        np_crew_after(crews[1], stamp);
    tiny_must(np_crew_finish(crews[1], &err), &err);
    ck_assert_uint_gt(thread_wires_longest(job.wire), 16 << 10);
    ck_assert_uint_lt(thread_wires_longest(job.wire), 32 << 10);
    np_stamp_free(stamp, crews[0]);
    np_crew_free(crews[1]);
    np_crew_free(crews[0]);
    close_job(&job);
}
END_TEST

/* Figures that a clock may give: nothing is done in no time. */
START_TEST(pace_of_the_link)
{
    struct np_link_pace pace;
    struct np_error err;
    struct job job;
    open_job(&job, 3);
    tiny_must(np_profile_link(&pace, job.link, job.devices, 3, &err), &err);
    ck_assert_uint_gt(pace.task_ns, 100);
    ck_assert_uint_gt(pace.latency_ns, 1000);
    ck_assert_uint_gt(pace.bandwidth, 1000000);
    tiny_must(np_profile_link(&pace, job.link, job.devices, 1, &err), &err);
    ck_assert_uint_eq(pace.latency_ns, 0);
    close_job(&job);
}
END_TEST

static void *desk_main(void *post)
{
    struct np_error err;
    tiny_must(np_desk_serve(post, &np_device_host, np_kernels_get(NP_ISA_SCALAR), NULL, &err),
              &err);
    np_post_free(post);
    return NULL;
}

static enum np_status greet(struct np_post *post, const char *build, struct np_error *err)
{
    struct np_head head = {.a = NP_DESK_HELLO, .bytes = strlen(build)};
    char *body;
    ck_assert_int_eq(np_strdup(&body, build, err), NP_OK);
    return np_desk_ask(post, 1, head, body, NULL, err);
}

/* Ranks that are not of one build would take each other's calls for something else. */
START_TEST(another_build)
{
    char own[NP_CALL_BUILD_BYTES], longer[2 * NP_CALL_BUILD_BYTES];
    struct np_head close = {.a = NP_DESK_CLOSE};
    struct np_wire *wires[2];
    struct np_post *posts[2];
    struct np_error err;
    pthread_t desk;
    thread_wires(wires, 2);
    for (int i = 0; i < 2; i++)
        tiny_must(np_post_new(&posts[i], wires[i], 0, &err), &err);
    ck_assert_int_eq(pthread_create(&desk, NULL, desk_main, posts[1]), 0);
    np_call_build(own);
    ck_assert_msg(strlen(own) == strlen(NP_VERSION) + 1 + 12, "%s", own);
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    tiny_must(greet(posts[0], own, &err), &err);
    ck_assert_int_eq(greet(posts[0], "0.0.9-12345678", &err), NP_EINPUT);
    ck_assert_ptr_nonnull(strstr(err.msg, "rank 1: it runs naspipe "));
    ck_assert_ptr_nonnull(strstr(err.msg, ", rank 0 runs 0.0.9-12345678: "));
    ck_assert_int_eq(greet(posts[0], longer, &err), NP_EINPUT);
    tiny_must(np_post_send(posts[0], 1, &close, NULL, &err), &err);
    ck_assert_int_eq(pthread_join(desk, NULL), 0);
    np_post_free(posts[0]);
}
END_TEST

enum { SECOND = 1000000000 };

/* Time passes; how often the others are asked meanwhile. */
static int pass(struct np_pulse *pulse, int seconds, enum np_status expected)
{
    struct np_error err;
    int times = 0;
    enum np_status status = NP_OK;
    for (int i = 0; i < seconds && status == NP_OK; i++) {
        bool asks;
        status = np_pulse_pass(pulse, SECOND, &asks, &err);
        times += status == NP_OK && asks;
    }
    ck_assert_int_eq(status, expected);
    return times;
}

START_TEST(who_answers_is_there)
{
    struct np_pulse first, other;
    struct np_error err;
    bool asks;
    tiny_must(np_pulse_init(&first, 0, 3, (uint64_t)80 * SECOND, &err), &err);
    tiny_must(np_pulse_init(&other, 2, 3, (uint64_t)80 * SECOND, &err), &err);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(pass(&first, 10, NP_OK), 1);
        ck_assert_int_eq(pass(&other, 10, NP_OK), 0);
        np_pulse_heard(&other, 0);
        ck_assert(!np_pulse_is_calm(&first));
        np_pulse_heard(&first, 1);
        np_pulse_answered(&first, 1);
        if (i <= 13) /* the last that is heard of rank 2 */
            np_pulse_heard(&first, 2);
    }
    pass(&first, 19, NP_OK);
    ck_assert_int_eq(np_pulse_pass(&first, SECOND, &asks, &err), NP_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "rank 0 has heard nothing of rank 2 for 80 s"));
    pass(&other, 79, NP_OK);
    ck_assert_int_eq(np_pulse_pass(&other, SECOND, &asks, &err), NP_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "rank 2 has heard nothing of rank 0 for 80 s"));
    np_pulse_clear(&first);
    np_pulse_clear(&other);
}
END_TEST

/* Who is stopped himself cannot blame the others; and at rest only what is owed is waited for. */
START_TEST(who_is_minded)
{
    struct np_pulse first, other;
    struct np_error err;
    bool asks;
    tiny_must(np_pulse_init(&first, 0, 3, (uint64_t)80 * SECOND, &err), &err);
    tiny_must(np_pulse_pass(&first, (uint64_t)10000 * SECOND, &asks, &err), &err);
    ck_assert(asks);
    first.rests = true; /* and not asked a last time */
    np_pulse_answered(&first, 1);
    ck_assert(!np_pulse_is_calm(&first));
    ck_assert_int_eq(pass(&first, 100, NP_EIO), 0);
    np_pulse_answered(&first, 2);
    ck_assert(np_pulse_is_calm(&first));
    pass(&first, 1000, NP_OK);
    ck_assert(!np_pulse_ask_last(&first));
    np_pulse_clear(&first);
    tiny_must(np_pulse_init(&first, 0, 3, (uint64_t)80 * SECOND, &err), &err);
    ck_assert(np_pulse_ask_last(&first));
    ck_assert(!np_pulse_ask_last(&first));
    np_pulse_answered(&first, 1);
    ck_assert(!np_pulse_is_calm(&first));
    ck_assert_int_eq(pass(&first, 80, NP_EIO), 0);
    np_pulse_clear(&first);
    tiny_must(np_pulse_init(&other, 1, 2, 0, &err), &err);
    ck_assert(!np_pulse_ask_last(&other));
    ck_assert_int_eq(pass(&other, 1000, NP_OK), 0); /* there is no deadline */
    np_pulse_clear(&other);
}
END_TEST

/* Neither a rank that never answers nor rank 0 is waited for in vain, and not at the end. */
START_TEST(silent_ranks)
{
    struct np_letter *letter;
    struct np_wire *wires[3];
    struct np_post *post;
    struct np_error err;
    char expected[64];
    const int rank = _i % 3;
    thread_wires(wires, 3);
    tiny_must(np_post_new(&post, wires[rank], SECOND / 2, &err), &err);
    if (_i == 3)
        ck_assert_int_eq(np_post_ask_last(post, &err), NP_EIO);
    else
        ck_assert_int_eq(np_post_take(post, np_post_desk(post), true, &letter, &err), NP_EIO);
    snprintf(expected, sizeof expected, "rank %d has heard nothing of rank %d for 0.5 s", rank,
             rank == 0);
    ck_assert_ptr_nonnull(strstr(err.msg, expected));
    thread_wires_break(wires[rank]);
    np_post_free(post);
    for (int i = 0; i < 3; i++)
        if (i != rank)
            wires[i]->ops->close(wires[i], false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ranks");
    TCase *tests = suite_case(suite, "ranks");
    tcase_add_unchecked_fixture(tests, tiny_make_files, tiny_remove_files);
    tcase_add_test(tests, another_build);
    tcase_add_test(tests, who_answers_is_there);
    tcase_add_test(tests, who_is_minded);
    tcase_add_loop_test(tests, silent_ranks, 0, 4);
    tcase_add_test(tests, memory_of_ranks);
    tcase_add_loop_test(tests, orders_that_are_lost, 0, 3);
    tcase_add_test(tests, orders_of_who_only_waits);
    tcase_add_test(tests, pace_of_the_link);
    tcase_add_loop_test(tests, bits_of_one_process, 0, TINY_KINDS);
    return suite_run(suite);
}
