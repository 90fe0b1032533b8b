/* The canonical text. Its bytes are what the recipe's digest covers: changing anything here makes
 * every recipe another one. */
#include <string.h>

#include "base/text.h"
#include "space/op_fields.h"
#include "space/recipe_internal.h"

const struct np_names np_names_data = {{"bytes", "tokens"}, 2};
const struct np_names np_names_sampler = {{"uniform", "fair", "spread"}, 3};
const struct np_names np_names_optimizer = {{"sgd", "adamw"}, 2};
const struct np_names np_names_schedule = {{"constant", "linear", "cosine", "inverse_sqrt"}, 4};
const struct np_names np_names_clip = {{"none", "value", "layer"}, 3};

static enum np_status write_data(struct np_buf *buf, const char *key,
                                 const struct np_data_spec *data, struct np_error *err)
{
    enum np_status status;
    NP_TRY(
        np_buf_printf(buf, err, "  %s: {kind: %s, files: [", key, np_names_data.name[data->kind]));
    for (int i = 0; i < data->file_count; i++) {
        if (i > 0)
            NP_TRY(np_buf_append(buf, ", ", 2, err));
        NP_TRY(np_yaml_quote(buf, data->files[i], err));
    }
    NP_TRY(np_buf_printf(buf, err, "], part: [%s, %s]}\n", np_text_double(data->part[0]).s,
                         np_text_double(data->part[1]).s));
out:
    return status;
}

static enum np_status write_choice(struct np_buf *buf, const struct np_layer_spec *spec,
                                   struct np_error *err)
{
    const struct np_op_fields *has = np_op_fields(spec->op);
    enum np_status status;
    NP_TRY(np_buf_printf(buf, err, "        - {op: %s", has->name));
    if (has->heads)
        NP_TRY(np_buf_printf(buf, err, ", heads: %d", spec->heads));
    if (has->ratio)
        NP_TRY(np_buf_printf(buf, err, ", ratio: %d", spec->ratio));
    if (has->act)
        NP_TRY(np_buf_printf(buf, err, ", act: %s", np_act_name(spec->act)));
    if (has->kernel)
        NP_TRY(np_buf_printf(buf, err, ", kernel: %d", spec->kernel));
    if (has->dropout)
        NP_TRY(np_buf_printf(buf, err, ", dropout: %s", np_text_float(spec->dropout).s));
    NP_TRY(np_buf_append(buf, "}\n", 2, err));
out:
    return status;
}

static bool same_block(const struct np_block *a, const struct np_block *b)
{
    return a->count == b->count &&
           (a->choices == b->choices ||
            memcmp(a->choices, b->choices, (size_t)a->count * sizeof *a->choices) == 0);
}

/* Equal neighbours fold into one `repeat`, however they were written. */
static enum np_status write_blocks(struct np_buf *buf, const struct np_recipe *recipe,
                                   struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int first = 0, next; first < recipe->block_count; first = next) {
        const struct np_block *block = &recipe->blocks[first];
        next = first + 1;
        while (next < recipe->block_count && same_block(block, &recipe->blocks[next]))
            next++;
        NP_TRY(np_buf_printf(buf, err, "    - repeat: %d\n      choices:\n", next - first));
        for (int i = 0; i < block->count; i++)
            NP_TRY(write_choice(buf, &block->choices[i], err));
    }
out:
    return status;
}

static enum np_status write_space(struct np_buf *buf, const struct np_recipe *recipe,
                                  struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_buf_printf(buf, err,
                         "space:\n"
                         "  input: {kind: tokens, vocab: %d, length: %d}\n"
                         "  width: %d\n"
                         "  stem: {op: %s, positions: learned}\n"
                         "  blocks:\n",
                         recipe->vocab, recipe->length, recipe->width,
                         np_op_name(recipe->stem.op)));
    NP_TRY(write_blocks(buf, recipe, err));
    NP_TRY(np_buf_printf(buf, err, "  head: {op: %s}\n", np_op_name(recipe->head.op)));
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

static enum np_status write_train(struct np_buf *buf, const struct np_recipe *recipe,
                                  struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_buf_printf(buf, err, "train:\n  steps: %llu\n  batch: %d\n  grain: %d\n",
                         (unsigned long long)recipe->steps, recipe->batch, recipe->grain));
    NP_TRY(write_optimizer(buf, &recipe->optimizer, err));
    NP_TRY(
        np_buf_printf(buf, err,
                      "  schedule: {kind: %s, warmup: %llu}\n"
                      "  loss: {kind: cross_entropy, label_smoothing: %s}\n"
                      "  clip: {kind: %s",
                      np_names_schedule.name[recipe->schedule], (unsigned long long)recipe->warmup,
                      np_text_double(recipe->label_smoothing).s, np_names_clip.name[recipe->clip]));
    if (recipe->clip != NP_CLIP_NONE)
        NP_TRY(np_buf_printf(buf, err, ", limit: %s", np_text_double(recipe->clip_limit).s));
    NP_TRY(np_buf_printf(buf, err, "}\n  checkpoint_every: %llu\n",
                         (unsigned long long)recipe->checkpoint_every));
out:
    return status;
}

enum np_status np_recipe_write(const struct np_recipe *recipe, struct np_buf *buf,
                               struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_buf_printf(buf, err, "naspipe: recipe/1\nseed: %llu\nnumerics: portable/1\ndata:\n",
                         (unsigned long long)recipe->seed));
    NP_TRY(write_data(buf, "train", &recipe->train_data, err));
    if (recipe->valid_data.given)
        NP_TRY(write_data(buf, "valid", &recipe->valid_data, err));
    NP_TRY(write_space(buf, recipe, err));
    NP_TRY(write_policies(buf, recipe, err));
    NP_TRY(write_train(buf, recipe, err));
out:
    return status;
}
