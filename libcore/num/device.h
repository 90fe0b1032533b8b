/* A device: where a stage keeps its memory and runs its kernels: this machine's processors, or a
 * GPU.
 *
 * One interface, two implementations: np_device_host and CUDA's (cuda/cuda_device.h).
 * On a device that is apart from the host, memory is touched by its kernels and by what stands here
 * alone, and what a crew is told to run has been run when np_crew_finish returns, not before.
 *
 * A crew works for a stage: np_crew_run has a function executed by every member of its team (the
 * caller is rank 0). The function calls kernels; what they read and write is the device's.
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
struct np_crew;
struct np_device;

struct np_crew_config {
    int size;                       /* members; a GPU has one whatever it says */
    void *scratch;                  /* memory of the device: */
    size_t scratch_bytes;           /* for each member, whole cache lines */
    size_t fill_bytes, reply_bytes; /* the most between two np_crew_finish */
};

struct np_device_ops {
    const char *name;
    const struct np_kernels *kernels; /* NULL: any instruction set's */
    bool apart;                       /* its memory is not the host's */
    /* What a team wants for attention of `queries` queries in all samples and heads, and `rows`
     * rows of an embedding; NULL: each member what np_kernels_scratch_bytes says. */
    size_t (*scratch_bytes)(size_t queries, size_t rows);
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
    enum np_status (*finish)(struct np_crew *crew, bool *finite, struct np_error *err);
};

struct np_device {
    const struct np_device_ops *ops;
    int number; /* of a GPU */
};

/* What every implementation's crew begins with. */
struct np_crew {
    const struct np_device_ops *ops;
    int size; /* members */
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

static inline void np_crew_free(struct np_crew *crew)
{
    if (crew)
        crew->ops->crew_free(crew);
}

static inline void np_crew_run(struct np_crew *crew,
                               void (*function)(struct np_team *team, void *argument),
                               void *argument)
{
    crew->ops->run(crew, function, argument);
}

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

/* Where kernels may write what the host finds at `to` after np_crew_finish: at `to`, if the
 * device's memory is the host's. It begins as zeros. */
static inline void *np_crew_reply(struct np_crew *crew, void *to, size_t bytes)
{
    return crew->ops->reply(crew, to, bytes);
}

/* Returns when all that was run is done. *finite becomes false (and is not touched else) where a
 * kernel has found what it could not say by what it returned (num/kernels.h). */
static inline enum np_status np_crew_finish(struct np_crew *crew, bool *finite,
                                            struct np_error *err)
{
    return crew->ops->finish(crew, finite, err);
}

#endif
