/* The stage loop: ask the scheduler, run the task, report what became ready. */
#include <math.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/engine.h"

/* A random pause of up to 0.25 ms, addressed by the task: for tests of the schedule's freedom. */
static void injected_delay(const struct np_engine *e, const struct np_task *task, uint32_t place)
{
    if (!e->config.delay_seed)
        return;
    struct np_draw_key key =
        np_draw_key(e->config.delay_seed, NP_DRAW_DELAY, place * 4 + (uint32_t)task->kind,
                    (uint32_t)task->first, (uint32_t)(task->member * 4096 + task->micro));
    struct timespec pause = {0, (long)(np_draw(key, task->step, 0).w[0] % 250000)};
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

static void fail(struct np_engine *e, enum np_status status, const struct np_error *err)
{
    if (e->status == NP_OK) {
        e->status = status;
        e->err = *err;
    }
    e->quit = true;
    np_engine_wake(e);
    pthread_cond_signal(&e->feed);
}

static void record_span(struct np_engine *e, const struct np_started *started)
{
    double origin = e->origin_s * 1e9;
    struct np_span span = {started->task, started->start_ns - origin, started->end_ns - origin,
                           started->stall_s * 1e9};
    span.task.step += e->base;
    if (e->config.trace)
        np_trace_add(e->config.trace, &span, NULL);
}

/* No step begins any more after that of the earliest fault. */
static void note_fault(struct np_engine *e, const struct np_step_fault *fault)
{
    if (e->faulted && !np_step_fault_before(fault, &e->fault))
        return;
    e->fault = *fault;
    e->faulted = true;
    np_engine_limit(e, fault->step - e->base + 1);
}

/* What a task found. */
static void take_outcome(struct np_stage *stage, const struct np_started *started)
{
    struct np_engine *e = stage->engine;
    const struct np_task *task = &started->task;
    struct np_slot *slot = np_engine_slot(e, task->step);
    struct np_step_fault fault;
    if (started->updates) {
        size_t member = (size_t)task->member * (size_t)e->config.net->positions;
        struct np_layer_print *print = &slot->prints[slot->print_count++];
        uint32_t layer = np_step_layer(e->config.net, slot->choices + member, task->first);
        *print = np_sweep_print(stage->crew, layer, &started->report);
        slot->fingerprint += print->fingerprint;
    }
    if (!started->skipped && np_engine_fault(stage, started, &fault))
        note_fault(e, &fault);
}

/* The losses of a complete step; finite outputs of a head may add up to one that is not. */
static void sum_losses(struct np_engine *e, uint64_t step)
{
    const struct np_recipe *recipe = e->config.net->recipe;
    const struct np_slot *slot = np_engine_slot(e, step);
    size_t grains = (size_t)(recipe->batch / recipe->grain);
    for (int i = 0; i < recipe->members; i++) {
        const struct np_step_fault fault = {.step = e->base + step,
                                            .member = i,
                                            .pass = NP_TASK_F,
                                            .position = e->config.net->positions - 1,
                                            .what = "loss"};
        e->losses[i] = np_step_loss(recipe, slot->grain_loss + (size_t)i * grains,
                                    np_step_targets(&e->config, fault.step, i));
        if (!isfinite(e->losses[i]))
            note_fault(e, &fault);
    }
}

/* Reports the steps that have become complete, in order; none from a faulted one on. */
static void report_steps(struct np_engine *e)
{
    const struct np_recipe *recipe = e->config.net->recipe;
    uint64_t complete = np_sched_completed(e->sched);
    for (; e->reported < complete && e->reported < e->limit; e->reported++) {
        struct np_slot *slot = np_engine_slot(e, e->reported);
        struct np_step_record record = {.step = e->base + e->reported,
                                        .lr = np_recipe_lr(recipe, e->base + e->reported),
                                        .members = recipe->members,
                                        .choices = slot->choices,
                                        .losses = e->losses,
                                        .fingerprint = slot->fingerprint,
                                        .layer_count = slot->print_count,
                                        .layers = slot->prints};
        struct np_error err;
        enum np_status status;
        if (slot->unsettled)
            break;
        if (!e->faulted || record.step <= e->fault.step)
            sum_losses(e, e->reported);
        if (e->faulted && record.step >= e->fault.step)
            continue;
        np_step_sort_prints(slot->prints, slot->print_count);
        status = e->config.hooks.step(e->config.hooks.context, &record, &err);
        if (status != NP_OK) {
            fail(e, status, &err);
            return;
        }
    }
}

/* The scheduler goes on from here: what the task does is certain. */
static void let_go(struct np_stage *stage, struct np_started *started)
{
    struct np_engine *e = stage->engine;
    uint64_t completed = np_sched_completed(e->sched);
    int first, last;
    started->leaves = np_sched_done(e->sched, &started->task, &started->delivery);
    np_sched_woken(e->sched, &first, &last);
    for (int d = first; d <= last; d++)
        if (d != stage->device)
            wake_stage(&e->stages[d]);
    if (np_sched_completed(e->sched) > completed)
        np_engine_wake(e);
}

static void deliver(struct np_engine *e, const struct np_task *delivery)
{
    if (e->config.delay_seed) {
        pthread_mutex_unlock(&e->lock);
        injected_delay(e, delivery, 1);
        pthread_mutex_lock(&e->lock);
    }
    np_sched_arrived(e->sched, delivery);
    wake_stage(&e->stages[delivery->device]);
}

/* Waits for the oldest task that is not settled; the lock is held on entry and on return. */
static enum np_status await_task(struct np_stage *stage, struct np_started *started,
                                 struct np_error *err)
{
    struct np_engine *e = stage->engine;
    enum np_status status;
    pthread_mutex_unlock(&e->lock);
    injected_delay(e, &started->task, 2);
    status = np_engine_await(stage, started, err);
    started->end_ns = np_now_ns();
    if (started->start_ns < stage->ended_ns) { /* its turn came later */
        started->start_ns = stage->ended_ns;
        started->stall_s = 0;
    }
    pthread_mutex_lock(&e->lock);
    return status;
}

/* Settles the oldest task that is not; the lock is held on entry and on return. */
static void settle(struct np_stage *stage)
{
    struct np_engine *e = stage->engine;
    struct np_started *started = &stage->tasks[stage->settled++ % NP_CREW_AHEAD];
    enum np_status status = NP_OK;
    struct np_error err;
    if (stage->ahead > 1 && !started->skipped)
        status = await_task(stage, started, &err);
    stage->ended_ns = started->end_ns;
    stage->busy_s += (started->end_ns - started->start_ns) * 1e-9 - started->stall_s;
    record_span(e, started);
    np_engine_slot(e, started->task.step)->unsettled--;
    if (status != NP_OK) {
        fail(e, status, &err);
    } else {
        take_outcome(stage, started);
        if (stage->ahead == 1)
            let_go(stage, started);
        if (started->leaves)
            deliver(e, &started->delivery);
    }
    e->running--;
    if (e->reported < np_sched_completed(e->sched)) {
        report_steps(e);
        pthread_cond_signal(&e->feed);
    }
}

/* Runs one task; the lock is held on entry and on return. */
static void run_task(struct np_stage *stage, const struct np_task *task)
{
    struct np_engine *e = stage->engine;
    struct np_started *started = &stage->tasks[stage->started % NP_CREW_AHEAD];
    enum np_status status = NP_OK;
    struct np_error err;
    while (np_engine_succeeds(stage, task))
        settle(stage);
    started->task = *task;
    started->skipped = e->faulted && e->base + task->step > e->fault.step;
    started->updates = started->leaves = false;
    started->stall_s = 0;
    e->running++;
    pthread_mutex_unlock(&e->lock);
    injected_delay(e, task, 0);
    started->start_ns = np_now_ns();
    if (!started->skipped)
        status = np_engine_perform(stage, started, &err);
    started->end_ns = np_now_ns();
    pthread_mutex_lock(&e->lock);
    if (status != NP_OK) {
        e->running--;
        fail(e, status, &err);
        return;
    }
    stage->started++;
    np_engine_slot(e, task->step)->unsettled++;
    if (stage->ahead > 1)
        let_go(stage, started);
    if (stage->started - stage->settled >= (uint64_t)stage->ahead)
        settle(stage);
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
        stage->woken = false; /* for what it is told from here on */
        np_engine_heed_stop(e);
        if (np_sched_next(e->sched, stage->device, &task)) {
            run_task(stage, &task);
        } else if (stage->settled < stage->started) {
            settle(stage);
        } else {
            e->idle++;
            if (stalled(e)) {
                np_fail(&err, NP_EIO, "the schedule has stalled at step %llu (a bug in naspipe)",
                        (unsigned long long)(e->base + np_sched_completed(e->sched)));
                fail(e, NP_EIO, &err);
            } else {
                pthread_cond_wait(&stage->wake, &e->lock);
            }
            e->idle--;
        }
    }
    while (stage->settled < stage->started)
        settle(stage);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}
