#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "num/philox.h"
#include "plan/cut.h"
#include "plan/stage_memory.h"
#include "predict.h"

static enum np_status allocate(struct predict_model *model, int positions, uint32_t layers,
                               int stages, int blocks, struct np_error *err)
{
    enum np_status status;
    model->blocks = blocks;
    NP_TRY(np_zalloc(&model->each, (size_t)blocks, sizeof *model->each, err));
    NP_TRY(np_zalloc(&model->layer_first, (size_t)positions + 1, sizeof *model->layer_first, err));
    NP_TRY(np_zalloc(&model->kind, (size_t)positions, sizeof *model->kind, err));
    NP_TRY(np_zalloc(&model->cost, layers, sizeof *model->cost, err));
    NP_TRY(np_zalloc(&model->weightless, layers, sizeof *model->weightless, err));
    NP_TRY(np_alloc(&model->whole, layers, sizeof *model->whole, err));
    for (uint32_t l = 0; l < layers; l++)
        model->whole[l] = l;
    NP_TRY(np_zalloc(&model->stage_first, (size_t)stages + 1, sizeof *model->stage_first, err));
out:
    return status;
}

/* Points the scheduler's config at the model's own arrays. */
static void attach(struct predict_model *model)
{
    model->sched.layer_first = model->layer_first;
    model->sched.kind = model->kind;
    model->sched.cost = model->cost;
    model->sched.weightless = model->weightless;
    model->sched.whole = model->whole;
    model->sched.stage_first = model->stage_first;
}

/* Every layer of a choice block, identity included, takes 1 for each of F, B and W; stem and head
 * keep their place in the order of versions and take no time. */
static void unit_costs(struct predict_model *model, int first_block)
{
    for (int p = 0; p < model->sched.positions; p++) {
        bool block = p >= first_block && p < first_block + model->blocks;
        for (uint32_t l = model->layer_first[p]; l < model->layer_first[p + 1]; l++) {
            model->cost[l] = block ? (struct np_layer_cost){1, 1, 1} : (struct np_layer_cost){0};
            model->weightless[l] = block ? false : model->weightless[l];
        }
    }
    model->nanoseconds = false;
}

/* Times of layers whose logarithms are normally distributed, as measured ones roughly are; the mean
 * over layers is about 1.13. */
#define COST_SIGMA 0.5

static void drawn_costs(struct predict_model *model, int first_block)
{
    const double two_pi = 6.283185307179586;
    unit_costs(model, first_block);
    for (uint32_t l = 0; l < model->layer_first[model->sched.positions]; l++) {
        struct np_philox drawn = np_draw(np_draw_key(0, NP_DRAW_DELAY, 0, l, 0), 0, 0);
        double u = 1 - (double)np_philox_unit(drawn.w[0]), v = (double)np_philox_unit(drawn.w[1]);
        float times = (float)exp(COST_SIGMA * sqrt(-2 * log(u)) * cos(two_pi * v));
        struct np_layer_cost *cost = &model->cost[l];
        *cost = (struct np_layer_cost){cost->f * times, cost->b * times, cost->w * times};
    }
}

/* An even cut, by the blocks' mean costs. */
static enum np_status even_cut(struct predict_model *model, struct np_error *err)
{
    enum np_status status;
    double *load = NULL;
    bool fits;
    NP_TRY(np_zalloc(&load, (size_t)model->sched.positions, sizeof *load, err));
    for (int p = 0; p < model->sched.positions; p++) {
        uint32_t first = model->layer_first[p], end = model->layer_first[p + 1];
        for (uint32_t l = first; l < end; l++)
            load[p] += (double)model->cost[l].f;
        load[p] /= end - first;
    }
    struct np_cut cut = {
        .positions = model->sched.positions, .stages = model->sched.stages, .load = load};
    NP_TRY(np_cut_find(model->stage_first, &fits, &cut, err));
out:
    free(load);
    return status;
}

static int or_default(int value, int fallback)
{
    return value ? value : fallback;
}

int predict_reach(const struct np_partition_request *asked, int reach, int unit, int positions)
{
    if (asked->cut == NP_CUT_STATIC)
        return 0;
    if (asked->reach || (asked->cut == NP_CUT_BALANCED && !reach))
        reach = or_default(asked->reach, 2 * unit);
    return reach < positions ? reach : positions;
}

/* No more steps than a device has room for the subnets of: what is fetched for one would be in the
 * way of another. */
static int window_of(const struct predict_options *given, int stages, int turns)
{
    int most = np_sched_default_window(stages, turns);
    if (given->plan.request.window > 0)
        return given->plan.request.window;
    if (given->capacity > 0 && given->capacity < most)
        most = given->capacity > 2 ? given->capacity : 2;
    return most;
}

enum np_status predict_model_bare(struct predict_model *model, const struct predict_options *given,
                                  struct np_error *err)
{
    enum np_status status;
    const struct np_partition_request *asked = &given->plan.request;
    int blocks = given->blocks, stages = or_default(asked->stages, 8);
    int micro_batches = or_default(asked->micro_batches, 8);
    int replicas = or_default(asked->replicas, 1);
    if (stages > blocks)
        return np_fail(err, NP_EINPUT, "%d stages are too many for %d blocks", stages, blocks);
    if (replicas > NP_MAX_STAGES / stages)
        return np_fail(err, NP_EINPUT, "%d replicas of %d stages are more than %d stages", replicas,
                       stages, NP_MAX_STAGES);
    if (given->capacity && replicas > 1)
        return np_fail(err, NP_EINPUT, "replicas share all layers: --capacity is for one");
    if (micro_batches % replicas != 0)
        return np_fail(err, NP_EINPUT, "%d replicas cannot share %d micro-batch%s evenly", replicas,
                       micro_batches, micro_batches == 1 ? "" : "es");
    NP_TRY(allocate(model, blocks, (uint32_t)(blocks * given->candidates), stages, blocks, err));
    for (int b = 0; b < blocks; b++) {
        model->each[b] =
            (struct np_stream_block){.candidates = given->candidates, .drawn = b, .width_drawn = b};
        model->layer_first[b + 1] = (uint32_t)((b + 1) * given->candidates);
        model->kind[b] = NP_CHOICE;
    }
    model->sched = (struct np_sched_config){
        .positions = blocks,
        .delay = 1,
        .stages = stages,
        .unit = or_default(asked->unit, 1),
        .reach = predict_reach(asked, 0, or_default(asked->unit, 1), blocks),
        .members = 1,
        .micro_batches = micro_batches,
        .replicas = replicas,
        .window = window_of(given, stages, micro_batches / replicas),
        .lookahead = prefetch_lookahead(&given->prefetch, 16, given->capacity > 0)};
    attach(model);
    if (given->costs == PREDICT_DRAWN_COSTS)
        drawn_costs(model, 0);
    else
        unit_costs(model, 0);
    NP_TRY(even_cut(model, err));
    if (given->capacity)
        NP_TRY(predict_memory_bare(model, given, err));
out:
    return status;
}

static void copy_config(struct predict_model *model, const struct np_sched_config *from,
                        uint32_t layers)
{
    size_t positions = (size_t)from->positions, stages = (size_t)from->stages;
    memcpy(model->layer_first, from->layer_first, (positions + 1) * sizeof *model->layer_first);
    memcpy(model->kind, from->kind, positions * sizeof *model->kind);
    memcpy(model->cost, from->cost, layers * sizeof *model->cost);
    memcpy(model->weightless, from->weightless, layers * sizeof *model->weightless);
    memcpy(model->whole, from->whole, layers * sizeof *model->whole);
    memcpy(model->stage_first, from->stage_first, (stages + 1) * sizeof *model->stage_first);
    model->sched = *from;
    model->nanoseconds = true;
    attach(model);
}

enum np_status predict_model_of_plan(struct predict_model *model,
                                     const struct predict_options *given,
                                     const struct np_supernet *net, struct np_plan *plan,
                                     struct np_error *err)
{
    enum np_status status;
    struct np_sched_config config = {0};
    const struct np_recipe *recipe = net->recipe;
    NP_TRY(allocate(model, net->positions, net->layers, plan->stages, recipe->block_count, err));
    NP_TRY(np_plan_sched_config(&config, plan, net, err));
    copy_config(model, &config, net->layers);
    for (int b = 0; b < recipe->block_count; b++)
        model->each[b] = np_stream_block_of(recipe, b);
    if (given->costs > PREDICT_PLAN_COSTS) {
        if (given->costs == PREDICT_DRAWN_COSTS)
            drawn_costs(model, 1);
        else
            unit_costs(model, 1);
        if (!given->plan_path) {
            NP_TRY(even_cut(model, err));
            memcpy(plan->stage_first, model->stage_first, /* what memory is counted by */
                   ((size_t)plan->stages + 1) * sizeof *plan->stage_first);
        }
    }
    if (model->nanoseconds) {
        model->overhead = np_plan_task_ns(plan);
        model->transfer = np_plan_transfer_ns(plan, net);
    }
    NP_TRY(np_memory_check(plan, net, err));
    if (np_plan_swaps(plan))
        NP_TRY(predict_memory_of_plan(model, given, net, plan, err));
out:
    np_plan_sched_clear(&config);
    return status;
}

void predict_model_clear(struct predict_model *model)
{
    free(model->each);
    free(model->layer_first);
    free(model->kind);
    free(model->cost);
    free(model->weightless);
    free(model->whole);
    free(model->stage_first);
    free(model->bytes);
    free(model->room);
    *model = (struct predict_model){0};
}
