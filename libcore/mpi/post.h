/* The post of a process: letters to other ranks and from them, and their memory. Private to mpi/.
 *
 * A thread of its own waits for what comes, so that a process answers whatever its other threads
 * do. Who has something to send does it himself, where nobody else has the wire just then; nobody
 * ever waits in MPI.
 *
 * Letters   go to a box, which is known by its address in the process that has it (np_box_name; 0:
 *           its desk), and are taken from it in the order one sender sent them.
 * Memory    np_post_put writes another rank's, np_post_get reads it; both return when it is done.
 *           That rank's threads have nothing to do with it: who asks knows that it may. It is its
 *           device's memory; where that is apart, what goes there and comes goes by the host's.
 * Errors    NP_EIO, NP_EMEM: also of all that is asked once the wire has failed, or a rank was
 *           silent for too long.
 * Ownership the post has the wire. Letters taken are the taker's, who frees them.
 * Threads   any; a box is taken from by one.
 */
#ifndef NP_MPI_POST_H
#define NP_MPI_POST_H

#include <pthread.h>

#include "mpi/wire.h"
#include "num/device.h"

struct np_post;

struct np_letter {
    struct np_letter *next;
    struct np_head head; /* a, b and c are the sender's; d is the box */
    bool here;           /* the body has come, too */
    _Alignas(16) char body[];
};

struct np_box {
    struct np_letter *first, *last;
    pthread_cond_t come;
};

/* deadline_ns: rank 0 fails if it has heard nothing of another for so long, and others if they have
 * heard nothing of rank 0 (mpi/pulse.h). */
enum np_status np_post_new(struct np_post **out, struct np_wire *wire, uint64_t deadline_ns,
                           struct np_error *err);
/* What others put into and get from here is this device's memory: the host's, before that. The
 * device is borrowed. */
void np_post_place(struct np_post *post, const struct np_device *device);
/* Whoever waits, or asks for anything, is told this from here on. */
void np_post_fail(struct np_post *post, enum np_status status, const struct np_error *err);
/* When all is done, on rank 0: the others are asked a last time, and answer. NP_EIO: one, which is
 * named, has been silent for the deadline. */
enum np_status np_post_ask_last(struct np_post *post, struct np_error *err);
/* Before the others are told to end: nobody is asked any more whether he is there. */
void np_post_rest(struct np_post *post);
/* When everything that was sent has gone; where the post has failed, all ranks end. */
void np_post_free(struct np_post *post);

static inline uint64_t np_box_name(const struct np_box *box)
{
    return (uint64_t)(uintptr_t)box;
}

void np_box_init(struct np_box *box);
/* Nobody writes to it any more. */
void np_box_clear(struct np_box *box);

/* The box that every process has. */
struct np_box *np_post_desk(struct np_post *post);

/* What it is connected by: only to be asked who this is. */
const struct np_wire *np_post_wire(const struct np_post *post);

/* Sends a letter, whose body is the post's from here on, to be freed; NULL: none. */
enum np_status np_post_send(struct np_post *post, int rank, const struct np_head *head, void *body,
                            struct np_error *err);
/* The next letter; *out is NULL, where it shall not wait, if none is there. */
enum np_status np_post_take(struct np_post *post, struct np_box *box, bool waits,
                            struct np_letter **out, struct np_error *err);

/* Between memory here and at a rank. */
struct np_post_part {
    void *here;
    uint64_t there, bytes; /* there: its own pointer */
};
enum np_status np_post_put(struct np_post *post, int rank, const struct np_post_part *parts,
                           size_t count, struct np_error *err);
enum np_status np_post_get(struct np_post *post, int rank, const struct np_post_part *parts,
                           size_t count, struct np_error *err);

#endif
