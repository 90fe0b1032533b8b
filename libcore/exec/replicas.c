#include "exec/replicas.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "exec/step.h"
#include "exec/work.h"

#define NO_VERSION UINT64_MAX

_Static_assert(NP_MAX_STAGES <= UINT16_MAX, "replicas have 16 bits");

struct np_replicas {
    struct np_replicas_config config;
    const struct np_plan *plan;
    struct np_sched_share share;
    struct np_arena **arenas; /* [devices] or NULL */
    uint16_t *where;          /* [layers]: replicas that they are at home on */
    float **copy;             /* [replicas][layers]: [versions][stride] */
    float **room;             /* [replicas][layers]: slabs that are not in use */
    uint64_t *held;           /* [replicas][held_count]: versions that copies are */
    size_t held_count;
};

static size_t replicas_of(const struct np_replicas *r)
{
    return (size_t)r->plan->replicas;
}

static int replica_of(const struct np_replicas *r, int device)
{
    return device / r->plan->stages;
}

static const struct np_supernet *net_of(const struct np_replicas *r)
{
    return r->config.state->net;
}

/* How many versions of a layer a replica has. */
static uint64_t versions_of(const struct np_replicas *r, uint32_t layer)
{
    return 1 + (uint64_t)np_supernet_old_count(net_of(r), layer);
}

static size_t stride_of(const struct np_replicas *r, uint32_t layer)
{
    return np_state_stride(np_supernet_kind(net_of(r), layer));
}

static float **copy_of(const struct np_replicas *r, int device, uint32_t layer)
{
    return &r->copy[(size_t)replica_of(r, device) * net_of(r)->layers + layer];
}

static float **room_of(const struct np_replicas *r, int replica, uint32_t layer)
{
    return &r->room[(size_t)replica * net_of(r)->layers + layer];
}

/* The most versions that a layer may have. */
static size_t most_versions(const struct np_replicas *r)
{
    const struct np_recipe *recipe = net_of(r)->recipe;
    return recipe->shared_frozen ? 1 : (size_t)recipe->delay;
}

/* The stem's versions come first, then the head's; a candidate has one. */
static uint64_t *held_of(const struct np_replicas *r, int device, uint32_t layer, uint64_t version)
{
    uint32_t head = net_of(r)->layers - 1;
    size_t most = most_versions(r);
    size_t first = layer == 0 ? 0 : layer == head ? most : 2 * most + layer - 1;
    return &r->held[(size_t)replica_of(r, device) * r->held_count + first +
                    version % versions_of(r, layer)];
}

enum np_status np_replicas_new(struct np_replicas **out, const struct np_replicas_config *config,
                               struct np_error *err)
{
    const struct np_supernet *net = config->state->net;
    size_t devices = (size_t)np_plan_devices(config->train->plan);
    struct np_replicas *r = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&r, 1, sizeof *r, err));
    r->config = *config;
    r->plan = config->train->plan;
    r->share = np_plan_share(r->plan, net);
    r->held_count = 2 * most_versions(r) + net->layers;
    NP_TRY(np_zalloc(&r->where, net->layers, sizeof *r->where, err));
    NP_TRY(np_zalloc(&r->copy, replicas_of(r) * net->layers, sizeof(float *), err));
    NP_TRY(np_zalloc(&r->room, replicas_of(r) * net->layers, sizeof(float *), err));
    NP_TRY(np_alloc(&r->held, replicas_of(r) * r->held_count, sizeof *r->held, err));
    for (uint32_t layer = 0; layer < net->layers; layer++)
        r->where[layer] = (uint16_t)(r->plan->replicas - 1);
    if (config->arenas) {
        NP_TRY(np_alloc(&r->arenas, devices, sizeof(struct np_arena *), err));
        memcpy(r->arenas, config->arenas, devices * sizeof(struct np_arena *));
    }
    np_replicas_begin(r);
    *out = r;
    return NP_OK;
out:
    np_replicas_free(r);
    return status;
}

/* Frees copies of a stage's layers on a device, and room for them. */
static void free_layers(struct np_replicas *r, int device)
{
    const int *first = &r->plan->stage_first[device % r->plan->stages];
    const struct np_device *place = np_train_device(r->config.train, device);
    const uint32_t end = net_of(r)->layer_first[first[1]];
    for (uint32_t layer = net_of(r)->layer_first[first[0]]; layer < end; layer++) {
        np_device_release(place, *copy_of(r, device, layer));
        np_device_release(place, *room_of(r, replica_of(r, device), layer));
    }
}

void np_replicas_free(struct np_replicas *r)
{
    if (!r)
        return;
    for (int d = 0; r->copy && r->room && !r->arenas && d < np_plan_devices(r->plan); d++)
        free_layers(r, d);
    free(r->arenas);
    free(r->where);
    free(r->copy);
    free(r->room);
    free(r->held);
    free(r);
}

void np_replicas_begin(struct np_replicas *r)
{
    for (size_t i = 0; i < replicas_of(r) * r->held_count; i++)
        r->held[i] = NO_VERSION;
}

static bool is_home(const struct np_replicas *r, int device, uint32_t layer)
{
    return r->where[layer] == replica_of(r, device);
}

const float *np_replicas_weights(const struct np_replicas *r, int device, uint32_t layer,
                                 uint64_t version)
{
    if (is_home(r, device, layer) || !stride_of(r, layer))
        return NULL;
    return *copy_of(r, device, layer) + version % versions_of(r, layer) * stride_of(r, layer);
}

bool np_replicas_lacks(const struct np_replicas *r, int device, uint32_t layer, uint64_t version)
{
    if (is_home(r, device, layer) || !stride_of(r, layer))
        return false;
    return *held_of(r, device, layer, version) != version;
}

/* Memory of the device, if there is none yet. */
static enum np_status take(const struct np_replicas *r, int device, float **block, uint64_t bytes,
                           struct np_error *err)
{
    if (*block)
        return NP_OK;
    if (r->arenas)
        return np_arena_take(r->arenas[device], block, bytes, err);
    return np_device_alloc(np_train_device(r->config.train, device), block, bytes, err);
}

/* To the device, from the one of its stage in another replica. */
static enum np_status carry(const struct np_replicas *r, int replica, int device,
                            const struct np_link_part *part, struct np_crew *crew,
                            struct np_error *err)
{
    int from = replica * r->plan->stages + device % r->plan->stages;
    return np_link_carry(r->config.train->link, crew, np_plan_memory(r->plan, from),
                         np_plan_memory(r->plan, device), part, 1, err);
}

enum np_status np_replicas_bring(struct np_replicas *r, int device, uint32_t layer,
                                 uint64_t version, struct np_crew *crew, struct np_error *err)
{
    size_t stride = stride_of(r, layer);
    float **copy = copy_of(r, device, layer);
    struct np_link_part part = {.from = np_state_weights(r->config.state, layer, version),
                                .bytes = stride * sizeof(float)};
    enum np_status status;
    NP_TRY(take(r, device, copy, versions_of(r, layer) * part.bytes, err));
    part.to = *copy + version % versions_of(r, layer) * stride;
    NP_TRY(carry(r, r->where[layer], device, &part, crew, err));
    *held_of(r, device, layer, version) = version;
out:
    return status;
}

/* The replica that made the contribution before the task's. */
static int replica_before(const struct np_replicas *r, const struct np_task *task, uint32_t layer,
                          const uint16_t *choices)
{
    const struct np_supernet *net = net_of(r);
    int member = task->member;
    if (task->micro > 0)
        return np_sched_replica_of(&r->share, member, task->micro - 1);
    do
        member--;
    while (np_step_layer(net, choices + member * net->positions, task->first) != layer);
    return np_sched_replica_of(&r->share, member, r->plan->micro_batches - 1);
}

enum np_status np_replicas_take_sum(const struct np_replicas *r, const struct np_task *task,
                                    uint32_t layer, int owner, const uint16_t *choices,
                                    struct np_crew *crew, struct np_error *err)
{
    const struct np_supernet *net = net_of(r);
    const struct np_flight_stage *stage = &r->config.layout->stage[task->stage];
    uint32_t candidate = layer - net->layer_first[task->first];
    struct np_link_part part = {.bytes = np_supernet_kind(net, layer)->floats * sizeof(float)};
    int before;
    if (task->opens)
        return NP_OK;
    before = replica_before(r, task, layer, choices);
    if (before == replica_of(r, task->device))
        return NP_OK;
    part.from = np_flights_sum(&r->config.flights[before * r->plan->stages + task->stage], stage,
                               task->first, task->step, owner, candidate);
    part.to = np_flights_sum(&r->config.flights[task->device], stage, task->first, task->step,
                             owner, candidate);
    return carry(r, before, task->device, &part, crew, err);
}

enum np_status np_replicas_take_layer(struct np_replicas *r, int device, uint32_t layer,
                                      struct np_crew *crew, struct np_error *err)
{
    struct np_layer_state *l = &r->config.state->layers[layer];
    size_t stride = stride_of(r, layer);
    float **room = room_of(r, replica_of(r, device), layer);
    uint64_t bytes = np_state_slab_bytes(r->config.state, layer);
    struct np_link_part moments = {.from = l->slab + stride,
                                   .bytes = bytes - stride * sizeof(float)};
    enum np_status status = NP_OK;
    if (is_home(r, device, layer))
        return NP_OK;
    NP_TRY(take(r, device, room, bytes, err));
    moments.to = *room + stride;
    if (moments.bytes)
        NP_TRY(carry(r, r->where[layer], device, &moments, crew, err));
    np_work_copy(crew, r->config.train->kernels, *room,
                 np_replicas_weights(r, device, layer, l->updates), stride);
    *room_of(r, r->where[layer], layer) = l->slab;
    l->slab = *room;
    *room = NULL;
    r->where[layer] = (uint16_t)replica_of(r, device);
out:
    return status;
}
