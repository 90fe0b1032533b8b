/* Initial weights, optimizers and sequential training in double; see reference.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    for (uint32_t i = 0; i < net->layers; i++)
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
}

/* A step's gradient g of a layer, made with `step`'s learning rate. */
static void update(struct reference_net *ref, uint32_t layer, double *g, uint64_t step)
{
    const struct np_recipe *recipe = ref->net->recipe;
    reference_update(recipe, np_supernet_kind(ref->net, layer), ref->w[layer], ref->m[layer],
                     ref->v[layer], g, (double)np_recipe_lr(recipe, step), ++ref->updates[layer]);
}

/* The layer at a position of a subnet. */
static uint32_t layer_at(const struct np_supernet *net, const uint16_t *choices, int position)
{
    uint32_t choice = position > 0 && position < net->positions - 1 ? choices[position - 1] : 0;
    return net->layer_first[position] + choice;
}

static void run_member(struct reference_net *ref, const uint16_t *choices, const int32_t *tokens,
                       const int32_t *targets, uint32_t member, double *mean_loss)
{
    const struct np_recipe *recipe = ref->net->recipe;
    int positions = ref->net->positions;
    size_t rows = (size_t)recipe->batch * (size_t)recipe->length;
    size_t count = rows * (size_t)recipe->width;
    struct reference_call call = {.samples = (size_t)recipe->batch,
                                  .seed = recipe->seed,
                                  .step = ref->step,
                                  .member = member,
                                  .train = true,
                                  .tokens = tokens,
                                  .targets = targets,
                                  .smoothing = recipe->label_smoothing,
                                  .scale = 1.0 / (double)rows};
    double *x = reference_zeros(count * (size_t)positions), *loss = reference_zeros(rows);
    double *d[2] = {reference_zeros(count), reference_zeros(count)};
    /* x + i * count is the input of position i; the stem has none, the head writes losses. */
    for (int i = 0; i < 2 * positions; i++) {
        int position = i < positions ? i : 2 * positions - 1 - i;
        const double *in = x + (size_t)position * count;
        call.layer = layer_at(ref->net, choices, position);
        call.kind = np_supernet_kind(ref->net, call.layer);
        call.w = ref->w[call.layer];
        if (i < positions)
            reference_forward(&call, position == positions - 1 ? loss : x + (size_t)(i + 1) * count,
                              in);
        else
            reference_backward(&call, d[i % 2], ref->g[call.layer], in, d[(i + 1) % 2]);
    }
    *mean_loss = 0.0;
    for (size_t r = 0; r < rows; r++)
        *mean_loss += loss[r] / (double)rows;
    free(x);
    free(loss);
    free(d[0]);
    free(d[1]);
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

void reference_net_step(struct reference_net *ref, const uint16_t *choices, const int32_t *tokens,
                        const int32_t *targets, double *losses)
{
    const struct np_recipe *recipe = ref->net->recipe;
    size_t rows = (size_t)recipe->batch * (size_t)recipe->length;
    bool *active = calloc(ref->net->layers, sizeof *active);
    if (!active)
        abort();
    update_shared(ref);
    for (int member = 0; member < recipe->members; member++) {
        const uint16_t *mine = choices + member * recipe->block_count;
        for (int position = 1; position < ref->net->positions - 1; position++)
            active[layer_at(ref->net, mine, position)] = true;
        run_member(ref, mine, tokens + (size_t)member * rows, targets + (size_t)member * rows,
                   (uint32_t)member, &losses[member]);
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
