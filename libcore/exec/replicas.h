/* Replicas in memories of their own: copies of the layers, and gradient sums that are handed on.
 *
 * Home      a layer, with moments and old versions, is where it was updated last; stem and head
 *           always, and a layer before its first update, on the last replica's stage
 *           (np_plan_home). Whoever makes the last contribution to its gradient updates it, and
 *           takes it over before. The other replicas have copies of weights.
 * Copies    of a candidate the latest version, which all flights of a step that uses it read; of
 *           stem and head, read with delay D, D versions: as many as unfinished steps may read. A
 *           copy is brought before the first pass that wants it, and overwritten when a later step
 *           wants another one, which begins when all passes of the earlier step have ended.
 * Sums      a gradient's contributions come in one order, through all replicas (sched/sched.h).
 *           Each adds to the sum in its own memory; before its first contribution in a row it
 *           fetches what the replica that made the one before has summed up.
 * Errors    NP_EMEM of the device; NP_EIO of the link.
 * Ownership borrows what it is made of; copies, and room for layers, are in the arenas, if it was
 *           given some, else its own.
 * Threads   different replicas, and different layers, freely. Who brings a version of stem or head
 *           keeps its update away until the crew has done it.
 */
#ifndef NP_EXEC_REPLICAS_H
#define NP_EXEC_REPLICAS_H

#include "exec/flights.h"
#include "exec/train.h"

struct np_replicas;

struct np_replicas_config {
    const struct np_train_config *train; /* its plan is apart, its devices are linked */
    struct np_state *state;
    const struct np_flight_layout *layout;
    const struct np_flights *flights; /* [devices] */
    struct np_arena *const *arenas;   /* [devices], copied; NULL: memory is the devices' */
};

enum np_status np_replicas_new(struct np_replicas **out, const struct np_replicas_config *config,
                               struct np_error *err);
void np_replicas_free(struct np_replicas *replicas);

/* The layers are what the state has now: there are no copies of it yet. */
void np_replicas_begin(struct np_replicas *replicas);

/* Where a device, a stage of a replica, has a version of a layer of its stage, which is there or
 * will be brought; NULL: it reads the state's. */
const float *np_replicas_weights(const struct np_replicas *replicas, int device, uint32_t layer,
                                 uint64_t version);
/* Whether it must be brought; and the device's crew does it, before whatever it is told next. The
 * layer has been made. */
bool np_replicas_lacks(const struct np_replicas *replicas, int device, uint32_t layer,
                       uint64_t version);
enum np_status np_replicas_bring(struct np_replicas *replicas, int device, uint32_t layer,
                                 uint64_t version, struct np_crew *crew, struct np_error *err);

/* A W is about to add to the gradient sum of a layer, which `owner` (np_step_owner) owns: what
 * contributions before the task's have come to is there, or the device's crew fetches it before
 * whatever it is told next. choices[members][positions] of the step. */
enum np_status np_replicas_take_sum(const struct np_replicas *replicas, const struct np_task *task,
                                    uint32_t layer, int owner, const uint16_t *choices,
                                    struct np_crew *crew, struct np_error *err);
/* The device, which has the latest version, is about to update the layer: it is at home there when
 * the crew is told what comes next. */
enum np_status np_replicas_take_layer(struct np_replicas *replicas, int device, uint32_t layer,
                                      struct np_crew *crew, struct np_error *err);

#endif
