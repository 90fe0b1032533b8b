#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "space/recipe_internal.h"

#define LARGE 1e30  /* what single precision keeps */
#define SMALL 1e-30 /* the same, above NP_FLUSH */
#define MAX_DECAY 1e6
#define MAX_CALIBRATION 4096

static enum np_status read_adamw(struct np_optimizer *o, struct np_yaml_map *map,
                                 struct np_error *err)
{
    enum np_status status;
    o->lr = 1e-3;
    o->beta1 = 0.9;
    o->beta2 = 0.999;
    o->eps = 1e-8;
    o->weight_decay = 0.01;
    NP_TRY(np_recipe_get_fraction(np_yaml_find(map, "beta1"), &o->beta1, err));
    NP_TRY(np_recipe_get_fraction(np_yaml_find(map, "beta2"), &o->beta2, err));
    NP_TRY(
        np_recipe_get_double(np_yaml_find(map, "eps"), &o->eps, SMALL, 1.0, NP_YAML_CLOSED, err));
out:
    return status;
}

static enum np_status read_sgd(struct np_optimizer *o, struct np_yaml_map *map,
                               struct np_error *err)
{
    const struct np_yaml_node *nesterov = np_yaml_find(map, "nesterov");
    enum np_status status;
    o->lr = 0.01;
    o->momentum = 0.9;
    NP_TRY(np_recipe_get_fraction(np_yaml_find(map, "momentum"), &o->momentum, err));
    NP_TRY(np_yaml_get_bool(nesterov, &o->nesterov, err));
    if (o->nesterov && (float)o->momentum == 0.0f)
        NP_TRY(np_yaml_fail(nesterov, err, "'nesterov' needs a momentum above 0"));
out:
    return status;
}

static enum np_status read_optimizer(struct np_optimizer *o, const struct np_yaml_node *node,
                                     struct np_error *err)
{
    struct np_yaml_map map;
    enum np_status status;
    int kind = NP_ADAMW;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(np_recipe_get_name(np_yaml_find(&map, "kind"), &kind, &np_names_optimizer, err));
    o->kind = (enum np_optimizer_kind)kind;
    NP_TRY(o->kind == NP_ADAMW ? read_adamw(o, &map, err) : read_sgd(o, &map, err));
    NP_TRY(
        np_recipe_get_double(np_yaml_find(&map, "lr"), &o->lr, SMALL, LARGE, NP_YAML_CLOSED, err));
    NP_TRY(np_recipe_get_double(np_yaml_find(&map, "weight_decay"), &o->weight_decay, 0.0,
                                MAX_DECAY, NP_YAML_CLOSED, err));
    NP_TRY(np_yaml_map_finish(&map, err));
out:
    return status;
}

/* A milestone during the warmup would be none, and at step 0 another learning rate. */
static enum np_status read_milestones(struct np_recipe *recipe, struct np_yaml_map *map,
                                      struct np_error *err)
{
    const struct np_yaml_node *node = np_yaml_need(map, "milestones"), *item;
    uint64_t least = recipe->warmup ? recipe->warmup : 1, before = 0;
    enum np_status status;
    NP_TRY(np_yaml_get_list(node, &item, 1, NP_MAX_MILESTONES, err));
    NP_TRY(np_alloc(&recipe->milestones, node->count, sizeof *recipe->milestones, err));
    for (; item; item = item->next) {
        uint64_t *step = &recipe->milestones[recipe->milestone_count++];
        NP_TRY(np_yaml_get_uint(item, step, least, INT64_MAX, err));
        if (*step <= before)
            NP_TRY(np_yaml_fail(item, err, "'milestones' ascend: %" PRIu64 " is not above %" PRIu64,
                                *step, before));
        before = *step;
    }
out:
    return status;
}

static enum np_status read_schedule(struct np_recipe *recipe, const struct np_yaml_node *node,
                                    struct np_error *err)
{
    struct np_yaml_map map;
    enum np_status status;
    int kind = NP_LR_CONSTANT;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(np_recipe_get_name(np_yaml_find(&map, "kind"), &kind, &np_names_schedule, err));
    recipe->schedule = (enum np_schedule_kind)kind;
    /* The inverse square root is counted in warm-ups. */
    NP_TRY(np_yaml_get_uint(kind == NP_LR_INVERSE_SQRT ? np_yaml_need(&map, "warmup")
                                                       : np_yaml_find(&map, "warmup"),
                            &recipe->warmup, kind == NP_LR_INVERSE_SQRT, INT64_MAX, err));
    if (kind == NP_LR_LINEAR || kind == NP_LR_COSINE)
        NP_TRY(np_recipe_get_fraction(np_yaml_find(&map, "final"), &recipe->final, err));
    if (kind == NP_LR_MULTISTEP)
        NP_TRY(read_milestones(recipe, &map, err));
    if (kind == NP_LR_STEP)
        NP_TRY(np_yaml_get_uint(np_yaml_need(&map, "every"), &recipe->every, 1, INT64_MAX, err));
    if (kind == NP_LR_MULTISTEP || kind == NP_LR_STEP) {
        recipe->gamma = 0.1;
        NP_TRY(np_recipe_get_double(np_yaml_find(&map, "gamma"), &recipe->gamma, 0.0, 1.0,
                                    NP_YAML_OPEN_MIN, err));
    }
    NP_TRY(np_yaml_map_finish(&map, err));
out:
    return status;
}

static enum np_status read_loss(struct np_recipe *recipe, const struct np_yaml_node *node,
                                struct np_error *err)
{
    static const char *const kinds[] = {"cross_entropy"};
    struct np_yaml_map map;
    enum np_status status;
    const struct np_yaml_node *distill;
    int kind = 0;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(np_yaml_get_word(np_yaml_find(&map, "kind"), &kind, kinds, 1, err));
    distill = np_yaml_find(&map, "distill");
    NP_TRY(np_recipe_get_fraction(np_yaml_find(&map, "label_smoothing"), &recipe->label_smoothing,
                                  err));
    NP_TRY(np_recipe_get_double(distill, &recipe->distill, 0, 1, NP_YAML_CLOSED, err));
    if (recipe->distill > 0 && (recipe->members == 1 || !recipe->same_batch))
        NP_TRY(np_yaml_fail(distill, err,
                            "'distill' is of steps whose members have the same batch: 'members' "
                            "and 'batch' of 'sampler'"));
    NP_TRY(np_yaml_map_finish(&map, err));
out:
    return status;
}

static enum np_status read_clip(struct np_recipe *recipe, const struct np_yaml_node *node,
                                struct np_error *err)
{
    struct np_yaml_map map;
    enum np_status status;
    int kind = NP_CLIP_NONE;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(np_recipe_get_name(np_yaml_find(&map, "kind"), &kind, &np_names_clip, err));
    recipe->clip = (enum np_clip_kind)kind;
    if (recipe->clip != NP_CLIP_NONE)
        NP_TRY(np_recipe_get_double(np_yaml_need(&map, "limit"), &recipe->clip_limit, SMALL, LARGE,
                                    NP_YAML_CLOSED, err));
    NP_TRY(np_yaml_map_finish(&map, err));
out:
    return status;
}

/* By default the largest divisor of the batch up to an eighth of it. */
static enum np_status read_batch(struct np_recipe *recipe, struct np_yaml_map *map,
                                 struct np_error *err)
{
    const struct np_yaml_node *batch = np_yaml_find(map, "batch");
    const struct np_yaml_node *grain = np_yaml_find(map, "grain");
    enum np_status status;
    recipe->batch = 16;
    NP_TRY(np_recipe_get_int(batch, &recipe->batch, 1, NP_MAX_BATCH, err));
    recipe->grain = recipe->batch < 16 ? 1 : recipe->batch / 8;
    while (recipe->batch % recipe->grain != 0)
        recipe->grain--;
    NP_TRY(np_recipe_get_int(grain, &recipe->grain, 1, recipe->batch, err));
    if (recipe->batch % recipe->grain != 0)
        NP_TRY(np_yaml_fail(grain, err, "'grain' must divide the batch of %d, not %d",
                            recipe->batch, recipe->grain));
    if (recipe->batch / recipe->grain > NP_MAX_GRAINS)
        NP_TRY(np_yaml_fail(grain, err, "a batch of %d in grains of %d is more than %d grains",
                            recipe->batch, recipe->grain, NP_MAX_GRAINS));
out:
    return status;
}

static enum np_status read_init(struct np_recipe *recipe, const struct np_yaml_node *node,
                                struct np_error *err)
{
    const char *text;
    enum np_status status;
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    NP_TRY(np_yaml_get_string(node, &text, err));
    recipe->has_init = np_digest_parse(&recipe->init, text, strlen(text));
    if (!recipe->has_init)
        NP_TRY(np_yaml_fail(node, err,
                            "'init' is the digest of a run, 64 lower-case hexadecimal digits, not "
                            "'%s'",
                            np_text_safe(text).s));
out:
    return status;
}

enum np_status np_recipe_read_train(struct np_recipe *recipe, const struct np_yaml_node *node,
                                    struct np_error *err)
{
    const struct np_yaml_node *calibration;
    struct np_yaml_map map;
    enum np_status status;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(np_yaml_get_uint(np_yaml_need(&map, "steps"), &recipe->steps, 1, INT64_MAX, err));
    NP_TRY(read_batch(recipe, &map, err));
    NP_TRY(read_optimizer(&recipe->optimizer, np_yaml_find(&map, "optimizer"), err));
    NP_TRY(read_schedule(recipe, np_yaml_find(&map, "schedule"), err));
    NP_TRY(read_loss(recipe, np_yaml_find(&map, "loss"), err));
    NP_TRY(read_clip(recipe, np_yaml_find(&map, "clip"), err));
    NP_TRY(np_yaml_get_uint(np_yaml_find(&map, "checkpoint_every"), &recipe->checkpoint_every, 0,
                            INT64_MAX, err));
    calibration = np_yaml_find(&map, "calibration");
    if (recipe->calibration)
        NP_TRY(np_recipe_get_int(calibration, &recipe->calibration, 1, MAX_CALIBRATION, err));
    else if (calibration->kind != NP_YAML_ABSENT)
        NP_TRY(np_yaml_fail(calibration, err, "'calibration' is of spaces with batch norm"));
    NP_TRY(read_init(recipe, np_yaml_find(&map, "init"), err));
    NP_TRY(np_yaml_map_finish(&map, err));
out:
    return status;
}
