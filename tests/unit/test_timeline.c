/* Timelines: sums, crops, and the three forms they are written in. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "sched/sched.h"
#include "sched/timeline.h"
#include "suite.h"

/* Two stages, three steps; step 1 begins before step 0 ends. */
static const struct np_span spans[] = {
    {{.kind = NP_TASK_F, .stage = 0, .step = 0, .first = 0, .count = 2}, 0, 2000, 0},
    {{.kind = NP_TASK_F, .stage = 1, .device = 1, .step = 0, .first = 2, .count = 1},
     2000,
     3000,
     0},
    {{.kind = NP_TASK_B, .stage = 1, .device = 1, .step = 0, .first = 2, .count = 1},
     3000,
     4000,
     0},
    {{.kind = NP_TASK_F, .stage = 0, .step = 1, .micro = 3, .first = 0, .count = 2}, 2000, 4500, 0},
    {{.kind = NP_TASK_W, .stage = 0, .step = 1, .first = 1, .count = 1, .opens = true},
     4500,
     6000,
     0},
    {{.kind = NP_TASK_W, .stage = 0, .step = 2, .first = 1, .count = 1, .updates = true},
     6000,
     8000,
     0}};
/* Where layers come and go: stage 0 makes 7 and 9, puts 7 out for 8; stage 1 makes one. */
static const struct np_copy_span copies[] = {
    {{NP_COPY_MAKE, 7}, 0, 0, 4096, 0, 0},        {{NP_COPY_MAKE, 9}, 0, 1, 4096, 1000, 1000},
    {{NP_COPY_WRITE, 7}, 0, 0, 4096, 2500, 4500}, {{NP_COPY_FETCH, 8}, 0, 1, 4096, 4500, 6000},
    {{NP_COPY_DROP, 9}, 0, 0, 4096, 6000, 6000},  {{NP_COPY_MAKE, 12}, 1, 0, 8192, 2000, 2000}};
static const struct np_trace_stage stages[] = {{24576, 16384, 0, {1, 2, 3, 4096, 4096, 2, 8192}},
                                               {24576, 8192, 4096, {4, 5, 6, 0, 0, 1, 12288}}};

static struct np_trace trace;
static const struct np_timeline timeline = {
    .trace = &trace, .stages = 2, .nanoseconds = true, .title = "a <title> & \"more\""};

static void fill(void)
{
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(np_trace_add(&trace, &spans[i], NULL), NP_OK);
}

static void fill_with_copies(void)
{
    fill();
    trace.spans[3].stall = 500;
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(np_trace_add_copy(&trace, &copies[i], NULL), NP_OK);
    ck_assert_int_eq(np_trace_make_stages(&trace, 2, NULL), NP_OK);
    memcpy(trace.stage, stages, sizeof stages);
    trace.copying = (struct np_trace_copying){NP_CONTEXT_LRU, 96, true, {1200, 1900, 700, 2000}};
}

static void drop(void)
{
    np_trace_clear(&trace);
}

START_TEST(sums)
{
    struct np_trace_sums s = np_trace_sum(&trace, 2);
    ck_assert(s.start == 0 && s.end == 8000);
    ck_assert(s.busy == 10000);
    ck_assert(s.bubble == 1 - 10000.0 / 16000);
    ck_assert_uint_eq(s.first_step, 0);
    ck_assert_uint_eq(s.steps, 3);
    trace.spans[3].stall = 500;
    s = np_trace_sum(&trace, 2);
    ck_assert(s.busy == 9500 && s.stall == 500);
    s = np_trace_sum(&(struct np_trace){.stages = 2}, 2);
    ck_assert(s.steps == 0 && s.bubble == 0);
}
END_TEST

START_TEST(crop_keeps_what_ran_between_two_ends)
{
    np_trace_crop(&trace, 0, UINT64_MAX);
    ck_assert_uint_eq(trace.count, 6);
    np_trace_crop(&trace, 1, 1);
    ck_assert_uint_eq(trace.count, 2);
    ck_assert(trace.spans[0].start == 2000 && trace.spans[1].start == 4500);
    np_trace_crop(&trace, 3, 1);
    ck_assert_uint_eq(trace.count, 0);
}
END_TEST

/* What is in use is the same after a crop, from its beginning on. */
START_TEST(memory)
{
    static const struct np_memory_change expected[] = {{0, 0, 20480},    {1000, 0, 24576},
                                                       {2000, 1, 20480}, {4500, 0, 20480},
                                                       {4500, 0, 24576}, {6000, 0, 20480}};
    struct np_memory_change *changes;
    ck_assert_int_eq(np_trace_memory(&changes, &trace, NULL), NP_OK);
    for (int i = 0; i < 6; i++)
        ck_assert_msg(changes[i].time == expected[i].time &&
                          changes[i].stage == expected[i].stage &&
                          changes[i].bytes == expected[i].bytes,
                      "change %d: %g, stage %d: %zu", i, changes[i].time, changes[i].stage,
                      (size_t)changes[i].bytes);
    free(changes);
    np_trace_crop(&trace, 1, 1);
    ck_assert_uint_eq(trace.copy_count, 2);
    ck_assert_uint_eq(trace.stage[0].held_bytes, 8192);
    ck_assert_uint_eq(trace.stage[1].held_bytes, 12288);
    ck_assert_int_eq(np_trace_memory(&changes, &trace, NULL), NP_OK);
    ck_assert(changes[0].time == 4500 && changes[0].bytes == 20480);
    ck_assert(changes[1].time == 4500 && changes[1].bytes == 24576);
    free(changes);
}
END_TEST

START_TEST(tsv)
{
    struct np_buf buf = {0};
    trace.count = 1;
    ck_assert_int_eq(np_timeline_tsv(&buf, &timeline, NULL), NP_OK);
    ck_assert_str_eq(buf.text,
                     "stage\tkind\tstep\tmember\tmicro\tfirst\tcount\tstart\tend\tdevice\n"
                     "0\tF\t0\t0\t0\t0\t2\t0\t2000\t0\n");
    np_buf_clear(&buf);
}
END_TEST

START_TEST(chrome_reads_back)
{
    struct np_buf buf = {0};
    struct np_trace read = {.count = 0};
    struct np_error err;
    bool found[6] = {false};
    ck_assert_int_eq(np_timeline_chrome(&buf, &timeline, NULL), NP_OK);
    suite_write("trace.json", buf.text);
    ck_assert_int_eq(np_trace_read(&read, "trace.json", &err), NP_OK);
    ck_assert_uint_eq(read.count, 6);
    for (size_t i = 0; i < read.count; i++) {
        const struct np_span *got = &read.spans[i];
        ck_assert(i == 0 || got->start >= read.spans[i - 1].start);
        for (size_t j = 0; j < 6; j++) {
            const struct np_span *put = &trace.spans[j];
            found[j] |= put->task.kind == got->task.kind && put->task.stage == got->task.stage &&
                        put->task.step == got->task.step && put->task.micro == got->task.micro &&
                        put->task.first == got->task.first && put->task.count == got->task.count &&
                        put->task.opens == got->task.opens &&
                        put->task.updates == got->task.updates && put->start == got->start &&
                        put->end == got->end && put->stall == got->stall;
        }
    }
    for (size_t j = 0; j < 6; j++)
        ck_assert_msg(found[j], "span %zu is lost", j);
    ck_assert_uint_eq(read.copy_count, trace.copy_count);
    for (size_t i = 0; i < trace.copy_count; i++) {
        const struct np_copy_span *put = &copies[i], *got = &read.copies[i];
        ck_assert(put->copy.kind == got->copy.kind && put->copy.layer == got->copy.layer &&
                  put->stage == got->stage && put->copier == got->copier &&
                  put->bytes == got->bytes && put->start == got->start && put->end == got->end);
    }
    ck_assert_int_eq(read.stages, trace.stages);
    if (trace.stages > 0)
        ck_assert_mem_eq(read.stage, trace.stage, (size_t)trace.stages * sizeof *trace.stage);
    ck_assert(read.copying.policy == trace.copying.policy &&
              read.copying.lookahead == trace.copying.lookahead &&
              read.copying.in_file == trace.copying.in_file);
    ck_assert_mem_eq(&read.copying.disk, &trace.copying.disk, sizeof read.copying.disk);
    np_trace_clear(&read);
    np_buf_clear(&buf);
}
END_TEST

/* Events of ours that cannot be are refused; what others put between them is not looked at. */
START_TEST(chrome_from_strangers)
{
#define ARGS "\"stage\":%s,\"step\":0,\"member\":0,\"micro\":0,\"first\":0,\"count\":1"
#define TASK                                                                                       \
    "{\"name\":\"F 0.0\",\"cat\":\"F\",\"ph\":\"X\",\"ts\":%s,\"dur\":%s,\"args\":{" ARGS "}}"
#define COPY                                                                                       \
    "{\"name\":\"fetch "                                                                           \
    "1\",\"cat\":\"copy\",\"ph\":\"X\",\"ts\":0,\"dur\":1,\"args\":{\"stage\":%s,"                 \
    "\"copier\":0,\"layer\":1,\"bytes\":8}}"
    static const struct {
        const char *ts, *dur, *stage, *copy_stage, *stages;
        int event; /* that is refused; -1: none */
        size_t copies;
    } cases[] = {{"0", "1", "0", "1", "[{},{}]", -1, 1},   {"0", "1", "0", "2", "[{},{}]", 2, 0},
                 {"0", "1", "0", "-1", "[{},{}]", 2, 0},   {"0", "1", "0", "7", "[]", -1, 0},
                 {"0", "-1", "0", "1", "[{},{}]", 1, 0},   {"0", "1e308", "0", "1", "[{}]", 1, 0},
                 {"-1e300", "1", "0", "1", "[{}]", 1, 0},  {"\"0\"", "1", "0", "1", "[{}]", 1, 0},
                 {"0", "1", "2147483648", "1", "[]", 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct np_trace read = {.count = 0};
        struct np_error err;
        char text[1024], wanted[64];
        snprintf(text, sizeof text,
                 "{\"traceEvents\":[{\"name\":\"FBW\",\"ph\":\"X\",\"ts\":-7,\"dur\":0}," TASK
                 "," COPY "],\"otherData\":{\"stages\":%s}}",
                 cases[i].ts, cases[i].dur, cases[i].stage, cases[i].copy_stage, cases[i].stages);
        suite_write("strange.json", text);
        snprintf(wanted, sizeof wanted, "strange.json: event %d: its time, ", cases[i].event);
        if (cases[i].event < 0) {
            ck_assert_int_eq(np_trace_read(&read, "strange.json", &err), NP_OK);
            ck_assert_uint_eq(read.count, 1);
            ck_assert_uint_eq(read.copy_count, cases[i].copies);
        } else {
            ck_assert_int_eq(np_trace_read(&read, "strange.json", &err), NP_EINPUT);
            ck_assert_ptr_nonnull(strstr(err.msg, wanted));
        }
        np_trace_clear(&read);
    }
}
END_TEST

/* As Perfetto wants them: a thread for each copier, and the bytes in use at every change. */
START_TEST(chrome_has_copies_and_memory)
{
    struct np_buf buf = {0};
    ck_assert_int_eq(np_timeline_chrome(&buf, &timeline, NULL), NP_OK);
    ck_assert_ptr_nonnull(strstr(buf.text, "{\"name\":\"fetch 8\",\"cat\":\"copy\",\"ph\":\"X\","
                                           "\"pid\":0,\"tid\":3,\"ts\":4.500,\"dur\":1.500,"));
    ck_assert_ptr_nonnull(strstr(buf.text, "{\"name\":\"stage 1, copier 0\"}"));
    ck_assert_ptr_nonnull(strstr(buf.text, "{\"name\":\"memory of stage 0\",\"ph\":\"C\",\"pid\":0,"
                                           "\"ts\":6.000,\"args\":{\"bytes\":20480}}"));
    np_buf_clear(&buf);
}
END_TEST

START_TEST(foreign_events_are_passed_over)
{
    struct np_trace read = {.count = 0};
    struct np_error err;
    suite_write("none.json",
                "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"other\",\"ts\":1,\"dur\":2},"
                "{\"ph\":\"X\",\"name\":\"F 0.0\",\"ts\":1,\"dur\":2,"
                "\"args\":{\"stage\":-1}},"
                "{\"ph\":\"X\",\"name\":\"fetch 1\",\"ts\":1,\"dur\":2,\"args\":{\"stage\":3,"
                "\"copier\":0,\"layer\":1,\"bytes\":1}}],\"otherData\":{\"stages\":[7]}}");
    ck_assert_int_eq(np_trace_read(&read, "none.json", &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "none.json: no tasks in this trace");
    suite_write("broken.json", "{\"traceEvents\":[");
    ck_assert_int_eq(np_trace_read(&read, "broken.json", &err), NP_EINPUT);
    ck_assert_ptr_nonnull(strstr(err.msg, "broken.json:1:"));
    ck_assert_int_eq(np_trace_read(&read, "missing.json", &err), NP_EIO);
    ck_assert_ptr_null(read.spans);
}
END_TEST

/* What it would take to look so far ahead is asked of the memory later. */
START_TEST(a_look_ahead_beyond_any_plans_is_not_said)
{
    static const int said[] = {NP_SCHED_MOST_AHEAD, NP_SCHED_MOST_AHEAD + 1, INT32_MAX};
    for (int i = 0; i < 3; i++) {
        struct np_trace read = {.count = 0};
        struct np_error err;
        char text[256];
        snprintf(text, sizeof text,
                 "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"F 0.0\",\"ts\":1,\"dur\":2,"
                 "\"args\":{\"stage\":0,\"step\":0,\"member\":0,\"micro\":0,\"first\":0,"
                 "\"count\":1}}],\"otherData\":{\"lookahead\":%d}}",
                 said[i]);
        suite_write("ahead.json", text);
        ck_assert_msg(np_trace_read(&read, "ahead.json", &err) == NP_OK, "%s", err.msg);
        ck_assert_int_eq(read.copying.lookahead, i == 0 ? said[i] : 0);
        np_trace_clear(&read);
    }
}
END_TEST

START_TEST(svg)
{
    struct np_buf buf = {0};
    ck_assert_int_eq(np_timeline_svg(&buf, &timeline, NULL), NP_OK);
    ck_assert_ptr_nonnull(strstr(buf.text, "a &lt;title&gt; &amp; \"more\""));
    ck_assert_ptr_nonnull(strstr(buf.text, ">stage 1</text>"));
    ck_assert_ptr_nonnull(strstr(buf.text, ">time (us)</text>"));
    ck_assert((strstr(buf.text, ">copies</text>") != NULL) == (trace.stage != NULL));
    ck_assert((strstr(buf.text, ">24 KiB</text>") != NULL) == (trace.stage != NULL));
    ck_assert((strstr(buf.text, "fill=\"url(#stall)\"") != NULL) == (trace.stage != NULL));
    ck_assert_str_eq(buf.text + buf.used - 7, "</svg>\n");
    np_buf_clear(&buf);
    np_trace_clear(&trace);
    ck_assert_int_eq(np_timeline_svg(&buf, &timeline, NULL), NP_OK);
    np_buf_clear(&buf);
}
END_TEST

/* A lane for each stage of each replica, both named; the device survives the file. */
START_TEST(replicas_have_lanes_of_their_own)
{
    struct np_buf buf = {0};
    struct np_trace read = {.count = 0};
    struct np_timeline replicas = timeline;
    replicas.replicas = 2;
    replicas.stages = 1;
    for (size_t i = 0; i < trace.count; i++)
        trace.spans[i].task.stage = 0;
    ck_assert_int_eq(np_timeline_svg(&buf, &replicas, NULL), NP_OK);
    ck_assert_ptr_nonnull(strstr(buf.text, ">replica 1</text>"));
    ck_assert_ptr_null(strstr(buf.text, ">replica 2</text>"));
    ck_assert_ptr_null(strstr(buf.text, ">stage 1</text>"));
    np_buf_clear(&buf);
    ck_assert_int_eq(np_timeline_chrome(&buf, &replicas, NULL), NP_OK);
    ck_assert_ptr_nonnull(strstr(buf.text, "\"replica 1, stage 0\""));
    suite_write("trace.json", buf.text);
    ck_assert_int_eq(np_trace_read(&read, "trace.json", NULL), NP_OK);
    ck_assert_uint_eq(read.count, trace.count);
    for (size_t i = 0; i < read.count; i++) {
        bool second = read.spans[i].task.step == 0 && read.spans[i].task.first == 2;
        ck_assert_int_eq(read.spans[i].task.device, second);
        ck_assert_int_eq(read.spans[i].task.stage, 0);
    }
    np_trace_clear(&read);
    np_buf_clear(&buf);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("timeline");
    TCase *plain = suite_case(suite, "all layers there");
    TCase *moving = suite_case(suite, "layers that come and go");
    tcase_add_checked_fixture(plain, fill, drop);
    tcase_add_test(plain, sums);
    tcase_add_test(plain, crop_keeps_what_ran_between_two_ends);
    tcase_add_test(plain, tsv);
    tcase_add_test(plain, chrome_reads_back);
    tcase_add_test(plain, chrome_from_strangers);
    tcase_add_test(plain, foreign_events_are_passed_over);
    tcase_add_test(plain, a_look_ahead_beyond_any_plans_is_not_said);
    tcase_add_test(plain, svg);
    tcase_add_test(plain, replicas_have_lanes_of_their_own);
    tcase_add_checked_fixture(moving, fill_with_copies, drop);
    tcase_add_test(moving, memory);
    tcase_add_test(moving, chrome_reads_back);
    tcase_add_test(moving, chrome_has_copies_and_memory);
    tcase_add_test(moving, svg);
    return suite_run_in(suite, (char[]){"/tmp/np-timeline-XXXXXX"});
}
