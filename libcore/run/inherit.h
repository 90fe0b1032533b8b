/* Inherited weights: a run that begins with what another has trained.
 *
 * Which  A candidate takes the weights that the other run's candidate has which is like it
 *        (np_kind_same_weights), in the block of the same number: that of its own number, counted
 *        from the block's `origin`, else the first that no other takes. One that uses a part of a
 *        layer's weights gives that part of them, and takes it; where several of one layer do, the
 *        last has it. The stem and the head take each tensor of the same name and shape, if their
 *        operator is the same. What finds nothing keeps the values of its address. Moments are 0,
 *        and no layer was updated yet.
 * How    They are the first checkpoint of the new run, of step 0, with all layers; a run goes on
 *        from it as from any other, and needs the old run no more. The recipe's train.init is the
 *        digest of the checkpoint that they are from.
 * Errors NP_EINPUT: it is no run, has no such checkpoint, or nothing that the recipe has; NP_EDATA:
 *        it is damaged; NP_EIO; NP_EMEM.
 * Ownership borrows run and net; np_inherit_free releases.
 */
#ifndef NP_RUN_INHERIT_H
#define NP_RUN_INHERIT_H

#include "io/digest.h"
#include "run/checkpoint.h"
#include "space/supernet.h"

struct np_inherit;

/* From the checkpoint after `step` steps, or NP_LATEST (run/trained.h): the latest, or the one that
 * the net's recipe names. */
enum np_status np_inherit_open(struct np_inherit **out, const char *run, uint64_t step,
                               const struct np_supernet *net, struct np_error *err);
void np_inherit_free(struct np_inherit *inherit);

/* That of the checkpoint; its step. */
const struct np_digest *np_inherit_digest(const struct np_inherit *inherit);
uint64_t np_inherit_step(const struct np_inherit *inherit);
/* Whether a candidate, the stem or the head begins with some inherited weights, also as a part of
 * them; and how many do, of those that have any weights. */
bool np_inherit_has(const struct np_inherit *inherit, uint32_t layer);
uint32_t np_inherit_layers(const struct np_inherit *inherit, uint32_t *of);

/* Writes the checkpoint of step 0 into a run directory, whose training data is `data`. The net's
 * recipe has np_inherit_digest by now. Here hooks.stop is asked where layers are written: after
 * NP_ESTOP there is no checkpoint. */
enum np_status np_inherit_write(struct np_inherit *inherit, const char *run,
                                const struct np_digest *data,
                                const struct np_checkpoint_hooks *hooks, struct np_error *err);

#endif
