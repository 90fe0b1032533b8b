/* Layers that a step runs in another memory than the last step did (sched/balance.h). Private to
 * exec/.
 *
 * A layer is where its last user had it; its next user receives it. Every memory keeps the room
 * that a layer had there once. Where a budget bounds the stages' memory, layers go by way of the
 * stash instead (exec/residence.h), and there is nothing to do here.
 *
 * Rule      one step at a time uses a candidate, and runs it on one stage (sched/sched.h).
 * Errors    NP_EMEM of the device; NP_EIO of the transport.
 * Ownership borrows transport and state, which keeps the layers where they are.
 * Threads   different layers freely.
 */
#ifndef NP_EXEC_MIRROR_H
#define NP_EXEC_MIRROR_H

#include "exec/train.h"
#include "exec/transport.h"

struct np_mirrors;

enum np_status np_mirrors_new(struct np_mirrors **out, const struct np_train_config *config,
                              struct np_state *state, struct np_transport *transport,
                              struct np_error *err);
void np_mirrors_free(struct np_mirrors *mirrors);

/* The layers are what the state has now, and wherever their next users are they are sent there. */
void np_mirrors_begin(struct np_mirrors *mirrors);
/* Before a pass of the layer on the stage: it is there, or has memory to be made in. */
enum np_status np_mirrors_bring(struct np_mirrors *mirrors, int stage, uint32_t layer,
                                struct np_crew *crew, struct np_error *err);
/* After its update. */
void np_mirrors_send(struct np_mirrors *mirrors, uint32_t layer);

#endif
