/* A stage's copy queue on a virtual clock: what its context manager asks for, as many copies at a
 * time as the stage has copiers.
 *
 * A layer that is fetched or written takes as long as the speed says; one that is made or dropped
 * takes no time.
 *
 * Units     times in the unit of the costs.
 * Ownership the context is borrowed.
 */
#ifndef NP_SCHED_COPY_QUEUE_H
#define NP_SCHED_COPY_QUEUE_H

#include "sched/span.h"

struct np_copy_speed {
    double latency; /* of any copy */
    double fetch_per_byte, write_per_byte;
};

struct np_copy_queue {
    struct np_context *context;
    struct np_copy_speed speed;
    int stage;
    struct np_copy_span copier[NP_COPIERS]; /* bytes 0: idle */
};

/* Starts the next copy, if there is one and a copier is free for it; -1: neither. Else
 * queue->copier[] of what is returned says when it ends, to be told by np_copy_queue_end. */
int np_copy_queue_start(struct np_copy_queue *queue, double now);
void np_copy_queue_end(struct np_copy_queue *queue, int copier);

#endif
