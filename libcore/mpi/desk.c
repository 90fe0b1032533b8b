/* The desk of a rank: who it is, its memory, and workers for its crews. */
#include "mpi/desk.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "mpi/calls.h"
#include "mpi/worker.h"

enum np_status np_desk_answer(struct np_post *post, int rank, uint64_t box, enum np_status status,
                              uint64_t value, const struct np_error *why, struct np_error *err)
{
    struct np_head head = {.a = status, .b = value, .d = box};
    char *text = NULL;
    if (status != NP_OK && np_strdup(&text, why->msg, NULL) == NP_OK)
        head.bytes = strlen(text) + 1;
    return np_post_send(post, rank, &head, text, err);
}

enum np_status np_desk_ask(struct np_post *post, int rank, struct np_head head, void *body,
                           uint64_t *value, struct np_error *err)
{
    struct np_letter *letter = NULL;
    struct np_box box;
    enum np_status status;
    np_box_init(&box);
    head.c = np_box_name(&box);
    NP_TRY(np_post_send(post, rank, &head, body, err));
    NP_TRY(np_post_take(post, &box, true, &letter, err));
    status = (enum np_status)letter->head.a;
    if (value)
        *value = letter->head.b;
    if (status != NP_OK)
        np_fail(err, status, "rank %d: %s", rank, letter->head.bytes ? letter->body : "no memory");
out:
    free(letter);
    np_box_clear(&box);
    return status;
}

/* Rank 0 comes first with this. */
static enum np_status meet(const struct np_letter *letter, const struct np_error *why,
                           struct np_error *err)
{
    char own_build[NP_CALL_BUILD_BYTES], build[NP_CALL_BUILD_BYTES] = "";
    size_t bytes = (size_t)letter->head.bytes;
    np_call_build(own_build);
    memcpy(build, letter->body, bytes < sizeof build ? bytes : sizeof build - 1);
    if (strcmp(own_build, build) == 0)
        return why ? np_fail(err, NP_EINPUT, "%s", why->msg) : NP_OK;
    return np_fail(err, NP_EINPUT, "it runs naspipe %s, rank 0 runs %s: all must run the same one",
                   own_build, build);
}

static enum np_status serve(struct np_workers *workers, const struct np_letter *letter,
                            const struct np_error *refusal, struct np_error *err)
{
    const struct np_device *device = workers->device;
    const struct np_head *head = &letter->head;
    struct np_order_after stamp;
    struct np_desk_crew crew;
    struct np_error why;
    uint64_t value = 0;
    void *block = NULL;
    enum np_status status;
    switch ((enum np_desk_kind)head->a) {
    case NP_DESK_HELLO:
        status = meet(letter, refusal, &why);
        break;
    case NP_DESK_ALLOC:
        status = np_device_alloc(device, &block, head->b, &why);
        value = (uint64_t)(uintptr_t)block;
        break;
    case NP_DESK_RELEASE:
        np_device_release(device, np_far_pointer(np_far_own(head->b)));
        return NP_OK;
    case NP_DESK_CREW:
        memcpy(&crew, letter->body, sizeof crew);
        status = np_worker_new(workers, &crew, &value, &why);
        break;
    case NP_DESK_AFTER:
        memcpy(&stamp, letter->body, sizeof stamp);
        return np_worker_tell(workers, &stamp, (int)head->from, head->c, err);
    default:
        return np_fail(err, NP_EIO, "rank %u asks for what is not there", head->from);
    }
    return np_desk_answer(workers->post, (int)head->from, head->c, status, value, &why, err);
}

enum np_status np_desk_serve(struct np_post *post, const struct np_device *device,
                             const struct np_kernels *kernels, const struct np_error *why,
                             struct np_error *err)
{
    struct np_workers workers;
    enum np_status status;
    bool closes = false;
    np_post_place(post, device);
    np_workers_init(&workers, post, device, kernels);
    do {
        struct np_letter *letter;
        status = np_post_take(post, np_post_desk(post), true, &letter, err);
        if (status != NP_OK)
            break;
        closes = letter->head.a == NP_DESK_CLOSE;
        if (!closes)
            status = serve(&workers, letter, why, err);
        free(letter);
    } while (!closes && status == NP_OK);
    if (status != NP_OK) {
        struct np_error failed = {status, "a rank's desk has failed"};
        np_post_fail(post, status, err ? err : &failed);
    }
    np_workers_end(&workers);
    return status;
}
