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
    struct np_update u = {.scale = 1.0f,
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

/* The factor of a layer's gradient when its norm is limited; 0 for a norm that overflows. */
static float clip_scale(const struct np_kernels *kernels, struct np_team *team,
                        const struct np_weights_update *update, float limit)
{
    const struct np_kind *kind = update->kind;
    float sum = 0.0f, norm;
    for (int t = 0; t < kind->tensor_count; t++) {
        float square =
            kernels->sumsq(team, update->g + kind->tensors[t].offset, kind->tensors[t].count);
        sum = t == 0 ? square : sum + square;
    }
    norm = sqrtf(sum);
    if (team->rank == 0)
        update->agreed[0] = norm > limit ? limit / norm : 1.0f;
    np_team_wait(team);
    return update->agreed[0];
}

/* True if all members' shares are finite; returns after a wait. */
static bool agree(struct np_team *team, const struct np_weights_update *update, bool finite)
{
    update->agreed[1 + team->rank] = finite ? 1.0f : 0.0f;
    np_team_wait(team);
    for (int rank = 0; rank < team->size; rank++)
        finite = finite && update->agreed[1 + rank] != 0.0f;
    return finite;
}

bool np_weights_update(const struct np_kernels *kernels, struct np_team *team,
                       const struct np_recipe *recipe, const struct np_weights_update *update,
                       uint64_t *fingerprint)
{
    const struct np_kind *kind = update->kind;
    struct np_update u = update_of(recipe, update);
    bool finite;
    if (recipe->clip == NP_CLIP_LAYER)
        u.scale = clip_scale(kernels, team, update, (float)recipe->clip_limit);
    finite = u.scale > 0;
    for (int t = 0; finite && t < kind->tensor_count; t++) {
        const struct np_tensor *tensor = &kind->tensors[t];
        u.w = update->w + tensor->offset;
        u.m = update->m ? update->m + tensor->offset : NULL;
        u.v = update->v ? update->v + tensor->offset : NULL;
        u.g = update->g + tensor->offset;
        u.count = tensor->count;
        u.address = np_fingerprint_address(update->layer, tensor->offset);
        u.decay = tensor->decay ? (float)recipe->optimizer.weight_decay : 0.0f;
        finite = recipe->optimizer.kind == NP_ADAMW ? kernels->adamw(team, &u, fingerprint)
                                                    : kernels->sgd(team, &u, fingerprint);
    }
    return agree(team, update, finite);
}
