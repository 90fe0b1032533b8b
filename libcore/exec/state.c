#include "exec/state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum np_status np_state_new(struct np_state **out, const struct np_supernet *net,
                            struct np_error *err)
{
    struct np_state *state = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&state, 1, sizeof *state, err));
    state->net = net;
    NP_TRY(np_zalloc(&state->layers, net->layers, sizeof *state->layers, err));
    *out = state;
    return NP_OK;
out:
    np_state_free(state);
    return status;
}

void np_state_free(struct np_state *state)
{
    if (!state)
        return;
    for (uint32_t layer = 0; state->layers && layer < state->net->layers; layer++) {
        const struct np_device *home = np_state_home(state, layer);
        np_device_release(home, state->layers[layer].slab);
        np_device_release(home, state->layers[layer].old);
    }
    free(state->layers);
    free(state->homes);
    free(state);
}

size_t np_state_stride(const struct np_kind *kind)
{
    return np_lines(kind->floats);
}

uint64_t np_state_slab_bytes(const struct np_state *state, uint32_t layer)
{
    size_t stride = np_state_stride(np_supernet_kind(state->net, layer));
    return (1 + (uint64_t)state->net->moments) * stride * sizeof(float);
}

bool np_state_may_leave(const struct np_state *state, uint32_t layer)
{
    return layer > 0 && layer < state->net->layers - 1 &&
           np_supernet_kind(state->net, layer)->floats > 0;
}

const struct np_device *np_state_home(const struct np_state *state, uint32_t layer)
{
    return state->homes ? state->homes[np_supernet_position(state->net, layer)] : &np_device_host;
}

enum np_status np_state_use_arenas(struct np_state *state, struct np_arena *const *arenas,
                                   struct np_error *err)
{
    size_t positions = (size_t)state->net->positions;
    enum np_status status = np_alloc(&state->arenas, positions, sizeof(struct np_arena *), err);
    if (status == NP_OK)
        memcpy(state->arenas, arenas, positions * sizeof(struct np_arena *));
    return status;
}

void np_state_leave_arenas(struct np_state *state)
{
    if (!state->arenas)
        return;
    for (uint32_t layer = 0; layer < state->net->layers; layer++)
        if (np_supernet_kind(state->net, layer)->floats)
            state->layers[layer] = (struct np_layer_state){.slab = NULL};
    free(state->arenas);
    state->arenas = NULL;
}

static struct np_arena *arena_of(const struct np_state *state, uint32_t layer)
{
    return state->arenas ? state->arenas[np_supernet_position(state->net, layer)] : NULL;
}

static enum np_status take_block(const struct np_state *state, uint32_t layer, float **block,
                                 uint64_t bytes, struct np_error *err)
{
    struct np_arena *arena = arena_of(state, layer);
    if (arena)
        return np_arena_take(arena, block, bytes, err);
    return np_device_alloc(np_state_home(state, layer), block, bytes, err);
}

static void give_block(const struct np_state *state, uint32_t layer, float *block, uint64_t bytes)
{
    struct np_arena *arena = arena_of(state, layer);
    if (arena)
        np_arena_give(arena, block, bytes);
    else
        np_device_release(np_state_home(state, layer), block);
}

enum np_status np_state_take(struct np_state *state, uint32_t layer, struct np_error *err)
{
    struct np_layer_state *l = &state->layers[layer];
    uint64_t bytes = np_state_slab_bytes(state, layer);
    uint64_t stride = np_state_stride(np_supernet_kind(state->net, layer)) * sizeof(float);
    uint64_t old = (uint64_t)np_supernet_old_count(state->net, layer);
    float *slab = NULL;
    enum np_status status;
    if (l->slab || !stride)
        return NP_OK;
    NP_TRY(take_block(state, layer, &slab, bytes, err));
    if (old)
        NP_TRY(take_block(state, layer, &l->old, old * stride, err));
    l->slab = slab;
    return NP_OK;
out:
    give_block(state, layer, slab, bytes);
    return status;
}

void np_state_ready(struct np_state *state, const struct np_kernels *kernels, struct np_team *team,
                    uint32_t layer)
{
    struct np_layer_state *l = &state->layers[layer];
    const struct np_kind *kind = np_supernet_kind(state->net, layer);
    size_t stride = np_state_stride(kind);
    if (l->made || !kind->floats)
        return;
    np_weights_init(kernels, team, l->slab, kind, state->net->recipe->seed, layer);
    if (state->net->moments)
        kernels->fill(team, l->slab + stride, (size_t)state->net->moments * stride, 0.0f);
    np_team_wait(team);
    if (team->rank == 0)
        l->made = true;
}

/* The slot of an old version: a layer keeps as many as np_supernet_old_count. */
static float *old_version(const struct np_state *state, uint32_t layer, uint64_t version)
{
    size_t stride = np_state_stride(np_supernet_kind(state->net, layer));
    uint64_t count = (uint64_t)np_supernet_old_count(state->net, layer);
    return state->layers[layer].old + version % count * stride;
}

const float *np_state_weights(const struct np_state *state, uint32_t layer, uint64_t version)
{
    const struct np_layer_state *l = &state->layers[layer];
    if (version == l->updates)
        return l->slab;
    assert(version < l->updates &&
           l->updates - version <= (uint64_t)np_supernet_old_count(state->net, layer));
    return old_version(state, layer, version);
}

bool np_state_update(struct np_state *state, const struct np_kernels *kernels, struct np_team *team,
                     uint32_t layer, const float *g, float lr, float *agreed,
                     struct np_update_report *report)
{
    struct np_layer_state *l = &state->layers[layer];
    const struct np_kind *kind = np_supernet_kind(state->net, layer);
    size_t stride = np_state_stride(kind);
    struct np_weights_update update = {.w = l->slab,
                                       .m = state->net->moments > 0 ? l->slab + stride : NULL,
                                       .v = state->net->moments > 1 ? l->slab + 2 * stride : NULL,
                                       .g = g,
                                       .kind = kind,
                                       .layer = layer,
                                       .updates = l->updates,
                                       .lr = lr,
                                       .agreed = agreed,
                                       .square = &report->square};
    if (np_supernet_old_count(state->net, layer) > 0) {
        kernels->copy(team, old_version(state, layer, l->updates), l->slab, kind->floats);
        np_team_wait(team);
    }
    bool finite =
        np_weights_update(kernels, team, state->net->recipe, &update, report->prints + team->rank);
    if (finite && team->rank == 0)
        l->updates++;
    np_team_wait(team);
    return finite;
}
