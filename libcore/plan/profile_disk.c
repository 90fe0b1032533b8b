#include "plan/profile_disk.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/memory.h"
#include "io/stash.h"
#include "plan/stage_memory.h"
#include "sched/context.h"

#define ROUND_S 0.15
#define RECORDS 32 /* of each thread */
#define MOST_BYTES ((uint64_t)512 << 20)

/* A thread and its part of the records. */
struct mover {
    struct np_stash *stash;
    const uint64_t *bytes; /* [all records] */
    size_t first, count;
    void *data;
    bool write, once; /* once: every record, however long it takes */
    double until_s;
    uint64_t moved;
    enum np_status status;
    struct np_error err;
    pthread_t thread;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *move(void *argument)
{
    struct mover *m = argument;
    for (size_t i = 0; m->once ? i < m->count : now_s() < m->until_s; i++) {
        size_t record = m->first + i % m->count;
        m->status = m->write ? np_stash_put(m->stash, record, m->data, &m->err)
                             : np_stash_get(m->stash, record, m->data, &m->err);
        if (m->status != NP_OK)
            break;
        m->moved += m->bytes[record];
    }
    return NULL;
}

/* All movers at once, `writers` of them writing; *bandwidth is what they moved together. */
static enum np_status run_round(struct mover *movers, int writers, bool once, uint64_t *bandwidth,
                                struct np_error *err)
{
    enum np_status status = NP_OK;
    double begun = now_s();
    uint64_t moved = 0;
    int started = 0;
    for (; started < NP_COPIERS; started++) {
        struct mover *m = &movers[started];
        m->write = started < writers;
        m->once = once;
        m->until_s = begun + ROUND_S;
        m->moved = 0;
        errno = pthread_create(&m->thread, NULL, move, m);
        if (errno) {
            status = np_fail_errno(err, "cannot start a thread to measure the stash");
            break;
        }
    }
    for (int i = 0; i < started; i++) {
        pthread_join(movers[i].thread, NULL);
        moved += movers[i].moved;
        if (status == NP_OK && movers[i].status != NP_OK)
            status = np_fail(err, movers[i].status, "%s", movers[i].err.msg);
    }
    *bandwidth = 1 + (uint64_t)((double)moved / (now_s() - begun));
    return status;
}

/* Sizes of candidates with weights, evenly from all of them; *count is 0 if there are none. */
static void choose_sizes(uint64_t *bytes, size_t *count, const struct np_supernet *net)
{
    uint64_t sum = 0;
    *count = 0;
    for (size_t i = 0; i < NP_COPIERS * RECORDS && net->layers > 2; i++) {
        uint32_t layer = 1 + (uint32_t)(i * 7919 % (net->layers - 2)); /* not stem and head */
        uint64_t size = np_memory_layer(net, layer);
        if (!size || (sum + size > MOST_BYTES && *count >= NP_COPIERS))
            continue;
        sum += size;
        bytes[(*count)++] = size;
    }
    *count -= *count % NP_COPIERS;
}

enum np_status np_profile_disk(struct np_disk_bandwidth *disk, const char *path,
                               const struct np_supernet *net, struct np_error *err)
{
    enum np_status status;
    struct mover movers[NP_COPIERS];
    uint64_t bytes[NP_COPIERS * RECORDS], largest = 0, ignored;
    struct np_stash *stash = NULL;
    struct np_arena *arena = NULL;
    size_t count;
    *disk = (struct np_disk_bandwidth){0};
    choose_sizes(bytes, &count, net);
    for (size_t i = 0; i < count; i++)
        largest = bytes[i] > largest ? bytes[i] : largest;
    NP_TRY(np_stash_new(&stash, path, bytes, count, err));
    NP_TRY(np_arena_new(&arena, 0, err));
    if (count == 0)
        goto out;
    for (int i = 0; i < NP_COPIERS; i++) {
        size_t part = count / NP_COPIERS;
        movers[i] = (struct mover){
            .stash = stash, .bytes = bytes, .first = (size_t)i * part, .count = part};
        NP_TRY(np_arena_take(arena, &movers[i].data, largest, err));
        memset(movers[i].data, i + 1, largest);
    }
    NP_TRY(run_round(movers, NP_COPIERS, true, &ignored, err));
    NP_TRY(run_round(movers, NP_COPIERS, false, &disk->write, err));
    NP_TRY(run_round(movers, 0, false, &disk->read, err));
    NP_TRY(run_round(movers, NP_COPIERS / 2, false, &disk->both, err));
out:
    np_arena_free(arena);
    np_stash_free(stash);
    return status;
}
