/* Streams of subnets that are read: files, checked as a whole, and pipes, step by step. */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "space/sampler.h"
#include "stream_shape.h"
#include "suite.h"

enum { BLOCKS = 6 };
static const int candidates[BLOCKS] = {4, 4, 4, 4, 4, 4};

static void next(struct np_stream *stream, uint16_t *choices)
{
    bool more = false;
    ck_assert_int_eq(np_stream_next(stream, choices, &more, NULL), NP_OK);
    ck_assert(more);
}

static const char *const file_name = "stream.txt";

START_TEST(test_file)
{
    const int three[] = {4, 4, 20};
    struct np_stream_block each[3];
    const struct np_stream_shape shape = stream_shape(each, 3, 2, three);
    const uint16_t expected[2][6] = {{0, 1, 2, 3, 3, 19}, {1, 1, 1, 2, 2, 2}};
    struct np_stream *stream;
    uint16_t choices[6];
    bool more;
    suite_write(file_name, "# a comment\n\n 0 1\t2 # first\r\n3 3 019\n#\n1 1 1\n   \n2 2 2");
    for (uint64_t first = 0; first <= 2; first++) {
        ck_assert_int_eq(np_stream_open(&stream, &shape, file_name, first, NULL, NULL, NULL),
                         NP_OK);
        for (uint64_t i = first; i < 2; i++) {
            next(stream, choices);
            ck_assert_mem_eq(choices, expected[i], sizeof choices);
        }
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(np_stream_next(stream, choices, &more, NULL), NP_OK);
            ck_assert(!more);
        }
        np_stream_close(stream);
    }
    unlink(file_name);
}
END_TEST

/* A controller at the other end of a pipe waits for the answer to each step. */
START_TEST(test_pipe_without_look_ahead)
{
    struct np_stream_block each[2];
    const struct np_stream_shape shape = stream_shape(each, 2, 1, candidates);
    struct np_stream *stream;
    uint16_t choices[2];
    int ends[2];
    char path[32];
    ck_assert_int_eq(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    ck_assert_int_eq(np_stream_open(&stream, &shape, path, 0, NULL, NULL, NULL), NP_OK);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(write(ends[1], "3 1\n", 4), 4);
        next(stream, choices);
        ck_assert(choices[0] == 3 && choices[1] == 1);
    }
    np_stream_close(stream);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* Asked whether to give up: says so the third time. */
static bool third_time(void *asked)
{
    return ++*(int *)asked == 3;
}

/* Nobody waits for ever for a writer who says nothing. */
START_TEST(test_pipe_given_up)
{
    struct np_stream_block each[2];
    const struct np_stream_shape shape = stream_shape(each, 2, 1, candidates);
    struct np_stream *stream;
    struct np_error err;
    uint16_t choices[2];
    int ends[2], asked = 0;
    char path[32];
    bool more;
    ck_assert_int_eq(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    ck_assert_int_eq(np_stream_open(&stream, &shape, path, 0, NULL, NULL, NULL), NP_OK);
    np_stream_give_up(stream, third_time, &asked);
    ck_assert_int_eq(write(ends[1], "3 1\n11", 6), 6); /* or 110, which is no candidate either */
    next(stream, choices);
    ck_assert_int_eq(asked, 0);
    ck_assert_int_eq(np_stream_next(stream, choices, &more, &err), NP_ESTOP);
    ck_assert_int_eq(asked, 3);
    np_stream_close(stream);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* A pipe is refused where it goes wrong. */
static void pipe_refuses(const struct np_stream_shape *shape, const char *text, const char *message)
{
    struct np_stream *stream = NULL;
    struct np_error err = {.msg = ""};
    enum np_status status;
    uint16_t choices[6];
    int ends[2];
    char path[32];
    bool more;
    ck_assert_int_eq(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    ck_assert_int_eq(write(ends[1], text, strlen(text)), (int)strlen(text));
    close(ends[1]);
    ck_assert_int_eq(np_stream_open(&stream, shape, path, 0, NULL, NULL, NULL), NP_OK);
    do
        status = np_stream_next(stream, choices, &more, &err);
    while (status == NP_OK && more);
    ck_assert_int_eq(status, NP_EINPUT);
    ck_assert_str_eq(strchr(err.msg, ':'), message);
    np_stream_close(stream);
    close(ends[0]);
}

START_TEST(test_bad_files)
{
    const int three[] = {4, 4, 20};
    struct np_stream_block each[3];
    const struct np_stream_shape shape = stream_shape(each, 3, 2, three);
    const struct {
        const char *text, *message;
    } bad[] = {
        {"0 0 0\n0 0\n", "stream.txt:2: 2 indices, not 3"},
        {"0 0 0\n\n0 0 0 0 99\n", "stream.txt:3: 5 indices, not 3"},
        {"0 0 0\n0 4 0\n", "stream.txt:2:3: candidate 4 of block 1 is not in 0..3"},
        {"0 0 99999999999999\n", "stream.txt:1:5: candidate 2147483647 of block 2 is not in 0..19"},
        {"0 0 -1\n", "stream.txt:1:5: unexpected '-'"},
        {"0,0,0\n", "stream.txt:1:2: unexpected ','"},
        {"0 0 1x\n", "stream.txt:1:6: unexpected 'x'"},
        {"0 0 \033\n", "stream.txt:1:5: unexpected '\\x1b'"},
        {"0 0 0\n0 0 0\n0 0 0\n",
         "stream.txt:4: the file ends inside step 1, after 1 of 2 members"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct np_stream *stream = NULL;
        struct np_error err = {.msg = ""};
        suite_write(file_name, bad[i].text); /* a file is refused as a whole */
        ck_assert_int_eq(np_stream_open(&stream, &shape, file_name, 0, NULL, NULL, &err),
                         NP_EINPUT);
        ck_assert_str_eq(err.msg, bad[i].message);
        ck_assert_ptr_null(stream);
        pipe_refuses(&shape, bad[i].text, strchr(bad[i].message, ':'));
    }
    unlink(file_name);
}
END_TEST

/* Blocks 0 and 2 have widths that are tied, and candidates of their own. */
START_TEST(test_tied_widths)
{
    const int counts[] = {6, 4, 3};
    struct np_stream_block each[3];
    const struct np_stream_shape shape = stream_shape(each, 3, 1, counts);
    struct np_stream *stream = NULL;
    struct np_error err = {.msg = ""};
    each[0].widths = each[2].widths = 3;
    each[1].widths = 2; /* of its own */
    each[2].width_drawn = 0;
    suite_write(file_name, "0 3 0\n1 0 0\n2 1 1\n5 2 2\n");
    ck_assert_int_eq(np_stream_open(&stream, &shape, file_name, 0, NULL, NULL, &err), NP_OK);
    np_stream_close(stream);
    suite_write(file_name, "0 3 0\n3 0 2\n");
    ck_assert_int_eq(np_stream_open(&stream, &shape, file_name, 0, NULL, NULL, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg,
                     "stream.txt:2:5: candidate 2 of block 2 is of width 2, candidate 3 of "
                     "block 0 of width 1: they are tied");
    each[2].drawn = 0; /* what is tied as a whole may choose as it likes */
    ck_assert_int_eq(np_stream_open(&stream, &shape, file_name, 0, NULL, NULL, &err), NP_OK);
    np_stream_close(stream);
}
END_TEST

START_TEST(test_bad_open)
{
    struct np_stream_block each[BLOCKS];
    const struct np_stream_shape shape = stream_shape(each, BLOCKS, 1, candidates);
    struct np_stream *stream = NULL;
    struct np_error err;
    uint16_t choices[BLOCKS];
    bool more;
    ck_assert_int_eq(np_stream_open(&stream, &shape, "no/such", 0, NULL, NULL, &err), NP_EIO);
    ck_assert_str_eq(err.msg, "cannot open 'no/such': No such file or directory");
    ck_assert_ptr_null(stream);
    ck_assert_int_eq(np_stream_open(&stream, &shape, "/", 0, NULL, NULL, NULL), NP_OK);
    ck_assert_int_eq(np_stream_next(stream, choices, &more, &err), NP_EIO);
    ck_assert_str_eq(err.msg, "cannot read '/': Is a directory");
    np_stream_close(stream);
    suite_write(file_name, "0 0 0 0 0 0\n");
    stream = NULL;
    ck_assert_int_eq(np_stream_open(&stream, &shape, file_name, 2, NULL, NULL, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "stream.txt: ends after 1 steps, before step 2");
    ck_assert_ptr_null(stream);
    unlink(file_name);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream_file");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, test_file);
    tcase_add_test(tests, test_pipe_without_look_ahead);
    tcase_add_test(tests, test_pipe_given_up);
    tcase_add_test(tests, test_bad_files);
    tcase_add_test(tests, test_tied_widths);
    tcase_add_test(tests, test_bad_open);
    return suite_run_in(suite, (char[]){"/tmp/np-stream-XXXXXX"});
}
