#include <assert.h>

#include "base/memory.h"
#include "space/op_fields.h"
#include "space/recipe_internal.h"

#define MAX_VOCAB (1 << 24)
#define MAX_LENGTH 65536
#define MAX_WIDTH 65536
#define MAX_RATIO 64

static enum np_status read_op(struct np_yaml_map *map, int *op, enum np_op_role role,
                              struct np_error *err)
{
    const char *names[NP_OP_COUNT];
    enum np_op ops[NP_OP_COUNT];
    enum np_status status;
    size_t count = 0;
    int which = 0;
    for (int i = 0; i < NP_OP_COUNT; i++) {
        if (np_op_fields((enum np_op)i)->role == role) {
            ops[count] = (enum np_op)i;
            names[count++] = np_op_name((enum np_op)i);
        }
    }
    NP_TRY(
        np_yaml_get_word(role == NP_ROLE_CHOICE ? np_yaml_need(map, "op") : np_yaml_find(map, "op"),
                         &which, names, count, err));
    *op = (int)ops[which];
out:
    return status;
}

static enum np_status read_heads(const struct np_recipe *recipe, struct np_yaml_map *map,
                                 int *heads, struct np_error *err)
{
    const struct np_yaml_node *node = np_yaml_need(map, "heads");
    enum np_status status;
    NP_TRY(np_recipe_get_int(node, heads, 1, recipe->width, err));
    if (recipe->width % *heads != 0)
        NP_TRY(np_yaml_fail(node, err, "'heads' must divide the width of %d, not %d", recipe->width,
                            *heads));
out:
    return status;
}

static enum np_status read_act(const struct np_yaml_node *node, enum np_act *act,
                               struct np_error *err)
{
    const char *names[NP_ACT_COUNT];
    enum np_status status;
    int which = NP_ACT_GELU;
    for (int i = 0; i < NP_ACT_COUNT; i++)
        names[i] = np_act_name((enum np_act)i);
    NP_TRY(np_yaml_get_word(node, &which, names, NP_ACT_COUNT, err));
    *act = (enum np_act)which;
out:
    return status;
}

/* Fields that the operator does not have stay 0, and are unknown keys. */
static enum np_status read_choice(const struct np_recipe *recipe, const struct np_yaml_node *node,
                                  struct np_layer_spec *spec, struct np_error *err)
{
    const struct np_op_fields *has;
    struct np_yaml_map map;
    enum np_status status;
    double dropout = 0.0;
    int op = 0;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(read_op(&map, &op, NP_ROLE_CHOICE, err));
    has = np_op_fields((enum np_op)op);
    if (has->heads)
        NP_TRY(read_heads(recipe, &map, &spec->heads, err));
    if (has->ratio) {
        spec->ratio = 4;
        NP_TRY(np_recipe_get_int(np_yaml_find(&map, "ratio"), &spec->ratio, 1, MAX_RATIO, err));
    }
    if (has->act)
        NP_TRY(read_act(np_yaml_find(&map, "act"), &spec->act, err));
    if (has->kernel) {
        spec->kernel = 3;
        NP_TRY(np_recipe_get_int(np_yaml_find(&map, "kernel"), &spec->kernel, 1, NP_KC, err));
    }
    if (has->dropout)
        NP_TRY(np_recipe_get_fraction(np_yaml_find(&map, "dropout"), &dropout, err));
    NP_TRY(np_yaml_map_finish(&map, err));
    spec->op = (enum np_op)op;
    spec->dropout = (float)dropout;
out:
    return status;
}

/* A new block with zeroed choices, `repeat` times. The recipe owns them at once. */
static enum np_status add_blocks(struct np_recipe *recipe, size_t *capacity, int repeat,
                                 size_t count, struct np_error *err)
{
    struct np_block block = {.count = (int)count};
    enum np_status status;
    NP_TRY(np_grow(&recipe->blocks, capacity, (size_t)recipe->block_count, sizeof block, err));
    NP_TRY(np_zalloc(&block.choices, count, sizeof *block.choices, err));
    recipe->blocks[recipe->block_count++] = block;
    for (int i = 1; i < repeat; i++) {
        NP_TRY(np_grow(&recipe->blocks, capacity, (size_t)recipe->block_count, sizeof block, err));
        recipe->blocks[recipe->block_count++] = block;
    }
out:
    return status;
}

static enum np_status read_block(struct np_recipe *recipe, const struct np_yaml_node *node,
                                 size_t *capacity, size_t *layers, struct np_error *err)
{
    const struct np_yaml_node *choices, *choice;
    struct np_layer_spec *spec;
    struct np_yaml_map map;
    enum np_status status;
    int repeat = 1;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(np_recipe_get_int(np_yaml_find(&map, "repeat"), &repeat, 1, NP_MAX_BLOCKS, err));
    choices = np_yaml_need(&map, "choices");
    NP_TRY(np_yaml_get_list(choices, &choice, 1, NP_MAX_CHOICES, err));
    NP_TRY(np_yaml_map_finish(&map, err));
    if (recipe->block_count + repeat > NP_MAX_BLOCKS)
        NP_TRY(np_yaml_fail(node, err, "more than %d choice blocks", NP_MAX_BLOCKS));
    *layers += (size_t)repeat * choices->count;
    if (*layers > NP_MAX_LAYERS)
        NP_TRY(np_yaml_fail(node, err, "more than %d layers", NP_MAX_LAYERS));
    NP_TRY(add_blocks(recipe, capacity, repeat, choices->count, err));
    spec = recipe->blocks[recipe->block_count - 1].choices;
    for (; choice; choice = choice->next)
        NP_TRY(read_choice(recipe, choice, spec++, err));
out:
    return status;
}

static enum np_status read_blocks(struct np_recipe *recipe, const struct np_yaml_node *node,
                                  struct np_error *err)
{
    size_t capacity = 0, layers = 2; /* stem and head */
    const struct np_yaml_node *block;
    enum np_status status;
    NP_TRY(np_yaml_get_list(node, &block, 1, NP_MAX_BLOCKS, err));
    for (; block; block = block->next)
        NP_TRY(read_block(recipe, block, &capacity, &layers, err));
out:
    return status;
}

static enum np_status read_input(struct np_recipe *recipe, const struct np_yaml_node *node,
                                 struct np_error *err)
{
    static const char *const kinds[] = {"tokens"};
    struct np_yaml_map map;
    enum np_status status;
    int kind = 0;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(np_yaml_get_word(np_yaml_find(&map, "kind"), &kind, kinds, 1, err));
    NP_TRY(np_recipe_get_int(np_yaml_need(&map, "vocab"), &recipe->vocab, 2, MAX_VOCAB, err));
    NP_TRY(np_recipe_get_int(np_yaml_need(&map, "length"), &recipe->length, 1, MAX_LENGTH, err));
    NP_TRY(np_yaml_map_finish(&map, err));
out:
    return status;
}

static enum np_status read_ends(struct np_recipe *recipe, const struct np_yaml_node *stem,
                                const struct np_yaml_node *head, struct np_error *err)
{
    static const char *const positions[] = {"learned"};
    struct np_yaml_map map;
    enum np_status status;
    int op = 0, position = 0;
    NP_TRY(np_yaml_get_map(stem, &map, err));
    NP_TRY(read_op(&map, &op, NP_ROLE_STEM, err));
    NP_TRY(np_yaml_get_word(np_yaml_find(&map, "positions"), &position, positions, 1, err));
    NP_TRY(np_yaml_map_finish(&map, err));
    recipe->stem.op = (enum np_op)op;
    NP_TRY(np_yaml_get_map(head, &map, err));
    NP_TRY(read_op(&map, &op, NP_ROLE_HEAD, err));
    NP_TRY(np_yaml_map_finish(&map, err));
    recipe->head.op = (enum np_op)op;
out:
    return status;
}

enum np_status np_recipe_read_space(struct np_recipe *recipe, const struct np_yaml_node *node,
                                    struct np_error *err)
{
    struct np_yaml_map map;
    enum np_status status;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(read_input(recipe, np_yaml_need(&map, "input"), err));
    NP_TRY(np_recipe_get_int(np_yaml_need(&map, "width"), &recipe->width, 1, MAX_WIDTH, err));
    NP_TRY(read_ends(recipe, np_yaml_find(&map, "stem"), np_yaml_find(&map, "head"), err));
    NP_TRY(read_blocks(recipe, np_yaml_need(&map, "blocks"), err));
    NP_TRY(np_yaml_map_finish(&map, err));
out:
    return status;
}
