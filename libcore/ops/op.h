/* Layer operators: forward, backward-input and backward-weight of every kind of layer.
 *
 * A candidate is a pre-norm residual sub-block: y = x + dropout(branch(layernorm(x))). The stem
 * maps tokens to activations, the head maps activations to a loss per row. Operators are built from
 * the kernel table only; they run on a team (every member calls with its own `team`), wait inside
 * where one kernel reads another's result, and return after a wait, so results are complete.
 *
 * Shapes    x, y, dx, dy: [R][C], R = samples * T rows of one micro-batch.
 *           saved: what F leaves for B and W; delta: what B leaves for W; work: scratch of one call.
 *           Sizes in floats from np_op_sizes; every part of them starts on a cache line. W reads
 *           x and dy again, so they live until then. Without training a call needs no delta, no
 *           work.
 *
 * Order     weight gradients are chunked sums over rows with grains of `grain` samples, continued
 *           over micro-batches and members by `accumulate` (num/kernels.h); lightconv's kernel
 *           gradient is reduced per grain and the grains added in order.
 *
 * Errors    none; false where this member saw a value that is not finite.
 *
 * Ownership nothing is kept after a call.
 */
#ifndef NP_OPS_OP_H
#define NP_OPS_OP_H

#include "space/supernet.h"

#define NP_NORM_EPS 1e-5f

struct np_op_sizes {
    size_t saved, delta, work; /* floats */
};

struct np_op_call {
    const struct np_kernels *kernels;
    struct np_team *team;
    const struct np_kind *kind;
    const float *w;      /* the layer's weights */
    size_t samples;      /* of this micro-batch */
    size_t grain;        /* samples a grain */
    size_t first;        /* first sample's index in the mini-batch */
    uint64_t seed, step; /* with member and layer: the address of dropout */
    uint32_t member, layer;
    bool train;                      /* false: no dropout, saved may be reused at once */
    const int32_t *tokens, *targets; /* [samples * T]: stem; head */
    float *loss;                     /* head: [samples * T], one loss a row */
    float smoothing;                 /* head: label smoothing */
    float scale;                     /* head: of the loss gradient, 1 / rows of the mini-batch */
    float *saved, *delta, *work;
};

struct np_op_sizes np_op_sizes(const struct np_kind *kind, size_t samples);

/* y from x (stem: x NULL; head: y NULL, fills loss). y is not x, except identity's. */
bool np_op_forward(const struct np_op_call *call, float *y, const float *x);
/* dx from dy (head: dy NULL; the stem has no backward-input). dx is neither x nor dy
 * (identity: may be dy). */
bool np_op_backward(const struct np_op_call *call, float *dx, const float *x, const float *dy);
/* The layer's gradient slab g from what F and B left (accumulate false: g is overwritten). */
void np_op_weight(const struct np_op_call *call, float *g, const float *x, const float *dy,
                  bool accumulate);

/* The loss of each grain of a head's forward: grain_loss[i] = lane sum of its rows' losses, summed
 * by member 0 alone, without a wait; other members return at once. samples is whole grains. */
void np_op_grain_losses(const struct np_op_call *call, float *grain_loss);

#endif
