/* The partitioner: cuts a supernet into stages and chooses micro-batches and window.
 *
 * Cut       contiguous, minimising the largest expected stage cost (mean over a block's candidates,
 *           F + B + W), by dynamic programming over positions.
 * Choice    whatever the request leaves open (0): micro-batches among the legal cuts (at grain
 *           boundaries), window, unit; the candidate with the least predicted step time wins, as
 *           simulated by the engine's own scheduler (sched/sim.h) on the recipe's own stream.
 *           A supernet with batch norm has one micro-batch.
 * Memory    exact (plan/stage_memory.h), with all layers there. Under a cap, for each number of
 *           micro-batches and window, the cut with as many flights in flight as fit; in the end
 *           fewer, as far as that costs next to no time.
 */
#ifndef NP_PLAN_PARTITION_H
#define NP_PLAN_PARTITION_H

#include "plan/plan.h"
#include "plan/profile.h"

struct np_partition_request {
    int stages, micro_batches, window, unit, threads; /* 0: choose */
    bool model;                                       /* costs from FLOPs instead of measuring */
    uint64_t memory_bytes;                            /* cap per stage; 0: none */
    const char *cache; /* directory of the profile cache; NULL: none */
    const struct np_kernels *kernels;
    int processors; /* of this machine */
    /* Called before each number of micro-batches is measured and judged; may be NULL. */
    void (*progress)(void *context, int micro_batches, int grains);
    void *context;
};

/* NP_EINPUT: more stages than positions, illegal micro-batches; NP_ENO: nothing fits in memory. */
enum np_status np_partition(struct np_plan *plan, const struct np_supernet *net,
                            const struct np_partition_request *request, struct np_error *err);

/* Fills in step_ns and bubble: the first `steps` steps of the recipe's stream, simulated. */
enum np_status np_plan_predict(struct np_plan *plan, const struct np_supernet *net, uint64_t steps,
                               struct np_error *err);

#endif
