/* Layer operators: forward, backward-input and backward-weight of every kind of layer, by running
 * its program (space/program.h).
 *
 * A layer maps x (and memory, and sum) to y; the stem maps a batch's inputs to activations, the
 * head maps activations to a loss per row. Operators are built from the kernel table only; they run
 * on a team (every member calls with its own `team`), wait inside where one kernel reads another's
 * result, and return after a wait, so results are complete.
 *
 * Shapes    x, memory, sum, y and their gradients: as the kind's program says, samples of one
 *           micro-batch. saved: what F leaves for B and W; delta: what B leaves for W; work:
 *           scratch of one call. Sizes in floats from np_op_sizes; every part of them starts on a
 *           cache line. W reads x, memory and dy again, so they live until then. Without training a
 *           call needs no delta.
 *
 * Order     values: space/program.h names nodes and the order of gradients, num/kernels.h what each
 *           computes. x's and memory's gradients begin with the call's base. Weight gradients are
 *           chunked sums over rows with grains of `grain` samples (positions' tables: over
 *           samples), continued over micro-batches and members by `accumulate`. What kernels leave
 *           open, every operation rounded, R rows, P positions of a sample, a group's lanes its
 *           channels:
 *           batch norm    mean = col_sum(x) / R, var = col_square(x) / R, rstd = 1 / sqrt(var +
 *                         eps), grains of 0; sum and dot as colnorm_grad_sums gives them, a =
 *                         (gamma * sum) / R, b = (gamma * dot) / R; dgamma grows by dot and dbeta
 *                         by sum, one addition a member.
 *           group norm    the same of each sample, N = P * C/groups for R, and lane sums over a
 *                         group of col_sum, col_square, gamma * sum and gamma * dot; dgamma and
 *                         dbeta grow by each sample's dot and sum + 0, in ascending order.
 *           global pool   col_sum(x) / P; dx = dy / P. channel scale: ds = col_dot(dy, x), of
 *                         a scale as large as x of single rows.
 *           lightconv     the kernel's gradient is reduced per grain (lane sums over a head's
 *                         channels, softmax_grad), and the grains are added in order.
 *           dropout       draws by NP_DRAW_DROPOUT, member, layer, and as tensor the number of
 *                         dropouts before it in the program; elements count from the mini-batch's
 *                         first. drop-path: NP_DRAW_PATH, drop-paths, samples.
 *
 * Errors    none; false where this member saw a value that is not finite. (An embedding's gradient
 *           is not looked at, nor what a maximum or relu of a finite value hides; the update is.)
 *
 * Ownership nothing is kept after a call.
 */
#ifndef NP_OPS_OP_H
#define NP_OPS_OP_H

#include "num/device.h"
#include "space/supernet.h"

#define NP_NORM_EPS 1e-5f

struct np_op_sizes {
    size_t saved, delta, work; /* floats */
};

/* Where batch norm takes its statistics from. */
enum np_norm_mode {
    NP_NORM_BATCH, /* from the mini-batch */
    NP_NORM_SUM,   /* from the mini-batch, and adds them to norm_stats */
    NP_NORM_FIXED  /* from norm_stats */
};

struct np_op_call {
    const struct np_kernels *kernels;
    struct np_team *team;
    const struct np_kind *kind;
    const float *w;      /* the layer's weights; of a part: its whole's */
    size_t samples;      /* of this micro-batch */
    size_t grain;        /* samples a grain */
    size_t first;        /* first sample's index in the mini-batch */
    uint64_t seed, step; /* with member and layer: the address of dropout */
    uint32_t member, layer;
    bool train; /* false: no dropout, saved may be reused at once */
    enum np_norm_mode norm;
    float *norm_stats;   /* [kind->norm_floats]: mean, then variance, of each batch norm */
    const float *images; /* of the batch, where the program reads them */
    const int32_t *tokens, *source, *targets;
    const int32_t *lengths; /* [samples] where the program's attention is padded */
    float *loss;            /* head: one loss a row */
    int32_t *hits;   /* head, or NULL: 1 for a row whose target has the largest logit, the first
                              if several have; else 0 */
    float smoothing; /* head: label smoothing */
    /* head, NULL without: [rows][classes] probabilities, which F of the step's first member writes
     * and B of the others, `distill` of their loss being towards these, reads. */
    float *soft;
    float distill;
    float scale; /* head: of the loss gradient, 1 / targets of the mini-batch */
    float *saved, *delta, *work;
};

struct np_op_sizes np_op_sizes(const struct np_kind *kind, size_t samples);
/* The scratch of each member of a team that runs any of the supernet's layers. */
size_t np_ops_scratch_bytes(const struct np_supernet *net);
/* What any layer asks of a device's scratch at most, for `samples` samples. */
struct np_extent np_ops_extent(const struct np_supernet *net, size_t samples);

/* Rows of a sample in the longest value of any layer. */
size_t np_ops_rows(const struct np_supernet *net);

/* What a layer reads and writes; NULL where it has none (the head writes no y). */
struct np_op_forward {
    const float *x, *memory, *sum;
    float *y; /* none of the others */
};

/* dx = base + what the layer gives back, if base is not NULL; so is dmemory. A gradient that the
 * layer does not give (np_op_gives) is not written. sum's gradient is dy. */
struct np_op_backward {
    const float *x, *memory, *dy; /* dy: NULL for the head */
    float *dx, *dmemory; /* neither is an input, but each may be its base; NULL: not wanted */
    const float *base, *memory_base;
};

bool np_op_forward(const struct np_op_call *call, const struct np_op_forward *io);
/* The forward pass again, as far as B and W read what it leaves in `saved`: the same bits, for a
 * call whose `saved` was used by another since. `io` is as F had it, but y is scratch, of as many
 * floats (the head: NULL); the loss, and hits, are not computed. What is not finite was found by
 * F. */
void np_op_recompute(const struct np_op_call *call, const struct np_op_forward *io);
/* The part of F's operations that this takes, 0 to 1. */
double np_op_recompute_share(const struct np_kind *kind);

bool np_op_backward(const struct np_op_call *call, const struct np_op_backward *io);
/* The gradient slab g, of the layer or of the whole that it is a part of, from what F and B left
 * (accumulate false: g is overwritten, +0 beside the part); of io, x, memory and dy count. False if
 * a gradient is not finite. */
bool np_op_weight(const struct np_op_call *call, float *g, const struct np_op_backward *io,
                  bool accumulate);

/* True if the layer gives a gradient back to its input `value` (NP_VALUE_X, NP_VALUE_MEMORY). */
bool np_op_gives(const struct np_kind *kind, int value);

/* The loss of each grain of a head's forward: grain_loss[i] = lane sum of its rows' losses; returns
 * without a wait. samples is whole grains. */
void np_op_grain_losses(const struct np_op_call *call, float *grain_loss);

#endif
