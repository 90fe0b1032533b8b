/* The stash: what was put comes back, by every means that this machine has. */
#define _GNU_SOURCE
#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/stash_parts.h"
#include "suite.h"
#include "team_run.h"

enum {
    RECORDS = 12,
    STEPS = 60,
    THREADS = 6 /* more than there are rings */
};

#define LARGEST ((size_t)9437185) /* more chunks than are under way at once, and a byte */

static const uint64_t sizes[RECORDS] = {1,       4096,    4095,        4097, 0,       1048576,
                                        1048577, 3000000, LARGEST - 1, 77,   LARGEST, 65536};

static const struct {
    const char *path;
    struct np_stash_ways ways;
    const char *means;
} kinds[] = {
    {NULL, {true, true}, "memory"},
    {"scratch", {false, true}, "buffered"},
    {"scratch", {true, false}, "direct"},
    {"scratch", {true, true}, "direct, io_uring"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* A stash of that kind, or NULL, said aloud, where the machine has no such thing. */
static struct np_stash *new_stash(int kind)
{
    struct np_stash *stash = NULL;
    struct np_error err = {NP_OK, ""};
    ck_assert_msg(np_stash_new_ways(&stash, &np_device_host, kinds[kind].path, sizes, RECORDS,
                                    kinds[kind].ways, &err) == NP_OK,
                  "%s", err.msg);
    if (strcmp(np_stash_means(stash), kinds[kind].means) == 0)
        return stash;
    fprintf(stderr, "test_stash: SKIPPED '%s': this machine has only '%s'\n", kinds[kind].means,
            np_stash_means(stash));
    np_stash_free(stash);
    return NULL;
}

static unsigned char *new_buffer(void)
{
    size_t room = (LARGEST / NP_STASH_ALIGN + 1) * NP_STASH_ALIGN;
    unsigned char *buffer = aligned_alloc(NP_STASH_ALIGN, room);
    ck_assert_ptr_nonnull(buffer);
    memset(buffer, 0, room);
    return buffer;
}

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

/* The content that belongs to a seed. */
static void fill(unsigned char *data, uint64_t bytes, uint32_t seed)
{
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(draw(&seed) >> 16);
}

struct worker {
    struct np_stash *stash;
    size_t first, step; /* its records: first, first + step ... */
    const char *wrong;
};

/* Random puts and gets; each put has another content. No assertions: it runs in threads too. */
static void *work(void *arg)
{
    struct worker *w = arg;
    unsigned char *data = new_buffer(), *expected = new_buffer();
    uint32_t seeds[RECORDS] = {0}, state = (uint32_t)w->first + 1;
    struct np_error err;
    const uint32_t steps = tests_are_full() ? STEPS : STEPS / 10;
    for (uint32_t step = 1; step <= steps && !w->wrong; step++) {
        size_t i = w->first + draw(&state) % ((RECORDS - w->first - 1) / w->step + 1) * w->step;
        if (!seeds[i] || draw(&state) % 2) {
            seeds[i] = step * 64 + (uint32_t)i;
            fill(data, sizes[i], seeds[i]);
            if (np_stash_put(w->stash, i, data, &err) != NP_OK)
                w->wrong = "put failed";
        } else {
            fill(expected, sizes[i], seeds[i]);
            memset(data, 0xa5, sizes[i]);
            if (np_stash_get_part(w->stash, i, 0, data, sizes[i], &err) != NP_OK)
                w->wrong = "get failed";
            else if (memcmp(data, expected, sizes[i]) != 0)
                w->wrong = "another content came back";
        }
    }
    free(data);
    free(expected);
    return NULL;
}

START_TEST(model)
{
    struct worker w = {.stash = new_stash(_i), .step = 1};
    if (!w.stash)
        return;
    ck_assert_uint_eq(np_stash_memory(w.stash) + np_stash_disk(w.stash), 0);
    work(&w);
    ck_assert_msg(!w.wrong, "%s: %s", kinds[_i].means, w.wrong);
    ck_assert((np_stash_memory(w.stash) > 0) == !kinds[_i].path);
    ck_assert((np_stash_disk(w.stash) > 0) == !!kinds[_i].path);
    np_stash_free(w.stash);
    np_stash_free(NULL);
}
END_TEST

START_TEST(threads)
{
    struct np_stash *stash = new_stash(_i);
    struct worker workers[THREADS];
    pthread_t ids[THREADS];
    if (!stash)
        return;
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){stash, i, THREADS, NULL};
        ck_assert_int_eq(pthread_create(&ids[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        ck_assert_msg(!workers[i].wrong, "%s: %s", kinds[_i].means, workers[i].wrong);
    }
    np_stash_free(stash);
}
END_TEST

/* Only bytes that were put are counted, once. */
START_TEST(sums)
{
    struct np_stash *stash = new_stash(_i);
    unsigned char *data = new_buffer();
    if (stash) {
        for (int twice = 0; twice < 2; twice++) {
            ck_assert_int_eq(np_stash_put(stash, 0, data, NULL), NP_OK);
            ck_assert_int_eq(np_stash_put(stash, 3, data, NULL), NP_OK);
        }
        ck_assert_uint_eq(np_stash_memory(stash), kinds[_i].path ? 0 : 3 * NP_STASH_ALIGN);
        ck_assert_uint_eq(np_stash_disk(stash), kinds[_i].path ? 3 * NP_STASH_ALIGN : 0);
        np_stash_free(stash);
    }
    free(data);
}
END_TEST

/* A record put in parts comes back as a whole, and the other way round. */
START_TEST(parts)
{
    struct np_stash *stash = new_stash(_i);
    unsigned char *data = new_buffer(), *expected = new_buffer();
    for (size_t record = 0; stash && record < RECORDS; record++) {
        size_t bytes = sizes[record], step = 3 * NP_STASH_ALIGN;
        fill(expected, bytes, 17 + (uint32_t)record);
        for (size_t at = 0; at == 0 || at < bytes; at += step) {
            size_t n = bytes - at < step ? bytes - at : step;
            memcpy(data, expected + at, n);
            ck_assert_int_eq(np_stash_put_part(stash, record, at, data, n, NULL), NP_OK);
        }
        memset(data, 0xa5, bytes);
        ck_assert_int_eq(np_stash_get_part(stash, record, 0, data, sizes[record], NULL), NP_OK);
        ck_assert_mem_eq(data, expected, bytes);
        for (size_t at = 0; at < bytes; at += step) {
            size_t n = bytes - at < step ? bytes - at : step;
            memset(data, 0xa5, step);
            ck_assert_int_eq(np_stash_get_part(stash, record, at, data, n, NULL), NP_OK);
            ck_assert_mem_eq(data, expected + at, n);
        }
    }
    np_stash_free(stash);
    free(data);
    free(expected);
}
END_TEST

/* Blocks of an arena go to the stash and come back; in memory they are the same blocks. */
START_TEST(blocks)
{
    struct np_stash *stash = new_stash(_i);
    struct np_arena *arena;
    unsigned char *block, *expected = new_buffer(), *first;
    const size_t record = 7;
    if (!stash) {
        free(expected);
        return;
    }
    ck_assert_int_eq(np_arena_new(&arena, 4 * NP_STASH_ALIGN + sizes[record], NULL), NP_OK);
    ck_assert_int_eq(np_arena_take(arena, &block, sizes[record], NULL), NP_OK);
    first = block;
    for (uint32_t turn = 0; turn < 6; turn++) {
        bool changed = turn % 3 != 2;
        if (changed) {
            fill(block, sizes[record], turn);
            fill(expected, sizes[record], turn);
        }
        ck_assert_int_eq(np_stash_send(stash, record, arena, block, changed, NULL), NP_OK);
        ck_assert_uint_eq(np_arena_sums(arena).used, 0);
        block = NULL;
        ck_assert_int_eq(np_stash_bring(stash, record, arena, &block, NULL), NP_OK);
        ck_assert_uint_eq(np_arena_sums(arena).used, np_arena_bytes(sizes[record]));
        ck_assert_mem_eq(block, expected, sizes[record]);
        ck_assert(kinds[_i].path || block == first);
    }
    if (!kinds[_i].path) { /* no room: it stays where it is */
        void *other;
        ck_assert_int_eq(np_stash_send(stash, record, arena, block, true, NULL), NP_OK);
        ck_assert_int_eq(np_arena_take(arena, &other, 5 * NP_STASH_ALIGN, NULL), NP_OK);
        ck_assert_int_eq(np_stash_bring(stash, record, arena, &block, NULL), NP_EMEM);
        ck_assert_int_eq(np_stash_get_part(stash, record, 0, expected, sizes[record], NULL), NP_OK);
        ck_assert_mem_eq(block, expected, sizes[record]);
    }
    np_arena_free(arena);
    np_stash_free(stash);
    free(expected);
}
END_TEST

/* The name is gone at once and can be used again; what is there already is left alone. */
START_TEST(names)
{
    struct np_stash *stash = NULL, *other = NULL;
    struct np_error err;
    struct stat info;
    ck_assert_int_eq(np_stash_new(&stash, &np_device_host, "scratch", sizes, RECORDS, &err), NP_OK);
    ck_assert(stat("scratch", &info) != 0 && errno == ENOENT);
    ck_assert_int_eq(np_stash_new(&other, &np_device_host, "scratch", sizes, RECORDS, &err), NP_OK);
    np_stash_free(other);
    np_stash_free(stash);

    FILE *file = fopen("taken", "w");
    ck_assert(file && fputs("mine", file) >= 0 && fclose(file) == 0);
    ck_assert_int_eq(symlink("nowhere", "link"), 0);
    ck_assert_int_eq(np_stash_new(&stash, &np_device_host, "taken", sizes, RECORDS, &err),
                     NP_EINPUT);
    ck_assert_str_eq(err.msg, "cannot create 'taken': File exists");
    ck_assert_int_eq(err.code, NP_EINPUT);
    ck_assert(stat("taken", &info) == 0 && info.st_size == 4);
    ck_assert_int_eq(np_stash_new(&stash, &np_device_host, "link", sizes, RECORDS, NULL),
                     NP_EINPUT);
    ck_assert_int_eq(np_stash_new(&stash, &np_device_host, "missing/scratch", sizes, RECORDS, &err),
                     NP_EINPUT);
    ck_assert_str_eq(err.msg, "cannot create 'missing/scratch': No such file or directory");
}
END_TEST

START_TEST(edges)
{
    static const uint64_t vast[2] = {(uint64_t)1 << 62, (uint64_t)1 << 62}, over[1] = {UINT64_MAX};
    struct np_stash *stash = NULL;
    for (int i = 0; i < 2; i++) {
        const char *path = i ? "scratch" : NULL;
        ck_assert_int_eq(np_stash_new(&stash, &np_device_host, path, NULL, 0, NULL), NP_OK);
        np_stash_free(stash);
        ck_assert_int_eq(np_stash_new(&stash, &np_device_host, path, vast, 2, NULL), NP_EMEM);
        ck_assert_int_eq(np_stash_new(&stash, &np_device_host, path, over, 1, NULL), NP_EMEM);
    }
}
END_TEST

/* A limit on files stands for a full disk: records before it are kept, one beyond it is refused,
 * with the file's name, and the stash goes on. */
START_TEST(full)
{
    struct np_stash *stash = new_stash(_i);
    unsigned char *data = new_buffer();
    struct rlimit limit, before;
    struct np_error err;
    if (stash) {
        signal(SIGXFSZ, SIG_IGN);
        ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
        limit = before;
        limit.rlim_cur = 4 << 20;
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        data[0] = 1;
        ck_assert_int_eq(np_stash_put(stash, 3, data, &err), NP_OK);
        ck_assert_int_eq(np_stash_put(stash, 8, data, &err), NP_EIO);
        ck_assert_msg(strstr(err.msg, "cannot write 'scratch': "), "%s", err.msg);
        data[0] = 2;
        ck_assert_int_eq(np_stash_get_part(stash, 3, 0, data, sizes[3], &err), NP_OK);
        ck_assert_uint_eq(data[0], 1);
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
        ck_assert_int_eq(np_stash_put(stash, 8, data, &err), NP_OK);
        np_stash_free(stash);
    }
    free(data);
}
END_TEST

/* The kernel's rings, which refuse to send after so many calls, so many times. */
static struct {
    atomic_int let, times;
    int refusal;
} refuse;

int io_uring_submit_and_wait(struct io_uring *ring, unsigned count)
{
    static int (*real)(struct io_uring *, unsigned);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "io_uring_submit_and_wait");
    if (refuse.times > 0 && refuse.let-- <= 0) {
        refuse.times--;
        return -refuse.refusal;
    }
    return real(ring, count);
}

static enum np_status put_refused(struct np_stash *stash, unsigned char *data, int refusal, int let,
                                  int times, struct np_error *err)
{
    enum np_status status;
    refuse.refusal = refusal;
    refuse.let = let;
    refuse.times = times;
    status = np_stash_put(stash, 10, data, err);
    refuse.times = 0;
    return status;
}

/* What the system lacks for a moment is waited for; what else it says ends the transfer once
 * nothing is under way, and with it those after it: the ring holds what was not sent. */
START_TEST(rings_that_refuse)
{
    static const int passing[] = {EINTR, EAGAIN, EBUSY, ENOMEM};
    struct np_stash *stash = new_stash(3);
    unsigned char *data = new_buffer(), *back = new_buffer();
    struct np_error err;
    for (size_t i = 0; stash && i < 2 * sizeof passing / sizeof *passing; i++) {
        fill(data, LARGEST, (uint32_t)i + 1);
        ck_assert_int_eq(put_refused(stash, data, passing[i / 2], i % 2, 5, &err), NP_OK);
        ck_assert_int_eq(np_stash_get_part(stash, 10, 0, back, sizes[10], &err), NP_OK);
        ck_assert_mem_eq(back, data, LARGEST);
    }
    np_stash_free(stash);
    for (int let = 0; stash && let < 3; let++) {
        bool lasts = let == 2;
        stash = new_stash(3);
        ck_assert_int_eq(
            put_refused(stash, data, lasts ? EAGAIN : EIO, let % 2, lasts ? INT_MAX : 1, &err),
            NP_EIO);
        ck_assert_msg(strstr(err.msg, "cannot write 'scratch': "), "%s", err.msg);
        if (let != 1) /* or all may have been sent */
            ck_assert_int_eq(np_stash_put(stash, 8, data, &err), NP_EIO);
        np_stash_free(stash);
    }
    free(data);
    free(back);
}
END_TEST

int main(void)
{
    char directory[] = "/tmp/test_stash.XXXXXX";
    Suite *suite = suite_create("stash");
    TCase *tests = suite_case(suite, "stash");
    tcase_add_loop_test(tests, model, 0, KINDS);
    tcase_add_loop_test(tests, threads, 0, KINDS);
    tcase_add_loop_test(tests, sums, 0, KINDS);
    tcase_add_loop_test(tests, parts, 0, KINDS);
    tcase_add_loop_test(tests, blocks, 0, KINDS);
    tcase_add_test(tests, names);
    tcase_add_test(tests, edges);
    tcase_add_loop_test(tests, full, 1, KINDS);
    tcase_add_test(tests, rings_that_refuse);
    return suite_run_in(suite, directory);
}
