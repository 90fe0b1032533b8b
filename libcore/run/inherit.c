#include "run/inherit.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/store.h"
#include "ops/weights.h"
#include "run/manifest.h"
#include "run/run_recipe.h"
#include "run/trained.h"
#include "space/parts.h"

#define NONE UINT32_MAX

struct np_inherit {
    const char *run;
    const struct np_supernet *net;
    struct np_recipe recipe; /* the old run's */
    struct np_supernet from;
    struct np_trained *trained; /* its weights */
    uint32_t held;              /* the layer of them that is in memory, or NONE */
    uint32_t *source;           /* [net->layers]: the old candidate of each, or NONE */
};

/* --- who takes whose -------------------------------------------------------------------------- */

/* The position of the old net that stands where one of the new one does; -1: none. */
static int counterpart(const struct np_inherit *in, int position)
{
    if (position == in->net->positions - 1)
        return in->from.positions - 1;
    return position < in->from.positions - 1 ? position : -1;
}

/* Of the stem and the head tensors are taken one by one. */
static const struct np_tensor *counterpart_of(const struct np_tensor *tensor,
                                              const struct np_kind *old)
{
    const struct np_tensor *from = np_kind_tensor(old, tensor->name);
    return from && np_tensor_same(from, tensor) ? from : NULL;
}

static void match_end(struct np_inherit *in, uint32_t layer, uint32_t old_layer)
{
    const struct np_kind *kind = np_supernet_kind(in->net, layer);
    const struct np_kind *old = np_supernet_kind(&in->from, old_layer);
    for (int t = 0; t < kind->tensor_count && kind->spec.op == old->spec.op; t++)
        if (counterpart_of(&kind->tensors[t], old))
            in->source[layer] = old_layer;
}

static void match_one(struct np_inherit *in, uint32_t layer, uint32_t old_layer, bool *taken)
{
    if (*taken || !np_kind_same_weights(np_supernet_kind(in->net, layer),
                                        np_supernet_kind(&in->from, old_layer)))
        return;
    in->source[layer] = old_layer;
    *taken = true;
}

/* taken[candidates] of the old block. */
static void match_block(struct np_inherit *in, int position, int old, bool *taken)
{
    uint32_t first = in->net->layer_first[position], end = in->net->layer_first[position + 1];
    uint32_t base = in->from.layer_first[old], count = in->from.layer_first[old + 1] - base;
    uint32_t origin = (uint32_t)in->net->recipe->blocks[position - 1].origin;
    memset(taken, 0, count * sizeof *taken);
    for (uint32_t i = origin; first + i - origin < end && i < count; i++) /* own numbers first */
        match_one(in, first + i - origin, base + i, &taken[i]);
    for (uint32_t layer = first; layer < end; layer++)
        for (uint32_t c = 0; c < count && in->source[layer] == NONE; c++)
            match_one(in, layer, base + c, &taken[c]);
}

static enum np_status match(struct np_inherit *in, struct np_error *err)
{
    bool *taken = NULL;
    uint32_t all;
    enum np_status status;
    NP_TRY(np_alloc(&taken, NP_MAX_CHOICES, sizeof *taken, err));
    NP_TRY(np_alloc(&in->source, in->net->layers, sizeof *in->source, err));
    for (uint32_t layer = 0; layer < in->net->layers; layer++)
        in->source[layer] = NONE;
    for (int p = 0; p < in->net->positions; p++) {
        int old = counterpart(in, p);
        if (old >= 0 && np_supernet_is_end(in->net, p))
            match_end(in, in->net->layer_first[p], in->from.layer_first[old]);
        else if (old >= 0)
            match_block(in, p, old, taken);
    }
    if (np_inherit_layers(in, &all) == 0)
        status = np_fail(err, NP_EINPUT, "'%s' has no layer with weights for one of '%s'",
                         np_text_safe(in->run).s, np_text_safe(in->net->recipe->path).s);
out:
    free(taken);
    return status;
}

bool np_inherit_has(const struct np_inherit *in, uint32_t layer)
{
    int position = np_supernet_position(in->net, layer);
    uint32_t end = in->net->layer_first[position + 1];
    for (uint32_t c = in->net->layer_first[position]; c < end; c++)
        if (in->net->layer_whole[c] == in->net->layer_whole[layer] && in->source[c] != NONE)
            return true;
    return false;
}

uint32_t np_inherit_layers(const struct np_inherit *in, uint32_t *of)
{
    uint32_t count = 0, all = 0;
    for (uint32_t layer = 0; layer < in->net->layers; layer++)
        if (np_kind_whole(np_supernet_kind(in->net, layer))->floats > 0) {
            all++;
            count += np_inherit_has(in, layer);
        }
    *of = all;
    return count;
}

/* --- from which checkpoint -------------------------------------------------------------------- */

/* The step of the run's checkpoint that has a digest. */
static enum np_status find(uint64_t *step, const char *run, const struct np_digest *wanted,
                           struct np_error *err)
{
    struct np_manifest m = {.count = 0};
    uint64_t *steps = NULL;
    char *path = NULL;
    size_t count;
    enum np_status status;
    NP_TRY(np_manifest_list(&steps, &count, run, err));
    while (count > 0) {
        struct np_digest digest;
        *step = steps[--count];
        NP_TRY(np_manifest_path(&path, run, *step, err));
        status = np_manifest_read(&m, path, &digest, err);
        if (status == NP_OK && np_digest_equal(&digest, wanted))
            goto out;
        if (status != NP_EDATA) /* one that is damaged is none that is wanted */
            NP_TRY(status);
        np_manifest_clear(&m);
        free(path);
        path = NULL;
    }
    status = np_fail(err, NP_EINPUT, "'%s' has no checkpoint of digest %s, which 'train.init' says",
                     np_text_safe(run).s, np_digest_hex(wanted).s);
out:
    np_manifest_clear(&m);
    free(steps);
    free(path);
    return status;
}

enum np_status np_inherit_open(struct np_inherit **out, const char *run, uint64_t step,
                               const struct np_supernet *net, struct np_error *err)
{
    const struct np_recipe *recipe = net->recipe;
    struct np_inherit *in = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&in, 1, sizeof *in, err));
    in->run = run;
    in->net = net;
    in->held = NONE;
    NP_TRY(np_run_recipe_read(&in->recipe, run, err));
    NP_TRY(np_supernet_init(&in->from, &in->recipe, err));
    if (recipe->has_init && step == NP_LATEST)
        NP_TRY(find(&step, run, &recipe->init, err));
    NP_TRY(np_trained_open(&in->trained, run, step, &in->from, NULL, &np_device_host, err));
    if (recipe->has_init && !np_digest_equal(np_inherit_digest(in), &recipe->init)) {
        status = np_fail(err, NP_EINPUT,
                         "'%s' has digest %s after %llu steps, not the one that 'train.init' says",
                         np_text_safe(run).s, np_digest_hex(np_inherit_digest(in)).s,
                         (unsigned long long)step);
        goto out;
    }
    NP_TRY(match(in, err));
    *out = in;
    in = NULL;
out:
    np_inherit_free(in);
    return status;
}

void np_inherit_free(struct np_inherit *in)
{
    if (!in)
        return;
    np_trained_free(in->trained);
    np_supernet_clear(&in->from);
    np_recipe_clear(&in->recipe);
    free(in->source);
    free(in);
}

const struct np_digest *np_inherit_digest(const struct np_inherit *in)
{
    return np_trained_digest(in->trained);
}

uint64_t np_inherit_step(const struct np_inherit *in)
{
    return np_trained_step(in->trained);
}

/* --- the first checkpoint --------------------------------------------------------------------- */

/* The slab of an old layer; the one before it goes. */
static enum np_status bring(struct np_inherit *in, uint32_t layer, const float **slab,
                            struct np_error *err)
{
    enum np_status status;
    if (in->held != layer && in->held != NONE)
        np_trained_forget(in->trained, in->held);
    in->held = layer;
    NP_TRY(np_trained_bring_layer(in->trained, layer, err));
    *slab = np_trained_state(in->trained)->layers[layer].slab;
out:
    return status;
}

static void take_tensors(const struct np_kind *kind, float *slab, const struct np_kind *old,
                         const float *weights)
{
    for (int t = 0; t < kind->tensor_count; t++) {
        const struct np_tensor *tensor = &kind->tensors[t], *from = counterpart_of(tensor, old);
        if (from)
            memcpy(slab + tensor->offset, weights + from->offset, from->count * sizeof *slab);
    }
}

/* What the candidate inherits, into the slab of its whole. */
static enum np_status take(struct np_inherit *in, uint32_t candidate, float *slab,
                           struct np_error *err)
{
    const struct np_kind *kind = np_supernet_kind(in->net, candidate);
    const struct np_kind *old = np_supernet_kind(&in->from, in->source[candidate]);
    const float *weights;
    float *part = NULL;
    enum np_status status;
    NP_TRY(bring(in, in->from.layer_whole[in->source[candidate]], &weights, err));
    if (old->pieces) {
        NP_TRY(np_alloc(&part, old->part_floats, sizeof *part, err));
        np_part_cut(part, old, weights);
        weights = part;
    }
    if (np_supernet_is_end(in->net, np_supernet_position(in->net, candidate)))
        take_tensors(kind, slab, old, weights);
    else if (kind->pieces)
        np_part_paste(slab, kind, weights);
    else
        memcpy(slab, weights, np_kind_whole(kind)->floats * sizeof *slab);
out:
    free(part);
    return status;
}

/* A layer's canonical bytes on their way: weights, then moments, which are 0. */
struct passage {
    const char *weights;
    size_t left; /* bytes of them */
};

static enum np_status read_piece(void *context, void *piece, size_t n, struct np_error *err)
{
    struct passage *p = context;
    size_t some = n < p->left ? n : p->left;
    (void)err;
    if (some > 0)
        memcpy(piece, p->weights, some);
    memset((char *)piece + some, 0, n - some);
    p->weights += some;
    p->left -= some;
    return NP_OK;
}

static enum np_status write_layer(struct np_inherit *in, int position, uint32_t layer,
                                  struct np_store *store, struct np_manifest *m,
                                  struct np_error *err)
{
    const struct np_supernet *net = in->net;
    const struct np_kind *kind = np_supernet_kind(net, layer);
    struct np_team alone = {.size = 1};
    size_t bytes = kind->floats * sizeof(float);
    char name[NP_LAYER_NAME];
    struct np_digest digest;
    struct passage passage;
    float *slab = NULL;
    enum np_status status;
    NP_TRY(np_alloc(&slab, kind->floats, sizeof *slab, err));
    np_weights_init(np_kernels_best(), &alone, slab, kind, net->recipe->seed, layer);
    for (uint32_t c = net->layer_first[position]; c < net->layer_first[position + 1]; c++)
        if (net->layer_whole[c] == layer && in->source[c] != NONE)
            NP_TRY(take(in, c, slab, err));
    passage = (struct passage){(const char *)slab, bytes};
    NP_TRY(np_store_put_from(store, &digest, (struct np_store_source){read_piece, &passage},
                             (1 + (uint64_t)net->moments) * bytes, err));
    np_supernet_layer_name(net, layer, name);
    NP_TRY(np_manifest_add(m, &digest, 0, name, err));
out:
    free(slab);
    return status;
}

static size_t with_weights(const struct np_supernet *net)
{
    size_t count = 0;
    for (uint32_t layer = 0; layer < net->layers; layer++)
        count += np_supernet_kind(net, layer)->floats > 0;
    return count;
}

enum np_status np_inherit_write(struct np_inherit *in, const char *run,
                                const struct np_digest *data,
                                const struct np_checkpoint_hooks *hooks, struct np_error *err)
{
    const struct np_supernet *net = in->net;
    size_t done = 0, layers = with_weights(net);
    struct np_manifest m = {.recipe = net->recipe->digest, .data = *data, .step = 0};
    struct np_store store = {.path = NULL};
    struct np_digest digest;
    char *objects = NULL;
    enum np_status status;
    NP_TRY(np_manifest_objects(&objects, run, err));
    NP_TRY(np_store_init(&store, objects, err));
    for (int p = 0; p < net->positions; p++)
        for (uint32_t layer = net->layer_first[p]; layer < net->layer_first[p + 1]; layer++) {
            if (np_supernet_kind(net, layer)->floats == 0)
                continue;
            if (hooks->stop && hooks->stop(hooks->context))
                NP_TRY(np_fail(err, NP_ESTOP, "stopped on request before the first step"));
            if (hooks->progress)
                hooks->progress(hooks->context, true, done++, layers);
            NP_TRY(write_layer(in, p, layer, &store, &m, err));
        }
    NP_TRY(np_store_sync(&store, err));
    NP_TRY(np_manifest_write(&m, run, &digest, err));
out:
    np_manifest_clear(&m);
    np_store_clear(&store);
    free(objects);
    return status;
}
