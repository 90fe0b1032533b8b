#include "run/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "exec/state_stream.h"
#include "run/manifest_check.h"

/* A layer in the stash passes through a window of this size: enough for a disk's bandwidth. */
#define WINDOW ((size_t)4 << 20)

/* What this process stored of an old version. */
struct stored_old {
    bool there;
    uint64_t version;
    struct np_digest digest;
};

/* What this process last stored of a layer. */
struct stored {
    uint64_t updates;
    struct np_digest digest;
    struct stored_old *old; /* [np_supernet_old_count], version v at v % count; NULL: none */
};

struct np_checkpoints {
    const char *run;
    struct np_state *state;
    struct np_digest data;
    struct np_store store;
    struct stored *stored; /* [layers]; updates 0: nothing, or what the layer was given */
    void *block;           /* holds: */
    float *window;         /* as a stash wants it */
    struct np_checkpoint_hooks hooks;
};

static enum np_status stored_new(struct np_checkpoints *c, struct np_error *err)
{
    const struct np_supernet *net = c->state->net;
    enum np_status status;
    NP_TRY(np_zalloc(&c->stored, net->layers, sizeof *c->stored, err));
    for (uint32_t layer = 0; layer < net->layers; layer++) {
        size_t versions = (size_t)np_supernet_old_count(net, layer);
        if (versions > 0)
            NP_TRY(np_zalloc(&c->stored[layer].old, versions, sizeof(struct stored_old), err));
    }
out:
    return status;
}

static enum np_status window_new(struct np_checkpoints *c, struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_alloc(&c->block, WINDOW + NP_STASH_ALIGN, 1, err));
    uintptr_t start = (uintptr_t)c->block;
    start += (NP_STASH_ALIGN - start % NP_STASH_ALIGN) % NP_STASH_ALIGN;
    c->window = (float *)start;
out:
    return status;
}

enum np_status np_checkpoints_new(struct np_checkpoints **out, const char *run,
                                  struct np_state *state, const struct np_digest *data,
                                  const struct np_checkpoint_hooks *hooks, struct np_error *err)
{
    struct np_checkpoints *c = NULL;
    char *objects = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&c, 1, sizeof *c, err));
    c->run = run;
    c->state = state;
    c->data = *data;
    c->hooks = *hooks;
    NP_TRY(np_manifest_objects(&objects, run, err));
    NP_TRY(np_store_init(&c->store, objects, err));
    NP_TRY(stored_new(c, err));
    NP_TRY(window_new(c, err));
    *out = c;
    c = NULL;
out:
    free(objects);
    np_checkpoints_free(c);
    return status;
}

void np_checkpoints_free(struct np_checkpoints *c)
{
    if (!c)
        return;
    np_store_clear(&c->store);
    for (uint32_t layer = 0; c->stored && layer < c->state->net->layers; layer++)
        free(c->stored[layer].old);
    free(c->stored);
    free(c->block);
    free(c);
}

/* The canonical bytes of one layer: floats as they are (little-endian machines only; checked at
 * build time), the parts packed without padding. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "checkpoints are little-endian: this machine needs a conversion here"
#endif

/* A layer on its way to an object, or from one. */
struct passage {
    struct np_state_stream stream;
    uint64_t updates;
};

static struct passage passage_of(const struct np_checkpoints *c, uint32_t layer, uint64_t updates)
{
    return (struct passage){np_state_stream(c->state, layer, c->window, WINDOW), updates};
}

static uint64_t layer_bytes(const struct np_checkpoints *c, uint32_t layer)
{
    return np_state_stream_floats(c->state, layer) * sizeof(float);
}

/* NaN differs between machines and must not enter a digest. */
static enum np_status check_finite(const struct passage *p, const float *values, size_t count,
                                   struct np_error *err)
{
    char name[NP_LAYER_NAME];
    for (size_t i = 0; i < count; i++) {
        if (isfinite(values[i]))
            continue;
        np_supernet_layer_name(p->stream.state->net, p->stream.layer, name);
        return np_fail(err, NP_ENAN, "a weight of layer '%s' is not finite after %llu updates",
                       name, (unsigned long long)p->updates);
    }
    return NP_OK;
}

static enum np_status read_piece(void *context, void *piece, size_t n, struct np_error *err)
{
    struct passage *p = context;
    enum np_status status;
    NP_TRY(np_state_read(&p->stream, piece, n / sizeof(float), err));
    NP_TRY(check_finite(p, piece, n / sizeof(float), err));
out:
    return status;
}

static enum np_status write_piece(void *context, const void *piece, size_t n, struct np_error *err)
{
    struct passage *p = context;
    return np_state_write(&p->stream, piece, n / sizeof(float), p->updates, err);
}

/* An old version's weights on their way, packed on either side. */
struct old_passage {
    const struct np_device *home;
    float *at;
};

static struct old_passage old_passage_of(const struct np_checkpoints *c, uint32_t layer,
                                         uint64_t version)
{
    const struct np_state *state = c->state;
    uint64_t keep = (uint64_t)np_supernet_old_count(state->net, layer);
    return (struct old_passage){np_state_home(state, layer),
                                state->layers[layer].old +
                                    version % keep *
                                        np_state_stride(np_supernet_kind(state->net, layer))};
}

static enum np_status read_old(void *context, void *piece, size_t n, struct np_error *err)
{
    struct old_passage *p = context;
    const float *from = p->at;
    p->at += n / sizeof(float);
    return np_device_copy(p->home, piece, from, n, err);
}

static enum np_status write_old(void *context, const void *piece, size_t n, struct np_error *err)
{
    struct old_passage *p = context;
    float *to = p->at;
    p->at += n / sizeof(float);
    return np_device_copy(p->home, to, piece, n, err);
}

static enum np_status put_layer(struct np_checkpoints *c, uint32_t layer, struct np_error *err)
{
    struct passage p = passage_of(c, layer, c->state->layers[layer].updates);
    enum np_status status;
    NP_TRY(np_store_put_from(&c->store, &c->stored[layer].digest,
                             (struct np_store_source){read_piece, &p}, layer_bytes(c, layer), err));
    c->stored[layer].updates = p.updates;
out:
    return status;
}

static struct stored_old *slot_of(const struct np_checkpoints *c, uint32_t layer, uint64_t version)
{
    uint64_t count = (uint64_t)np_supernet_old_count(c->state->net, layer);
    return &c->stored[layer].old[version % count];
}

/* The old versions that later steps may still read. */
static enum np_status put_old(struct np_checkpoints *c, struct np_manifest *m, uint32_t layer,
                              struct np_error *err)
{
    const struct np_layer_state *l = &c->state->layers[layer];
    const struct np_kind *kind = np_supernet_kind(c->state->net, layer);
    uint64_t keep = (uint64_t)np_supernet_old_count(c->state->net, layer);
    enum np_status status = NP_OK;
    for (uint64_t back = 1; back <= keep && back <= l->updates; back++) {
        uint64_t version = l->updates - back;
        struct stored_old *stored = slot_of(c, layer, version);
        struct old_passage p = old_passage_of(c, layer, version);
        char name[NP_ENTRY_NAME];
        np_manifest_name(c->state->net, layer, (int)back, name);
        if (!stored->there || stored->version != version) {
            struct np_digest digest;
            NP_TRY(np_store_put_from(&c->store, &digest, (struct np_store_source){read_old, &p},
                                     kind->floats * sizeof(float), err));
            *stored = (struct stored_old){true, version, digest};
        }
        NP_TRY(np_manifest_add(m, &stored->digest, version, name, err));
    }
out:
    return status;
}

static void tell(const struct np_checkpoints *c, bool writes, size_t done, size_t layers)
{
    if (c->hooks.progress && layers > 0)
        c->hooks.progress(c->hooks.context, writes, done, layers);
}

static bool has_changed(const struct np_checkpoints *c, uint32_t layer)
{
    const struct np_layer_state *l = &c->state->layers[layer];
    return np_layer_is_own(l) && c->stored[layer].updates != l->updates;
}

enum np_status np_checkpoints_write(struct np_checkpoints *c, uint64_t step,
                                    struct np_digest *digest, struct np_error *err)
{
    const struct np_supernet *net = c->state->net;
    struct np_manifest m = {.recipe = net->recipe->digest, .data = c->data, .step = step};
    size_t done = 0, changed = 0;
    enum np_status status = NP_OK;
    for (uint32_t layer = 0; layer < net->layers; layer++)
        changed += has_changed(c, layer);
    for (uint32_t layer = 0; layer < net->layers; layer++) {
        const struct np_layer_state *l = &c->state->layers[layer];
        char name[NP_ENTRY_NAME];
        if (!np_layer_is_own(l))
            continue;
        if (has_changed(c, layer)) {
            tell(c, true, done++, changed);
            NP_TRY(put_layer(c, layer, err));
        }
        np_manifest_name(net, layer, 0, name);
        NP_TRY(np_manifest_add(&m, &c->stored[layer].digest, l->updates, name, err));
        NP_TRY(put_old(c, &m, layer, err));
    }
    tell(c, true, done, changed);
    NP_TRY(np_store_sync(&c->store, err));
    NP_TRY(np_manifest_write(&m, c->run, digest, err));
out:
    np_manifest_clear(&m);
    return status;
}

static enum np_status get_layer(struct np_checkpoints *c, const struct np_manifest_entry *entry,
                                uint32_t layer, struct np_error *err)
{
    struct passage p = passage_of(c, layer, entry->updates);
    enum np_status status;
    NP_TRY(np_store_get_into(&c->store, &entry->digest, (struct np_store_sink){write_piece, &p},
                             layer_bytes(c, layer), err));
    c->stored[layer].updates = entry->updates;
    c->stored[layer].digest = entry->digest;
out:
    return status;
}

/* Version `entry->updates` of a layer read with a delay: into its slot. */
static enum np_status get_old(struct np_checkpoints *c, const struct np_manifest_entry *entry,
                              uint32_t layer, struct np_error *err)
{
    struct old_passage p;
    enum np_status status;
    NP_TRY(np_state_take(c->state, layer, err));
    p = old_passage_of(c, layer, entry->updates);
    NP_TRY(np_store_get_into(&c->store, &entry->digest, (struct np_store_sink){write_old, &p},
                             np_supernet_kind(c->state->net, layer)->floats * sizeof(float), err));
    *slot_of(c, layer, entry->updates) = (struct stored_old){true, entry->updates, entry->digest};
out:
    return status;
}

static enum np_status get_entry(struct np_checkpoints *c, const struct np_manifest_entry *entry,
                                const char *path, struct np_error *err)
{
    uint64_t back;
    uint32_t layer;
    enum np_status status;
    NP_TRY(np_manifest_layer(entry, path, c->state->net, &layer, &back, err));
    NP_TRY(back > 0 ? get_old(c, entry, layer, err) : get_layer(c, entry, layer, err));
out:
    return status;
}

enum np_status np_checkpoints_read(struct np_checkpoints *c, bool *found, uint64_t *step,
                                   struct np_digest *digest, struct np_error *err)
{
    struct np_manifest m = {.count = 0};
    uint64_t *steps = NULL;
    char *path = NULL;
    size_t count;
    enum np_status status;
    NP_TRY(np_manifest_list(&steps, &count, c->run, err));
    *found = count > 0;
    *step = 0;
    if (!count)
        goto out;
    NP_TRY(np_manifest_load(&m, &path, digest, c->run, steps[count - 1], c->state->net, NULL,
                            &c->data, err));
    *step = m.step;
    for (size_t i = 0; i < m.count; i++) {
        if (c->hooks.stop && c->hooks.stop(c->hooks.context))
            NP_TRY(np_fail(err, NP_ESTOP, "stopped on request after step %llu",
                           (unsigned long long)m.step));
        tell(c, false, i, m.count);
        NP_TRY(get_entry(c, &m.entries[i], path, err));
    }
out:
    np_manifest_clear(&m);
    free(steps);
    free(path);
    return status;
}
