/* The arena: blocks of one's own, sums that are exact, and a cap that holds. */
#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/arena.h"
#include "suite.h"

enum { BLOCKS = 60, STEPS = 20000, THREADS = 4 };

#define PAGE ((uint64_t)NP_ARENA_PAGE)
#define CAP (100 * PAGE)

struct block {
    unsigned char *at;
    uint64_t bytes;
    unsigned char mark;
};

static struct np_arena *new_arena(uint64_t cap)
{
    struct np_arena *arena = NULL;
    ck_assert_int_eq(np_arena_new(&arena, cap, NULL), NP_OK);
    return arena;
}

static void *take(struct np_arena *arena, uint64_t bytes)
{
    void *block = NULL;
    ck_assert_int_eq(np_arena_take(arena, &block, bytes, NULL), NP_OK);
    ck_assert_uint_eq((uintptr_t)block % NP_ARENA_PAGE, 0);
    return block;
}

static uint32_t draw(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)*state * below >> 32);
}

/* Some sizes again and again, others once. */
static uint64_t draw_bytes(uint32_t *state)
{
    return draw(state, 3) ? 1 + 3000 * (uint64_t)draw(state, 5) : 1 + draw(state, 40 * PAGE);
}

/* Whoever writes into another's block is found out. */
static void mark(struct block *b, unsigned char value)
{
    b->mark = value;
    memset(b->at, value, b->bytes);
}

static void check_mark(const struct block *b)
{
    ck_assert_uint_eq(b->at[0], b->mark);
    ck_assert_int_eq(memcmp(b->at, b->at + 1, b->bytes - 1), 0);
}

/* Random takes and gives; a request fails if and only if what is in use leaves no room for it. */
START_TEST(model)
{
    struct np_arena *arena = new_arena(CAP);
    struct block blocks[BLOCKS] = {{0}};
    uint64_t used = 0, peak = 0;
    uint32_t state = (uint32_t)_i;
    int failed = 0;
    for (int step = 0; step < STEPS; step++) {
        struct block *b = &blocks[draw(&state, BLOCKS)];
        struct np_error err = {NP_OK, "as before"};
        struct np_arena_sums sums;
        if (b->at) {
            check_mark(b);
            np_arena_give(arena, b->at, b->bytes);
            used -= np_arena_bytes(b->bytes);
            b->at = NULL;
        } else {
            b->bytes = draw_bytes(&state);
            if (used + np_arena_bytes(b->bytes) <= CAP) {
                ck_assert_int_eq(np_arena_take(arena, &b->at, b->bytes, &err), NP_OK);
                ck_assert_str_eq(err.msg, "as before");
                mark(b, (unsigned char)step);
                used += np_arena_bytes(b->bytes);
            } else {
                ck_assert_int_eq(np_arena_take(arena, &b->at, b->bytes, &err), NP_EMEM);
                ck_assert_ptr_null(b->at);
                failed++;
            }
        }
        peak = used > peak ? used : peak;
        sums = np_arena_sums(arena);
        ck_assert_uint_eq(sums.used, used);
        ck_assert_uint_eq(sums.peak, peak);
        ck_assert(sums.held >= used && sums.held <= CAP);
    }
    ck_assert_int_gt(failed, 0);
    np_arena_free(arena);
}
END_TEST

/* A vacant block serves its size again; a request of another size takes its room; and no more than
 * the cap is given. */
START_TEST(room)
{
    struct np_arena *arena = new_arena(10 * PAGE);
    struct np_error err;
    void *a = take(arena, 4 * PAGE), *b = take(arena, 4 * PAGE - 1), *c = take(arena, 1), *d = NULL;
    np_arena_give(arena, a, 4 * PAGE);
    ck_assert_uint_eq(np_arena_sums(arena).held, 9 * PAGE);
    ck_assert_ptr_eq(take(arena, 3 * PAGE + 1), a);
    ck_assert_int_eq(np_arena_take(arena, &d, PAGE + 1, &err), NP_EMEM);
    ck_assert_str_eq(err.msg, "the device's memory of 40 KiB is used up: 36 KiB are in use, "
                              "8 KiB were asked for");
    np_arena_give(arena, a, 4 * PAGE);
    np_arena_give(arena, b, 4 * PAGE);
    d = take(arena, 9 * PAGE);
    ck_assert_uint_eq(np_arena_sums(arena).held, 10 * PAGE);
    ck_assert_uint_eq(np_arena_sums(arena).peak, 10 * PAGE);
    np_arena_give(arena, d, 9 * PAGE);
    np_arena_give(arena, c, 1);
    ck_assert_int_eq(np_arena_take(arena, &d, 10 * PAGE + 1, &err), NP_EMEM);
    ck_assert_uint_eq(np_arena_sums(arena).used, 0);
    memset(take(arena, 10 * PAGE), 1, 10 * PAGE);
    np_arena_free(arena);
}
END_TEST

/* The size that was used least recently goes first; what is used in every step stays. */
START_TEST(recent)
{
    struct np_arena *arena = new_arena(10 * PAGE);
    void *a = take(arena, PAGE), *b = take(arena, 2 * PAGE), *c = take(arena, 3 * PAGE);
    np_arena_give(arena, b, 2 * PAGE);
    np_arena_give(arena, c, 3 * PAGE);
    np_arena_give(arena, a, PAGE);
    take(arena, 5 * PAGE);
    ck_assert_uint_eq(np_arena_sums(arena).held, 9 * PAGE);
    ck_assert_ptr_eq(take(arena, PAGE), a);
    ck_assert_ptr_eq(take(arena, 3 * PAGE), c);
    np_arena_free(arena);
}
END_TEST

static long faults(void)
{
    struct rusage usage;
    ck_assert_int_eq(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt;
}

/* Where a block goes because another size wants its room, the system need not clear its pages. */
START_TEST(pages_stay)
{
    enum { LESS = 300, MORE = 330, ROUNDS = 40 };
    struct np_arena *arena = new_arena(MORE * PAGE);
    void *block = take(arena, LESS * PAGE);
    memset(block, 1, LESS * PAGE);
    long before = faults();
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t from = (i % 2 ? MORE : LESS) * PAGE, to = (i % 2 ? LESS : MORE) * PAGE;
        np_arena_give(arena, block, from);
        block = take(arena, to);
        memset(block, (int)i, to);
        ck_assert_uint_eq(np_arena_sums(arena).held, to);
    }
    ck_assert_int_lt(faults() - before, ROUNDS * LESS / 2);
    np_arena_free(arena);
}
END_TEST

START_TEST(edges)
{
    struct np_arena *arena = new_arena(0);
    void *block = arena;
    ck_assert_int_eq(np_arena_take(arena, &block, 0, NULL), NP_OK);
    ck_assert_ptr_null(block);
    np_arena_give(arena, block, 0);
    ck_assert_int_eq(np_arena_take(arena, &block, UINT64_MAX, NULL), NP_EMEM);
    ck_assert_int_eq(np_arena_take(arena, &block, (uint64_t)1 << 62, NULL), NP_EMEM);
    ck_assert_uint_eq(np_arena_sums(arena).held, 0);
    memset(take(arena, 1 << 20), 1, 1 << 20);
    np_arena_free(arena);
    np_arena_free(NULL);
}
END_TEST

/* A block changes hands with its contents; sums, caps and vacant blocks follow. */
START_TEST(hands)
{
    struct np_arena *from = new_arena(8 * PAGE), *to = new_arena(3 * PAGE);
    unsigned char *block, *other, *vacant;
    ck_assert_int_eq(np_arena_take(from, &other, 2 * PAGE, NULL), NP_OK);
    ck_assert_int_eq(np_arena_take(from, &block, 2 * PAGE, NULL), NP_OK);
    ck_assert_int_eq(np_arena_take(from, &vacant, 2 * PAGE, NULL), NP_OK);
    np_arena_give(from, vacant, 2 * PAGE);
    ck_assert_int_eq(np_arena_take(to, &vacant, PAGE, NULL), NP_OK);
    np_arena_give(to, vacant, PAGE);
    memset(block, 7, 2 * PAGE);
    ck_assert_int_eq(np_arena_move(from, to, block, 2 * PAGE, NULL), NP_OK);
    ck_assert(block[0] == 7 && block[2 * PAGE - 1] == 7);
    ck_assert_uint_eq(np_arena_sums(from).used, 2 * PAGE);
    ck_assert_uint_eq(np_arena_sums(from).held, 4 * PAGE);
    ck_assert_uint_eq(np_arena_sums(to).used, 2 * PAGE);
    ck_assert_uint_eq(np_arena_sums(to).held, 3 * PAGE);
    /* Two more pages do not fit, and the block that was not moved is still there. */
    ck_assert_int_eq(np_arena_move(from, to, other, 2 * PAGE, NULL), NP_EMEM);
    ck_assert_uint_eq(np_arena_sums(from).used, 2 * PAGE);
    np_arena_give(from, other, 2 * PAGE);
    /* Back again: a vacant block of the size does not matter. */
    ck_assert_int_eq(np_arena_move(to, from, block, 2 * PAGE, NULL), NP_OK);
    ck_assert_uint_eq(np_arena_sums(to).used, 0);
    ck_assert_uint_eq(np_arena_sums(from).held, 6 * PAGE);
    ck_assert(block[0] == 7);
    np_arena_give(from, block, 2 * PAGE);
    np_arena_free(from);
    np_arena_free(to);
}
END_TEST

struct worker {
    struct np_arena *arena;
    uint32_t state;
    unsigned char mark;
    bool broken;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    unsigned char *blocks[8] = {0};
    uint64_t bytes[8] = {0};
    for (int step = 0; step < STEPS; step++) {
        uint32_t i = draw(&w->state, 8);
        if (blocks[i]) {
            w->broken |= blocks[i][0] != w->mark;
            np_arena_give(w->arena, blocks[i], bytes[i]);
            blocks[i] = NULL;
        } else {
            bytes[i] = 1 + draw(&w->state, 4) * PAGE;
            if (np_arena_take(w->arena, &blocks[i], bytes[i], NULL) == NP_OK)
                blocks[i][0] = w->mark;
        }
    }
    for (uint32_t i = 0; i < 8; i++)
        np_arena_give(w->arena, blocks[i], bytes[i]);
    return NULL;
}

START_TEST(threads)
{
    struct np_arena *arena = new_arena(40 * PAGE);
    struct worker workers[THREADS];
    pthread_t ids[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){arena, i, (unsigned char)i, false};
        ck_assert_int_eq(pthread_create(&ids[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        ck_assert(!workers[i].broken);
    }
    ck_assert_uint_eq(np_arena_sums(arena).used, 0);
    ck_assert_uint_le(np_arena_sums(arena).held, 40 * PAGE);
    np_arena_free(arena);
}
END_TEST

/* A source of blocks that has room for so many bytes. */
struct source {
    uint64_t left;
    int taken, given;
};

static enum np_status take_some(const void *context, void **block, uint64_t bytes,
                                struct np_error *err)
{
    struct source *source = (struct source *)context;
    if (bytes > source->left)
        return np_fail(err, NP_EMEM, "the source is dry");
    source->left -= bytes;
    source->taken++;
    *block = aligned_alloc(NP_ARENA_PAGE, bytes);
    return NP_OK;
}

static void give_some(const void *context, void *block)
{
    struct source *source = (struct source *)context;
    source->left += 2 * PAGE; /* all blocks have this size below, but the last */
    source->given++;
    free(block);
}

/* Blocks come from it and go back to it, vacant ones before a request fails. */
START_TEST(elsewhere)
{
    struct source source = {.left = 4 * PAGE};
    const struct np_arena_source from = {&source, take_some, give_some};
    struct np_arena *arena;
    struct np_error err;
    void *a, *b = NULL;
    ck_assert_int_eq(np_arena_new_from(&arena, 0, &from, NULL), NP_OK);
    a = take(arena, 2 * PAGE);
    np_arena_give(arena, take(arena, 2 * PAGE), 2 * PAGE);
    ck_assert_int_eq(source.taken, 2);
    ck_assert_int_eq(np_arena_take(arena, &b, 3 * PAGE, &err), NP_EMEM);
    ck_assert_str_eq(err.msg, "the source is dry");
    ck_assert_int_eq(source.given, 1);
    np_arena_give(arena, a, 2 * PAGE);
    b = take(arena, 3 * PAGE);
    ck_assert_int_eq(source.given, 2);
    np_arena_free(arena);
    ck_assert_int_eq(source.taken, 3);
    ck_assert_int_eq(source.given, 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *tests = suite_case(suite, "arena");
    tcase_add_loop_test(tests, model, 1, 5);
    tcase_add_test(tests, room);
    tcase_add_test(tests, recent);
    tcase_add_test(tests, pages_stay);
    tcase_add_test(tests, edges);
    tcase_add_test(tests, hands);
    tcase_add_test(tests, elsewhere);
    tcase_add_test(tests, threads);
    return suite_run(suite);
}
