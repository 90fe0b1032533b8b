#include "train_options.h"

#include <string.h>

#include "cli.h"
#include "run/trained.h"

enum {
    OPT_RUN = 0x100,
    OPT_SCHEDULE,
    OPT_SUBNETS,
    OPT_LOSSES,
    OPT_STOP_AFTER,
    OPT_RESUME,
    OPT_KEEP,
    OPT_INIT,
    OPT_INIT_STEP,
    OPT_EXPECT,
    OPT_TRACE,
    OPT_EVAL_EVERY,
    OPT_EVAL_SUBNETS,
    OPT_EVAL_BATCHES,
    OPT_LEDGER,
    OPT_DELAYS,
    OPT_STASH,
    OPT_BACKEND,
    OPT_TRANSPORT,
    OPT_DEADLINE
};

static const struct argp_option option_table[] = {
    {"run", OPT_RUN, "DIR", 0, "run directory to make (with --resume: to continue)", 0},
    {"resume", OPT_RESUME, 0, 0, "continue the run from its last checkpoint", 0},
    {"init", OPT_INIT, "RUN", 0, "begin with what that run has trained of these layers", 0},
    {"init-step", OPT_INIT_STEP, "STEP", 0, "its checkpoint after so many steps, not the latest",
     0},
    {"stop-after", OPT_STOP_AFTER, "STEP", 0, "stop cleanly after this many steps in all", 0},
    {"keep", OPT_KEEP, "N", 0, "keep the latest N checkpoints, not all", 0},
    {"expect", OPT_EXPECT, "DIGEST", 0, "exit 1 unless the run has this digest", 0},
    {"subnets", OPT_SUBNETS, "FILE", 0, "subnet stream instead of the sampler; - is a pipe", 0},
    {"losses", OPT_LOSSES, "FILE", 0, "write each step's losses as it ends; - is stdout", 0},
    {"ledger", OPT_LEDGER, "KIND", 0, "steps, or layers: also a fingerprint a layer", 0},
    {"trace", OPT_TRACE, "FILE", 0, "write a timeline: .svg to look at, else Chrome trace JSON", 0},
    {"eval-every", OPT_EVAL_EVERY, "N", 0, "validation loss every N steps and at the end", 0},
    {"eval-subnets", OPT_EVAL_SUBNETS, "N", 0, "random subnets an evaluation averages (16)", 0},
    {"eval-batches", OPT_EVAL_BATCHES, "N", 0, "validation batches for each of them (4)", 0},
    {"plan", 'p', "FILE", 0, "stage plan from np-partition; - is standard input", 0},
    {"schedule", OPT_SCHEDULE, "NAME", 0, "csp, or sequential: the reference", 0},
    {"backend", OPT_BACKEND, "cpu|cuda|mpi|mpi-cuda|auto", 0,
     "compute on processors (the default), GPUs, or an MPI job's processes", 0},
    {"transport", OPT_TRANSPORT, "auto|peer|nccl", 0, "how several GPUs pass on what they make", 0},
    {"deadline", OPT_DEADLINE, "SECONDS", 0, "how long NCCL or a rank may be silent (60)", 0},
    {"stash", OPT_STASH, "FILE", 0, "where layers are that --device-memory has no room for", 0},
    {"inject-delays", OPT_DELAYS, "SEED", 0, "random pauses at every task and message (a test)", 0},
    {"quiet", 'q', 0, 0, "no progress, no notes", 0},
    {"verbose", 'v', 0, 0, "say what is being done", 0},
    {0}};

static error_t parse_run_option(int key, char *arg, struct train_options *o,
                                struct argp_state *state)
{
    static const char *const schedules[] = {"csp", "sequential"}, *const ledgers[] = {"steps",
                                                                                      "layers"};
    static const char *const backends[] = {"cpu", "cuda", "mpi", "mpi-cuda", "auto"};
    static const char *const transports[] = {"auto", "peer", "nccl"};
    switch (key) {
    case 'p':
        o->plan_file = arg;
        return 0;
    case OPT_BACKEND:
        o->backend.choice = (enum backend_choice)cli_word(state, "backend", arg, backends, 5);
        o->plan.gpus = o->backend.choice == BACKEND_CUDA || o->backend.choice == BACKEND_MPI_CUDA;
        return 0;
    case OPT_TRANSPORT:
        o->backend.transport =
            (enum transport_choice)cli_word(state, "transport", arg, transports, 3);
        return 0;
    case OPT_RUN:
        o->run = arg;
        return 0;
    case OPT_SCHEDULE:
        o->schedule = cli_word(state, "schedule", arg, schedules, 2) == 1 ? NP_SESSION_SEQUENTIAL
                                                                          : NP_SESSION_CSP;
        return 0;
    case OPT_SUBNETS:
        o->subnets = arg;
        return 0;
    case OPT_LOSSES:
        o->losses = arg;
        return 0;
    case OPT_RESUME:
        o->resume = true;
        return 0;
    case OPT_INIT:
        o->init = arg;
        return 0;
    case OPT_EXPECT:
        o->expect = arg;
        return 0;
    case OPT_TRACE:
        o->trace = arg;
        return 0;
    case OPT_STASH:
        o->stash = arg;
        return 0;
    case OPT_LEDGER:
        o->ledger_layers = cli_word(state, "ledger", arg, ledgers, 2) == 1;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_count(int key, char *arg, struct train_options *o, struct argp_state *state)
{
    switch (key) {
    case OPT_STOP_AFTER:
        o->stop_after = (uint64_t)cli_int(state, "stop-after", arg, 1, INT64_MAX);
        return 0;
    case OPT_INIT_STEP:
        o->init_step = (uint64_t)cli_int(state, "init-step", arg, 0, INT64_MAX);
        return 0;
    case OPT_KEEP:
        o->keep = (uint64_t)cli_int(state, "keep", arg, 1, INT64_MAX);
        return 0;
    case OPT_EVAL_EVERY:
        o->eval_every = (uint64_t)cli_int(state, "eval-every", arg, 1, INT64_MAX);
        return 0;
    case OPT_EVAL_SUBNETS:
        o->eval_subnets = (uint64_t)cli_int(state, "eval-subnets", arg, 1, 1000000);
        return 0;
    case OPT_EVAL_BATCHES:
        o->eval_batches = (uint64_t)cli_int(state, "eval-batches", arg, 1, 1000000);
        return 0;
    case OPT_DEADLINE:
        o->backend.deadline_s = (int)cli_int(state, "deadline", arg, 1, 86400);
        return 0;
    case OPT_DELAYS:
        o->delay_seed = (uint64_t)cli_int(state, "inject-delays", arg, 1, INT64_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void check(const struct train_options *o, struct argp_state *state)
{
    const struct np_partition_request *r = &o->plan.request;
    const char *const inputs[] = {o->space.path, o->plan_file, o->subnets};
    cli_apart(state, "losses", o->losses, inputs, 3);
    cli_apart(state, "trace", o->trace, inputs, 3);
    cli_apart(state, "stash", o->stash, inputs, 3);
    if (!o->space.path)
        argp_error(state, "a recipe is needed");
    if (!o->run)
        argp_error(state, "--run DIR is needed");
    if (o->init_step != NP_LATEST && !o->init)
        argp_error(state, "--init-step is for --init");
    if (o->plan_file &&
        (r->devices || r->replicas || r->stages || r->micro_batches || r->window || r->unit ||
         r->cut || r->reach || r->threads || r->recompute || r->disk.read))
        argp_error(state,
                   "--plan already says replicas, stages, micro-batches, window, unit, cuts, "
                   "threads, what is computed again, and for what stash they are");
    cli_one_standard(state, inputs, 3);
    if (r->disk.read && !r->memory_bytes && !o->plan.gpus)
        argp_error(state, "--stash-bandwidth is for --device-memory");
    if (o->schedule == NP_SESSION_SEQUENTIAL &&
        (r->replicas > 1 || r->stages > 1 || r->micro_batches > 1 || r->window > 1 || r->unit > 1))
        argp_error(state,
                   "--schedule sequential has one replica, stage, micro-batch and step at a time");
    if (o->schedule == NP_SESSION_SEQUENTIAL && r->recompute == NP_RECOMPUTE_ALWAYS)
        argp_error(state, "--schedule sequential keeps what operators save");
    if (o->schedule == NP_SESSION_SEQUENTIAL && r->memory_bytes)
        argp_error(state, "--schedule sequential keeps everything on the device");
    if (o->schedule == NP_SESSION_SEQUENTIAL && (o->plan_file || o->delay_seed))
        argp_error(state, "--schedule sequential has no plan, and no tasks to delay");
    if (o->schedule == NP_SESSION_SEQUENTIAL && o->trace)
        argp_error(state, "--schedule sequential has no timeline for --trace");
}

/* What stands beside --backend; --devices is a list for cuda, and a count for cpu. */
static void check_backend(struct train_options *o, struct argp_state *state)
{
    enum backend_choice choice = o->backend.choice;
    if (choice != BACKEND_CUDA && o->backend.transport)
        argp_error(state, "--transport is for --backend cuda");
    if ((choice == BACKEND_CPU || choice == BACKEND_AUTO) && o->backend.deadline_s)
        argp_error(state, "--deadline is for --backend cuda, mpi and mpi-cuda");
    backend_check(&o->backend, &o->plan, state);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct train_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->plan;
        state->child_inputs[1] = &o->prefetch;
        state->child_inputs[2] = &o->space;
        return 0;
    case 'q':
        o->quiet = true;
        return 0;
    case 'v':
        o->verbose = true;
        return 0;
    case ARGP_KEY_END:
        check(o, state);
        check_backend(o, state);
        return 0;
    default:
        if (parse_run_option(key, arg, o, state) == 0)
            return 0;
        return parse_count(key, arg, o, state);
    }
}

void train_options_parse(struct train_options *options, int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&plan_options_argp, 0, "Without --plan one is made; what is not given is chosen:", 1},
        {&prefetch_options_argp, 0, NULL, 0},
        {&space_options_argp, 0, NULL, 0},
        {0}};
    static const struct argp argp = {
        .options = option_table,
        .parser = parse,
        .args_doc = "RECIPE",
        .doc = "Train a supernet and print the digest of the run.\v"
               "The recipe decides the bits, the plan decides the speed: every plan gives the same "
               "digest.",
        .children = children};
    *options =
        (struct train_options){.eval_subnets = 16, .eval_batches = 4, .init_step = NP_LATEST};
    options->plan.request.model = true; /* a plan from FLOPs costs no time to make */
    cli_parse(&argp, argc, argv, options);
    plan_options_complete(&options->plan);
}

void train_options_clear(struct train_options *options)
{
    plan_options_clear(&options->plan);
}
