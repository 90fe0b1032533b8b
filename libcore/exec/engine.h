/* The pipeline engine's insides. Private to exec/.
 *
 * One scheduler, one lock: a stage asks for its next task under the lock, runs it without, reports
 * it done under the lock again. Tasks last milliseconds, so the lock is never contended for long.
 *
 * A slot has a cell (exec/sweep.h) for every position of every (member, micro-batch); what cells
 * point to is the stages' (exec/flights.h), taken from their arenas when the engine is made.
 */
#ifndef NP_EXEC_ENGINE_H
#define NP_EXEC_ENGINE_H

#include <pthread.h>

#include "exec/mirror.h"
#include "exec/residence.h"
#include "exec/step.h"
#include "exec/sweep.h"

/* One known step. */
struct np_slot {
    uint16_t *choices;             /* [members][positions] */
    uint16_t *stages;              /* [positions]: where the step runs them */
    struct np_cell *cells;         /* [members][micro-batches][memories][positions] */
    float *grain_loss;             /* [members][grains] */
    struct np_layer_print *prints; /* [members * positions] */
    size_t print_count;
    uint64_t fingerprint;
};

struct np_stage {
    struct np_engine *engine;
    int device;
    struct np_arena *arena;
    struct np_crew *crew;
    struct np_part *parts; /* [positions]: scratch, where there are several memories */
    pthread_cond_t wake;
    bool woken; /* signalled, and not awake yet */
    pthread_t thread;
    double busy_s;
};

struct np_engine {
    struct np_train_config config;
    struct np_state *state;
    struct np_sched *sched;
    struct np_flight_layout layout;
    struct np_flights *flights;     /* [devices] */
    uint64_t *room, *layer_bytes;   /* np_memory_room's; NULL: no budget */
    struct np_residence *residence; /* NULL: no budget, everything stays on the device */
    struct np_transport *transport; /* NULL: one memory */
    struct np_mirrors *mirrors;     /* NULL: layers stay in their memory, or have a residence */
    size_t samples;                 /* of a micro-batch */
    uint64_t base;                  /* the scheduler's step 0 */
    bool begun;
    struct np_crew *maker; /* the feeder's, where there are replicas */
    size_t slot_count;
    struct np_slot *slots;
    struct np_stage *stages; /* [devices]: those of the first replica, of the second, .. */
    uint16_t *blocks;        /* scratch of the feeder */
    float *losses;           /* scratch of a record */
    double stage_s, since_s; /* of earlier calls; since when this call runs, or 0 */
    double origin_s;         /* when the engine was made */

    /* Stem and head, read by several replicas: an update of what others may still read an older
     * version of waits until nobody looks. */
    pthread_rwlock_t shared[2];

    pthread_mutex_t lock;
    pthread_cond_t feed; /* the feeder waits: for room, or for the end */
    int running, idle;   /* tasks and deliveries under way; stages waiting */
    uint64_t reported;   /* scheduler steps that hooks.step has seen */
    uint64_t limit;      /* scheduler steps from here on will not be run */
    bool quit;           /* stages shall end */
    bool stopping;       /* hooks.stop said so */
    bool faulted;
    struct np_step_fault fault; /* the earliest */
    enum np_status status;      /* first failure that is not a fault */
    struct np_error err;
};

/* Memories that the stages' devices have. */
static inline size_t np_engine_memories(const struct np_engine *engine)
{
    return engine->transport ? (size_t)engine->config.plan->memories : 1;
}

static inline struct np_slot *np_engine_slot(const struct np_engine *engine, uint64_t step)
{
    return &engine->slots[step % engine->slot_count];
}

/* Runs one task's passes on the stage's crew, without the lock. A non-finite value is written to
 * *fault (and *faulted set); the fingerprint of an update to *print (*updated set). */
struct np_task_outcome {
    bool faulted, updated;
    double stall_s; /* it waited for layers */
    struct np_step_fault fault;
    struct np_layer_print print;
};
enum np_status np_engine_perform(struct np_stage *stage, const struct np_task *task,
                                 struct np_task_outcome *outcome, struct np_error *err);

/* Stages look for work again; the lock is held. */
void np_engine_wake(struct np_engine *engine);
/* No step from `limit` on will begin, limit >= 1; the lock is held. */
void np_engine_limit(struct np_engine *engine, uint64_t limit);
/* All that will be run has been run; the lock is held. */
bool np_engine_drained(const struct np_engine *engine);

/* The body of a stage's thread. */
void *np_stage_main(void *stage);

#endif
