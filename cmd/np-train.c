/* np-train: trains a supernet by a recipe, at the speed of a plan. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/text.h"
#include "cli.h"
#include "plan/stage_memory.h"
#include "run/directory.h"
#include "run/manifest.h"
#include "run/run_recipe.h"
#include "sched/timeline.h"
#include "train_options.h"
#include "train_report.h"

/* Everything that one run needs, from the recipe to the data. */
struct parts {
    struct space space;
    struct np_inherit *inherit; /* NULL: nothing */
    struct np_data *train, *valid;
    struct np_plan plan;
    struct np_trace trace;
    char *provenance;
};

static void parts_clear(struct parts *p)
{
    free(p->provenance);
    np_trace_clear(&p->trace);
    np_plan_clear(&p->plan);
    np_data_close(p->valid);
    np_data_close(p->train);
    np_inherit_free(p->inherit);
    space_close(&p->space);
}

/* The plan given, or one for this machine from modelled costs. */
static enum np_status make_plan(struct parts *p, const struct train_options *o,
                                struct np_error *err)
{
    struct plan_options plan = o->plan;
    enum plan_talk talk = o->verbose ? PLAN_VERBOSE : PLAN_PROGRESS;
    enum np_status status;
    if (o->schedule == NP_SESSION_SEQUENTIAL) {
        plan.request.replicas = plan.request.stages = 1;
        plan.request.micro_batches = plan.request.window = 1;
    }
    if (o->stash && !plan.request.replicas)
        plan.request.replicas = 1;
    plan.request.scratch = backend_scratch(&o->backend, &p->space.net);
    if (o->plan_file)
        NP_TRY(np_plan_read(&p->plan, o->plan_file, &p->space.net, err));
    else
        NP_TRY(plan_make(&p->plan, &p->space.net, &plan, o->quiet ? PLAN_QUIET : talk, err));
    if (plan.request.memory_bytes)
        np_plan_set_device_bytes(&p->plan, plan.request.memory_bytes);
    p->plan.scratch = plan.request.scratch;
    if (o->backend.opened)
        p->plan.threads = 1;
    NP_TRY(np_plan_check_replicas(&p->plan, &p->space.net, err));
    NP_TRY(backend_counts(&o->backend, &p->plan, &p->space.net, err));
    p->plan.lookahead =
        prefetch_lookahead(&o->prefetch, p->plan.lookahead, np_plan_swaps(&p->plan));
    if (o->stash && !np_plan_swaps(&p->plan))
        status = np_fail(err, NP_EINPUT,
                         "--stash needs --device-memory, or a plan that has it, and one replica");
out:
    return status;
}

/* A plan of another machine, or a job that was given little: threads that wait for each other take
 * turns. Where the machine itself has fewer, whoever asked can see it. */
static void warn_of_processors(const struct np_plan *plan, const struct train_options *o)
{
    int share = backend_share(&o->backend, &o->plan);
    int threads = (o->backend.ranks ? 1 : np_plan_devices(plan)) * plan->threads;
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    if (share && threads > share && o->plan.request.processors < all)
        cli_warn("%d threads share %d of %ld processors: taskset, a control group, or what "
                 "launched this withholds the others",
                 threads, share, all);
}

/* Where all of it is in this machine's memory: the system ends who takes more, without a word. */
static enum np_status warn_of_memory(const struct parts *p, const struct train_options *o,
                                     struct np_error *err)
{
    uint64_t total, usable = np_memory_usable();
    enum np_status status;
    if (backend_devices(&o->backend))
        return NP_OK;
    status = np_memory_total(&total, &p->plan, o->stash != NULL, &p->space.net, err);
    if (status == NP_OK && total > usable)
        cli_warn(
            "this may come to take %s, and %s may be used: see --device-memory, --stash FILE and "
            "np-partition --max-batch",
            np_text_size(total).s, np_text_size(usable).s);
    return status;
}

/* How many layers find weights; with --verbose also which do not. */
static void tell_heirs(const struct parts *p, const struct train_options *o)
{
    const struct np_supernet *net = &p->space.net;
    uint32_t all, layers = np_inherit_layers(p->inherit, &all);
    char name[NP_LAYER_NAME];
    cli_note("%u of %u layers begin with the weights that '%s' has after %llu steps", layers, all,
             np_text_safe(o->init).s, (unsigned long long)np_inherit_step(p->inherit));
    for (uint32_t layer = 0; o->verbose && layer < net->layers; layer++) {
        bool none = np_kind_whole(np_supernet_kind(net, layer))->floats == 0;
        np_supernet_layer_name(net, layer, name);
        if (!none && !np_inherit_has(p->inherit, layer))
            cli_note("%s begins anew", name);
    }
}

/* What is wrong with a run, who goes on with it says. */
static bool has_checkpoint(const char *run)
{
    struct np_error no;
    uint64_t *steps = NULL;
    size_t count;
    bool has = np_manifest_list(&steps, &count, run, &no) == NP_OK && count > 0;
    free(steps);
    return has;
}

/* The recipe names the weights from here on, whether it did before or not: those of --init, or what
 * a run that goes on has begun with. */
static enum np_status inherit(struct parts *p, const struct train_options *o, struct np_error *err)
{
    enum np_status status = NP_OK;
    if (o->resume)
        NP_TRY(np_run_recipe_adopt_init(&p->space.recipe, o->run, err));
    if (!o->init || (o->resume && p->space.recipe.has_init && has_checkpoint(o->run)))
        return NP_OK;
    NP_TRY(np_inherit_open(&p->inherit, o->init, o->init_step, &p->space.net, err));
    NP_TRY(np_recipe_set_init(&p->space.recipe, np_inherit_digest(p->inherit), err));
out:
    return status;
}

static enum np_status parts_init(struct parts *p, struct train_options *o, int argc, char **argv,
                                 struct np_error *err)
{
    enum np_status status;
    const struct np_recipe *recipe = &p->space.recipe;
    NP_TRY(space_open(&p->space, &o->space, err));
    NP_TRY(inherit(p, o, err));
    NP_TRY(space_spares(&p->space, "losses", o->losses, err));
    NP_TRY(space_spares(&p->space, "trace", o->trace, err));
    NP_TRY(space_spares(&p->space, "stash", o->stash, err));
    NP_TRY(cli_spares_run(o->run, "losses", o->losses, err));
    NP_TRY(cli_spares_run(o->run, "trace", o->trace, err));
    NP_TRY(cli_spares_run(o->run, "stash", o->stash, err));
    if (o->init) {
        NP_TRY(cli_spares_run(o->init, "losses", o->losses, err));
        NP_TRY(cli_spares_run(o->init, "trace", o->trace, err));
        NP_TRY(cli_spares_run(o->init, "stash", o->stash, err));
    }
    if (o->subnets && np_run_dir_keeps(o->run, o->subnets)) {
        status = np_fail(err, NP_EINPUT, "--subnets '%s' is what the run writes: give a copy",
                         np_text_safe(o->subnets).s);
        goto out;
    }
    NP_TRY(backend_open(&o->backend, recipe, err));
    backend_request(&o->backend, &o->plan.request, &p->space.net);
    if (!o->plan_file && o->schedule != NP_SESSION_SEQUENTIAL)
        NP_TRY(backend_pace(&o->backend, &o->plan.request, err));
    NP_TRY(make_plan(p, o, err));
    if (!o->quiet) {
        warn_of_processors(&p->plan, o);
        NP_TRY(warn_of_memory(p, o, err));
    }
    NP_TRY(backend_link(&o->backend, &p->plan, err));
    cli_catch_lost_data();
    NP_TRY(space_open_data(&p->train, &p->space, &recipe->train_data, o->quiet, o->resume, err));
    if (o->eval_every && !recipe->valid_data.given) {
        status = np_fail(err, NP_EINPUT, "--eval-every needs 'data.valid' in '%s'", o->space.path);
        goto out;
    }
    if (o->eval_every)
        NP_TRY(
            space_open_data(&p->valid, &p->space, &recipe->valid_data, o->quiet, o->resume, err));
    NP_TRY(train_provenance(&p->provenance, &p->space.net, &p->plan, o, argc, argv, err));
out:
    return status;
}

/* A Chrome trace, or a drawing if the name ends in .svg. */
static enum np_status write_trace(struct parts *p, const struct train_options *o,
                                  struct np_error *err)
{
    struct np_timeline timeline = {.trace = &p->trace,
                                   .stages = p->plan.stages,
                                   .replicas = p->plan.replicas,
                                   .nanoseconds = true,
                                   .title = "np-train: measured"};
    struct np_buf text = {NULL, 0, 0};
    size_t length = strlen(o->trace);
    bool svg = length > 4 && strcmp(o->trace + length - 4, ".svg") == 0;
    enum np_status status;
    NP_TRY(np_trace_is_whole(&p->trace, err));
    if (svg) { /* what fits on a page: a dozen steps from the middle */
        struct np_trace_sums sums = np_trace_sum(&p->trace, np_plan_devices(&p->plan));
        uint64_t skip = sums.steps > 12 ? (sums.steps - 12) / 2 : 0;
        np_trace_crop(&p->trace, sums.first_step + skip, 12);
    }
    NP_TRY(svg ? np_timeline_svg(&text, &timeline, err)
               : np_timeline_chrome(&text, &timeline, err));
    NP_TRY(cli_write(o->trace, text.text, text.used, err));
out:
    np_buf_clear(&text);
    return status;
}

static enum np_status train(struct np_session_result *result, struct parts *p,
                            struct train_options *o, struct np_error *err)
{
    struct train_report report;
    struct np_error later;
    struct np_session_config config = {.run = o->run,
                                       .net = &p->space.net,
                                       .train_data = p->train,
                                       .valid_data = p->valid,
                                       .kernels = backend_kernels(&o->backend, &o->plan),
                                       .devices = backend_devices(&o->backend),
                                       .device_count = o->backend.count,
                                       .link = o->backend.link,
                                       .products = o->backend.fast ? &o->backend.products : NULL,
                                       .plan = &p->plan,
                                       .schedule = o->schedule,
                                       .subnets = o->subnets,
                                       .inherit = p->inherit,
                                       .resume = o->resume,
                                       .ledger_layers = o->ledger_layers,
                                       .stop_after = o->stop_after,
                                       .keep = o->keep,
                                       .eval_every = o->eval_every,
                                       .eval_subnets = o->eval_subnets,
                                       .eval_batches = o->eval_batches,
                                       .delay_seed = o->delay_seed,
                                       .policy = prefetch_policy(&o->prefetch),
                                       .stash = o->stash,
                                       .trace = o->trace ? &p->trace : NULL,
                                       .provenance = p->provenance};
    enum np_status status = train_report_begin(&report, o, &p->space.recipe, err), ended;
    if (status != NP_OK)
        return status;
    if (p->inherit && !o->quiet)
        tell_heirs(p, o);
    config.hooks = train_report_hooks(&report);
    cli_catch_signals();
    status = np_session_run(result, &config, err);
    ended = train_report_end(&report, result, status == NP_OK || status == NP_ESTOP, &later);
    if (ended == NP_OK && o->trace && (status == NP_OK || status == NP_ESTOP))
        ended = write_trace(p, o, &later);
    if (ended != NP_OK && (status == NP_OK || status == NP_ESTOP)) {
        *err = later;
        status = ended;
    }
    return status;
}

/* Prints the digest in sha256sum's form and compares it with the expected one. */
static enum np_status conclude(const struct np_session_result *result,
                               const struct train_options *o, struct np_error *err)
{
    struct np_digest_hex digest = np_digest_hex(&result->digest);
    if (!result->has_digest) /* stopped before the first checkpoint */
        return NP_OK;
    cli_print_digest(digest.s, o->run);
    if (o->expect && strcmp(o->expect, digest.s) != 0)
        return np_fail(err, NP_ENO, "'%s' has digest %s, not the expected %s", o->run, digest.s,
                       o->expect);
    return NP_OK;
}

/* All but one of several fail where they should have been ranks: the run is there already. */
static void hint_at_ranks(const struct train_options *o)
{
    bool ranks = o->backend.choice == BACKEND_MPI || o->backend.choice == BACKEND_MPI_CUDA;
    int together = backend_launched();
    if (!ranks && together > 1)
        cli_note("one of %d processes that were launched together, each for itself: with --backend "
                 "mpi they train one run",
                 together);
}

int main(int argc, char **argv)
{
    struct train_options options;
    struct parts parts = {.train = NULL};
    struct np_session_result result;
    struct np_digest expected;
    struct np_error err;
    enum np_status status, printed;
    bool over;
    train_options_parse(&options, argc, argv);
    cli_catch_notice();
    if (options.expect && !np_digest_parse(&expected, options.expect, strlen(options.expect))) {
        status = np_fail(&err, NP_EINPUT, "--expect '%s' is not 64 hex digits", options.expect);
        goto out;
    }
    NP_TRY(backend_join(&options.backend, &options.plan, &over, &err));
    if (over)
        goto out;
    NP_TRY(parts_init(&parts, &options, argc, argv, &err));
    status = train(&result, &parts, &options, &err);
    if (status == NP_OK || status == NP_ESTOP) {
        struct np_error no;
        printed = conclude(&result, &options, &no);
        if (status == NP_OK && printed != NP_OK) {
            status = printed;
            err = no;
        }
        printed = backend_still_there(&options.backend, &no);
        if (printed != NP_OK) {
            status = printed;
            err = no;
        }
    }
out:
    if (status == NP_ESTOP)
        cli_note("%s%s%s; continue with --resume", err.msg, cli_stop_signal() ? ", by " : "",
                 cli_stop_signal() ? cli_stop_signal() : "");
    else if (status != NP_OK)
        cli_error(&err);
    if (status == NP_EINPUT)
        hint_at_ranks(&options);
    parts_clear(&parts);
    backend_close(&options.backend);
    train_options_clear(&options);
    return cli_finish(cli_exit_code(status));
}
