#include "base/memory.h"
#include "space/recipe_internal.h"

#define LARGE 1e30
#define SMALL 1e-30 /* of a divisor */
#define MAX_CROP 64

static enum np_status read_part(double part[2], const struct np_yaml_node *node,
                                struct np_error *err)
{
    const struct np_yaml_node *item = NULL;
    enum np_status status;
    part[0] = 0.0;
    part[1] = 1.0;
    NP_TRY(np_yaml_get_list(node, &item, 2, 2, err));
    if (!item)
        return NP_OK;
    NP_TRY(np_recipe_get_double(item, &part[0], 0.0, 1.0, NP_YAML_OPEN_MAX, err));
    NP_TRY(np_recipe_get_double(item->next, &part[1], part[0], 1.0, NP_YAML_OPEN_MIN, err));
out:
    return status;
}

static enum np_status read_files(struct np_data_spec *data, const struct np_yaml_node *node,
                                 struct np_error *err)
{
    const struct np_yaml_node *item;
    const char *name;
    enum np_status status;
    NP_TRY(np_yaml_get_list(node, &item, 1, NP_MAX_FILES, err));
    NP_TRY(np_zalloc(&data->files, node->count, sizeof *data->files, err));
    for (; item; item = item->next) {
        NP_TRY(np_yaml_get_string(item, &name, err));
        if (name[0] == '\0')
            NP_TRY(np_yaml_fail(item, err, "a file name is empty"));
        NP_TRY(np_strdup(&data->files[data->file_count], name, err));
        data->file_count++;
    }
out:
    return status;
}

/* What the input wants, and what a kind of data holds. */
static enum np_status check_kind(const struct np_recipe *recipe, enum np_data_kind kind,
                                 const struct np_yaml_node *node, struct np_error *err)
{
    static const enum np_input_kind inputs[] = {
        [NP_DATA_BYTES] = NP_INPUT_TOKENS,   [NP_DATA_TOKENS] = NP_INPUT_TOKENS,
        [NP_DATA_PAIRS] = NP_INPUT_PAIRS,    [NP_DATA_TOKEN_PAIRS] = NP_INPUT_PAIRS,
        [NP_DATA_IDX] = NP_INPUT_IMAGES,     [NP_DATA_CIFAR10] = NP_INPUT_IMAGES,
        [NP_DATA_CIFAR100] = NP_INPUT_IMAGES};
    if (inputs[kind] != recipe->input)
        return np_yaml_fail(node, err, "data of kind '%s' are %s, the space's input are %s",
                            np_names_data.name[kind], np_names_input.name[inputs[kind]],
                            np_names_input.name[recipe->input]);
    if ((kind == NP_DATA_BYTES || kind == NP_DATA_PAIRS) && recipe->vocab < 256)
        return np_yaml_fail(node, err, "%s need a vocabulary of at least 256, not %d",
                            np_names_data.name[kind], recipe->vocab);
    if ((kind == NP_DATA_CIFAR10 || kind == NP_DATA_CIFAR100) &&
        (recipe->height != 32 || recipe->image_width != 32 || recipe->channels != 3))
        return np_yaml_fail(node, err, "%s holds images of 32 x 32 x 3, not %d x %d x %d",
                            np_names_data.name[kind], recipe->height, recipe->image_width,
                            recipe->channels);
    return NP_OK;
}

/* A number a channel. */
static enum np_status read_channels(const struct np_recipe *recipe, double *out,
                                    const struct np_yaml_node *node, double preset, double min,
                                    struct np_error *err)
{
    size_t count = (size_t)recipe->channels;
    const struct np_yaml_node *item = NULL;
    enum np_status status;
    for (size_t i = 0; i < count; i++)
        out[i] = preset;
    NP_TRY(np_yaml_get_list(node, &item, count, count, err));
    for (; item; item = item->next)
        NP_TRY(np_recipe_get_double(item, out++, min, LARGE, NP_YAML_CLOSED, err));
out:
    return status;
}

static enum np_status read_scale(struct np_data_spec *data, const struct np_yaml_node *node,
                                 struct np_error *err)
{
    const struct np_yaml_node *item = NULL;
    double *scale = data->scale;
    enum np_status status;
    NP_TRY(np_yaml_get_list(node, &item, 2, 2, err));
    if (!item)
        return NP_OK;
    NP_TRY(np_recipe_get_double(item, &scale[0], 0.0, 1.0, NP_YAML_OPEN_MIN, err));
    NP_TRY(np_recipe_get_double(item->next, &scale[1], scale[0], 1.0, NP_YAML_CLOSED, err));
    if (data->crop > 0)
        NP_TRY(np_yaml_fail(node, err, "images with a 'scale' have no 'crop'"));
out:
    return status;
}

/* Colours are three channels. */
static enum np_status read_jitter(const struct np_recipe *recipe, struct np_data_spec *data,
                                  const struct np_yaml_node *node, struct np_error *err)
{
    int count = recipe->channels == 3 ? NP_JITTERS : NP_SATURATION;
    struct np_yaml_map map;
    enum np_status status;
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    if (recipe->channels != 1 && recipe->channels != 3)
        NP_TRY(np_yaml_fail(node, err, "a 'jitter' is of images of 1 or 3 channels, not %d",
                            recipe->channels));
    NP_TRY(np_yaml_get_map(node, &map, err));
    for (int i = 0; i < count; i++)
        NP_TRY(np_recipe_get_double(np_yaml_find(&map, np_names_jitter.name[i]), &data->jitter[i],
                                    0.0, i == NP_HUE ? 0.5 : 1.0, NP_YAML_CLOSED, err));
    NP_TRY(np_yaml_map_finish(&map, err));
out:
    return status;
}

/* What is as large as the input is not written down. */
static enum np_status read_stored(const struct np_recipe *recipe, struct np_data_spec *data,
                                  const struct np_yaml_node *node, struct np_error *err)
{
    const struct np_yaml_node *item = NULL;
    int *stored = data->stored;
    enum np_status status;
    NP_TRY(np_yaml_get_list(node, &item, 2, 2, err));
    if (!item)
        return NP_OK;
    NP_TRY(np_recipe_get_int(item, &stored[0], recipe->height, NP_MAX_IMAGE_SIDE, err));
    NP_TRY(np_recipe_get_int(item->next, &stored[1], recipe->image_width, NP_MAX_IMAGE_SIDE, err));
    if (stored[0] == recipe->height && stored[1] == recipe->image_width)
        stored[0] = stored[1] = 0;
out:
    return status;
}

static enum np_status read_images(const struct np_recipe *recipe, struct np_data_spec *data,
                                  struct np_yaml_map *map, bool train, struct np_error *err)
{
    int side = recipe->height < recipe->image_width ? recipe->height : recipe->image_width;
    enum np_status status;
    NP_TRY(read_channels(recipe, data->mean, np_yaml_find(map, "mean"), 0.0, -LARGE, err));
    NP_TRY(read_channels(recipe, data->std, np_yaml_find(map, "std"), 1.0, SMALL, err));
    if (data->kind == NP_DATA_IDX)
        NP_TRY(read_stored(recipe, data, np_yaml_find(map, "stored"), err));
    if (train) { /* an image is moved by less than its size */
        NP_TRY(np_recipe_get_int(np_yaml_find(map, "crop"), &data->crop, 0,
                                 side <= MAX_CROP ? side - 1 : MAX_CROP, err));
        NP_TRY(np_yaml_get_bool(np_yaml_find(map, "flip"), &data->flip, err));
        NP_TRY(np_recipe_get_int(np_yaml_find(map, "cutout"), &data->cutout, 0, side, err));
        NP_TRY(read_scale(data, np_yaml_find(map, "scale"), err));
        NP_TRY(read_jitter(recipe, data, np_yaml_find(map, "jitter"), err));
    }
out:
    return status;
}

static enum np_status read_spec(const struct np_recipe *recipe, struct np_data_spec *data,
                                const struct np_yaml_node *node, bool train, struct np_error *err)
{
    const struct np_yaml_node *word, *files;
    struct np_yaml_map map;
    enum np_status status;
    int kind = 0, shuffled = 0;
    NP_TRY(np_yaml_get_map(node, &map, err));
    word = np_yaml_need(&map, "kind");
    NP_TRY(np_recipe_get_name(word, &kind, &np_names_data, err));
    data->kind = (enum np_data_kind)kind;
    NP_TRY(check_kind(recipe, data->kind, word, err));
    files = np_yaml_need(&map, "files");
    NP_TRY(read_files(data, files, err));
    if (data->kind == NP_DATA_IDX && data->file_count % 2 != 0)
        NP_TRY(np_yaml_fail(files, err, "idx files come in twos, images and labels, not %d",
                            data->file_count));
    NP_TRY(read_part(data->part, np_yaml_find(&map, "part"), err));
    if (train)
        NP_TRY(np_recipe_get_name(np_yaml_find(&map, "order"), &shuffled, &np_names_order, err));
    data->shuffled = shuffled;
    if (recipe->input == NP_INPUT_IMAGES)
        NP_TRY(read_images(recipe, data, &map, train, err));
    NP_TRY(np_yaml_map_finish(&map, err));
    data->given = true;
out:
    return status;
}

enum np_status np_recipe_read_data(struct np_recipe *recipe, const struct np_yaml_node *node,
                                   struct np_error *err)
{
    const struct np_yaml_node *valid;
    struct np_yaml_map map;
    enum np_status status;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(read_spec(recipe, &recipe->train_data, np_yaml_need(&map, "train"), true, err));
    valid = np_yaml_find(&map, "valid");
    if (valid->kind != NP_YAML_ABSENT)
        NP_TRY(read_spec(recipe, &recipe->valid_data, valid, false, err));
    NP_TRY(np_yaml_map_finish(&map, err));
out:
    return status;
}
