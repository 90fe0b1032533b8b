/* The causal scheduler on a virtual clock, fed from a stream. */
#include <stdlib.h>

#include "base/memory.h"
#include "sched/sim_parts.h"
#include "sched/virtual.h"

struct sim {
    const struct np_sim_config *config;
    struct np_sim_report *report;
    struct np_virtual *machine;
    struct np_contexts *contexts; /* NULL: all layers are there */
    uint16_t *choices;
    bool stream_ended;
};

static void on_end(void *context, const struct np_span *span)
{
    struct sim *sim = context;
    const struct np_sim_config *c = sim->config;
    sim->report->sequential += span->end - span->start - span->stall - c->overhead;
    if (c->stages)
        c->stages[span->task.stage].stall += span->stall;
    np_sim_note(c, sim->report, span);
}

static void on_copy(void *context, const struct np_copy_span *span)
{
    struct sim *sim = context;
    const struct np_sim_config *c = sim->config;
    if (c->stages)
        c->stages[span->stage].copy += span->end - span->start;
    if (c->on_copy)
        c->on_copy(c->context, span);
}

/* Pushes what the scheduler wants to know; the context managers are told first, as in the engine.
 */
static enum np_status feed(struct sim *sim, struct np_error *err)
{
    const struct np_sim_config *c = sim->config;
    const struct np_sched *sched = np_virtual_sched(sim->machine);
    enum np_status status = NP_OK;
    while (!sim->stream_ended && np_sched_wants(sched)) {
        uint64_t incomplete = np_sched_known(sched) - np_sched_completed(sched);
        sim->stream_ended = !c->next_step(c->context, sim->choices);
        if (sim->contexts && sim->stream_ended)
            NP_TRY(np_contexts_end(sim->contexts, err));
        else if (sim->contexts)
            NP_TRY(np_contexts_push(sim->contexts, sim->choices, incomplete, false, err));
        if (sim->contexts)
            np_virtual_foretold(sim->machine);
        if (!sim->stream_ended)
            NP_TRY(np_virtual_push(sim->machine, sim->choices, err));
    }
out:
    return status;
}

static enum np_status machine_new(struct sim *sim, struct np_error *err)
{
    const struct np_sim_config *c = sim->config;
    struct np_virtual_config machine = {.sched = c->sched,
                                        .overhead = c->overhead,
                                        .transfer = c->transfer,
                                        .check = c->check,
                                        .on_end = on_end,
                                        .on_copy = on_copy,
                                        .context = sim};
    enum np_status status;
    if (c->memory) {
        struct np_contexts_config contexts = {.sched = c->sched,
                                              .overhead = c->overhead,
                                              .transfer = c->transfer,
                                              .bytes = c->memory->bytes,
                                              .room = c->memory->room,
                                              .policy = c->memory->policy};
        NP_TRY(np_contexts_new(&sim->contexts, &contexts, err));
        machine.contexts = np_contexts_all(sim->contexts);
        machine.copy_speed = c->memory->speed;
    }
    NP_TRY(np_virtual_new(&sim->machine, &machine, err));
out:
    return status;
}

enum np_status np_sim_run_csp(struct np_sim_report *report, const struct np_sim_config *config,
                              struct np_error *err)
{
    const struct np_sched_config *sched = &config->sched;
    struct sim sim = {.config = config, .report = report};
    enum np_status status;
    bool more = true;
    NP_TRY(np_zalloc(&sim.choices, (size_t)sched->members * (size_t)sched->positions,
                     sizeof *sim.choices, err));
    NP_TRY(machine_new(&sim, err));
    while (more) {
        NP_TRY(feed(&sim, err));
        NP_TRY(np_virtual_assign(sim.machine, err));
        NP_TRY(np_virtual_advance(sim.machine, &more, err));
    }
    report->makespan = np_virtual_now(sim.machine);
    report->steps = np_sched_completed(np_virtual_sched(sim.machine));
    NP_TRY(np_virtual_finish(sim.machine, err));
    for (int k = 0; sim.contexts && config->stages && k < sched->stages; k++)
        config->stages[k].sums = np_context_sums(np_contexts_all(sim.contexts)[k]);
out:
    np_virtual_free(sim.machine);
    np_contexts_free(sim.contexts);
    free(sim.choices);
    return status;
}
