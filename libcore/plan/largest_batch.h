/* The largest batch that fits into the request's memory, by the memory model's exact bytes.
 *
 * A batch fits if some alternative of np_partition does with it, at its least: one flight, one
 * candidate on the device. Batches are multiples of the recipe's grain; the number of micro-batches
 * divides their grains, so not every smaller batch fits as well, but no larger one does.
 *
 * Units     samples; bytes of a stage.
 */
#ifndef NP_PLAN_LARGEST_BATCH_H
#define NP_PLAN_LARGEST_BATCH_H

#include "plan/pipelines.h"

struct np_largest_batch {
    int batch;
    struct np_pipeline pipeline; /* with which it fits */
    uint64_t least_bytes;        /* of its largest stage */
    bool most;                   /* it is as large as a recipe's may be */
};

/* The request has a memory. NP_ENO: not even the smallest batch fits, and what would do; NP_EINPUT:
 * more stages than positions, several micro-batches where batch norm needs one. */
enum np_status np_largest_batch(struct np_largest_batch *largest, const struct np_supernet *net,
                                const struct np_partition_request *request, struct np_error *err);

#endif
