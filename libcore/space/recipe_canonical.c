/* The canonical text. Its bytes are what the recipe's digest covers: changing anything here makes
 * every recipe another one. */
#include <string.h>

#include "base/text.h"
#include "space/recipe_internal.h"

const struct np_names np_names_input = {{"tokens", "pairs", "images"}, 3};
const struct np_names np_names_padding = {{"seen", "masked"}, 2};
const struct np_names np_names_data = {
    {"bytes", "tokens", "pairs", "token_pairs", "idx", "cifar10", "cifar100"}, 7};
const struct np_names np_names_sampler = {{"uniform", "fair", "spread", "sandwich"}, 4};
const struct np_names np_names_optimizer = {{"sgd", "adamw"}, 2};
const struct np_names np_names_schedule = {
    {"constant", "linear", "cosine", "inverse_sqrt", "multistep", "step"}, 6};
const struct np_names np_names_clip = {{"none", "value", "layer"}, 3};
const struct np_names np_names_order = {{"drawn", "shuffled"}, 2};
const struct np_names np_names_jitter = {{"brightness", "contrast", "saturation", "hue"},
                                         NP_JITTERS};

static enum np_status write_numbers(struct np_buf *buf, const char *key, const double *numbers,
                                    int count, struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_buf_printf(buf, err, ", %s: [", key));
    for (int i = 0; i < count; i++)
        NP_TRY(np_buf_printf(buf, err, i ? ", %s" : "%s", np_text_double(numbers[i]).s));
    NP_TRY(np_buf_append(buf, "]", 1, err));
out:
    return status;
}

/* Of what is changed at all. */
static enum np_status write_jitter(struct np_buf *buf, const double jitter[NP_JITTERS],
                                   struct np_error *err)
{
    const char *before = ", jitter: {", *end = "";
    enum np_status status;
    for (int i = 0; i < NP_JITTERS; i++)
        if (jitter[i] > 0.0) {
            NP_TRY(np_buf_printf(buf, err, "%s%s: %s", before, np_names_jitter.name[i],
                                 np_text_double(jitter[i]).s));
            before = ", ";
            end = "}";
        }
    NP_TRY(np_buf_append(buf, end, strlen(end), err));
out:
    return status;
}

/* What is said of images, of training ones also how they vary. */
static enum np_status write_images(struct np_buf *buf, const struct np_recipe *recipe,
                                   const struct np_data_spec *data, struct np_error *err)
{
    enum np_status status;
    NP_TRY(write_numbers(buf, "mean", data->mean, recipe->channels, err));
    NP_TRY(write_numbers(buf, "std", data->std, recipe->channels, err));
    if (data->stored[0] > 0)
        NP_TRY(np_buf_printf(buf, err, ", stored: [%d, %d]", data->stored[0], data->stored[1]));
    if (data == &recipe->train_data)
        NP_TRY(np_buf_printf(buf, err, ", crop: %d, flip: %s", data->crop,
                             data->flip ? "true" : "false"));
    if (data->cutout > 0)
        NP_TRY(np_buf_printf(buf, err, ", cutout: %d", data->cutout));
    if (data->scale[0] > 0.0)
        NP_TRY(write_numbers(buf, "scale", data->scale, 2, err));
    NP_TRY(write_jitter(buf, data->jitter, err));
out:
    return status;
}

static enum np_status write_data(struct np_buf *buf, const char *key,
                                 const struct np_recipe *recipe, const struct np_data_spec *data,
                                 struct np_error *err)
{
    enum np_status status;
    NP_TRY(
        np_buf_printf(buf, err, "  %s: {kind: %s, files: [", key, np_names_data.name[data->kind]));
    for (int i = 0; i < data->file_count; i++) {
        if (i > 0)
            NP_TRY(np_buf_append(buf, ", ", 2, err));
        NP_TRY(np_yaml_quote(buf, data->files[i], err));
    }
    NP_TRY(np_buf_append(buf, "]", 1, err));
    NP_TRY(write_numbers(buf, "part", data->part, 2, err));
    if (data->shuffled)
        NP_TRY(np_buf_printf(buf, err, ", order: shuffled"));
    if (recipe->input == NP_INPUT_IMAGES)
        NP_TRY(write_images(buf, recipe, data, err));
    NP_TRY(np_buf_append(buf, "}\n", 2, err));
out:
    return status;
}

static enum np_status write_policies(struct np_buf *buf, const struct np_recipe *recipe,
                                     struct np_error *err)
{
    enum np_status status;
    if (recipe->shared_frozen)
        NP_TRY(np_buf_printf(buf, err, "shared: {policy: frozen}\n"));
    else
        NP_TRY(np_buf_printf(buf, err, "shared: {policy: delay, steps: %d}\n", recipe->delay));
    NP_TRY(np_buf_printf(buf, err, "sampler: {kind: %s, members: %d",
                         np_names_sampler.name[recipe->sampler], recipe->members));
    if (recipe->sampler == NP_SAMPLER_SPREAD)
        NP_TRY(np_buf_printf(buf, err, ", spread: %d", recipe->spread));
    if (recipe->same_batch != (recipe->sampler == NP_SAMPLER_SANDWICH))
        NP_TRY(np_buf_printf(buf, err, ", batch: %s", recipe->same_batch ? "same" : "own"));
    NP_TRY(np_buf_append(buf, "}\n", 2, err));
out:
    return status;
}

static enum np_status write_optimizer(struct np_buf *buf, const struct np_optimizer *o,
                                      struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_buf_printf(buf, err, "  optimizer: {kind: %s, lr: %s",
                         np_names_optimizer.name[o->kind], np_text_double(o->lr).s));
    if (o->kind == NP_ADAMW)
        NP_TRY(np_buf_printf(buf, err, ", beta1: %s, beta2: %s, eps: %s",
                             np_text_double(o->beta1).s, np_text_double(o->beta2).s,
                             np_text_double(o->eps).s));
    else
        NP_TRY(np_buf_printf(buf, err, ", momentum: %s, nesterov: %s",
                             np_text_double(o->momentum).s, o->nesterov ? "true" : "false"));
    NP_TRY(np_buf_printf(buf, err, ", weight_decay: %s}\n", np_text_double(o->weight_decay).s));
out:
    return status;
}

static enum np_status write_schedule(struct np_buf *buf, const struct np_recipe *recipe,
                                     struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_buf_printf(buf, err, "  schedule: {kind: %s, warmup: %llu",
                         np_names_schedule.name[recipe->schedule],
                         (unsigned long long)recipe->warmup));
    if (recipe->final > 0)
        NP_TRY(np_buf_printf(buf, err, ", final: %s", np_text_double(recipe->final).s));
    if (recipe->schedule == NP_LR_MULTISTEP) {
        for (int i = 0; i < recipe->milestone_count; i++)
            NP_TRY(np_buf_printf(buf, err, i ? ", %llu" : ", milestones: [%llu",
                                 (unsigned long long)recipe->milestones[i]));
        NP_TRY(np_buf_printf(buf, err, "], gamma: %s", np_text_double(recipe->gamma).s));
    }
    if (recipe->schedule == NP_LR_STEP)
        NP_TRY(np_buf_printf(buf, err, ", every: %llu, gamma: %s",
                             (unsigned long long)recipe->every, np_text_double(recipe->gamma).s));
    NP_TRY(np_buf_printf(buf, err, "}\n"));
out:
    return status;
}

static enum np_status write_train(struct np_buf *buf, const struct np_recipe *recipe,
                                  struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_buf_printf(buf, err, "train:\n  steps: %llu\n  batch: %d\n  grain: %d\n",
                         (unsigned long long)recipe->steps, recipe->batch, recipe->grain));
    NP_TRY(write_optimizer(buf, &recipe->optimizer, err));
    NP_TRY(write_schedule(buf, recipe, err));
    NP_TRY(np_buf_printf(buf, err, "  loss: {kind: cross_entropy, label_smoothing: %s",
                         np_text_double(recipe->label_smoothing).s));
    if (recipe->distill > 0)
        NP_TRY(np_buf_printf(buf, err, ", distill: %s", np_text_double(recipe->distill).s));
    NP_TRY(np_buf_printf(buf, err, "}\n  clip: {kind: %s", np_names_clip.name[recipe->clip]));
    if (recipe->clip != NP_CLIP_NONE)
        NP_TRY(np_buf_printf(buf, err, ", limit: %s", np_text_double(recipe->clip_limit).s));
    NP_TRY(np_buf_printf(buf, err, "}\n  checkpoint_every: %llu\n",
                         (unsigned long long)recipe->checkpoint_every));
    if (recipe->calibration)
        NP_TRY(np_buf_printf(buf, err, "  calibration: %d\n", recipe->calibration));
    if (recipe->has_init)
        NP_TRY(np_buf_printf(buf, err, "  init: %s\n", np_digest_hex(&recipe->init).s));
out:
    return status;
}

enum np_status np_recipe_write(const struct np_recipe *recipe, struct np_buf *buf,
                               struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_buf_printf(buf, err, "naspipe: recipe/1\nseed: %llu\nnumerics: %s\ndata:\n",
                         (unsigned long long)recipe->seed, recipe->numerics->name));
    NP_TRY(write_data(buf, "train", recipe, &recipe->train_data, err));
    if (recipe->valid_data.given)
        NP_TRY(write_data(buf, "valid", recipe, &recipe->valid_data, err));
    NP_TRY(np_recipe_write_space(buf, recipe, err));
    NP_TRY(write_policies(buf, recipe, err));
    NP_TRY(write_train(buf, recipe, err));
out:
    return status;
}
