#include "cuda_runtime.h"

#include <stdio.h>
#include <stdlib.h>

#include "fiber.h"
#include "inside.h"
#include "shared.h"

enum { MOST_THREADS = 1024, WARP = 32 };

enum state { READY, AT_BLOCK, AT_WARP, EXCHANGES, DONE };

struct thread {
    struct fiber fiber;
    enum state state;
    int line;         /* of the barrier it waits at */
    unsigned arrays;  /* shared ones it has declared */
    unsigned turn;    /* of the words that it brings to its warp */
    uint32_t word[2]; /* one is read while the other is written */
    dim3 at;
};

/* The one launch that runs. */
static struct {
    const struct shim_shape *shape;
    void (*call)(const void *);
    const void *body;
    struct fiber_home home;
    struct thread *thread; /* the one that runs */
    unsigned count;
    int any, last_any;
    bool descending;
} now;

struct shim_place shim_place;
static struct thread threads[MOST_THREADS];
static char stacks[MOST_THREADS][FIBER_STACK] __attribute__((aligned(64)));

static void __attribute__((noreturn)) fail(const char *what, const struct thread *t)
{
    fprintf(stderr, "shim: %s, block %u,%u,%u, thread %u, line %d: %s\n", now.shape->name,
            shim_place.block.x, shim_place.block.y, shim_place.block.z, (unsigned)(t - threads),
            t->line, what);
    abort();
}

void shim_fail(const char *what)
{
    fail(what, now.thread);
}

void *shim_shared(size_t bytes)
{
    return shared_array(++now.thread->arrays, bytes);
}

void *shim_shared_dynamic(void)
{
    return shared_dynamic();
}

unsigned shim_room(void)
{
    static const unsigned room[] = {1, 6, 32, 128};
    static unsigned turn;
    return room[turn++ % (sizeof room / sizeof *room)];
}

static void wait(enum state state, int line)
{
    struct thread *t = now.thread;
    t->state = state;
    t->line = line;
    fiber_yield(&now.home, state == DONE);
}

int shim_block(int line, int any)
{
    now.any |= any != 0;
    wait(AT_BLOCK, line);
    return now.last_any;
}

void shim_warp(int line)
{
    wait(AT_WARP, line);
}

/* Waits for the warp's words; the number of those to read. */
static unsigned exchange(int line, uint32_t word)
{
    struct thread *t = now.thread;
    unsigned turn = t->turn++ % 2;
    t->word[turn] = word;
    wait(EXCHANGES, line);
    return turn;
}

static const struct thread *warp_of(const struct thread *t)
{
    return t - (t - threads) % WARP;
}

uint32_t shim_word(int line, uint32_t word, unsigned from)
{
    unsigned turn = exchange(line, word);
    return warp_of(now.thread)[from].word[turn];
}

unsigned shim_ballot(int line, int vote)
{
    unsigned turn = exchange(line, vote != 0), votes = 0;
    for (unsigned lane = 0; lane < WARP; lane++)
        votes |= warp_of(now.thread)[lane].word[turn] << lane;
    return votes;
}

static void enter(void)
{
    fiber_entered(&now.home);
    now.call(now.body);
    wait(DONE, 0);
}

static void resume(struct thread *t)
{
    now.thread = t;
    shim_place.thread = t->at;
    shared_as((unsigned)(t - threads));
    fiber_run(&now.home, &t->fiber);
}

/* Runs a warp until its threads wait for the block or have ended. */
static void run_warp(struct thread *warp, unsigned left)
{
    unsigned lanes = left < WARP ? left : (unsigned)WARP;
    for (;;) {
        unsigned waiting = 0;
        for (unsigned i = 0; i < lanes; i++) {
            struct thread *t = &warp[now.descending ? lanes - 1 - i : i];
            if (t->state == READY)
                resume(t);
            waiting += t->state == AT_WARP || t->state == EXCHANGES;
        }
        if (waiting == 0)
            return;
        if (warp->state == AT_WARP)
            shared_warp_met((unsigned)(warp - threads));
        for (unsigned i = 0; i < WARP; i++) {
            if (waiting != WARP || warp[i].line != warp[0].line)
                fail("lanes of a warp have parted", &warp[i < lanes ? i : 0]);
            warp[i].state = READY;
        }
    }
}

/* All threads are at the same barrier, and go on; false: all have ended. */
static bool next_part(void)
{
    for (unsigned i = 0; i < now.count; i++) {
        struct thread *t = &threads[i];
        if (t->state != threads[0].state || t->line != threads[0].line)
            fail("threads of a block are at different barriers", t);
    }
    if (threads[0].state == DONE)
        return false;
    for (unsigned i = 0; i < now.count; i++)
        threads[i].state = READY;
    shared_met();
    now.last_any = now.any;
    now.any = 0;
    return true;
}

static void run_block(void)
{
    dim3 size = shim_place.block_size;
    shared_begin(now.shape->kernel, now.shape->shared, now.shape->allowed);
    for (unsigned i = 0; i < now.count; i++) {
        struct thread *t = &threads[i];
        t->state = READY;
        t->line = 0;
        t->arrays = t->turn = 0;
        t->at = dim3(i % size.x, i / size.x % size.y, i / size.x / size.y);
        t->fiber.stack = stacks[i];
        fiber_init(&t->fiber, enter);
    }
    do {
        unsigned warps = (now.count + WARP - 1) / WARP;
        for (unsigned i = 0; i < warps; i++) {
            unsigned first = (now.descending ? warps - 1 - i : i) * WARP;
            run_warp(&threads[first], now.count - first);
        }
    } while (next_part());
}

static unsigned grid_most(void)
{
    const char *most = getenv("SHIM_GRID");
    return most ? (unsigned)atoi(most) : 65535;
}

void shim_run(const struct shim_shape *shape, void (*call)(const void *), const void *body)
{
    const dim3 grid = shape->grid, block = shape->block;
    size_t blocks = (size_t)grid.x * grid.y * grid.z;
    now.shape = shape;
    now.call = call;
    now.body = body;
    now.count = block.x * block.y * block.z;
    now.descending = !now.descending;
    now.any = 0;
    now.thread = threads;
    shim_place.grid_size = grid;
    shim_place.block_size = block;
    if (blocks == 0 || now.count == 0 || now.count > MOST_THREADS || grid.x > 0x7fffffff ||
        grid.y > grid_most() || grid.z > grid_most())
        fail("a grid or block of this size cannot be launched", threads);
    for (size_t i = 0; i < blocks; i++) {
        size_t b = now.descending ? blocks - 1 - i : i;
        shim_place.block = dim3((unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                                (unsigned)(b / grid.x / grid.y));
        run_block();
    }
}
