/* The list of choice blocks: repeats, cells, names, and the values that they read. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "space/recipe_layer.h"

#define MAX_CELL 16
#define MAX_NAME 64

struct blocks {
    struct np_recipe *recipe;
    size_t capacity, layers;
    struct np_shape *shapes; /* of the values so far, the stem's first */
    size_t shape_capacity;
    size_t name_capacity, position_capacity;
    int *named;  /* the position that each of recipe->names stands for */
    bool target; /* the target of pairs has begun */
    bool batch_norm;
};

/* An item of the list, before it is repeated. */
struct item {
    const struct np_yaml_node *node;
    struct np_block block;
    int repeat;
};

static enum np_status push_shape(struct blocks *b, struct np_shape shape, struct np_error *err)
{
    size_t used = (size_t)b->recipe->block_count;
    enum np_status status = np_grow(&b->shapes, &b->shape_capacity, used, sizeof shape, err);
    if (status == NP_OK)
        b->shapes[used] = shape;
    return status;
}

/* A block that reads `from`; *made is its position. */
static enum np_status add_block(struct blocks *b, struct np_block block, int *made,
                                struct np_error *err)
{
    struct np_recipe *recipe = b->recipe;
    enum np_status status;
    NP_TRY(np_grow(&recipe->blocks, &b->capacity, (size_t)recipe->block_count, sizeof block, err));
    recipe->blocks[recipe->block_count++] = block;
    NP_TRY(push_shape(b, np_shape_of_block(recipe, &block, b->shapes[block.from]), err));
    *made = recipe->block_count;
out:
    return status;
}

/* The edges of a cell: node j is the sum of those from nodes 0 .. j-1. Edges that leave the input
 * have its stride. */
static enum np_status add_cell(struct blocks *b, const struct np_block *block, struct np_error *err)
{
    int nodes[MAX_CELL] = {b->recipe->block_count};
    enum np_status status = NP_OK;
    for (int j = 1; j < block->cell; j++) {
        struct np_block edge = *block;
        for (int i = 0; i < j; i++) {
            edge.from = nodes[i];
            edge.stride = i == 0 ? block->stride : 1;
            NP_TRY(add_block(b, edge, &nodes[j], err));
            edge.sum = nodes[j];
        }
    }
out:
    return status;
}

static enum np_status add_item(struct blocks *b, struct item *item, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int i = 0; i < item->repeat; i++) {
        int made;
        item->block.from = b->recipe->block_count;
        NP_TRY(item->block.cell ? add_cell(b, &item->block, err)
                                : add_block(b, item->block, &made, err));
        item->block.stride = 1;
    }
out:
    return status;
}

/* Names are the recipe's; a block finds its own there. */
static enum np_status read_name(struct blocks *b, struct item *item,
                                const struct np_yaml_node *node, struct np_error *err)
{
    struct np_recipe *recipe = b->recipe;
    size_t used = (size_t)recipe->name_count;
    const char *name = "";
    enum np_status status;
    NP_TRY(np_yaml_get_string(node, &name, err));
    item->block.name = "";
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    if (name[0] == '\0' || strlen(name) > MAX_NAME)
        NP_TRY(np_yaml_fail(node, err, "'name' must have 1 to %d bytes", MAX_NAME));
    for (size_t i = 0; i < used; i++)
        if (strcmp(recipe->names[i], name) == 0)
            NP_TRY(np_yaml_fail(node, err, "a block before this one has the name '%s'",
                                np_text_safe(name).s));
    NP_TRY(np_grow(&recipe->names, &b->name_capacity, used, sizeof *recipe->names, err));
    NP_TRY(np_strdup(&recipe->names[used], name, err));
    item->block.name = recipe->names[recipe->name_count++];
out:
    return status;
}

/* Where the name is known from now on: at the last block. */
static enum np_status settle_name(struct blocks *b, const struct item *item, struct np_error *err)
{
    size_t used = (size_t)b->recipe->name_count;
    enum np_status status;
    if (!item->block.name[0])
        return NP_OK;
    NP_TRY(np_grow(&b->named, &b->position_capacity, used - 1, sizeof *b->named, err));
    b->named[used - 1] = b->recipe->block_count;
out:
    return status;
}

static enum np_status read_shape(struct blocks *b, struct item *item, struct np_yaml_map *map,
                                 struct np_error *err)
{
    struct np_block *block = &item->block;
    const struct np_yaml_node *repeat = np_yaml_find(map, "repeat");
    const struct np_yaml_node *cell = np_yaml_find(map, "cell");
    enum np_status status;
    NP_TRY(np_recipe_get_int(repeat, &item->repeat, 1, NP_MAX_BLOCKS, err));
    if (cell->kind != NP_YAML_ABSENT)
        NP_TRY(np_recipe_get_int(cell, &block->cell, 2, MAX_CELL, err));
    block->out = b->shapes[b->recipe->block_count].channels;
    if (b->recipe->input == NP_INPUT_IMAGES) {
        NP_TRY(np_recipe_get_int(np_yaml_find(map, "out"), &block->out, 1, NP_MAX_WIDTH, err));
        NP_TRY(np_recipe_get_int(np_yaml_find(map, "stride"), &block->stride, 1, 2, err));
    }
out:
    return status;
}

/* Blocks of a cell are its edges. */
static size_t blocks_of(const struct item *item)
{
    size_t nodes = (size_t)item->block.cell;
    return (size_t)item->repeat * (nodes ? nodes * (nodes - 1) / 2 : 1);
}

static enum np_status check_counts(struct blocks *b, const struct item *item, struct np_error *err)
{
    size_t blocks = blocks_of(item);
    if ((size_t)b->recipe->block_count + blocks > NP_MAX_BLOCKS)
        return np_yaml_fail(item->node, err, "more than %d choice blocks", NP_MAX_BLOCKS);
    b->layers += blocks * (size_t)item->block.count;
    if (b->layers > NP_MAX_LAYERS)
        return np_yaml_fail(item->node, err, "more than %d layers", NP_MAX_LAYERS);
    return NP_OK;
}

/* Where candidates stand: the first block of an item may change the shape, the others do not. */
static void find_places(const struct blocks *b, const struct item *item,
                        struct np_layer_context *context)
{
    struct np_shape in = b->shapes[b->recipe->block_count];
    struct np_shape out = np_shape_of_block(b->recipe, &item->block, in);
    context->places[0] = (struct np_place){in, out, item->block.stride};
    context->places[1] = (struct np_place){out, out, 1};
    context->place_count = blocks_of(item) > 1 ? 2 : 1;
}

/* The target's embedding begins another sequence: it is there once, and there is no choice. */
static enum np_status check_target(struct blocks *b, const struct item *item,
                                   const struct np_layer_spec *spec,
                                   const struct np_yaml_node *choice, struct np_error *err)
{
    if (spec->op != NP_OP_EMBEDDING)
        return NP_OK;
    if (item->block.count > 1 || blocks_of(item) > 1)
        return np_yaml_fail(choice, err, "the target's embedding must be a block of its own");
    if (b->target)
        return np_yaml_fail(choice, err, "the target's embedding is there already");
    b->target = true;
    return NP_OK;
}

static enum np_status read_choices(struct blocks *b, struct item *item,
                                   const struct np_yaml_node *choice, struct np_error *err)
{
    struct np_recipe *recipe = b->recipe;
    struct np_layer_context context = {.recipe = recipe,
                                       .role = NP_ROLE_CHOICE,
                                       .names = (const char *const *)recipe->names,
                                       .name_count = (size_t)recipe->name_count,
                                       .memory = -1};
    struct np_layer_spec *spec = item->block.choices;
    enum np_status status = NP_OK;
    if (item->block.name[0])
        context.name_count--; /* its own is not there yet */
    find_places(b, item, &context);
    for (; choice; choice = choice->next, spec++) {
        NP_TRY(np_recipe_read_layer(spec, choice, &context, err));
        NP_TRY(check_target(b, item, spec, choice, err));
    }
    item->block.memory = context.memory < 0 ? -1 : b->named[context.memory];
    b->batch_norm = b->batch_norm || context.batch_norm;
out:
    return status;
}

static enum np_status read_item(struct blocks *b, const struct np_yaml_node *node,
                                struct np_error *err)
{
    struct item item = {.node = node, .repeat = 1, .block = {.stride = 1, .memory = -1, .sum = -1}};
    const struct np_yaml_node *choices, *choice;
    struct np_yaml_map map;
    enum np_status status;
    bool taken = false;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(read_shape(b, &item, &map, err));
    NP_TRY(read_name(b, &item, np_yaml_find(&map, "name"), err));
    choices = np_yaml_need(&map, "choices");
    NP_TRY(np_yaml_get_list(choices, &choice, 1, NP_MAX_CHOICES, err));
    NP_TRY(np_yaml_map_finish(&map, err));
    item.block.count = (int)choices->count;
    NP_TRY(check_counts(b, &item, err));
    NP_TRY(np_zalloc(&item.block.choices, choices->count, sizeof *item.block.choices, err));
    NP_TRY(read_choices(b, &item, choice, err));
    status = add_item(b, &item, err);
    taken = b->recipe->block_count > 0 &&
            b->recipe->blocks[b->recipe->block_count - 1].choices == item.block.choices;
    NP_TRY(status);
    NP_TRY(settle_name(b, &item, err));
out:
    if (!taken)
        free(item.block.choices);
    return status;
}

enum np_status np_recipe_read_blocks(struct np_recipe *recipe, const struct np_yaml_node *node,
                                     bool *batch_norm, struct np_error *err)
{
    struct blocks b = {.recipe = recipe, .layers = 2}; /* stem and head */
    const struct np_yaml_node *item;
    enum np_status status;
    NP_TRY(push_shape(&b, np_shape_of_stem(recipe), err));
    NP_TRY(np_yaml_get_list(node, &item, 1, NP_MAX_BLOCKS, err));
    for (; item; item = item->next)
        NP_TRY(read_item(&b, item, err));
    if (recipe->input == NP_INPUT_PAIRS && !b.target)
        NP_TRY(np_yaml_fail(node, err, "pairs need a block of {op: embedding}: the target's"));
    *batch_norm = *batch_norm || b.batch_norm;
out:
    free(b.shapes);
    free(b.named);
    return status;
}
