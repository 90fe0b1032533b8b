#include "exec/replicas.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define NO_VERSION UINT64_MAX

struct np_replicas {
    struct np_replicas_config config;
    const struct np_plan *plan;
    struct np_arena **arenas; /* [devices] or NULL */
    float **copy;             /* [replicas but the last][layers]: [versions][stride] */
    uint64_t *held;           /* [replicas but the last][held_count]: versions that copies are */
    size_t held_count;
};

static size_t others(const struct np_replicas *r)
{
    return (size_t)r->plan->replicas - 1;
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
    return &r->copy[(size_t)(device / r->plan->stages) * net_of(r)->layers + layer];
}

/* The stem's versions come first, then the head's; a candidate has one. */
static uint64_t *held_of(const struct np_replicas *r, int device, uint32_t layer, uint64_t version)
{
    uint32_t head = net_of(r)->layers - 1;
    size_t delay = (size_t)net_of(r)->recipe->delay;
    size_t first = layer == 0 ? 0 : layer == head ? delay : 2 * delay + layer - 1;
    return &r->held[(size_t)(device / r->plan->stages) * r->held_count + first +
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
    r->held_count = 2 * (size_t)net->recipe->delay + net->layers;
    NP_TRY(np_zalloc(&r->copy, others(r) * net->layers, sizeof(float *), err));
    NP_TRY(np_alloc(&r->held, others(r) * r->held_count, sizeof *r->held, err));
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

/* Frees the copies of a stage's layers on a device. */
static void free_copies(struct np_replicas *r, int device)
{
    const int *first = &r->plan->stage_first[device % r->plan->stages];
    const struct np_device *place = np_train_device(r->config.train, device);
    const uint32_t end = net_of(r)->layer_first[first[1]];
    for (uint32_t layer = net_of(r)->layer_first[first[0]]; layer < end; layer++)
        np_device_release(place, *copy_of(r, device, layer));
}

void np_replicas_free(struct np_replicas *r)
{
    if (!r)
        return;
    for (int device = 0; r->copy && !r->arenas && device < np_plan_home(r->plan, 0); device++)
        free_copies(r, device);
    free(r->arenas);
    free(r->copy);
    free(r->held);
    free(r);
}

void np_replicas_begin(struct np_replicas *r)
{
    for (size_t i = 0; i < others(r) * r->held_count; i++)
        r->held[i] = NO_VERSION;
}

static bool is_home(const struct np_replicas *r, int device)
{
    return device >= np_plan_home(r->plan, 0);
}

const float *np_replicas_weights(const struct np_replicas *r, int device, uint32_t layer,
                                 uint64_t version)
{
    if (is_home(r, device) || !stride_of(r, layer))
        return NULL;
    return *copy_of(r, device, layer) + version % versions_of(r, layer) * stride_of(r, layer);
}

bool np_replicas_lacks(const struct np_replicas *r, int device, uint32_t layer, uint64_t version)
{
    if (is_home(r, device) || !stride_of(r, layer))
        return false;
    return *held_of(r, device, layer, version) != version;
}

/* Room for all versions of a layer. */
static enum np_status take_copy(const struct np_replicas *r, int device, uint32_t layer,
                                struct np_error *err)
{
    float **copy = copy_of(r, device, layer);
    uint64_t bytes = versions_of(r, layer) * stride_of(r, layer) * sizeof(float);
    if (*copy)
        return NP_OK;
    if (r->arenas)
        return np_arena_take(r->arenas[device], copy, bytes, err);
    return np_device_alloc(np_train_device(r->config.train, device), copy, bytes, err);
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
    struct np_link_part part = {.from = np_state_weights(r->config.state, layer, version),
                                .bytes = stride_of(r, layer) * sizeof(float)};
    uint64_t *held = held_of(r, device, layer, version);
    enum np_status status;
    NP_TRY(take_copy(r, device, layer, err));
    part.to = *copy_of(r, device, layer) + version % versions_of(r, layer) * stride_of(r, layer);
    NP_TRY(carry(r, r->plan->replicas - 1, device, &part, crew, err));
    *held = version;
out:
    return status;
}

enum np_status np_replicas_take_over(const struct np_replicas *r, const struct np_task *task,
                                     int owner, uint32_t candidate, struct np_crew *crew,
                                     struct np_error *err)
{
    int share = r->plan->micro_batches / r->plan->replicas, replica = task->micro / share;
    int before = replica > 0 ? replica - 1 : r->plan->replicas - 1, stages = r->plan->stages;
    const struct np_flight_stage *stage = &r->config.layout->stage[task->stage];
    const struct np_flights *flights = r->config.flights;
    uint32_t layer = net_of(r)->layer_first[task->first] + candidate;
    struct np_link_part part;
    if (task->opens || task->micro % share != 0)
        return NP_OK;
    part.from = np_flights_sum(&flights[before * stages + task->stage], stage, task->first,
                               task->step, owner, candidate);
    part.to =
        np_flights_sum(&flights[task->device], stage, task->first, task->step, owner, candidate);
    part.bytes = np_supernet_kind(net_of(r), layer)->floats * sizeof(float);
    return carry(r, before, task->device, &part, crew, err);
}
