/* A program whose locale writes 0,5 gets the files that every other gets, and reads them. */
#include <check.h>
#include <jansson.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/text.h"
#include "run/session.h"
#include "sched/timeline.h"
#include "suite.h"
#include "tiny.h"

static const struct tiny_shape two_stages = {2, 2, 4, 1, 1, NP_ISA_SCALAR, 0, 0, 0, 0, false};

/* Germany's, which few machines have; localedef warns of this and that. */
static void make_germany(void)
{
    char command[128];
    tiny_make_files();
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/germany 2> %s/said",
             tiny_directory, tiny_directory);
    ck_assert_msg(WEXITSTATUS(system(command)) <= 1, "no localedef, or no sources: see make deps");
}

static void enter_germany(void)
{
    char half[8];
    ck_assert_int_eq(setenv("LOCPATH", tiny_directory, 1), 0);
    ck_assert_ptr_nonnull(setlocale(LC_ALL, "germany"));
    snprintf(half, sizeof half, "%.1f", 0.5);
    ck_assert_str_eq(half, "0,5");
}

START_TEST(numbers)
{
    struct np_buf buf = {NULL, 0, 0};
    double value;
    enter_germany();
    ck_assert_str_eq(np_text_double(-1.25e-7).s, "-1.25e-07");
    ck_assert(np_text_parse_double(&value, "1.25") && value == 1.25);
    ck_assert(!np_text_parse_double(&value, "1,25"));
    ck_assert_int_eq(np_buf_printf(&buf, NULL, "%.3f %g %s", 0.5, 2.5, "0,5"), NP_OK);
    ck_assert_str_eq(buf.text, "0.500 2.5 0,5");
    ck_assert_str_eq(setlocale(LC_ALL, NULL), "germany");
    np_buf_clear(&buf);
}
END_TEST

/* Every line of a run's metrics is JSON. */
static void check_metrics(void)
{
    char line[1 << 14];
    FILE *file = fopen("run/metrics.jsonl", "r");
    int lines = 0;
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file)) {
        json_t *object = json_loads(line, 0, NULL);
        ck_assert_msg(object != NULL, "%s", line);
        ck_assert(json_is_number(json_object_get(object, "time")));
        json_decref(object);
        lines++;
    }
    fclose(file);
    ck_assert_int_eq(lines, TINY_STEPS + TINY_STEPS / 5);
}

static struct np_digest train(bool parted, struct np_trace *trace)
{
    struct tiny t;
    struct np_plan plan;
    struct np_session_result result;
    tiny_open(&t, TINY_TEXT, NULL, 0);
    tiny_plan(&t, &plan, &two_stages);
    struct np_session_config config = {.run = parted ? "run" : "other",
                                       .net = &t.net,
                                       .train_data = t.data,
                                       .valid_data = t.data,
                                       .kernels = np_kernels_get(NP_ISA_SCALAR),
                                       .plan = &plan,
                                       .eval_every = 5,
                                       .eval_subnets = 2,
                                       .eval_batches = 1,
                                       .trace = trace,
                                       .provenance = "{}\n"};
    tiny_must(np_session_run(&result, &config, &t.err), &t.err);
    np_plan_clear(&plan);
    tiny_close(&t);
    return result.digest;
}

START_TEST(runs)
{
    struct np_digest here = train(false, NULL), there;
    struct np_trace trace = {.spans = NULL}, again = {.spans = NULL};
    struct np_timeline timeline = {
        .trace = &trace, .stages = 2, .replicas = 1, .nanoseconds = true, .title = "x"};
    struct np_buf text = {NULL, 0, 0};
    struct np_error err;
    enter_germany();
    there = train(true, &trace);
    ck_assert(np_digest_equal(&here, &there));
    check_metrics();
    ck_assert_int_eq(np_timeline_chrome(&text, &timeline, &err), NP_OK);
    suite_write("trace.json", text.text);
    tiny_must(np_trace_read(&again, "trace.json", &err), &err);
    ck_assert_uint_eq(again.count, trace.count);
    np_buf_clear(&text);
    np_trace_clear(&trace);
    np_trace_clear(&again);
}
END_TEST

START_TEST(plans)
{
    struct tiny t;
    struct np_plan plan, again;
    struct np_buf text = {NULL, 0, 0};
    struct np_error err;
    enter_germany();
    tiny_open(&t, TINY_TEXT, NULL, 0);
    tiny_plan(&t, &plan, &two_stages);
    plan.step_ns = 1.5e6;
    plan.bubble = 0.25;
    tiny_must(np_plan_write(&plan, &t.net, &text, &err), &err);
    ck_assert_ptr_nonnull(strstr(text.text, "predicted: {step_ms: 1.5, bubble: 0.2500}\n"));
    suite_write("plan.yaml", text.text);
    tiny_must(np_plan_read(&again, "plan.yaml", &t.net, &err), &err);
    ck_assert(again.step_ns == 1.5e6 && again.bubble == 0.25);
    np_buf_clear(&text);
    np_plan_clear(&plan);
    np_plan_clear(&again);
    tiny_close(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("locale");
    TCase *tests = suite_case(suite, "a comma");
    tcase_add_unchecked_fixture(tests, make_germany, tiny_remove_files);
    tcase_add_checked_fixture(tests, suite_enter, suite_leave);
    tcase_add_test(tests, numbers);
    tcase_add_test(tests, runs);
    tcase_add_test(tests, plans);
    return suite_run_apart(suite);
}
