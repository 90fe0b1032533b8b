/* The stage loop: ask the scheduler, run the task, report what became ready. */
#include <time.h>

#include "base/memory.h"
#include "exec/engine.h"

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* A random pause of up to 1 ms, addressed by the task: for tests of the schedule's freedom. */
static void injected_delay(const struct np_engine *e, const struct np_task *task, uint32_t place)
{
    if (!e->config.delay_seed)
        return;
    struct np_draw_key key =
        np_draw_key(e->config.delay_seed, NP_DRAW_DELAY, place * 4 + (uint32_t)task->kind,
                    (uint32_t)task->first, (uint32_t)(task->member * 4096 + task->micro));
    struct timespec pause = {0, (long)(np_draw(key, task->step, 0).w[0] % 1000000)};
    nanosleep(&pause, NULL);
}

static void wake_stage(struct np_stage *stage)
{
    stage->woken = true;
    pthread_cond_signal(&stage->wake);
}

void np_engine_wake(struct np_engine *e)
{
    for (int d = 0; d < np_plan_devices(e->config.plan); d++)
        wake_stage(&e->stages[d]);
}

static void wake_all(struct np_engine *e)
{
    np_engine_wake(e);
    pthread_cond_signal(&e->feed);
}

static void fail(struct np_engine *e, enum np_status status, const struct np_error *err)
{
    if (e->status == NP_OK) {
        e->status = status;
        e->err = *err;
    }
    e->quit = true;
    wake_all(e);
}

static void record_span(struct np_engine *e, const struct np_task *task, double start, double end,
                        double stall_s)
{
    double origin = e->origin_s * 1e9;
    struct np_span span = {*task, start - origin, end - origin, stall_s * 1e9};
    span.task.step += e->base;
    if (e->config.trace)
        np_trace_add(e->config.trace, &span, NULL);
}

static void take_outcome(struct np_engine *e, const struct np_task *task,
                         const struct np_task_outcome *outcome)
{
    struct np_slot *slot = np_engine_slot(e, task->step);
    if (outcome->updated) {
        slot->prints[slot->print_count++] = outcome->print;
        slot->fingerprint += outcome->print.fingerprint;
    }
    if (outcome->faulted && (!e->faulted || np_step_fault_before(&outcome->fault, &e->fault))) {
        e->fault = outcome->fault;
        e->faulted = true;
        np_engine_limit(e, e->fault.step - e->base + 1);
    }
}

/* Reports the steps that have become complete, in order; none from a faulted one on. */
static void report_steps(struct np_engine *e)
{
    const struct np_recipe *recipe = e->config.net->recipe;
    size_t grains = (size_t)(recipe->batch / recipe->grain);
    for (; e->reported < np_sched_completed(e->sched); e->reported++) {
        struct np_slot *slot = np_engine_slot(e, e->reported);
        struct np_step_record record = {.step = e->base + e->reported,
                                        .lr = np_recipe_lr(recipe, e->base + e->reported),
                                        .members = recipe->members,
                                        .losses = e->losses,
                                        .fingerprint = slot->fingerprint,
                                        .layer_count = slot->print_count,
                                        .layers = slot->prints};
        struct np_error err;
        enum np_status status;
        if (e->faulted && record.step >= e->fault.step)
            continue;
        for (int i = 0; i < recipe->members; i++)
            e->losses[i] = np_step_loss(recipe, slot->grain_loss + (size_t)i * grains);
        np_step_sort_prints(slot->prints, slot->print_count);
        status = e->config.hooks.step(e->config.hooks.context, &record, &err);
        if (status != NP_OK) {
            fail(e, status, &err);
            return;
        }
    }
}

/* Runs one task; the lock is held on entry and on return. */
static void run_task(struct np_stage *stage, const struct np_task *task)
{
    struct np_engine *e = stage->engine;
    bool skip = e->faulted && e->base + task->step > e->fault.step;
    struct np_task_outcome outcome = {.faulted = false};
    struct np_task delivery;
    struct np_error err;
    enum np_status status = NP_OK;
    double start, end;
    int first, last;
    bool leaves;
    e->running++;
    pthread_mutex_unlock(&e->lock);
    injected_delay(e, task, 0);
    start = now_ns();
    if (!skip)
        status = np_engine_perform(stage, task, &outcome, &err);
    end = now_ns();
    pthread_mutex_lock(&e->lock);
    stage->busy_s += (end - start) * 1e-9 - outcome.stall_s;
    record_span(e, task, start, end, outcome.stall_s);
    if (status != NP_OK) {
        e->running--;
        fail(e, status, &err);
        return;
    }
    take_outcome(e, task, &outcome);
    leaves = np_sched_done(e->sched, task, &delivery);
    np_sched_woken(e->sched, &first, &last);
    for (int d = first; d <= last; d++)
        if (d != task->device)
            wake_stage(&e->stages[d]);
    if (leaves) {
        if (e->config.delay_seed) {
            pthread_mutex_unlock(&e->lock);
            injected_delay(e, &delivery, 1);
            pthread_mutex_lock(&e->lock);
        }
        np_sched_arrived(e->sched, &delivery);
        wake_stage(&e->stages[delivery.device]);
    }
    e->running--;
    if (e->reported < np_sched_completed(e->sched)) {
        report_steps(e);
        wake_all(e);
    }
}

/* Nothing runs, nothing is under way, and yet a step is not complete: a bug, said at once instead
 * of waited for. */
static bool stalled(const struct np_engine *e)
{
    int devices = np_plan_devices(e->config.plan);
    for (int d = 0; d < devices; d++)
        if (e->stages[d].woken)
            return false;
    return e->idle == devices && e->running == 0 && !np_engine_drained(e);
}

void *np_stage_main(void *argument)
{
    struct np_stage *stage = argument;
    struct np_engine *e = stage->engine;
    struct np_task task;
    struct np_error err;
    enum np_status status = np_float_check(&err);
    pthread_mutex_lock(&e->lock);
    if (status != NP_OK)
        fail(e, status, &err);
    while (!e->quit) {
        if (np_sched_next(e->sched, stage->device, &task)) {
            run_task(stage, &task);
        } else {
            e->idle++;
            if (stalled(e)) {
                np_fail(&err, NP_EIO, "the schedule has stalled at step %llu (a bug in naspipe)",
                        (unsigned long long)(e->base + np_sched_completed(e->sched)));
                fail(e, NP_EIO, &err);
            } else {
                pthread_cond_wait(&stage->wake, &e->lock);
                stage->woken = false;
            }
            e->idle--;
        }
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}
