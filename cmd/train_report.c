#include "train_report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "run/directory.h"

/* Whether a path is in the directory of a run that is yet to be made, and nothing of the run's. */
static bool is_in_new_run(const char *path, const char *run)
{
    size_t length = strlen(run);
    const char *slash = strrchr(path, '/');
    while (length > 1 && run[length - 1] == '/')
        length--;
    return slash && slash[1] && !np_run_dir_names(slash + 1) && (size_t)(slash - path) == length &&
           strncmp(path, run, length) == 0 && access(run, F_OK) != 0;
}

enum np_status train_report_begin(struct train_report *report, const struct train_options *options,
                                  const struct np_recipe *recipe, struct np_error *err)
{
    *report = (struct train_report){.options = options, .recipe = recipe};
    report->end = recipe->steps;
    if (options->stop_after && options->stop_after < report->end)
        report->end = options->stop_after;
    if (options->trace && !is_in_new_run(options->trace, options->run) &&
        cli_can_write(options->trace, err) != NP_OK)
        return err->code;
    if (options->losses && strcmp(options->losses, "-") == 0)
        report->losses = stdout;
    else if (options->losses && !(report->losses = fopen(options->losses, "a")))
        return np_fail_errno(err, "cannot open '%s'", options->losses);
    cli_progress_begin(&report->progress, options->quiet);
    return NP_OK;
}

/* *end: bytes of the lines of steps before `first`, in order, that a file of losses begins with. */
static enum np_status losses_before(off_t *end, const char *path, uint64_t first,
                                    struct np_error *err)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    uint64_t step = 0, next = 0;
    ssize_t n = file ? 0 : -2;
    for (*end = 0; first > 0 && file && (n = np_file_line(&line, &capacity, file)) > 0; *end += n) {
        char *tab = strchr(line, '\t');
        if (line[n - 1] != '\n' || !tab)
            break;
        *tab = '\0';
        if (!np_text_parse_uint64(&step, line, next, first - 1))
            break;
        next = step + 1;
    }
    if (n == -2)
        np_fail_errno(err, "cannot read losses from '%s'", path);
    free(line);
    if (file)
        fclose(file);
    return n == -2 ? err->code : NP_OK;
}

/* What a file of losses held goes when there are others, but for those of the steps before that a
 * run goes on after: not before it has begun. */
static enum np_status cut_losses(struct train_report *r, uint64_t first, struct np_error *err)
{
    const char *path = r->options->losses;
    struct stat info;
    off_t end = 0;
    if (!r->losses || r->losses == stdout || fstat(fileno(r->losses), &info) != 0 ||
        !S_ISREG(info.st_mode))
        return NP_OK;
    if (r->options->resume && losses_before(&end, path, first, err) != NP_OK)
        return err->code;
    if (ftruncate(fileno(r->losses), end) != 0)
        return np_fail_errno(err, "cannot write losses to '%s'", path);
    return NP_OK;
}

/* "step 120/2000 | 6.1 steps/s | loss 2.481 | valid 2.502 (31.4 %) | bubble 3.1 % | ETA 5:08" */
static void show(struct train_report *r, const struct np_step_record *record,
                 const struct np_train_times *times)
{
    double spent = np_now_s() - r->progress.started_s, mean = 0;
    double rate = (double)(record->step + 1 - r->first) / spent;
    struct cli_eta eta =
        cli_progress_eta(&r->progress, record->step + 1 - r->first, r->end - r->first);
    char valid[48] = "", bubble[32] = "";
    for (int i = 0; i < record->members; i++)
        mean += (double)record->losses[i] / record->members;
    if (r->has_valid)
        snprintf(valid, sizeof valid, " | valid %.3f (%.1f %%)", r->valid.loss,
                 100 * r->valid.accuracy);
    if (times->stage_s > 0 && times->busy_s <= times->stage_s)
        snprintf(bubble, sizeof bubble, " | bubble %.1f %%",
                 100 * (1 - times->busy_s / times->stage_s));
    cli_progress_show(&r->progress, "step %llu/%llu | %.1f %s | loss %.3f%s%s%s",
                      (unsigned long long)record->step + 1, (unsigned long long)r->end,
                      rate < 1 ? 1 / rate : rate, rate < 1 ? "s a step" : "steps/s", mean, valid,
                      bubble, eta.s);
}

static enum np_status on_step(void *context, const struct np_step_record *record,
                              const struct np_train_times *times, struct np_error *err)
{
    struct train_report *r = context;
    if (!r->has_first) {
        r->first = record->step;
        r->has_first = true;
        if (cut_losses(r, r->first, err) != NP_OK)
            return err->code;
    }
    if (r->losses) {
        cli_progress_clear(r->losses);
        fprintf(r->losses, "%llu", (unsigned long long)record->step);
        for (int i = 0; i < record->members; i++)
            fprintf(r->losses, "\t%s", np_text_float(record->losses[i]).s);
        fputc('\n', r->losses);
        if (fflush(r->losses) != 0)
            return np_fail_errno(err, "cannot write losses to '%s'",
                                 r->losses == stdout ? "<stdout>" : r->options->losses);
    }
    if (cli_progress_due(&r->progress))
        show(r, record, times);
    return NP_OK;
}

static void on_evaluated(void *context, uint64_t step, struct np_score mean)
{
    struct train_report *r = context;
    r->valid = mean;
    r->has_valid = true;
    if (r->options->verbose)
        cli_note("step %llu: validation loss %.4f, accuracy %.2f %%", (unsigned long long)step,
                 mean.loss, 100 * mean.accuracy);
}

static void on_evaluating(void *context, size_t subnet, size_t count)
{
    struct train_report *r = context;
    cli_progress_show(&r->progress, "evaluating | subnet %zu/%zu", subnet + 1, count);
}

/* Rates begin when what a run goes on from has been read. */
static void on_checkpoint(void *context, bool writes, size_t done, size_t layers)
{
    struct train_report *r = context;
    if (!writes)
        r->progress.started_s = np_now_s();
    cli_progress_show(&r->progress, "%s the checkpoint | layer %zu/%zu",
                      writes ? "writing" : "reading", done < layers ? done + 1 : layers, layers);
}

struct np_session_hooks train_report_hooks(struct train_report *report)
{
    return (struct np_session_hooks){.context = report,
                                     .step = on_step,
                                     .evaluated = on_evaluated,
                                     .evaluating = on_evaluating,
                                     .checkpoint = on_checkpoint,
                                     .stop = cli_stop};
}

/* A stream that ends before the recipe does ends the run well, but perhaps nobody meant it to. */
static void note_end_of_stream(const struct train_report *report, bool nothing, uint64_t step)
{
    const char *subnets = report->options->subnets;
    struct np_safe name = np_text_safe(strcmp(subnets, "-") == 0 ? "<stdin>" : subnets);
    if (nothing)
        cli_note("nothing was trained: no further subnet in '%s'", name.s);
    else if (step < report->end)
        cli_note("'%s' ended after %llu of %llu steps", name.s, (unsigned long long)step,
                 (unsigned long long)report->end);
}

enum np_status train_report_end(struct train_report *report, const struct np_session_result *result,
                                bool began, struct np_error *err)
{
    uint64_t steps = result->next - result->first;
    bool nothing = began && !report->has_first;
    const struct np_recipe *recipe = report->recipe;
    enum np_status status = NP_OK;
    cli_progress_end(&report->progress);
    if (report->options->verbose && steps) {
        double rate = (double)steps / result->seconds;
        double samples = rate * recipe->members * recipe->batch;
        bool images = recipe->input == NP_INPUT_IMAGES;
        double done = images ? samples : samples * recipe->length;
        cli_note("%llu steps in %.2f s: %.1f ms a step, %.*f %s/s", (unsigned long long)steps,
                 result->seconds, 1e3 / rate, done < 10 ? 2 : 0, done,
                 images ? "images" : "tokens");
        if (result->memory_bytes > 0)
            cli_note("%s in the stages%s", np_text_size(result->memory_bytes).s,
                     result->has_residence ? "" : ", weights and moments apart");
        if (result->eval_seconds > 0)
            cli_note("evaluations in %.2f s", result->eval_seconds);
        cli_note("checkpoints in %.2f s", result->checkpoint_seconds);
        if (result->times.stage_s > 0)
            cli_note("bubble %.1f %%", 100 * (1 - result->times.busy_s / result->times.stage_s));
    }
    if (report->options->verbose && result->has_residence) {
        const struct np_context_sums *c = &result->residence.context;
        cli_note("layers: %llu visits, %.2f %% hits, %llu late, %llu misses; %s in, %s out, %.2f s "
                 "of copies, %.2f s of waiting; %s in the stash (%s)",
                 (unsigned long long)np_context_visits(c), 100 * np_context_hit_rate(c),
                 (unsigned long long)c->late, (unsigned long long)c->misses,
                 np_text_size(c->bytes_in).s, np_text_size(c->bytes_out).s,
                 result->residence.copy_s, result->residence.stall_s,
                 np_text_size(result->residence.stash_bytes).s, result->residence.stash);
    }
    if (began && !cli_stop_requested && report->options->subnets && !report->options->quiet)
        note_end_of_stream(report, nothing, result->next);
    if (nothing)
        status = cut_losses(report, result->next, err);
    if (report->losses && report->losses != stdout && fclose(report->losses) != 0 &&
        status == NP_OK)
        status = np_fail_errno(err, "cannot write '%s'", report->options->losses);
    report->losses = NULL;
    return status;
}
