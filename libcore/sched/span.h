/* What ran where and when: tasks and copies, measured or simulated.
 *
 * Units     times count from any common origin, in nanoseconds or in units of cost; bytes on the
 *           device, as the arena counts them.
 */
#ifndef NP_SCHED_SPAN_H
#define NP_SCHED_SPAN_H

#include "sched/context.h"
#include "sched/sched.h"

struct np_span {
    struct np_task task;
    double start, end;
    double stall; /* of the time between, it waited for layers */
};

/* A layer that is made or dropped takes place, or gives it back, and nothing is copied. */
struct np_copy_span {
    struct np_copy copy;
    int stage, copier;
    uint64_t bytes;
    double start, end;
};

#endif
