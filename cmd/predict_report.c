#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "predict.h"

static double conflict_rate(const struct predict_run *run)
{
    double uses = (double)run->report.steps * run->model->sched.members * run->model->blocks;
    return uses > 0 ? (double)run->conflicts / uses : 0;
}

/* Of all stages together; the peak of each, as np_engine_memory counts it. */
static enum np_status memory_rows(struct np_buf *out, const struct predict_run *run,
                                  struct np_error *err)
{
    enum np_status status;
    const struct predict_model *model = run->model;
    int stages = model->sched.stages;
    double time = run->report.makespan * stages;
    struct np_sim_stage sum = predict_sum(run);
    const struct np_context_sums *c = &sum.sums;
    NP_TRY(np_buf_printf(out, err,
                         "hits\t%" PRIu64 "\nlate\t%" PRIu64 "\nmisses\t%" PRIu64
                         "\nhit_rate\t%.4f\nbytes_in\t%" PRIu64 "\nbytes_out\t%" PRIu64 "\n",
                         c->hits, c->late, c->misses, np_context_hit_rate(c), c->bytes_in,
                         c->bytes_out));
    NP_TRY(np_buf_printf(out, err, "copy_busy\t%.4f\nstall\t%.4f\npeak_memory\t",
                         sum.copy / (time * NP_COPIERS), sum.stall / time));
    for (int k = 0; k < stages; k++)
        NP_TRY(np_buf_printf(out, err, "%" PRIu64 "%c", predict_peak(run, k),
                             k + 1 < stages ? ' ' : '\n'));
out:
    return status;
}

static enum np_status summary(struct np_buf *out, const struct predict_run *run, int schedule,
                              struct np_error *err)
{
    enum np_status status;
    const struct np_sched_config *c = &run->model->sched;
    const struct np_sim_report *r = &run->report;
    NP_TRY(np_buf_printf(out, err,
                         "schedule\t%s\nsteps\t%" PRIu64 "\nmembers\t%d\nreplicas\t%d\nstages\t%d\n"
                         "micro_batches\t%d\nwindow\t%d\nlookahead\t%d\nunit\t%d\nreach\t%d\n",
                         predict_schedules[schedule], r->steps, c->members, np_sched_replicas(c),
                         c->stages, c->micro_batches, c->window, c->lookahead, c->unit, c->reach));
    NP_TRY(np_buf_printf(out, err,
                         "time_unit\t%s\nmakespan\t%.0f\nsequential\t%.0f\nspeedup\t%.4f\n"
                         "bubble\t%.4f\nconflict_rate\t%.4f\ntasks\t%" PRIu64 "\n",
                         run->model->nanoseconds ? "ns" : "block", r->makespan, r->sequential,
                         r->speedup, r->bubble, conflict_rate(run), r->tasks));
    if (run->model->nanoseconds)
        NP_TRY(np_buf_printf(out, err, "step_ms\t%.4f\n", r->makespan / (double)r->steps / 1e6));
    if (run->model->has_memory && schedule == NP_SIM_CSP)
        NP_TRY(memory_rows(out, run, err));
out:
    return status;
}

static enum np_status table_line(struct np_buf *out, const struct predict_run *run, int schedule,
                                 bool header, struct np_error *err)
{
    enum np_status status = NP_OK;
    const struct np_sim_report *r = &run->report;
    if (header)
        NP_TRY(np_buf_printf(out, err, "schedule\tmakespan\tspeedup\tbubble\ttasks\n"));
    NP_TRY(np_buf_printf(out, err, "%s\t%.0f\t%.4f\t%.4f\t%" PRIu64 "\n",
                         predict_schedules[schedule], r->makespan, r->speedup, r->bubble,
                         r->tasks));
out:
    return status;
}

static enum np_status draw(struct np_buf *out, struct predict_run *run,
                           const struct predict_options *given, struct np_error *err)
{
    const struct np_sched_config *c = &run->model->sched;
    const struct np_sim_report *r = &run->report;
    char title[128], note[160], replicas[32] = "";
    uint64_t left = r->steps > given->first ? r->steps - given->first : 0;
    uint64_t shown = given->show < left ? given->show : left;
    if (shown == 0)
        return np_fail(err, NP_EINPUT,
                       "--first %" PRIu64 " is beyond the %" PRIu64 " steps simulated",
                       given->first, r->steps);
    if (c->replicas > 1)
        snprintf(replicas, sizeof replicas, "%d replicas of ", c->replicas);
    snprintf(title, sizeof title, "%s, %s%d stage%s: %.2f times sequential, %.1f %% bubble",
             predict_schedules[given->schedule], replicas, c->stages, c->stages == 1 ? "" : "s",
             r->speedup, r->bubble * 100);
    snprintf(note, sizeof note,
             "%d micro-batches, window %d; steps %" PRIu64 " to %" PRIu64 " of %" PRIu64,
             c->micro_batches, c->window, given->first, given->first + shown - 1, r->steps);
    np_trace_crop(&run->trace, given->first, shown);
    struct np_timeline timeline = {.trace = &run->trace,
                                   .stages = c->stages,
                                   .replicas = c->replicas,
                                   .nanoseconds = run->model->nanoseconds,
                                   .layers = run->model->device_bytes == 0,
                                   .title = title,
                                   .note = note};
    if (given->format == PREDICT_TSV)
        return np_timeline_tsv(out, &timeline, err);
    if (given->format == PREDICT_CHROME)
        return np_timeline_chrome(out, &timeline, err);
    return np_timeline_svg(out, &timeline, err);
}

static enum np_status report_one(struct np_buf *out, const struct predict_job *job, int schedule,
                                 struct np_error *err)
{
    enum np_status status;
    const struct predict_options *given = job->options;
    const struct np_supernet *net = given->space.path ? &job->space.net : NULL;
    struct predict_run run = {0};
    NP_TRY(predict_run(&run, &job->model, given, net, schedule, 0, given->steps,
                       given->format != PREDICT_SUMMARY, err));
    if (given->schedule == PREDICT_ALL)
        NP_TRY(table_line(out, &run, schedule, schedule == 0, err));
    else if (given->format == PREDICT_SUMMARY)
        NP_TRY(summary(out, &run, schedule, err));
    else
        NP_TRY(draw(out, &run, given, err));
out:
    predict_run_clear(&run);
    return status;
}

enum np_status predict_report(struct np_buf *out, const struct predict_job *job,
                              struct np_error *err)
{
    enum np_status status = NP_OK;
    const struct predict_options *given = job->options;
    if (given->against)
        return predict_against(out, job, err);
    if (given->schedule != PREDICT_ALL)
        return report_one(out, job, given->schedule, err);
    for (int schedule = 0; schedule < PREDICT_SCHEDULES; schedule++)
        if (schedule != NP_SIM_NASPIPE || job->model.sched.members == 1) /* which has no groups */
            NP_TRY(report_one(out, job, schedule, err));
out:
    return status;
}

/* What the command line says beside the plan. */
static enum np_status adjust(struct np_plan *plan, const struct predict_options *given,
                             const struct np_supernet *net, struct np_error *err)
{
    const struct np_partition_request *asked = &given->plan.request;
    plan->unit = asked->unit ? asked->unit : plan->unit;
    if (given->plan_path) /* else it was made as asked */
        plan->reach = predict_reach(asked, plan->reach, plan->unit, net->positions);
    if (asked->memory_bytes)
        np_plan_set_device_bytes(plan, asked->memory_bytes);
    if (asked->window) {
        plan->window = asked->window;
        if (given->plan_path && !plan->device_bytes) /* in_flight is for the plan's own window */
            memset(plan->in_flight, 0, (size_t)plan->stages * sizeof *plan->in_flight);
    }
    plan->disk = asked->disk.read ? asked->disk : plan->disk;
    plan->lookahead = prefetch_lookahead(&given->prefetch, plan->lookahead, np_plan_swaps(plan));
    if (asked->recompute == NP_RECOMPUTE_CHOOSE)
        return NP_OK;
    return np_plan_set_recompute(plan, net, asked->recompute == NP_RECOMPUTE_ALWAYS, err);
}

/* The plan of a file. Where stages are ranks, replicas are in memories of their own, at least. */
static enum np_status read_plan(struct predict_job *job, struct np_error *err)
{
    struct np_plan *plan = &job->plan;
    enum np_status status = np_plan_read(plan, job->options->plan_path, &job->space.net, err);
    if (status == NP_OK && plan->link.task_ns)
        plan->memories = np_plan_replicas(plan);
    return status;
}

static enum np_status open_plan(struct predict_job *job, struct np_error *err)
{
    enum np_status status;
    const struct predict_options *given = job->options;
    NP_TRY(space_open(&job->space, &given->space, err));
    NP_TRY(space_spares(&job->space, "output", given->output, err));
    if (given->plan_path)
        NP_TRY(read_plan(job, err));
    else
        NP_TRY(plan_make(&job->plan, &job->space.net, &given->plan,
                         given->quiet ? PLAN_QUIET : PLAN_PROGRESS, err));
    NP_TRY(adjust(&job->plan, given, &job->space.net, err));
    NP_TRY(np_plan_check_replicas(&job->plan, &job->space.net, err));
    if (given->against)
        NP_TRY(predict_follow(job, err));
    if (given->plan.request.disk.read && !np_plan_swaps(&job->plan)) {
        status = np_fail(err, NP_EINPUT,
                         "--stash-bandwidth needs --device-memory, or a plan that has it, and one "
                         "replica");
        goto out;
    }
    NP_TRY(predict_model_of_plan(&job->model, given, &job->space.net, &job->plan, err));
    if (given->against && given->prefetch.how == PREFETCH_NOT_GIVEN)
        job->model.memory.policy = job->measured.copying.policy;
out:
    return status;
}

enum np_status predict_open(struct predict_job *job, struct np_error *err)
{
    if (job->options->space.path)
        return open_plan(job, err);
    return predict_model_bare(&job->model, job->options, err);
}

void predict_close(struct predict_job *job)
{
    predict_model_clear(&job->model);
    np_trace_clear(&job->measured);
    np_plan_clear(&job->plan);
    space_close(&job->space);
}
