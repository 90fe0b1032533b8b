/* A sweep over a subnet: the passes over one position at a time, for one micro-batch of one member
 * of a step: what the pipeline engine, the sequential reference and the evaluation have in common.
 *
 * Values    F of position p makes value p and hands it to the cell of every reader. B finds value
 *           p's gradient in cell p and adds what the layer gives back to the gradients of the
 *           values that it reads: in turn to x's, memory's and sum's. W needs what F and B left.
 *           F comes in ascending order of positions, B in descending order and after all F, W of a
 *           position after its B. A cell is emptied by the last pass that needs it: W, or B of a
 *           layer that does not train.
 * Order     a value's gradient: its readers' contributions in descending order of positions, each
 *           added with one rounding; +0 if there is none.
 * Errors    NP_EMEM. *finite becomes false (and is not touched else) where a value made is not
 *           finite.
 * Ownership buffers are counted: readers of a value share one, and so do a value and a layer
 *           without nodes that passes it on.
 * Threads   one caller per crew; passes over different positions at the same time as the order of
 *           tasks (sched/sched.h) allows.
 */
#ifndef NP_EXEC_SWEEP_H
#define NP_EXEC_SWEEP_H

#include "exec/crew.h"
#include "exec/pool.h"
#include "exec/train.h"
#include "exec/work.h"

/* What one position needs. */
struct np_cell {
    struct np_buffer *x, *memory, *sum; /* the values read */
    struct np_buffer *dy;               /* the gradient of the value made */
    struct np_buffer *saved, *delta;
    struct np_buffer *batch; /* what the layer reads of the batch, unless all share one */
};

struct np_sweep {
    const struct np_train_config *config;
    struct np_state *state;
    struct np_pool *pool;
    struct np_crew *crew;
    float *work; /* scratch of one operator call */
    uint64_t step;
    int member;
    size_t first, samples;        /* the micro-batch, of the mini-batch */
    const uint16_t *choices;      /* [positions]: the subnet */
    struct np_cell *cells;        /* [positions] */
    float *grain_loss;            /* [grains of the micro-batch] */
    const struct np_batch *batch; /* NULL: each cell loads what its layer reads */
    /* An evaluation: the latest weights, no dropout, nothing kept for B and W. */
    bool evaluates;
    enum np_norm_mode norm;
    float *const *norm_stats; /* [positions] */
    int32_t *hits;            /* a row; or NULL */
};

/* Floats that the largest operator call of the supernet needs as `work`, for so many samples. */
size_t np_sweep_work_floats(const struct np_supernet *net, size_t samples);

enum np_status np_sweep_forward(const struct np_sweep *sweep, int position, bool *finite,
                                struct np_error *err);
enum np_status np_sweep_backward(const struct np_sweep *sweep, int position, bool *finite,
                                 struct np_error *err);
/* The layer's gradient, onto slab g if `accumulate`. */
enum np_status np_sweep_weight(const struct np_sweep *sweep, int position, float *g,
                               bool accumulate, bool *finite, struct np_error *err);
/* One update of the layer from slab g. */
enum np_status np_sweep_update(const struct np_sweep *sweep, int position, float *g,
                               uint64_t *fingerprint, bool *finite, struct np_error *err);

void np_cell_empty(struct np_pool *pool, struct np_cell *cell);

#endif
