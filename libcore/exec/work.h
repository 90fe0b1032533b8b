/* One piece of work on a crew: an operator call with its layer's weights, or a sum of gradients.
 *
 * What is found that is not finite is said at once, or when the crew's task is awaited, which says
 * that the work is done (num/device.h).
 *
 * Errors    NP_EMEM when a layer's weights cannot be made.
 * Ownership buffers are borrowed for the call.
 * Threads   one caller per crew; a layer is worked on by one crew at a time.
 */
#ifndef NP_EXEC_WORK_H
#define NP_EXEC_WORK_H

#include "exec/state.h"
#include "num/device.h"
#include "ops/op.h"

enum np_work_kind {
    NP_WORK_FORWARD,
    NP_WORK_RECOMPUTE, /* what F saves, as `forward` says */
    NP_WORK_BACKWARD,
    NP_WORK_WEIGHT, /* onto g if `accumulate` */
    NP_WORK_UPDATE  /* from g */
};

struct np_work {
    enum np_work_kind kind;
    struct np_op_call call; /* team, kind and w are filled in */
    struct np_state *state;
    uint64_t version;     /* of the weights that F and B read */
    const float *weights; /* where they are, but for an update; NULL: in the state */
    struct np_op_forward forward;
    struct np_op_backward backward; /* of W, too */
    float *grain_loss;              /* F of the head, else NULL */
    float *g;
    bool accumulate;
    float lr;
    struct np_update_report *report; /* of an update */
};

enum np_status np_work_run(bool *finite, struct np_crew *crew, const struct np_work *work,
                           struct np_error *err);

/* y = a + b, y = +0; y may be a. False if a sum is not finite. */
bool np_work_add(struct np_crew *crew, const struct np_kernels *kernels, float *y, const float *a,
                 const float *b, size_t count);
void np_work_copy(struct np_crew *crew, const struct np_kernels *kernels, float *y, const float *a,
                  size_t count);
void np_work_zero(struct np_crew *crew, const struct np_kernels *kernels, float *y, size_t count);

#endif
