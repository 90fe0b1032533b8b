/* The plan: everything that decides the speed of a run, and not one bit of it.
 *
 * A stage plan is YAML that a person can read and edit (man 5 naspipe-plan): the recipe's digest,
 * the stages and the positions they are home to, granularity, micro-batches, window, threads, the
 * cost profile it was made from, predicted step time and bubble, memory per stage.
 *
 * Units     costs in nanoseconds per micro-batch; memory in bytes.
 * Errors    NP_EINPUT with file:line:column: another recipe's digest, more stages than positions,
 *           a cut out of order, micro-batches that do not fall on grain boundaries, replicas that
 *           cannot share them or the members evenly; NP_EIO; NP_EMEM.
 * Ownership np_plan_clear releases.
 */
#ifndef NP_PLAN_PLAN_H
#define NP_PLAN_PLAN_H

#include "num/link.h"
#include "plan/flight_layout.h"
#include "sched/disk.h"
#include "sched/sched.h"

#define NP_MAX_STAGES 1024       /* of all replicas together */
#define NP_PLAN_COST_MAX_NS 1e15 /* of a layer: eleven days */
#define NP_PLAN_TASK_NS 2000.0   /* what a task costs beside its layers: decision, clock, posting */
#define NP_PLAN_TRANSFER_NS 1000.0 /* from the end of a task until another stage sees its output */
#define NP_PLAN_COPY_NS 10000.0 /* what a copy of a file takes beside its bytes: waking a thread */

#define NP_PLAN_AHEAD 96 /* steps worth knowing beyond the window where layers come and go */

struct np_plan {
    int stages;            /* of each replica */
    int replicas;          /* copies of the pipeline (sched/sched.h); 0 is as 1 */
    int *stage_first;      /* [stages + 1] positions: stage k is home to stage_first[k] .. */
    int unit;              /* positions an F or B task covers */
    int reach;             /* balanced cuts: how far from home (sched/balance.h); 0: static */
    int micro_batches;     /* divides batch / grain */
    int window;            /* steps in flight */
    int *in_flight;        /* [stages] flights (sched/sched.h) a stage holds; 0: np_plan_flights */
    int lookahead;         /* further steps known to the scheduler */
    int threads;           /* of each stage's team */
    float *recompute;      /* [kinds]: what part of F is done again for B; NULL: all is kept */
    int memories;          /* of all devices (np_plan_memory): the machine's, not the file's */
    size_t scratch;        /* bytes for each of them, where a device asks for more; else 0 */
    uint64_t device_bytes; /* a stage's memory, a cap; 0: none */
    char *device_place;    /* "FILE:LINE:COLUMN: " where a file says so; NULL: none does */
    struct np_disk_bandwidth disk;   /* of the stash, if it is a file */
    struct np_link_pace link;        /* between stages of several processes */
    bool measured;                   /* profile: measured on a machine, or modelled from FLOPs */
    struct np_layer_cost *kind_cost; /* [kinds of the supernet] */
    double step_ns, bubble;          /* predicted */
    uint64_t *stage_bytes;           /* [stages] memory, all layers there; of the first replica */
};

/* An empty plan of `stages` stages: arrays of zeros. */
enum np_status np_plan_init(struct np_plan *plan, const struct np_supernet *net, int stages,
                            struct np_error *err);
/* NP_EINPUT unless micro-batches fall on grain boundaries, i.e. their number divides batch / grain;
 * or if there are several, and batch norm needs the whole mini-batch. */
enum np_status np_plan_check_cuts(int micro_batches, const struct np_supernet *net,
                                  struct np_error *err);

/* NP_EINPUT unless every replica has the same share of a step (np_sched_may_share), of members that
 * learn from the first one all of them, layers stay at home where several replicas have a device
 * memory, and there are no more than NP_MAX_STAGES stages. */
enum np_status np_plan_check_replicas(const struct np_plan *plan, const struct np_supernet *net,
                                      struct np_error *err);
/* NP_EINPUT unless replicas that have memories of their own have as many each, and no layer is
 * handed over between their stages. */
enum np_status np_plan_check_memories(const struct np_plan *plan, struct np_error *err);

static inline int np_plan_replicas(const struct np_plan *plan)
{
    return plan->replicas ? plan->replicas : 1;
}

/* What a replica has of a step. */
static inline struct np_sched_share np_plan_share(const struct np_plan *plan,
                                                  const struct np_supernet *net)
{
    return np_sched_share(np_plan_replicas(plan), net->recipe->members, plan->micro_batches);
}

/* Stages of all replicas. */
static inline int np_plan_devices(const struct np_plan *plan)
{
    return np_plan_replicas(plan) * plan->stages;
}

/* Whether replicas have memories of their own, as many each. Then layers are at home on the last
 * one's stages, which make the last contribution to every gradient and update; else on the first
 * one's, and all replicas use them there. */
static inline bool np_plan_apart(const struct np_plan *plan)
{
    return plan->memories > 1 && np_plan_replicas(plan) > 1;
}

/* The device that a stage's layers are at home on. */
static inline int np_plan_home(const struct np_plan *plan, int stage)
{
    return np_plan_apart(plan) ? (plan->replicas - 1) * plan->stages + stage : stage;
}

/* Memories that the stages of one replica share, in contiguous runs; and which of all a device has:
 * they are dealt to the devices in order. */
static inline int np_plan_replica_memories(const struct np_plan *plan)
{
    return plan->memories > 1 ? plan->memories / np_plan_replicas(plan) : 1;
}

static inline int np_plan_memory(const struct np_plan *plan, int device)
{
    return np_flight_memory(plan->memories, np_plan_devices(plan), device);
}

/* Whether what operators save is computed again, instead of being kept until B. */
enum np_status np_plan_set_recompute(struct np_plan *plan, const struct np_supernet *net,
                                     bool recompute, struct np_error *err);

/* Another cap than the plan's. */
void np_plan_set_device_bytes(struct np_plan *plan, uint64_t bytes);

/* Whether candidates live in a stash and are on a stage while they are wanted. Replicas share all
 * layers, which stay where they are: a cap must leave room for them. */
static inline bool np_plan_swaps(const struct np_plan *plan)
{
    return plan->device_bytes > 0 && np_plan_replicas(plan) == 1;
}

/* Flights that the window lets begin on a replica: window x those of its share of a step;
 * INT_MAX / 2 if that is less. */
int np_plan_flights(const struct np_plan *plan, const struct np_supernet *net);

/* What a task costs beside its layers; and what is between the end of one and another stage's
 * seeing its output, in the mean over the plan's cuts. */
double np_plan_task_ns(const struct np_plan *plan);
double np_plan_transfer_ns(const struct np_plan *plan, const struct np_supernet *net);

/* The cost of a kind of layer at a position, of one micro-batch; of B with what it computes again,
 * but in the last unit of the cut, whose B follows its F at once; of F and W, where replicas are
 * apart, with what they fetch. */
struct np_layer_cost np_plan_cost(const struct np_plan *plan, const struct np_supernet *net,
                                  int position, int kind);

/* Expected cost of a position, F + B + W of one micro-batch: the mean over its candidates, each
 * as often as it is drawn. */
double np_plan_load(const struct np_plan *plan, const struct np_supernet *net, int position);

enum np_status np_plan_read(struct np_plan *plan, const char *path, const struct np_supernet *net,
                            struct np_error *err);
struct np_buf;
enum np_status np_plan_write(const struct np_plan *plan, const struct np_supernet *net,
                             struct np_buf *out, struct np_error *err);
void np_plan_clear(struct np_plan *plan);

/* Fills a scheduler's config from a plan: arrays are the caller's to free with
 * np_plan_sched_clear. */
enum np_status np_plan_sched_config(struct np_sched_config *config, const struct np_plan *plan,
                                    const struct np_supernet *net, struct np_error *err);
void np_plan_sched_clear(struct np_sched_config *config);

/* What decides the layout of the stages' memory; borrows the plan. */
struct np_flight_shape np_plan_flight_shape(const struct np_plan *plan);

#endif
