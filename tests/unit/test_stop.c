/* What ends a training before its last step, and what it leaves. */
#include <check.h>
#include <string.h>

#include "engine_run.h"
#include "float_control.h"
#include "suite.h"

/* A process in which a library has changed how the processor computes trains nothing. */
START_TEST(other_arithmetic_is_refused)
{
    for (int stages = 0; stages < 3; stages++) {
        const struct tiny_shape shape = {.stages = stages,
                                         .micro_batches = 1,
                                         .window = 2,
                                         .threads = 1,
                                         .isa = tiny_best_isa()};
        struct tiny f;
        struct tiny_outcome o = {.steps = 0};
        struct np_plan plan;
        struct np_engine *engine = NULL;
        uint64_t next;
        enum np_status status = NP_OK;
        tiny_open(&f, TINY_TEXT, NULL, 0);
        struct np_train_config config = engine_config(&f, &o, &plan, &shape);
        struct np_stream *stream = tiny_stream(&f, 0);
        tiny_must(np_state_new(&o.state, &f.net, &f.err), &f.err);
        float_control(float_changes[_i]);
        if (!stages)
            status = np_train_sequential(&config, o.state, stream, 0, 1, &next, &f.err);
        else if ((status = np_engine_new(&engine, &config, o.state, &f.err)) == NP_OK)
            status = np_engine_train(engine, stream, 0, 1, &next, &f.err);
        float_control(float_changes[_i]);
        ck_assert_int_eq(status, float_changes[_i] ? NP_EINPUT : NP_OK);
        ck_assert_uint_eq(o.steps, float_changes[_i] ? 0 : 1);
        np_engine_free(engine);
        np_stream_close(stream);
        np_state_free(o.state);
        np_plan_clear(&plan);
        tiny_close(&f);
    }
}
END_TEST

/* One training, looked at closely; the engine is made when it trains. */
struct training {
    struct tiny f;
    struct tiny_outcome o;
    struct np_plan plan;
    struct np_train_config config;
    struct np_stream *stream;
    struct np_engine *engine;
};

static void training_open(struct training *t, const struct tiny_shape *shape,
                          const char *const *sets, size_t count)
{
    *t = (struct training){.engine = NULL};
    tiny_open(&t->f, TINY_TEXT, sets, count);
    t->config = engine_config(&t->f, &t->o, &t->plan, shape);
    tiny_must(np_state_new(&t->o.state, &t->f.net, &t->f.err), &t->f.err);
    t->stream = tiny_stream(&t->f, 0);
}

/* Steps o.steps .. end-1. */
static enum np_status training_run(struct training *t, uint64_t end, uint64_t *next)
{
    if (!t->engine)
        tiny_must(np_engine_new(&t->engine, &t->config, t->o.state, &t->f.err), &t->f.err);
    return np_engine_train(t->engine, t->stream, t->o.steps, end, next, &t->f.err);
}

static void training_close(struct training *t)
{
    np_engine_free(t->engine);
    np_stream_close(t->stream);
    np_plan_clear(&t->plan);
    np_state_free(t->o.state);
    tiny_close(&t->f);
}

enum { STOPPED_AFTER = 3 };

static bool stop_now(void *context)
{
    return ((struct tiny_outcome *)context)->steps >= STOPPED_AFTER;
}

/* Stopped on request: what has begun is finished, nothing else, whatever is known of what follows;
 * the rest gives the same bits. */
START_TEST(stop_on_request)
{
    const struct tiny_shape shapes[] = {{2, 2, 2, 1, 1, NP_ISA_SCALAR, 0, 0, 0, 0, false},
                                        {1, 1, 1, 1, 1, NP_ISA_SCALAR, 0, 0, 0, 0, false},
                                        {3, 1, 4, 1, 1, NP_ISA_SCALAR, 1, 0, 0, 0, false}};
    const struct tiny_shape *shape = &shapes[_i];
    struct training t;
    struct tiny_outcome reference;
    uint64_t next;
    training_open(&t, shape, NULL, 0);
    engine_reference(&t.f, &reference);
    t.config.hooks.stop = stop_now;
    ck_assert_int_ge(t.plan.lookahead, TINY_STEPS);
    ck_assert_int_eq(training_run(&t, TINY_STEPS, &next), NP_ESTOP);
    ck_assert_uint_eq(next, t.o.steps);
    ck_assert_uint_ge(next, STOPPED_AFTER);
    ck_assert_uint_lt(next, STOPPED_AFTER + (uint64_t)shape->window);
    engine_train(&t.f, &t.o, shape, TINY_STEPS);
    engine_same(&t.f, &reference, &t.o, "stopped on request");
    np_state_free(reference.state);
    training_close(&t);
}
END_TEST

/* What is asked for when the last step has begun finds all trained: that is no stop. */
START_TEST(stop_at_the_end)
{
    const struct tiny_shape shape = {2, 2, 2, 1, 1, NP_ISA_SCALAR, 0, 0, 0, 0, false};
    struct training t;
    uint64_t next;
    training_open(&t, &shape, NULL, 0);
    t.config.hooks.stop = stop_now;
    tiny_must(training_run(&t, STOPPED_AFTER, &next), &t.f.err);
    ck_assert_uint_eq(next, STOPPED_AFTER);
    ck_assert_int_eq(training_run(&t, TINY_STEPS, &next), NP_ESTOP);
    ck_assert_uint_eq(next, STOPPED_AFTER);
    training_close(&t);
}
END_TEST

/* The same step, subnet and layer are named by every engine. */
START_TEST(not_finite)
{
    const char *const sets[] = {"train.optimizer.lr=1.0e6"};
    char first[512] = "";
    for (int stages = 0; stages <= 4; stages++) {
        const struct tiny_shape shape = {
            stages, stages > 1 ? 2 : 1, 4, 1, 1, NP_ISA_SCALAR, 0, 0, 0, 0, stages % 2 == 1};
        struct training t;
        uint64_t next;
        training_open(&t, &shape, sets, 1);
        ck_assert_int_eq(stages ? training_run(&t, TINY_STEPS, &next)
                                : np_train_sequential(&t.config, t.o.state, t.stream, 0, TINY_STEPS,
                                                      &next, &t.f.err),
                         NP_ENAN);
        if (!stages)
            strcpy(first, t.f.err.msg);
        ck_assert_str_eq(first, t.f.err.msg);
        ck_assert_ptr_nonnull(strstr(first, "is not finite"));
        training_close(&t);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stop");
    TCase *tests = suite_case(suite, "stop");
    tcase_add_unchecked_fixture(tests, tiny_make_files, tiny_remove_files);
    tcase_add_loop_test(tests, other_arithmetic_is_refused, 0, FLOAT_CHANGES);
    tcase_add_loop_test(tests, stop_on_request, 0, 3);
    tcase_add_test(tests, stop_at_the_end);
    tcase_add_test(tests, not_finite);
    return suite_run(suite);
}
