/* The search is small because its parts hardly interact: the cut follows from the costs, then the
 * window grows while it pays, then the unit, then flights go as far as that costs next to nothing,
 * and in the end each step may be cut for itself. Every judgement is a simulation of the engine's
 * own scheduler. */
#include "plan/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/fit.h"
#include "plan/profile_cache.h"
#include "plan/stage_memory.h"
#include "plan/steps.h"
#include "sched/sim.h"

#define STEPS 48           /* simulated for each judgement */
#define TASKS (1 << 20)    /* and no more tasks than about this many, but always two steps */
#define LOOKAHEAD 16       /* simulated: 8 to 16 steps are enough for priorities */
#define WORTH 0.99         /* more memory or coarser tasks must save this much time */
#define FLIGHTS_WORTH 0.98 /* fewer flights may cost this much time */
#define BALANCE_WORTH 0.98 /* balanced cuts must save this much time */
#define REACH_MAX 4        /* units that boundaries may move, tried */
#define WINDOW_MAX 128     /* steps in flight tried */
#define UNIT_MAX 4

struct search {
    const struct np_supernet *net;
    const struct np_partition_request *request;
    uint64_t least_bytes; /* per stage that would do, where something did not fit; 0: unknown */
};

/* A step of many members and micro-batches fills the pipeline by itself: a few show its pace. */
static uint64_t judged_steps(const struct np_plan *plan, const struct np_supernet *net)
{
    uint64_t tasks = 3 * (uint64_t)net->positions * (uint64_t)net->recipe->members *
                     (uint64_t)plan->micro_batches;
    uint64_t steps = TASKS / tasks;
    return steps < 2 ? 2 : steps < STEPS ? steps : STEPS;
}

/* The memory of a simulation; room and bytes are the caller's to free. */
static enum np_status make_memory(const struct search *s, struct np_sim_memory *memory,
                                  uint64_t **room, uint64_t **bytes, const struct np_plan *plan,
                                  struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_zalloc(room, (size_t)plan->stages, sizeof **room, err));
    NP_TRY(np_zalloc(bytes, s->net->layers, sizeof **bytes, err));
    NP_TRY(np_memory_room(*room, *bytes, plan, s->net, err));
    *memory = (struct np_sim_memory){.bytes = *bytes,
                                     .room = *room,
                                     .policy = NP_CONTEXT_AHEAD,
                                     .speed = np_memory_copy_speed(&plan->disk)};
out:
    return status;
}

/* Fills in step_ns and bubble: the first steps of the recipe's stream, simulated; with layers that
 * come and go where there is a cap and the plan fits under it. */
static enum np_status predict(const struct search *s, struct np_plan *plan, struct np_error *err)
{
    enum np_status status;
    struct np_steps steps = {0};
    struct np_sim_report report;
    struct np_sim_memory memory;
    struct np_sim_config sim = {.schedule = NP_SIM_CSP,
                                .overhead = np_plan_task_ns(plan),
                                .transfer = np_plan_transfer_ns(plan, s->net),
                                .next_step = np_steps_next,
                                .context = &steps};
    uint64_t least, *room = NULL, *bytes = NULL;
    bool swaps = np_plan_swaps(plan);
    NP_TRY(np_plan_sched_config(&sim.sched, plan, s->net, err));
    NP_TRY(np_memory_least(&least, plan, s->net, err));
    if (swaps && least <= plan->device_bytes) {
        NP_TRY(make_memory(s, &memory, &room, &bytes, plan, err));
        sim.memory = &memory;
    }
    NP_TRY(np_steps_of_recipe(&steps, s->net, judged_steps(plan, s->net), err));
    NP_TRY(np_sim_run(&report, &sim, err));
    if (steps.status != NP_OK) {
        status = np_fail(err, steps.status, "%s", steps.err.msg);
        goto out;
    }
    plan->step_ns = report.makespan / (double)report.steps;
    plan->bubble = report.bubble;
out:
    np_steps_clear(&steps);
    np_plan_sched_clear(&sim.sched);
    free(room);
    free(bytes);
    return status;
}

static enum np_status copy_plan(struct np_plan *to, const struct np_plan *from,
                                const struct np_supernet *net, struct np_error *err)
{
    struct np_plan copy;
    size_t stages = (size_t)from->stages, kinds = (size_t)net->kind_count;
    enum np_status status = np_plan_init(&copy, net, from->stages, err);
    if (status != NP_OK)
        return status;
    if (from->recompute)
        NP_TRY(np_alloc(&copy.recompute, kinds, sizeof *copy.recompute, err));
    if (from->recompute)
        memcpy(copy.recompute, from->recompute, kinds * sizeof *copy.recompute);
    memcpy(copy.stage_first, from->stage_first, (stages + 1) * sizeof *copy.stage_first);
    memcpy(copy.in_flight, from->in_flight, stages * sizeof *copy.in_flight);
    memcpy(copy.stage_bytes, from->stage_bytes, stages * sizeof *copy.stage_bytes);
    memcpy(copy.kind_cost, from->kind_cost, kinds * sizeof *copy.kind_cost);
    np_plan_clear(to);
    *to = *from;
    to->stage_first = copy.stage_first;
    to->stage_bytes = copy.stage_bytes;
    to->in_flight = copy.in_flight;
    to->kind_cost = copy.kind_cost;
    to->recompute = copy.recompute;
    to->device_place = NULL;
    return NP_OK;
out:
    np_plan_clear(&copy);
    return status;
}

/* Takes over the candidate if it is enough better than the best so far. */
static enum np_status judge(struct search *s, struct np_plan *best, struct np_plan *candidate,
                            double worth, bool *better, struct np_error *err)
{
    enum np_status status;
    NP_TRY(predict(s, candidate, err));
    *better = best->stages == 0 || candidate->step_ns < best->step_ns * worth;
    if (*better)
        NP_TRY(copy_plan(best, candidate, s->net, err));
out:
    return status;
}

/* Grows the window by about half while that pays. */
static enum np_status search_window(struct search *s, struct np_plan *best, struct np_plan *plan,
                                    struct np_error *err)
{
    enum np_status status = NP_OK;
    bool better = true;
    uint64_t least = 0;
    int asked = s->request->window, misses = 0;
    for (int w = asked ? asked : 1; least == 0 && misses < 2 && (asked || w <= WINDOW_MAX);
         w += (w + 1) / 2) {
        plan->window = w;
        NP_TRY(np_fit(plan, &least, s->net, err));
        if (least == 0)
            NP_TRY(judge(s, best, plan, WORTH, &better, err));
        misses = better ? 0 : misses + 1;
        if (asked)
            break;
    }
    s->least_bytes = least;
out:
    return status;
}

static enum np_status search_unit(struct search *s, struct np_plan *best, struct np_plan *plan,
                                  struct np_error *err)
{
    enum np_status status = NP_OK;
    uint64_t least, cap = plan->device_bytes ? plan->device_bytes : UINT64_MAX;
    bool better = true;
    NP_TRY(copy_plan(plan, best, s->net, err));
    for (int unit = 2; unit <= UNIT_MAX && better; unit++) {
        plan->unit = unit;
        NP_TRY(np_memory_least(&least, plan, s->net, err));
        if (least > cap) /* a recomputing stage has an entry for each position of a unit */
            break;
        NP_TRY(judge(s, best, plan, WORTH, &better, err));
    }
out:
    return status;
}

/* Fewer flights in flight, as far as that costs next to no time: they take less memory, which stays
 * warmer. (The text benchmark on two stages, 4 micro-batches: 12 flights simulated 185.7 ms,
 * measured 199.5; 8: 187.5, 197.0; 5: 189.0, 196.5.) A device by itself works on one flight.
 * Several get one more than the simulation needs, because the times of real tasks vary. */
static enum np_status search_flights(struct search *s, struct np_plan *plan, struct np_error *err)
{
    enum np_status status = NP_OK;
    double enough = plan->step_ns / FLIGHTS_WORTH;
    bool several = np_plan_devices(plan) > 1;
    int given = np_fit_most_flights(plan, s->net), low = 0, high = several ? given : 1;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        np_fit_flights(plan, s->net, middle);
        NP_TRY(predict(s, plan, err));
        *(plan->step_ns <= enough ? &high : &low) = middle;
    }
    high += several;
    np_fit_flights(plan, s->net, high < given ? high : given);
    NP_TRY(predict(s, plan, err));
    NP_TRY(np_memory_fill(plan, s->net, err));
out:
    return status;
}

/* Whether balanced cuts have room, in a plan whose stage_bytes this fills in. */
static enum np_status fits(const struct search *s, struct np_plan *plan, bool *yes,
                           struct np_error *err)
{
    enum np_status status;
    uint64_t least, cap = plan->device_bytes ? plan->device_bytes : UINT64_MAX;
    NP_TRY(np_memory_fill(plan, s->net, err));
    NP_TRY(np_memory_least(&least, plan, s->net, err));
    *yes = least <= cap;
    for (int k = 0; k < plan->stages; k++)
        if (s->request->cut != NP_CUT_BALANCED && plan->stage_bytes[k] > cap)
            *yes = false;
out:
    return status;
}

/* How far boundaries move at first: by a unit, if there are so many positions. */
static int first_reach(const struct np_partition_request *request, const struct np_plan *plan,
                       const struct np_supernet *net)
{
    int reach = request->reach ? request->reach : plan->unit;
    return reach < net->positions ? reach : net->positions;
}

/* Under static cuts units matter to nothing that is kept, but entries of what is computed again, of
 * which one position takes least. */
enum np_status np_search_least(uint64_t *least_bytes, struct np_plan *plan,
                               const struct np_supernet *net,
                               const struct np_partition_request *request, struct np_error *err)
{
    bool moves = request->cut == NP_CUT_BALANCED && plan->stages > 1;
    int first = request->unit ? request->unit : 1, best = first;
    int last = request->unit || !moves ? first : UNIT_MAX;
    enum np_status status = NP_OK;
    *least_bytes = UINT64_MAX;
    /* If the last one is not the best, that is made again. */
    for (int turn = first; turn <= last || (turn == last + 1 && plan->unit != best); turn++) {
        uint64_t least;
        plan->unit = turn <= last ? turn : best;
        plan->reach = moves ? first_reach(request, plan, net) : 0;
        NP_TRY(np_fit_least(&least, plan, net, err));
        best = least < *least_bytes ? plan->unit : best;
        *least_bytes = least < *least_bytes ? least : *least_bytes;
    }
out:
    return status;
}

/* Balanced cuts that were asked for and have no room: in as little memory as they take. */
static enum np_status squeeze(struct search *s, struct np_plan *best, struct np_plan *plan,
                              struct np_error *err)
{
    enum np_status status;
    bool better;
    NP_TRY(np_search_least(&s->least_bytes, plan, s->net, s->request, err));
    if (s->least_bytes <= plan->device_bytes)
        NP_TRY(judge(s, best, plan, INFINITY, &better, err));
    else
        np_plan_clear(best);
out:
    return status;
}

/* Balanced cuts, one unit further while that pays; if they are asked for, at least by one. */
static enum np_status search_cut(struct search *s, struct np_plan *best, struct np_plan *plan,
                                 struct np_error *err)
{
    enum np_status status = NP_OK;
    int asked = s->request->reach, first, most;
    bool must = s->request->cut == NP_CUT_BALANCED, better = true, fit = best->stages > 0;
    double worth = must ? INFINITY : BALANCE_WORTH;
    if (fit)
        NP_TRY(copy_plan(plan, best, s->net, err));
    first = first_reach(s->request, plan, s->net);
    most = asked ? asked : REACH_MAX * plan->unit;
    for (int reach = first; better && reach <= most && reach <= s->net->positions && fit;
         reach += plan->unit) {
        plan->reach = reach;
        NP_TRY(fits(s, plan, &fit, err));
        if (fit)
            NP_TRY(judge(s, best, plan, worth, &better, err));
        worth = WORTH;
    }
    if (must && !best->reach)
        NP_TRY(squeeze(s, best, plan, err));
out:
    return status;
}

enum np_status np_search_begin(struct np_plan *plan, const struct np_pipeline *pipeline,
                               const struct np_supernet *net,
                               const struct np_partition_request *request, struct np_error *err)
{
    enum np_status status = np_plan_init(plan, net, pipeline->stages, err);
    if (status != NP_OK)
        return status;
    plan->replicas = pipeline->replicas;
    plan->micro_batches = pipeline->micro_batches;
    plan->threads = pipeline->threads;
    plan->scratch = request->scratch;
    plan->unit = request->unit ? request->unit : 1;
    plan->device_bytes = request->memory_bytes;
    plan->link = request->link;
    plan->memories = np_request_memories(request, pipeline->replicas);
    if (np_plan_swaps(plan))
        plan->disk =
            plan->stages * plan->threads < request->processors ? request->spare : request->disk;
    plan->lookahead = np_plan_swaps(plan) ? NP_PLAN_AHEAD : LOOKAHEAD;
    plan->measured = !request->model;
    return np_plan_set_recompute(plan, net, pipeline->recompute, err);
}

enum np_status np_search_plan(struct np_plan *plan, uint64_t *least_bytes,
                              const struct np_supernet *net,
                              const struct np_partition_request *request, struct np_error *err)
{
    enum np_status status;
    struct search s = {.net = net, .request = request};
    struct np_plan best = {0};
    /* As np_plan_check_replicas and np_plan_check_memories have it. */
    bool layers_move = (!plan->device_bytes || np_plan_swaps(plan)) && !np_plan_apart(plan);
    NP_TRY(search_window(&s, &best, plan, err));
    if (best.stages && !request->unit)
        NP_TRY(search_unit(&s, &best, plan, err));
    if (best.stages)
        NP_TRY(search_flights(&s, &best, err));
    if (plan->stages > 1 && request->cut != NP_CUT_STATIC && layers_move &&
        (best.stages || request->cut == NP_CUT_BALANCED))
        NP_TRY(search_cut(&s, &best, plan, err));
    *least_bytes = best.stages ? 0 : s.least_bytes;
    if (!best.stages)
        goto out;
    np_plan_clear(plan);
    *plan = best;
    best = (struct np_plan){0};
out:
    np_plan_clear(&best);
    return status;
}
