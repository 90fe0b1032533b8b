/* The context managers of a pipeline's stages, and the look-ahead that tells them what is wanted.
 *
 * What the engine drives with copy threads and the simulator with a virtual clock is this: whoever
 * drives it enters and leaves layers, carries out the copies that a stage's context manager asks
 * for, NP_COPIERS at a time, and pushes steps as they become known.
 *
 * Units     bytes on the device, as the arena counts them; times in the unit of the costs.
 * Errors    NP_EMEM.
 * Threads   one caller at a time.
 */
#ifndef NP_SCHED_CONTEXTS_H
#define NP_SCHED_CONTEXTS_H

#include "sched/context.h"
#include "sched/sched.h"

struct np_contexts_config {
    struct np_sched_config sched;
    double overhead, transfer; /* as np_virtual_config has them */
    const uint64_t *bytes;     /* [layers] on the device; 0: nothing to hold, or always there */
    const uint64_t *room;      /* [stages] for them: at least the largest of the stage */
    enum np_context_policy policy;
};

struct np_contexts;

/* Copies what the config points to. */
enum np_status np_contexts_new(struct np_contexts **out, const struct np_contexts_config *config,
                               struct np_error *err);
void np_contexts_free(struct np_contexts *contexts);

/* [stages] */
struct np_context *const *np_contexts_all(const struct np_contexts *contexts);

/* The scheduler's next step, as np_sched_push has it, before it is pushed there; `incomplete` steps
 * are known to it and not complete. Foretells what is certain of the step's place in the order: all
 * of it if it is the `last` that will be known for a while. */
enum np_status np_contexts_push(struct np_contexts *contexts, const uint16_t *choices,
                                uint64_t incomplete, bool last, struct np_error *err);
/* No step follows: foretells all of those known. */
enum np_status np_contexts_end(struct np_contexts *contexts, struct np_error *err);

#endif
