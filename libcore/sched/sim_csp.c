/* The causal scheduler on a virtual clock, fed from a stream. */
#include <stdlib.h>

#include "base/memory.h"
#include "sched/sim_parts.h"
#include "sched/virtual.h"

struct sim {
    const struct np_sim_config *config;
    struct np_sim_report *report;
    struct np_virtual *machine;
    uint16_t *choices;
    bool stream_ended;
};

static enum np_status on_task(void *context, const struct np_task *task, double start, double end,
                              struct np_error *err)
{
    struct sim *sim = context;
    (void)err;
    sim->report->sequential += end - start - sim->config->overhead;
    np_sim_note(sim->config, sim->report, task, start, end);
    return NP_OK;
}

/* Pushes what the scheduler wants to know. */
static enum np_status feed(struct sim *sim, struct np_error *err)
{
    const struct np_sim_config *c = sim->config;
    enum np_status status = NP_OK;
    while (!sim->stream_ended && np_sched_wants(np_virtual_sched(sim->machine))) {
        sim->stream_ended = !c->next_step(c->context, sim->choices);
        if (!sim->stream_ended)
            NP_TRY(np_virtual_push(sim->machine, sim->choices, err));
    }
out:
    return status;
}

enum np_status np_sim_run_csp(struct np_sim_report *report, const struct np_sim_config *config,
                              struct np_error *err)
{
    const struct np_sched_config *sched = &config->sched;
    struct sim sim = {.config = config, .report = report};
    struct np_virtual_config machine = {.sched = *sched,
                                        .overhead = config->overhead,
                                        .transfer = config->transfer,
                                        .check = config->check,
                                        .on_task = on_task,
                                        .context = &sim};
    enum np_status status;
    bool more = true;
    NP_TRY(np_zalloc(&sim.choices, (size_t)sched->members * (size_t)sched->positions,
                     sizeof *sim.choices, err));
    NP_TRY(np_virtual_new(&sim.machine, &machine, err));
    while (more) {
        NP_TRY(feed(&sim, err));
        NP_TRY(np_virtual_assign(sim.machine, err));
        NP_TRY(np_virtual_advance(sim.machine, &more, err));
    }
    report->makespan = np_virtual_now(sim.machine);
    report->steps = np_sched_completed(np_virtual_sched(sim.machine));
    NP_TRY(np_virtual_finish(sim.machine, err));
out:
    np_virtual_free(sim.machine);
    free(sim.choices);
    return status;
}
