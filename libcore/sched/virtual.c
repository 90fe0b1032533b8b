#include "sched/virtual.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "sched/copy_queue.h"
#include "sched/events.h"
#include "sched/rule.h"

/* What a device runs. */
struct run {
    struct np_task task; /* count 0: nothing */
    int at;              /* positions behind it, the one it computes included */
    bool computes;       /* else it waits for a layer, or comes to its next position */
    bool waits;
    double start, stall;
    double since; /* when it began to wait */
};

struct np_virtual {
    struct np_virtual_config config;
    struct np_sched *sched;
    struct np_rule *rule; /* NULL: unchecked */
    /* In order of their numbers: a device has computed, a copier of one has copied, a delivery
     * arrives. */
    struct np_events events;
    struct run *running;         /* [devices] */
    struct np_copy_queue *queue; /* [stages]; NULL: no layer comes or goes */
    struct np_disk disk;         /* copies that are moved: first their bytes, then the latency */
    double *owed;                /* [stages] processor time that copies have taken */
    struct np_task *delivery;    /* [most_travelling] */
    uint32_t *free_delivery;     /* stack of free deliveries */
    uint32_t free_count;
    int *woken;     /* devices that may have got a task */
    bool *is_woken; /* [devices] */
    int woken_count;
    int first_stage; /* the stage of position 0 */
    double now;
};

static uint32_t first_copy(const struct np_virtual *v)
{
    return (uint32_t)np_sched_devices(&v->config.sched);
}

static uint32_t first_delivery(const struct np_virtual *v)
{
    return first_copy(v) + (uint32_t)v->config.sched.stages * NP_COPIERS;
}

static enum np_status queues_new(struct np_virtual *v, struct np_error *err)
{
    int stages = v->config.sched.stages;
    enum np_status status;
    v->disk.speed = v->config.copy_speed;
    NP_TRY(np_zalloc(&v->disk.entry, (size_t)stages * NP_COPIERS, sizeof *v->disk.entry, err));
    NP_TRY(np_zalloc(&v->owed, (size_t)stages, sizeof *v->owed, err));
    NP_TRY(np_zalloc(&v->queue, (size_t)stages, sizeof *v->queue, err));
    for (int k = 0; k < stages; k++)
        v->queue[k] = (struct np_copy_queue){.context = v->config.contexts[k], .stage = k};
out:
    return status;
}

enum np_status np_virtual_new(struct np_virtual **out, const struct np_virtual_config *config,
                              struct np_error *err)
{
    const struct np_sched_config *c = &config->sched;
    size_t devices = (size_t)np_sched_devices(c);
    size_t travelling = (size_t)c->window * (size_t)c->members * (size_t)c->micro_batches;
    struct np_virtual *v = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&v, 1, sizeof *v, err));
    v->config = *config;
    NP_TRY(np_sched_new(&v->sched, c, err));
    if (config->check)
        NP_TRY(np_rule_new(&v->rule, c, err));
    if (config->contexts)
        NP_TRY(queues_new(v, err));
    NP_TRY(
        np_zalloc(&v->events.entry, first_delivery(v) + travelling, sizeof *v->events.entry, err));
    NP_TRY(np_zalloc(&v->running, devices, sizeof *v->running, err));
    NP_TRY(np_zalloc(&v->delivery, travelling, sizeof *v->delivery, err));
    NP_TRY(np_zalloc(&v->free_delivery, travelling, sizeof *v->free_delivery, err));
    NP_TRY(np_zalloc(&v->woken, devices, sizeof *v->woken, err));
    NP_TRY(np_zalloc(&v->is_woken, devices, sizeof *v->is_woken, err));
    for (; v->free_count < travelling; v->free_count++)
        v->free_delivery[v->free_count] = v->free_count;
    while (c->stage_first[v->first_stage + 1] == 0)
        v->first_stage++;
    *out = v;
    return NP_OK;
out:
    np_virtual_free(v);
    return status;
}

void np_virtual_free(struct np_virtual *v)
{
    if (!v)
        return;
    np_sched_free(v->sched);
    np_rule_free(v->rule);
    free(v->events.entry);
    free(v->running);
    free(v->queue);
    free(v->disk.entry);
    free(v->owed);
    free(v->delivery);
    free(v->free_delivery);
    free(v->woken);
    free(v->is_woken);
    free(v);
}

const struct np_sched *np_virtual_sched(const struct np_virtual *v)
{
    return v->sched;
}

double np_virtual_now(const struct np_virtual *v)
{
    return v->now;
}

static void wake(struct np_virtual *v, int device)
{
    if (v->is_woken[device])
        return;
    v->is_woken[device] = true;
    v->woken[v->woken_count++] = device;
}

/* Steps begin at position 0, on every replica. */
static void wake_first(struct np_virtual *v)
{
    for (int r = 0; r < np_sched_replicas(&v->config.sched); r++)
        wake(v, r * v->config.sched.stages + v->first_stage);
}

enum np_status np_virtual_push(struct np_virtual *v, const uint16_t *choices, struct np_error *err)
{
    enum np_status status = NP_OK;
    np_sched_push(v->sched, choices);
    if (v->rule)
        NP_TRY(np_rule_push(v->rule, choices,
                            np_sched_stages(v->sched, np_sched_known(v->sched) - 1), err));
    wake_first(v);
out:
    return status;
}

/* What a stage's context manager was told may let those beside it begin a copy. */
static void wake_beside(struct np_virtual *v, int stage)
{
    int stages = v->config.sched.stages;
    for (int k = stage - 2; v->queue && v->config.sched.reach && k <= stage + 2; k++)
        if (k >= 0 && k < stages && k != stage)
            wake(v, k);
}

void np_virtual_foretold(struct np_virtual *v)
{
    for (int k = 0; k < v->config.sched.stages; k++)
        wake(v, k);
}

static void end_copy(struct np_virtual *v, int stage, int copier)
{
    struct np_copy_span span = np_copy_queue_end(&v->queue[stage], copier, v->now);
    if (v->config.on_copy)
        v->config.on_copy(v->config.context, &span);
    wake_beside(v, stage);
}

/* A copy takes a processor from its stage, unless a stage leaves one idle. */
static void take_time(struct np_virtual *v, int stage, uint64_t bytes)
{
    int k = 0;
    while (k < v->config.sched.stages && v->running[k].computes)
        k++;
    if (k == v->config.sched.stages)
        v->owed[stage] += v->disk.speed.busy_per_byte * (double)bytes;
}

/* Copies that take time are threads' work, who are given some as soon as a layer is entered. Others
 * are carried out by the stage itself, between its layers. */
static bool has_copiers(const struct np_virtual *v)
{
    return v->disk.speed.latency > 0;
}

/* The stage's copiers begin what they can; true if some of it is over already. */
static bool start_copies(struct np_virtual *v, int stage)
{
    const struct np_copy_speed *speed = &v->disk.speed;
    bool over = false;
    int copier;
    while ((copier = np_copy_queue_start(&v->queue[stage], v->now)) >= 0) {
        const struct np_copy_span *span = &v->queue[stage].copier[copier];
        uint32_t what = first_copy(v) + (uint32_t)(stage * NP_COPIERS + copier);
        bool moves = np_copy_moves(&span->copy), write = span->copy.kind == NP_COPY_WRITE;
        if (moves && (write ? speed->write_per_byte : speed->read_per_byte) > 0) {
            np_disk_add(&v->disk, v->now, what, span->bytes, write);
            take_time(v, stage, span->bytes);
        } else if (moves && speed->latency > 0) {
            np_events_add(&v->events, v->now + speed->latency, what);
        } else {
            end_copy(v, stage, copier);
            over = true;
        }
    }
    return over;
}

/* The position at which a device's task is. */
static struct np_task piece(const struct run *run, int at)
{
    struct np_task one = run->task;
    one.first += one.kind == NP_TASK_B ? one.count - 1 - at : at;
    one.count = 1;
    return one;
}

/* True once the layer of the task's next position is there. */
static bool enter(struct np_virtual *v, int device, const struct np_task *next)
{
    struct run *run = &v->running[device];
    uint32_t layer = np_sched_layer(v->sched, next, next->first);
    enum np_context_pass pass = next->kind == NP_TASK_F ? NP_CONTEXT_FORWARD : NP_CONTEXT_BACKWARD;
    while (!np_context_enter(v->queue[device].context, layer, next->step, pass))
        if (!start_copies(v, device)) {
            if (!run->waits) {
                run->since = v->now;
                wake_beside(v, device);
            }
            run->waits = true;
            return false;
        }
    if (run->waits)
        run->stall += v->now - run->since;
    run->waits = false;
    return true;
}

/* The device's task computes as far as it can without another layer. */
static void compute(struct np_virtual *v, int device)
{
    struct run *run = &v->running[device];
    struct np_task next = v->queue ? piece(run, run->at) : run->task;
    double end;
    if (v->queue && !enter(v, device, &next))
        return;
    run->at += next.count;
    run->computes = true;
    end = v->now + np_sched_cost(v->sched, &next);
    if (run->at == run->task.count)
        end += v->config.overhead;
    if (v->queue) {
        end += v->owed[device];
        v->owed[device] = 0;
    }
    np_events_add(&v->events, end, (uint32_t)device);
}

static enum np_status begin(struct np_virtual *v, int device, struct np_error *err)
{
    const struct np_virtual_config *c = &v->config;
    struct run *run = &v->running[device];
    enum np_status status = NP_OK;
    *run = (struct run){.start = v->now};
    if (!np_sched_next(v->sched, device, &run->task))
        return NP_OK;
    if (v->rule)
        NP_TRY(np_rule_start(v->rule, &run->task, err));
    if (c->on_start)
        NP_TRY(c->on_start(c->context, &run->task, err));
out:
    return status;
}

enum np_status np_virtual_assign(struct np_virtual *v, struct np_error *err)
{
    enum np_status status = NP_OK;
    while (v->woken_count > 0) {
        int device = v->woken[--v->woken_count];
        struct run *run = &v->running[device];
        v->is_woken[device] = false;
        if (v->queue)
            start_copies(v, device);
        if (run->task.count == 0)
            NP_TRY(begin(v, device, err));
        if (run->task.count > 0 && !run->computes)
            compute(v, device);
        if (v->queue && has_copiers(v))
            start_copies(v, device);
    }
out:
    return status;
}

static enum np_status arrive(struct np_virtual *v, const struct np_task *delivery,
                             struct np_error *err)
{
    np_sched_arrived(v->sched, delivery);
    wake(v, delivery->device);
    return v->rule ? np_rule_arrived(v->rule, delivery, err) : NP_OK;
}

static enum np_status end_task(struct np_virtual *v, int device, struct np_error *err)
{
    struct run *run = &v->running[device];
    struct np_task task = run->task, delivery;
    struct np_span span = {task, run->start, v->now, run->stall};
    int first, last;
    uint64_t completed = np_sched_completed(v->sched);
    enum np_status status = NP_OK;
    run->task.count = 0;
    if (v->config.on_end)
        v->config.on_end(v->config.context, &span);
    if (v->rule)
        NP_TRY(np_rule_end(v->rule, &task, err));
    if (np_sched_done(v->sched, &task, &delivery)) {
        if (v->config.transfer > 0) {
            uint32_t at = v->free_delivery[--v->free_count];
            v->delivery[at] = delivery;
            np_events_add(&v->events, v->now + v->config.transfer, first_delivery(v) + at);
        } else {
            NP_TRY(arrive(v, &delivery, err));
        }
    }
    np_sched_woken(v->sched, &first, &last);
    for (int k = first; k <= last; k++)
        wake(v, k);
    if (np_sched_completed(v->sched) != completed)
        wake_first(v);
out:
    return status;
}

/* A device has computed what it had the layers for. */
static enum np_status end_piece(struct np_virtual *v, int device, struct np_error *err)
{
    struct run *run = &v->running[device];
    run->computes = false;
    wake(v, device);
    if (v->queue) {
        struct np_task last = piece(run, run->at - 1);
        uint32_t layer = np_sched_layer(v->sched, &last, last.first);
        np_context_leave(v->queue[device].context, layer, last.updates);
        wake_beside(v, device);
    }
    return run->at == run->task.count ? end_task(v, device, err) : NP_OK;
}

static enum np_status handle(struct np_virtual *v, uint32_t what, struct np_error *err)
{
    int copier;
    if (what < first_copy(v))
        return end_piece(v, (int)what, err);
    if (what >= first_delivery(v)) {
        what -= first_delivery(v);
        v->free_delivery[v->free_count++] = what;
        return arrive(v, &v->delivery[what], err);
    }
    copier = (int)(what - first_copy(v));
    end_copy(v, copier / NP_COPIERS, copier % NP_COPIERS);
    wake(v, copier / NP_COPIERS);
    return NP_OK;
}

/* What the disk has moved meanwhile becomes an event. */
static void ask_disk(struct np_virtual *v)
{
    double next;
    while ((next = np_disk_next(&v->disk)) < INFINITY &&
           (v->events.count == 0 || next <= v->events.entry[0].time))
        np_events_add(&v->events, next + v->disk.speed.latency, np_disk_take(&v->disk));
}

enum np_status np_virtual_advance(struct np_virtual *v, bool *more, struct np_error *err)
{
    struct np_event event;
    enum np_status status = NP_OK;
    ask_disk(v);
    *more = np_events_take(&v->events, &event);
    if (!*more)
        return NP_OK;
    v->now = event.time;
    NP_TRY(handle(v, event.what, err));
    while (v->events.count > 0 && v->events.entry[0].time <= v->now) {
        np_events_take(&v->events, &event);
        NP_TRY(handle(v, event.what, err));
    }
out:
    return status;
}

enum np_status np_virtual_finish(struct np_virtual *v, struct np_error *err)
{
    for (int d = 0; d < np_sched_devices(&v->config.sched); d++)
        assert(v->running[d].task.count == 0);
    return v->rule ? np_rule_finish(v->rule, np_sched_known(v->sched), err) : NP_OK;
}
