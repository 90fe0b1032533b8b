/* Residence: which layers are on a stage's device, and the threads that move them.
 *
 * With a budget, candidates live in the stash (io/stash.h) and are on the device while the context
 * manager of their stage (sched/context.h) has them there. To and from a file a stage has copy
 * threads of its own, and so it has to and from a device that is apart from the host: what they
 * move overlaps with what the stage computes. In memory a layer only
 * changes hands, which takes a microsecond: whoever lets a copy begin carries it out, for a thread
 * would first have to get a processor, and the stages keep them all. Stem and head belong to every
 * step: they are always there, in the stage's arena too.
 *
 * Rule      a layer may be touched between np_residence_enter and np_residence_leave only, by the
 *           stage's crew, and outside of np_residence_begin .. _end by nobody but who asks
 *           np_state_slab. What the crew is told in between, it may do later: a layer's stamp notes
 *           it, and the layer is taken away after that.
 * Errors    NP_EMEM; NP_EINPUT and NP_EIO of the stash. What a copy thread met is returned by the
 *           next np_residence_enter or _end.
 * Ownership borrows state, plan and arenas; owns the stash.
 * Threads   np_residence_push by one thread; the others by any, one task a stage.
 */
#ifndef NP_EXEC_RESIDENCE_H
#define NP_EXEC_RESIDENCE_H

#include "base/arena.h"
#include "exec/state.h"
#include "plan/plan.h"
#include "sched/trace.h"

struct np_residence_config {
    const struct np_plan *plan;
    struct np_state *state;
    struct np_arena *const *arenas; /* [stages] */
    struct np_crew *const *crews;   /* [stages] */
    const uint64_t *room, *bytes;   /* np_memory_room's */
    enum np_context_policy policy;
    const char *stash;              /* a file to be made, or NULL: in memory */
    const struct np_device *device; /* the arenas', or one of several */
    uint64_t delay_seed;
    struct np_trace *trace; /* NULL, or where copies are recorded, in nanoseconds since origin_s */
    double origin_s;        /* of np_now_s */
};

/* Of one stage, so far. */
struct np_residence_sums {
    struct np_context_sums context;
    double copy_s;  /* its copy threads' time in copies */
    double stall_s; /* its tasks waited for layers */
    /* Of the stash, which all stages share. */
    const char *stash; /* np_stash_means */
    uint64_t stash_bytes;
};

struct np_residence;

enum np_status np_residence_new(struct np_residence **out, const struct np_residence_config *config,
                                struct np_error *err);
/* The state has no layers any more: their memory is the arenas', and the stash goes. */
void np_residence_free(struct np_residence *residence);

/* Copies may be made from here on, and no more after _end: nothing is under way then. What went
 * before has come to `status`, which is returned if it is a failure. */
void np_residence_begin(struct np_residence *residence);
enum np_status np_residence_end(struct np_residence *residence, enum np_status status,
                                struct np_error *err);

/* The scheduler's next step, choices[members][positions], as np_contexts_push has it. */
enum np_status np_residence_push(struct np_residence *residence, const uint16_t *choices,
                                 uint64_t incomplete, bool last, struct np_error *err);

/* Waits until the layer is on the device of the stage, which may run it; it stays until _leave.
 * step: the scheduler's, or NP_NO_STEP. What it waited is added to *stall_s, which may be NULL. */
enum np_status np_residence_enter(struct np_residence *residence, int stage, uint32_t layer,
                                  uint64_t step, enum np_context_pass pass, double *stall_s,
                                  struct np_error *err);
void np_residence_leave(struct np_residence *residence, int stage, uint32_t layer, bool updated);

struct np_residence_sums np_residence_sums(struct np_residence *residence, int stage);

#endif
