/* np-predict-trace: run the engine's scheduler on a virtual clock and show what it would do. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "predict.h"

enum {
    OPTION_SUBNETS = 0x3000,
    OPTION_BLOCKS,
    OPTION_CANDIDATES,
    OPTION_CAPACITY,
    OPTION_FETCH_TIME,
    OPTION_SEED,
    OPTION_STEPS,
    OPTION_SCHEDULE,
    OPTION_COSTS,
    OPTION_FORMAT,
    OPTION_FIRST,
    OPTION_SHOW,
    OPTION_AGAINST,
    OPTION_SWEEP
};

static const struct argp_option table[] = {
    {"plan", 'p', "FILE", 0, "a plan of np-partition; - is standard input", 3},
    {"subnets", OPTION_SUBNETS, "FILE", 0, "take the stream of subnets from FILE; - is stdin", 3},
    {"blocks", OPTION_BLOCKS, "N", 0, "without a recipe: choice blocks", 3},
    {"candidates", OPTION_CANDIDATES, "N", 0, "without a recipe: candidates of a block", 3},
    {"capacity", OPTION_CAPACITY, "N", 0, "without a recipe: subnets that a stage has room for", 3},
    {"fetch-time", OPTION_FETCH_TIME, "TIME", 0, "without a recipe: of copying a layer (1)", 3},
    {"seed", OPTION_SEED, "N", 0, "of the drawn stream", 3},
    {"steps", OPTION_STEPS, "N", 0, "steps to simulate (default: a file's all, drawn 200)", 3},
    {"schedule", OPTION_SCHEDULE, "NAME", 0, "csp, sequential, gpipe, 1f1b, naspipe or all", 3},
    {"costs", OPTION_COSTS, "plan|unit|lognormal", 0,
     "the plan's costs, F = B = W = 1 a block, or a drawn time a layer", 3},
    {"format", OPTION_FORMAT, "NAME", 0, "summary, tsv, chrome or svg", 4},
    {"first", OPTION_FIRST, "N", 0, "draw from step N", 4},
    {"show", OPTION_SHOW, "N", 0, "draw N steps (default: all; svg 12)", 4},
    {"against", OPTION_AGAINST, "FILE", 0, "compare with a run's trace in JSON", 4},
    {"sweep", OPTION_SWEEP, "LIST", 0, "a table, such as of stages=1..8,window=1,2,4", 4},
    {"output", 'o', "FILE", 0, "write to FILE instead of standard output", 4},
    {"quiet", 'q', 0, 0, "no progress", 4},
    {0}};

static error_t parse_space(int key, char *arg, struct argp_state *state)
{
    struct predict_options *options = state->input;
    switch (key) {
    case OPTION_SUBNETS:
        options->subnets = arg;
        return 0;
    case OPTION_BLOCKS:
        options->blocks = (int)cli_int(state, "blocks", arg, 1, NP_MAX_BLOCKS);
        return 0;
    case OPTION_CANDIDATES:
        options->candidates = (int)cli_int(state, "candidates", arg, 1, NP_MAX_CHOICES);
        return 0;
    case OPTION_CAPACITY:
        options->capacity = (int)cli_int(state, "capacity", arg, 1, 4096);
        return 0;
    case OPTION_FETCH_TIME:
        options->fetch_time = cli_number(state, "fetch-time", arg, 0, 1e6);
        options->has_fetch_time = true;
        return 0;
    case OPTION_SEED:
        options->seed = cli_seed(state, "seed", arg);
        options->seeded = true;
        return 0;
    case OPTION_STEPS:
        options->steps = (uint64_t)cli_int(state, "steps", arg, 1, INT64_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void parse_sweep(struct predict_options *options, const char *text, struct argp_state *state)
{
    struct np_error err;
    sweep_clear(&options->sweep);
    if (sweep_parse(&options->sweep, text, &err) != NP_OK)
        argp_error(state, "--sweep: %s", err.msg);
}

static error_t parse_output(int key, char *arg, struct argp_state *state)
{
    static const char *const formats[] = {"summary", "tsv", "chrome", "svg"};
    struct predict_options *options = state->input;
    switch (key) {
    case OPTION_FORMAT:
        options->format = cli_word(state, "format", arg, formats, 4);
        return 0;
    case OPTION_FIRST:
        options->first = (uint64_t)cli_int(state, "first", arg, 0, INT64_MAX);
        return 0;
    case OPTION_SHOW:
        options->show = (uint64_t)cli_int(state, "show", arg, 1, INT64_MAX);
        return 0;
    case OPTION_AGAINST:
        options->against = arg;
        return 0;
    case OPTION_SWEEP:
        parse_sweep(options, arg, state);
        return 0;
    case 'o':
        options->output = arg;
        return 0;
    case 'q':
        options->quiet = true;
        return 0;
    default:
        return parse_space(key, arg, state);
    }
}

/* Without a recipe memory is counted in layers. */
static void check_memory(const struct predict_options *options, struct argp_state *state)
{
    const struct np_partition_request *plan = &options->plan.request;
    bool bare = !options->space.path;
    if (bare && (plan->memory_bytes || plan->disk.read))
        argp_error(state, "--device-memory and --stash-bandwidth need a recipe");
    if (bare && plan->recompute == NP_RECOMPUTE_ALWAYS)
        argp_error(state, "--recompute needs a recipe, whose layers it is about");
    if (!bare && (options->capacity || options->has_fetch_time))
        argp_error(state, "--capacity and --fetch-time are for use without a recipe");
    if (options->capacity && plan->replicas > 1)
        argp_error(state, "replicas share all layers: --capacity is for one");
    if (options->has_fetch_time && !options->capacity &&
        !sweep_value(&options->sweep, SWEEP_CAPACITY))
        argp_error(state, "--fetch-time needs --capacity");
}

/* A sweep says what nothing else says. */
static void check_sweep(const struct predict_options *options, struct argp_state *state)
{
    const struct np_partition_request *plan = &options->plan.request;
    const struct sweep *sweep = &options->sweep;
    const bool given[SWEEP_KEYS] = {[SWEEP_REPLICAS] = plan->replicas || plan->devices,
                                    [SWEEP_STAGES] = plan->stages || plan->devices,
                                    [SWEEP_MICRO_BATCHES] = plan->micro_batches,
                                    [SWEEP_WINDOW] = plan->window,
                                    [SWEEP_LOOKAHEAD] = options->prefetch.lookahead,
                                    [SWEEP_CUT] = plan->cut,
                                    [SWEEP_REACH] = plan->reach,
                                    [SWEEP_DEVICE_MEMORY] = plan->memory_bytes > 0,
                                    [SWEEP_CAPACITY] = options->capacity};
    bool bare = !options->space.path;
    for (int key = 0; key < SWEEP_KEYS; key++)
        if (given[key] && sweep_value(sweep, (enum sweep_key)key))
            argp_error(state, "--sweep and --%s both say %s", sweep_name((enum sweep_key)key),
                       sweep_name((enum sweep_key)key));
    if (sweep_value(sweep, bare ? SWEEP_DEVICE_MEMORY : SWEEP_CAPACITY))
        argp_error(state, bare ? "--sweep: device-memory needs a recipe"
                               : "--sweep: capacity is for use without a recipe");
    if (options->plan_path &&
        (sweep_value(sweep, SWEEP_REPLICAS) || sweep_value(sweep, SWEEP_STAGES) ||
         sweep_value(sweep, SWEEP_MICRO_BATCHES)))
        argp_error(state, "--plan decides replicas, stages and micro-batches, not --sweep");
    if (sweep_value(sweep, SWEEP_REACH) &&
        (sweep_value(sweep, SWEEP_CUT) || plan->cut == NP_CUT_STATIC))
        argp_error(state, "--sweep: reach is of balanced cuts, leave out cut");
    if (plan->reach && sweep_value(sweep, SWEEP_CUT))
        argp_error(state, "--reach is of balanced cuts: sweep it, and leave out cut");
    if (sweep->combinations &&
        (options->format || options->against || options->schedule == PREDICT_ALL))
        argp_error(state, "--sweep has a table only, of one schedule");
    if (sweep->combinations &&
        (cli_is_standard(options->subnets) || cli_is_standard(options->plan_path) ||
         cli_is_standard(options->space.path)))
        argp_error(state, "--sweep reads its input again and again: give files");
}

/* What must and what must not be given together; fills in defaults that depend on others. */
static void check(struct predict_options *options, struct argp_state *state)
{
    const struct np_partition_request *plan = &options->plan.request;
    const char *const inputs[] = {options->space.path, options->plan_path, options->subnets};
    char within[PATH_MAX] = ""; /* a run directory's trace */
    const char *const traces[] = {options->against, within};
    bool bare = !options->space.path;
    if (options->against)
        snprintf(within, sizeof within, "%s/trace.json", options->against);
    cli_apart(state, "output", options->output, inputs, 3);
    cli_apart(state, "output", options->output, traces, options->against ? 2 : 0);
    cli_one_standard(state, inputs, 3);
    if (bare && (options->blocks == 0 || options->candidates == 0))
        argp_error(state, "give a recipe, or --blocks and --candidates");
    if (bare && (options->plan_path || options->against || options->costs == PREDICT_PLAN_COSTS))
        argp_error(state, "--plan, --against and --costs plan need a recipe");
    if (bare && (plan->devices || plan->threads || plan->kernels || !plan->model ||
                 options->space.set_count))
        argp_error(state, "--devices, --threads, --isa, --profile-from and --set need a recipe");
    if (options->plan_path && (plan->kernels || !plan->model))
        argp_error(state, "--plan has the costs: leave out --isa and --profile-from");
    if (!bare && (options->blocks || options->candidates))
        argp_error(state, "--blocks and --candidates are for use without a recipe");
    check_memory(options, state);
    check_sweep(options, state);
    if (options->plan_path &&
        (plan->devices || plan->replicas || plan->stages || plan->micro_batches || plan->threads))
        argp_error(state, "--plan decides devices, replicas, stages, micro-batches and threads");
    if (options->schedule == PREDICT_ALL && (options->format || options->against))
        argp_error(state, "--schedule all has a summary only");
    if (options->against && (options->format || options->steps || options->first || options->show))
        argp_error(state, "--against compares all steps of a run, in a text: leave out --format, "
                          "--steps, --first and --show");
    if (options->schedule == PREDICT_ALL && cli_is_standard(options->subnets))
        argp_error(state, "--schedule all reads the stream again and again: give a file");
    if (options->schedule && !plan->replicas)
        options->plan.request.replicas = 1; /* the others have none to choose */
    if (!options->steps)
        options->steps = options->subnets ? UINT64_MAX : 200;
    if (!options->show)
        options->show = options->format == PREDICT_SVG ? 12 : UINT64_MAX;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    static const char *const costs[] = {"plan", "unit", "lognormal"};
    struct predict_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->plan;
        state->child_inputs[1] = &options->prefetch;
        state->child_inputs[2] = &options->space;
        return 0;
    case 'p':
        options->plan_path = arg;
        return 0;
    case OPTION_SCHEDULE:
        options->schedule =
            cli_word(state, "schedule", arg, predict_schedules, PREDICT_SCHEDULES + 1);
        return 0;
    case OPTION_COSTS:
        options->costs = 1 + cli_word(state, "costs", arg, costs, 3);
        return 0;
    case ARGP_KEY_END:
        check(options, state);
        return 0;
    default:
        return parse_output(key, arg, state);
    }
}

static const struct argp_child children[] = {
    {&plan_options_argp, 0, "Without --plan one is made; what is not given is chosen:", 1},
    {&prefetch_options_argp, 0, NULL, 3},
    {&space_options_argp, 0, NULL, 0},
    {0}};
static const struct argp argp = {
    table,      parse,
    "[RECIPE]", "Run the scheduler on a virtual clock: makespan, bubble, timeline.",
    children,   NULL,
    NULL};

int main(int argc, char **argv)
{
    enum np_status status;
    struct predict_options options = {.plan.request.model = true, .fetch_time = 1};
    struct np_error err;
    struct predict_job job = {.options = &options};
    struct np_buf text = {0};
    cli_parse(&argp, argc, argv, &options);
    plan_options_complete(&options.plan);
    if (options.sweep.combinations) {
        NP_TRY(predict_sweep(&text, &options, &err));
    } else {
        NP_TRY(predict_open(&job, &err));
        NP_TRY(predict_report(&text, &job, &err));
    }
    NP_TRY(cli_write(options.output, text.text, text.used, &err));
out:
    if (status != NP_OK)
        cli_error(&err);
    np_buf_clear(&text);
    predict_close(&job);
    plan_options_clear(&options.plan);
    sweep_clear(&options.sweep);
    return cli_finish(cli_exit_code(status));
}
