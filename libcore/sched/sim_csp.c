/* The causal scheduler on a virtual clock. */
#include <stdlib.h>

#include "base/memory.h"
#include "sched/events.h"
#include "sched/rule.h"
#include "sched/sim_parts.h"

struct sim {
    const struct np_sim_config *config;
    struct np_sim_report *report;
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
    bool stream_ended;
    uint16_t *choices;
    double now;
};

static enum np_status sim_open(struct sim *sim, struct np_error *err)
{
    const struct np_sched_config *c = &sim->config->sched;
    size_t stages = (size_t)c->stages;
    size_t travelling = (size_t)c->window * (size_t)c->members * (size_t)c->micro_batches;
    enum np_status status;
    NP_TRY(np_sched_new(&sim->sched, c, err));
    if (sim->config->check)
        NP_TRY(np_rule_new(&sim->rule, c, err));
    NP_TRY(np_zalloc(&sim->events.entry, stages + travelling, sizeof *sim->events.entry, err));
    NP_TRY(np_zalloc(&sim->running, stages, sizeof *sim->running, err));
    NP_TRY(np_zalloc(&sim->delivery, travelling, sizeof *sim->delivery, err));
    NP_TRY(np_zalloc(&sim->free_delivery, travelling, sizeof *sim->free_delivery, err));
    NP_TRY(np_zalloc(&sim->woken, stages, sizeof *sim->woken, err));
    NP_TRY(np_zalloc(&sim->is_woken, stages, sizeof *sim->is_woken, err));
    NP_TRY(np_zalloc(&sim->choices, (size_t)c->members * (size_t)c->positions, sizeof *sim->choices,
                     err));
    while (sim->free_count < travelling) {
        sim->free_delivery[sim->free_count] = sim->free_count;
        sim->free_count++;
    }
    while (c->stage_first[sim->first_stage + 1] == 0)
        sim->first_stage++;
out:
    return status;
}

static void sim_close(struct sim *sim)
{
    np_sched_free(sim->sched);
    np_rule_free(sim->rule);
    free(sim->events.entry);
    free(sim->running);
    free(sim->delivery);
    free(sim->free_delivery);
    free(sim->woken);
    free(sim->is_woken);
    free(sim->choices);
}

static void wake(struct sim *sim, int stage)
{
    if (sim->is_woken[stage])
        return;
    sim->is_woken[stage] = true;
    sim->woken[sim->woken_count++] = stage;
}

/* Pushes what the scheduler wants to know. */
static enum np_status feed(struct sim *sim, struct np_error *err)
{
    const struct np_sim_config *c = sim->config;
    enum np_status status = NP_OK;
    while (!sim->stream_ended && np_sched_wants(sim->sched)) {
        if (!c->next_step(c->context, sim->choices)) {
            sim->stream_ended = true;
            break;
        }
        if (sim->rule)
            NP_TRY(np_rule_push(sim->rule, sim->choices, err));
        np_sched_push(sim->sched, sim->choices);
    }
    wake(sim, sim->first_stage);
out:
    return status;
}

/* Gives every woken stage that is idle its next task. */
static enum np_status assign(struct sim *sim, struct np_error *err)
{
    const struct np_sim_config *c = sim->config;
    enum np_status status = NP_OK;
    while (sim->woken_count > 0) {
        int stage = sim->woken[--sim->woken_count];
        struct np_task *task = &sim->running[stage];
        double cost, end;
        sim->is_woken[stage] = false;
        if (task->count > 0 || !np_sched_next(sim->sched, stage, task))
            continue;
        if (sim->rule)
            NP_TRY(np_rule_start(sim->rule, task, err));
        cost = np_sched_cost(sim->sched, task);
        end = sim->now + cost + c->overhead;
        sim->report->sequential += cost;
        np_sim_note(c, sim->report, task, sim->now, end);
        np_events_add(&sim->events, end, (uint32_t)stage);
    }
out:
    return status;
}

static enum np_status arrive(struct sim *sim, const struct np_task *delivery, struct np_error *err)
{
    np_sched_arrived(sim->sched, delivery);
    wake(sim, delivery->stage);
    return sim->rule ? np_rule_arrived(sim->rule, delivery, err) : NP_OK;
}

static enum np_status end_task(struct sim *sim, int stage, struct np_error *err)
{
    struct np_task task = sim->running[stage], delivery;
    uint64_t completed = np_sched_completed(sim->sched);
    enum np_status status = NP_OK;
    sim->running[stage].count = 0;
    wake(sim, stage);
    if (sim->rule)
        NP_TRY(np_rule_end(sim->rule, &task, err));
    if (np_sched_done(sim->sched, &task, &delivery)) {
        if (sim->config->transfer > 0) {
            uint32_t at = sim->free_delivery[--sim->free_count];
            sim->delivery[at] = delivery;
            np_events_add(&sim->events, sim->now + sim->config->transfer,
                          (uint32_t)sim->config->sched.stages + at);
        } else {
            NP_TRY(arrive(sim, &delivery, err));
        }
    }
    for (int k = np_sched_woken(sim->sched); k < stage; k++)
        wake(sim, k);
    if (np_sched_completed(sim->sched) != completed)
        NP_TRY(feed(sim, err));
out:
    return status;
}

static enum np_status handle(struct sim *sim, struct np_event event, struct np_error *err)
{
    uint32_t stages = (uint32_t)sim->config->sched.stages, at;
    if (event.what < stages)
        return end_task(sim, (int)event.what, err);
    at = event.what - stages;
    sim->free_delivery[sim->free_count++] = at;
    return arrive(sim, &sim->delivery[at], err);
}

enum np_status np_sim_run_csp(struct np_sim_report *report, const struct np_sim_config *config,
                              struct np_error *err)
{
    struct sim sim = {.config = config, .report = report};
    struct np_event event;
    enum np_status status;
    NP_TRY(sim_open(&sim, err));
    NP_TRY(feed(&sim, err));
    NP_TRY(assign(&sim, err));
    while (np_events_take(&sim.events, &event)) {
        sim.now = event.time;
        NP_TRY(handle(&sim, event, err));
        if (sim.events.count > 0 && sim.events.entry[0].time <= sim.now)
            continue; /* all that happens at one time, before anything is decided */
        NP_TRY(assign(&sim, err));
    }
    report->makespan = sim.now;
    report->steps = np_sched_completed(sim.sched);
    if (sim.rule)
        NP_TRY(np_rule_finish(sim.rule, np_sched_known(sim.sched), err));
out:
    sim_close(&sim);
    return status;
}
