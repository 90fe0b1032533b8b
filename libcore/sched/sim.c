#include "sched/sim.h"

#include <string.h>

#include "sched/sim_parts.h"

bool np_sim_learns(const struct np_sched_config *config, int position, uint32_t layer)
{
    return config->kind[position] != NP_SHARED_FROZEN && !config->weightless[layer];
}

void np_sim_stage_costs(const struct np_sched_config *config, const uint16_t *choices,
                        struct np_stage_cost *cost)
{
    for (int i = 0; i < config->members; i++)
        for (int k = 0; k < config->stages; k++, cost++) {
            *cost = (struct np_stage_cost){0, 0};
            for (int p = config->stage_first[k]; p < config->stage_first[k + 1]; p++) {
                uint32_t candidate = config->layer_first[p] + choices[i * config->positions + p];
                uint32_t layer = np_sched_whole(config, candidate);
                struct np_layer_cost c = config->cost[candidate];
                cost->f += (double)c.f;
                cost->b += (double)c.b + (np_sim_learns(config, p, layer) ? (double)c.w : 0);
            }
        }
}

void np_sim_note(const struct np_sim_config *config, struct np_sim_report *report,
                 const struct np_span *span)
{
    report->tasks++;
    report->busy += span->end - span->start - span->stall;
    if (config->on_task)
        config->on_task(config->context, span);
}

enum np_status np_sim_run(struct np_sim_report *report, const struct np_sim_config *config,
                          struct np_error *err)
{
    enum np_status status;
    *report = (struct np_sim_report){0};
    for (int k = 0; config->stages && k < config->sched.stages; k++)
        config->stages[k] = (struct np_sim_stage){.copy = 0};
    if (config->schedule != NP_SIM_CSP && np_sched_replicas(&config->sched) > 1)
        return np_fail(err, NP_EINPUT, "only csp has replicas");
    if (config->schedule == NP_SIM_CSP)
        NP_TRY(np_sim_run_csp(report, config, err));
    else if (config->schedule == NP_SIM_NASPIPE)
        NP_TRY(np_sim_run_naspipe(report, config, err));
    else
        NP_TRY(np_sim_run_flush(report, config, err));
    if (report->makespan > 0) {
        report->speedup = report->sequential / report->makespan;
        report->bubble = 1 - report->busy / report->makespan / np_sched_devices(&config->sched);
    }
out:
    return status;
}
