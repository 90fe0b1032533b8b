/* The device that the host is: memory as it comes, and crews of threads kept waiting between calls.
 */
#include "num/device.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "num/kernels.h"

struct member {
    struct np_team team;
    struct crew *crew;
    pthread_t thread;
};

struct crew {
    struct np_crew base;
    int started; /* threads made so far, the caller counted */
    struct np_barrier *barrier;
    struct member *members;
    void (*function)(struct np_team *team, void *argument);
    void *argument;
    bool quit;
};

static void check_floats(struct np_team *team, void *argument)
{
    enum np_status *status = argument; /* one a member */
    status[team->rank] = np_float_check(NULL);
}

static void *member_main(void *argument)
{
    struct member *self = argument;
    struct crew *crew = self->crew;
    for (;;) {
        np_team_wait(&self->team);
        if (crew->quit)
            return NULL;
        crew->function(&self->team, crew->argument);
        np_team_wait(&self->team);
    }
}

static void run(struct np_crew *base, void (*function)(struct np_team *team, void *argument),
                void *argument)
{
    struct crew *crew = (struct crew *)base;
    struct np_team *self = &crew->members[0].team;
    crew->function = function;
    crew->argument = argument;
    if (base->size > 1)
        np_team_wait(self);
    function(self, argument);
    if (base->size > 1)
        np_team_wait(self);
}

static void crew_free(struct np_crew *base)
{
    struct crew *crew = (struct crew *)base;
    crew->quit = true;
    if (crew->barrier) {
        np_team_excuse(&crew->members[0].team, base->size - crew->started);
        np_team_wait(&crew->members[0].team);
    }
    for (int rank = 1; rank < crew->started; rank++)
        pthread_join(crew->members[rank].thread, NULL);
    free(crew->members);
    np_barrier_free(crew->barrier);
    free(crew);
}

static enum np_status crew_new(struct np_crew **out, const struct np_device *device,
                               const struct np_crew_config *config, struct np_error *err)
{
    struct crew *crew = NULL;
    int size = config->size;
    enum np_status status, checked[NP_MAX_TEAM];
    assert(size <= NP_MAX_TEAM);
    NP_TRY(np_zalloc(&crew, 1, sizeof *crew, err));
    crew->base = (struct np_crew){.ops = device->ops, .size = size};
    crew->started = 1;
    NP_TRY(np_zalloc(&crew->members, (size_t)size, sizeof *crew->members, err));
    if (size > 1)
        NP_TRY(np_barrier_new(&crew->barrier, size, err));
    for (int rank = 0; rank < size; rank++) {
        struct member *m = &crew->members[rank];
        m->crew = crew;
        m->team = (struct np_team){.rank = rank, .size = size, .barrier = crew->barrier};
        m->team.scratch = (char *)config->scratch + (size_t)rank * config->scratch_bytes;
        m->team.scratch_bytes = config->scratch_bytes;
    }
    for (int rank = 1; rank < size; rank++, crew->started++) {
        struct member *m = &crew->members[rank];
        errno = pthread_create(&m->thread, NULL, member_main, m);
        if (errno) {
            status = np_fail_errno(err, "cannot start thread %d of %d", rank + 1, size);
            goto out;
        }
    }
    run(&crew->base, check_floats, checked);
    for (int rank = 0; rank < size; rank++)
        if (checked[rank] != NP_OK)
            NP_TRY(np_fail(err, checked[rank],
                           "a thread rounds or flushes numbers otherwise than IEEE 754 has it"));
    *out = &crew->base;
    return NP_OK;
out:
    if (crew)
        crew_free(&crew->base);
    return status;
}

static void *fill(struct np_crew *crew, void *to, size_t bytes)
{
    (void)crew, (void)bytes;
    return to;
}

static void send(struct np_crew *crew, void *to, const void *from, size_t bytes)
{
    (void)crew, (void)to, (void)from, (void)bytes;
}

static void *reply(struct np_crew *crew, void *to, size_t bytes)
{
    (void)crew;
    return memset(to, 0, bytes);
}

static void watch(struct np_crew *crew, bool *finite)
{
    (void)crew, (void)finite;
}

static uint64_t mark(struct np_crew *crew, struct np_stamp *stamp)
{
    (void)crew, (void)stamp;
    return 0;
}

static bool reached(struct np_crew *crew, uint64_t mark)
{
    (void)crew, (void)mark;
    return true;
}

static enum np_status await(struct np_crew *crew, uint64_t mark, struct np_error *err)
{
    (void)crew, (void)mark, (void)err;
    return NP_OK;
}

static enum np_status stamp_new(struct np_stamp **out, struct np_crew *crew, struct np_error *err)
{
    (void)crew, (void)err;
    *out = NULL;
    return NP_OK;
}

static void stamp(struct np_crew *crew, struct np_stamp *stamp)
{
    (void)crew, (void)stamp;
}

static enum np_status stamp_await(struct np_crew *crew, struct np_stamp *stamp,
                                  struct np_error *err)
{
    (void)crew, (void)stamp, (void)err;
    return NP_OK;
}

static enum np_status alloc(const struct np_device *device, void **out, uint64_t bytes,
                            struct np_error *err)
{
    (void)device;
    return np_alloc(out, (size_t)bytes, 1, err);
}

static void release(const struct np_device *device, void *block)
{
    (void)device;
    free(block);
}

static enum np_status copy(const struct np_device *device, void *to, const void *from,
                           uint64_t bytes, struct np_error *err)
{
    (void)device, (void)err;
    memcpy(to, from, (size_t)bytes);
    return NP_OK;
}

static const struct np_device_ops host_ops = {.name = "cpu",
                                              .alloc = alloc,
                                              .release = release,
                                              .pin = alloc,
                                              .unpin = release,
                                              .copy = copy,
                                              .crew_new = crew_new,
                                              .crew_free = crew_free,
                                              .run = run,
                                              .fill = fill,
                                              .send = send,
                                              .reply = reply,
                                              .watch = watch,
                                              .mark = mark,
                                              .reached = reached,
                                              .await = await,
                                              .stamp_new = stamp_new,
                                              .stamp = stamp,
                                              .after = stamp,
                                              .stamp_await = stamp_await};

const struct np_device np_device_host = {.ops = &host_ops};

static enum np_status take_block(const void *context, void **out, uint64_t bytes,
                                 struct np_error *err)
{
    return np_device_alloc(context, out, bytes, err);
}

static void give_block(const void *context, void *block)
{
    np_device_release(context, block);
}

enum np_status np_device_arena(struct np_arena **out, const struct np_device *device, uint64_t cap,
                               struct np_error *err)
{
    const struct np_arena_source source = {device, take_block, give_block};
    return np_arena_new_from(out, cap, device->ops->apart ? &source : NULL, err);
}

static enum np_status pin_block(const void *context, void **out, uint64_t bytes,
                                struct np_error *err)
{
    const struct np_device *device = context;
    return device->ops->pin(device, out, bytes, err);
}

static void unpin_block(const void *context, void *block)
{
    const struct np_device *device = context;
    device->ops->unpin(device, block);
}

enum np_status np_device_pinned_arena(struct np_arena **out, const struct np_device *device,
                                      struct np_error *err)
{
    const struct np_arena_source source = {device, pin_block, unpin_block};
    return np_arena_new_from(out, 0, device->ops->apart ? &source : NULL, err);
}

enum np_status np_crew_add_helpers(struct np_crew *crew, int count, struct np_error *err)
{
    const struct np_crew_config config = {.size = count};
    return np_crew_new(&crew->helpers, &np_device_host, &config, err);
}

void np_crew_help(struct np_crew *crew, void (*function)(struct np_team *team, void *argument),
                  void *argument)
{
    struct np_team alone = {.size = 1};
    if (!crew->ops->apart)
        np_crew_run(crew, function, argument);
    else if (crew->helpers)
        np_crew_run(crew->helpers, function, argument);
    else
        function(&alone, argument);
}
