/* The causal scheduler: which task each device runs next.
 *
 * A pure state machine: no clock, no threads, no I/O. Events go in (a step's subnets are known, an
 * activation arrived, a task is done), the next task of a device comes out. One scheduler, three
 * drivers: the engine, the simulator of np-predict-trace, and the context manager's look-ahead.
 *
 * Words:   position: 0 is the stem, 1 .. N the choice blocks, N+1 the head; layer: one candidate of
 *          a position (global number layer_first[position] + choice), or, where candidates share
 *          weights, the one of them that stands for these; home of a position: the
 *          stage k with stage_first[k] <= position < stage_first[k + 1]; unit: consecutive
 *          positions of one home that one F or B task covers; member: one of the subnets that a
 *          step trains, each on a mini-batch; micro-batch: a cut of one.
 * Rule:    Step s may read or write layer L when L has been updated ticket(s, L) times, the number
 *          of earlier steps that activate L. Shared positions with delay D: step s reads version
 *          max(0, s - D + 1), in F and B, while newer ones may exist; its update is the (s+1)-th.
 *          F(s,i,m,u) waits for the activation of F(s,i,m,u-1) and for the layers of u; with
 *          `leads` that of the last unit, if i > 0, for F(s,0,m,u), too;
 *          B(s,i,m,u) for F(s,i,m,u) and the gradient of B(s,i,m,u+1);
 *          W(s,i,m,p) for B(s,i,m,unit of p), and for the contribution before it in (member,
 *          micro-batch) order among those to the same layer in the same step; the last one carries
 *          the update and waits, at a shared position, for the update of step s-1.
 *          Frozen positions and weightless layers have F and B only and never wait.
 * Replicas: of the pipeline, each with a share of every step (np_sched_share): of the micro-batches
 *          of every member; or, where there are too few of these for the replicas, of the members.
 *          A device is a stage of a replica, number replica x stages + stage. A layer's
 *          contributions keep their order through all replicas, so what is computed does not depend
 *          on how many there are.
 * Cut:     A step's stages take its positions in order: at home, or, with `reach`, as balances the
 *          step's own costs (sched/balance.h), up to one stage from home. All members of a step
 *          are cut alike, so a layer is wanted on one stage at a time. Shared positions stay.
 * Flights: a flight is one (step, member, micro-batch), numbered q = 0, 1, .. on its replica in
 *          this order (np_sched_flight_of). It is retired at stage k when all its tasks at
 *          stages >= k have ended. Stage k begins flight q (its first F there) only if
 *          q < r + in_flight[k], where the replica's oldest r flights are retired at k: so flight q
 *          may live in slot q % in_flight[k] of that device, and nothing there is read after its
 *          time, since values go to later stages only: a flight is cut in one way as long as it
 *          lives. Where its step has no position it has nothing to begin.
 *          This never stalls: of the flights that are not retired at stage 0 let q be the one of
 *          the oldest (step, member, micro-batch). At every stage of its replica all flights before
 *          q are retired, so q is admitted everywhere; whatever its tasks wait for (inputs,
 *          updates, turns) belongs to q itself or to flights of older ones, which are retired.
 * Order:   the longest remaining path over the window's steps (priority.c); among equals the oldest
 *          step, then B, W, F, then the first flight and the first position. So what a device is
 *          given depends on which events there were, not on their order; no device idles while it
 *          has a task.
 * Units:   costs in any one unit of time (nanoseconds, or 1 per block), per micro-batch.
 * Errors:  NP_EMEM from np_sched_new only; a wrong sequence of calls is a bug (assert).
 * Threads: the caller serialises all calls on one scheduler.
 * Source:  Zhao et al., NASPipe (ASPLOS 2022), sections 4 and 5: causal synchronous parallelism.
 */
#ifndef NP_SCHED_SCHED_H
#define NP_SCHED_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum np_task_kind {
    NP_TASK_F, /* forward of a unit */
    NP_TASK_B, /* backward-input of a unit */
    NP_TASK_W  /* backward-weight of one position, and the update if it is the last contribution */
};

struct np_task {
    enum np_task_kind kind;
    int stage, device;
    uint64_t step;
    int member, micro;
    int first, count; /* positions first .. first+count-1; W: count is 1 */
    bool opens;       /* W: first contribution to its layer in this step: starts the sums */
    bool updates;     /* W: last contribution: the layer is updated after it */
};

struct np_layer_cost {
    float f, b, w; /* forward, backward-input, backward-weight with its share of the update */
};

enum np_shared_kind {
    NP_CHOICE,        /* a choice block: version rule per layer */
    NP_SHARED_FROZEN, /* never updated: no W, no waiting */
    NP_SHARED_DELAY   /* part of every step, read with delay D */
};

struct np_sched_config {
    int positions;                    /* N + 2; without stem and head (simulations) N */
    const uint32_t *layer_first;      /* [positions + 1] */
    const enum np_shared_kind *kind;  /* [positions] */
    int delay;                        /* D >= 1, of every NP_SHARED_DELAY position */
    const struct np_layer_cost *cost; /* [layers], of each candidate */
    const bool *weightless;           /* [layers]: identity, no W task */
    const uint32_t *whole;            /* [layers]: that whose weights a candidate has; NULL: own */
    int stages;
    const int *stage_first; /* [stages + 1]: stage k has positions stage_first[k] .. */
    int unit;               /* positions a unit, >= 1; the last unit of a home may be shorter */
    int reach;              /* positions that a step's cut may lie off home; 0: it is home */
    int members, micro_batches;
    int replicas; /* np_sched_may_share; 0 is as 1 */
    int window;   /* step s begins when all steps up to s - window are complete */
    /* [stages] or NULL; 0: as many as the window lets begin, window x those of a share. */
    const int *in_flight;
    bool leads;         /* the last unit's F of a member waits for that of the step's first one */
    bool weights_first; /* W goes before all else, also where there are several stages */
    int lookahead; /* steps beyond the window that may be known; they do not change the order */
};

#define NP_SCHED_MOST_AHEAD 65536 /* of what files may say of a window or a look-ahead */

static inline uint32_t np_sched_whole(const struct np_sched_config *config, uint32_t candidate)
{
    return config->whole ? config->whole[candidate] : candidate;
}

/* What a replica has of a step: so many members, one after the other, and of each so many
 * micro-batches. `beside` replicas have the same members, and follow each other. */
struct np_sched_share {
    int members, micros, beside;
};

/* Divisors that replicas and micro-batches have in common, the largest. */
static inline int np_sched_beside(int replicas, int micro_batches)
{
    while (micro_batches) {
        int rest = replicas % micro_batches;
        replicas = micro_batches;
        micro_batches = rest;
    }
    return replicas;
}

/* Whether all replicas have a share, and the same one. */
static inline bool np_sched_may_share(int replicas, int members, int micro_batches)
{
    return members % (replicas / np_sched_beside(replicas, micro_batches)) == 0;
}

static inline struct np_sched_share np_sched_share(int replicas, int members, int micro_batches)
{
    int beside = np_sched_beside(replicas, micro_batches);
    return (struct np_sched_share){members / (replicas / beside), micro_batches / beside, beside};
}

static inline int np_sched_replica_of(const struct np_sched_share *share, int member, int micro)
{
    return member / share->members * share->beside + micro / share->micros;
}

/* A flight's number on its replica; and how many flights a step has there. */
static inline uint64_t np_sched_flight_of(const struct np_sched_share *share, uint64_t step,
                                          int member, int micro)
{
    uint64_t row = step * (uint64_t)share->members + (uint64_t)(member % share->members);
    return row * (uint64_t)share->micros + (uint64_t)(micro % share->micros);
}

static inline int np_sched_flights_of(const struct np_sched_share *share)
{
    return share->members * share->micros;
}

static inline int np_sched_replicas(const struct np_sched_config *config)
{
    return config->replicas ? config->replicas : 1;
}

static inline int np_sched_devices(const struct np_sched_config *config)
{
    return np_sched_replicas(config) * config->stages;
}

/* A window that keeps the stages busy without holding more activations than that takes: 4 steps
 * where there are as many micro-batches as stages, up to 2 x stages where there is one. */
int np_sched_default_window(int stages, int micro_batches);

struct np_sched;

/* Copies what the config points to. */
enum np_status np_sched_new(struct np_sched **out, const struct np_sched_config *config,
                            struct np_error *err);
void np_sched_free(struct np_sched *sched);

/* True if there is room for one more known step. */
bool np_sched_wants(const struct np_sched *sched);
/* The next step's subnets: choices[member * positions + position], < candidates of the position.
 * Steps are numbered from `0` in order of pushing. */
void np_sched_push(struct np_sched *sched, const uint16_t *choices);
/* No task of a step > last will be handed out from now on (tasks already out may finish). */
void np_sched_stop_after(struct np_sched *sched, uint64_t last);

/* The task that the device should run now; false if none is ready. A device may hold several. */
bool np_sched_next(struct np_sched *sched, int device, struct np_task *task);
/* A task from np_sched_next has ended. The devices of np_sched_woken may now have a task, and those
 * of position 0 if np_sched_completed grew (as after np_sched_push); no other. True if its output
 * must be delivered to another stage: then *delivery is the task there that waits for it, to be
 * given to np_sched_arrived once the data is there. Deliveries within a stage happen at once. */
bool np_sched_done(struct np_sched *sched, const struct np_task *task, struct np_task *delivery);
/* Between these, both included, lie the devices that the last np_sched_done let begin something. */
void np_sched_woken(const struct np_sched *sched, int *first, int *last);
void np_sched_arrived(struct np_sched *sched, const struct np_task *delivery);

/* [positions]: the stages of a known step's positions, until it is complete. */
const uint16_t *np_sched_stages(const struct np_sched *sched, uint64_t step);
/* The cost of a task of a known step, by the config; the layer that it has at a position. */
double np_sched_cost(const struct np_sched *sched, const struct np_task *task);
uint32_t np_sched_layer(const struct np_sched *sched, const struct np_task *task, int position);

/* All steps below this number are complete. */
uint64_t np_sched_completed(const struct np_sched *sched);
/* Steps pushed so far. */
uint64_t np_sched_known(const struct np_sched *sched);
/* No task of this step or a later one was handed out so far: np_sched_stop_after this number - 1,
 * or more, leaves no step half done. */
uint64_t np_sched_started(const struct np_sched *sched);

#endif
