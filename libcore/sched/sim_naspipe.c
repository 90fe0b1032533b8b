/* The published schedule: every stage scans its queue in step order, backward passes first, and
 * compares a step's subnet with those of all older steps that are unfinished there.
 *
 * One flight is one step in the window; it is at one stage at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sched/events.h"
#include "sched/sim_parts.h"

enum place { TRAVELS, WAITS, RUNS };

struct flight {
    uint64_t step;
    enum np_task_kind kind; /* F on the way to the last stage, B on the way back */
    int stage;
    enum place place;
};

struct queue {
    const struct np_sim_config *config;
    struct np_sim_report *report;
    struct np_events events; /* number: the flight whose task ends or that arrives */
    uint64_t base, known;    /* steps base .. known-1 are in flight */
    bool stream_ended;
    struct flight *flight;      /* [window] */
    uint16_t *choices;          /* [window][positions] */
    struct np_stage_cost *cost; /* [window][stages] */
    bool *conflict;             /* [window][window][stages]: newer, older: a layer in common */
    bool *is_busy;              /* [stages] */
    double now;
};

static uint64_t at(const struct queue *q, uint64_t step)
{
    return step % (uint64_t)q->config->sched.window;
}

static bool *conflict_of(const struct queue *q, uint64_t newer, uint64_t older)
{
    uint64_t row = at(q, newer) * (uint64_t)q->config->sched.window + at(q, older);
    return &q->conflict[row * (uint64_t)q->config->sched.stages];
}

static uint32_t layer_of(const struct queue *q, uint64_t step, int position)
{
    const struct np_sched_config *c = &q->config->sched;
    uint16_t choice = q->choices[at(q, step) * (uint64_t)c->positions + (uint64_t)position];
    return np_sched_whole(c, c->layer_first[position] + choice);
}

static bool position_conflicts(const struct queue *q, uint64_t newer, uint64_t older, int position)
{
    const struct np_sched_config *c = &q->config->sched;
    uint32_t layer = layer_of(q, newer, position);
    if (!np_sim_learns(c, position, layer))
        return false;
    if (c->kind[position] == NP_SHARED_DELAY)
        return newer - older >= (uint64_t)c->delay; /* which it reads the update of */
    return layer == layer_of(q, older, position);
}

static void enter(struct queue *q)
{
    const struct np_sched_config *c = &q->config->sched;
    uint64_t step = q->known++, row = at(q, step);
    q->flight[row] = (struct flight){.step = step, .kind = NP_TASK_F, .stage = 0, .place = WAITS};
    np_sim_stage_costs(c, &q->choices[row * (uint64_t)c->positions],
                       &q->cost[row * (uint64_t)c->stages]);
    for (uint64_t older = q->base; older < step; older++)
        for (int k = 0; k < c->stages; k++) {
            bool *conflict = &conflict_of(q, step, older)[k];
            *conflict = false;
            for (int p = c->stage_first[k]; p < c->stage_first[k + 1] && !*conflict; p++)
                *conflict = position_conflicts(q, step, older, p);
        }
}

static void fill_window(struct queue *q)
{
    const struct np_sched_config *c = &q->config->sched;
    while (!q->stream_ended && q->known - q->base < (uint64_t)c->window) {
        uint16_t *choices = &q->choices[at(q, q->known) * (uint64_t)c->positions];
        q->stream_ended = !q->config->next_step(q->config->context, choices);
        if (!q->stream_ended)
            enter(q);
    }
}

/* A step is finished at a stage when its backward there has ended. */
static bool is_finished(const struct flight *f, int stage)
{
    return f->kind == NP_TASK_B && f->stage < stage;
}

static bool may_run(const struct queue *q, uint64_t step, int stage)
{
    for (uint64_t older = q->base; older < step; older++)
        if (!is_finished(&q->flight[at(q, older)], stage) && conflict_of(q, step, older)[stage])
            return false;
    return true;
}

static struct flight *choose(const struct queue *q, int stage)
{
    for (int kind = NP_TASK_B; kind >= NP_TASK_F; kind--)
        for (uint64_t step = q->base; step < q->known; step++) {
            struct flight *f = &q->flight[at(q, step)];
            if (f->place == WAITS && f->stage == stage && (int)f->kind == kind &&
                (kind == NP_TASK_B || may_run(q, step, stage)))
                return f;
        }
    return NULL;
}

static void start(struct queue *q, struct flight *f)
{
    const struct np_sched_config *c = &q->config->sched;
    struct np_stage_cost cost = q->cost[at(q, f->step) * (uint64_t)c->stages + (uint64_t)f->stage];
    double work = (f->kind == NP_TASK_F ? cost.f : cost.b) * c->micro_batches;
    struct np_task task = {.kind = f->kind,
                           .stage = f->stage,
                           .device = f->stage,
                           .step = f->step,
                           .first = c->stage_first[f->stage],
                           .count = c->stage_first[f->stage + 1] - c->stage_first[f->stage]};
    f->place = RUNS;
    q->is_busy[f->stage] = true;
    q->report->sequential += work;
    np_sim_note(q->config, q->report,
                &(struct np_span){task, q->now, q->now + work + q->config->overhead, 0});
    np_events_add(&q->events, q->now + work + q->config->overhead, (uint32_t)at(q, f->step));
}

/* A task ended: the step moves on to the next stage, turns, or is complete (stage -1). */
static void move_on(struct queue *q, struct flight *f)
{
    bool turns = f->kind == NP_TASK_F && f->stage == q->config->sched.stages - 1;
    q->is_busy[f->stage] = false;
    f->place = WAITS;
    if (turns) {
        f->kind = NP_TASK_B;
        return;
    }
    f->stage += f->kind == NP_TASK_F ? 1 : -1;
    if (f->stage >= 0 && q->config->transfer > 0) {
        f->place = TRAVELS;
        np_events_add(&q->events, q->now + q->config->transfer, (uint32_t)at(q, f->step));
    }
    while (q->base < q->known && q->flight[at(q, q->base)].stage < 0)
        q->base++;
}

static void run_events(struct queue *q)
{
    struct np_event event;
    for (fill_window(q); q->base < q->known; fill_window(q)) {
        for (int k = 0; k < q->config->sched.stages; k++) {
            struct flight *f = q->is_busy[k] ? NULL : choose(q, k);
            if (f)
                start(q, f);
        }
        while (np_events_take(&q->events, &event)) {
            struct flight *f = &q->flight[event.what];
            q->now = event.time;
            if (f->place == TRAVELS)
                f->place = WAITS;
            else
                move_on(q, f);
            if (q->events.count == 0 || q->events.entry[0].time > q->now)
                break;
        }
    }
}

enum np_status np_sim_run_naspipe(struct np_sim_report *report, const struct np_sim_config *config,
                                  struct np_error *err)
{
    const struct np_sched_config *c = &config->sched;
    struct queue q = {.config = config, .report = report};
    size_t window = (size_t)c->window, stages = (size_t)c->stages;
    enum np_status status;
    if (c->members > 1)
        return np_fail(err, NP_EINPUT, "NASPipe's rule has no groups: this one has %d members",
                       c->members);
    NP_TRY(np_zalloc(&q.flight, window, sizeof *q.flight, err));
    NP_TRY(np_zalloc(&q.events.entry, window, sizeof *q.events.entry, err));
    NP_TRY(np_zalloc(&q.choices, window * (size_t)c->positions, sizeof *q.choices, err));
    NP_TRY(np_zalloc(&q.cost, window * stages, sizeof *q.cost, err));
    NP_TRY(np_zalloc(&q.conflict, window * window, stages, err));
    NP_TRY(np_zalloc(&q.is_busy, stages, sizeof *q.is_busy, err));
    run_events(&q);
    report->steps = q.base;
    report->makespan = q.now;
out:
    free(q.flight);
    free(q.events.entry);
    free(q.choices);
    free(q.cost);
    free(q.conflict);
    free(q.is_busy);
    return status;
}
