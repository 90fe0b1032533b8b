/* Ranks as devices: their memory, and who they are; their crews are far_crew.c's. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "mpi/calls.h"
#include "mpi/desk.h"
#include "mpi/far_crew.h"
#include "mpi/mpi_device.h"

struct np_ranks {
    struct np_post *post;
    struct np_device_ops ops;     /* of the devices that they are */
    const struct np_device *near; /* this rank's own, and kernels of its */
    const struct np_kernels *kernels;
    pthread_t server; /* on rank 0 */
    bool serves;
};

/* --- memory ---------------------------------------------------------------------------------- */

static enum np_status far_alloc(const struct np_device *device, void **out, uint64_t bytes,
                                struct np_error *err)
{
    uint64_t own;
    enum np_status status =
        np_desk_ask(device->context, device->number,
                    (struct np_head){.a = NP_DESK_ALLOC, .b = bytes}, NULL, &own, err);
    if (status == NP_OK)
        *out = np_far_pointer(np_far_at(device->number, own));
    return status;
}

/* What cannot be sent is found by whoever asks for more. */
static void far_release(const struct np_device *device, void *block)
{
    struct np_head head = {.a = NP_DESK_RELEASE, .b = (uint64_t)(uintptr_t)block};
    struct np_error err;
    if (block)
        np_post_send(device->context, np_far_rank(head.b), &head, NULL, &err);
}

static enum np_status host_alloc(const struct np_device *device, void **out, uint64_t bytes,
                                 struct np_error *err)
{
    return np_device_host.ops->pin(device, out, bytes, err);
}

static void host_release(const struct np_device *device, void *block)
{
    np_device_host.ops->unpin(device, block);
}

/* Memory of ranks is not always the device's own, for layers move (exec/mirror.h); and of a layer
 * that is in the stash both are the host's. */
static enum np_status far_copy(const struct np_device *device, void *to, const void *from,
                               uint64_t bytes, struct np_error *err)
{
    uint64_t target = (uint64_t)(uintptr_t)to, source = (uint64_t)(uintptr_t)from;
    int puts = np_far_rank(target), gets = np_far_rank(source);
    struct np_post_part part = {puts < 0 ? to : (void *)(uintptr_t)from,
                                np_far_own(puts < 0 ? source : target), bytes};
    if (puts < 0 && gets < 0) {
        memcpy(to, from, (size_t)bytes);
        return NP_OK;
    }
    if (puts < 0)
        return np_post_get(device->context, gets, &part, 1, err);
    if (gets < 0)
        return np_post_put(device->context, puts, &part, 1, err);
    return np_fail(err, NP_EIO, "a copy from rank %d to rank %d (a bug in naspipe)", gets, puts);
}

static const struct np_kernels *far_kernels(const struct np_device *device)
{
    (void)device;
    return &np_kernels_far;
}

static const struct np_device_ops far_ops = {.name = "mpi",
                                             .apart = true,
                                             .kernels = far_kernels,
                                             .alloc = far_alloc,
                                             .release = far_release,
                                             .pin = host_alloc,
                                             .unpin = host_release,
                                             .copy = far_copy,
                                             .crew_new = np_far_crew_new,
                                             .crew_free = np_far_crew_free,
                                             .run = np_far_crew_run,
                                             .fill = np_far_crew_fill,
                                             .send = np_far_crew_send,
                                             .reply = np_far_crew_reply,
                                             .watch = np_far_crew_watch,
                                             .mark = np_far_crew_mark,
                                             .reached = np_far_crew_reached,
                                             .await = np_far_crew_await,
                                             .stamp_new = np_far_stamp_new,
                                             .stamp_free = np_far_stamp_free,
                                             .stamp = np_far_crew_stamp,
                                             .after = np_far_crew_after,
                                             .stamp_await = np_far_stamp_await};

/* --- the link -------------------------------------------------------------------------------- */

static enum np_status carry(struct np_link *link, struct np_crew *crew, int from, int to,
                            const struct np_link_part *parts, int count, struct np_error *err)
{
    (void)link;
    return np_far_crew_carry(crew, from, to, parts, count, err);
}

static void link_free(struct np_link *link)
{
    free(link);
}

static const struct np_link_ops link_ops = {.name = "mpi", .carry = carry, .free = link_free};

enum np_status np_ranks_link(struct np_link **out, struct np_ranks *ranks, struct np_error *err)
{
    enum np_status status = np_zalloc(out, 1, sizeof **out, err);
    (void)ranks;
    if (status == NP_OK)
        (*out)->ops = &link_ops;
    return status;
}

/* --- the ranks ------------------------------------------------------------------------------- */

enum np_status np_ranks_of(struct np_ranks **out, struct np_wire *wire, int deadline_s,
                           struct np_error *err)
{
    struct np_ranks *ranks = NULL;
    enum np_status status;
    int count = wire->ranks;
    NP_TRY(np_zalloc(&ranks, 1, sizeof *ranks, err));
    status = np_post_new(&ranks->post, wire, (uint64_t)deadline_s * 1000000000, err);
    wire = NULL;
    if (status == NP_OK && count > NP_RANKS_MOST)
        status =
            np_fail(err, NP_EINPUT, "there are %d ranks: %d are the most", count, NP_RANKS_MOST);
    if (status != NP_OK)
        goto out;
    *out = ranks;
    ranks = NULL;
out:
    if (wire)
        wire->ops->close(wire, true);
    if (ranks)
        np_post_free(ranks->post);
    free(ranks);
    return status;
}

enum np_status np_ranks_open(struct np_ranks **out, int deadline_s, struct np_error *err)
{
    struct np_wire *wire;
    enum np_status status = np_wire_mpi(&wire, err);
    return status == NP_OK ? np_ranks_of(out, wire, deadline_s, err) : status;
}

int np_ranks_rank(const struct np_ranks *ranks)
{
    return np_post_wire(ranks->post)->rank;
}

int np_ranks_count(const struct np_ranks *ranks)
{
    return np_post_wire(ranks->post)->ranks;
}

int np_ranks_among(const struct np_ranks *ranks)
{
    return np_post_wire(ranks->post)->among;
}

int np_ranks_processors(const struct np_ranks *ranks)
{
    return np_post_wire(ranks->post)->processors;
}

enum np_status np_ranks_serve(struct np_ranks *ranks, const struct np_device *near,
                              const struct np_kernels *kernels, struct np_error *err)
{
    return np_desk_serve(ranks->post, near, kernels, NULL, err);
}

enum np_status np_ranks_decline(struct np_ranks *ranks, const struct np_error *why,
                                struct np_error *err)
{
    return np_desk_serve(ranks->post, &np_device_host, NULL, why, err);
}

/* Where it fails, so does the post, which tells whoever trains. */
static void *serve(void *argument)
{
    struct np_ranks *ranks = argument;
    struct np_error err;
    np_desk_serve(ranks->post, ranks->near, ranks->kernels, NULL, &err);
    return NULL;
}

static enum np_status greet(struct np_post *post, int rank, struct np_error *err)
{
    struct np_head head = {.a = NP_DESK_HELLO, .bytes = NP_CALL_BUILD_BYTES};
    char *build;
    enum np_status status = np_zalloc(&build, 1, NP_CALL_BUILD_BYTES, err);
    if (status != NP_OK)
        return status;
    np_call_build(build);
    return np_desk_ask(post, rank, head, build, NULL, err);
}

/* Every rank's device is of the same kind, so their crews want the same scratch. */
enum np_status np_ranks_devices(struct np_ranks *ranks, struct np_device *devices,
                                const struct np_device *near, const struct np_kernels *kernels,
                                struct np_error *err)
{
    enum np_status status;
    ranks->near = near;
    ranks->kernels = kernels;
    ranks->ops = far_ops;
    ranks->ops.name = near->ops->apart ? "mpi-cuda" : "mpi";
    ranks->ops.scratch_bytes = near->ops->scratch_bytes;
    errno = pthread_create(&ranks->server, NULL, serve, ranks);
    if (errno)
        return np_fail_errno(err, "cannot start the thread that serves");
    ranks->serves = true;
    for (int i = 0; i < np_ranks_count(ranks); i++) {
        devices[i] = (struct np_device){.ops = &ranks->ops, .number = i, .context = ranks->post};
        NP_TRY(greet(ranks->post, i, err));
    }
    status = NP_OK;
out:
    return status;
}

enum np_status np_ranks_still_there(struct np_ranks *ranks, struct np_error *err)
{
    return np_post_ask_last(ranks->post, err);
}

void np_ranks_close(struct np_ranks *ranks)
{
    const struct np_head head = {.a = NP_DESK_CLOSE};
    struct np_error err;
    if (!ranks)
        return;
    np_post_rest(ranks->post);
    for (int i = 0; np_ranks_rank(ranks) == 0 && i < np_ranks_count(ranks); i++)
        if (i > 0 || ranks->serves)
            np_post_send(ranks->post, i, &head, NULL, &err);
    if (ranks->serves)
        pthread_join(ranks->server, NULL);
    np_post_free(ranks->post);
    free(ranks);
}
