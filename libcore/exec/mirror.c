#include "exec/mirror.h"

#include <stdlib.h>

#include "base/memory.h"

struct np_mirrors {
    const struct np_train_config *config;
    struct np_state *state;
    struct np_transport *transport;
    uint8_t *where; /* [layers]: memories */
    float **room;   /* [layers][memories]: slabs there that are not in use */
};

static struct np_layer_state *layer_of(const struct np_mirrors *m, uint32_t layer)
{
    return &m->state->layers[layer];
}

static float **room_of(const struct np_mirrors *m, uint32_t layer, int memory)
{
    return &m->room[(size_t)layer * (size_t)m->config->plan->memories + (size_t)memory];
}

enum np_status np_mirrors_new(struct np_mirrors **out, const struct np_train_config *config,
                              struct np_state *state, struct np_transport *transport,
                              struct np_error *err)
{
    const struct np_supernet *net = config->net;
    const struct np_plan *plan = config->plan;
    size_t rooms = (size_t)net->layers * (size_t)plan->memories;
    struct np_mirrors *m = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&m, 1, sizeof *m, err));
    m->config = config;
    m->state = state;
    m->transport = transport;
    NP_TRY(np_zalloc(&m->where, net->layers, sizeof *m->where, err));
    NP_TRY(np_zalloc(&m->room, rooms, sizeof *m->room, err));
    for (int k = 0; k < plan->stages; k++) {
        uint32_t first = net->layer_first[plan->stage_first[k]];
        uint32_t end = net->layer_first[plan->stage_first[k + 1]];
        for (uint32_t layer = first; layer < end; layer++)
            m->where[layer] = (uint8_t)np_plan_memory(plan, k);
    }
    *out = m;
    return NP_OK;
out:
    np_mirrors_free(m);
    return status;
}

void np_mirrors_free(struct np_mirrors *m)
{
    if (!m)
        return;
    for (uint32_t layer = 0; m->room && layer < m->config->net->layers; layer++)
        for (int i = 0; i < m->config->plan->memories; i++)
            np_device_release(&m->config->devices[i], *room_of(m, layer, i));
    free(m->room);
    free(m->where);
    free(m);
}

static struct np_message message_of(const struct np_mirrors *m, uint32_t layer, int to)
{
    return (struct np_message){.cargo = NP_CARGO_LAYER,
                               .from = m->where[layer],
                               .to = to,
                               .flight = layer_of(m, layer)->updates,
                               .number = layer};
}

void np_mirrors_send(struct np_mirrors *m, uint32_t layer)
{
    struct np_cargo_part part = {layer_of(m, layer)->slab, np_state_slab_bytes(m->state, layer)};
    struct np_message message = message_of(m, layer, m->where[layer]);
    if (np_state_may_leave(m->state, layer))
        np_transport_post(m->transport, NP_SENDS, &message, &part, 1);
}

void np_mirrors_begin(struct np_mirrors *m)
{
    for (uint32_t layer = 0; layer < m->config->net->layers; layer++)
        if (layer_of(m, layer)->slab)
            np_mirrors_send(m, layer);
}

enum np_status np_mirrors_bring(struct np_mirrors *m, int stage, uint32_t layer,
                                struct np_crew *crew, struct np_error *err)
{
    const struct np_plan *plan = m->config->plan;
    struct np_layer_state *l = layer_of(m, layer);
    int memory = np_plan_memory(plan, stage);
    struct np_cargo_part part = {NULL, np_state_slab_bytes(m->state, layer)};
    enum np_status status = NP_OK;
    if (memory == m->where[layer] || !np_state_may_leave(m->state, layer))
        return NP_OK;
    struct np_message message = message_of(m, layer, memory);
    float **room = room_of(m, layer, memory);
    if (!*room)
        NP_TRY(np_device_alloc(&m->config->devices[memory], room, part.bytes, err));
    part.at = *room;
    if (l->slab)
        NP_TRY(np_transport_carry(m->transport, NP_RECEIVES, &message, &part, 1,
                                  (struct np_carrier){crew, NULL}, err));
    *room_of(m, layer, m->where[layer]) = l->slab;
    *room = NULL;
    l->slab = part.at;
    m->where[layer] = (uint8_t)memory;
out:
    return status;
}
