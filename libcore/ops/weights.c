#include "ops/weights.h"

#include <math.h>

#include "num/philox.h"

void np_weights_init(const struct np_kernels *kernels, struct np_team *team, float *w,
                     const struct np_kind *kind, uint64_t seed, uint32_t layer)
{
    for (int t = 0; t < kind->tensor_count; t++) {
        const struct np_tensor *tensor = &kind->tensors[t];
        struct np_draw_key key = np_draw_key(seed, NP_DRAW_INIT, 0, layer, (uint32_t)t);
        if (tensor->init == NP_INIT_NORMAL)
            kernels->normal(team, w + tensor->offset, tensor->count, key, tensor->std);
        else
            kernels->fill(team, w + tensor->offset, tensor->count,
                          tensor->init == NP_INIT_ONE ? 1.0f : 0.0f);
    }
    np_team_wait(team);
}

/* 1 / (1 - beta^t) by binary exponentiation, least significant bit first. */
static float correction(float beta, uint64_t t)
{
    double power = 1.0, square = (double)beta;
    for (; t; t >>= 1) {
        if (t & 1)
            power *= square;
        square *= square;
    }
    return (float)(1.0 / (1.0 - power));
}

static struct np_update update_of(const struct np_recipe *recipe,
                                  const struct np_weights_update *update)
{
    const struct np_optimizer *optimizer = &recipe->optimizer;
    struct np_update u = {.w = update->w,
                          .m = update->m,
                          .v = update->v,
                          .g = update->g,
                          .address = np_fingerprint_address(update->layer, 0),
                          .limit = INFINITY,
                          .lr = update->lr,
                          .beta1 = (float)optimizer->beta1,
                          .beta2 = (float)optimizer->beta2,
                          .eps = (float)optimizer->eps,
                          .momentum = (float)optimizer->momentum,
                          .nesterov = optimizer->nesterov};
    if (recipe->clip == NP_CLIP_VALUE)
        u.limit = (float)recipe->clip_limit;
    if (optimizer->kind == NP_ADAMW) {
        u.c1 = correction(u.beta1, update->updates + 1);
        u.c2 = correction(u.beta2, update->updates + 1);
    }
    return u;
}

/* The squared norm of a layer's gradient; returns after a wait. */
static const float *squared_norm(const struct np_kernels *kernels, struct np_team *team,
                                 const struct np_weights_update *update)
{
    for (int t = 0; t < update->kind->tensor_count; t++)
        kernels->sumsq(team, update->square, update->g + update->kind->tensors[t].offset,
                       update->kind->tensors[t].count, t > 0);
    np_team_wait(team);
    return update->square;
}

/* True if all members' shares are finite; returns after a wait. */
static bool agree(struct np_team *team, const struct np_weights_update *update, bool finite)
{
    update->agreed[team->rank] = finite ? 1.0f : 0.0f;
    np_team_wait(team);
    for (int rank = 0; rank < team->size; rank++)
        finite = finite && update->agreed[rank] != 0.0f;
    return finite;
}

bool np_weights_update(const struct np_kernels *kernels, struct np_team *team,
                       const struct np_recipe *recipe, const struct np_weights_update *update,
                       uint64_t *fingerprint)
{
    const struct np_kind *kind = update->kind;
    struct np_layer_update u = {.layer = update_of(recipe, update)};
    bool finite = true;
    if (recipe->clip == NP_CLIP_LAYER) {
        u.layer.square = squared_norm(kernels, team, update);
        u.layer.norm_limit = (float)recipe->clip_limit;
    }
    for (int t = 0; finite && t < kind->tensor_count; t += u.count) {
        u.count = kind->tensor_count - t;
        u.count = u.count < NP_UPDATE_TENSORS ? u.count : NP_UPDATE_TENSORS;
        for (int i = 0; i < u.count; i++) {
            const struct np_tensor *tensor = &kind->tensors[t + i];
            float decay = tensor->decay ? (float)recipe->optimizer.weight_decay : 0.0f;
            u.of[i] = (struct np_update_tensor){tensor->offset, tensor->count, decay};
        }
        finite = recipe->optimizer.kind == NP_ADAMW ? kernels->adamw(team, &u, fingerprint)
                                                    : kernels->sgd(team, &u, fingerprint);
    }
    return agree(team, update, finite);
}
