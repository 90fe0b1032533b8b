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
    pthread_mutex_t lock;
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

enum np_status np_trained_bring_layer(struct np_trained *t, uint32_t layer, struct np_error *err)
{
    enum np_status status = NP_OK;
    pthread_mutex_lock(&t->lock);
    if (!t->state->layers[layer].made && np_supernet_kind(&t->net, layer)->floats)
        status = t->entries[layer] ? read_layer(t, layer, err) : make_layer(t, layer, err);
    pthread_mutex_unlock(&t->lock);
    return status;
}

enum np_status np_trained_bring(struct np_trained *t, const uint16_t *choices, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int p = 0; p < t->net.positions && status == NP_OK; p++)
        status = np_trained_bring_layer(
            t, t->net.layer_whole[np_supernet_chosen(&t->net, choices, p)], err);
    return status;
}

void np_trained_forget(struct np_trained *t, uint32_t layer)
{
    struct np_layer_state *l = &t->state->layers[layer];
    const struct np_device *home = np_state_home(t->state, layer);
    np_device_release(home, l->slab);
    np_device_release(home, l->old);
    *l = (struct np_layer_state){.slab = NULL};
}

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
