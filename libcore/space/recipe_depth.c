/* Depths: items of which the last repeats may be passed over. */
#include <string.h>

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

/* Whether blocks of the same item are so in all that is written of them. */
static bool are_alike(const struct np_block *a, const struct np_block *b)
{
    int a_each = np_width_candidates(a), b_each = np_width_candidates(b);
    if (a->out != b->out)
        return false;
    for (int i = 0; i < a->count; i++) {
        int c = i % a_each;
        if (!np_depth_passes(a, i) &&
            memcmp(&a->choices[i], &b->choices[i / a_each * b_each + c], sizeof *a->choices) != 0)
            return false;
    }
    return true;
}

/* The canonical text has one repeat for all: what an item does not say must not differ. */
static enum np_status check_repeats(const struct np_item_list *list, const struct np_depth *depth,
                                    struct np_error *err)
{
    const struct np_block *blocks = list->recipe->blocks;
    for (int b = depth->first + depth->each; b < list->recipe->block_count; b++) {
        const struct np_block *first = &blocks[depth->first + (b - depth->first) % depth->each];
        if (!are_alike(first, &blocks[b]))
            return np_yaml_fail(list->nodes[b], err,
                                "the repeats of a 'depth' are alike: 'out' must be said, as this "
                                "block makes %d channels in the first one and %d in another",
                                first->out, blocks[b].out);
    }
    return NP_OK;
}

enum np_status np_items_end_depth(struct np_item_list *list, struct np_error *err)
{
    struct np_depth *depth = &list->recipe->depths[list->depth];
    depth->each = (list->recipe->block_count - depth->first) / depth->repeats[depth->count - 1];
    list->depth = -1;
    list->level = 0;
    return check_repeats(list, depth, err);
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
