/* A table: a line for each combination of --sweep. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "predict.h"

/* The options with the combination's values. */
static struct predict_options options_of(const struct predict_options *given)
{
    struct predict_options one = *given;
    struct np_partition_request *request = &one.plan.request;
    const struct sweep *sweep = &given->sweep;
    if (sweep_value(sweep, SWEEP_REPLICAS))
        request->replicas = (int)sweep_value(sweep, SWEEP_REPLICAS);
    if (sweep_value(sweep, SWEEP_STAGES))
        request->stages = (int)sweep_value(sweep, SWEEP_STAGES);
    if (sweep_value(sweep, SWEEP_MICRO_BATCHES))
        request->micro_batches = (int)sweep_value(sweep, SWEEP_MICRO_BATCHES);
    if (sweep_value(sweep, SWEEP_WINDOW))
        request->window = (int)sweep_value(sweep, SWEEP_WINDOW);
    if (sweep_value(sweep, SWEEP_LOOKAHEAD))
        one.prefetch.lookahead = (int)sweep_value(sweep, SWEEP_LOOKAHEAD);
    if (sweep_value(sweep, SWEEP_CUT))
        request->cut = (enum np_cut_choice)sweep_value(sweep, SWEEP_CUT);
    if (sweep_value(sweep, SWEEP_REACH)) {
        request->cut = NP_CUT_BALANCED;
        request->reach = (int)sweep_value(sweep, SWEEP_REACH);
    }
    if (sweep_value(sweep, SWEEP_DEVICE_MEMORY))
        request->memory_bytes = sweep_value(sweep, SWEEP_DEVICE_MEMORY);
    if (sweep_value(sweep, SWEEP_CAPACITY))
        one.capacity = (int)sweep_value(sweep, SWEEP_CAPACITY);
    one.quiet = true;
    return one;
}

/* "stages 3, window 2": which combination it is. */
static void describe(char *text, size_t bytes, const struct sweep *sweep)
{
    size_t used = 0;
    for (int i = 0; i < sweep->count && used < bytes; i++) {
        enum sweep_key key = sweep->axes[i].key;
        uint64_t value = sweep_value(sweep, key);
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s%s ", i ? ", " : "", sweep_name(key));
        if (used < bytes && key == SWEEP_CUT)
            used += (size_t)snprintf(text + used, bytes - used, "%s",
                                     value == NP_CUT_STATIC ? "static" : "balanced");
        else if (used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%" PRIu64, value);
    }
}

static enum np_status line(struct np_buf *out, const struct predict_job *job,
                           const struct predict_run *run, struct np_error *err)
{
    const struct np_sched_config *c = &job->model.sched;
    const struct np_sim_report *r = &run->report;
    struct np_sim_stage sum = predict_sum(run);
    char memory[32] = "-", hits[32] = "-";
    uint64_t bytes =
        job->plan.device_bytes ? job->plan.device_bytes : (uint64_t)job->options->capacity;
    if (bytes)
        snprintf(memory, sizeof memory, "%" PRIu64, bytes);
    if (job->model.has_memory)
        snprintf(hits, sizeof hits, "%.4f", np_context_hit_rate(&sum.sums));
    return np_buf_printf(out, err, "%d\t%d\t%d\t%d\t%d\t%d\t%s\t%.0f\t%.4f\t%.4f\t%s\n",
                         np_sched_replicas(c), c->stages, c->micro_batches, c->window, c->lookahead,
                         c->reach, memory, r->makespan, r->speedup, r->bubble, hits);
}

static enum np_status one_combination(struct np_buf *out, const struct predict_options *given,
                                      struct np_error *err)
{
    struct predict_options options = options_of(given);
    struct predict_job job = {.options = &options};
    struct predict_run run = {0};
    enum np_status status;
    NP_TRY(predict_open(&job, err));
    NP_TRY(predict_run(&run, &job.model, &options, options.space.path ? &job.space.net : NULL,
                       options.schedule, 0, options.steps, false, err));
    NP_TRY(line(out, &job, &run, err));
out:
    predict_run_clear(&run);
    predict_close(&job);
    return status;
}

/* What does not fit has no answer, and the others still have. */
static enum np_status no_answer(struct np_buf *out, const struct predict_options *given,
                                struct np_error *err)
{
    static const enum sweep_key keys[] = {SWEEP_REPLICAS,     SWEEP_STAGES,    SWEEP_MICRO_BATCHES,
                                          SWEEP_WINDOW,       SWEEP_LOOKAHEAD, SWEEP_REACH,
                                          SWEEP_DEVICE_MEMORY};
    enum np_status status = NP_OK;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && status == NP_OK; i++) {
        uint64_t value = sweep_value(&given->sweep, keys[i]);
        status = value ? np_buf_printf(out, err, "%" PRIu64 "\t", value)
                       : np_buf_printf(out, err, "-\t");
    }
    return status == NP_OK ? np_buf_printf(out, err, "-\t-\t-\t-\n") : status;
}

enum np_status predict_sweep(struct np_buf *out, struct predict_options *given,
                             struct np_error *err)
{
    struct cli_progress progress;
    struct np_error why;
    char which[160];
    uint64_t done = 0;
    enum np_status status;
    cli_progress_begin(&progress, given->quiet);
    NP_TRY(np_buf_printf(
        out, err,
        "replicas\tstages\tmicro_batches\twindow\tlookahead\treach\t%s\tmakespan\tspeedup\t"
        "bubble\thit_rate\n",
        given->space.path ? "device_memory" : "capacity"));
    do {
        describe(which, sizeof which, &given->sweep);
        cli_progress_show(&progress, "%" PRIu64 "/%" PRIu64 ": %s%s", done + 1,
                          given->sweep.combinations, which,
                          cli_progress_eta(&progress, done, given->sweep.combinations).s);
        done++;
        status = one_combination(out, given, &why);
        if (status == NP_ENO)
            status = no_answer(out, given, err);
        else if (status != NP_OK)
            np_fail(err, status, "%s: %s", which, why.msg);
    } while (status == NP_OK && sweep_next(&given->sweep));
out:
    cli_progress_end(&progress);
    return status;
}
