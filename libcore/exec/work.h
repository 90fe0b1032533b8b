/* One piece of work on one layer: an operator call on a crew, with the layer's weights.
 *
 * Errors    NP_EMEM when a layer's weights cannot be made.
 * Ownership buffers are borrowed for the call.
 * Threads   one caller per crew; a layer is worked on by one crew at a time.
 */
#ifndef NP_EXEC_WORK_H
#define NP_EXEC_WORK_H

#include "exec/crew.h"
#include "exec/state.h"
#include "ops/op.h"

struct np_work {
    struct np_op_call call; /* team, kind and w are filled in */
    struct np_state *state;
    uint64_t version; /* of the weights, for F and B */
    /* what is to be done, in this order */
    bool forward, backward, weight, update;
    float *y, *dx, *g;
    const float *x, *dy;
    float *grain_loss; /* F of the head */
    bool accumulate;   /* of weight */
    float lr;          /* of update */
};

struct np_work_result {
    bool finite;
    uint64_t fingerprint; /* of an update */
};

enum np_status np_work_run(struct np_work_result *result, struct np_crew *crew,
                           const struct np_work *work, struct np_error *err);

#endif
