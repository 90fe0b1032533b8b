/* The search is small because its parts hardly interact: for each number of micro-batches (which
 * changes the costs) the cut follows from the costs, then the window grows while it pays, then the
 * unit. Every judgement is a simulation of the engine's own scheduler. */
#include "plan/partition.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "num/team.h"
#include "plan/cut.h"
#include "plan/profile_cache.h"
#include "plan/stage_memory.h"
#include "plan/steps.h"
#include "sched/sim.h"

#define STEPS 48           /* simulated for each judgement */
#define TASKS (1 << 20)    /* and no more tasks than about this many, but always two steps */
#define LOOKAHEAD 16       /* schedule.md: 8 to 16 steps are enough for priorities */
#define WORTH 0.99         /* more memory or coarser tasks must save this much time */
#define FLIGHTS_WORTH 0.98 /* fewer flights may cost this much time */
#define WINDOW_MAX 128     /* steps in flight tried */
#define UNIT_MAX 4

struct search {
    const struct np_supernet *net;
    const struct np_partition_request *request;
    int stages, threads;
    uint64_t least_bytes; /* per stage that would do, when nothing has fitted so far; 0: unknown */
};

enum np_status np_plan_predict(struct np_plan *plan, const struct np_supernet *net, uint64_t count,
                               struct np_error *err)
{
    enum np_status status;
    struct np_steps steps = {0};
    struct np_sim_report report;
    struct np_sim_config sim = {.schedule = NP_SIM_CSP,
                                .overhead = NP_PLAN_TASK_NS,
                                .transfer = NP_PLAN_TRANSFER_NS,
                                .next_step = np_steps_next,
                                .context = &steps};
    NP_TRY(np_plan_sched_config(&sim.sched, plan, net, err));
    NP_TRY(np_steps_of_recipe(&steps, net, count, err));
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
    return status;
}

static enum np_status copy_plan(struct np_plan *to, const struct np_plan *from,
                                const struct np_supernet *net, struct np_error *err)
{
    struct np_plan copy;
    enum np_status status = np_plan_init(&copy, net, from->stages, err);
    if (status != NP_OK)
        return status;
    size_t stages = (size_t)from->stages, kinds = (size_t)net->kind_count;
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
    return NP_OK;
}

/* What positions weigh: time, and memory on each stage. */
struct weights {
    double *load;
    uint64_t *bytes; /* [stages][positions] */
    uint64_t beside; /* of a stage, beside these */
};

static void weights_clear(struct weights *w)
{
    free(w->load);
    free(w->bytes);
}

static enum np_status weights_init(struct weights *w, const struct np_plan *plan,
                                   const struct np_supernet *net, struct np_error *err)
{
    enum np_status status;
    size_t positions = (size_t)net->positions;
    *w = (struct weights){NULL};
    NP_TRY(np_zalloc(&w->load, positions, sizeof *w->load, err));
    NP_TRY(np_zalloc(&w->bytes, positions, (size_t)plan->stages * sizeof *w->bytes, err));
    for (int p = 0; p < net->positions; p++)
        w->load[p] = np_plan_load(plan, net, p);
out:
    return status;
}

static enum np_status weigh_memory(struct weights *w, const struct np_plan *plan, int resident,
                                   const struct np_supernet *net, struct np_error *err)
{
    enum np_status status = NP_OK;
    size_t positions = (size_t)net->positions;
    w->beside = 0;
    for (int k = 0; k < plan->stages; k++) {
        uint64_t *row = w->bytes + (size_t)k * positions, beside;
        if (k > 0 && plan->in_flight[k] == plan->in_flight[k - 1]) {
            memcpy(row, row - positions, positions * sizeof *row);
            continue;
        }
        NP_TRY(np_memory_positions(row, &beside, plan, plan->in_flight[k], resident, net, err));
        w->beside = beside > w->beside ? beside : w->beside;
    }
out:
    return status;
}

/* The first stage holds `most` flights, and each one fewer than the stage before: what a flight
 * waits for lies in later stages. No bound where the window lets no more begin. */
static void bound_flights(struct np_plan *plan, const struct np_supernet *net, int most)
{
    int64_t all = np_plan_flights(plan, net);
    for (int k = 0; k < plan->stages; k++) {
        int64_t flights = most > k ? most - k : 1;
        plan->in_flight[k] = flights < all ? (int)flights : (int)all;
    }
}

/* The bound from which on nothing is bounded. */
static int unbounded(const struct np_plan *plan, const struct np_supernet *net)
{
    return (int)np_plan_flights(plan, net) + plan->stages - 1;
}

/* The bound that was given to bound_flights, or as good as that. */
static int bound_of(const struct np_plan *plan, const struct np_supernet *net)
{
    for (int k = 0; k < plan->stages; k++)
        if (plan->in_flight[k] < np_plan_flights(plan, net))
            return plan->in_flight[k] + k;
    return unbounded(plan, net);
}

/* Cuts for time within the cap, with `most` flights and room for `resident` candidates a block. */
static enum np_status cut_within(struct search *s, struct np_plan *plan, struct weights *w,
                                 int most, int resident, bool *fits, struct np_error *err)
{
    enum np_status status;
    uint64_t cap = s->request->memory_bytes;
    struct np_cut cut = {.positions = s->net->positions, .stages = s->stages, .load = w->load};
    bound_flights(plan, s->net, most);
    if (cap > 0) {
        NP_TRY(weigh_memory(w, plan, resident, s->net, err));
        cut.bytes = w->bytes;
        cut.cap_bytes = cap > w->beside ? cap - w->beside : 0;
    }
    status = np_cut_find(plan->stage_first, fits, &cut, err);
out:
    return status;
}

/* One flight at a time, and the cut whose largest stage is smallest: what is needed at least. */
static enum np_status cut_smallest(struct search *s, struct np_plan *plan, struct weights *w,
                                   bool *fits, struct np_error *err)
{
    uint64_t least;
    enum np_status status;
    struct np_cut cut = {.positions = s->net->positions, .stages = s->stages, .load = w->load};
    bound_flights(plan, s->net, 1);
    NP_TRY(weigh_memory(w, plan, 0, s->net, err));
    for (int p = 0; p < cut.positions; p++)
        w->load[p] = (double)w->bytes[p];
    NP_TRY(np_cut_find(plan->stage_first, fits, &cut, err));
    NP_TRY(np_memory_fill(plan, s->net, err));
    NP_TRY(np_memory_least(&least, plan, s->net, err));
    if (s->least_bytes == 0 || least < s->least_bytes)
        s->least_bytes = least;
    *fits = least <= s->request->memory_bytes;
out:
    return status;
}

/* The same with as many flights as the cap allows; *fits false when it allows none. */
static enum np_status cut_flights(struct search *s, struct np_plan *plan, struct weights *w,
                                  int resident, bool *fits, struct np_error *err)
{
    int low = 0, high = unbounded(plan, s->net); /* low fits, or is 0; above high nothing does */
    enum np_status status = cut_within(s, plan, w, high, resident, fits, err);
    if (status != NP_OK || *fits)
        return status;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        NP_TRY(cut_within(s, plan, w, middle, resident, fits, err));
        *(*fits ? &low : &high) = middle;
    }
    if (low > 0)
        NP_TRY(cut_within(s, plan, w, low, resident, fits, err));
    *fits = low > 0;
out:
    return status;
}

/* Cuts for the plan's costs, micro-batches and window within the cap: with all candidates on the
 * device, or those of two steps, or of one, or as it may be. *fits false when nothing does. */
static enum np_status cut_plan(struct search *s, struct np_plan *plan, bool *fits,
                               struct np_error *err)
{
    int members = s->net->recipe->members;
    const int resident[] = {NP_MAX_CHOICES, 2 * members, members, 0};
    enum np_status status;
    struct weights w;
    NP_TRY(weights_init(&w, plan, s->net, err));
    *fits = false;
    for (int i = 0; i < 4 && !*fits; i++)
        NP_TRY(cut_flights(s, plan, &w, resident[i], fits, err));
    if (!*fits)
        NP_TRY(cut_smallest(s, plan, &w, fits, err));
    if (*fits)
        NP_TRY(np_memory_fill(plan, s->net, err));
out:
    weights_clear(&w);
    return status;
}

/* A step of many members and micro-batches fills the pipeline by itself: a few show its pace. */
static uint64_t judged_steps(const struct np_plan *plan, const struct np_supernet *net)
{
    uint64_t tasks = 3 * (uint64_t)net->positions * (uint64_t)net->recipe->members *
                     (uint64_t)plan->micro_batches;
    uint64_t steps = TASKS / tasks;
    return steps < 2 ? 2 : steps < STEPS ? steps : STEPS;
}

/* Takes over the candidate if it is enough better than the best so far. */
static enum np_status judge(struct search *s, struct np_plan *best, struct np_plan *candidate,
                            double worth, bool *better, struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_plan_predict(candidate, s->net, judged_steps(candidate, s->net), err));
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
    bool better = true, fits = true;
    int asked = s->request->window, misses = 0;
    for (int w = asked ? asked : 1; fits && misses < 2 && (asked || w <= WINDOW_MAX);
         w += (w + 1) / 2) {
        plan->window = w;
        NP_TRY(cut_plan(s, plan, &fits, err));
        if (fits)
            NP_TRY(judge(s, best, plan, WORTH, &better, err));
        misses = better ? 0 : misses + 1;
        if (asked)
            break;
    }
out:
    return status;
}

static enum np_status search_unit(struct search *s, struct np_plan *best, struct np_plan *plan,
                                  struct np_error *err)
{
    enum np_status status = NP_OK;
    bool better = true;
    NP_TRY(copy_plan(plan, best, s->net, err));
    for (int unit = 2; unit <= UNIT_MAX && better; unit++) {
        plan->unit = unit;
        NP_TRY(judge(s, best, plan, WORTH, &better, err));
    }
out:
    return status;
}

/* Fewer flights in flight, as far as that costs next to no time: they take less memory, which stays
 * warmer. (The text benchmark on two stages, 4 micro-batches: 12 flights simulated 185.7 ms,
 * measured 199.5; 8: 187.5, 197.0; 5: 189.0, 196.5.) One stage works on one flight at a time.
 * Several get one more than the simulation needs, because the times of real tasks vary. */
static enum np_status search_flights(struct search *s, struct np_plan *plan, struct np_error *err)
{
    enum np_status status = NP_OK;
    double enough = plan->step_ns / FLIGHTS_WORTH;
    int given = bound_of(plan, s->net), low = 0, high = plan->stages > 1 ? given : 1;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        bound_flights(plan, s->net, middle);
        NP_TRY(np_plan_predict(plan, s->net, judged_steps(plan, s->net), err));
        *(plan->step_ns <= enough ? &high : &low) = middle;
    }
    high += plan->stages > 1;
    bound_flights(plan, s->net, high < given ? high : given);
    NP_TRY(np_plan_predict(plan, s->net, judged_steps(plan, s->net), err));
    NP_TRY(np_memory_fill(plan, s->net, err));
out:
    return status;
}

/* The best plan with this many micro-batches; best->stages stays 0 if none fits. */
static enum np_status search_micro(struct search *s, struct np_plan *best, int micro_batches,
                                   struct np_error *err)
{
    enum np_status status;
    const struct np_partition_request *request = s->request;
    struct np_plan plan;
    NP_TRY(np_plan_init(&plan, s->net, s->stages, err));
    plan.micro_batches = micro_batches;
    plan.threads = s->threads;
    plan.unit = request->unit ? request->unit : 1;
    plan.device_bytes = request->memory_bytes;
    plan.lookahead = request->memory_bytes ? NP_PLAN_AHEAD : LOOKAHEAD;
    plan.measured = !request->model;
    NP_TRY(np_profile_plan(&plan, s->net, request, err));
    NP_TRY(search_window(s, best, &plan, err));
    if (best->stages && !request->unit)
        NP_TRY(search_unit(s, best, &plan, err));
out:
    np_plan_clear(&plan);
    return status;
}

static enum np_status resolve(struct search *s, struct np_error *err)
{
    const struct np_partition_request *request = s->request;
    int processors = request->processors > 0 ? request->processors : 1;
    s->stages = request->stages;
    s->threads = request->threads;
    if (!s->stages)
        s->stages = s->threads > 0 ? processors / s->threads : processors;
    if (s->stages < 1)
        s->stages = 1;
    if (!request->stages && s->stages > s->net->positions)
        s->stages = s->net->positions;
    if (s->stages > s->net->positions || s->stages > NP_MAX_STAGES)
        return np_fail(err, NP_EINPUT, "%d stages are too many: '%s' has %d positions", s->stages,
                       np_text_safe(s->net->recipe->path).s, s->net->positions);
    if (!s->threads)
        s->threads = processors > s->stages ? processors / s->stages : 1;
    if (s->threads > NP_MAX_TEAM)
        s->threads = NP_MAX_TEAM;
    if (request->micro_batches)
        return np_plan_check_cuts(request->micro_batches, s->net, err);
    return NP_OK;
}

static enum np_status refuse(const struct search *s, struct np_error *err)
{
    return np_fail(
        err, NP_ENO,
        "nothing fits: the largest of %d stage%s needs at least %llu bytes (%s), more than %s",
        s->stages, s->stages == 1 ? "" : "s", (unsigned long long)s->least_bytes,
        np_text_size(s->least_bytes).s, np_text_size(s->request->memory_bytes).s);
}

/* What was asked for; else up to where a pipeline of so many stages is full. */
static bool worth_trying(const struct search *s, int micro_batches)
{
    int asked = s->request->micro_batches, most = 4 * s->stages;
    if (s->net->whole_batch)
        return micro_batches == 1;
    return asked ? micro_batches == asked : micro_batches <= (most > 16 ? most : 16);
}

enum np_status np_partition(struct np_plan *plan, const struct np_supernet *net,
                            const struct np_partition_request *request, struct np_error *err)
{
    enum np_status status;
    struct search s = {.net = net, .request = request};
    struct np_plan best = {0}, micro = {0};
    int grains = net->recipe->batch / net->recipe->grain;
    NP_TRY(resolve(&s, err));
    for (int m = 1; m <= grains; m++) {
        if (grains % m != 0 || !worth_trying(&s, m))
            continue;
        if (request->progress)
            request->progress(request->context, m, grains);
        NP_TRY(search_micro(&s, &micro, m, err));
        if (micro.stages && (!best.stages || micro.step_ns < best.step_ns))
            NP_TRY(copy_plan(&best, &micro, net, err));
        np_plan_clear(&micro);
    }
    if (!best.stages) {
        status = refuse(&s, err);
        goto out;
    }
    NP_TRY(search_flights(&s, &best, err));
    *plan = best;
    best = (struct np_plan){0};
out:
    np_plan_clear(&best);
    np_plan_clear(&micro);
    return status;
}
