#include "plan/plan.h"

#include <limits.h>
#include <stdlib.h>

#include "base/memory.h"
#include "ops/op.h"
#include "space/depth.h"

void np_plan_clear(struct np_plan *plan)
{
    if (!plan)
        return;
    free(plan->stage_first);
    free(plan->kind_cost);
    free(plan->stage_bytes);
    free(plan->in_flight);
    free(plan->device_place);
    free(plan->recompute);
    *plan = (struct np_plan){0};
}

enum np_status np_plan_init(struct np_plan *plan, const struct np_supernet *net, int stages,
                            struct np_error *err)
{
    enum np_status status;
    *plan = (struct np_plan){.stages = stages};
    NP_TRY(np_zalloc(&plan->stage_first, (size_t)stages + 1, sizeof *plan->stage_first, err));
    NP_TRY(np_zalloc(&plan->stage_bytes, (size_t)stages, sizeof *plan->stage_bytes, err));
    NP_TRY(np_zalloc(&plan->in_flight, (size_t)stages, sizeof *plan->in_flight, err));
    NP_TRY(np_zalloc(&plan->kind_cost, (size_t)net->kind_count, sizeof *plan->kind_cost, err));
out:
    if (status != NP_OK)
        np_plan_clear(plan);
    return status;
}

enum np_status np_plan_set_recompute(struct np_plan *plan, const struct np_supernet *net,
                                     bool recompute, struct np_error *err)
{
    enum np_status status = NP_OK;
    free(plan->recompute);
    plan->recompute = NULL;
    if (!recompute)
        return NP_OK;
    NP_TRY(np_alloc(&plan->recompute, (size_t)net->kind_count, sizeof *plan->recompute, err));
    for (int k = 0; k < net->kind_count; k++)
        plan->recompute[k] = (float)np_op_recompute_share(&net->kinds[k]);
out:
    return status;
}

/* Where the last unit begins; before there is a cut, it is the head. */
static int last_unit(const struct np_plan *plan, const struct np_supernet *net)
{
    int head = net->positions - 1, first = plan->stage_first[plan->stages - 1];
    bool cut = plan->stage_first[plan->stages] == net->positions && plan->unit > 0;
    return cut ? head - (head - first) % plan->unit : head;
}

/* What it takes to fetch a layer's weights, or the sum of its gradient, from another replica's
 * memory: once for all of the replica's micro-batches of a member. */
static double fetch_ns(const struct np_plan *plan, const struct np_supernet *net,
                       const struct np_kind *kind)
{
    const struct np_sched_share share = np_plan_share(plan, net);
    double bytes = (double)np_kind_whole(kind)->floats * sizeof(float);
    double ns = (double)plan->link.latency_ns;
    if (!np_plan_apart(plan) || bytes == 0)
        return 0;
    if (plan->link.bandwidth)
        ns += bytes * 1e9 / (double)plan->link.bandwidth;
    return ns / share.micros;
}

struct np_layer_cost np_plan_cost(const struct np_plan *plan, const struct np_supernet *net,
                                  int position, int kind)
{
    struct np_layer_cost cost = plan->kind_cost[kind];
    float fetch = (float)fetch_ns(plan, net, &net->kinds[kind]);
    if (plan->recompute && position < last_unit(plan, net))
        cost.b += plan->recompute[kind] * cost.f;
    cost.f += fetch;
    cost.w += fetch;
    return cost;
}

void np_plan_set_device_bytes(struct np_plan *plan, uint64_t bytes)
{
    free(plan->device_place);
    plan->device_place = NULL;
    plan->device_bytes = bytes;
}

double np_plan_task_ns(const struct np_plan *plan)
{
    return plan->link.task_ns ? (double)plan->link.task_ns : NP_PLAN_TASK_NS;
}

double np_plan_transfer_ns(const struct np_plan *plan, const struct np_supernet *net)
{
    double latency = plan->link.latency_ns ? (double)plan->link.latency_ns : NP_PLAN_TRANSFER_NS;
    double samples = (double)net->recipe->batch / plan->micro_batches, floats = 0;
    if (!plan->link.bandwidth || plan->stages == 1)
        return latency;
    for (int k = 1; k < plan->stages; k++)
        for (int v = 0; v < plan->stage_first[k]; v++)
            if (np_supernet_last_reader(net, v) >= plan->stage_first[k])
                floats += samples * (double)np_shape_floats(net->shapes[v]);
    return latency +
           floats * sizeof(float) * 1e9 / (plan->stages - 1) / (double)plan->link.bandwidth;
}

enum np_status np_plan_check_cuts(int micro_batches, const struct np_supernet *net,
                                  struct np_error *err)
{
    const struct np_recipe *recipe = net->recipe;
    int grains = recipe->batch / recipe->grain;
    char name[NP_KIND_NAME];
    int k = 0;
    if (net->whole_batch && micro_batches != 1) {
        while (!net->kinds[k].norm_floats)
            k++;
        np_kind_name(&net->kinds[k], name);
        return np_fail(err, NP_EINPUT,
                       "batch norm takes its statistics from the whole mini-batch: there must be 1 "
                       "micro-batch, not %d (%s has one)",
                       micro_batches, name);
    }
    if (micro_batches < 1 || grains % micro_batches != 0)
        return np_fail(err, NP_EINPUT,
                       "micro-batches must divide %d, the grains of a mini-batch (batch %d, grain "
                       "%d), and %d does not",
                       grains, recipe->batch, recipe->grain, micro_batches);
    return NP_OK;
}

enum np_status np_plan_check_replicas(const struct np_plan *plan, const struct np_supernet *net,
                                      struct np_error *err)
{
    int replicas = np_plan_replicas(plan), members = net->recipe->members;
    int cuts = plan->micro_batches;
    if (!np_sched_may_share(replicas, members, cuts) && members == 1)
        return np_fail(err, NP_EINPUT, "%d replicas cannot share %d micro-batch%s evenly", replicas,
                       cuts, cuts == 1 ? "" : "es");
    if (!np_sched_may_share(replicas, members, cuts))
        return np_fail(err, NP_EINPUT,
                       "%d replicas cannot share %d subnets a step, of %d micro-batch%s each, "
                       "evenly",
                       replicas, members, cuts, cuts == 1 ? "" : "es");
    if (net->recipe->distill > 0 && cuts % replicas != 0)
        return np_fail(err, NP_EINPUT,
                       "subnets of a step learn from the first one: %d replicas must share their "
                       "micro-batches, and cannot share %d evenly",
                       replicas, cuts);
    if (replicas > 1 && plan->device_bytes && plan->reach)
        return np_fail(err, NP_EINPUT,
                       "balanced cuts hand layers over: with a device memory that is for one "
                       "replica, not %d",
                       replicas);
    if (replicas > NP_MAX_STAGES / plan->stages)
        return np_fail(err, NP_EINPUT, "%d replicas of %d stages are more than %d stages", replicas,
                       plan->stages, NP_MAX_STAGES);
    return NP_OK;
}

enum np_status np_plan_check_memories(const struct np_plan *plan, struct np_error *err)
{
    int replicas = np_plan_replicas(plan);
    if (!np_plan_apart(plan))
        return NP_OK;
    if (plan->memories % replicas != 0)
        return np_fail(err, NP_EINPUT, "%d ranks or GPUs cannot be dealt evenly to %d replicas",
                       plan->memories, replicas);
    if (plan->reach)
        return np_fail(err, NP_EINPUT,
                       "balanced cuts hand layers over: between ranks, or GPUs that reach no "
                       "other's memory, that is for one replica, not %d",
                       replicas);
    return NP_OK;
}

int np_plan_flights(const struct np_plan *plan, const struct np_supernet *net)
{
    const struct np_sched_share share = np_plan_share(plan, net);
    int64_t flights = (int64_t)plan->window * (int64_t)np_sched_flights_of(&share);
    return flights < INT_MAX / 2 ? (int)flights : INT_MAX / 2;
}

static double odds(const struct np_supernet *net, int position, uint32_t layer)
{
    int candidate = (int)(layer - net->layer_first[position]);
    if (np_supernet_is_end(net, position))
        return 1;
    return np_depth_odds(net->recipe, &net->recipe->blocks[position - 1], candidate);
}

double np_plan_load(const struct np_plan *plan, const struct np_supernet *net, int position)
{
    double sum = 0;
    for (uint32_t l = net->layer_first[position]; l < net->layer_first[position + 1]; l++) {
        struct np_layer_cost cost = np_plan_cost(plan, net, position, (int)net->layer_kind[l]);
        sum += odds(net, position, l) * ((double)cost.f + (double)cost.b + (double)cost.w);
    }
    return sum / (net->layer_first[position + 1] - net->layer_first[position]);
}

static enum np_shared_kind shared_kind(const struct np_supernet *net, int position)
{
    if (!np_supernet_is_end(net, position))
        return NP_CHOICE;
    return net->recipe->shared_frozen ? NP_SHARED_FROZEN : NP_SHARED_DELAY;
}

enum np_status np_plan_sched_config(struct np_sched_config *config, const struct np_plan *plan,
                                    const struct np_supernet *net, struct np_error *err)
{
    enum np_status status;
    enum np_shared_kind *kind = NULL;
    struct np_layer_cost *cost = NULL;
    bool *weightless = NULL;
    NP_TRY(np_zalloc(&kind, (size_t)net->positions, sizeof *kind, err));
    NP_TRY(np_zalloc(&cost, net->layers, sizeof *cost, err));
    NP_TRY(np_zalloc(&weightless, net->layers, sizeof *weightless, err));
    for (int p = 0; p < net->positions; p++) {
        kind[p] = shared_kind(net, p);
        for (uint32_t l = net->layer_first[p]; l < net->layer_first[p + 1]; l++) {
            cost[l] = np_plan_cost(plan, net, p, (int)net->layer_kind[l]);
            weightless[l] = np_supernet_kind(net, net->layer_whole[l])->floats == 0;
        }
    }
    *config = (struct np_sched_config){.positions = net->positions,
                                       .layer_first = net->layer_first,
                                       .kind = kind,
                                       .delay = net->recipe->delay,
                                       .cost = cost,
                                       .weightless = weightless,
                                       .whole = net->layer_whole,
                                       .stages = plan->stages,
                                       .stage_first = plan->stage_first,
                                       .unit = plan->unit,
                                       .reach = plan->reach,
                                       .members = net->recipe->members,
                                       .micro_batches = plan->micro_batches,
                                       .replicas = plan->replicas,
                                       .window = plan->window,
                                       .in_flight = plan->in_flight,
                                       .weights_first = plan->recompute != NULL,
                                       .leads = net->recipe->distill > 0,
                                       .lookahead = plan->lookahead};
    return NP_OK;
out:
    free(kind);
    free(cost);
    free(weightless);
    return status;
}

/* The config's arrays are const for the scheduler; those made above are freed here. */
static void release(const void *array)
{
    union {
        const void *borrowed;
        void *owned;
    } pointer = {array};
    free(pointer.owned);
}

void np_plan_sched_clear(struct np_sched_config *config)
{
    release(config->kind);
    release(config->cost);
    release(config->weightless);
    *config = (struct np_sched_config){0};
}

struct np_flight_shape np_plan_flight_shape(const struct np_plan *plan)
{
    return (struct np_flight_shape){.stages = plan->stages,
                                    .stage_first = plan->stage_first,
                                    .unit = plan->unit,
                                    .reach = plan->reach,
                                    .in_flight = plan->in_flight,
                                    .window = plan->window,
                                    .micro_batches = plan->micro_batches,
                                    .replicas = plan->replicas,
                                    .memories = np_plan_replica_memories(plan),
                                    .apart = np_plan_apart(plan),
                                    .recompute = plan->recompute != NULL,
                                    .threads = plan->threads,
                                    .scratch = plan->scratch};
}
