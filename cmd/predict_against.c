/* A prediction against what a run measured: how long a step took, and in which order tasks ran. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"
#include "predict.h"
#include "sched/copy_queue.h"

/* By what a task is, not by when it ran. */
static int by_task(const void *a, const void *b)
{
    const struct np_task *x = &((const struct np_span *)a)->task;
    const struct np_task *y = &((const struct np_span *)b)->task;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    int order[][2] = {{x->device, y->device},
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
    uint64_t pairs;   /* neighbours in a device's measured order, both predicted */
    uint64_t ordered; /* of those, how many were predicted in that order */
    double ratio;     /* median of measured over predicted duration: undisturbed tasks */
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What a task computed. */
static double length(const struct np_span *span)
{
    return span->end - span->start - span->stall;
}

/* measured: by start; predicted: by task. last [devices]: predicted start of the device's previous
 * matched task, or below 0; ratio [count]: scratch. */
static struct agreement agree(const struct np_trace *measured, const struct np_trace *predicted,
                              double *last, int devices, double *ratio)
{
    struct agreement a = {0};
    size_t ratios = 0;
    for (int d = 0; d < devices; d++)
        last[d] = -1;
    for (size_t i = 0; i < measured->count; i++) {
        const struct np_span *span = &measured->spans[i];
        int device = span->task.device;
        const struct np_span *found =
            bsearch(span, predicted->spans, predicted->count, sizeof *span, by_task);
        if (!found || device >= devices)
            continue;
        a.matched++;
        if (length(found) > 0)
            ratio[ratios++] = length(span) / length(found);
        if (last[device] >= 0) {
            a.pairs++;
            a.ordered += found->start >= last[device];
        }
        last[device] = found->start;
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

/* The plan's stages, with a device memory or without one, as the run had them. */
static enum np_status check_same(const struct np_trace *measured, const struct np_plan *plan,
                                 const char *run, struct np_error *err)
{
    const struct np_trace_stage *stage = measured->stage;
    if (stage && measured->stages != plan->stages)
        return np_fail(err, NP_EINPUT, "'%s' ran on %d stages, the plan has %d",
                       np_text_safe(run).s, measured->stages, plan->stages);
    if (stage && stage->device_bytes != plan->device_bytes)
        return np_fail(err, NP_EINPUT,
                       "'%s' ran with %" PRIu64 " bytes of device memory, not %" PRIu64,
                       np_text_safe(run).s, stage->device_bytes, plan->device_bytes);
    if (!stage && np_plan_swaps(plan))
        return np_fail(err, NP_EINPUT, "'%s' ran without --device-memory", np_text_safe(run).s);
    return NP_OK;
}

static int by_start(const void *a, const void *b)
{
    double x = ((const struct np_copy_span *)a)->start, y = ((const struct np_copy_span *)b)->start;
    return (x > y) - (x < y);
}

/* All bytes that were moved, over the time in which some were under way; 0: none were. */
static uint64_t measured_bandwidth(struct np_trace *measured)
{
    double time = 0, bytes = 0, until = -INFINITY;
    qsort(measured->copies, measured->copy_count, sizeof *measured->copies, by_start);
    for (size_t i = 0; i < measured->copy_count; i++) {
        const struct np_copy_span *span = &measured->copies[i];
        if (!np_copy_moves(&span->copy))
            continue;
        bytes += (double)span->bytes;
        time += fmax(0, span->end - fmax(until, span->start));
        until = fmax(until, span->end);
    }
    return time > 0 && bytes > 0 ? (uint64_t)ceil(1e9 * bytes / time) : 0;
}

enum np_status predict_follow(struct predict_job *job, struct np_error *err)
{
    const struct predict_options *given = job->options;
    struct np_trace *measured = &job->measured;
    const struct np_trace_copying *copying = &measured->copying;
    struct np_plan *plan = &job->plan;
    enum np_status status;
    NP_TRY(read_trace(measured, given->against, err));
    if (measured->stage && !given->plan.request.memory_bytes)
        plan->device_bytes = measured->stage[0].device_bytes;
    if (measured->stage && copying->lookahead && !given->prefetch.lookahead &&
        given->prefetch.how != PREFETCH_NEXT)
        plan->lookahead = copying->lookahead;
    if (!given->plan.request.disk.read && !copying->in_file)
        plan->disk = (struct np_disk_bandwidth){0};
    if (!given->plan.request.disk.read && copying->in_file && copying->disk.read)
        plan->disk = copying->disk;
    if (copying->in_file && !plan->disk.read) {
        uint64_t bandwidth = measured_bandwidth(measured);
        plan->disk = (struct np_disk_bandwidth){bandwidth, bandwidth, bandwidth, 0};
    }
    NP_TRY(check_same(measured, plan, given->against, err));
out:
    return status;
}

static uint64_t largest_peak(const struct np_trace *trace)
{
    uint64_t most = 0;
    for (int k = 0; k < trace->stages; k++) {
        uint64_t peak = trace->stage[k].fixed_bytes + trace->stage[k].sums.peak_bytes;
        most = peak > most ? peak : most;
    }
    return most;
}

static double hit_rate(const struct np_trace *trace)
{
    struct np_context_sums sum = {0};
    for (int k = 0; k < trace->stages; k++)
        np_context_sums_add(&sum, &trace->stage[k].sums);
    return np_context_hit_rate(&sum);
}

static enum np_status report_memory(struct np_buf *out, const struct np_trace *measured,
                                    const struct np_trace *predicted, int stages,
                                    struct np_error *err)
{
    enum np_status status;
    struct np_trace_sums m = np_trace_sum(measured, stages), p = np_trace_sum(predicted, stages);
    const struct np_disk_bandwidth *disk = &predicted->copying.disk;
    double hits[] = {hit_rate(measured), hit_rate(predicted)};
    NP_TRY(np_buf_printf(out, err,
                         "measured_hit_rate\t%.4f\npredicted_hit_rate\t%.4f\n"
                         "hit_rate_error_points\t%.2f\n",
                         hits[0], hits[1], (hits[1] - hits[0]) * 100));
    NP_TRY(np_buf_printf(out, err, "measured_stall\t%.4f\npredicted_stall\t%.4f\n",
                         m.stall / (m.end - m.start) / stages,
                         p.stall / (p.end - p.start) / stages));
    NP_TRY(np_buf_printf(out, err,
                         "measured_peak_memory\t%" PRIu64 "\npredicted_peak_memory\t%" PRIu64 "\n",
                         largest_peak(measured), largest_peak(predicted)));
    if (disk->read)
        NP_TRY(np_buf_printf(out, err,
                             "read_bandwidth\t%" PRIu64 "\nwrite_bandwidth\t%" PRIu64
                             "\nboth_bandwidth\t%" PRIu64 "\n",
                             disk->read, disk->write, disk->both));
out:
    return status;
}

enum np_status predict_against(struct np_buf *out, const struct predict_job *job,
                               struct np_error *err)
{
    enum np_status status;
    const struct predict_options *given = job->options;
    const struct np_trace *measured = &job->measured;
    struct predict_run run = {0};
    double *last = NULL, *ratio = NULL;
    int stages = job->model.sched.stages, devices = np_sched_devices(&job->model.sched);
    struct np_trace_sums sums = np_trace_sum(measured, devices);
    if (sums.steps > measured->count) /* every step has tasks */
        return np_fail(
            err, NP_EINPUT, "the trace of '%s' misses steps between %" PRIu64 " and %" PRIu64,
            np_text_safe(given->against).s, sums.first_step, sums.first_step + sums.steps - 1);
    NP_TRY(np_zalloc(&last, (size_t)devices, sizeof *last, err));
    NP_TRY(np_zalloc(&ratio, measured->count, sizeof *ratio, err));
    NP_TRY(predict_run(&run, &job->model, given, &job->space.net, given->schedule, sums.first_step,
                       sums.steps, true, err));
    qsort(run.trace.spans, run.trace.count, sizeof *run.trace.spans, by_task);
    struct agreement a = agree(measured, &run.trace, last, devices, ratio);
    NP_TRY(report(out, &run, &sums, &a, measured->count, err));
    if (measured->stage)
        NP_TRY(report_memory(out, measured, &run.trace, stages, err));
out:
    predict_run_clear(&run);
    free(last);
    free(ratio);
    return status;
}
