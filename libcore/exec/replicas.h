/* Replicas in memories of their own: copies of the layers, and gradient sums that are handed on.
 *
 * Home      layers are at home on the last replica's stages (np_plan_home), which make the last
 *           contribution to every gradient, and update. The other replicas have copies of weights.
 * Copies    of a candidate the latest version, which all flights of a step that uses it read; of
 *           stem and head, read with delay D, D versions: as many as unfinished steps may read. A
 *           copy is brought before the first pass that wants it, and overwritten when a later step
 *           wants another one, which begins when all passes of the earlier step have ended.
 * Sums      a gradient's contributions come in one order, through all replicas of a member, then of
 *           the next (sched/sched.h). Each replica adds its own to the sum where it is; before the
 *           first of them it takes over what the replica before it has summed up.
 * Errors    NP_EMEM of the device; NP_EIO of the link.
 * Ownership borrows what it is made of; copies are in the arenas, if it was given some, else its
 *           own.
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
    const struct np_state *state;
    const struct np_flight_layout *layout;
    const struct np_flights *flights; /* [devices] */
    struct np_arena *const *arenas;   /* [devices], copied; NULL: copies are of the devices */
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

/* A W is about to add to the gradient sum of a layer, number `candidate` of its position, which
 * `owner` (np_step_owner) owns: what contributions before the task's have come to is there, or the
 * device's crew fetches it before whatever it is told next. */
enum np_status np_replicas_take_over(const struct np_replicas *replicas, const struct np_task *task,
                                     int owner, uint32_t candidate, struct np_crew *crew,
                                     struct np_error *err);

#endif
