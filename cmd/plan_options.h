/* What a user may ask of a plan: the options of np-partition, also those of the tools that make a
 * plan when none is given. */
#ifndef NP_CMD_PLAN_OPTIONS_H
#define NP_CMD_PLAN_OPTIONS_H

#include <argp.h>

#include "plan/partition.h"

struct plan_options {
    struct np_partition_request request; /* set request.model first: the tool's default */
    char *cache;                         /* what request.cache points to */
    const char *devices;                 /* --devices, as given */
    bool gpus;                           /* it is a list of GPUs, and the tool's affair */
};

/* A child for a tool's argp. */
extern const struct argp plan_options_argp;

/* For option parsers: the kernels that --isa names. */
const struct np_kernels *plan_isa(struct argp_state *state, char *arg);

/* Completes the request with this machine: processors, instruction set, cache directory. */
void plan_options_complete(struct plan_options *options);
void plan_options_clear(struct plan_options *options);

/* PLAN_VERBOSE: the alternatives too, as a table, also where nothing fits. */
enum plan_talk { PLAN_QUIET, PLAN_PROGRESS, PLAN_VERBOSE };

/* np_partition_request's measuring, with a struct cli_progress as context. */
void plan_show_measuring(void *progress, const struct np_plan *plan, size_t next, size_t count);

/* np_partition with its progress on the terminal. */
enum np_status plan_make(struct np_plan *plan, const struct np_supernet *net,
                         const struct plan_options *given, enum plan_talk talk,
                         struct np_error *err);

#endif
