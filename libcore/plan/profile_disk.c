#include "plan/profile_disk.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/memory.h"
#include "io/stash.h"
#include "plan/profile_bench.h"
#include "plan/stage_memory.h"

#define ROUND_S 0.15
#define PAIRS 5 /* of short rounds, without copies and with: the machine's speed moves meanwhile */
#define SHORT_S 0.06
#define MOVERS 2
#define RECORDS 32 /* of each mover */
#define MOST_BYTES ((uint64_t)512 << 20)
#define MOST_PROCESSORS 64
#define FLOATS 16384 /* that a computing thread goes over: they stay in its cache */

enum work { WRITE_ONCE, WRITE, READ, SWAP, COMPUTE };

/* A thread: a mover with its part of the records, or one that computes. */
struct worker {
    enum work work;
    struct np_stash *stash;
    struct np_arena *arena; /* room for one record: another size takes new memory */
    const uint64_t *bytes;  /* [all records] */
    size_t first, count;
    float *data; /* FLOATS, or the largest record; NULL: blocks are written as they are */
    double until_s;
    uint64_t done; /* bytes moved, or passes over the floats */
    enum np_status status;
    struct np_error err;
    pthread_t thread;
};

struct bench {
    struct worker movers[MOVERS], computing[MOST_PROCESSORS];
    int processors;
    double round_s;
    uint64_t moved, computed; /* in the last round */
    double seconds;
};

static enum np_status move(struct worker *w, size_t record)
{
    bool writes = w->work == WRITE_ONCE || w->work == WRITE;
    void *block;
    enum np_status status;
    if (writes && w->data)
        return np_stash_put(w->stash, record, w->data, &w->err);
    if (writes)
        status = np_arena_take(w->arena, &block, w->bytes[record], &w->err);
    else
        status = np_stash_bring(w->stash, record, w->arena, &block, &w->err);
    if (status == NP_OK)
        status = np_stash_send(w->stash, record, w->arena, block, w->work != READ, &w->err);
    return status;
}

static void compute(struct worker *w)
{
    for (size_t i = 0; i < FLOATS; i++)
        w->data[i] = w->data[i] * 0.5f + 1.0f;
    w->done++;
}

static void *run_worker(void *argument)
{
    struct worker *w = argument;
    for (size_t i = 0; w->work == WRITE_ONCE ? i < w->count : np_now_s() < w->until_s; i++) {
        size_t record = w->first + (w->count ? i % w->count : 0);
        if (w->work == COMPUTE) {
            compute(w);
            continue;
        }
        w->status = move(w, record);
        if (w->status != NP_OK)
            break;
        w->done += (w->work == SWAP ? 2 : 1) * w->bytes[record];
    }
    return NULL;
}

/* Starts workers; *started grows by those that run. */
static enum np_status start(struct worker *workers, int count, double until_s, int *started,
                            struct np_error *err)
{
    for (*started = 0; *started < count; ++*started) {
        struct worker *w = &workers[*started];
        w->until_s = until_s;
        w->done = 0;
        errno = pthread_create(&w->thread, NULL, run_worker, w);
        if (errno)
            return np_fail_errno(err, "cannot start a thread to measure the stash");
    }
    return NP_OK;
}

/* Waits for workers, of whom the first failure counts; adds what they did to *done. */
static enum np_status finish(struct worker *workers, int started, uint64_t *done,
                             enum np_status before, struct np_error *err)
{
    *done = 0;
    for (int i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        *done += workers[i].done;
        if (before == NP_OK && workers[i].status != NP_OK)
            before = np_fail(err, workers[i].status, "%s", workers[i].err.msg);
    }
    return before;
}

/* So many movers and computing threads at once. */
static enum np_status run_round(struct bench *b, int movers, int computing, struct np_error *err)
{
    double begun = np_now_s();
    int moving = 0, computes = 0;
    enum np_status status = start(b->movers, movers, begun + b->round_s, &moving, err);
    if (status == NP_OK)
        status = start(b->computing, computing, begun + b->round_s, &computes, err);
    status = finish(b->movers, moving, &b->moved, status, err);
    status = finish(b->computing, computes, &b->computed, status, err);
    b->seconds = np_now_s() - begun;
    return status;
}

/* What movers of these kinds move in a second, all together. */
static enum np_status bandwidth(struct bench *b, uint64_t *out, int movers, const enum work *work,
                                int computing, struct np_error *err)
{
    enum np_status status;
    for (int i = 0; i < movers; i++)
        b->movers[i].work = work[i];
    status = run_round(b, movers, computing, err);
    if (status == NP_OK)
        *out = 1 + (uint64_t)((double)b->moved / b->seconds);
    return status;
}

static enum np_status bandwidths(struct bench *b, struct np_disk_bandwidth *disk, int computing,
                                 struct np_error *err)
{
    static const enum work writes[] = {WRITE, WRITE}, reads[] = {READ, READ},
                           both[] = {WRITE, READ};
    enum np_status status;
    NP_TRY(bandwidth(b, &disk->write, MOVERS, writes, computing, err));
    NP_TRY(bandwidth(b, &disk->read, MOVERS, reads, computing, err));
    NP_TRY(bandwidth(b, &disk->both, MOVERS, both, computing, err));
out:
    return status;
}

/* One pair: computing alone, then while layers go and come. */
static enum np_status lose(struct bench *b, float *ns_per_byte, struct np_error *err)
{
    static const enum work swaps[] = {SWAP, SWAP};
    enum np_status status;
    uint64_t ignored;
    double alone;
    NP_TRY(run_round(b, 0, b->processors, err));
    alone = fmax(1, (double)b->computed);
    NP_TRY(bandwidth(b, &ignored, 2, swaps, b->processors, err));
    double lost_s = (1 - (double)b->computed / alone) * b->round_s * b->processors;
    *ns_per_byte = (float)(1e9 * lost_s / fmax(1, (double)b->moved));
out:
    return status;
}

/* Bytes over the processor time that computing loses to them; 0: none that can be told. */
static enum np_status processor(struct bench *b, uint64_t *out, struct np_error *err)
{
    float ns_per_byte[PAIRS];
    b->round_s = SHORT_S;
    for (int i = 0; i < PAIRS; i++) {
        enum np_status status = lose(b, &ns_per_byte[i], err);
        if (status != NP_OK)
            return status;
    }
    double median = (double)np_profile_median(ns_per_byte, PAIRS);
    if (median > 0)
        *out = 1 + (uint64_t)fmin(1e9 / median, 1e14); /* traces hold no more than 1e15 */
    return NP_OK;
}

/* The size of the next candidate with weights, from number `from` on; 0: there is none. */
static uint64_t next_size(const struct np_supernet *net, size_t from)
{
    uint32_t candidates = net->layers - 2; /* not stem and head */
    uint64_t size = 0;
    for (uint32_t i = 0; !size && i < candidates; i++)
        size = np_memory_layer(net, 1 + (uint32_t)((from + i) % candidates));
    return size;
}

/* Sizes of candidates with weights, evenly from all of them; the count is 0 if there are none. */
static size_t choose_sizes(uint64_t *bytes, const struct np_supernet *net)
{
    uint64_t sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < MOVERS * RECORDS && net->layers > 2; i++) {
        uint64_t size = next_size(net, i * 7919);
        if (!size)
            break;
        if (sum + size > MOST_BYTES && count >= MOVERS)
            continue;
        sum += size;
        bytes[count++] = size;
    }
    return count - count % MOVERS;
}

static enum np_status bench_init(struct bench *b, struct np_stash *stash, struct np_arena *memory,
                                 const struct np_device *device, const uint64_t *bytes,
                                 size_t count, struct np_error *err)
{
    enum np_status status;
    uint64_t largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = bytes[i] > largest ? bytes[i] : largest;
    for (int i = 0; i < MOVERS; i++) {
        struct worker *w = &b->movers[i];
        size_t part = count / MOVERS;
        *w = (struct worker){
            .stash = stash, .bytes = bytes, .first = (size_t)i * part, .count = part};
        NP_TRY(np_device_arena(&w->arena, device, largest, err));
        if (device->ops->apart)
            continue;
        NP_TRY(np_arena_take(memory, &w->data, largest, err));
        memset(w->data, 0, largest);
    }
    for (int i = 0; i < b->processors; i++) {
        b->computing[i] = (struct worker){.work = COMPUTE};
        NP_TRY(np_arena_take(memory, &b->computing[i].data, FLOATS * sizeof(float), err));
    }
out:
    return status;
}

enum np_status np_profile_disk(struct np_disk_bandwidth *disk, struct np_disk_bandwidth *spare,
                               const char *path, const struct np_supernet *net,
                               const struct np_device *device, int processors, struct np_error *err)
{
    static const enum work once[] = {WRITE_ONCE, WRITE_ONCE};
    enum np_status status;
    struct bench *b = NULL;
    uint64_t bytes[MOVERS * RECORDS], ignored;
    size_t count = choose_sizes(bytes, net);
    struct np_stash *stash = NULL;
    struct np_arena *memory = NULL;
    *disk = *spare = (struct np_disk_bandwidth){0};
    NP_TRY(np_zalloc(&b, 1, sizeof *b, err));
    b->round_s = ROUND_S;
    b->processors = processors < MOST_PROCESSORS ? processors : MOST_PROCESSORS;
    if (device->ops->apart)
        b->processors = 0;
    NP_TRY(np_stash_new(&stash, device, path, bytes, count, err));
    NP_TRY(np_arena_new(&memory, 0, err));
    if (count == 0)
        goto out;
    NP_TRY(bench_init(b, stash, memory, device, bytes, count, err));
    NP_TRY(bandwidth(b, &ignored, 2, once, 0, err));
    NP_TRY(bandwidths(b, disk, b->processors, err));
    *spare = *disk;
    if (b->processors == 0)
        goto out;
    NP_TRY(bandwidths(b, spare, b->processors - 1, err));
    NP_TRY(processor(b, &disk->processor, err));
out:
    for (int i = 0; b && i < MOVERS; i++)
        np_arena_free(b->movers[i].arena);
    np_arena_free(memory);
    np_stash_free(stash);
    free(b);
    return status;
}
