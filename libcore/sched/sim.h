/* Pipelines on a virtual clock: the causal scheduler itself, and the schedules it is compared with.
 *
 * Units:    times in the unit of the config's costs, which are per micro-batch.
 * Schedules: csp: np_sched, the engine's own scheduler. sequential: one task at a time. gpipe,
 *           1f1b: whole-stage tasks, micro-batches, the pipeline drains after every step. naspipe:
 *           the published rule: whole-stage tasks, the mini-batch in one, the oldest step first,
 *           backward before forward; a stage may run a step's forward when no older step that is
 *           unfinished there activates one of its layers. Their backward is B and W in one.
 * Memory:   with a config's memory, csp has its context managers bring layers and put them out
 *           (sched/contexts.h), as the engine does; the other schedules have all layers there.
 * Source:   Huang et al., GPipe (NeurIPS 2019); Narayanan et al., PipeDream-Flush, in Megatron-LM
 *           (SC 2021), section 2.2; Zhao et al., NASPipe (ASPLOS 2022), algorithm 2.
 * Replicas: csp alone has them, where all layers are there.
 * Errors:   NP_EMEM; NP_EINPUT for naspipe with groups, for replicas without csp; NP_ENO when a
 *           check finds a broken rule.
 */
#ifndef NP_SCHED_SIM_H
#define NP_SCHED_SIM_H

#include "sched/contexts.h"
#include "sched/disk.h"
#include "sched/span.h"

enum np_sim_schedule { NP_SIM_CSP, NP_SIM_SEQUENTIAL, NP_SIM_GPIPE, NP_SIM_1F1B, NP_SIM_NASPIPE };

/* A device memory that does not hold all layers. */
struct np_sim_memory {
    const uint64_t *bytes, *room; /* np_contexts_config's */
    enum np_context_policy policy;
    struct np_copy_speed speed;
};

/* What came of a stage. */
struct np_sim_stage {
    struct np_context_sums sums;
    double copy;  /* time of its copiers in copies */
    double stall; /* its tasks waited for layers */
};

struct np_sim_config {
    struct np_sched_config sched;
    const struct np_sim_memory *memory; /* NULL: all layers are there */
    struct np_sim_stage *stages;        /* [stages]: filled in; may be NULL */
    enum np_sim_schedule schedule;
    double overhead; /* added to every task */
    double transfer; /* from the end of a task until its output has reached another stage */
    bool check;      /* csp: follow every task with np_rule */
    /* The next step's subnets, as np_sched_push has them; false at the end of the stream. */
    bool (*next_step)(void *context, uint16_t *choices);
    /* Each task and each copy that has ended, in order of time within a stage; may be NULL. A
     * whole-stage task of the other schedules is an F or a B from the stage's first position. */
    void (*on_task)(void *context, const struct np_span *span);
    void (*on_copy)(void *context, const struct np_copy_span *span);
    void *context;
};

struct np_sim_report {
    uint64_t steps, tasks;
    double makespan;
    double busy;       /* of all devices together, with overheads, without stalls */
    double sequential; /* cost of all tasks, without overheads */
    double speedup;    /* sequential / makespan */
    double bubble;     /* share of the devices' time that is idle, stalls included */
};

enum np_status np_sim_run(struct np_sim_report *report, const struct np_sim_config *config,
                          struct np_error *err);

#endif
