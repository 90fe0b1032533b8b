#include "sched/virtual.h"

#include <stdlib.h>

#include "base/memory.h"
#include "sched/events.h"
#include "sched/rule.h"

struct np_virtual {
    struct np_virtual_config config;
    struct np_sched *sched;
    struct np_rule *rule;     /* NULL: unchecked */
    struct np_events events;  /* numbers below stages: a task's end; else a delivery */
    struct np_task *running;  /* [stages]; count 0: idle */
    struct np_task *delivery; /* [most_travelling] */
    uint32_t *free_delivery;  /* stack of free deliveries */
    uint32_t free_count;
    int *woken;     /* stages that may have got a task */
    bool *is_woken; /* [stages] */
    int woken_count;
    int first_stage; /* the stage of position 0 */
    double now;
};

enum np_status np_virtual_new(struct np_virtual **out, const struct np_virtual_config *config,
                              struct np_error *err)
{
    const struct np_sched_config *c = &config->sched;
    size_t stages = (size_t)c->stages;
    size_t travelling = (size_t)c->window * (size_t)c->members * (size_t)c->micro_batches;
    struct np_virtual *v = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&v, 1, sizeof *v, err));
    v->config = *config;
    NP_TRY(np_sched_new(&v->sched, c, err));
    if (config->check)
        NP_TRY(np_rule_new(&v->rule, c, err));
    NP_TRY(np_zalloc(&v->events.entry, stages + travelling, sizeof *v->events.entry, err));
    NP_TRY(np_zalloc(&v->running, stages, sizeof *v->running, err));
    NP_TRY(np_zalloc(&v->delivery, travelling, sizeof *v->delivery, err));
    NP_TRY(np_zalloc(&v->free_delivery, travelling, sizeof *v->free_delivery, err));
    NP_TRY(np_zalloc(&v->woken, stages, sizeof *v->woken, err));
    NP_TRY(np_zalloc(&v->is_woken, stages, sizeof *v->is_woken, err));
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

static void wake(struct np_virtual *v, int stage)
{
    if (v->is_woken[stage])
        return;
    v->is_woken[stage] = true;
    v->woken[v->woken_count++] = stage;
}

enum np_status np_virtual_push(struct np_virtual *v, const uint16_t *choices, struct np_error *err)
{
    enum np_status status = NP_OK;
    if (v->rule)
        NP_TRY(np_rule_push(v->rule, choices, err));
    np_sched_push(v->sched, choices);
    wake(v, v->first_stage);
out:
    return status;
}

enum np_status np_virtual_assign(struct np_virtual *v, struct np_error *err)
{
    const struct np_virtual_config *c = &v->config;
    enum np_status status = NP_OK;
    while (v->woken_count > 0) {
        int stage = v->woken[--v->woken_count];
        struct np_task *task = &v->running[stage];
        double end;
        v->is_woken[stage] = false;
        if (task->count > 0 || !np_sched_next(v->sched, stage, task))
            continue;
        if (v->rule)
            NP_TRY(np_rule_start(v->rule, task, err));
        end = v->now + np_sched_cost(v->sched, task) + c->overhead;
        if (c->on_task)
            NP_TRY(c->on_task(c->context, task, v->now, end, err));
        np_events_add(&v->events, end, (uint32_t)stage);
    }
out:
    return status;
}

static enum np_status arrive(struct np_virtual *v, const struct np_task *delivery,
                             struct np_error *err)
{
    np_sched_arrived(v->sched, delivery);
    wake(v, delivery->stage);
    return v->rule ? np_rule_arrived(v->rule, delivery, err) : NP_OK;
}

static enum np_status end_task(struct np_virtual *v, int stage, struct np_error *err)
{
    struct np_task task = v->running[stage], delivery;
    uint64_t completed = np_sched_completed(v->sched);
    enum np_status status = NP_OK;
    v->running[stage].count = 0;
    wake(v, stage);
    if (v->rule)
        NP_TRY(np_rule_end(v->rule, &task, err));
    if (np_sched_done(v->sched, &task, &delivery)) {
        if (v->config.transfer > 0) {
            uint32_t at = v->free_delivery[--v->free_count];
            v->delivery[at] = delivery;
            np_events_add(&v->events, v->now + v->config.transfer,
                          (uint32_t)v->config.sched.stages + at);
        } else {
            NP_TRY(arrive(v, &delivery, err));
        }
    }
    for (int k = np_sched_woken(v->sched); k < stage; k++)
        wake(v, k);
    if (np_sched_completed(v->sched) != completed)
        wake(v, v->first_stage);
out:
    return status;
}

static enum np_status handle(struct np_virtual *v, struct np_event event, struct np_error *err)
{
    uint32_t stages = (uint32_t)v->config.sched.stages, at;
    if (event.what < stages)
        return end_task(v, (int)event.what, err);
    at = event.what - stages;
    v->free_delivery[v->free_count++] = at;
    return arrive(v, &v->delivery[at], err);
}

enum np_status np_virtual_advance(struct np_virtual *v, bool *more, struct np_error *err)
{
    struct np_event event;
    enum np_status status = NP_OK;
    *more = np_events_take(&v->events, &event);
    if (!*more)
        return NP_OK;
    v->now = event.time;
    NP_TRY(handle(v, event, err));
    while (v->events.count > 0 && v->events.entry[0].time <= v->now) {
        np_events_take(&v->events, &event);
        NP_TRY(handle(v, event, err));
    }
out:
    return status;
}

enum np_status np_virtual_finish(struct np_virtual *v, struct np_error *err)
{
    return v->rule ? np_rule_finish(v->rule, np_sched_known(v->sched), err) : NP_OK;
}
