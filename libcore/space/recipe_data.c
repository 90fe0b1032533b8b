#include "base/memory.h"
#include "space/recipe_internal.h"

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

static enum np_status read_spec(const struct np_recipe *recipe, struct np_data_spec *data,
                                const struct np_yaml_node *node, struct np_error *err)
{
    const struct np_yaml_node *word;
    struct np_yaml_map map;
    enum np_status status;
    int kind = 0;
    NP_TRY(np_yaml_get_map(node, &map, err));
    word = np_yaml_need(&map, "kind");
    NP_TRY(np_recipe_get_name(word, &kind, &np_names_data, err));
    if (kind == NP_DATA_BYTES && recipe->vocab < 256)
        NP_TRY(np_yaml_fail(word, err, "bytes need a vocabulary of at least 256, not %d",
                            recipe->vocab));
    NP_TRY(read_files(data, np_yaml_need(&map, "files"), err));
    NP_TRY(read_part(data->part, np_yaml_find(&map, "part"), err));
    NP_TRY(np_yaml_map_finish(&map, err));
    data->kind = (enum np_data_kind)kind;
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
    NP_TRY(read_spec(recipe, &recipe->train_data, np_yaml_need(&map, "train"), err));
    valid = np_yaml_find(&map, "valid");
    if (valid->kind != NP_YAML_ABSENT)
        NP_TRY(read_spec(recipe, &recipe->valid_data, valid, err));
    NP_TRY(np_yaml_map_finish(&map, err));
out:
    return status;
}
