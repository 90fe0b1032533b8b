/* The list of choice blocks: its items, and whether what they stand for fits together. */
#include "space/recipe_blocks.h"

#include <stdlib.h>

#include "base/memory.h"

/* The widths that the item's candidates come in, which ascend: [block->widths]. */
static enum np_status read_widths(struct np_item *item, struct np_yaml_map *map, int *widths,
                                  struct np_error *err)
{
    const struct np_yaml_node *node = np_yaml_find(map, "widths"), *width;
    struct np_block *block = &item->block;
    enum np_status status = NP_OK;
    int before = 0;
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    if (block->cell)
        NP_TRY(np_yaml_fail(node, err, "a 'cell' has no widths"));
    NP_TRY(np_yaml_get_list(node, &width, 1, NP_MAX_WIDTHS, err));
    for (; width; width = width->next) {
        NP_TRY(np_recipe_get_int(width, &widths[block->widths], 1, NP_MAX_WIDTH, err));
        if (widths[block->widths] <= before)
            NP_TRY(np_yaml_fail(width, err, "'widths' ascend: %d is not above %d",
                                widths[block->widths], before));
        before = widths[block->widths++];
    }
out:
    return status;
}

/* The channels that the item's blocks make: of images by default those that the first one reads, or
 * the largest of its widths. */
static enum np_status read_out(struct np_item *item, struct np_yaml_map *map, const int *widths,
                               struct np_error *err)
{
    const struct np_yaml_node *out = np_yaml_find(map, "out");
    struct np_block *block = &item->block;
    if (block->widths)
        block->out = widths[block->widths - 1];
    return np_recipe_get_int(out, &block->out, block->widths ? block->out : 1, NP_MAX_WIDTH, err);
}

/* What sequences make has the space's width. */
static enum np_status check_largest(const struct np_item *item, struct np_yaml_map *map,
                                    const int *widths, struct np_error *err)
{
    const struct np_block *block = &item->block;
    if (!block->widths || widths[block->widths - 1] <= block->out)
        return NP_OK;
    return np_yaml_fail(np_yaml_find(map, "widths"), err,
                        "'widths' go up to the width of %d, not to %d", block->out,
                        widths[block->widths - 1]);
}

/* The channels that the item's blocks make, and the first one's stride. */
static enum np_status read_shape(const struct np_item_list *list, struct np_item *item,
                                 struct np_yaml_map *map, int *widths, struct np_error *err)
{
    struct np_block *block = &item->block;
    enum np_status status;
    item->in = list->shapes[block->from];
    block->out = item->in.channels;
    NP_TRY(read_widths(item, map, widths, err));
    if (list->recipe->input != NP_INPUT_IMAGES) {
        NP_TRY(check_largest(item, map, widths, err));
    } else {
        NP_TRY(read_out(item, map, widths, err));
        NP_TRY(np_recipe_get_int(np_yaml_find(map, "stride"), &block->stride, 1, 2, err));
        if (list->again)
            block->stride = 1;
    }
    if (block->inputs == 2)
        item->in.channels = block->out;
out:
    return status;
}

static enum np_status read_weights(struct np_item *item, const struct np_yaml_node *node,
                                   struct np_error *err)
{
    static const char *const words[] = {"own", "entangled"};
    int which = 0;
    enum np_status status = np_yaml_get_word(node, &which, words, 2, err);
    item->block.entangled = which == 1;
    return status;
}

static enum np_status read_origin(struct np_item *item, const struct np_yaml_node *node,
                                  struct np_error *err)
{
    if (item->block.cell && node->kind != NP_YAML_ABSENT)
        return np_yaml_fail(node, err, "a cell has no 'origin'");
    return np_recipe_get_int(node, &item->block.origin, 0, NP_MAX_CHOICES - 1, err);
}

static enum np_status read_cell(const struct np_item_list *list, struct np_item *item,
                                struct np_yaml_map *map, struct np_error *err)
{
    const struct np_yaml_node *repeat = np_yaml_find(map, "repeat");
    const struct np_yaml_node *cell = np_yaml_find(map, "cell"), *inputs = NULL;
    struct np_block *block = &item->block;
    enum np_status status;
    if (np_yaml_find(map, "depth")->kind == NP_YAML_ABSENT)
        NP_TRY(np_recipe_get_int(repeat, &item->repeat, 1, NP_MAX_BLOCKS, err));
    if (list->recipe->input == NP_INPUT_IMAGES) {
        inputs = np_yaml_find(map, "inputs");
        NP_TRY(np_recipe_get_int(inputs, &block->inputs, 1, 2, err));
    }
    if (block->inputs == 2 && cell->kind == NP_YAML_ABSENT)
        NP_TRY(np_yaml_fail(inputs, err, "a 'cell' alone has two inputs"));
    if (cell->kind != NP_YAML_ABSENT)
        NP_TRY(np_recipe_get_int(cell, &block->cell, block->inputs + 1, NP_MAX_CELL, err));
out:
    return status;
}

/* What the fit of the last input but one can do: keep the size, or halve it; and what is made of
 * all nodes. */
static enum np_status check_inputs(const struct np_item_list *list, const struct np_item *item,
                                   struct np_error *err)
{
    const struct np_shape *a = &list->shapes[list->before], *b = &list->shapes[list->made];
    const int64_t made = (int64_t)(item->block.cell - 2) * item->block.out;
    bool same;
    if (item->block.inputs != 2)
        return NP_OK;
    if (made > NP_MAX_WIDTH)
        return np_yaml_fail(item->node, err, "the cell makes %lld channels, more than %d",
                            (long long)made, NP_MAX_WIDTH);
    same = a->height == b->height && a->width == b->width;
    if (!same && ((a->height + 1) / 2 != b->height || (a->width + 1) / 2 != b->width))
        return np_yaml_fail(item->node, err,
                            "a cell of two inputs reads one size, or its double first: not %dx%d "
                            "and %dx%d",
                            a->height, a->width, b->height, b->width);
    if (same && (item->repeat == 1 || item->block.stride == 1 || np_shape_rows(*b) == 1))
        return NP_OK; /* else the second repeat reads this size and its half */
    if (item->block.out == 1)
        return np_yaml_fail(item->node, err,
                            "2 channels or more are made of an input of twice the size");
    return NP_OK;
}

static enum np_status check_counts(struct np_item_list *list, const struct np_item *item,
                                   struct np_error *err)
{
    const struct np_block *block = &item->block;
    size_t blocks = np_item_blocks(item);
    size_t fixed = (size_t)item->repeat * (size_t)(np_cell_lead(block) + np_cell_joins(block));
    if ((size_t)list->recipe->block_count + blocks > NP_MAX_BLOCKS)
        return np_yaml_fail(item->node, err, "more than %d choice blocks", NP_MAX_BLOCKS);
    list->layers += (blocks - fixed) * (size_t)block->count + fixed;
    if (list->layers > NP_MAX_LAYERS)
        return np_yaml_fail(item->node, err, "more than %d layers", NP_MAX_LAYERS);
    return NP_OK;
}

/* An item that is blocks. */
static enum np_status read_blocks(struct np_item_list *list, const struct np_yaml_node *node,
                                  struct np_yaml_map *map, struct np_error *err)
{
    struct np_item item = {.node = node,
                           .block = {.stride = 1,
                                     .inputs = 1,
                                     .from = list->made,
                                     .memory = -1,
                                     .sum = -1,
                                     .depth = list->depth,
                                     .level = list->level},
                           .repeat = 1};
    const struct np_yaml_node *choices, *choice;
    int widths[NP_MAX_WIDTHS];
    enum np_status status;
    NP_TRY(np_item_check_depth(list, map, err));
    NP_TRY(read_cell(list, &item, map, err));
    NP_TRY(np_item_read_links(list, &item, map, err));
    NP_TRY(read_shape(list, &item, map, widths, err));
    NP_TRY(np_item_check_widths(list, &item, map, err));
    NP_TRY(read_weights(&item, np_yaml_find(map, "weights"), err));
    NP_TRY(read_origin(&item, np_yaml_find(map, "origin"), err));
    choices = np_yaml_need(map, "choices");
    NP_TRY(np_yaml_get_list(choices, &choice, 1, NP_MAX_CHOICES, err));
    NP_TRY(np_yaml_map_finish(map, err));
    NP_TRY(np_item_count_choices(&item, choices, err));
    NP_TRY(check_counts(list, &item, err));
    NP_TRY(check_inputs(list, &item, err));
    NP_TRY(np_item_read_choices(list, &item, choice, widths, err));
    NP_TRY(np_item_check_links(list, &item, map, err));
    NP_TRY(np_item_lay_out(list, &item, err));
    NP_TRY(np_item_settle_name(list, &item, err));
out:
    return status;
}

static enum np_status read_items(struct np_item_list *list, const struct np_yaml_node *node,
                                 struct np_error *err);

/* A repeat: the items of a list, or one that is blocks, whose keys are read each time. */
static enum np_status read_repeat(struct np_item_list *list, const struct np_yaml_node *item,
                                  const struct np_yaml_node *items, struct np_error *err)
{
    struct np_yaml_map map;
    enum np_status status;
    if (items->kind != NP_YAML_ABSENT)
        return read_items(list, items, err);
    NP_TRY(np_yaml_get_map(item, &map, err));
    NP_TRY(read_blocks(list, item, &map, err));
out:
    return status;
}

/* An item that is repeated as a whole: a list, or what may be passed over. */
static enum np_status read_whole(struct np_item_list *list, const struct np_yaml_node *item,
                                 const struct np_yaml_node *items, struct np_yaml_map *map,
                                 struct np_error *err)
{
    size_t known = list->named.count;
    bool inside = list->inside, again = list->again, within = list->depth >= 0, begun;
    enum np_status status;
    int repeat = 1;
    NP_TRY(np_recipe_get_int(np_yaml_find(map, "repeat"), &repeat, 1, NP_MAX_BLOCKS, err));
    NP_TRY(np_items_begin_depth(list, map, &repeat, err));
    begun = list->depth >= 0 && !within;
    if (items->kind != NP_YAML_ABSENT)
        NP_TRY(np_yaml_map_finish(map, err));
    list->inside = true;
    for (int i = 0; i < repeat; i++) {
        if (begun)
            np_items_set_level(list, i);
        NP_TRY(read_repeat(list, item, items, err));
        list->named.count = known;
        list->again = true;
    }
    if (begun)
        NP_TRY(np_items_end_depth(list, err));
    list->inside = inside;
    list->again = again;
out:
    return status;
}

static enum np_status read_items(struct np_item_list *list, const struct np_yaml_node *node,
                                 struct np_error *err)
{
    const struct np_yaml_node *item, *items;
    struct np_yaml_map map;
    enum np_status status;
    NP_TRY(np_yaml_get_list(node, &item, 1, NP_MAX_BLOCKS, err));
    for (; item; item = item->next) {
        NP_TRY(np_yaml_get_map(item, &map, err));
        items = np_yaml_find(&map, "blocks");
        if (items->kind == NP_YAML_ABSENT && np_yaml_find(&map, "depth")->kind == NP_YAML_ABSENT)
            NP_TRY(read_blocks(list, item, &map, err));
        else
            NP_TRY(read_whole(list, item, items, &map, err));
    }
out:
    return status;
}

/* Every value is read by a block or by the head. */
static enum np_status check_readers(const struct np_item_list *list, struct np_error *err)
{
    const struct np_recipe *recipe = list->recipe;
    enum np_status status;
    bool *read = NULL;
    NP_TRY(np_zalloc(&read, (size_t)recipe->block_count + 1, sizeof *read, err));
    for (int i = 0; i < recipe->block_count; i++) {
        const struct np_block *block = &recipe->blocks[i];
        read[block->from] = true;
        if (block->memory >= 0)
            read[block->memory] = true;
        if (block->sum >= 0)
            read[block->sum] = true;
    }
    for (int i = 0; i < recipe->block_count - 1; i++)
        if (!read[i + 1])
            NP_TRY(np_yaml_fail(list->nodes[i], err, "no block reads what this one makes"));
out:
    free(read);
    return status;
}

/* The head of pairs reads the target. */
static enum np_status check_pairs(const struct np_item_list *list, const struct np_yaml_node *node,
                                  struct np_error *err)
{
    const struct np_recipe *recipe = list->recipe;
    if (recipe->input != NP_INPUT_PAIRS)
        return NP_OK;
    if (!list->target)
        return np_yaml_fail(node, err, "pairs need a block of {op: embedding}: the target's");
    if (list->shapes[list->made].width != recipe->length)
        return np_yaml_fail(list->nodes[recipe->block_count - 1], err,
                            "the last block reads the source, and the head the target");
    return NP_OK;
}

enum np_status np_recipe_read_blocks(struct np_recipe *recipe, const struct np_yaml_node *node,
                                     const char *stem_name, bool *batch_norm, struct np_error *err)
{
    struct np_item_list list = {.recipe = recipe, .layers = 2, .depth = -1}; /* stem and head */
    enum np_status status;
    NP_TRY(np_grow(&list.shapes, &list.shape_capacity, 0, sizeof *list.shapes, err));
    list.shapes[0] = np_shape_of_stem(recipe);
    NP_TRY(np_items_name_stem(&list, stem_name, err));
    NP_TRY(read_items(&list, node, err));
    NP_TRY(check_pairs(&list, node, err));
    NP_TRY(check_readers(&list, err));
    NP_TRY(np_items_name_inner(&list, err));
    *batch_norm = *batch_norm || list.batch_norm;
out:
    free(list.shapes);
    free(list.nodes);
    free(list.named.words);
    free(list.named.positions);
    free(list.named.shapes);
    free(list.tied);
    free(list.inner);
    return status;
}
