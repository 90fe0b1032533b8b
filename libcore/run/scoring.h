/* Scoring: what subnets reach with the weights of a trained supernet, several at a time.
 *
 * Each of `jobs` workers takes the next subnet when it is done with one, so subnets that cost
 * unequally keep all of them busy. Where there are several devices, each with the weights in its
 * own memory, workers are dealt to them in turn. What is scored is told in the order in which
 * subnets came, as soon as those before it have been told; a score is that of np_evaluate, whoever
 * else is at work.
 *
 * Errors    what a hook or the evaluation returned first; then what was scored before it has been
 *           told. NP_ESTOP when hooks.stop said so.
 * Ownership borrows everything in the config.
 * Threads   `next` and `scored` are each called by one thread at a time, not always the same, and
 *           `next` may be waiting for a subnet while `scored` is called; `stop` by any.
 */
#ifndef NP_RUN_SCORING_H
#define NP_RUN_SCORING_H

#include "exec/train.h"
#include "run/trained.h"

struct np_scoring_hooks {
    void *context;
    /* The next subnet: choices[blocks]; *more false: there is none. Who waits for one asks give_up
     * now and then, and returns NP_ESTOP where it says so: another may have failed. */
    enum np_status (*next)(void *context, uint16_t *choices, bool *more, bool (*give_up)(void *),
                           void *scoring, struct np_error *err);
    enum np_status (*scored)(void *context, const uint16_t *choices, struct np_score score,
                             struct np_error *err);
    bool (*stop)(void *context);
};

struct np_scoring_config {
    const struct np_supernet *net;
    const struct np_data *train_data; /* for batch norm's statistics; NULL: no layer has one */
    const struct np_data *data;       /* to score on */
    uint64_t batches;
    const struct np_device *devices; /* [count]: of one kind */
    struct np_trained **trained;     /* [count]: the same, its layers on that device */
    int count;
    const struct np_kernels *kernels;
    int jobs, threads; /* workers, and threads of each */
    size_t scratch;    /* bytes for each of them; 0: as np_flight_shape has it */
    struct np_scoring_hooks hooks;
};

enum np_status np_scoring_run(const struct np_scoring_config *config, struct np_error *err);

#endif
