/* The list of choice blocks while it is read: its items, the blocks that they stand for, and what
 * they call each other.
 *
 * An item of the list is `repeat` times the same: one block, or the blocks of a cell. What a repeat
 * makes is read by the next, unless that says `from`.
 * Errors    NP_EINPUT with file:line:column; NP_EMEM.
 * Ownership candidates, names and ties become the recipe's as they are read.
 */
#ifndef NP_SPACE_RECIPE_BLOCKS_H
#define NP_SPACE_RECIPE_BLOCKS_H

#include "space/recipe_layer.h"

struct np_item_list {
    struct np_recipe *recipe;
    size_t layers;
    struct np_shape *shapes;           /* [blocks + 1] of the values so far, the stem's first */
    const struct np_yaml_node **nodes; /* [blocks]: the items that they come from */
    int made, before;          /* positions of what the last repeat made, and the one before it */
    int *named;                /* the position that each of recipe->names stands for */
    int *tied;                 /* the first block of the first repeat with each of recipe->ties */
    struct np_shape *memories; /* of the values that names stand for */
    size_t block_capacity, shape_capacity, node_capacity, list_capacity;
    size_t name_capacity, named_capacity, memory_capacity, tie_capacity, tied_capacity;
    bool target; /* the target of pairs has begun */
    bool batch_norm;
};

struct np_item {
    const struct np_yaml_node *node;
    struct np_block block; /* of which the item's blocks are variations; from: the first's */
    int repeat;
    int tie;            /* of recipe->ties; -1: none */
    struct np_shape in; /* of what its first block reads, past a fit */
    bool named;
};

/* Before the item's blocks are there: its name, its tie, and what it reads and adds to. */
enum np_status np_item_read_links(struct np_item_list *list, struct np_item *item,
                                  struct np_yaml_map *map, struct np_error *err);
/* With its candidates: whether what it is tied to is like it, and has the shape that it adds to. */
enum np_status np_item_check_links(const struct np_item_list *list, const struct np_item *item,
                                   struct np_yaml_map *map, struct np_error *err);
/* Afterwards: the name stands for what its last repeat made. */
void np_item_settle_name(struct np_item_list *list, const struct np_item *item);

/* Appends the blocks of an item. */
enum np_status np_item_lay_out(struct np_item_list *list, const struct np_item *item,
                               struct np_error *err);

#endif
