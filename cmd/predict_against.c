/* A prediction against what a run measured: how long a step took, and in which order tasks ran. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"
#include "predict.h"

/* By what a task is, not by when it ran. */
static int by_task(const void *a, const void *b)
{
    const struct np_task *x = &((const struct np_span *)a)->task;
    const struct np_task *y = &((const struct np_span *)b)->task;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    int order[][2] = {{x->stage, y->stage},
                      {(int)x->kind, (int)y->kind},
                      {x->member, y->member},
                      {x->micro, y->micro},
                      {x->first, y->first}};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (order[i][0] != order[i][1])
            return order[i][0] < order[i][1] ? -1 : 1;
    return 0;
}

struct agreement {
    uint64_t matched; /* measured tasks that were predicted */
    uint64_t pairs;   /* neighbours in a stage's measured order, both predicted */
    uint64_t ordered; /* of those, how many were predicted in that order */
    double ratio;     /* median of measured over predicted duration: undisturbed tasks */
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* measured: by start; predicted: by task. last [stages]: predicted start of the stage's previous
 * matched task, or below 0; ratio [count]: scratch. */
static struct agreement agree(const struct np_trace *measured, const struct np_trace *predicted,
                              double *last, int stages, double *ratio)
{
    struct agreement a = {0};
    size_t ratios = 0;
    for (int k = 0; k < stages; k++)
        last[k] = -1;
    for (size_t i = 0; i < measured->count; i++) {
        const struct np_span *span = &measured->spans[i];
        int stage = span->task.stage;
        const struct np_span *found =
            bsearch(span, predicted->spans, predicted->count, sizeof *span, by_task);
        if (!found || stage >= stages)
            continue;
        a.matched++;
        if (found->end > found->start)
            ratio[ratios++] = (span->end - span->start) / (found->end - found->start);
        if (last[stage] >= 0) {
            a.pairs++;
            a.ordered += found->start >= last[stage];
        }
        last[stage] = found->start;
    }
    qsort(ratio, ratios, sizeof *ratio, by_value);
    a.ratio = ratios ? ratio[ratios / 2] : 0;
    return a;
}

static enum np_status read_trace(struct np_trace *trace, const char *run, struct np_error *err)
{
    char *path = NULL;
    size_t bytes = strlen(run);
    bool file = bytes > 5 && strcmp(run + bytes - 5, ".json") == 0;
    enum np_status status = file ? NP_OK : np_file_join(&path, run, "trace.json", err);
    if (status == NP_OK)
        status = np_trace_read(trace, file ? run : path, err);
    free(path);
    return status;
}

static enum np_status report(struct np_buf *out, const struct predict_run *run,
                             const struct np_trace_sums *measured, const struct agreement *a,
                             size_t count, struct np_error *err)
{
    double measured_ms = (measured->end - measured->start) / (double)measured->steps / 1e6;
    double predicted_ms = run->report.makespan / (double)run->report.steps / 1e6;
    return np_buf_printf(out, err,
                         "steps\t%" PRIu64 "\nmeasured_step_ms\t%.4f\npredicted_step_ms\t%.4f\n"
                         "error_percent\t%.2f\nmeasured_bubble\t%.4f\npredicted_bubble\t%.4f\n"
                         "matched_tasks\t%.4f\norder_agreement\t%.4f\nmedian_task_ratio\t%.4f\n",
                         measured->steps, measured_ms, predicted_ms,
                         measured_ms > 0 ? (predicted_ms / measured_ms - 1) * 100 : 0,
                         measured->bubble, run->report.bubble, (double)a->matched / (double)count,
                         a->pairs ? (double)a->ordered / (double)a->pairs : 0, a->ratio);
}

enum np_status predict_against(struct np_buf *out, const struct predict_model *model,
                               const struct predict_options *given, const struct np_supernet *net,
                               struct np_error *err)
{
    enum np_status status;
    struct np_trace measured = {.count = 0};
    struct predict_run run = {0};
    double *last = NULL, *ratio = NULL;
    int stages = model->sched.stages;
    NP_TRY(read_trace(&measured, given->against, err));
    struct np_trace_sums sums = np_trace_sum(&measured, stages);
    if (sums.steps > measured.count) { /* every step has tasks */
        status = np_fail(
            err, NP_EINPUT, "the trace of '%s' misses steps between %" PRIu64 " and %" PRIu64,
            np_text_safe(given->against).s, sums.first_step, sums.first_step + sums.steps - 1);
        goto out;
    }
    NP_TRY(np_zalloc(&last, (size_t)stages, sizeof *last, err));
    NP_TRY(np_zalloc(&ratio, measured.count, sizeof *ratio, err));
    NP_TRY(predict_run(&run, model, given, net, given->schedule, sums.first_step, sums.steps, true,
                       err));
    qsort(run.trace.spans, run.trace.count, sizeof *run.trace.spans, by_task);
    struct agreement a = agree(&measured, &run.trace, last, stages, ratio);
    NP_TRY(report(out, &run, &sums, &a, measured.count, err));
out:
    predict_run_clear(&run);
    np_trace_clear(&measured);
    free(last);
    free(ratio);
    return status;
}
