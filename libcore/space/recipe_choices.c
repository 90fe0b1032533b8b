/* The candidates of an item's blocks, and whether they fit where these stand. */
#include <stdio.h>

#include "base/memory.h"
#include "space/depth.h"
#include "space/parts.h"
#include "space/recipe_blocks.h"

/* Where candidates stand: the first block of an item may change the shape, the others do not. */
static void find_places(const struct np_item_list *list, const struct np_item *item,
                        struct np_layer_context *context)
{
    const struct np_block *block = &item->block;
    const struct np_block *x = block->from > 0 ? &list->recipe->blocks[block->from - 1] : NULL;
    struct np_shape out = np_shape_of_block(list->recipe, block, item->in);
    context->places[0] = (struct np_place){item->in, out, block->stride, x};
    context->places[1] = (struct np_place){out, out, 1, block};
    context->place_count = np_item_blocks(item) > 1 ? 2 : 1;
    context->block = block;
}

/* The target's embedding begins another sequence: it is there once, and there is no choice. */
static enum np_status check_target(struct np_item_list *list, const struct np_item *item,
                                   const struct np_layer_spec *spec,
                                   const struct np_yaml_node *choice, struct np_error *err)
{
    if (spec->op != NP_OP_EMBEDDING)
        return NP_OK;
    if (item->block.count > 1 || np_item_blocks(item) > 1)
        return np_yaml_fail(choice, err, "the target's embedding must be a block of its own");
    if (list->target)
        return np_yaml_fail(choice, err, "the target's embedding is there already");
    list->target = true;
    return NP_OK;
}

/* An array for candidates, which is the recipe's. */
static enum np_status new_choices(struct np_item_list *list, size_t count,
                                  struct np_layer_spec **choices, struct np_error *err)
{
    struct np_recipe *recipe = list->recipe;
    size_t used = (size_t)recipe->list_count;
    enum np_status status;
    NP_TRY(np_grow(&recipe->lists, &list->list_capacity, used, sizeof *recipe->lists, err));
    NP_TRY(np_zalloc(choices, count, sizeof **choices, err));
    recipe->lists[recipe->list_count++] = *choices;
out:
    return status;
}

/* "64x256" */
static const char *shape_text(char *out, size_t bytes, const struct np_tensor *tensor)
{
    size_t used = 0;
    for (int i = 0; i < tensor->rank; i++)
        used += (size_t)snprintf(out + used, bytes - used, i ? "x%zu" : "%zu", tensor->shape[i]);
    return out;
}

static enum np_status refuse_part(const struct np_yaml_node *choice, const struct np_tensor *tensor,
                                  const struct np_kind *whole, int candidate, struct np_error *err)
{
    const struct np_tensor *there = np_kind_tensor(whole, tensor->name);
    char inner[96], outer[96];
    if (!there)
        return np_yaml_fail(choice, err,
                            "entangled weights: candidate %d, the largest like this one, has no "
                            "'%s'",
                            candidate, tensor->name);
    return np_yaml_fail(choice, err,
                        "entangled weights: '%s' of %s is no part of that of candidate %d, the "
                        "largest like this one, of %s",
                        tensor->name, shape_text(inner, sizeof inner, tensor), candidate,
                        shape_text(outer, sizeof outer, there));
}

/* Where the candidate behind the one at `choice` is written: those of each width are once. */
static const struct np_yaml_node *next_choice(const struct np_yaml_node *choice,
                                              const struct np_yaml_node *first)
{
    return choice->next ? choice->next : first;
}

/* Each candidate of an entangled block has a place in the largest one like it. */
static enum np_status check_family(const struct np_family *family, const struct np_block *block,
                                   const struct np_yaml_node *first, struct np_error *err)
{
    const struct np_yaml_node *choice = first;
    for (int i = 0; i < family->count; i++) {
        const struct np_kind *part = &family->kinds[i], *whole = &family->kinds[family->whole[i]];
        const struct np_tensor *tensor = np_part_misfit(part, whole);
        if (np_depth_passes(block, i))
            continue;
        if (tensor)
            return refuse_part(choice, tensor, whole, family->whole[i], err);
        choice = next_choice(choice, first);
    }
    return NP_OK;
}

static enum np_status check_entangled(const struct np_item *item,
                                      const struct np_layer_context *context,
                                      const struct np_yaml_node *choice, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int i = 0; item->block.entangled && i < context->place_count && status == NP_OK; i++) {
        struct np_setting setting = {.in = context->places[i].in,
                                     .out = context->places[i].out,
                                     .stride = context->places[i].stride,
                                     .x = context->places[i].x};
        struct np_family family;
        if (context->memory >= 0)
            setting.memory = context->memories[context->memory];
        status = np_family_init(&family, context->recipe, &item->block, &setting, err);
        if (status == NP_OK)
            status = check_family(&family, &item->block, choice, err);
        np_family_clear(&family);
    }
    return status;
}

/* Whether an identity in a block hands on all that there is of what it reads. */
static bool hands_on(const struct np_block *block, const struct np_place *place,
                     struct np_channels channels)
{
    const struct np_block *x = place->x;
    if (block->widths && (!x || !np_widths_tied(x, block) || x->sum >= 0))
        return false;
    return place->stride == 1 && np_shape_equal(place->in, place->out) &&
           channels.reads == channels.makes;
}

/* The candidate by which a block is passed over. */
static enum np_status add_pass(const struct np_item *item, const struct np_layer_context *context,
                               struct np_layer_spec *spec, struct np_error *err)
{
    const struct np_block *block = &item->block;
    spec->op = NP_OP_IDENTITY;
    for (int i = 0; i < context->place_count; i++) {
        const struct np_place *place = &context->places[i];
        struct np_channels channels =
            np_width_channels(block, context->candidate, place->x, place->in, place->out);
        if (hands_on(block, place, channels))
            continue;
        return np_yaml_fail(item->node, err,
                            "a 'depth' passes over what keeps the shape%s, not from %dx%dx%d to "
                            "%dx%dx%d%s",
                            block->widths ? ", its widths tied to those it reads" : "",
                            place->in.height, place->in.width, channels.reads, place->out.height,
                            place->out.width, channels.makes,
                            place->stride == 1 ? "" : " by a stride");
    }
    return NP_OK;
}

enum np_status np_item_read_choices(struct np_item_list *list, struct np_item *item,
                                    const struct np_yaml_node *first, const int *widths,
                                    struct np_error *err)
{
    struct np_recipe *recipe = list->recipe;
    struct np_layer_context context = {.recipe = recipe,
                                       .role = NP_ROLE_CHOICE,
                                       .names = list->named.words,
                                       .memories = list->named.shapes,
                                       .name_count = list->named.count,
                                       .memory = -1};
    const struct np_yaml_node *choice = first;
    struct np_layer_spec *spec;
    enum np_status status;
    NP_TRY(new_choices(list, (size_t)item->block.count, &spec, err));
    item->block.choices = spec;
    for (int i = 0; item->block.widths && i < item->block.count; i++)
        spec[i].width = widths[i / np_width_candidates(&item->block)];
    find_places(list, item, &context);
    for (int i = 0; i < item->block.count; i++) {
        context.candidate = i;
        if (np_depth_passes(&item->block, i)) {
            NP_TRY(add_pass(item, &context, &spec[i], err));
            continue;
        }
        NP_TRY(np_recipe_read_layer(&spec[i], choice, &context, err));
        NP_TRY(check_target(list, item, &spec[i], choice, err));
        choice = next_choice(choice, first);
    }
    NP_TRY(check_entangled(item, &context, first, err));
    item->block.memory = context.memory < 0 ? -1 : list->named.positions[context.memory];
    list->batch_norm = list->batch_norm || context.batch_norm || item->block.inputs == 2;
out:
    return status;
}

enum np_status np_item_count_choices(struct np_item *item, const struct np_yaml_node *choices,
                                     struct np_error *err)
{
    struct np_block *block = &item->block;
    size_t each = choices->count + (block->level > 0), widths = block->widths ? block->widths : 1;
    block->count = (int)(each * widths);
    if (block->count <= NP_MAX_CHOICES)
        return NP_OK;
    return np_yaml_fail(choices, err, "%zu candidates of %zu width%s are more than %d", each,
                        widths, widths == 1 ? "" : "s", NP_MAX_CHOICES);
}
