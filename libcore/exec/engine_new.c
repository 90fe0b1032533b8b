/* The engine's storage: made, with all that its stages need, and freed. */
#include "exec/engine.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/place.h"
#include "plan/stage_memory.h"

static enum np_status slots_new(struct np_engine *e, struct np_error *err)
{
    const struct np_recipe *recipe = e->config.net->recipe;
    size_t positions = (size_t)e->config.net->positions, members = (size_t)recipe->members;
    size_t places = members * positions, grains = (size_t)(recipe->batch / recipe->grain);
    size_t micro = (size_t)e->config.plan->micro_batches, cells;
    enum np_status status;
    cells = places * micro * np_engine_memories(e);
    NP_TRY(np_zalloc(&e->slots, e->slot_count, sizeof *e->slots, err));
    NP_TRY(np_zalloc(&e->blocks, places, sizeof *e->blocks, err));
    NP_TRY(np_zalloc(&e->losses, members, sizeof *e->losses, err));
    for (size_t i = 0; i < e->slot_count; i++) {
        struct np_slot *slot = &e->slots[i];
        NP_TRY(np_zalloc(&slot->choices, places, sizeof *slot->choices, err));
        NP_TRY(np_zalloc(&slot->stages, positions, sizeof *slot->stages, err));
        NP_TRY(np_zalloc(&slot->cells, cells, sizeof *slot->cells, err));
        NP_TRY(np_zalloc(&slot->prints, places, sizeof *slot->prints, err));
        NP_TRY(np_zalloc(&slot->grain_loss, members * grains, sizeof *slot->grain_loss, err));
    }
out:
    return status;
}

/* How far the scheduler may be ahead of a stage's crew. What is told early is decided early, so one
 * stage, which has nobody to wait for, may be further ahead. Replicas, and stages that hand layers
 * to each other as they are, meet at more than flights, which have stamps: another crew than the
 * one that was told an update reads the layer next, and replicas continue one gradient sum. For
 * that the scheduler's word that a task is done must mean that it is: each task is awaited. */
static int most_ahead(const struct np_engine *e, const struct np_crew *crew)
{
    const struct np_plan *plan = e->config.plan;
    if (!crew->ops->apart || np_plan_replicas(plan) > 1 || (plan->reach && !plan->device_bytes))
        return 1;
    return plan->stages == 1 ? NP_CREW_AHEAD : 2;
}

static enum np_status stamps_new(struct np_stamp ***out, size_t count, struct np_crew *crew,
                                 struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_zalloc(out, count, sizeof(struct np_stamp *), err));
    for (size_t i = 0; i < count; i++)
        NP_TRY(np_stamp_new(&(*out)[i], crew, err));
out:
    return status;
}

static enum np_status tasks_new(struct np_stage *stage, struct np_error *err)
{
    const struct np_engine *e = stage->engine;
    size_t unit = (size_t)e->config.plan->unit;
    enum np_status status;
    NP_TRY(np_zalloc(&stage->finite, NP_CREW_AHEAD * unit, sizeof *stage->finite, err));
    for (size_t i = 0; i < NP_CREW_AHEAD; i++)
        stage->tasks[i].finite = stage->finite + i * unit;
    stage->ahead = most_ahead(e, stage->crew);
    if (stage->ahead > 1 && e->config.plan->stages > 1)
        NP_TRY(stamps_new(&stage->stamps, e->stamp_count, stage->crew, err));
out:
    return status;
}

/* What carries between memories for the stage, in the order of none of its tasks. */
static enum np_status carrier_new(struct np_stage *stage, const struct np_device *device,
                                  struct np_error *err)
{
    const struct np_engine *e = stage->engine;
    const struct np_crew_config alone = {.size = 1};
    enum np_status status;
    NP_TRY(np_alloc(&stage->parts, (size_t)e->config.net->positions, sizeof *stage->parts, err));
    NP_TRY(np_crew_new(&stage->carrier, device, &alone, err));
    NP_TRY(np_stamp_new(&stage->came, stage->carrier, err));
    NP_TRY(stamps_new(&stage->went, e->stamp_count, stage->carrier, err));
out:
    return status;
}

static enum np_status stage_init(struct np_engine *e, int device,
                                 const struct np_flight_shape *shape, struct np_error *err)
{
    const struct np_device *place = np_train_device(&e->config, device);
    struct np_stage *stage = &e->stages[device];
    int stages = e->config.plan->stages, k = device % stages;
    const struct np_flight_stage *layout = &e->layout.stage[k];
    bool shares = device >= stages && !np_plan_apart(e->config.plan);
    const struct np_flights *first = shares ? &e->flights[k] : NULL;
    enum np_status status;
    stage->engine = e;
    stage->device = device;
    pthread_cond_init(&stage->wake, NULL);
    NP_TRY(np_device_arena(&stage->arena, place, e->config.plan->device_bytes, err));
    NP_TRY(np_flights_take(&e->flights[device], stage->arena, layout, first, err));
    NP_TRY(
        np_place_crew(&stage->crew, place, shape, e->config.net, layout, &e->flights[device], err));
    NP_TRY(tasks_new(stage, err));
    if (e->transport)
        NP_TRY(carrier_new(stage, place, err));
out:
    return status;
}

/* Whoever makes layers where several replicas read them: one in every memory that they are at home
 * in. */
static enum np_status makers_new(struct np_engine *e, struct np_error *err)
{
    const struct np_plan *plan = e->config.plan;
    const struct np_crew_config alone = {.size = 1};
    enum np_status status;
    NP_TRY(np_zalloc(&e->makers, (size_t)plan->stages, sizeof(struct np_crew *), err));
    for (int k = 0; k < plan->stages; k++) {
        int home = np_plan_home(plan, k);
        if (k == 0 || np_plan_memory(plan, home) != np_plan_memory(plan, home - 1))
            NP_TRY(np_crew_new(&e->makers[k], np_train_device(&e->config, home), &alone, err));
    }
out:
    return status;
}

static enum np_status stages_new(struct np_engine *e, struct np_error *err)
{
    const struct np_plan *plan = e->config.plan;
    size_t devices = (size_t)np_plan_devices(plan);
    struct np_flight_shape shape = np_plan_flight_shape(plan);
    enum np_status status;
    NP_TRY(np_flight_layout_init(&e->layout, e->config.net, &shape, err));
    NP_TRY(np_zalloc(&e->flights, devices, sizeof *e->flights, err));
    NP_TRY(np_zalloc(&e->stages, devices, sizeof *e->stages, err));
    for (int k = 0; k < plan->stages; k++) /* no two that may be wanted at once are the same */
        if (e->stamp_count < 2 * (size_t)e->layout.stage[k].slots)
            e->stamp_count = 2 * (size_t)e->layout.stage[k].slots;
    for (int d = 0; d < np_plan_devices(plan); d++)
        NP_TRY(stage_init(e, d, &shape, err));
    if (np_plan_replicas(plan) > 1)
        NP_TRY(makers_new(e, err));
out:
    return status;
}

/* What moves bytes between several memories. */
static enum np_status transport_new(struct np_engine *e, struct np_error *err)
{
    const struct np_plan *plan = e->config.plan;
    const struct np_supernet *net = e->config.net;
    struct np_transport_config config = {.link = e->config.link,
                                         .memories = plan->memories,
                                         .flights = (uint64_t)np_plan_flights(plan, net),
                                         .layers = net->layers,
                                         .parts = net->positions};
    enum np_status status;
    if (config.flights < (uint64_t)plan->in_flight[0]) /* of an evaluation */
        config.flights = (uint64_t)plan->in_flight[0];
    NP_TRY(np_transport_new(&e->transport, &config, err));
    if (plan->reach && !plan->device_bytes)
        NP_TRY(np_mirrors_new(&e->mirrors, &e->config, e->state, e->transport, err));
out:
    return status;
}

/* With a budget: what it leaves for candidates on each stage. */
static enum np_status find_room(struct np_engine *e, struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_zalloc(&e->room, (size_t)e->config.plan->stages, sizeof *e->room, err));
    NP_TRY(np_zalloc(&e->layer_bytes, e->config.net->layers, sizeof *e->layer_bytes, err));
    NP_TRY(np_memory_room(e->room, e->layer_bytes, e->config.plan, e->config.net, err));
out:
    return status;
}

/* Under a cap, but where they are: layers in the arena of their home, which all replicas read. */
static enum np_status settle_layers(struct np_engine *e, struct np_error *err)
{
    const struct np_plan *plan = e->config.plan;
    struct np_arena **arenas = NULL;
    enum np_status status;
    NP_TRY(np_alloc(&arenas, (size_t)e->config.net->positions, sizeof(struct np_arena *), err));
    for (int k = 0; k < plan->stages; k++)
        for (int p = plan->stage_first[k]; p < plan->stage_first[k + 1]; p++)
            arenas[p] = e->stages[np_plan_home(plan, k)].arena;
    status = np_state_use_arenas(e->state, arenas, err);
out:
    free(arenas);
    return status;
}

/* Copies of layers where replicas are apart; under a cap, in the stages' arenas. */
static enum np_status replicas_new(struct np_engine *e, struct np_error *err)
{
    const struct np_plan *plan = e->config.plan;
    size_t devices = (size_t)np_plan_devices(plan);
    struct np_replicas_config config = {
        .train = &e->config, .state = e->state, .layout = &e->layout, .flights = e->flights};
    struct np_arena **arenas = NULL;
    enum np_status status;
    NP_TRY(np_alloc(&arenas, devices, sizeof(struct np_arena *), err));
    for (size_t d = 0; d < devices; d++)
        arenas[d] = e->stages[d].arena;
    config.arenas = plan->device_bytes ? arenas : NULL;
    status = np_replicas_new(&e->replicas, &config, err);
out:
    free(arenas);
    return status;
}

static enum np_status residence_new(struct np_engine *e, struct np_error *err)
{
    const struct np_plan *plan = e->config.plan;
    struct np_residence_config config = {.plan = plan,
                                         .state = e->state,
                                         .room = e->room,
                                         .bytes = e->layer_bytes,
                                         .policy = e->config.policy,
                                         .stash = e->config.stash,
                                         .device = np_train_device(&e->config, 0),
                                         .delay_seed = e->config.delay_seed,
                                         .trace = e->config.trace,
                                         .origin_s = e->origin_s};
    struct np_arena **arenas = NULL;
    struct np_crew **crews = NULL;
    enum np_status status;
    NP_TRY(np_alloc(&arenas, (size_t)plan->stages, sizeof(struct np_arena *), err));
    NP_TRY(np_alloc(&crews, (size_t)plan->stages, sizeof(struct np_crew *), err));
    for (int k = 0; k < plan->stages; k++) {
        arenas[k] = e->stages[k].arena;
        crews[k] = e->stages[k].crew;
    }
    config.arenas = arenas;
    config.crews = crews;
    status = np_residence_new(&e->residence, &config, err);
out:
    free(arenas);
    free(crews);
    return status;
}

enum np_status np_engine_new(struct np_engine **out, const struct np_train_config *config,
                             struct np_state *state, struct np_error *err)
{
    const struct np_plan *plan = config->plan;
    const struct np_recipe *recipe = config->net->recipe;
    struct np_sched_config sched = {.positions = 0};
    struct np_engine *e = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&e, 1, sizeof *e, err));
    e->config = *config;
    e->state = state;
    e->limit = UINT64_MAX;
    e->origin_s = np_now_s();
    for (int i = 0; i < 2; i++)
        pthread_rwlock_init(&e->shared[i], NULL);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->feed, NULL);
    e->samples = (size_t)(recipe->batch / plan->micro_batches);
    e->slot_count = (size_t)(plan->window + plan->lookahead);
    NP_TRY(np_plan_sched_config(&sched, plan, config->net, err));
    NP_TRY(np_sched_new(&e->sched, &sched, err));
    if (plan->memories > 1)
        NP_TRY(transport_new(e, err));
    NP_TRY(slots_new(e, err));
    NP_TRY(np_plan_swaps(plan) ? find_room(e, err) : np_memory_check(plan, config->net, err));
    NP_TRY(stages_new(e, err));
    if (np_plan_apart(plan))
        NP_TRY(replicas_new(e, err));
    if (plan->device_bytes)
        NP_TRY(np_plan_swaps(plan) ? residence_new(e, err) : settle_layers(e, err));
    *out = e;
    e = NULL;
out:
    np_plan_sched_clear(&sched);
    np_engine_free(e);
    return status;
}

static void stamps_free(struct np_stamp **stamps, size_t count, struct np_crew *crew)
{
    for (size_t i = 0; stamps && i < count; i++)
        np_stamp_free(stamps[i], crew);
    free(stamps);
}

static void stage_clear(const struct np_engine *e, struct np_stage *stage)
{
    stamps_free(stage->stamps, e->stamp_count, stage->crew);
    stamps_free(stage->went, e->stamp_count, stage->carrier);
    np_stamp_free(stage->came, stage->carrier);
    np_crew_free(stage->carrier);
    free(stage->finite);
    free(stage->parts);
    np_crew_free(stage->crew);
    pthread_cond_destroy(&stage->wake);
}

/* What a stage's crews carry goes to other stages' memory, too. */
static void stages_clear(struct np_engine *e)
{
    int count = 0;
    while (e->stages && count < np_plan_devices(e->config.plan) && e->stages[count].engine)
        stage_clear(e, &e->stages[count++]);
    for (int d = 0; d < count; d++)
        np_arena_free(e->stages[d].arena);
}

void np_engine_free(struct np_engine *e)
{
    if (!e)
        return;
    np_link_settle(e->config.link);
    np_residence_free(e->residence);
    np_state_leave_arenas(e->state);
    stages_clear(e);
    for (int k = 0; e->makers && k < e->config.plan->stages; k++)
        np_crew_free(e->makers[k]);
    free(e->makers);
    np_mirrors_free(e->mirrors);
    np_replicas_free(e->replicas);
    np_transport_free(e->transport);
    for (size_t i = 0; e->slots && i < e->slot_count; i++) {
        free(e->slots[i].choices);
        free(e->slots[i].stages);
        free(e->slots[i].cells);
        free(e->slots[i].prints);
        free(e->slots[i].grain_loss);
    }
    free(e->slots);
    free(e->stages);
    free(e->blocks);
    free(e->losses);
    for (int d = 0; e->flights && d < np_plan_devices(e->config.plan); d++)
        np_flights_clear(&e->flights[d]);
    free(e->flights);
    free(e->room);
    free(e->layer_bytes);
    np_flight_layout_clear(&e->layout);
    np_sched_free(e->sched);
    pthread_cond_destroy(&e->feed);
    pthread_mutex_destroy(&e->lock);
    for (int i = 0; i < 2; i++)
        pthread_rwlock_destroy(&e->shared[i]);
    free(e);
}
