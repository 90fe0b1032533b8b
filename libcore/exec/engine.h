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
    int unsettled;                 /* tasks */
    uint16_t *choices;             /* [members][positions] */
    uint16_t *stages;              /* [positions]: where the step runs them */
    struct np_cell *cells;         /* [members][micro-batches][memories of a replica][positions] */
    float *grain_loss;             /* [members][grains] */
    struct np_layer_print *prints; /* [members * positions] */
    size_t print_count;
    uint64_t fingerprint;
};

/* A task that the stage's crew has been told, and what came of it. On a device apart from the host
 * the scheduler knows the task as done when the crew has been told: what the stage does next, the
 * crew does after it. It is settled when the crew has done it: then what it found is taken, and
 * what it hands to another stage is handed over. Until then nothing but what the crew writes itself
 * may depend on it; a flight's slot, which later stages have read, is overwritten after their
 * stamps of the flight that was in it. */
struct np_started {
    struct np_task task;
    uint64_t mark;
    bool skipped; /* nothing was told */
    bool updates; /* the layer was updated */
    bool leaves;  /* to be delivered to another stage: */
    struct np_task delivery;
    bool *finite;                   /* [unit]: by position */
    bool update_finite;             /* the update, where there is one */
    struct np_update_report report; /* of the update */
    double start_ns, end_ns;
    double stall_s; /* it waited for layers */
};

struct np_stage {
    struct np_engine *engine;
    int device;
    struct np_arena *arena;
    struct np_crew *crew;
    struct np_started tasks[NP_CREW_AHEAD]; /* those with numbers settled .. started-1 */
    uint64_t started, settled;
    int ahead;                /* so many may be unsettled; 1: each is settled at once */
    bool *finite;             /* the tasks' */
    struct np_stamp **stamps; /* [engine's stamp_count], of flights, in turn; NULL: none needed */
    /* Where there are several memories: the crew that carries, its stamps of the values that came
     * last, and of gradients that went: [engine's stamp_count], of flights, in turn. */
    struct np_crew *carrier;
    struct np_stamp *came, **went;
    double ended_ns;             /* the last task that was settled */
    struct np_cargo_part *parts; /* [positions]: scratch, where there are several memories */
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
    struct np_replicas *replicas;   /* NULL: they are in one memory, or there is one */
    size_t samples;                 /* of a micro-batch */
    uint64_t base;                  /* the scheduler's step 0 */
    bool begun;
    struct np_crew **makers; /* [stages], where there are replicas; NULL: as the stage before */
    size_t slot_count, stamp_count;
    struct np_slot *slots;
    struct np_stage *stages; /* [devices]: those of the first replica, of the second, .. */
    uint16_t *blocks;        /* scratch of the feeder */
    float *losses;           /* scratch of a record */
    double stage_s, since_s; /* of earlier calls; since when this call runs, or 0 */
    double origin_s;         /* when the engine was made */

    /* Stem and head, read by several replicas: an update of what others may still read an older
     * version of, or fetch, waits until nobody looks. */
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

/* Memories that the devices of a replica's stages have. */
static inline size_t np_engine_memories(const struct np_engine *engine)
{
    return engine->transport ? (size_t)np_plan_replica_memories(engine->config.plan) : 1;
}

static inline struct np_slot *np_engine_slot(const struct np_engine *engine, uint64_t step)
{
    return &engine->slots[step % engine->slot_count];
}

/* Whether the task begins a flight in the slot of one whose backward pass has been told, but is not
 * settled: then its gradients have not yet been told to go out of there. So it is where nothing has
 * weights, and no other task came in between. */
bool np_engine_succeeds(const struct np_stage *stage, const struct np_task *task);

/* Tells the stage's crew a task's passes, without the lock. What they find is there when the task
 * has been awaited, and what others need of it on its way: then np_engine_fault says whether all
 * was finite, or what comes first that was not. */
enum np_status np_engine_perform(struct np_stage *stage, struct np_started *started,
                                 struct np_error *err);
enum np_status np_engine_await(struct np_stage *stage, struct np_started *started,
                               struct np_error *err);
bool np_engine_fault(const struct np_stage *stage, const struct np_started *started,
                     struct np_step_fault *fault);

/* Stages look for work again; the lock is held. */
void np_engine_wake(struct np_engine *engine);
/* No step from `limit` on will begin, limit >= 1; the lock is held. */
void np_engine_limit(struct np_engine *engine, uint64_t limit);
/* Where hooks.stop says so, no step will begin any more; step 0 is run if it is known. The lock is
 * held. */
void np_engine_heed_stop(struct np_engine *engine);
/* All that will be run has been run and reported; the lock is held. */
bool np_engine_drained(const struct np_engine *engine);

/* The body of a stage's thread. */
void *np_stage_main(void *stage);

#endif
