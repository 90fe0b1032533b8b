/* Schedules that drain the pipeline after every step: sequential, gpipe, 1f1b. Each stage's order
 * is fixed beforehand, so the times follow from it: a stage runs its next task as soon as its input
 * is there.
 *
 * Shapes: pieces n = members x micro-batches of a step, in order.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "sched/sim_parts.h"

struct flush {
    const struct np_sim_config *config;
    struct np_sim_report *report;
    int pieces;
    uint16_t *choices;
    struct np_stage_cost *cost; /* [members][stages] */
    double *f_end, *b_end;      /* [stages][pieces]; negative: not run yet */
    int *next;                  /* [stages]: tasks of this step that ran */
    double *free_at;            /* [stages] */
    double now;                 /* sequential: end of the last task */
};

struct pass {
    enum np_task_kind kind;
    int piece;
};

/* The `at`-th task of a stage, of the 2n of a step. */
static struct pass pass_at(const struct flush *f, int stage, int at)
{
    int n = f->pieces, ahead;
    if (f->config->schedule == NP_SIM_GPIPE)
        return at < n ? (struct pass){NP_TASK_F, at} : (struct pass){NP_TASK_B, 2 * n - 1 - at};
    if (f->config->schedule == NP_SIM_SEQUENTIAL)
        return (struct pass){at % 2 ? NP_TASK_B : NP_TASK_F, at / 2};
    ahead = f->config->sched.stages - 1 - stage; /* 1f1b: so many forwards, then one of each */
    ahead = ahead < n ? ahead : n;
    if (at < ahead)
        return (struct pass){NP_TASK_F, at};
    if (at >= 2 * n - ahead)
        return (struct pass){NP_TASK_B, at - n};
    at -= ahead;
    return at % 2 ? (struct pass){NP_TASK_B, at / 2} : (struct pass){NP_TASK_F, ahead + at / 2};
}

/* When the input of a pass is there; negative if it is not known yet. */
static double input_at(const struct flush *f, int stage, struct pass pass)
{
    int n = f->pieces, last = f->config->sched.stages - 1;
    double made;
    if (pass.kind == NP_TASK_F && stage == 0)
        return 0;
    if (pass.kind == NP_TASK_B && stage == last)
        return f->f_end[stage * n + pass.piece];
    made = pass.kind == NP_TASK_F ? f->f_end[(stage - 1) * n + pass.piece]
                                  : f->b_end[(stage + 1) * n + pass.piece];
    return made < 0 ? made : made + f->config->transfer;
}

/* Runs the stage's next task if its input is known. */
static bool advance(struct flush *f, uint64_t step, int stage)
{
    const struct np_sched_config *c = &f->config->sched;
    struct pass pass = pass_at(f, stage, f->next[stage]);
    int member = pass.piece / c->micro_batches;
    struct np_stage_cost cost = f->cost[member * c->stages + stage];
    double work = pass.kind == NP_TASK_F ? cost.f : cost.b;
    double start = input_at(f, stage, pass), end;
    struct np_task task = {.kind = pass.kind,
                           .stage = stage,
                           .device = stage,
                           .step = step,
                           .member = member,
                           .micro = pass.piece % c->micro_batches,
                           .first = c->stage_first[stage],
                           .count = c->stage_first[stage + 1] - c->stage_first[stage]};
    if (start < 0)
        return false;
    start = start > f->free_at[stage] ? start : f->free_at[stage];
    if (f->config->schedule == NP_SIM_SEQUENTIAL && start < f->now)
        start = f->now;
    end = start + work + f->config->overhead;
    (pass.kind == NP_TASK_F ? f->f_end : f->b_end)[stage * f->pieces + pass.piece] = end;
    f->free_at[stage] = f->now = end;
    f->next[stage]++;
    f->report->sequential += work;
    np_sim_note(f->config, f->report, &(struct np_span){task, start, end, 0});
    return true;
}

static double run_step(struct flush *f, uint64_t step)
{
    int stages = f->config->sched.stages, left = 2 * f->pieces * stages;
    double end = 0;
    for (int i = 0; i < stages * f->pieces; i++)
        f->f_end[i] = f->b_end[i] = -1;
    for (int k = 0; k < stages; k++)
        f->next[k] = 0;
    while (left > 0)
        for (int k = 0; k < stages; k++)
            while (f->next[k] < 2 * f->pieces && advance(f, step, k))
                left--;
    for (int k = 0; k < stages; k++)
        end = f->free_at[k] > end ? f->free_at[k] : end;
    for (int k = 0; k < stages; k++)
        f->free_at[k] = end;
    return end;
}

enum np_status np_sim_run_flush(struct np_sim_report *report, const struct np_sim_config *config,
                                struct np_error *err)
{
    const struct np_sched_config *c = &config->sched;
    struct flush f = {.config = config, .report = report, .pieces = c->members * c->micro_batches};
    size_t stages = (size_t)c->stages, members = (size_t)c->members;
    enum np_status status;
    NP_TRY(np_zalloc(&f.choices, members * (size_t)c->positions, sizeof *f.choices, err));
    NP_TRY(np_zalloc(&f.cost, members * stages, sizeof *f.cost, err));
    NP_TRY(np_zalloc(&f.f_end, (size_t)f.pieces * stages, sizeof *f.f_end, err));
    NP_TRY(np_zalloc(&f.b_end, (size_t)f.pieces * stages, sizeof *f.b_end, err));
    NP_TRY(np_zalloc(&f.next, stages, sizeof *f.next, err));
    NP_TRY(np_zalloc(&f.free_at, stages, sizeof *f.free_at, err));
    while (config->next_step(config->context, f.choices)) {
        np_sim_stage_costs(c, f.choices, f.cost);
        report->makespan = run_step(&f, report->steps++);
    }
out:
    free(f.choices);
    free(f.cost);
    free(f.f_end);
    free(f.b_end);
    free(f.next);
    free(f.free_at);
    return status;
}
