/* The context manager of a stage: which of its layers are on the device, and what its copy queue
 * does next.
 *
 * A pure state machine, like the scheduler: no clock, no threads, no memory but its own. The engine
 * drives it with copy threads, the simulator with a virtual clock.
 *
 * Words     visit: the time from the first to the last task of one pass (forward; or backward-input
 *           and backward-weight) that wants one layer in one step. Visits are foretold in the order
 *           in which they will begin (sched/ahead.h); what is not foretold is served on demand.
 * Rule      A layer that a task waits for comes first. Else, with NP_CONTEXT_AHEAD, the layer of
 *           the earliest visit that is not on the device. Room is made by the layer whose next
 *           visit is the furthest, one of which none is known before all others, the one longest
 *           unused among those; but nothing is fetched ahead that would put out something needed
 *           sooner. A layer in use stays.
 * Mirrors   Contexts of neighbouring stages may know the same layers, which either stage may run
 *           (sched/balance.h); such a layer is on one device at a time. One whose next visit is on
 *           another stage, or that a task there waits for, leaves at once, and is brought there
 *           only when it has left and all visits before are over. What one context is told may let
 *           those two stages before and after begin a copy.
 * Units     bytes on the device, as the arena counts them.
 * Errors    NP_EMEM from np_context_new and np_context_expect. A wrong sequence of calls is a bug
 *           (assert).
 * Threads   the caller serialises all calls on contexts that are connected.
 * Source    Cao et al., A study of integrated prefetching and caching strategies (SIGMETRICS 1995);
 *           Belady, A study of replacement algorithms (1966); Zhao et al., NASPipe (ASPLOS 2022),
 *           section 4.3.
 */
#ifndef NP_SCHED_CONTEXT_H
#define NP_SCHED_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define NP_COPIERS 2 /* copies under way at once: one brings while the other takes away */

enum np_context_policy {
    NP_CONTEXT_AHEAD,  /* fetch ahead, put out what is needed last */
    NP_CONTEXT_DEMAND, /* fetch on demand, put out what is needed last */
    NP_CONTEXT_LRU     /* fetch on demand, put out what was used longest ago */
};

/* "ahead", "demand", "lru" */
const char *np_context_policy_name(enum np_context_policy policy);

struct np_context_config {
    uint32_t first, count; /* the stage's layers: first .. first+count-1 */
    const uint64_t *bytes; /* [count]; 0: the layer has nothing to hold and never waits */
    uint64_t capacity;     /* at least the largest of them */
    /* Of the stage before, borrowed; NULL: none. Stages that know a layer follow one another. */
    struct np_context *before;
    enum np_context_policy policy;
    /* Prefetch distance: visits beyond the last one that began whose layers may be fetched ahead. A
     * larger one hides slower copies; but what is fetched early takes the place of something whose
     * next use is not the furthest any more once the visits between are over: more is copied. */
    uint64_t distance;
};

enum np_copy_kind {
    NP_COPY_MAKE,  /* to the device: initial values, which need no copy */
    NP_COPY_FETCH, /* to the device, from the stash */
    NP_COPY_WRITE, /* off the device, into the stash */
    NP_COPY_DROP /* off the device: the stash has it already, or its values are the initial ones */
};
struct np_copy {
    enum np_copy_kind kind;
    uint32_t layer;
};

enum np_context_pass { NP_CONTEXT_FORWARD, NP_CONTEXT_BACKWARD };
#define NP_NO_STEP UINT64_MAX /* an evaluation's: belongs to no visit */

struct np_context_sums {
    uint64_t hits;   /* visits whose layer was there */
    uint64_t late;   /* it was on its way */
    uint64_t misses; /* neither */
    uint64_t bytes_in, bytes_out;
    uint64_t made;       /* layers made on the device */
    uint64_t peak_bytes; /* the most that was held at once, copies under way included */
};

/* Adds what came of another stage; the most is the larger one's. */
static inline void np_context_sums_add(struct np_context_sums *sum,
                                       const struct np_context_sums *other)
{
    sum->hits += other->hits;
    sum->late += other->late;
    sum->misses += other->misses;
    sum->bytes_in += other->bytes_in;
    sum->bytes_out += other->bytes_out;
    sum->made += other->made;
    if (other->peak_bytes > sum->peak_bytes)
        sum->peak_bytes = other->peak_bytes;
}

static inline uint64_t np_context_visits(const struct np_context_sums *sums)
{
    return sums->hits + sums->late + sums->misses;
}

/* The share of visits whose layer was there; 1 of none. */
static inline double np_context_hit_rate(const struct np_context_sums *sums)
{
    uint64_t visits = np_context_visits(sums);
    return visits ? (double)sums->hits / (double)visits : 1;
}

struct np_context;

enum np_status np_context_new(struct np_context **out, const struct np_context_config *config,
                              struct np_error *err);
void np_context_free(struct np_context *context);

/* The next visit: `tasks` tasks of the step's pass will want the layer. One that has begun already
 * is not listed any more. */
enum np_status np_context_expect(struct np_context *context, uint32_t layer, uint64_t step,
                                 enum np_context_pass pass, uint32_t tasks, struct np_error *err);

/* A task wants the layer. True: it is there, and stays until np_context_leave. False: it is fetched
 * before all else; to be asked again when a copy has ended. One layer at a time. */
bool np_context_enter(struct np_context *context, uint32_t layer, uint64_t step,
                      enum np_context_pass pass);
void np_context_leave(struct np_context *context, uint32_t layer, bool updated);

/* The next copy to start now, if any; several may be under way and end in any order. */
bool np_context_next(struct np_context *context, struct np_copy *copy);
void np_context_copied(struct np_context *context, const struct np_copy *copy);

/* The stash has the layer's values already (a checkpoint was read): it is fetched, not made. */
void np_context_stored(struct np_context *context, uint32_t layer);
/* A task may wait for the layer although no copy is under way here: it is on the device, or on its
 * way off it or another. */
bool np_context_may_wait(struct np_context *context, uint32_t layer);

struct np_context_sums np_context_sums(const struct np_context *context);
/* What the layer takes on the device. */
uint64_t np_context_bytes(const struct np_context *context, uint32_t layer);

#endif
