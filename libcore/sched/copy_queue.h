/* A stage's copy queue on a virtual clock: what its context manager asks for, as many copies at a
 * time as the stage has copiers.
 *
 * Units     times in the unit of the costs.
 * Ownership the context is borrowed.
 */
#ifndef NP_SCHED_COPY_QUEUE_H
#define NP_SCHED_COPY_QUEUE_H

#include "sched/span.h"

struct np_copy_queue {
    struct np_context *context;
    int stage;
    struct np_copy_span copier[NP_COPIERS]; /* bytes 0: idle */
};

/* Starts the next copy, if there is one and a copier is free for it; -1: neither. Else it is
 * queue->copier[] of what is returned, until np_copy_queue_end, which says when it ended. */
int np_copy_queue_start(struct np_copy_queue *queue, double now);
struct np_copy_span np_copy_queue_end(struct np_copy_queue *queue, int copier, double now);

/* A layer that is fetched or written is moved; one that is made or dropped takes no time. */
static inline bool np_copy_moves(const struct np_copy *copy)
{
    return copy->kind == NP_COPY_FETCH || copy->kind == NP_COPY_WRITE;
}

#endif
