/* A device: where a stage keeps its memory and runs its kernels: this machine's processors, a GPU,
 * or another process.
 *
 * One interface, three implementations: np_device_host, CUDA's (cuda/cuda_device.h) and MPI's
 * (mpi/mpi_device.h).
 * On a device that is apart from the host, memory is touched by its kernels and by what stands here
 * alone.
 *
 * A crew works for a stage: np_crew_run has a function executed by every member of its team (the
 * caller is rank 0). The function calls kernels; what they read and write is the device's.
 *
 * Order     What a crew is told to do (run, fill and send, reply) is done in the order it was told.
 *           On the host it is done when the call returns, and nothing below waits. A device apart
 *           is told, and does it later. Who wants to know:
 *           - the host, what came of it: np_crew_mark ends a task, and when np_crew_await has
 *             returned, the task is done, its replies are where they were asked for, and what it
 *             found not to be finite is said;
 *           - other crews and copies, that they may read or overwrite what it has used:
 *             np_crew_stamp notes how far a crew has been told, and np_crew_after has another one
 *             do nothing more until the device is there; np_stamp_await waits for it.
 *
 * Errors    NP_EMEM; NP_EIO of threads and of the device; NP_EINPUT from np_float_check.
 * Ownership a crew's scratch is borrowed until np_crew_free. Devices live longer than what is made
 *           on them.
 * Threads   a crew has one caller at a time; the rest is anyone's.
 */
#ifndef NP_NUM_DEVICE_H
#define NP_NUM_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "num/team.h"

struct np_kernels;
struct np_products;
struct np_crew;
struct np_device;

struct np_stamp;

#define NP_CREW_AHEAD 4 /* tasks that have ended for the host, and are not awaited yet, at most */

/* The most that anything run on a device asks of a team's scratch. */
struct np_extent {
    size_t queries; /* of attention, in all samples and heads */
    size_t rows;    /* of an embedding */
    size_t product; /* floats of a product's three matrices, of a grain (num/products.h) */
};

struct np_crew_config {
    int size;             /* members; a GPU has one whatever it says */
    void *scratch;        /* memory of the device: */
    size_t scratch_bytes; /* for each member, whole cache lines */
    /* The most of a task, which np_crew_mark ends: */
    size_t fill_bytes, reply_bytes;
    size_t watches, replies;
};

struct np_device_ops {
    const char *name;
    bool apart; /* its memory is not the host's */
    /* NULL: any instruction set's, and each member of a team wants what np_kernels_scratch_bytes
     * says. */
    const struct np_kernels *(*kernels)(const struct np_device *device);
    size_t (*scratch_bytes)(const struct np_device *device, const struct np_extent *extent);
    enum np_status (*alloc)(const struct np_device *device, void **out, uint64_t bytes,
                            struct np_error *err);
    void (*release)(const struct np_device *device, void *block);
    /* Memory of the host that is copied to and from the device as fast as can be. */
    enum np_status (*pin)(const struct np_device *device, void **out, uint64_t bytes,
                          struct np_error *err);
    void (*unpin)(const struct np_device *device, void *block);
    enum np_status (*copy)(const struct np_device *device, void *to, const void *from,
                           uint64_t bytes, struct np_error *err);
    enum np_status (*crew_new)(struct np_crew **out, const struct np_device *device,
                               const struct np_crew_config *config, struct np_error *err);
    void (*crew_free)(struct np_crew *crew);
    void (*run)(struct np_crew *crew, void (*function)(struct np_team *team, void *argument),
                void *argument);
    void *(*fill)(struct np_crew *crew, void *to, size_t bytes);
    void (*send)(struct np_crew *crew, void *to, const void *from, size_t bytes);
    void *(*reply)(struct np_crew *crew, void *to, size_t bytes);
    void (*watch)(struct np_crew *crew, bool *finite);
    uint64_t (*mark)(struct np_crew *crew, struct np_stamp *stamp);
    bool (*reached)(struct np_crew *crew, uint64_t mark);
    enum np_status (*await)(struct np_crew *crew, uint64_t mark, struct np_error *err);
    enum np_status (*stamp_new)(struct np_stamp **out, struct np_crew *crew, struct np_error *err);
    void (*stamp_free)(struct np_stamp *stamp, struct np_crew *crew);
    void (*stamp)(struct np_crew *crew, struct np_stamp *stamp);
    void (*after)(struct np_crew *crew, struct np_stamp *stamp);
    enum np_status (*stamp_await)(struct np_crew *crew, struct np_stamp *stamp,
                                  struct np_error *err);
};

struct np_device {
    const struct np_device_ops *ops;
    int number;                   /* of a GPU, of a rank */
    void *context;                /* a rank's: the implementation's */
    struct np_products *products; /* NULL: they are the portable numerics' */
};

/* What every implementation's crew begins with. */
struct np_crew {
    const struct np_device_ops *ops;
    int size;                /* members */
    struct np_crew *helpers; /* of the host, where the device is apart; NULL: none */
};

/* This machine's processors. */
extern const struct np_device np_device_host;

/* Memory of the device, NP_ALIGN-aligned, undefined; release accepts NULL. */
static inline enum np_status np_device_alloc(const struct np_device *device, void *out_pointer,
                                             uint64_t bytes, struct np_error *err)
{
    return device->ops->alloc(device, (void **)out_pointer, bytes, err);
}

static inline void np_device_release(const struct np_device *device, void *block)
{
    device->ops->release(device, block);
}

/* An arena of the device's memory; and one of the host's that is pinned for it. */
enum np_status np_device_arena(struct np_arena **out, const struct np_device *device, uint64_t cap,
                               struct np_error *err);
enum np_status np_device_pinned_arena(struct np_arena **out, const struct np_device *device,
                                      struct np_error *err);

/* From and to the memory of the device or of the host, when no crew works with either. Returns when
 * it is done; what crews and other threads do goes on meanwhile. */
static inline enum np_status np_device_copy(const struct np_device *device, void *to,
                                            const void *from, uint64_t bytes, struct np_error *err)
{
    return device->ops->copy(device, to, from, bytes, err);
}

static inline enum np_status np_crew_new(struct np_crew **out, const struct np_device *device,
                                         const struct np_crew_config *config, struct np_error *err)
{
    return device->ops->crew_new(out, device, config, err);
}

/* Gives a crew of a device apart so many helpers on the host, which end with it. */
enum np_status np_crew_add_helpers(struct np_crew *crew, int count, struct np_error *err);

static inline void np_crew_free(struct np_crew *crew)
{
    if (!crew)
        return;
    np_crew_free(crew->helpers);
    crew->ops->crew_free(crew);
}

static inline void np_crew_run(struct np_crew *crew,
                               void (*function)(struct np_team *team, void *argument),
                               void *argument)
{
    crew->ops->run(crew, function, argument);
}

/* Has a function that works on the host's memory alone executed there at once: by the crew, if the
 * device is the host, else by its helpers, or by the caller as a team of one. */
void np_crew_help(struct np_crew *crew, void (*function)(struct np_team *team, void *argument),
                  void *argument);

/* Where the host may write what np_crew_send then brings to `to`, in the device's memory: there, if
 * it is the host's. */
static inline void *np_crew_fill(struct np_crew *crew, void *to, size_t bytes)
{
    return crew->ops->fill(crew, to, bytes);
}

static inline void np_crew_send(struct np_crew *crew, void *to, const void *from, size_t bytes)
{
    crew->ops->send(crew, to, from, bytes);
}

/* Where kernels may write what the host finds at `to` once the task is awaited: at `to`, if the
 * device's memory is the host's. It begins as zeros. */
static inline void *np_crew_reply(struct np_crew *crew, void *to, size_t bytes)
{
    return crew->ops->reply(crew, to, bytes);
}

/* From here to the next watch, what a kernel finds and could not say by what it returned
 * (num/kernels.h) makes *finite false (which is not touched else) once the task is awaited. */
static inline void np_crew_watch(struct np_crew *crew, bool *finite)
{
    crew->ops->watch(crew, finite);
}

/* Ends a task, whose number is returned; what the crew has been told so far is noted by the stamp,
 * too, unless that is NULL. */
static inline uint64_t np_crew_mark(struct np_crew *crew, struct np_stamp *stamp)
{
    return crew->ops->mark(crew, stamp);
}

/* Whether the task is over: np_crew_await will return at once. */
static inline bool np_crew_reached(struct np_crew *crew, uint64_t mark)
{
    return crew->ops->reached(crew, mark);
}

/* Returns when the task is done; tasks are awaited in order, one after the other. */
static inline enum np_status np_crew_await(struct np_crew *crew, uint64_t mark,
                                           struct np_error *err)
{
    return crew->ops->await(crew, mark, err);
}

/* Ends a task and returns when it is done; no other is under way. */
static inline enum np_status np_crew_finish(struct np_crew *crew, struct np_error *err)
{
    return np_crew_await(crew, np_crew_mark(crew, NULL), err);
}

/* A stamp of a crew, which notes nothing yet; NULL on the host, and then so in what follows. */
static inline enum np_status np_stamp_new(struct np_stamp **out, struct np_crew *crew,
                                          struct np_error *err)
{
    return crew->ops->stamp_new(out, crew, err);
}

static inline void np_stamp_free(struct np_stamp *stamp, struct np_crew *crew)
{
    if (stamp)
        crew->ops->stamp_free(stamp, crew);
}

/* The stamp notes all that its crew has been told so far. */
static inline void np_crew_stamp(struct np_crew *crew, struct np_stamp *stamp)
{
    crew->ops->stamp(crew, stamp);
}

/* What the crew is told from here on begins when all that a stamp, of any crew on a device of the
 * same kind, notes now is done. */
static inline void np_crew_after(struct np_crew *crew, struct np_stamp *stamp)
{
    crew->ops->after(crew, stamp);
}

/* Returns when all that a stamp of the crew notes now is done; called by any thread. */
static inline enum np_status np_stamp_await(struct np_crew *crew, struct np_stamp *stamp,
                                            struct np_error *err)
{
    return crew->ops->stamp_await(crew, stamp, err);
}

#endif
