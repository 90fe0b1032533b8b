/* Training steps: what the sequential reference and the pipeline engine have in common.
 *
 * Both train steps first .. end-1 of a stream on a state and report each step, in step order, with
 * the same values bit for bit.
 *
 * Order     the loss of a member is its grains' lane sums added in order, divided by its targets.
 * Stream    who waits for it asks hooks.stop meanwhile, and nobody afterwards (np_stream_give_up).
 * Errors    NP_ENAN names step, subnet and layer; NP_ESTOP when hooks.stop said so, and what the
 *           stream returned: all steps up to *next are complete; what a hook returned; NP_EIO, of
 *           threads and the stash; NP_EMEM. After any but NP_ESTOP and the stream's some layers may
 *           have updates beyond *next: state and engine can be freed, and no more.
 * Threads   hooks are called by one thread at a time, not always the same.
 */
#ifndef NP_EXEC_TRAIN_H
#define NP_EXEC_TRAIN_H

#include "base/arena.h"
#include "data/data.h"
#include "exec/state.h"
#include "num/link.h"
#include "plan/plan.h"
#include "sched/context.h"
#include "sched/trace.h"
#include "space/sampler.h"

struct np_layer_print {
    uint32_t layer;
    float square; /* of the norm of its gradient, where the recipe clips layers; else 0 */
    uint64_t fingerprint;
};

/* One finished step. */
struct np_step_record {
    uint64_t step;
    float lr;
    int members;
    const uint16_t *choices; /* [members][positions], stem and head included */
    const float *losses;     /* [members] */
    uint64_t fingerprint;    /* of all values written in the step */
    size_t layer_count;
    const struct np_layer_print *layers; /* by layer number */
};

struct np_train_hooks {
    void *context;
    enum np_status (*step)(void *context, const struct np_step_record *record,
                           struct np_error *err);
    /* Asked before each task, or step of the reference, so it is quick and calls no engine; NULL:
     * nobody stops. */
    bool (*stop)(void *context);
    /* An evaluation is at number `subnet` of its `count` subnets; NULL: nobody wants to know. */
    void (*evaluating)(void *context, size_t subnet, size_t count);
};

struct np_train_config {
    const struct np_supernet *net;
    const struct np_data *data;       /* to train on */
    const struct np_kernels *kernels; /* the devices' */
    /* What the stages share, in contiguous runs; NULL: this machine's processors. */
    const struct np_device *devices;
    int device_count;
    /* Between the devices' memories, where plan->memories of them are apart; else not used. */
    struct np_link *link;
    const struct np_plan *plan; /* the engine's; the reference uses its threads alone */
    struct np_train_hooks hooks;
    /* Where the plan gives a stage so much memory and no more: what moves its layers, and where
     * to: a file, or NULL: memory. */
    enum np_context_policy policy;
    const char *stash;
    uint64_t delay_seed; /* not 0: seeded random delays at every task and delivery (tests) */
    /* NULL, or where the engine records every task and copy, in nanoseconds since it was made. */
    struct np_trace *trace;
};

/* The busy and total time of all stages, for the bubble. May be asked for inside a hook. */
struct np_train_times {
    double busy_s, stage_s;
};

/* Where stage `stage` computes, of np_plan_devices(config->plan). */
const struct np_device *np_train_device(const struct np_train_config *config, int stage);
/* Makes the stages' devices the homes of their layers: before anything is put there. */
enum np_status np_train_place(const struct np_train_config *config, struct np_state *state,
                              struct np_error *err);

/* The sequential reference: the simplest program that could do it. */
enum np_status np_train_sequential(const struct np_train_config *config, struct np_state *state,
                                   struct np_stream *stream, uint64_t first, uint64_t end,
                                   uint64_t *next, struct np_error *err);

/* The pipeline engine. */
struct np_engine;
enum np_status np_engine_new(struct np_engine **out, const struct np_train_config *config,
                             struct np_state *state, struct np_error *err);
void np_engine_free(struct np_engine *engine);
enum np_status np_engine_train(struct np_engine *engine, struct np_stream *stream, uint64_t first,
                               uint64_t end, uint64_t *next, struct np_error *err);
struct np_train_times np_engine_times(const struct np_engine *engine);
/* What a stage's context manager did; false where the plan gives no budget. */
struct np_residence_sums;
bool np_engine_residence(const struct np_engine *engine, int stage, struct np_residence_sums *sums);
/* The memory of a device (sched/sched.h). */
struct np_arena_sums np_engine_memory(const struct np_engine *engine, int device);

/* What a subnet reaches: the mean loss of targets, and the share of them that it finds the
 * likeliest. */
struct np_score {
    double loss, accuracy;
};

/* What is evaluated: `count` subnets, choices[count][blocks], over the same `batches` evaluation
 * batches of `data`. */
struct np_evaluation {
    const struct np_data *data;
    const uint16_t *choices;
    size_t count;
    uint64_t batches;
};

/* What evaluates: the stages of an engine, which does not train meanwhile, in their memory; or,
 * engine NULL, a crew of config->plan->threads in memory of its own. Borrows what it is given. */
struct np_evaluator;
enum np_status np_evaluator_new(struct np_evaluator **out, const struct np_train_config *config,
                                struct np_state *state, const struct np_engine *engine,
                                struct np_error *err);
void np_evaluator_free(struct np_evaluator *evaluator);

/* Their scores, scores[count], without dropout. Batch norm's statistics are each subnet's own: the
 * mean over those of recipe->calibration evaluation batches of config->data. NP_ESTOP when
 * hooks.stop said so. The state is not changed, but layers that no step has used yet are made. */
enum np_status np_evaluate(struct np_score *scores, struct np_evaluator *evaluator,
                           const struct np_evaluation *evaluation, struct np_error *err);

/* Batch norm's statistics at a position, of the last subnet that was evaluated: for each batch norm
 * of its layer mean and variance [kind->norm_floats], in the memory of the position's device. */
const float *np_evaluator_statistics(const struct np_evaluator *evaluator, int position);

#endif
