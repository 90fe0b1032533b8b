/* The list of choice blocks while it is read: its items, the blocks that they stand for, and what
 * they call each other.
 *
 * An item of the list is `repeat` times the same: one block, the blocks of a cell, or a list. What
 * a repeat makes is read by the next, unless that says `from`.
 * Names     those of a list within the list are known in the repeat that they are in alone. In the
 *           end blocks get other ones instead, "word/0", "word/1" .., which the canonical text has.
 * Errors    NP_EINPUT with file:line:column; NP_EMEM.
 * Ownership candidates, names and ties become the recipe's as they are read.
 */
#ifndef NP_SPACE_RECIPE_BLOCKS_H
#define NP_SPACE_RECIPE_BLOCKS_H

#include "space/cells.h"
#include "space/recipe_layer.h"

/* The words that stand for values. */
struct np_named {
    size_t count;
    const char **words;
    int *positions;
    struct np_shape *shapes;
    size_t word_capacity, position_capacity, shape_capacity;
};

struct np_item_list {
    struct np_recipe *recipe;
    size_t layers;
    struct np_shape *shapes;           /* [blocks + 1] of the values so far, the stem's first */
    const struct np_yaml_node **nodes; /* [blocks]: the items that they come from */
    int made, before; /* positions of what the last repeat made, and the one before it */
    struct np_named named;
    /* Of each of recipe->ties: the first block of the first repeat, or widths, that it ties. */
    struct np_tied {
        int repeat, widths; /* -1: none */
    } * tied;
    size_t block_capacity, shape_capacity, node_capacity, list_capacity;
    size_t name_capacity, tie_capacity, tied_capacity, depth_capacity;
    bool *inner; /* of each of recipe->names: it is of a list within the list */
    size_t inner_capacity;
    bool inside; /* of such a list */
    bool again;  /* in a later repeat of one: no item has a stride */
    int depth;   /* of recipe->depths, whose repeats are read; -1 none */
    int level;   /* of its blocks, in the present repeat */
    bool target; /* the target of pairs has begun */
    bool batch_norm;
};

struct np_item {
    const struct np_yaml_node *node;
    struct np_block block; /* of which the item's blocks are variations; from: the first's */
    int repeat;
    int tie, tie_widths; /* of recipe->ties; -1: none */
    struct np_shape in;  /* of what its first block reads, past a fit */
    const char *word;    /* by which its value is known; "" none */
};

/* Blocks that the item stands for. */
static inline size_t np_item_blocks(const struct np_item *item)
{
    return (size_t)item->repeat * (size_t)np_cell_blocks(&item->block);
}

/* Before all items: the word, unless it is "", stands for what the stem makes. */
enum np_status np_items_name_stem(struct np_item_list *list, const char *word,
                                  struct np_error *err);
/* Of an item that is repeated as a whole: its depths, if it has some, the last of which is *repeat.
 * Then, before each repeat, which one it is; and when all are there, which must be alike. */
enum np_status np_items_begin_depth(struct np_item_list *list, struct np_yaml_map *map, int *repeat,
                                    struct np_error *err);
void np_items_set_level(struct np_item_list *list, int repeat);
enum np_status np_items_end_depth(struct np_item_list *list, struct np_error *err);
/* Of an item that is blocks: not all keys are for what a depth passes over. */
enum np_status np_item_check_depth(const struct np_item_list *list, struct np_yaml_map *map,
                                   struct np_error *err);
/* Before the item's blocks are there: its name, its ties, and what it reads and adds to. */
enum np_status np_item_read_links(struct np_item_list *list, struct np_item *item,
                                  struct np_yaml_map *map, struct np_error *err);
/* With its widths, on which candidates count: whether what they are tied to has as many. */
enum np_status np_item_check_widths(const struct np_item_list *list, const struct np_item *item,
                                    struct np_yaml_map *map, struct np_error *err);
/* Counts the candidates that are written, each once for every width, and one more by which a block
 * is passed over; then reads them, from the first one on. */
enum np_status np_item_count_choices(struct np_item *item, const struct np_yaml_node *choices,
                                     struct np_error *err);
enum np_status np_item_read_choices(struct np_item_list *list, struct np_item *item,
                                    const struct np_yaml_node *first, const int *widths,
                                    struct np_error *err);
/* With its candidates: whether what it is tied to is like it, and has the shape that it adds to. */
enum np_status np_item_check_links(const struct np_item_list *list, const struct np_item *item,
                                   struct np_yaml_map *map, struct np_error *err);
/* Afterwards: the word stands for what its last repeat made. */
enum np_status np_item_settle_name(struct np_item_list *list, const struct np_item *item,
                                   struct np_error *err);

/* In the end: names of their own for all blocks. */
enum np_status np_items_name_inner(struct np_item_list *list, struct np_error *err);

/* Appends the blocks of an item. */
enum np_status np_item_lay_out(struct np_item_list *list, const struct np_item *item,
                               struct np_error *err);

#endif
