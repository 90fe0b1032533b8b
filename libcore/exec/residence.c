#include "exec/residence.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/copies.h"

/* --- life ----------------------------------------------------------------------------------- */

static enum np_status contexts_new(struct np_residence *r, struct np_error *err)
{
    const struct np_plan *plan = r->config.plan;
    struct np_contexts_config contexts = {.overhead = np_plan_task_ns(plan),
                                          .transfer = np_plan_transfer_ns(plan, r->net),
                                          .bytes = r->config.bytes,
                                          .room = r->config.room,
                                          .policy = r->config.policy};
    enum np_status status = np_plan_sched_config(&contexts.sched, plan, r->net, err);
    if (status != NP_OK)
        return status;
    status = np_contexts_new(&r->contexts, &contexts, err);
    np_plan_sched_clear(&contexts.sched);
    return status;
}

/* Stem and head, with their old versions, stay in their stage's arena. */
static enum np_status take_shared(struct np_residence *r, uint32_t layer, int stage,
                                  struct np_error *err)
{
    struct np_state *state = r->config.state;
    struct np_layer_state *l = &state->layers[layer];
    struct np_arena *arena = r->config.arenas[stage];
    uint64_t stride = np_state_stride(np_supernet_kind(r->net, layer)) * sizeof(float);
    uint64_t old = (uint64_t)np_supernet_old_count(state->net, layer) * stride;
    enum np_status status = NP_OK;
    if (!stride)
        return NP_OK;
    NP_TRY(np_arena_take(arena, &l->slab, np_state_slab_bytes(state, layer), err));
    if (old)
        NP_TRY(np_arena_take(arena, &l->old, old, err));
out:
    return status;
}

static bool is_home(const struct np_residence *r, int stage, uint32_t layer)
{
    const int *first = &r->config.plan->stage_first[stage];
    int position = np_supernet_position(r->net, layer);
    return position >= first[0] && position < first[1];
}

static enum np_status place_init(struct np_residence_stage *place, struct np_residence *r,
                                 int stage, struct np_error *err)
{
    enum np_status status;
    pthread_cond_init(&place->arrived, NULL);
    pthread_cond_init(&place->work, NULL);
    place->residence = r;
    place->stage = stage;
    place->context = np_contexts_all(r->contexts)[stage];
    place->crew = r->config.crews[stage];
    NP_TRY(np_zalloc(&place->used, r->net->layers, sizeof(struct np_stamp *), err));
    for (uint32_t l = 0; l < r->net->layers; l++)
        if (np_state_may_leave(r->config.state, l) &&
            (r->config.plan->reach || is_home(r, stage, l)))
            NP_TRY(np_stamp_new(&place->used[l], place->crew, err));
out:
    return status;
}

static void place_clear(struct np_residence_stage *place)
{
    np_copies_join(place);
    for (uint32_t l = 0; place->used && l < place->residence->net->layers; l++)
        np_stamp_free(place->used[l], place->crew);
    free(place->used);
    pthread_cond_destroy(&place->arrived);
    pthread_cond_destroy(&place->work);
}

static enum np_status stash_new(struct np_residence *r, struct np_error *err)
{
    uint64_t *bytes = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&bytes, r->net->layers, sizeof *bytes, err));
    for (uint32_t l = 0; l < r->net->layers; l++)
        if (np_state_may_leave(r->config.state, l))
            bytes[l] = np_state_slab_bytes(r->config.state, l);
    NP_TRY(np_stash_new(&r->stash, r->config.device, r->config.stash, bytes, r->net->layers, err));
    r->config.state->stash = r->stash;
    r->config.state->residence = r;
out:
    free(bytes);
    return status;
}

enum np_status np_residence_new(struct np_residence **out, const struct np_residence_config *config,
                                struct np_error *err)
{
    struct np_residence *r = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&r, 1, sizeof *r, err));
    r->config = *config;
    r->net = config->state->net;
    r->threads = config->stash || config->delay_seed || config->device->ops->apart;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->idle, NULL);
    NP_TRY(np_alloc(&r->arenas, (size_t)config->plan->stages, sizeof(struct np_arena *), err));
    memcpy(r->arenas, config->arenas, (size_t)config->plan->stages * sizeof(struct np_arena *));
    r->config.arenas = r->arenas;
    NP_TRY(contexts_new(r, err));
    NP_TRY(np_zalloc(&r->places, (size_t)config->plan->stages, sizeof *r->places, err));
    for (int k = 0; k < config->plan->stages; k++)
        NP_TRY(place_init(&r->places[k], r, k, err));
    NP_TRY(take_shared(r, 0, 0, err));
    NP_TRY(take_shared(r, r->net->layers - 1, config->plan->stages - 1, err));
    NP_TRY(stash_new(r, err));
    for (int k = 0; k < config->plan->stages && r->threads; k++)
        NP_TRY(np_copies_start(&r->places[k], err));
    *out = r;
    return NP_OK;
out:
    np_residence_free(r);
    return status;
}

void np_residence_free(struct np_residence *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->quit = true;
    for (int k = 0; r->places && k < r->config.plan->stages; k++)
        if (r->places[k].residence)
            pthread_cond_broadcast(&r->places[k].work);
    pthread_mutex_unlock(&r->lock);
    for (int k = 0; r->places && k < r->config.plan->stages && r->places[k].residence; k++)
        place_clear(&r->places[k]);
    for (uint32_t l = 0; l < r->net->layers; l++) /* the memory is the arenas' */
        if (np_supernet_kind(r->net, l)->floats)
            r->config.state->layers[l] = (struct np_layer_state){.slab = NULL};
    r->config.state->stash = NULL;
    r->config.state->residence = NULL;
    np_contexts_free(r->contexts);
    np_stash_free(r->stash);
    free(r->places);
    free(r->arenas);
    pthread_cond_destroy(&r->idle);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

void np_residence_begin(struct np_residence *r)
{
    const struct np_state *state = r->config.state;
    pthread_mutex_lock(&r->lock);
    for (int k = 0; k < r->config.plan->stages; k++) {
        const int *first = &r->config.plan->stage_first[k];
        uint32_t from = r->net->layer_first[first[0]], to = r->net->layer_first[first[1]];
        for (uint32_t l = from; !r->knows && l < to; l++) /* what a checkpoint has put there */
            if (np_state_may_leave(state, l) && np_layer_is_own(&state->layers[l]))
                np_context_stored(r->places[k].context, l);
    }
    r->knows = true;
    r->open = true;
    np_copies_begin(r, 0, r->config.plan->stages - 1);
    pthread_mutex_unlock(&r->lock);
}

enum np_status np_residence_end(struct np_residence *r, enum np_status before, struct np_error *err)
{
    enum np_status status;
    pthread_mutex_lock(&r->lock);
    r->open = false;
    while (r->busy > 0)
        pthread_cond_wait(&r->idle, &r->lock);
    status = r->status;
    pthread_mutex_unlock(&r->lock);
    if (before != NP_OK || status == NP_OK)
        return before;
    return np_fail(err, status, "%s", r->err.msg);
}

/* --- use ------------------------------------------------------------------------------------ */

enum np_status np_residence_push(struct np_residence *r, const uint16_t *choices,
                                 uint64_t incomplete, bool last, struct np_error *err)
{
    enum np_status status;
    pthread_mutex_lock(&r->lock);
    status = np_contexts_push(r->contexts, choices, incomplete, last, err);
    if (status == NP_OK)
        np_copies_begin(r, 0, r->config.plan->stages - 1);
    pthread_mutex_unlock(&r->lock);
    return status;
}

enum np_status np_residence_enter(struct np_residence *r, int stage, uint32_t layer, uint64_t step,
                                  enum np_context_pass pass, double *stall_s, struct np_error *err)
{
    struct np_residence_stage *place = &r->places[stage];
    enum np_status status;
    double waited;
    pthread_mutex_lock(&r->lock);
    if (!np_context_enter(place->context, layer, step, pass)) {
        double start = np_now_s();
        place->waits = true;
        place->wanted = layer;
        np_copies_around(place);
        while (r->status == NP_OK && !np_context_enter(place->context, layer, step, pass)) {
            if (r->threads || !np_copies_in_vain(place))
                pthread_cond_wait(&place->arrived, &r->lock);
            np_copies_around(place);
        }
        place->waits = false;
        waited = np_now_s() - start;
        place->stall_s += waited;
        if (stall_s)
            *stall_s += waited;
    }
    if (r->threads)
        np_copies_give(place);
    status = r->status;
    pthread_mutex_unlock(&r->lock);
    return status == NP_OK ? NP_OK : np_fail(err, status, "%s", r->err.msg);
}

void np_residence_leave(struct np_residence *r, int stage, uint32_t layer, bool updated)
{
    struct np_residence_stage *place = &r->places[stage];
    if (place->used[layer])
        np_crew_stamp(place->crew, place->used[layer]);
    pthread_mutex_lock(&r->lock);
    np_context_leave(place->context, layer, updated);
    np_copies_around(place);
    pthread_mutex_unlock(&r->lock);
}

struct np_residence_sums np_residence_sums(struct np_residence *r, int stage)
{
    struct np_residence_stage *place = &r->places[stage];
    pthread_mutex_lock(&r->lock);
    struct np_residence_sums sums = {.context = np_context_sums(place->context),
                                     .copy_s = place->copy_s,
                                     .stall_s = place->stall_s,
                                     .stash = np_stash_means(r->stash),
                                     .stash_bytes =
                                         np_stash_memory(r->stash) + np_stash_disk(r->stash)};
    pthread_mutex_unlock(&r->lock);
    return sums;
}
