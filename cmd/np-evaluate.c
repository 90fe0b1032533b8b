/* np-evaluate: what subnets of a trained supernet reach on the validation data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_choice.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli.h"
#include "run/scores.h"
#include "run/scoring.h"
#include "space/sampler.h"
#include "space_options.h"

enum {
    OPT_RUN = 0x100,
    OPT_STEP,
    OPT_SUBNETS,
    OPT_RANDOM,
    OPT_BATCHES,
    OPT_BACKEND,
    OPT_DEVICES,
    OPT_MEMORY,
    OPT_THREADS,
    OPT_ISA
};

enum { BATCHES = 4 };

static const struct argp_option table[] = {
    {"run", OPT_RUN, "DIR", 0, "the run directory that np-train made", 0},
    {"step", OPT_STEP, "N", 0, "its checkpoint after N steps (default: the latest)", 0},
    {"subnets", OPT_SUBNETS, "FILE", 0, "a subnet a line, to be scored; - is a pipe", 0},
    {"random", OPT_RANDOM, "N", 0, "the first N of np-train's evaluation subnets instead (16)", 0},
    {"batches", OPT_BATCHES, "N", 0, "validation batches for each of them (4)", 0},
    {"backend", OPT_BACKEND, "cpu|cuda|auto", 0, "compute on processors (the default), or a GPU",
     0},
    {"devices", OPT_DEVICES, "LIST", 0, "GPUs by number, as 0,1 (default: the first)", 0},
    {"weight-memory", OPT_MEMORY, "SIZE", 0, "memory for weights that wait to be used again", 0},
    {"jobs", 'j', "N", 0, "subnets at a time (default: one for each processor, or GPU)", 0},
    {"threads", OPT_THREADS, "N", 0, "threads for each of them (1)", 0},
    {"isa", OPT_ISA, "NAME", 0, "instruction set of the kernels", 0},
    {"quiet", 'q', 0, 0, "no progress", 0},
    {0}};

struct options {
    struct space_options space;
    const char *run, *subnets;
    uint64_t step, random, batches; /* batches 0: BATCHES */
    uint64_t memory;                /* bytes; 0: as the subnets want */
    struct backend backend;
    struct plan_options plan; /* threads, instruction set and GPUs alone are asked for */
    int jobs;
    bool quiet;
};

static void check(struct options *o, struct argp_state *state)
{
    const char *const inputs[] = {o->space.path, o->subnets};
    if (!o->space.path)
        argp_error(state, "a recipe is needed");
    if (!o->run)
        argp_error(state, "--run DIR is needed");
    if (o->subnets && o->random)
        argp_error(state, "--subnets says which, --random draws them: one of the two");
    if (o->plan.devices && o->backend.choice != BACKEND_CUDA)
        argp_error(state, "--devices names GPUs: they are for --backend cuda");
    cli_one_standard(state, inputs, 2);
    backend_check(&o->backend, &o->plan, state);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    static const char *const backends[] = {"cpu", "cuda", "auto"};
    static const enum backend_choice choices[] = {BACKEND_CPU, BACKEND_CUDA, BACKEND_AUTO};
    struct options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->space;
        return 0;
    case OPT_RUN:
        o->run = arg;
        return 0;
    case OPT_STEP:
        o->step = (uint64_t)cli_int(state, "step", arg, 0, INT64_MAX);
        return 0;
    case OPT_SUBNETS:
        o->subnets = arg;
        return 0;
    case OPT_RANDOM:
        o->random = (uint64_t)cli_int(state, "random", arg, 1, INT64_MAX);
        return 0;
    case OPT_BATCHES:
        o->batches = (uint64_t)cli_int(state, "batches", arg, 1, 1000000);
        return 0;
    case 'j':
        o->jobs = (int)cli_int(state, "jobs", arg, 1, 4096);
        return 0;
    case OPT_BACKEND:
        o->backend.choice = choices[cli_word(state, "backend", arg, backends, 3)];
        return 0;
    case OPT_DEVICES:
        o->plan.devices = arg;
        return 0;
    case OPT_MEMORY:
        o->memory = cli_bytes(state, "weight-memory", arg);
        return 0;
    case OPT_THREADS:
        o->plan.request.threads = (int)cli_int(state, "threads", arg, 1, NP_MAX_TEAM);
        return 0;
    case OPT_ISA:
        o->plan.request.kernels = plan_isa(state, arg);
        return 0;
    case 'q':
        o->quiet = true;
        return 0;
    case ARGP_KEY_END:
        check(o, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Everything that is open. */
struct parts {
    struct options *options;
    struct space space;
    struct np_data *train, *valid;
    const struct np_device *devices; /* [count], and on each what was trained */
    struct np_trained *trained[NP_CUDA_MOST];
    int count;
    struct np_stream_shape shape;
    struct np_stream_block *each; /* of the shape */
    struct np_stream *stream;     /* NULL: subnets are drawn */
    uint64_t drawn, scored;
    struct cli_progress progress;
};

static void parts_clear(struct parts *p)
{
    np_stream_close(p->stream);
    for (int i = 0; i < p->count; i++)
        np_trained_free(p->trained[i]);
    np_data_close(p->valid);
    np_data_close(p->train);
    backend_close(&p->options->backend);
    space_close(&p->space);
    free(p->each);
}

static enum np_status open_subnets(struct parts *p, struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_stream_shape_init(&p->shape, &p->each, &p->space.recipe, err));
    p->shape.members = 1;
    if (!p->options->subnets)
        return NP_OK;
    status = np_stream_open(&p->stream, &p->shape, p->options->subnets, 0, cli_stop, NULL, err);
out:
    return status;
}

/* What the recipe must be to be evaluated. */
static enum np_status check_recipe(const struct parts *p, struct np_error *err)
{
    const struct np_recipe *recipe = &p->space.recipe;
    if (recipe->numerics->capability)
        return np_fail(err, NP_EINPUT, "%s: portable numerics alone are evaluated, not %s",
                       recipe->numerics_place, recipe->numerics->name);
    if (!recipe->valid_data.given)
        return np_fail(err, NP_EINPUT, "there is no 'data.valid' in '%s' to evaluate on",
                       np_text_safe(p->options->space.path).s);
    return NP_OK;
}

/* On every device the same checkpoint. */
static enum np_status open_trained(struct parts *p, struct np_error *err)
{
    const struct options *o = p->options;
    const struct np_digest *data = p->train ? np_data_digest(p->train) : NULL;
    enum np_status status = NP_OK;
    p->devices = backend_devices(&o->backend);
    p->count = p->devices ? o->backend.count : 1;
    if (!p->devices)
        p->devices = &np_device_host;
    for (int i = 0; i < p->count; i++) {
        uint64_t step = i ? np_trained_step(p->trained[0]) : o->step;
        NP_TRY(np_trained_open(&p->trained[i], o->run, step, &p->space.net, data, &p->devices[i],
                               err));
        np_trained_limit(p->trained[i], o->memory);
    }
out:
    return status;
}

/* Only batch norm, whose statistics are found anew, wants the training data. */
static enum np_status parts_init(struct parts *p, struct np_error *err)
{
    struct options *o = p->options;
    const struct np_recipe *recipe = &p->space.recipe;
    enum np_status status;
    NP_TRY(space_open(&p->space, &o->space, err));
    NP_TRY(check_recipe(p, err));
    NP_TRY(backend_open(&o->backend, recipe, err));
    NP_TRY(open_subnets(p, err));
    cli_catch_lost_data();
    cli_catch_signals();
    if (p->space.net.whole_batch)
        NP_TRY(space_open_data(&p->train, &p->space, &recipe->train_data, o->quiet, true, err));
    NP_TRY(space_open_data(&p->valid, &p->space, &recipe->valid_data, o->quiet, true, err));
    status = open_trained(p, err);
out:
    return status;
}

static enum np_status on_next(void *context, uint16_t *choices, bool *more, bool (*give_up)(void *),
                              void *scoring, struct np_error *err)
{
    struct parts *p = context;
    if (p->stream)
        np_stream_give_up(p->stream, give_up, scoring);
    if (p->stream)
        return np_stream_next(p->stream, choices, more, err);
    *more = p->drawn < p->options->random;
    if (*more)
        np_stream_eval_subnet(&p->shape, p->space.recipe.seed, p->drawn++, choices);
    return NP_OK;
}

static enum np_status on_scored(void *context, const uint16_t *choices, struct np_score score,
                                struct np_error *err)
{
    struct parts *p = context;
    uint64_t total = p->stream ? UINT64_MAX : p->options->random;
    struct cli_eta eta = cli_progress_eta(&p->progress, ++p->scored, total);
    cli_progress_clear(stdout);
    np_score_write(stdout, score, choices, p->shape.blocks);
    if (fflush(stdout) != 0)
        return np_fail_errno(err, "cannot write standard output");
    if (cli_progress_due(&p->progress))
        cli_progress_show(&p->progress, "%llu scored | loss %.3f, accuracy %.1f %%%s",
                          (unsigned long long)p->scored, score.loss, 100 * score.accuracy, eta.s);
    return NP_OK;
}

/* As many as there are GPUs, or the processors have threads for, and there are subnets. */
static int jobs_of(const struct parts *p)
{
    const struct options *o = p->options;
    int jobs = o->plan.request.processors / o->plan.request.threads;
    if (o->jobs)
        return o->jobs;
    if (o->backend.opened)
        jobs = p->count;
    if (!o->subnets && o->random < (uint64_t)jobs)
        jobs = (int)o->random;
    return jobs < 1 ? 1 : jobs;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

/* More batches than have every image, or pair, equally often say nothing new. */
static void note_batches(const struct parts *p)
{
    const struct np_recipe *recipe = &p->space.recipe;
    uint64_t count = np_data_count(p->valid), enough;
    if (p->options->quiet || !p->options->batches || recipe->input == NP_INPUT_TOKENS)
        return;
    enough = count / common_divisor(count, (uint64_t)recipe->batch);
    if (p->options->batches > enough)
        cli_note("%llu of %llu batches would have each of %llu %s equally often",
                 (unsigned long long)enough, (unsigned long long)p->options->batches,
                 (unsigned long long)count, recipe->input == NP_INPUT_PAIRS ? "pairs" : "images");
}

static enum np_status run(struct parts *p, struct np_error *err)
{
    const struct options *o = p->options;
    struct np_scoring_config config = {.net = &p->space.net,
                                       .train_data = p->train,
                                       .data = p->valid,
                                       .batches = o->batches ? o->batches : BATCHES,
                                       .devices = p->devices,
                                       .trained = p->trained,
                                       .count = p->count,
                                       .kernels = backend_kernels(&o->backend, &o->plan),
                                       .jobs = jobs_of(p),
                                       .threads = o->plan.request.threads,
                                       .scratch = backend_scratch(&o->backend, &p->space.net),
                                       .hooks = {p, on_next, on_scored, cli_stop}};
    enum np_status status;
    note_batches(p);
    cli_progress_begin(&p->progress, o->quiet);
    cli_progress_show(&p->progress, "reading weights");
    status = np_scoring_run(&config, err);
    cli_progress_end(&p->progress);
    return status;
}

int main(int argc, char **argv)
{
    static const struct argp_child children[] = {{&space_options_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = table,
        .parser = parse,
        .args_doc = "RECIPE",
        .doc = "Score subnets of a trained supernet on the validation data: a line for each, with "
               "its loss, accuracy and candidates.",
        .children = children};
    struct options options = {.step = NP_LATEST};
    struct parts parts = {.options = &options};
    struct np_error err;
    enum np_status status;
    options.plan.request.model = true; /* no costs are measured */
    cli_parse(&argp, argc, argv, &options);
    plan_options_complete(&options.plan);
    if (!options.plan.request.threads)
        options.plan.request.threads = 1;
    if (!options.subnets && !options.random)
        options.random = 16;
    status = parts_init(&parts, &err);
    if (status == NP_OK)
        status = run(&parts, &err);
    if (status == NP_ESTOP)
        cli_note("stopped on request: %llu scored", (unsigned long long)parts.scored);
    else if (status != NP_OK)
        cli_error(&err);
    parts_clear(&parts);
    plan_options_clear(&options.plan);
    return cli_finish(cli_exit_code(status));
}
