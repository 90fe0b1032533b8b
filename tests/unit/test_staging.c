/* A stash beside a device that is apart: blocks of memory that the host cannot touch go to the
 * stash and come back. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "io/stash_parts.h"
#include "suite.h"

enum {
    RECORDS = 6, /* more than there are pieces on the way at once */
    TURNS = 3
};

#define LARGEST ((uint64_t)9437185) /* more than two pieces, and a byte */

static const uint64_t sizes[RECORDS] = {1, 4096, 0, 1048577, LARGEST, (uint64_t)4 << 20};

/* --- a device ------------------------------------------------------------------------------- */

static _Atomic uint64_t pinned_bytes, copies;
static uint64_t fails; /* the copy with this number, from 1 on; 0: none */

/* An address of the device is none of the host's. */
static void *other(const void *address)
{
    return (void *)((uintptr_t)address ^ (uintptr_t)1 << 62);
}

static void *touchable(const void *address)
{
    return (uintptr_t)address >> 62 ? other(address) : (void *)(uintptr_t)address;
}

static enum np_status take(const struct np_device *device, void **out, uint64_t bytes,
                           struct np_error *err)
{
    (void)device, (void)err;
    *out = aligned_alloc(NP_STASH_ALIGN, bytes);
    ck_assert_ptr_nonnull(*out);
    *out = other(*out);
    return NP_OK;
}

static void give(const struct np_device *device, void *block)
{
    (void)device;
    if (block)
        free(other(block));
}

static enum np_status pin(const struct np_device *device, void **out, uint64_t bytes,
                          struct np_error *err)
{
    atomic_fetch_add(&pinned_bytes, bytes);
    return np_device_host.ops->alloc(device, out, bytes, err);
}

static void unpin(const struct np_device *device, void *block)
{
    np_device_host.ops->release(device, block);
}

static enum np_status copy(const struct np_device *device, void *to, const void *from,
                           uint64_t bytes, struct np_error *err)
{
    (void)device;
    if (atomic_fetch_add(&copies, 1) + 1 == fails)
        return np_fail(err, NP_EIO, "the device cannot copy");
    if (bytes > 0)
        memcpy(touchable(to), touchable(from), bytes);
    return NP_OK;
}

static const struct np_device_ops ops = {.name = "apart",
                                         .apart = true,
                                         .alloc = take,
                                         .release = give,
                                         .pin = pin,
                                         .unpin = unpin,
                                         .copy = copy};
static const struct np_device device = {.ops = &ops};

/* --- tests ---------------------------------------------------------------------------------- */

static const struct {
    const char *path;
    struct np_stash_ways ways;
} kinds[] = {{NULL, {true, true}}, {"scratch", {false, false}}, {"scratch", {true, true}}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void fill(unsigned char *data, uint64_t bytes, uint32_t seed)
{
    for (uint64_t i = 0; i < bytes; i++) {
        seed = seed * 1664525 + 1013904223;
        data[i] = (unsigned char)(seed >> 24);
    }
}

struct worker {
    struct np_stash *stash;
    size_t record;
    const char *wrong;
    pthread_t thread;
};

/* A block goes and comes, changed and not; then the host asks for the record, as a checkpoint does.
 * No assertions: it runs in a thread. */
static const char *swap(const struct worker *w, struct np_arena *arena, unsigned char *seen,
                        unsigned char *expected)
{
    uint64_t bytes = sizes[w->record];
    void *block;
    if (np_arena_take(arena, &block, bytes, NULL) != NP_OK)
        return "no block";
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        if (turn != 1)
            fill(expected, bytes, 1 + turn + 9 * (uint32_t)w->record);
        if (turn != 1 && np_device_copy(&device, block, expected, bytes, NULL) != NP_OK)
            return "no copy";
        if (np_stash_send(w->stash, w->record, arena, block, turn != 1, NULL) != NP_OK)
            return "it does not go";
        if (np_stash_bring(w->stash, w->record, arena, &block, NULL) != NP_OK)
            return "it does not come";
        np_device_copy(&device, seen, block, bytes, NULL);
        if (memcmp(seen, expected, bytes) != 0)
            return "another content came";
    }
    if (np_stash_get_part(w->stash, w->record, 0, seen, bytes, NULL) != NP_OK ||
        memcmp(seen, expected, bytes))
        return "another content is there";
    np_arena_give(arena, block, bytes);
    return NULL;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    size_t room = np_arena_bytes(LARGEST);
    unsigned char *seen = aligned_alloc(NP_STASH_ALIGN, room);
    unsigned char *expected = aligned_alloc(NP_STASH_ALIGN, room);
    struct np_arena *arena = NULL;
    if (seen && expected && np_device_arena(&arena, &device, room, NULL) == NP_OK)
        w->wrong = swap(w, arena, seen, expected);
    else
        w->wrong = "no memory";
    np_arena_free(arena);
    free(seen);
    free(expected);
    return NULL;
}

START_TEST(blocks)
{
    struct worker workers[RECORDS];
    struct np_stash *stash;
    pinned_bytes = 0;
    ck_assert_int_eq(
        np_stash_new_ways(&stash, &device, kinds[_i].path, sizes, RECORDS, kinds[_i].ways, NULL),
        NP_OK);
    for (size_t i = 0; i < RECORDS; i++) {
        workers[i] = (struct worker){.stash = stash, .record = i};
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (size_t i = 0; i < RECORDS; i++) {
        pthread_join(workers[i].thread, NULL);
        ck_assert_msg(!workers[i].wrong, "record %zu: %s", i, workers[i].wrong);
    }
    if (kinds[_i].path) /* however much there is */
        ck_assert_uint_eq(pinned_bytes, ((uint64_t)16 << 20) + NP_STASH_ALIGN);
    np_stash_free(stash);
}
END_TEST

/* Small records pin no more than they need. */
START_TEST(pieces)
{
    static const uint64_t few[2] = {100, 5000};
    struct np_stash *stash;
    for (size_t count = 0; count <= 2; count += 2) {
        pinned_bytes = 0;
        ck_assert_int_eq(np_stash_new(&stash, &device, "scratch", few, count, NULL), NP_OK);
        ck_assert_uint_eq(pinned_bytes, NP_STASH_ALIGN * (count ? 9 : 5));
        np_stash_free(stash);
    }
}
END_TEST

/* Of a piece on its way there or back: who copies is told, and the stash goes on. */
START_TEST(a_copy_that_fails)
{
    struct np_stash *stash;
    struct np_arena *arena;
    struct np_error err;
    void *block;
    ck_assert_int_eq(np_stash_new(&stash, &device, "scratch", sizes, RECORDS, NULL), NP_OK);
    ck_assert_int_eq(np_device_arena(&arena, &device, 0, NULL), NP_OK);
    ck_assert_int_eq(np_arena_take(arena, &block, LARGEST, NULL), NP_OK);
    copies = 0;
    fails = 2;
    for (int i = 0; i < 9; i++, copies = 0) { /* more often than there are pieces */
        ck_assert_int_eq(np_stash_send(stash, 4, arena, block, true, &err), NP_EIO);
        ck_assert_str_eq(err.msg, "the device cannot copy");
        ck_assert_uint_eq(np_arena_sums(arena).used, np_arena_bytes(LARGEST));
    }
    fails = 0;
    ck_assert_int_eq(np_stash_send(stash, 4, arena, block, true, &err), NP_OK);
    copies = 0;
    fails = 3;
    ck_assert_int_eq(np_stash_bring(stash, 4, arena, &block, &err), NP_EIO);
    np_arena_free(arena);
    np_stash_free(stash);
}
END_TEST

int main(void)
{
    char directory[] = "/tmp/test_staging.XXXXXX";
    Suite *suite = suite_create("staging");
    TCase *tests = suite_case(suite, "staging");
    tcase_add_loop_test(tests, blocks, 0, KINDS);
    tcase_add_test(tests, pieces);
    tcase_add_test(tests, a_copy_that_fails);
    return suite_run_in(suite, directory);
}
