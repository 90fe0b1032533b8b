/* A sweep over a subnet: the passes over one position at a time, for one micro-batch of one member
 * of a step: what the pipeline engine, the sequential reference and the evaluation have in common.
 *
 * Values    F of position p makes value p and notes in cell p where it lies. B finds value p's
 *           gradient in cell p and adds what the layer gives back to the gradients of the values
 *           that it reads: in turn to x's, memory's and sum's. W needs what F and B left.
 *           F comes in ascending order of positions, B in descending order and after all F, W of a
 *           position after its B.
 * Order     a value's gradient: its readers' contributions in descending order of positions, each
 *           added with one rounding; +0 if there is none.
 *           A pass is done, and what it has for the host is there, when its crew's task has been
 *           awaited (num/device.h); its function may return before.
 * Again     where the layout keeps nothing that operators save (`recompute`), an entry has what F,
 *           or F and B, of one position and flight left. B and W find it there, or repeat F, and W
 *           also B, without giving anything a second time: what they read is still what it was.
 * Errors    NP_EMEM; NP_EIO of the device. *finite becomes false (and is not touched else) where a
 *           value made is not finite: at the latest with the rest that the host is told.
 * Memories  passes touch that of their crew alone; exec/crossing.h brings what they need of others.
 * Storage   plan/flight_layout.h: a cell points to its position's own storage, or to that of the
 *           position whose value (gradient) a layer without nodes passes on.
 * Threads   one caller per crew; passes over different positions at the same time as the order of
 *           tasks (sched/sched.h) allows.
 */
#ifndef NP_EXEC_SWEEP_H
#define NP_EXEC_SWEEP_H

#include "exec/flights.h"
#include "exec/replicas.h"
#include "exec/train.h"
#include "exec/transport.h"
#include "exec/work.h"

/* Where a position's value lies, and the value's gradient as far as it is gathered (NULL: nothing
 * yet). */
struct np_cell {
    const float *y, *dy;
};

struct np_sweep {
    const struct np_train_config *config;
    struct np_state *state;
    struct np_crew *crew;
    const struct np_flight_layout *layout;
    int device;                       /* of the first stage of the replica */
    const struct np_flights *flights; /* [stages] of the replica */
    const struct np_replicas *copies; /* NULL: layers are read where they are */
    uint64_t flight;                  /* its number there */
    uint64_t step;
    int member;
    size_t first, samples;   /* the micro-batch, of the mini-batch */
    const uint16_t *choices; /* [positions]: the subnet */
    const uint16_t *stages;  /* [positions]: where the step runs them */
    struct np_cell *cells;   /* [positions]: in the crew's memory */
    /* Where there are several memories: what lies before `entry` was received. NULL: one. */
    struct np_transport *transport;
    struct np_carrier came, went; /* of values that it receives, of gradients that it sends */
    struct np_cargo_part *parts;  /* [positions]: scratch */
    int entry;
    float *grain_loss; /* [grains of the micro-batch] */
    /* An evaluation: the latest weights, no dropout, nothing kept for B and W; not the samples of a
     * step but micro-batch `index` of this data, of `total` samples. NULL: training. */
    const struct np_data *evaluated;
    uint64_t index, total;
    enum np_norm_mode norm;
    float *const *norm_stats; /* [positions] */
    int32_t *hits;            /* a row; or NULL */
};

enum np_status np_sweep_forward(const struct np_sweep *sweep, int position, bool *finite,
                                struct np_error *err);
enum np_status np_sweep_backward(const struct np_sweep *sweep, int position, bool *finite,
                                 struct np_error *err);
/* The layer's gradient, onto slab g if `accumulate`. */
enum np_status np_sweep_weight(const struct np_sweep *sweep, int position, float *g,
                               bool accumulate, bool *finite, struct np_error *err);
/* One update of the layer from slab g. */
enum np_status np_sweep_update(const struct np_sweep *sweep, int position, float *g,
                               struct np_update_report *report, bool *finite, struct np_error *err);

static inline struct np_layer_print np_sweep_print(const struct np_crew *crew, uint32_t layer,
                                                   const struct np_update_report *report)
{
    struct np_layer_print print = {.layer = layer, .square = report->square};
    for (int i = 0; i < crew->size; i++)
        print.fingerprint += report->prints[i];
    return print;
}

/* The version of its layer that passes over a position read. */
uint64_t np_sweep_version(const struct np_sweep *sweep, int position);

/* Where this memory gathers the gradient of a value, and has room for one that it receives with its
 * position `entry`. */
float *np_sweep_gradient(const struct np_sweep *sweep, int value);
float *np_sweep_received(const struct np_sweep *sweep, int entry, int value);

#endif
