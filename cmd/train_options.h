/* np-train's command line. */
#ifndef NP_CMD_TRAIN_OPTIONS_H
#define NP_CMD_TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend_choice.h"
#include "plan_options.h"
#include "prefetch_options.h"
#include "run/session.h"
#include "space_options.h"

struct train_options {
    struct space_options space;
    struct plan_options plan;
    struct backend backend;
    const char *run, *plan_file, *subnets, *losses, *expect, *trace, *stash, *init;
    struct prefetch_options prefetch;
    enum np_session_schedule schedule;
    uint64_t stop_after, keep, eval_every, eval_subnets, eval_batches, delay_seed;
    uint64_t init_step; /* or NP_LATEST */
    bool resume, ledger_layers, quiet, verbose;
};

/* Exits with 2 on a usage error. */
void train_options_parse(struct train_options *options, int argc, char **argv);
void train_options_clear(struct train_options *options);

#endif
