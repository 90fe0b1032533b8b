/* Checkpoints: the state of a supernet in a run directory, and back.
 *
 * Only layers that changed since the last checkpoint of this process are hashed and written;
 * objects are content-addressed, so an unchanged layer is never stored twice; nor is an old version
 * that several checkpoints name. A checkpoint is complete when its manifest is renamed into place,
 * after all its objects are durable.
 *
 * Errors    NP_EIO; NP_ENAN: a weight to be written is not finite; NP_EDATA: a manifest or object
 *           is damaged; NP_EINPUT: another recipe or data.
 * Ownership borrows the state.
 */
#ifndef NP_RUN_CHECKPOINT_H
#define NP_RUN_CHECKPOINT_H

#include "exec/state.h"
#include "io/store.h"
#include "run/manifest.h"

/* What a checkpoint of gigabytes takes is told meanwhile; any may be NULL. */
struct np_checkpoint_hooks {
    void *context;
    /* So many of the layers to be written, or read, are: with their older versions where read. */
    void (*progress)(void *context, bool writes, size_t done, size_t layers);
    bool (*stop)(void *context); /* asked before each layer that is read */
};

struct np_checkpoints;

enum np_status np_checkpoints_new(struct np_checkpoints **out, const char *run,
                                  struct np_state *state, const struct np_digest *data,
                                  const struct np_checkpoint_hooks *hooks, struct np_error *err);
void np_checkpoints_free(struct np_checkpoints *checkpoints);

/* Writes the state after `step` completed steps. */
enum np_status np_checkpoints_write(struct np_checkpoints *checkpoints, uint64_t step,
                                    struct np_digest *digest, struct np_error *err);
/* Fills a fresh state from the latest checkpoint of the run; *found false and step 0 if it has none
 * yet. NP_ESTOP when hooks.stop said so: step and digest are known, the state is not filled. */
enum np_status np_checkpoints_read(struct np_checkpoints *checkpoints, bool *found, uint64_t *step,
                                   struct np_digest *digest, struct np_error *err);

#endif
