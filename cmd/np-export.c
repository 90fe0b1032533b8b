/* np-export: the weights of a trained supernet, or of one of its subnets, for other programs. */
#include <stdlib.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli.h"
#include "run/export.h"
#include "space_options.h"

enum { OPT_RUN = 0x100, OPT_STEP, OPT_SUBNET };

static const struct argp_option table[] = {
    {"run", OPT_RUN, "DIR", 0, "the run directory that np-train made", 0},
    {"step", OPT_STEP, "N", 0, "its checkpoint after N steps (default: the latest)", 0},
    {"subnet", OPT_SUBNET, "FILE", 0, "one subnet alone, its candidates in a line; - is a pipe", 0},
    {"output", 'o', "FILE", 0, "the safetensors file to write", 0},
    {"quiet", 'q', 0, 0, "no progress", 0},
    {0}};

struct options {
    struct space_options space;
    const char *run, *subnet, *output;
    uint64_t step;
    bool quiet;
};

static void check(const struct options *o, struct argp_state *state)
{
    const char *const inputs[] = {o->space.path, o->subnet};
    if (!o->space.path)
        argp_error(state, "a recipe is needed");
    if (!o->run)
        argp_error(state, "--run DIR is needed");
    if (!o->output)
        argp_error(state, "--output FILE is needed");
    cli_one_standard(state, inputs, 2);
    cli_apart(state, "output", o->output, inputs, 2);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
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
    case OPT_SUBNET:
        o->subnet = arg;
        return 0;
    case 'o':
        o->output = arg;
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
    const struct options *options;
    struct space space;
    struct np_data *train;
    struct np_trained *trained;
    uint16_t *choices; /* NULL: the whole supernet */
    struct np_export *export;
    struct cli_output out;
    uint64_t written;
    struct cli_progress progress;
};

static void parts_clear(struct parts *p)
{
    cli_output_abort(&p->out);
    np_export_free(p->export);
    np_trained_free(p->trained);
    np_data_close(p->train);
    space_close(&p->space);
    free(p->choices);
}

/* Batch norm's statistics are an evaluation's, which is by portable numerics. */
static enum np_status open_data(struct parts *p, struct np_error *err)
{
    const struct np_recipe *recipe = &p->space.recipe;
    if (!p->choices || !p->space.net.whole_batch)
        return NP_OK;
    if (recipe->numerics->capability)
        return np_fail(err, NP_EINPUT,
                       "%s: batch norm's statistics are found by portable numerics alone, not %s",
                       recipe->numerics_place, recipe->numerics->name);
    return space_open_data(&p->train, &p->space, &recipe->train_data, p->options->quiet, true, err);
}

static enum np_status on_write(void *context, const void *bytes, size_t n, struct np_error *err)
{
    struct parts *p = context;
    uint64_t all = np_export_bytes(p->export);
    struct cli_eta eta = cli_progress_eta(&p->progress, p->written += n, all);
    if (cli_progress_due(&p->progress))
        cli_progress_show(&p->progress, "%.1f of %.1f MB%s", (double)p->written / 1e6,
                          (double)all / 1e6, eta.s);
    return cli_output_write(&p->out, bytes, n, err);
}

static enum np_status run(struct parts *p, struct np_error *err)
{
    const struct options *o = p->options;
    struct np_export_config config = {.net = &p->space.net,
                                      .kernels = np_kernels_best(),
                                      .stop = cli_stop,
                                      .write = on_write,
                                      .context = p};
    const struct np_processors bound = np_processors_bound();
    int processors = np_processors_usable(&bound);
    enum np_status status;
    NP_TRY(space_open(&p->space, &o->space, err));
    NP_TRY(space_spares(&p->space, "output", o->output, err));
    NP_TRY(cli_spares_run(o->run, "output", o->output, err));
    if (cli_is_standard(o->output) && isatty(STDOUT_FILENO))
        NP_TRY(np_fail(err, NP_EINPUT, "the file is not text, and standard output a terminal"));
    cli_catch_signals();
    if (o->subnet)
        NP_TRY(space_read_subnet(&p->choices, &p->space, o->subnet, err));
    cli_catch_lost_data();
    NP_TRY(open_data(p, err));
    NP_TRY(np_trained_open(&p->trained, o->run, o->step, &p->space.net,
                           p->train ? np_data_digest(p->train) : NULL, &np_device_host, err));
    config.trained = p->trained;
    config.choices = p->choices;
    config.train_data = p->train;
    config.threads = processors < NP_MAX_TEAM ? processors : NP_MAX_TEAM;
    NP_TRY(cli_output_open(&p->out, o->output, err));
    cli_progress_begin(&p->progress, o->quiet);
    if (p->choices && np_supernet_has_batch_norm(&p->space.net, p->choices))
        cli_progress_show(&p->progress, "finding batch norm's statistics");
    status = np_export_new(&p->export, &config, err);
    if (status == NP_OK)
        status = np_export_write(p->export, err);
    cli_progress_end(&p->progress);
    if (status == NP_OK)
        status = cli_output_close(&p->out, err);
out:
    return status;
}

int main(int argc, char **argv)
{
    static const struct argp_child children[] = {{&space_options_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = table,
        .parser = parse,
        .args_doc = "RECIPE",
        .doc = "Write the weights of a trained supernet, or of one of its subnets, as a "
               "safetensors file that PyTorch and others read.",
        .children = children};
    struct options options = {.step = NP_LATEST};
    struct parts parts = {.options = &options};
    struct np_error err;
    enum np_status status;
    cli_parse(&argp, argc, argv, &options);
    status = run(&parts, &err);
    if (status == NP_ESTOP)
        cli_note("stopped on request: there is no file");
    else if (status != NP_OK)
        cli_error(&err);
    parts_clear(&parts);
    return cli_finish(cli_exit_code(status));
}
