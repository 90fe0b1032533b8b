/* Initial weights, optimizers and sequential training in double; see reference.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/data.h"
#include "num/philox.h"
#include "reference.h"

/* Deviates come in pairs; each pair takes two of the four words drawn for four elements. */
static double normal(struct np_draw_key key, size_t element)
{
    struct np_philox drawn = np_draw(key, 0, element / 4);
    size_t word = element / 2 % 2 * 2;
    double u0 = (double)np_philox_unit(drawn.w[word]);
    double angle = 2.0 * acos(-1.0) * (double)np_philox_unit(drawn.w[word + 1]);
    return sqrt(-2.0 * log(1.0 - u0)) * (element % 2 ? sin(angle) : cos(angle));
}

void reference_init(double *w, const struct np_kind *kind, uint64_t seed, uint32_t layer)
{
    for (int t = 0; t < kind->tensor_count; t++) {
        const struct np_tensor *tensor = &kind->tensors[t];
        struct np_draw_key key = np_draw_key(seed, NP_DRAW_INIT, 0, layer, (uint32_t)t);
        for (size_t i = 0; i < tensor->count; i++) {
            double value = tensor->init == NP_INIT_ONE ? 1.0 : 0.0;
            if (tensor->init == NP_INIT_NORMAL)
                value = (double)tensor->std * normal(key, i);
            w[tensor->offset + i] = value;
        }
    }
}

static void clip(const struct np_recipe *recipe, double *g, size_t count)
{
    double norm = 0.0, limit = recipe->clip_limit;
    for (size_t i = 0; i < count; i++)
        norm += g[i] * g[i];
    norm = sqrt(norm);
    for (size_t i = 0; i < count; i++) {
        if (recipe->clip == NP_CLIP_VALUE)
            g[i] = fmin(fmax(g[i], -limit), limit);
        else if (recipe->clip == NP_CLIP_LAYER && norm > limit)
            g[i] *= limit / norm;
    }
}

void reference_update(const struct np_recipe *recipe, const struct np_kind *kind, double *w,
                      double *m, double *v, double *g, double lr, uint64_t t)
{
    const struct np_optimizer *o = &recipe->optimizer;
    clip(recipe, g, kind->floats);
    for (int k = 0; k < kind->tensor_count; k++) {
        double decay = kind->tensors[k].decay ? o->weight_decay : 0.0;
        size_t first = kind->tensors[k].offset;
        for (size_t i = first; i < first + kind->tensors[k].count; i++) {
            if (o->kind == NP_ADAMW) {
                m[i] = o->beta1 * m[i] + (1.0 - o->beta1) * g[i];
                v[i] = o->beta2 * v[i] + (1.0 - o->beta2) * g[i] * g[i];
                w[i] -= lr * decay * w[i];
                w[i] -= lr * (m[i] / (1.0 - pow(o->beta1, (double)t))) /
                        (sqrt(v[i] / (1.0 - pow(o->beta2, (double)t))) + o->eps);
            } else {
                double step = g[i] + decay * w[i];
                if (m) {
                    m[i] = o->momentum * m[i] + step;
                    step = o->nesterov ? step + o->momentum * m[i] : m[i];
                }
                w[i] -= lr * step;
            }
        }
    }
}

static double **slabs(const struct np_supernet *net, bool wanted)
{
    double **slab = calloc(net->layers, sizeof *slab);
    if (!slab)
        abort();
    for (uint32_t i = 0; wanted && i < net->layers; i++)
        slab[i] = reference_zeros(np_supernet_kind(net, i)->floats);
    return slab;
}

static void free_slabs(double **slab, size_t count)
{
    for (size_t i = 0; slab && i < count; i++)
        free(slab[i]);
    free(slab);
}

static uint32_t shared_layer(const struct np_supernet *net, int which)
{
    return which == 0 ? 0 : net->layers - 1;
}

static size_t ring_size(const struct np_supernet *net)
{
    return net->recipe->shared_frozen ? 1 : (size_t)net->recipe->delay;
}

void reference_net_init(struct reference_net *ref, const struct np_supernet *net)
{
    *ref = (struct reference_net){.net = net,
                                  .w = slabs(net, true),
                                  .m = slabs(net, net->moments > 0),
                                  .v = slabs(net, net->moments > 1),
                                  .g = slabs(net, true),
                                  .updates = calloc(net->layers, sizeof *ref->updates)};
    if (!ref->updates)
        abort();
    if (net->recipe->distill > 0)
        ref->soft = reference_zeros((size_t)net->recipe->batch * np_batch_targets(net->recipe) *
                                    (size_t)net->recipe->vocab);
    for (uint32_t i = 0; i < net->layers; i++)
        if (net->layer_whole[i] == i)
            reference_init(ref->w[i], np_supernet_kind(net, i), net->recipe->seed, i);
    for (int which = 0; which < 2; which++) {
        ref->pending[which] = calloc(ring_size(net), sizeof *ref->pending[which]);
        if (!ref->pending[which])
            abort();
        for (size_t i = 0; i < ring_size(net); i++)
            ref->pending[which][i] =
                reference_zeros(np_supernet_kind(net, shared_layer(net, which))->floats);
    }
}

void reference_net_clear(struct reference_net *ref)
{
    free_slabs(ref->w, ref->net->layers);
    free_slabs(ref->m, ref->net->layers);
    free_slabs(ref->v, ref->net->layers);
    free_slabs(ref->g, ref->net->layers);
    for (int which = 0; which < 2; which++)
        free_slabs(ref->pending[which], ring_size(ref->net));
    free(ref->updates);
    free(ref->soft);
}

/* A step's gradient g of a layer, made with `step`'s learning rate. */
static void update(struct reference_net *ref, uint32_t layer, double *g, uint64_t step)
{
    const struct np_recipe *recipe = ref->net->recipe;
    reference_update(recipe, np_supernet_kind(ref->net, layer), ref->w[layer], ref->m[layer],
                     ref->v[layer], g, (double)np_recipe_lr(recipe, step), ++ref->updates[layer]);
}

/* What a subnet computes at a position, and the layer whose weights it has. */
static uint32_t candidate_at(const struct np_supernet *net, const uint16_t *choices, int position)
{
    uint32_t choice = position > 0 && position < net->positions - 1 ? choices[position - 1] : 0;
    return net->layer_first[position] + choice;
}

static uint32_t layer_at(const struct np_supernet *net, const uint16_t *choices, int position)
{
    return net->layer_whole[candidate_at(net, choices, position)];
}

/* Where the taps of a part begin in so many: images' are centred, sequences' end together. */
static size_t first_tap(const struct np_kind *part, size_t all, size_t own)
{
    return part->image.channels ? (all - 1) / 2 - (own - 1) / 2 : all - own;
}

/* Where element i of a part's tensor lies in the tensor of its whole. */
static size_t in_whole(const struct np_kind *part, const struct np_tensor *own,
                       const struct np_tensor *all, size_t i)
{
    size_t place = 0, below = 1, sides = 1;
    if (strstr(own->name, "qkv."))
        sides = 3;
    else if (strstr(own->name, "kv.") || strstr(own->name, "gate."))
        sides = 2;
    for (int d = own->rank - 1; d >= 0; d--) {
        size_t at = i % own->shape[d], first = 0;
        i /= own->shape[d];
        if (d == own->rank - 1)
            at += at / (own->shape[d] / sides) * ((all->shape[d] - own->shape[d]) / sides);
        if ((own->rank > 2 && d < 2) || (d == 1 && strcmp(own->name, "kernel.logits") == 0))
            first = first_tap(part, all->shape[d], own->shape[d]);
        place += (first + at) * below;
        below *= all->shape[d];
    }
    return all->offset + place;
}

/* own = whole's, or whole += own. */
static void exchange(double *own, double *whole, const struct np_kind *part, bool back)
{
    for (int t = 0; t < part->tensor_count; t++) {
        const struct np_tensor *tensor = &part->tensors[t], *all = part->whole->tensors;
        while (strcmp(all->name, tensor->name) != 0)
            all++;
        for (size_t i = 0; i < tensor->count; i++) {
            size_t there = in_whole(part, tensor, all, i);
            if (back)
                whole[there] += own[tensor->offset + i];
            else
                own[tensor->offset + i] = whole[there];
        }
    }
}

/* Values and their gradients by the position that makes them; the head makes losses. */
struct activations {
    double *value[NP_MAX_BLOCKS + 2], *gradient[NP_MAX_BLOCKS + 2];
};

/* The positions that a position reads as x, memory and sum; -1 none. */
static void inputs_of(const struct reference_net *ref, int position, int from[3])
{
    const struct np_recipe *recipe = ref->net->recipe;
    int last = ref->net->positions - 1;
    from[0] = position == last ? last - 1 : -1;
    from[1] = from[2] = -1;
    if (position > 0 && position < last) {
        from[0] = recipe->blocks[position - 1].from;
        from[1] = recipe->blocks[position - 1].memory;
        from[2] = recipe->blocks[position - 1].sum;
    }
}

/* One layer of a member, forward, or backward with its weights' gradient. */
static void run_layer(struct reference_net *ref, struct reference_call *call,
                      const uint16_t *choices, struct activations *a, int position, bool forward)
{
    int from[3];
    bool head = position == ref->net->positions - 1;
    double *sum, *dy = a->gradient[position], *w, *g;
    inputs_of(ref, position, from);
    call->layer = layer_at(ref->net, choices, position);
    call->kind = np_supernet_kind(ref->net, candidate_at(ref->net, choices, position));
    w = ref->w[call->layer];
    g = ref->g[call->layer];
    if (call->kind->whole) {
        w = reference_zeros(call->kind->part_floats);
        g = reference_zeros(call->kind->part_floats);
        exchange(w, ref->w[call->layer], call->kind, false);
    }
    call->w = w;
    struct reference_inputs in = {from[0] < 0 ? NULL : a->value[from[0]],
                                  from[1] < 0 ? NULL : a->value[from[1]],
                                  from[2] < 0 ? NULL : a->value[from[2]]};
    if (forward)
        reference_forward(call, a->value[position], &in);
    else
        reference_backward(call, from[0] < 0 ? NULL : a->gradient[from[0]],
                           from[1] < 0 ? NULL : a->gradient[from[1]], g, &in, head ? NULL : dy);
    if (call->kind->whole) {
        exchange(g, ref->g[call->layer], call->kind, true);
        free(w);
        free(g);
    }
    sum = forward || from[2] < 0 ? NULL : a->gradient[from[2]];
    for (size_t i = 0; sum && i < call->samples * np_shape_floats(call->kind->out); i++)
        sum[i] += dy[i];
}

static void run_member(struct reference_net *ref, const uint16_t *choices,
                       const struct reference_batch *batch, uint32_t member, double *mean_loss)
{
    const struct np_recipe *recipe = ref->net->recipe;
    int positions = ref->net->positions;
    size_t samples = (size_t)recipe->batch;
    size_t rows = samples * np_supernet_kind(ref->net, ref->net->layers - 1)->length;
    double targets = 0;
    for (size_t r = 0; r < rows; r++)
        targets += batch->targets[r] >= 0;
    struct reference_call call = {.samples = samples,
                                  .seed = recipe->seed,
                                  .step = ref->step,
                                  .member = member,
                                  .train = true,
                                  .images = batch->images,
                                  .tokens = batch->tokens,
                                  .source = batch->source,
                                  .targets = batch->targets,
                                  .source_lengths = batch->source_lengths,
                                  .target_lengths = batch->target_lengths,
                                  .smoothing = recipe->label_smoothing,
                                  .scale = 1.0 / targets,
                                  .soft = ref->soft,
                                  .distill = recipe->distill};
    struct activations *a = calloc(1, sizeof *a);
    if (!a)
        abort();
    for (int i = 0; i < positions; i++) {
        size_t count = samples * np_shape_floats(ref->net->shapes[i]);
        a->value[i] = reference_zeros(i == positions - 1 ? rows : count);
        a->gradient[i] = reference_zeros(i == positions - 1 ? 0 : count);
    }
    for (int i = 0; i < 2 * positions; i++)
        run_layer(ref, &call, choices, a, i < positions ? i : 2 * positions - 1 - i, i < positions);
    *mean_loss = 0.0;
    for (size_t r = 0; r < rows; r++)
        *mean_loss += a->value[positions - 1][r] / targets;
    for (int i = 0; i < positions; i++) {
        free(a->value[i]);
        free(a->gradient[i]);
    }
    free(a);
}

/* Shared layers: step s reads the version after the updates of steps <= s - D, so step s - D's
 * gradient, the ring's oldest, is applied before step s begins. */
static void update_shared(struct reference_net *ref)
{
    uint64_t delay = (uint64_t)ref->net->recipe->delay;
    for (int which = 0; which < 2 && !ref->net->recipe->shared_frozen; which++)
        if (ref->step >= delay)
            update(ref, shared_layer(ref->net, which), ref->pending[which][ref->step % delay],
                   ref->step - delay);
}

void reference_net_step(struct reference_net *ref, const uint16_t *choices,
                        const struct reference_batch *batches, double *losses)
{
    const struct np_recipe *recipe = ref->net->recipe;
    bool *active = calloc(ref->net->layers, sizeof *active);
    if (!active)
        abort();
    update_shared(ref);
    for (int member = 0; member < recipe->members; member++) {
        const uint16_t *mine = choices + member * recipe->block_count;
        for (int position = 1; position < ref->net->positions - 1; position++)
            active[layer_at(ref->net, mine, position)] = true;
        run_member(ref, mine, &batches[member], (uint32_t)member, &losses[member]);
    }
    for (uint32_t layer = 1; layer + 1 < ref->net->layers; layer++)
        if (active[layer])
            update(ref, layer, ref->g[layer], ref->step);
    for (int which = 0; which < 2; which++) {
        uint32_t layer = shared_layer(ref->net, which);
        memcpy(ref->pending[which][ref->step % ring_size(ref->net)], ref->g[layer],
               np_supernet_kind(ref->net, layer)->floats * sizeof(double));
    }
    for (uint32_t layer = 0; layer < ref->net->layers; layer++)
        memset(ref->g[layer], 0, np_supernet_kind(ref->net, layer)->floats * sizeof(double));
    free(active);
    ref->step++;
}
