/* A run's supernet as one of its checkpoints has it: weights alone, without moments, each layer
 * read when it is first wanted, or wanted again after it had to make room. The run may go on
 * meanwhile.
 *
 * Errors    NP_EINPUT: another recipe or training data, no such checkpoint; NP_EDATA: a manifest or
 *           object is damaged; NP_EIO; NP_EMEM.
 * Ownership borrows run, net and device; np_trained_free releases, the state too.
 * Threads   np_trained_bring and np_trained_leave any.
 */
#ifndef NP_RUN_TRAINED_H
#define NP_RUN_TRAINED_H

#include "exec/state.h"
#include "io/digest.h"

#define NP_LATEST UINT64_MAX

struct np_trained;

/* The checkpoint after `step` completed steps, or the NP_LATEST, whose layers' memory is the
 * device's. The run's recipe may differ in what evaluations alone look at (run/run_recipe.h).
 * data: of what is said to be the training data; NULL: nobody looks at it. */
enum np_status np_trained_open(struct np_trained **out, const char *run, uint64_t step,
                               const struct np_supernet *net, const struct np_digest *data,
                               const struct np_device *device, struct np_error *err);
void np_trained_free(struct np_trained *trained);

uint64_t np_trained_step(const struct np_trained *trained);
/* That of the run at this step, as np-verify(1) tells it; that of the run's recipe. */
const struct np_digest *np_trained_digest(const struct np_trained *trained);
const struct np_digest *np_trained_recipe(const struct np_trained *trained);
/* Its net is the given one without moments. */
struct np_state *np_trained_state(struct np_trained *trained);

/* Layers that nobody uses go, the one that was used longest ago first, where all would take more
 * than `bytes`. What is in use takes what it takes. 0, as at first: all that were wanted stay. */
void np_trained_limit(struct np_trained *trained, uint64_t bytes);
/* What the layers take that are there. */
uint64_t np_trained_bytes(struct np_trained *trained);

/* Who brings a subnet asks before each layer whether to stop, which is NP_ESTOP; NULL: nobody. */
void np_trained_give_up(struct np_trained *trained, bool (*stop)(void *context), void *context);

/* Makes sure that a subnet's layers are there, choices[blocks], until np_trained_leave; one that
 * was never trained is made from its address. After an error none is kept for the caller. */
enum np_status np_trained_bring(struct np_trained *trained, const uint16_t *choices,
                                struct np_error *err);
void np_trained_leave(struct np_trained *trained, const uint16_t *choices);

/* One layer, without a limit, and its end in memory: nobody uses it any more. */
enum np_status np_trained_bring_layer(struct np_trained *trained, uint32_t layer,
                                      struct np_error *err);
void np_trained_forget(struct np_trained *trained, uint32_t layer);

#endif
