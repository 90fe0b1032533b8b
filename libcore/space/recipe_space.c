#include "base/memory.h"
#include "space/recipe_layer.h"

#define MAX_CLASSES (1 << 20)
#define MAX_LENGTH 65536
#define CALIBRATION 8 /* by default */

static enum np_status read_sequence(struct np_recipe *recipe, struct np_yaml_map *map,
                                    struct np_error *err)
{
    enum np_status status;
    int masked = 0;
    NP_TRY(np_recipe_get_int(np_yaml_need(map, "vocab"), &recipe->vocab, 2, NP_MAX_VOCAB, err));
    if (recipe->input == NP_INPUT_PAIRS)
        NP_TRY(np_recipe_get_int(np_yaml_need(map, "source_length"), &recipe->source_length, 1,
                                 MAX_LENGTH, err));
    NP_TRY(np_recipe_get_int(np_yaml_need(map, "length"), &recipe->length, 1, MAX_LENGTH, err));
    if (recipe->input == NP_INPUT_PAIRS)
        NP_TRY(np_recipe_get_name(np_yaml_find(map, "padding"), &masked, &np_names_padding, err));
    recipe->masked = masked;
out:
    return status;
}

static enum np_status read_images(struct np_recipe *recipe, struct np_yaml_map *map,
                                  struct np_error *err)
{
    enum np_status status;
    recipe->length = 1;
    NP_TRY(
        np_recipe_get_int(np_yaml_need(map, "height"), &recipe->height, 1, NP_MAX_IMAGE_SIDE, err));
    NP_TRY(np_recipe_get_int(np_yaml_need(map, "width"), &recipe->image_width, 1, NP_MAX_IMAGE_SIDE,
                             err));
    NP_TRY(np_recipe_get_int(np_yaml_need(map, "channels"), &recipe->channels, 1,
                             NP_MAX_IMAGE_CHANNELS, err));
    NP_TRY(np_recipe_get_int(np_yaml_need(map, "classes"), &recipe->vocab, 2, MAX_CLASSES, err));
out:
    return status;
}

static enum np_status read_input(struct np_recipe *recipe, const struct np_yaml_node *node,
                                 struct np_error *err)
{
    struct np_yaml_map map;
    enum np_status status;
    int kind = NP_INPUT_TOKENS;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(np_recipe_get_name(np_yaml_find(&map, "kind"), &kind, &np_names_input, err));
    recipe->input = (enum np_input_kind)kind;
    NP_TRY(recipe->input == NP_INPUT_IMAGES ? read_images(recipe, &map, err)
                                            : read_sequence(recipe, &map, err));
    NP_TRY(np_yaml_map_finish(&map, err));
out:
    return status;
}

/* The stem reads the batch. */
static enum np_status read_stem(struct np_recipe *recipe, const struct np_yaml_node *node,
                                const char **name, bool *batch_norm, struct np_error *err)
{
    struct np_shape image = np_shape_of_images(recipe), out = image;
    struct np_layer_context context = {.recipe = recipe, .role = NP_ROLE_STEM, .memory = -1};
    enum np_status status;
    out.channels = recipe->width;
    context.places[context.place_count++] = (struct np_place){.in = image, .out = out, .stride = 1};
    NP_TRY(np_recipe_read_layer(&recipe->stem, node, &context, err));
    recipe->stem.source = recipe->input == NP_INPUT_PAIRS;
    *name = context.name;
    *batch_norm = *batch_norm || context.batch_norm;
out:
    return status;
}

static enum np_status read_head(struct np_recipe *recipe, const struct np_yaml_node *node,
                                bool *batch_norm, struct np_error *err)
{
    struct np_layer_context context = {
        .recipe = recipe, .role = NP_ROLE_HEAD, .place_count = 1, .memory = -1};
    enum np_status status = np_recipe_read_layer(&recipe->head, node, &context, err);
    *batch_norm = *batch_norm || context.batch_norm;
    return status;
}

enum np_status np_recipe_read_space(struct np_recipe *recipe, const struct np_yaml_node *node,
                                    struct np_error *err)
{
    struct np_yaml_map map;
    enum np_status status;
    const char *stem_name;
    bool batch_norm = false;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(read_input(recipe, np_yaml_need(&map, "input"), err));
    NP_TRY(np_recipe_get_int(np_yaml_need(&map, "width"), &recipe->width, 1, NP_MAX_WIDTH, err));
    NP_TRY(read_stem(recipe, np_yaml_find(&map, "stem"), &stem_name, &batch_norm, err));
    NP_TRY(read_head(recipe, np_yaml_find(&map, "head"), &batch_norm, err));
    NP_TRY(
        np_recipe_read_blocks(recipe, np_yaml_need(&map, "blocks"), stem_name, &batch_norm, err));
    NP_TRY(np_yaml_map_finish(&map, err));
    recipe->calibration = batch_norm ? CALIBRATION : 0;
out:
    return status;
}
