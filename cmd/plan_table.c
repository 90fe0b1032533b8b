#include "plan_table.h"

#include <stdio.h>

#include "base/text.h"

void plan_show_alternatives(const struct np_alternatives *tried)
{
    fprintf(stderr, "  %8s %6s %7s %13s %9s %6s %4s %5s %10s %6s %10s %7s\n", "replicas", "stages",
            "threads", "micro-batches", "recompute", "window", "unit", "reach", "memory", "layers",
            "a step", "bubble");
    for (size_t i = 0; i < tried->count; i++) {
        const struct np_alternative *a = &tried->list[i];
        fprintf(stderr, "%s %8d %6d %7d %13d %9s ", a->chosen ? "*" : " ", a->pipeline.replicas,
                a->pipeline.stages, a->pipeline.threads, a->pipeline.micro_batches,
                a->pipeline.recompute ? "yes" : "no");
        if (a->fits)
            fprintf(stderr, "%6d %4d %5d %10s %6s %7.2f ms %5.1f %%\n", a->window, a->unit,
                    a->reach, np_text_size(a->largest_bytes).s, a->resident ? "all" : "part",
                    a->step_ns / 1e6, a->bubble * 100);
        else
            fprintf(stderr, "does not fit: needs %s\n", np_text_size(a->least_bytes).s);
    }
}

static double stage_ms(const struct np_plan *plan, const struct np_supernet *net, int stage)
{
    const struct np_sched_share share = np_plan_share(plan, net);
    double ns = 0;
    for (int p = plan->stage_first[stage]; p < plan->stage_first[stage + 1]; p++)
        ns += np_plan_load(plan, net, p);
    return ns * np_sched_flights_of(&share) / 1e6;
}

void plan_show(const struct np_plan *plan, const struct np_supernet *net)
{
    fprintf(stderr, "%-6s %-10s %10s %10s\n", "stage", "positions", "busy", "memory");
    for (int k = 0; k < plan->stages; k++)
        fprintf(stderr, "%-6d %4d..%-4d %7.2f ms %10s\n", k, plan->stage_first[k],
                plan->stage_first[k + 1] - 1, stage_ms(plan, net, k),
                np_text_size(plan->stage_bytes[k]).s);
    if (np_plan_replicas(plan) > 1)
        fprintf(stderr, "%d replicas, ", plan->replicas);
    fprintf(stderr,
            "%d micro-batches, window %d, unit %d, %s cuts, %d thread%s a stage%s: %.2f ms a "
            "step, %.1f %% bubble (%s costs)\n",
            plan->micro_batches, plan->window, plan->unit, plan->reach ? "balanced" : "static",
            plan->threads, plan->threads == 1 ? "" : "s",
            plan->recompute ? ", activations computed again" : "", plan->step_ns / 1e6,
            plan->bubble * 100, plan->measured ? "measured" : "modelled");
}
