/* A session: one call of np-train on a run directory, from its first step to its last checkpoint.
 *
 * The run directory is made (or, to resume, opened and checked), steps are trained by the reference
 * or the engine in segments that end at checkpoints and evaluations, every step goes to the ledger,
 * and the last checkpoint's digest is the digest of the run.
 *
 * Errors    NP_EINPUT: the directory exists, or does not fit the recipe or what computes the
 *           products, and nothing was trained; or the stream is bad, after a checkpoint of the
 *           steps before. NP_ENAN; NP_ESTOP: stopped on request after a clean checkpoint, whose
 *           digest the result has, or, of a run that inherits, before it had one;
 *           NP_EIO; NP_EMEM; NP_EDATA; what hooks.step returned, after a checkpoint.
 * Ownership borrows everything in the config.
 * Threads   hooks are called by one thread at a time.
 */
#ifndef NP_RUN_SESSION_H
#define NP_RUN_SESSION_H

#include "exec/residence.h"
#include "exec/train.h"
#include "io/digest.h"
#include "run/inherit.h"

enum np_session_schedule { NP_SESSION_CSP, NP_SESSION_SEQUENTIAL };

struct np_session_hooks {
    void *context;
    /* A step is in the ledger. */
    enum np_status (*step)(void *context, const struct np_step_record *record,
                           const struct np_train_times *times, struct np_error *err);
    /* The mean score on the validation data after `step` completed steps. */
    void (*evaluated)(void *context, uint64_t step, struct np_score mean);
    /* An evaluation is at number `subnet` of its `count` subnets. */
    void (*evaluating)(void *context, size_t subnet, size_t count);
    /* A checkpoint is being written, or read: so many of its layers are done. */
    void (*checkpoint)(void *context, bool writes, size_t done, size_t layers);
    bool (*stop)(void *context);
};

struct np_session_config {
    const char *run; /* directory */
    const struct np_supernet *net;
    const struct np_data *train_data, *valid_data; /* valid: NULL when there is none */
    const struct np_kernels *kernels;
    const struct np_device *devices; /* as np_train_config has them */
    int device_count;
    struct np_link *link;
    struct np_products *products; /* the devices'; NULL: the recipe's numerics are portable */
    const struct np_plan *plan;
    enum np_session_schedule schedule;
    const char *subnets; /* NULL: the recipe's sampler; a file, or "-" */
    /* Where the first weights are that the recipe's train.init names; NULL: nothing is inherited,
     * or a run goes on that has a checkpoint. */
    struct np_inherit *inherit;
    bool resume, ledger_layers;
    uint64_t stop_after;                             /* steps; 0: train.steps */
    uint64_t keep;                                   /* checkpoints; 0: all */
    uint64_t eval_every, eval_subnets, eval_batches; /* every 0: never */
    enum np_context_policy policy;                   /* as np_train_config has them */
    const char *stash;
    uint64_t delay_seed;
    struct np_trace *trace; /* NULL: none */
    const char *provenance; /* run.json's text: written as it is, never digested */
    struct np_session_hooks hooks;
};

struct np_session_result {
    bool has_digest;
    struct np_digest digest; /* of the last checkpoint, if there is one */
    uint64_t first, next;    /* steps trained in this session: first .. next - 1 */
    double seconds, eval_seconds, checkpoint_seconds; /* of training alone, and beside it */
    struct np_train_times times;
    uint64_t memory_bytes; /* of all stages, at most */
    bool has_residence;
    struct np_residence_sums residence; /* of all stages together */
};

enum np_status np_session_run(struct np_session_result *result,
                              const struct np_session_config *config, struct np_error *err);

#endif
