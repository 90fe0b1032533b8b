/* Timelines: sums, crops, and the three forms they are written in. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "sched/timeline.h"
#include "suite.h"

/* Two stages, three steps; step 1 begins before step 0 ends. */
static const struct np_span spans[] = {
    {{.kind = NP_TASK_F, .stage = 0, .step = 0, .first = 0, .count = 2}, 0, 2000, 0},
    {{.kind = NP_TASK_F, .stage = 1, .step = 0, .first = 2, .count = 1}, 2000, 3000, 0},
    {{.kind = NP_TASK_B, .stage = 1, .step = 0, .first = 2, .count = 1}, 3000, 4000, 0},
    {{.kind = NP_TASK_F, .stage = 0, .step = 1, .micro = 3, .first = 0, .count = 2}, 2000, 4500, 0},
    {{.kind = NP_TASK_W, .stage = 0, .step = 1, .first = 1, .count = 1, .opens = true},
     4500,
     6000,
     0},
    {{.kind = NP_TASK_W, .stage = 0, .step = 2, .first = 1, .count = 1, .updates = true},
     6000,
     8000,
     0}};
static const struct np_timeline timeline = {.spans = spans,
                                            .count = 6,
                                            .stages = 2,
                                            .members = 1,
                                            .nanoseconds = true,
                                            .title = "a <title> & \"more\""};

START_TEST(sums)
{
    struct np_timeline_sums s = np_timeline_sum(&timeline);
    ck_assert(s.start == 0 && s.end == 8000);
    ck_assert(s.busy == 10000);
    ck_assert(s.bubble == 1 - 10000.0 / 16000);
    ck_assert_uint_eq(s.first_step, 0);
    ck_assert_uint_eq(s.steps, 3);
    s = np_timeline_sum(&(struct np_timeline){.stages = 2});
    ck_assert(s.steps == 0 && s.bubble == 0);
}
END_TEST

START_TEST(crop_keeps_what_ran_between_two_ends)
{
    struct np_span copy[6];
    memcpy(copy, spans, sizeof copy);
    ck_assert_uint_eq(np_timeline_crop(copy, 6, 1, 1), 2);
    ck_assert(copy[0].start == 2000 && copy[1].start == 4500);
    memcpy(copy, spans, sizeof copy);
    ck_assert_uint_eq(np_timeline_crop(copy, 6, 0, UINT64_MAX), 6);
    ck_assert_uint_eq(np_timeline_crop(copy, 6, 3, 1), 0);
}
END_TEST

START_TEST(tsv)
{
    struct np_buf buf = {0};
    struct np_timeline two = timeline;
    two.count = 1;
    ck_assert_int_eq(np_timeline_tsv(&buf, &two, NULL), NP_OK);
    ck_assert_str_eq(buf.text, "stage\tkind\tstep\tmember\tmicro\tfirst\tcount\tstart\tend\n"
                               "0\tF\t0\t0\t0\t0\t2\t0\t2000\n");
    np_buf_clear(&buf);
}
END_TEST

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(chrome_reads_back)
{
    struct np_buf buf = {0};
    struct np_span *read;
    size_t count;
    struct np_error err;
    ck_assert_int_eq(np_timeline_chrome(&buf, &timeline, NULL), NP_OK);
    write_file("trace.json", buf.text);
    ck_assert_int_eq(np_timeline_read(&read, &count, "trace.json", &err), NP_OK);
    ck_assert_uint_eq(count, 6);
    bool found[6] = {false};
    for (size_t i = 0; i < count; i++) {
        ck_assert(i == 0 || read[i].start >= read[i - 1].start);
        for (size_t j = 0; j < 6; j++)
            found[j] |= spans[j].task.kind == read[i].task.kind &&
                        spans[j].task.stage == read[i].task.stage &&
                        spans[j].task.step == read[i].task.step &&
                        spans[j].task.micro == read[i].task.micro &&
                        spans[j].task.first == read[i].task.first &&
                        spans[j].task.count == read[i].task.count &&
                        spans[j].task.opens == read[i].task.opens &&
                        spans[j].task.updates == read[i].task.updates &&
                        spans[j].start == read[i].start && spans[j].end == read[i].end;
    }
    for (size_t j = 0; j < 6; j++)
        ck_assert_msg(found[j], "span %zu is lost", j);
    free(read);
    np_buf_clear(&buf);
}
END_TEST

START_TEST(foreign_events_are_passed_over)
{
    struct np_span *read;
    size_t count;
    struct np_error err;
    write_file("none.json",
               "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"other\",\"ts\":1,\"dur\":2},"
               "{\"ph\":\"X\",\"name\":\"F 0.0\",\"ts\":1,\"dur\":2,"
               "\"args\":{\"stage\":-1}}]}");
    ck_assert_int_eq(np_timeline_read(&read, &count, "none.json", &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "none.json: no tasks in this trace");
    write_file("broken.json", "{\"traceEvents\":[");
    ck_assert_int_eq(np_timeline_read(&read, &count, "broken.json", &err), NP_EINPUT);
    ck_assert_ptr_nonnull(strstr(err.msg, "broken.json:1:"));
    ck_assert_int_eq(np_timeline_read(&read, &count, "missing.json", &err), NP_EIO);
    ck_assert_ptr_null(read);
}
END_TEST

START_TEST(svg)
{
    struct np_buf buf = {0};
    ck_assert_int_eq(np_timeline_svg(&buf, &timeline, NULL), NP_OK);
    ck_assert_ptr_nonnull(strstr(buf.text, "a &lt;title&gt; &amp; \"more\""));
    ck_assert_ptr_nonnull(strstr(buf.text, ">stage 1</text>"));
    ck_assert_ptr_nonnull(strstr(buf.text, ">time (us)</text>"));
    ck_assert_str_eq(buf.text + buf.used - 7, "</svg>\n");
    np_buf_clear(&buf);
    ck_assert_int_eq(np_timeline_svg(&buf, &(struct np_timeline){.stages = 1}, NULL), NP_OK);
    np_buf_clear(&buf);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("timeline");
    TCase *tests = suite_case(suite, "timeline");
    tcase_add_test(tests, sums);
    tcase_add_test(tests, crop_keeps_what_ran_between_two_ends);
    tcase_add_test(tests, tsv);
    tcase_add_test(tests, chrome_reads_back);
    tcase_add_test(tests, foreign_events_are_passed_over);
    tcase_add_test(tests, svg);
    return suite_run_in(suite, (char[]){"/tmp/np-timeline-XXXXXX"});
}
