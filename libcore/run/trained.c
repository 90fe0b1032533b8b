#include "run/trained.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"
#include "exec/state_stream.h"
#include "io/store.h"
#include "run/manifest_check.h"
#include "run/run_recipe.h"

struct np_trained {
    struct np_supernet net; /* borrows all that the given one has */
    int moments;            /* that objects have beside weights */
    struct np_state *state;
    struct np_manifest manifest;
    struct np_digest digest;                  /* its own */
    const struct np_manifest_entry **entries; /* [layers]; NULL: it was never trained */
    struct np_store store;
    uint64_t limit, bytes; /* of layers that are there; limit 0: none */
    struct use *use;       /* [layers + 1]: the last is the ring of those that nobody uses */
    bool (*stop)(void *context);
    void *context;
    pthread_mutex_t lock;
};

/* A layer's place among those that are there and that nobody uses: a ring, in the order in which
 * they were used. */
struct use {
    uint32_t users, before, after; /* before and after itself: not in the ring */
};

/* An object on its way: the weights come first. */
struct passage {
    struct np_state_stream stream;
    size_t rest; /* floats of them that are still to come */
    uint64_t updates;
};

static enum np_status keep_weights(void *context, const void *piece, size_t n, struct np_error *err)
{
    struct passage *p = context;
    size_t floats = n / sizeof(float);
    floats = floats < p->rest ? floats : p->rest;
    p->rest -= floats;
    return floats ? np_state_write(&p->stream, piece, floats, p->updates, err) : NP_OK;
}

static enum np_status read_layer(struct np_trained *t, uint32_t layer, struct np_error *err)
{
    const struct np_manifest_entry *entry = t->entries[layer];
    size_t floats = np_supernet_kind(&t->net, layer)->floats;
    struct passage p = {np_state_stream(t->state, layer, NULL, 0), floats, entry->updates};
    enum np_status status =
        np_store_get_into(&t->store, &entry->digest, (struct np_store_sink){keep_weights, &p},
                          (1 + (uint64_t)t->moments) * floats * sizeof(float), err);
    if (status != NP_OK) /* what came is not to be used by those who ask next */
        t->state->layers[layer].made = false;
    return status;
}

/* Version 0, made on the host. */
static enum np_status make_layer(struct np_trained *t, uint32_t layer, struct np_error *err)
{
    const struct np_kind *kind = np_supernet_kind(&t->net, layer);
    struct np_state_stream stream = np_state_stream(t->state, layer, NULL, 0);
    struct np_team alone = {.size = 1};
    float *values;
    enum np_status status;
    NP_TRY(np_alloc(&values, kind->floats, sizeof *values, err));
    np_weights_init(np_kernels_best(), &alone, values, kind, t->net.recipe->seed, layer);
    status = np_state_write(&stream, values, kind->floats, 0, err);
    free(values);
out:
    return status;
}

/* --- which layers are there ------------------------------------------------------------------- */

/* Puts a layer behind another one in the ring. */
static void link_behind(struct np_trained *t, uint32_t layer, uint32_t other)
{
    struct use *use = t->use;
    use[layer].before = other;
    use[layer].after = use[other].after;
    use[use[other].after].before = layer;
    use[other].after = layer;
}

static void unlink_layer(struct np_trained *t, uint32_t layer)
{
    struct use *use = t->use;
    use[use[layer].before].after = use[layer].after;
    use[use[layer].after].before = use[layer].before;
    use[layer].before = use[layer].after = layer;
}

static void drop(struct np_trained *t, uint32_t layer)
{
    struct np_layer_state *l = &t->state->layers[layer];
    const struct np_device *home = np_state_home(t->state, layer);
    if (l->made)
        t->bytes -= np_state_slab_bytes(t->state, layer);
    np_device_release(home, l->slab);
    np_device_release(home, l->old);
    *l = (struct np_layer_state){.slab = NULL};
}

/* Drops what was used longest ago, until `more` bytes are allowed or nothing is left to drop. */
static void make_room(struct np_trained *t, uint64_t more)
{
    uint32_t ring = t->net.layers, last;
    while (t->limit && t->bytes + more > t->limit && (last = t->use[ring].before) != ring) {
        unlink_layer(t, last);
        drop(t, last);
    }
}

static enum np_status bring_layer(struct np_trained *t, uint32_t layer, struct np_error *err)
{
    uint64_t bytes = np_state_slab_bytes(t->state, layer);
    enum np_status status = NP_OK;
    if (t->state->layers[layer].made || !np_supernet_kind(&t->net, layer)->floats)
        return NP_OK;
    make_room(t, bytes);
    NP_TRY(t->entries[layer] ? read_layer(t, layer, err) : make_layer(t, layer, err));
    t->bytes += bytes;
out:
    return status;
}

enum np_status np_trained_bring_layer(struct np_trained *t, uint32_t layer, struct np_error *err)
{
    enum np_status status;
    pthread_mutex_lock(&t->lock);
    status = bring_layer(t, layer, err);
    pthread_mutex_unlock(&t->lock);
    return status;
}

static uint32_t chosen(const struct np_trained *t, const uint16_t *choices, int position)
{
    return t->net.layer_whole[np_supernet_chosen(&t->net, choices, position)];
}

/* Of the first `count` positions. */
static void leave(struct np_trained *t, const uint16_t *choices, int count)
{
    pthread_mutex_lock(&t->lock);
    for (int p = 0; p < count; p++) {
        uint32_t layer = chosen(t, choices, p);
        if (--t->use[layer].users == 0)
            link_behind(t, layer, t->net.layers);
    }
    make_room(t, 0);
    pthread_mutex_unlock(&t->lock);
}

/* Layers are brought one by one, so that others may be brought in between. */
enum np_status np_trained_bring(struct np_trained *t, const uint16_t *choices, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int p = 0; p < t->net.positions; p++) {
        uint32_t layer = chosen(t, choices, p);
        bool stops = t->stop && t->stop(t->context);
        pthread_mutex_lock(&t->lock);
        status = stops ? np_fail(err, NP_ESTOP, "stopped on request") : bring_layer(t, layer, err);
        if (status == NP_OK && t->use[layer].users++ == 0)
            unlink_layer(t, layer);
        pthread_mutex_unlock(&t->lock);
        if (status != NP_OK) {
            leave(t, choices, p);
            break;
        }
    }
    return status;
}

void np_trained_leave(struct np_trained *t, const uint16_t *choices)
{
    leave(t, choices, t->net.positions);
}

void np_trained_forget(struct np_trained *t, uint32_t layer)
{
    drop(t, layer);
}

void np_trained_limit(struct np_trained *t, uint64_t bytes)
{
    t->limit = bytes;
}

void np_trained_give_up(struct np_trained *t, bool (*stop)(void *), void *context)
{
    t->stop = stop;
    t->context = context;
}

uint64_t np_trained_bytes(struct np_trained *t)
{
    uint64_t bytes;
    pthread_mutex_lock(&t->lock);
    bytes = t->bytes;
    pthread_mutex_unlock(&t->lock);
    return bytes;
}

/* --- life ------------------------------------------------------------------------------------- */

/* The step of the checkpoint that is asked for. */
static enum np_status find(uint64_t *step, const char *run, struct np_error *err)
{
    uint64_t *steps = NULL, wanted = *step;
    size_t count, i = 0;
    enum np_status status;
    NP_TRY(np_manifest_list(&steps, &count, run, err));
    if (wanted == NP_LATEST && count > 0)
        wanted = *step = steps[count - 1];
    while (i < count && steps[i] != wanted)
        i++;
    if (count == 0)
        status = np_fail(err, NP_EINPUT, "'%s' has no checkpoint yet", np_text_safe(run).s);
    else if (i == count)
        status = np_fail(err, NP_EINPUT, "'%s' has no checkpoint after %llu steps",
                         np_text_safe(run).s, (unsigned long long)wanted);
out:
    free(steps);
    return status;
}

/* Entries of the versions that training would read with a delay are passed over. */
static enum np_status index_layers(struct np_trained *t, const char *path,
                                   const struct np_supernet *net, struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_zalloc(&t->entries, net->layers, sizeof(struct np_manifest_entry *), err));
    for (size_t i = 0; i < t->manifest.count; i++) {
        uint32_t layer;
        uint64_t back;
        NP_TRY(np_manifest_layer(&t->manifest.entries[i], path, net, &layer, &back, err));
        if (back == 0)
            t->entries[layer] = &t->manifest.entries[i];
    }
out:
    return status;
}

enum np_status np_trained_open(struct np_trained **out, const char *run, uint64_t step,
                               const struct np_supernet *net, const struct np_digest *data,
                               const struct np_device *device, struct np_error *err)
{
    struct np_trained *t = NULL;
    char *path = NULL, *objects = NULL;
    struct np_digest recipe;
    enum np_status status;
    NP_TRY(np_zalloc(&t, 1, sizeof *t, err));
    pthread_mutex_init(&t->lock, NULL);
    t->net = *net;
    t->net.moments = 0;
    t->moments = net->moments;
    NP_TRY(np_alloc(&t->use, (size_t)net->layers + 1, sizeof *t->use, err));
    for (uint32_t i = 0; i <= net->layers; i++)
        t->use[i] = (struct use){0, i, i};
    NP_TRY(find(&step, run, err));
    NP_TRY(np_run_recipe_digest(&recipe, run, net->recipe, err));
    NP_TRY(np_manifest_load(&t->manifest, &path, &t->digest, run, step, net, &recipe, data, err));
    NP_TRY(index_layers(t, path, net, err));
    NP_TRY(np_manifest_objects(&objects, run, err));
    NP_TRY(np_store_init(&t->store, objects, err));
    NP_TRY(np_state_new(&t->state, &t->net, err));
    NP_TRY(np_zalloc(&t->state->homes, (size_t)net->positions, sizeof *t->state->homes, err));
    for (int p = 0; p < net->positions; p++)
        t->state->homes[p] = device;
    *out = t;
    t = NULL;
out:
    free(path);
    free(objects);
    np_trained_free(t);
    return status;
}

void np_trained_free(struct np_trained *t)
{
    if (!t)
        return;
    np_state_free(t->state);
    np_store_clear(&t->store);
    np_manifest_clear(&t->manifest);
    free(t->entries);
    free(t->use);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

uint64_t np_trained_step(const struct np_trained *t)
{
    return t->manifest.step;
}

const struct np_digest *np_trained_digest(const struct np_trained *t)
{
    return &t->digest;
}

const struct np_digest *np_trained_recipe(const struct np_trained *t)
{
    return &t->manifest.recipe;
}

struct np_state *np_trained_state(struct np_trained *t)
{
    return t->state;
}
