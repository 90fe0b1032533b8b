#include "exec/residence.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "exec/step.h"
#include "sched/contexts.h"

struct copier {
    struct place *place;
    pthread_t thread;
};

struct place {
    struct np_residence *residence;
    int stage;
    struct np_context *context;
    struct np_crew *crew;
    struct np_stamp **used; /* [layers]: what the crew has been told of each, as far as it may */
    pthread_cond_t arrived; /* the stage waits for a layer */
    pthread_cond_t work;    /* copiers wait for something to do */
    struct copier copiers[NP_COPIERS];
    int started, idle;                /* copiers; those that wait, less what they are given */
    struct np_copy given[NP_COPIERS]; /* copies that idle copiers take up, the last one first */
    int given_count;
    int busy;   /* copies that have begun, given ones too */
    bool waits; /* a task, for layer `wanted` */
    uint32_t wanted;
    double copy_s, stall_s;
};

struct np_residence {
    struct np_residence_config
        config; /* arenas: a copy; crews, room, bytes are not looked at again */
    struct np_arena **arenas;
    const struct np_supernet *net;
    struct np_stash *stash;
    struct np_contexts *contexts;
    struct place *places;
    pthread_mutex_t lock;
    pthread_cond_t idle; /* no copy is under way */
    int busy;
    bool threads; /* copiers are; else copies are carried out by whoever lets them begin */
    bool open, quit, knows;
    uint64_t copies; /* started so far */
    enum np_status status;
    struct np_error err;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(struct np_residence *r, enum np_status status, const struct np_error *err)
{
    if (r->status == NP_OK) {
        r->status = status;
        r->err = *err;
    }
    for (int k = 0; k < r->config.plan->stages; k++)
        pthread_cond_broadcast(&r->places[k].arrived);
}

/* --- copies --------------------------------------------------------------------------------- */

/* A random pause of up to 2 ms: for tests of copies that come late and out of order. */
static void injected_delay(const struct np_residence *r, const struct np_copy *copy, uint64_t index)
{
    if (!r->config.delay_seed)
        return;
    struct np_draw_key key =
        np_draw_key(r->config.delay_seed, NP_DRAW_DELAY, 0xc0, (uint32_t)copy->kind, copy->layer);
    struct timespec pause = {0, (long)(np_draw(key, index, 0).w[0] % 2000000)};
    nanosleep(&pause, NULL);
}

static enum np_status carry_out(struct place *place, const struct np_copy *copy,
                                struct np_error *err)
{
    struct np_residence *r = place->residence;
    struct np_layer_state *l = &r->config.state->layers[copy->layer];
    struct np_arena *arena = r->arenas[place->stage];
    uint64_t bytes = np_state_slab_bytes(r->config.state, copy->layer);
    float *slab = l->slab;
    enum np_status status;
    switch (copy->kind) {
    case NP_COPY_MAKE:
        return np_arena_take(arena, &l->slab, bytes, err);
    case NP_COPY_FETCH:
        l->made = true;
        return np_stash_bring(r->stash, copy->layer, arena, &l->slab, err);
    case NP_COPY_WRITE:
    case NP_COPY_DROP:
        break;
    }
    NP_TRY(np_stamp_await(place->crew, place->used[copy->layer], err));
    l->slab = NULL;
    l->made = false;
    if (l->updates)
        return np_stash_send(r->stash, copy->layer, arena, slab, copy->kind == NP_COPY_WRITE, err);
    np_arena_give(arena, slab, bytes);
out:
    return status;
}

static void record_copy(struct place *place, int copier, const struct np_copy *copy, double start_s,
                        double end_s)
{
    const struct np_residence_config *c = &place->residence->config;
    struct np_copy_span span = {.copy = *copy,
                                .stage = place->stage,
                                .copier = copier,
                                .bytes = np_context_bytes(place->context, copy->layer),
                                .start = (start_s - c->origin_s) * 1e9,
                                .end = (end_s - c->origin_s) * 1e9};
    place->copy_s += end_s - start_s;
    if (c->trace)
        np_trace_add_copy(c->trace, &span, NULL);
}

/* The stage's next copy, which begins now. */
static bool next_copy(struct place *place, struct np_copy *copy)
{
    struct np_residence *r = place->residence;
    if (!r->open || r->status != NP_OK || !np_context_next(place->context, copy))
        return false;
    place->busy++;
    r->busy++;
    return true;
}

/* The copy is over, one way or the other. */
static void end_copy(struct place *place, const struct np_copy *copy, enum np_status status,
                     const struct np_error *err)
{
    struct np_residence *r = place->residence;
    place->busy--;
    r->busy--;
    if (status == NP_OK)
        np_context_copied(place->context, copy);
    else
        fail(r, status, err);
    pthread_cond_broadcast(&place->arrived);
}

/* Carries out all copies that the stage may begin; true if there were any. */
static bool copy_here(struct place *place)
{
    struct np_copy copy;
    bool any = false;
    while (next_copy(place, &copy)) {
        double start = now_s();
        struct np_error err;
        enum np_status status = carry_out(place, &copy, &err);
        record_copy(place, 0, &copy, start, now_s());
        end_copy(place, &copy, status, &err);
        any = true;
    }
    return any;
}

/* A task waits for a layer that nobody copies, here or elsewhere: a bug, said at once. */
static bool waits_in_vain(const struct place *place)
{
    return place->waits && place->busy == 0 && !np_context_may_wait(place->context, place->wanted);
}

static void fail_in_vain(struct place *place)
{
    struct np_error err;
    enum np_status status = np_fail(
        &err, NP_EIO, "stage %d waits for a layer that nobody brings (a bug)", place->stage);
    fail(place->residence, status, &err);
}

/* Gives idle copiers what they may begin. Only then are they woken: most of what happens to a
 * stage's layers lets no copy begin, and waking a thread for nothing costs as much as a small layer
 * takes. */
static void give_copies(struct place *place)
{
    while (place->idle > 0 && next_copy(place, &place->given[place->given_count])) {
        place->given_count++;
        place->idle--;
        pthread_cond_signal(&place->work);
    }
    if (waits_in_vain(place))
        fail_in_vain(place);
}

/* Copies may begin at the stages first .. last: they do, or idle copiers take them up. What is
 * copied at one stage may let a copy begin at those beside it that share its layers. */
static void begin_copies(struct np_residence *r, int first, int last)
{
    int stages = r->config.plan->stages, beside = r->config.plan->reach ? 2 : 0;
    for (int k = first < 0 ? 0 : first; k <= last && k < stages; k++) {
        if (r->threads) {
            give_copies(&r->places[k]);
        } else if (copy_here(&r->places[k]) && beside) {
            last = last < k + beside ? k + beside : last;
            k = k > beside ? k - beside - 1 : -1;
        }
    }
}

/* Something has changed for the stage's layers, and for those beside it that share them. */
static void look_around(struct place *place)
{
    int beside = place->residence->config.plan->reach ? 2 : 0;
    begin_copies(place->residence, place->stage - beside, place->stage + beside);
}

/* Runs one copy; the lock is held on entry and on return. */
static void run_copy(struct place *place, int copier, const struct np_copy *copy)
{
    struct np_residence *r = place->residence;
    uint64_t index = r->copies++;
    enum np_status status;
    struct np_error err;
    double start, end;
    pthread_mutex_unlock(&r->lock);
    start = now_s();
    injected_delay(r, copy, index);
    status = carry_out(place, copy, &err);
    end = now_s();
    pthread_mutex_lock(&r->lock);
    record_copy(place, copier, copy, start, end);
    end_copy(place, copy, status, &err);
    look_around(place);
    if (r->busy == 0)
        pthread_cond_broadcast(&r->idle);
}

/* An idle copier waits until it is given a copy; false: there will be none. */
static bool await_copy(struct place *place, struct np_copy *copy)
{
    while (place->given_count == 0 && !place->residence->quit)
        pthread_cond_wait(&place->work, &place->residence->lock);
    if (place->given_count == 0)
        return false;
    *copy = place->given[--place->given_count];
    return true;
}

static void *copier_main(void *argument)
{
    struct copier *copier = argument;
    struct place *place = copier->place;
    struct np_residence *r = place->residence;
    struct np_copy copy;
    pthread_mutex_lock(&r->lock);
    while (await_copy(place, &copy)) {
        do
            run_copy(place, (int)(copier - place->copiers), &copy);
        while (next_copy(place, &copy));
        place->idle++;
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* --- life ----------------------------------------------------------------------------------- */

static enum np_status contexts_new(struct np_residence *r, struct np_error *err)
{
    struct np_contexts_config contexts = {.overhead = NP_PLAN_TASK_NS,
                                          .transfer = NP_PLAN_TRANSFER_NS,
                                          .bytes = r->config.bytes,
                                          .room = r->config.room,
                                          .policy = r->config.policy};
    enum np_status status = np_plan_sched_config(&contexts.sched, r->config.plan, r->net, err);
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
    uint64_t old = (uint64_t)np_state_old_count(state, layer) * stride;
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

static enum np_status place_init(struct place *place, struct np_residence *r, int stage,
                                 struct np_error *err)
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

static void place_clear(struct place *place)
{
    for (int i = 0; i < place->started; i++)
        pthread_join(place->copiers[i].thread, NULL);
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
    NP_TRY(np_stash_new_beside(&r->stash, r->config.device, r->config.stash, bytes, r->net->layers,
                               err));
    r->config.state->stash = r->stash;
    r->config.state->residence = r;
out:
    free(bytes);
    return status;
}

static enum np_status start_copiers(struct place *place, struct np_error *err)
{
    for (; place->started < NP_COPIERS; place->started++) {
        struct copier *copier = &place->copiers[place->started];
        copier->place = place;
        errno = pthread_create(&copier->thread, NULL, copier_main, copier);
        if (errno)
            return np_fail_errno(err, "cannot start a copy thread of stage %d", place->stage);
        place->idle++;
    }
    return NP_OK;
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
        NP_TRY(start_copiers(&r->places[k], err));
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
            if (np_state_may_leave(state, l) && state->layers[l].updates)
                np_context_stored(r->places[k].context, l);
    }
    r->knows = true;
    r->open = true;
    begin_copies(r, 0, r->config.plan->stages - 1);
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
        begin_copies(r, 0, r->config.plan->stages - 1);
    pthread_mutex_unlock(&r->lock);
    return status;
}

enum np_status np_residence_enter(struct np_residence *r, int stage, uint32_t layer, uint64_t step,
                                  enum np_context_pass pass, double *stall_s, struct np_error *err)
{
    struct place *place = &r->places[stage];
    enum np_status status;
    double waited;
    pthread_mutex_lock(&r->lock);
    if (!np_context_enter(place->context, layer, step, pass)) {
        double start = now_s();
        place->waits = true;
        place->wanted = layer;
        look_around(place);
        while (r->status == NP_OK && !np_context_enter(place->context, layer, step, pass)) {
            if (!r->threads && waits_in_vain(place))
                fail_in_vain(place);
            else
                pthread_cond_wait(&place->arrived, &r->lock);
            look_around(place);
        }
        place->waits = false;
        waited = now_s() - start;
        place->stall_s += waited;
        if (stall_s)
            *stall_s += waited;
    }
    if (r->threads)
        give_copies(place);
    status = r->status;
    pthread_mutex_unlock(&r->lock);
    return status == NP_OK ? NP_OK : np_fail(err, status, "%s", r->err.msg);
}

void np_residence_leave(struct np_residence *r, int stage, uint32_t layer, bool updated)
{
    struct place *place = &r->places[stage];
    if (place->used[layer])
        np_crew_stamp(place->crew, place->used[layer]);
    pthread_mutex_lock(&r->lock);
    np_context_leave(place->context, layer, updated);
    look_around(place);
    pthread_mutex_unlock(&r->lock);
}

struct np_residence_sums np_residence_sums(struct np_residence *r, int stage)
{
    struct place *place = &r->places[stage];
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
