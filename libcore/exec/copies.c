#include "exec/copies.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "exec/step.h"

static void fail(struct np_residence *r, enum np_status status, const struct np_error *err)
{
    if (r->status == NP_OK) {
        r->status = status;
        r->err = *err;
    }
    for (int k = 0; k < r->config.plan->stages; k++)
        pthread_cond_broadcast(&r->places[k].arrived);
}

/* A random pause of up to 0.5 ms: for tests of copies that come late and out of order. */
static void injected_delay(const struct np_residence *r, const struct np_copy *copy, uint64_t index)
{
    if (!r->config.delay_seed)
        return;
    struct np_draw_key key =
        np_draw_key(r->config.delay_seed, NP_DRAW_DELAY, 0xc0, (uint32_t)copy->kind, copy->layer);
    struct timespec pause = {0, (long)(np_draw(key, index, 0).w[0] % 500000)};
    nanosleep(&pause, NULL);
}

static enum np_status carry_out(struct np_residence_stage *place, const struct np_copy *copy,
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
    if (np_layer_is_own(l))
        return np_stash_send(r->stash, copy->layer, arena, slab, copy->kind == NP_COPY_WRITE, err);
    np_arena_give(arena, slab, bytes);
out:
    return status;
}

static void record_copy(struct np_residence_stage *place, int copier, const struct np_copy *copy,
                        double start_s, double end_s)
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
static bool next_copy(struct np_residence_stage *place, struct np_copy *copy)
{
    struct np_residence *r = place->residence;
    if (!r->open || r->status != NP_OK || !np_context_next(place->context, copy))
        return false;
    place->busy++;
    r->busy++;
    return true;
}

/* The copy is over, one way or the other. */
static void end_copy(struct np_residence_stage *place, const struct np_copy *copy,
                     enum np_status status, const struct np_error *err)
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
static bool copy_here(struct np_residence_stage *place)
{
    struct np_copy copy;
    bool any = false;
    while (next_copy(place, &copy)) {
        double start = np_now_s();
        struct np_error err;
        enum np_status status = carry_out(place, &copy, &err);
        record_copy(place, 0, &copy, start, np_now_s());
        end_copy(place, &copy, status, &err);
        any = true;
    }
    return any;
}

bool np_copies_in_vain(struct np_residence_stage *place)
{
    struct np_error err;
    enum np_status status;
    if (!place->waits || place->busy > 0 || np_context_may_wait(place->context, place->wanted))
        return false;
    status = np_fail(&err, NP_EIO, "stage %d waits for a layer that nobody brings (a bug)",
                     place->stage);
    fail(place->residence, status, &err);
    return true;
}

/* Only who is given a copy is woken: most of what happens to a stage's layers lets no copy begin,
 * and waking a thread for nothing costs as much as a small layer takes. */
void np_copies_give(struct np_residence_stage *place)
{
    while (place->idle > 0 && next_copy(place, &place->given[place->given_count])) {
        place->given_count++;
        place->idle--;
        pthread_cond_signal(&place->work);
    }
    np_copies_in_vain(place);
}

void np_copies_begin(struct np_residence *r, int first, int last)
{
    int stages = r->config.plan->stages, beside = r->config.plan->reach ? 2 : 0;
    int k = first < 0 ? 0 : first;
    while (k <= last && k < stages) {
        if (r->threads) {
            np_copies_give(&r->places[k++]);
        } else if (!copy_here(&r->places[k])) {
            k++;
        } else { /* which those beside it may have waited for */
            last = last < k + beside ? k + beside : last;
            k = k < beside ? 0 : k - beside;
        }
    }
}

void np_copies_around(struct np_residence_stage *place)
{
    int beside = place->residence->config.plan->reach ? 2 : 0;
    np_copies_begin(place->residence, place->stage - beside, place->stage + beside);
}

/* Runs one copy; the lock is held on entry and on return. */
static void run_copy(struct np_residence_stage *place, int copier, const struct np_copy *copy)
{
    struct np_residence *r = place->residence;
    uint64_t index = r->copies++;
    enum np_status status;
    struct np_error err;
    double start, end;
    pthread_mutex_unlock(&r->lock);
    start = np_now_s();
    injected_delay(r, copy, index);
    status = carry_out(place, copy, &err);
    end = np_now_s();
    pthread_mutex_lock(&r->lock);
    record_copy(place, copier, copy, start, end);
    end_copy(place, copy, status, &err);
    np_copies_around(place);
    if (r->busy == 0)
        pthread_cond_broadcast(&r->idle);
}

/* An idle copier waits until it is given a copy; false: there will be none. */
static bool await_copy(struct np_residence_stage *place, struct np_copy *copy)
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
    struct np_copier *copier = argument;
    struct np_residence_stage *place = copier->place;
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

enum np_status np_copies_start(struct np_residence_stage *place, struct np_error *err)
{
    for (; place->started < NP_COPIERS; place->started++) {
        struct np_copier *copier = &place->copiers[place->started];
        copier->place = place;
        errno = pthread_create(&copier->thread, NULL, copier_main, copier);
        if (errno)
            return np_fail_errno(err, "cannot start a copy thread of stage %d", place->stage);
        place->idle++;
    }
    return NP_OK;
}

void np_copies_join(struct np_residence_stage *place)
{
    for (int i = 0; i < place->started; i++)
        pthread_join(place->copiers[i].thread, NULL);
}
