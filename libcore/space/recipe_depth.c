/* Depths: items of which the last repeats may be passed over. */
#include "base/memory.h"
#include "space/depth.h"
#include "space/recipe_blocks.h"

/* How many repeats there may be, which ascend. */
static enum np_status read_depths(struct np_depth *depth, const struct np_yaml_node *node,
                                  struct np_error *err)
{
    const struct np_yaml_node *number;
    enum np_status status;
    NP_TRY(np_yaml_get_list(node, &number, 1, NP_MAX_DEPTHS, err));
    for (; number; number = number->next) {
        int *repeats = &depth->repeats[depth->count];
        NP_TRY(np_recipe_get_int(number, repeats, 0, NP_MAX_BLOCKS, err));
        if (depth->count++ > 0 && repeats[0] <= repeats[-1])
            NP_TRY(np_yaml_fail(number, err, "'depth' ascends: %d is not above %d", repeats[0],
                                repeats[-1]));
    }
out:
    return status;
}

enum np_status np_items_begin_depth(struct np_item_list *list, struct np_yaml_map *map, int *repeat,
                                    struct np_error *err)
{
    const struct np_yaml_node *node = np_yaml_find(map, "depth"),
                              *all = np_yaml_find(map, "repeat");
    struct np_recipe *recipe = list->recipe;
    size_t used = (size_t)recipe->depth_count;
    struct np_depth depth = {.first = recipe->block_count};
    int most;
    enum np_status status;
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    if (list->depth >= 0)
        NP_TRY(np_yaml_fail(node, err, "there is no 'depth' within a 'depth'"));
    NP_TRY(read_depths(&depth, node, err));
    most = depth.repeats[depth.count - 1];
    if (most == 0)
        NP_TRY(np_yaml_fail(node, err, "the last 'depth' is 1 or more"));
    if (all->kind != NP_YAML_ABSENT && *repeat != most)
        NP_TRY(
            np_yaml_fail(all, err, "'repeat' is the last 'depth', %d, where there are some", most));
    *repeat = most;
    NP_TRY(np_grow(&recipe->depths, &list->depth_capacity, used, sizeof depth, err));
    recipe->depths[used] = depth;
    list->depth = recipe->depth_count++;
out:
    return status;
}

void np_items_set_level(struct np_item_list *list, int repeat)
{
    const struct np_depth *depth = &list->recipe->depths[list->depth];
    list->level = 0;
    while (depth->repeats[list->level] <= repeat)
        list->level++;
}

void np_items_end_depth(struct np_item_list *list)
{
    struct np_depth *depth = &list->recipe->depths[list->depth];
    depth->each = (list->recipe->block_count - depth->first) / depth->repeats[depth->count - 1];
    list->depth = -1;
    list->level = 0;
}

enum np_status np_item_check_depth(const struct np_item_list *list, struct np_yaml_map *map,
                                   struct np_error *err)
{
    static const char *const keys[] = {"cell", "from", "add", "tie", "name"};
    for (size_t i = 0; list->depth >= 0 && i < sizeof keys / sizeof *keys; i++) {
        const struct np_yaml_node *node = np_yaml_find(map, keys[i]);
        if (node->kind != NP_YAML_ABSENT)
            return np_yaml_fail(node, err, "there is no '%s' within a 'depth'", keys[i]);
    }
    return NP_OK;
}
