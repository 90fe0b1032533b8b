/* Memory that ends anywhere: NP_EMEM, nothing lost, nothing left, and the next try succeeds. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "plan/partition.h"
#include "run/inherit.h"
#include "run/session.h"
#include "run/trained.h"
#include "scarce_memory.h"
#include "sched/timeline.h"
#include "suite.h"
#include "tiny.h"

/* One thing that is done, and undone. */
typedef enum np_status attempt(void *context, struct np_error *err);

#ifdef SCARCE
/* Fails the first call for memory, the second and so on, until none is left that fails. */
static void starve(const char *name, attempt *try, void *context)
{
    enum np_status status;
    long calls = 0, before;
    ck_assert_int_eq(try(context, NULL), NP_OK); /* what is made once is made */
    do {
        struct np_error err = {NP_OK, ""};
        before = scarce_blocks;
        scarce_failed = false;
        scarce_left = ++calls;
        status = try(context, &err);
        scarce_left = 0;
        ck_assert_msg(status == (scarce_failed ? err.code : NP_OK), "%s, call %ld", name, calls);
        if (scarce_failed && status != NP_OK)
            ck_assert_msg(status == NP_EMEM, "%s, call %ld: %d, %s", name, calls, status, err.msg);
        ck_assert_msg(scarce_blocks == before, "%s, call %ld: %ld blocks are left", name, calls,
                      scarce_blocks - before);
    } while (scarce_failed);
    ck_assert_int_gt(calls, 5);
}
#else
static void starve(const char *name, attempt *try, void *context)
{
    struct np_error err;
    (void)name;
    ck_assert_int_eq(try(context, &err), NP_OK);
}
#endif

static enum np_status read_space(void *context, struct np_error *err)
{
    struct np_recipe recipe = {.path = NULL};
    struct np_supernet net = {.layers = 0};
    enum np_status status = np_recipe_read(&recipe, context, NULL, 0, err);
    if (status == NP_OK)
        status = np_supernet_init(&net, &recipe, err);
    np_supernet_clear(&net);
    np_recipe_clear(&recipe);
    return status;
}

START_TEST(recipes_and_supernets)
{
    struct tiny t;
    tiny_open(&t, (enum tiny_kind)_i, NULL, 0);
    starve(t.recipe.path, read_space, t.recipe.path);
    tiny_close(&t);
}
END_TEST

/* --- plans and traces ------------------------------------------------------------------------- */

struct a_plan {
    struct tiny t;
    struct np_plan plan;
    const char *path;
};

static enum np_status write_plan(void *context, struct np_error *err)
{
    struct a_plan *p = context;
    struct np_buf text = {NULL, 0, 0};
    enum np_status status = np_plan_write(&p->plan, &p->t.net, &text, err);
    np_buf_clear(&text);
    return status;
}

static enum np_status read_plan(void *context, struct np_error *err)
{
    struct a_plan *p = context;
    struct np_plan plan = {.stages = 0};
    enum np_status status = np_plan_read(&plan, p->path, &p->t.net, err);
    np_plan_clear(&plan);
    return status;
}

static enum np_status read_trace(void *context, struct np_error *err)
{
    struct np_trace trace = {.spans = NULL};
    enum np_status status = np_trace_read(&trace, context, err);
    np_trace_clear(&trace);
    return status;
}

static const struct tiny_shape two_stages = {2, 2, 4, 1, 1, NP_ISA_SCALAR, 0, 0, 0, 0, false};

START_TEST(plans)
{
    struct a_plan p = {.path = "plan.yaml"};
    struct np_buf text = {NULL, 0, 0};
    tiny_open(&p.t, TINY_TEXT, NULL, 0);
    tiny_plan(&p.t, &p.plan, &two_stages);
    ck_assert_int_eq(np_plan_write(&p.plan, &p.t.net, &text, NULL), NP_OK);
    suite_write(p.path, text.text);
    starve("np_plan_write", write_plan, &p);
    starve("np_plan_read", read_plan, &p);
    np_buf_clear(&text);
    np_plan_clear(&p.plan);
    tiny_close(&p.t);
}
END_TEST

/* Who records looks at the end only. What comes after a span that was lost is not there, either. */
static enum np_status record(void *context, struct np_error *err)
{
    struct np_trace trace = {.spans = NULL};
    size_t spans = 0, copies = 0;
    enum np_status status;
    (void)context;
    for (int i = 0; i < 1000; i++) {
        spans += np_trace_add(&trace, &(struct np_span){.end = 1}, NULL) == NP_OK;
        copies += np_trace_add_copy(&trace, &(struct np_copy_span){.end = 1}, NULL) == NP_OK;
        ck_assert(trace.count == (trace.spans_lost ? spans : (size_t)i + 1));
        ck_assert(trace.copy_count == (trace.copies_lost ? copies : (size_t)i + 1));
    }
    status = np_trace_is_whole(&trace, err);
    ck_assert_int_eq(status == NP_OK, spans == 1000 && copies == 1000);
    np_trace_clear(&trace);
    return status;
}

START_TEST(traces)
{
    struct np_trace trace = {.spans = NULL};
    struct np_buf text = {NULL, 0, 0};
    for (int i = 0; i < 20; i++)
        np_trace_add(&trace, &(struct np_span){.task.step = (uint64_t)i, .end = 100}, NULL);
    struct np_timeline timeline = {.trace = &trace, .stages = 1, .replicas = 1, .title = "x"};
    ck_assert_int_eq(np_timeline_chrome(&text, &timeline, NULL), NP_OK);
    suite_write("trace.json", text.text);
    starve("np_trace_read", read_trace, "trace.json");
    starve("np_trace_add", record, NULL);
    np_buf_clear(&text);
    np_trace_clear(&trace);
}
END_TEST

/* --- runs ------------------------------------------------------------------------------------- */

struct a_run {
    struct tiny t, other; /* other: with other validation data */
};

static void train(struct tiny *t, const char *run)
{
    struct np_session_result result;
    struct np_plan plan;
    struct np_session_config config = {.run = run,
                                       .net = &t->net,
                                       .train_data = t->data,
                                       .kernels = np_kernels_get(NP_ISA_SCALAR),
                                       .plan = &plan,
                                       .schedule = NP_SESSION_SEQUENTIAL,
                                       .stop_after = 2,
                                       .provenance = "{}\n"};
    tiny_plan(t, &plan, &two_stages);
    tiny_must(np_session_run(&result, &config, &t->err), &t->err);
    np_plan_clear(&plan);
}

static enum np_status bring(void *context, struct np_error *err)
{
    struct a_run *r = context;
    struct np_trained *trained = NULL;
    const uint16_t choices[TINY_BLOCKS] = {0};
    enum np_status status =
        np_trained_open(&trained, "run", NP_LATEST, &r->other.net, NULL, &np_device_host, err);
    if (status == NP_OK)
        status = np_trained_bring(trained, choices, err);
    np_trained_free(trained);
    return status;
}

static enum np_status look_for_heirs(void *context, struct np_error *err)
{
    struct a_run *r = context;
    struct np_inherit *inherit = NULL;
    enum np_status status = np_inherit_open(&inherit, "run", NP_LATEST, &r->t.net, err);
    np_inherit_free(inherit);
    return status;
}

/* A recipe that differs in what evaluations look at is found to be the run's. */
START_TEST(runs)
{
    const char *sets[] = {"data.valid={kind: bytes, files: [made.txt]}"};
    struct a_run r;
    tiny_open(&r.t, TINY_TEXT, NULL, 0);
    tiny_open(&r.other, TINY_TEXT, sets, 1);
    ck_assert(!np_digest_equal(&r.t.recipe.digest, &r.other.recipe.digest));
    train(&r.t, "run");
    starve("np_trained_bring", bring, &r);
    starve("np_inherit_open", look_for_heirs, &r);
    tiny_close(&r.t);
    tiny_close(&r.other);
}
END_TEST

/* --- arenas ----------------------------------------------------------------------------------- */

/* Where there is no memory but what is vacant, that is dropped, and nobody hears of it. */
static bool scarce;
static enum np_status take_scarce(const void *context, void **out, uint64_t bytes,
                                  struct np_error *err)
{
    (void)context;
    if (scarce)
        return np_fail(err, NP_EMEM, "there is no more");
    scarce = true;
    *out = malloc((size_t)bytes);
    return *out ? NP_OK : np_fail(err, NP_EMEM, "no memory");
}

static void give_scarce(const void *context, void *block)
{
    (void)context;
    scarce = false;
    free(block);
}

START_TEST(arenas)
{
    const struct np_arena_source source = {NULL, take_scarce, give_scarce};
    struct np_error err = {NP_OK, "untouched"};
    struct np_arena *arena;
    float *small, *large;
    ck_assert_int_eq(np_arena_new_from(&arena, 1 << 20, &source, &err), NP_OK);
    ck_assert_int_eq(np_arena_take(arena, &small, 1000, &err), NP_OK);
    ck_assert_int_eq(np_arena_take(arena, &large, 9000, NULL), NP_EMEM);
    np_arena_give(arena, small, 1000);
    ck_assert_int_eq(np_arena_take(arena, &large, 9000, &err), NP_OK);
    ck_assert_str_eq(err.msg, "untouched");
    np_arena_give(arena, large, 9000);
    np_arena_free(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scarce");
    TCase *tests = suite_case(suite, "memory that ends");
    tcase_add_unchecked_fixture(tests, tiny_make_files, tiny_remove_files);
    tcase_add_checked_fixture(tests, suite_enter, suite_leave);
    tcase_add_loop_test(tests, recipes_and_supernets, 0, TINY_KINDS);
    tcase_add_test(tests, plans);
    tcase_add_test(tests, traces);
    tcase_add_test(tests, runs);
    tcase_add_test(tests, arenas);
    return suite_run(suite);
}
