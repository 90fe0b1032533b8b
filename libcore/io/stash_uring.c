/* Why a few rings and not one: a ring belongs to one caller at a time, and stages transfer at the
 * same time. A caller takes a free ring or, if all are taken, waits for one. A ring is made when
 * it is first needed.
 */
#define _GNU_SOURCE /* liburing.h */
#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/memory.h"
#include "io/stash_parts.h"

#define RINGS 4
#define DEPTH 8              /* requests under way in a ring */
#define CHUNK (1024U * 1024) /* bytes of a request */

struct np_stash_rings {
    int fd;
    pthread_mutex_t mutex;
    pthread_cond_t given;
    struct io_uring rings[RINGS];
    struct io_uring *idle[RINGS];
    int made, idle_count;
    int failed; /* an errno: a ring holds what could not be sent, and is not used again */
};

/* A request: what is left of its part of the span. */
struct chunk {
    char *data;
    uint64_t offset;
    unsigned bytes;
};

static void queue(struct io_uring *ring, int fd, bool write, struct chunk *chunk)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    assert(sqe); /* never more than DEPTH are under way */
    if (write)
        io_uring_prep_write(sqe, fd, chunk->data, chunk->bytes, chunk->offset);
    else
        io_uring_prep_read(sqe, fd, chunk->data, chunk->bytes, chunk->offset);
    io_uring_sqe_set_data(sqe, chunk);
}

/* The next part of the span. */
static void cut(struct np_stash_span *span, struct chunk *chunk)
{
    chunk->data = span->data;
    chunk->offset = span->offset;
    chunk->bytes = span->bytes < CHUNK ? (unsigned)span->bytes : CHUNK;
    span->data += chunk->bytes;
    span->offset += chunk->bytes;
    span->bytes -= chunk->bytes;
}

/* Takes in one result: an errno, or 0 with what is left of the chunk, from a page on. */
static int take_result(struct chunk *chunk, int result, int *tries)
{
    if (result < 0)
        return np_stash_retried(-result, tries) ? 0 : -result;
    unsigned moved = (unsigned)result - (unsigned)result % NP_STASH_ALIGN;
    if (moved == 0)
        return EIO;
    chunk->data += moved;
    chunk->offset += moved;
    chunk->bytes -= moved;
    *tries = 0;
    return 0;
}

/* After an error nothing new is sent, but what is under way is waited for: it uses the caller's
 * memory. What the kernel has not taken then stays in the ring. */
static int move(struct io_uring *ring, int fd, struct np_stash_span span)
{
    struct chunk chunks[DEPTH], *idle[DEPTH];
    int idle_count = 0, error = 0, tries = 0, sent;
    bool refused = false; /* what is queued */
    while (idle_count < DEPTH) {
        idle[idle_count] = &chunks[idle_count];
        idle_count++;
    }
    for (;;) {
        struct io_uring_cqe *cqe;
        while (!error && span.bytes && idle_count > 0) {
            struct chunk *chunk = idle[--idle_count];
            cut(&span, chunk);
            queue(ring, fd, span.write, chunk);
        }
        if (DEPTH - idle_count == (refused ? (int)io_uring_sq_ready(ring) : 0))
            return error;
        sent = io_uring_submit_and_wait(ring, 1);
        refused = sent < 0 && !np_stash_retried(-sent, &tries);
        if (refused) {
            error = error ? error : -sent;
            np_stash_pause(); /* results come without being waited for, too */
        }
        while (io_uring_peek_cqe(ring, &cqe) == 0) {
            struct chunk *chunk = io_uring_cqe_get_data(cqe);
            int failed = take_result(chunk, cqe->res, &tries);
            io_uring_cqe_seen(ring, cqe);
            error = error ? error : failed;
            if (error || chunk->bytes == 0)
                idle[idle_count++] = chunk;
            else
                queue(ring, fd, span.write, chunk);
        }
    }
}

static bool make_ring(struct np_stash_rings *rings)
{
    struct io_uring *ring = &rings->rings[rings->made];
    if (rings->made == RINGS || io_uring_queue_init(DEPTH, ring, 0) != 0)
        return false;
    rings->idle[rings->idle_count++] = ring;
    rings->made++;
    return true;
}

/* Whether the system lets us send what is in the ring: some allow to make one only. Nothing that
 * uses memory is sent yet. */
static bool sends(struct io_uring *ring)
{
    struct io_uring_cqe *cqe;
    io_uring_prep_nop(io_uring_get_sqe(ring));
    if (io_uring_submit_and_wait(ring, 1) != 1 || io_uring_peek_cqe(ring, &cqe) != 0)
        return false;
    io_uring_cqe_seen(ring, cqe);
    return true;
}

/* Kernels have had rings before they had these reads; only trying tells. */
static bool works(struct np_stash_rings *rings)
{
    _Alignas(NP_STASH_ALIGN) char page[NP_STASH_ALIGN];
    struct np_stash_span first = {.data = page, .bytes = sizeof page};
    return make_ring(rings) && sends(rings->idle[0]) && move(rings->idle[0], rings->fd, first) == 0;
}

struct np_stash_rings *np_stash_rings_new(int fd)
{
    struct np_stash_rings *rings;
    if (np_zalloc(&rings, 1, sizeof *rings, NULL) != NP_OK)
        return NULL;
    rings->fd = fd;
    pthread_mutex_init(&rings->mutex, NULL);
    pthread_cond_init(&rings->given, NULL);
    if (works(rings))
        return rings;
    np_stash_rings_free(rings);
    return NULL;
}

void np_stash_rings_free(struct np_stash_rings *rings)
{
    if (!rings)
        return;
    for (int i = 0; i < rings->made; i++)
        io_uring_queue_exit(&rings->rings[i]);
    pthread_cond_destroy(&rings->given);
    pthread_mutex_destroy(&rings->mutex);
    free(rings);
}

int np_stash_rings_move(struct np_stash_rings *rings, struct np_stash_span span)
{
    struct io_uring *ring;
    int error;
    pthread_mutex_lock(&rings->mutex);
    while (!rings->failed && rings->idle_count == 0 && !make_ring(rings))
        pthread_cond_wait(&rings->given, &rings->mutex);
    error = rings->failed;
    ring = error ? NULL : rings->idle[--rings->idle_count];
    pthread_mutex_unlock(&rings->mutex);
    if (!ring)
        return error;
    error = move(ring, rings->fd, span);
    pthread_mutex_lock(&rings->mutex);
    if (io_uring_sq_ready(ring))
        rings->failed = error;
    else
        rings->idle[rings->idle_count++] = ring;
    pthread_cond_broadcast(&rings->given);
    pthread_mutex_unlock(&rings->mutex);
    return error;
}
