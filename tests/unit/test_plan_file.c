/* Plans: written and read back, and every way in which a person may get one wrong. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "plan/stage_memory.h"
#include "plan_space.h"
#include "suite.h"

START_TEST(writes_what_it_reads)
{
    struct np_plan plan, again;
    struct np_partition_request r = plan_request(_i);
    r.replicas = 1 + _i % 2;
    if (_i % 2)
        r.link = (struct np_link_pace){70000, 130000, UINT64_C(9000000000)};
    struct np_buf text = {0}, text_again = {0};
    struct np_error err = {.msg = ""};
    ck_assert_msg(plan_partition(&plan, &r, &err) == NP_OK, "%s", err.msg);
    ck_assert_int_eq(plan.stages, _i);
    plan.disk = (struct np_disk_bandwidth){3000000, 2000000, 2500000, 40000000};
    ck_assert_int_eq(np_plan_write(&plan, &plan_net, &text, &err), NP_OK);
    suite_write("plan.yaml", text.text);
    ck_assert_msg(np_plan_read(&again, "plan.yaml", &plan_net, &err) == NP_OK, "%s", err.msg);
    ck_assert_mem_eq(plan.in_flight, again.in_flight, (size_t)_i * sizeof(int));
    ck_assert_mem_eq(plan.stage_first, again.stage_first, ((size_t)_i + 1) * sizeof(int));
    ck_assert_int_eq(again.replicas, r.replicas);
    ck_assert_mem_eq(&again.link, &r.link, sizeof r.link);
    ck_assert_mem_eq(&again.disk, &plan.disk, sizeof plan.disk);
    ck_assert_int_eq(np_plan_write(&again, &plan_net, &text_again, &err), NP_OK);
    ck_assert_str_eq(text.text, text_again.text);
    np_buf_clear(&text);
    np_buf_clear(&text_again);
    np_plan_clear(&plan);
    np_plan_clear(&again);
}
END_TEST

/* A minimal plan with its lines replaceable. */
static const char head_lines[] = "micro_batches: 4\nwindow: 2\nlookahead: 8\nunit: 1\nthreads: 1\n";

static void write_plan(const char *stages, const char *rest)
{
    struct np_buf text = {0};
    ck_assert_int_eq(np_buf_printf(&text, NULL, "naspipe: plan/1\nrecipe: %s\n%s%s%s",
                                   np_digest_hex(&plan_recipe.digest).s, head_lines, stages, rest),
                     NP_OK);
    suite_write("plan.yaml", text.text);
    np_buf_clear(&text);
}

START_TEST(reads_a_plan_written_by_hand)
{
    struct np_plan plan;
    struct np_error err = {.msg = ""};
    write_plan(
        "stages:\n- {first: stem, last: block1}\n- {first: block2, last: head, in_flight: 3}\n",
        "");
    ck_assert_msg(np_plan_read(&plan, "plan.yaml", &plan_net, &err) == NP_OK, "%s", err.msg);
    ck_assert_int_eq(plan.stage_first[1], 3);
    ck_assert_int_eq(plan.stage_first[2], 8);
    ck_assert(!plan.measured);
    ck_assert(plan.kind_cost[1].f > 0);
    ck_assert_int_eq(plan.in_flight[0], 0);
    ck_assert_int_eq(plan.in_flight[1], 3);
    plan_assert_memory_filled(&plan);
    np_plan_clear(&plan);
}
END_TEST

START_TEST(a_stage_holds_what_the_window_lets_begin_at_most)
{
    struct np_plan plan;
    write_plan("stages:\n- {first: stem, last: block1, in_flight: 8}\n"
               "- {first: block2, last: head, in_flight: 2147483647}\n",
               "");
    ck_assert_int_eq(np_plan_read(&plan, "plan.yaml", &plan_net, NULL), NP_OK);
    ck_assert_int_eq(np_plan_flights(&plan, &plan_net), 8);
    ck_assert_int_eq(plan.in_flight[0], 8);
    ck_assert_int_eq(plan.in_flight[1], 8);
    np_plan_clear(&plan);
}
END_TEST

START_TEST(too_little_device_memory_is_told_where_it_stands)
{
    struct np_plan plan;
    struct np_error err = {.msg = ""};
    write_plan("stages:\n- {first: stem, last: head}\n", "device_memory: 4096\n");
    ck_assert_int_eq(np_plan_read(&plan, "plan.yaml", &plan_net, &err), NP_OK);
    ck_assert_int_eq(np_memory_check(&plan, &plan_net, &err), NP_EINPUT);
    ck_assert_ptr_eq(
        strstr(err.msg, "plan.yaml:10:16: a device memory of 4096 bytes is too little"), err.msg);
    np_plan_set_device_bytes(&plan, 8192); /* not the file's */
    ck_assert_int_eq(np_memory_check(&plan, &plan_net, &err), NP_EINPUT);
    ck_assert_ptr_eq(strstr(err.msg, "a device memory of 8192 bytes is too little"), err.msg);
    np_plan_clear(&plan);
}
END_TEST

static const struct {
    const char *stages, *rest, *message;
} bad[] = {
    {"stages:\n- {first: stem, last: block7}\n", "",
     "plan.yaml:9:23: unknown position 'block7': stem, block00 .. block05 or head"},
    {"stages:\n- {first: block00, last: head}\n", "",
     "plan.yaml:9:11: stage 0 must begin with stem"},
    {"stages:\n- {first: stem, last: block01}\n- {first: block03, last: head}\n", "",
     "plan.yaml:10:11: stage 1 must begin with block02"},
    {"stages:\n- {first: stem, last: block01}\n- {first: block02, last: block00}\n", "",
     "plan.yaml:10:26: stage 1 ends before it begins"},
    {"stages:\n- {first: stem, last: block01}\n- {first: block02, last: block01}\n", "",
     "plan.yaml:10:26: stage 1 ends before it begins"},
    {"stages:\n- {first: stem, last: block6}\n", "",
     "plan.yaml:9:23: unknown position 'block6': stem, block00 .. block05 or head"},
    {"stages:\n- {first: stem, last: head, in_flight: 0}\n", "",
     "plan.yaml:9:40: 'in_flight' must be a whole number from 1 to 2^31-1, not '0'"},
    {"stages:\n- {first: stem, last: head}\n", "predicted: {step_ms: 1e308}\n",
     "plan.yaml:10:22: 'step_ms' must be a number in [0, 1e+30], not '1e308'"},
    {"stages:\n- {first: stem, last: head}\n", "predicted: {bubble: 1.5}\n",
     "plan.yaml:10:21: 'bubble' must be a number in [0, 1], not '1.5'"},
    {"stages:\n- {first: stem, last: head}\n", "stash: {read: 1, write: 1, both: 1, procesor: 1}\n",
     "plan.yaml:10:37: unknown key 'procesor' (did you mean 'processor'?)"},
    {"stages:\n- {first: stem, last: head}\n",
     "profile:\n  from: model\n  costs:\n  - {kind: identity, forward_ns: 1, backward_ns: 1, "
     "weight_ns: 1}\n  - {kind: identity, forward_ns: 1, backward_ns: 1, weight_ns: 1}\n",
     "plan.yaml:14:12: costs of 'identity' are given twice"},
    {"stages:\n- {first: stem, last: block01}\n", "",
     "plan.yaml:9:23: the last stage must end with head"},
    {"stages:\n- {first: stem, last: head}\n", "reach: 2\n",
     "plan.yaml:10:8: 'reach' belongs to 'cut: balanced'"},
    {"stages:\n- {first: stem, last: head}\n", "cut: balanced\n",
     "plan.yaml:1:1: missing key 'reach'"},
    {"stages:\n- {first: stem, last: head}\n", "cut: balanced\nreach: 9\n",
     "plan.yaml:11:8: 'reach' must be a whole number from 1 to 8, not '9'"},
    {"stages:\n- {first: stem, last: head}\n", "replicas: 3\n",
     "plan.yaml:10:11: 3 replicas cannot share 4 micro-batches evenly"},
    {"stages:\n- {first: stem, last: head}\n", "replicas: 0\n",
     "plan.yaml:10:11: 'replicas' must be a whole number from 1 to 4096, not '0'"},
    {"stages:\n- {first: stem, last: head}\n",
     "replicas: 2\ndevice_memory: 1073741824\ncut: balanced\nreach: 2\n",
     "plan.yaml:10:11: balanced cuts hand layers over: with a device memory that is for one "
     "replica, not 2"},
    {"stages:\n- {first: stem, last: head}\n", "link: {task_ns: 0, latency_ns: 1}\n",
     "plan.yaml:10:17: 'task_ns' must be a whole number from 1 to 1000000000000000, not '0'"},
    {"stages:\n- {first: stem, last: head}\n", "link: {task_ns: 1, latency_ns: 0}\n",
     "plan.yaml:10:32: 'latency_ns' must be a whole number from 1 to 1000000000000000, not "
     "'0'"},
    {"stages:\n- {first: stem, last: head}\n", "link: {latency_ns: 5}\n",
     "plan.yaml:10:7: missing key 'task_ns' in 'link'"},
    {"stages:\n- {first: stem, last: head}\n", "cut: even\n",
     "plan.yaml:10:6: unknown cut 'even' (known: static, balanced)"},
    {"stages:\n- {first: stem, last: head}\n- {first: head, last: head}\n", "",
     "plan.yaml:10:11: no position is left for stage 1"},
    {"stages:\n- {first: stem, last: head, memory: 3}\n", "",
     "plan.yaml:9:29: unknown key 'memory' (known: first, last, in_flight, memory_bytes)"},
    {"stages:\n- {first: stem, last: head}\n",
     "profile:\n  from: model\n  costs:\n  - {kind: mah, forward_ns: 1, backward_ns: 1, "
     "weight_ns: 1}\n",
     "plan.yaml:13:12: the recipe has no layer 'mah'"},
    {"stages:\n- {first: stem, last: head}\n",
     "profile:\n  from: model\n  costs:\n  - {kind: identity, forward_ns: 1, backward_ns: 1, "
     "weight_ns: 1}\n",
     "plan.yaml:13:3: the costs of 'embedding' are missing"},
};

START_TEST(refuses_with_the_place)
{
    struct np_plan plan;
    struct np_error err = {.msg = ""};
    write_plan(bad[_i].stages, bad[_i].rest);
    ck_assert_int_eq(np_plan_read(&plan, "plan.yaml", &plan_net, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, bad[_i].message);
    ck_assert_ptr_null(plan.stage_first);
}
END_TEST

START_TEST(refuses_another_recipe)
{
    struct np_plan plan;
    struct np_error err;
    char expected[128];
    snprintf(expected, sizeof expected,
             "plan.yaml:2:9: this plan was made for recipe 01234567..., not %.8s...",
             np_digest_hex(&plan_recipe.digest).s);
    suite_write("plan.yaml", "naspipe: plan/1\nrecipe: 0123456789abcdef\n");
    ck_assert_int_eq(np_plan_read(&plan, "plan.yaml", &plan_net, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, expected);
}
END_TEST

START_TEST(refuses_cuts_inside_grains)
{
    struct np_plan plan;
    struct np_error err;
    struct np_buf text = {0};
    np_buf_printf(&text, NULL,
                  "naspipe: plan/1\nrecipe: %s\nstages: [{first: stem, last: head}]\n"
                  "micro_batches: 5\nwindow: 2\nlookahead: 8\nunit: 1\nthreads: 1\n",
                  np_digest_hex(&plan_recipe.digest).s);
    suite_write("plan.yaml", text.text);
    np_buf_clear(&text);
    ck_assert_int_eq(np_plan_read(&plan, "plan.yaml", &plan_net, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "plan.yaml:4:16: micro-batches must divide 8, the grains of a "
                              "mini-batch (batch 8, grain 1), and 5 does not");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan_file");
    TCase *tests = suite_case(suite, "plan_file");
    tcase_add_checked_fixture(tests, plan_setup, plan_teardown);
    tcase_add_loop_test(tests, writes_what_it_reads, 1, 9);
    tcase_add_test(tests, reads_a_plan_written_by_hand);
    tcase_add_test(tests, a_stage_holds_what_the_window_lets_begin_at_most);
    tcase_add_test(tests, too_little_device_memory_is_told_where_it_stands);
    tcase_add_loop_test(tests, refuses_with_the_place, 0, (int)(sizeof bad / sizeof *bad));
    tcase_add_test(tests, refuses_another_recipe);
    tcase_add_test(tests, refuses_cuts_inside_grains);
    return suite_run_in(suite, (char[]){"/tmp/np-plan-file-XXXXXX"});
}
