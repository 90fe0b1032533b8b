/* The partitioner: chooses how a supernet is trained on so many devices.
 *
 * Choice    whatever the request leaves open (0): replicas, stages and threads among the pipelines
 *           that fill the devices, micro-batches among the legal cuts (at grain boundaries),
 *           window, unit and flights in flight (plan/search.h). The alternative with the least
 *           predicted step time wins, as simulated by the engine's own scheduler (sched/sim.h) on
 *           the recipe's own stream; more micro-batches have to save 3 % of it, and so have more
 *           replicas. A supernet with batch norm has one micro-batch.
 * Cut       contiguous, minimising the largest expected stage cost (mean over a block's candidates,
 *           F + B + W), by dynamic programming over positions.
 * Memory    exact (plan/stage_memory.h), with all layers there; a cap bounds each stage
 *           (plan/fit.h).
 * Units     bytes of a stage; nanoseconds of a step.
 */
#ifndef NP_PLAN_PARTITION_H
#define NP_PLAN_PARTITION_H

#include "plan/pipelines.h"
#include "plan/plan.h"

/* What was tried: a pipeline, and the best plan for it. */
struct np_alternative {
    struct np_pipeline pipeline;
    bool fits, chosen;
    uint64_t least_bytes; /* does not fit: what would do; the rest is 0 */
    int window, unit, reach;
    uint64_t largest_bytes; /* of the largest stage, with all its layers there */
    bool resident;          /* they are; else some are in the stash */
    double step_ns, bubble; /* predicted */
};

struct np_alternatives {
    struct np_alternative *list;
    size_t count, capacity;
};
void np_alternatives_clear(struct np_alternatives *tried);

/* The plan, and what it was chosen from: both the caller's to clear, `tried` also after an error.
 * NP_EINPUT: more stages than positions, illegal micro-batches; NP_ENO: nothing fits in memory, and
 * the least of all alternatives that would do. */
enum np_status np_partition(struct np_plan *plan, struct np_alternatives *tried,
                            const struct np_supernet *net,
                            const struct np_partition_request *request, struct np_error *err);

#endif
