/* np-partition: cut a recipe's supernet into the stages of a pipeline; the plan goes to stdout. */
#include <stdlib.h>
#include <unistd.h>

#include "backend_choice.h"
#include "base/buf.h"
#include "base/text.h"
#include "cli.h"
#include "estimate.h"
#include "plan/largest_batch.h"
#include "plan/profile_disk.h"
#include "plan_options.h"
#include "plan_table.h"
#include "space_options.h"

struct options {
    struct space_options space;
    struct plan_options plan;
    struct backend backend;
    const char *output;
    const char *stash, *subnets;
    bool estimate, max_batch, quiet, verbose;
};

enum { OPTION_ESTIMATE = 0x4000, OPTION_MAX_BATCH, OPTION_STASH, OPTION_BACKEND, OPTION_SUBNETS };

static const struct argp_option table[] = {
    {"output", 'o', "FILE", 0, "write the plan to FILE instead of standard output", 2},
    {"backend", OPTION_BACKEND, "cpu|cuda|mpi|mpi-cuda|auto", 0,
     "plan for processors (the default), GPUs, or an MPI job's processes", 2},
    {"stash", OPTION_STASH, "FILE", 0, "the stash will be a file here: measure how fast it is", 2},
    {"estimate", OPTION_ESTIMATE, 0, 0, "write what each candidate layer takes, and no plan", 2},
    {"subnets", OPTION_SUBNETS, "FILE", 0, "--estimate: the subnets of FILE instead; - is a pipe",
     2},
    {"max-batch", OPTION_MAX_BATCH, 0, 0,
     "write the options of the largest batch that fits, and no plan", 2},
    {"quiet", 'q', 0, 0, "say nothing but errors", 2},
    {"verbose", 'v', 0, 0,
     "show the alternatives and the stages, also if standard error is no terminal", 2},
    {0}};

static void check(const struct options *options, struct argp_state *state)
{
    const struct np_partition_request *plan = &options->plan.request;
    const char *const inputs[] = {options->space.path, options->subnets};
    if (!options->space.path)
        argp_error(state, "a recipe is needed");
    cli_apart(state, "output", options->output, inputs, 2);
    cli_one_standard(state, inputs, 2);
    if (options->subnets && !options->estimate)
        argp_error(state, "--subnets is for --estimate");
    cli_apart(state, "stash", options->stash, &options->space.path, 1);
    if (options->max_batch && !plan->memory_bytes)
        argp_error(state, "--max-batch needs --device-memory");
    if (options->max_batch && options->estimate)
        argp_error(state, "--max-batch and --estimate are two questions");
    if (options->stash && (options->estimate || options->max_batch || !plan->memory_bytes))
        argp_error(state, "--stash is for a plan with --device-memory");
    if (plan->disk.read && !plan->memory_bytes && !options->estimate && !options->plan.gpus)
        argp_error(state, "--stash-bandwidth is for a plan with --device-memory");
    if ((options->stash || plan->disk.read) && plan->replicas > 1)
        argp_error(state, "a stash in a file is for one replica");
    if (options->stash && plan->disk.read)
        argp_error(state, "--stash measures what --stash-bandwidth says");
    if (options->estimate &&
        (plan->devices || plan->replicas || plan->window || plan->unit || plan->cut ||
         plan->reach || plan->recompute || plan->memory_bytes || plan->disk.read))
        argp_error(state,
                   "--estimate makes no plan that --devices, --replicas, --window, --unit, --cut, "
                   "--reach, --recompute, --device-memory and --stash-bandwidth are for");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    static const char *const backends[] = {"cpu", "cuda", "mpi", "mpi-cuda", "auto"};
    struct options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->plan;
        state->child_inputs[1] = &options->space;
        return 0;
    case 'o':
        options->output = arg;
        return 0;
    case OPTION_ESTIMATE:
        options->estimate = true;
        return 0;
    case OPTION_BACKEND:
        options->backend.choice = (enum backend_choice)cli_word(state, "backend", arg, backends, 5);
        options->plan.gpus =
            options->backend.choice == BACKEND_CUDA || options->backend.choice == BACKEND_MPI_CUDA;
        return 0;
    case OPTION_SUBNETS:
        options->subnets = arg;
        return 0;
    case OPTION_STASH:
        options->stash = arg;
        return 0;
    case OPTION_MAX_BATCH:
        options->max_batch = true;
        return 0;
    case 'q':
        options->quiet = true;
        return 0;
    case 'v':
        options->verbose = true;
        return 0;
    case ARGP_KEY_END:
        check(options, state);
        backend_check(&options->backend, &options->plan, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&plan_options_argp, 0, "What is not given is chosen:", 1},
    {&space_options_argp, 0, NULL, 0},
    {0}};
static const struct argp argp = {
    table,    parse, "RECIPE", "Cut a supernet into pipeline stages and write the plan (YAML).",
    children, NULL,  NULL};

/* Without --device-memory everything stays on the GPUs, if there is room for it. */
static enum np_status fit_gpus(struct np_plan *plan, const struct options *options,
                               enum plan_talk talk, const struct np_supernet *net,
                               struct np_error *err)
{
    struct plan_options bounded = options->plan;
    if (!options->backend.opened || bounded.request.memory_bytes ||
        !backend_bound(&options->backend, plan, &bounded.request))
        return NP_OK;
    if (!options->quiet)
        cli_note("the GPUs have no room for all layers: --device-memory %llu (%s) is taken",
                 (unsigned long long)bounded.request.memory_bytes,
                 np_text_size(bounded.request.memory_bytes).s);
    np_plan_clear(plan);
    return plan_make(plan, net, &bounded, talk, err);
}

static enum np_status make_plan(struct np_buf *out, const struct options *options,
                                const struct np_supernet *net, struct np_error *err)
{
    enum np_status status;
    struct np_plan plan = {0};
    enum plan_talk talk = options->verbose ? PLAN_VERBOSE : PLAN_PROGRESS;
    talk = options->quiet ? PLAN_QUIET : talk;
    NP_TRY(plan_make(&plan, net, &options->plan, talk, err));
    NP_TRY(fit_gpus(&plan, options, talk, net, err));
    NP_TRY(backend_counts(&options->backend, &plan, net, err));
    NP_TRY(np_plan_write(&plan, net, out, err));
    NP_TRY(cli_write(options->output, out->text, out->used, err));
    if (!options->quiet && (options->verbose || isatty(STDERR_FILENO)))
        plan_show(&plan, net);
out:
    np_plan_clear(&plan);
    return status;
}

static enum np_status make_estimate(struct np_buf *out, const struct options *options,
                                    const struct np_supernet *net, struct np_error *err)
{
    struct np_partition_request request = options->plan.request;
    struct cli_progress progress;
    enum np_status status;
    request.measuring = plan_show_measuring;
    request.context = &progress;
    cli_progress_begin(&progress, options->quiet);
    status = estimate_write(out, net, &request, options->subnets, err);
    cli_progress_end(&progress);
    if (status == NP_OK)
        status = cli_write(options->output, out->text, out->used, err);
    return status;
}

/* Options for any tool that reads the recipe; the grain too, for its default follows the batch. */
static enum np_status find_batch(struct np_buf *out, const struct options *options,
                                 const struct np_supernet *net, struct np_error *err)
{
    enum np_status status;
    struct np_largest_batch largest;
    const struct np_pipeline *p = &largest.pipeline;
    NP_TRY(np_largest_batch(&largest, net, &options->plan.request, err));
    NP_TRY(np_buf_printf(out, err, "--set train.batch=%d --set train.grain=%d\n", largest.batch,
                         net->recipe->grain));
    NP_TRY(cli_write(options->output, out->text, out->used, err));
    if (!options->quiet)
        cli_note("batch %d%s: at least %s a stage, with replicas %d, stages %d, threads %d, "
                 "micro-batches %d%s",
                 largest.batch, largest.most ? ", the most that a recipe may have" : "",
                 np_text_size(largest.least_bytes).s, p->replicas, p->stages, p->threads,
                 p->micro_batches, p->recompute ? ", activations computed again" : "");
out:
    return status;
}

static enum np_status measure_stash(struct options *options, const struct np_supernet *net,
                                    struct np_error *err)
{
    struct np_partition_request *request = &options->plan.request;
    const struct np_device *device = request->device ? request->device : &np_device_host;
    return np_profile_disk(&request->disk, &request->spare, options->stash, net, device,
                           request->processors, err);
}

int main(int argc, char **argv)
{
    enum np_status status;
    struct options options = {0};
    struct np_error err;
    struct space space = {0};
    struct np_buf text = {0};
    bool over;
    cli_parse(&argp, argc, argv, &options);
    plan_options_complete(&options.plan);
    NP_TRY(backend_join(&options.backend, &options.plan, &over, &err));
    if (over)
        goto out;
    NP_TRY(space_open(&space, &options.space, &err));
    NP_TRY(space_spares(&space, "output", options.output, &err));
    NP_TRY(space_spares(&space, "stash", options.stash, &err));
    NP_TRY(backend_open(&options.backend, &space.recipe, &err));
    backend_request(&options.backend, &options.plan.request, &space.net);
    if (!options.plan.request.model)
        NP_TRY(backend_pace(&options.backend, &options.plan.request, &err));
    options.plan.request.scratch = backend_scratch(&options.backend, &space.net);
    if (options.stash)
        NP_TRY(measure_stash(&options, &space.net, &err));
    if (options.estimate)
        status = make_estimate(&text, &options, &space.net, &err);
    else if (options.max_batch)
        status = find_batch(&text, &options, &space.net, &err);
    else
        status = make_plan(&text, &options, &space.net, &err);
    if (status == NP_OK)
        status = backend_still_there(&options.backend, &err);
out:
    if (status != NP_OK)
        cli_error(&err);
    np_buf_clear(&text);
    backend_close(&options.backend);
    space_close(&space);
    plan_options_clear(&options.plan);
    return cli_finish(cli_exit_code(status));
}
