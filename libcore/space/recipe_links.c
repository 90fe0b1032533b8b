/* What the items of the list of blocks call each other: names, ties, and what they read and add. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "space/cells.h"
#include "space/recipe_blocks.h"

/* What is added to a word of a list within the list: a slash, and a number below NP_MAX_BLOCKS. */
#define INNER_BYTES 5

/* The place in words, -1 if it is not there. */
static int find_word(char *const *words, int count, const char *word)
{
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

static bool is_known(const struct np_named *named, const char *word)
{
    for (size_t i = 0; i < named->count; i++)
        if (strcmp(named->words[i], word) == 0)
            return true;
    return false;
}

static enum np_status keep_name(struct np_item_list *list, const char *word, const char **name,
                                struct np_error *err)
{
    struct np_recipe *recipe = list->recipe;
    size_t used = (size_t)recipe->name_count;
    enum np_status status;
    NP_TRY(np_grow(&recipe->names, &list->name_capacity, used, sizeof *recipe->names, err));
    NP_TRY(np_grow(&list->inner, &list->inner_capacity, used, sizeof *list->inner, err));
    NP_TRY(np_strdup(&recipe->names[used], word, err));
    list->inner[used] = list->inside;
    *name = recipe->names[recipe->name_count++];
out:
    return status;
}

static enum np_status read_name(struct np_item_list *list, struct np_item *item,
                                const struct np_yaml_node *node, struct np_error *err)
{
    size_t max = list->inside ? NP_MAX_NAME - INNER_BYTES : NP_MAX_NAME;
    enum np_status status;
    NP_TRY(np_recipe_get_word(node, &item->word, max, err));
    item->block.name = "";
    if (!*item->word)
        return NP_OK;
    if (is_known(&list->named, item->word))
        NP_TRY(
            np_yaml_fail(node, err, "the name '%s' is given already", np_text_safe(item->word).s));
    NP_TRY(keep_name(list, item->word, &item->block.name, err));
out:
    return status;
}

/* A tie, and its place in the recipe's: "" and -1 if there is none. */
static enum np_status read_tie(struct np_item_list *list, struct np_yaml_map *map, const char *key,
                               int *place, const char **word, struct np_error *err)
{
    struct np_recipe *recipe = list->recipe;
    size_t used = (size_t)recipe->tie_count;
    const char *tie;
    enum np_status status;
    NP_TRY(np_recipe_get_word(np_yaml_find(map, key), &tie, NP_MAX_NAME, err));
    *word = "";
    *place = *tie ? find_word(recipe->ties, recipe->tie_count, tie) : -1;
    if (*tie && *place < 0) {
        NP_TRY(np_grow(&recipe->ties, &list->tie_capacity, used, sizeof *recipe->ties, err));
        NP_TRY(np_grow(&list->tied, &list->tied_capacity, used, sizeof *list->tied, err));
        NP_TRY(np_strdup(&recipe->ties[used], tie, err));
        list->tied[used] = (struct np_tied){-1, -1};
        *place = recipe->tie_count++;
    }
    if (*tie)
        *word = recipe->ties[*place];
out:
    return status;
}

static enum np_status read_ties(struct np_item_list *list, struct np_item *item,
                                struct np_yaml_map *map, struct np_error *err)
{
    struct np_block *block = &item->block;
    enum np_status status;
    NP_TRY(read_tie(list, map, "tie", &item->tie, &block->tie, err));
    NP_TRY(read_tie(list, map, "tie_widths", &item->tie_widths, &block->tie_widths, err));
    if (*block->tie && *block->tie_widths)
        NP_TRY(np_yaml_fail(np_yaml_find(map, "tie_widths"), err,
                            "what is tied has the same widths: 'tie' or 'tie_widths'"));
    if (*block->tie_widths && np_yaml_find(map, "widths")->kind == NP_YAML_ABSENT)
        NP_TRY(np_yaml_fail(np_yaml_find(map, "tie_widths"), err, "there are no 'widths' to tie"));
out:
    return status;
}

/* Why a word is none of those that are known. */
static enum np_status refuse_word(const struct np_item_list *list, const struct np_yaml_node *node,
                                  const char *word, struct np_error *err)
{
    const struct np_recipe *recipe = list->recipe;
    if (find_word(recipe->names, recipe->name_count, word) >= 0)
        return np_yaml_fail(node, err, "the name '%s' is known in its list alone",
                            np_text_safe(word).s);
    return np_yaml_fail(node, err, "no block before this one has the name '%s'",
                        np_text_safe(word).s);
}

/* The position of a named block before this one, or what it was. */
static enum np_status read_position(const struct np_item_list *list,
                                    const struct np_yaml_node *node, int *position,
                                    struct np_error *err)
{
    const struct np_named *named = &list->named;
    const char *word = "";
    enum np_status status;
    int which = 0;
    NP_TRY(np_yaml_get_string(node, &word, err));
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    if (named->count == 0 || (!is_known(named, word) &&
                              find_word(list->recipe->names, list->recipe->name_count, word) >= 0))
        NP_TRY(refuse_word(list, node, word, err));
    NP_TRY(np_yaml_get_word(node, &which, named->words, named->count, err));
    *position = named->positions[which];
out:
    return status;
}

/* An addition is of a single block. */
static enum np_status check_alone(const struct np_item *item, const struct np_yaml_node *node,
                                  struct np_error *err)
{
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    if (item->block.cell)
        return np_yaml_fail(node, err, "a cell has no 'add'");
    if (item->repeat > 1)
        return np_yaml_fail(node, err, "'add' is for a block that is not repeated");
    return NP_OK;
}

enum np_status np_item_read_links(struct np_item_list *list, struct np_item *item,
                                  struct np_yaml_map *map, struct np_error *err)
{
    const struct np_yaml_node *from = np_yaml_find(map, "from"), *add = np_yaml_find(map, "add");
    enum np_status status;
    if (item->block.inputs == 2 && from->kind != NP_YAML_ABSENT)
        NP_TRY(np_yaml_fail(from, err, "a cell of two inputs reads what is before it"));
    NP_TRY(check_alone(item, add, err));
    NP_TRY(read_position(list, from, &item->block.from, err));
    NP_TRY(read_position(list, add, &item->block.sum, err));
    NP_TRY(read_ties(list, item, map, err));
    NP_TRY(read_name(list, item, np_yaml_find(map, "name"), err));
out:
    return status;
}

/* Whether the item has as many candidates, and edges, as the first with its tie. */
static enum np_status check_tie(const struct np_item_list *list, const struct np_item *item,
                                const struct np_yaml_node *node, struct np_error *err)
{
    const struct np_block *block = &item->block, *first;
    if (item->tie < 0 || list->tied[item->tie].repeat < 0)
        return NP_OK;
    first = &list->recipe->blocks[list->tied[item->tie].repeat];
    if (!first->cell != !block->cell)
        return np_yaml_fail(node, err, "what is tied to '%s' is %s cell",
                            np_text_safe(block->tie).s, first->cell ? "a" : "no");
    if (first->cell != block->cell)
        return np_yaml_fail(node, err, "what is tied to '%s' is a cell of %d nodes, not of %d",
                            np_text_safe(block->tie).s, first->cell, block->cell);
    if (first->inputs != block->inputs)
        return np_yaml_fail(node, err, "what is tied to '%s' is a cell of %d input%s, not of %d",
                            np_text_safe(block->tie).s, first->inputs,
                            first->inputs == 1 ? "" : "s", block->inputs);
    first += np_cell_lead(first);
    if (first->count != block->count)
        return np_yaml_fail(node, err, "what is tied to '%s' has %d candidate%s, not %d",
                            np_text_safe(block->tie).s, first->count, first->count == 1 ? "" : "s",
                            block->count);
    return NP_OK;
}

static enum np_status check_sum(const struct np_item_list *list, const struct np_item *item,
                                const struct np_yaml_node *node, struct np_error *err)
{
    struct np_shape made = np_shape_of_block(list->recipe, &item->block, item->in), to;
    if (item->block.sum < 0)
        return NP_OK;
    to = list->shapes[item->block.sum];
    if (np_shape_equal(made, to))
        return NP_OK;
    return np_yaml_fail(node, err, "what it adds to is %dx%dx%d, the block makes %dx%dx%d",
                        to.height, to.width, to.channels, made.height, made.width, made.channels);
}

enum np_status np_item_check_widths(const struct np_item_list *list, const struct np_item *item,
                                    struct np_yaml_map *map, struct np_error *err)
{
    const struct np_block *block = &item->block;
    bool all = item->tie_widths < 0;
    int tie = all ? item->tie : item->tie_widths, first, widths;
    if (tie < 0)
        return NP_OK;
    first = all ? list->tied[tie].repeat : list->tied[tie].widths;
    if (first < 0 || (widths = list->recipe->blocks[first].widths) == block->widths)
        return NP_OK;
    return np_yaml_fail(np_yaml_find(map, all ? "tie" : "tie_widths"), err,
                        "what is tied to '%s' has %d width%s, not %d",
                        np_text_safe(list->recipe->ties[tie]).s, widths, widths == 1 ? "" : "s",
                        block->widths);
}

enum np_status np_item_check_links(const struct np_item_list *list, const struct np_item *item,
                                   struct np_yaml_map *map, struct np_error *err)
{
    enum np_status status;
    NP_TRY(check_tie(list, item, np_yaml_find(map, "tie"), err));
    NP_TRY(check_sum(list, item, np_yaml_find(map, "add"), err));
out:
    return status;
}

/* The word stands for what was made last. */
static enum np_status settle(struct np_item_list *list, const char *word, struct np_error *err)
{
    struct np_named *n = &list->named;
    enum np_status status;
    NP_TRY(np_grow(&n->words, &n->word_capacity, n->count, sizeof *n->words, err));
    NP_TRY(np_grow(&n->positions, &n->position_capacity, n->count, sizeof *n->positions, err));
    NP_TRY(np_grow(&n->shapes, &n->shape_capacity, n->count, sizeof *n->shapes, err));
    n->words[n->count] = word;
    n->positions[n->count] = list->made;
    n->shapes[n->count++] = list->shapes[list->made];
out:
    return status;
}

enum np_status np_item_settle_name(struct np_item_list *list, const struct np_item *item,
                                   struct np_error *err)
{
    return *item->word ? settle(list, item->word, err) : NP_OK;
}

enum np_status np_items_name_stem(struct np_item_list *list, const char *word, struct np_error *err)
{
    enum np_status status;
    list->recipe->stem_name = "";
    if (!*word)
        return NP_OK;
    NP_TRY(keep_name(list, word, &list->recipe->stem_name, err));
    NP_TRY(settle(list, word, err));
out:
    return status;
}

static enum np_status name_inner(struct np_recipe *recipe, int which, int *number,
                                 struct np_error *err)
{
    char name[NP_MAX_NAME + 16], *old = recipe->names[which];
    enum np_status status;
    do
        snprintf(name, sizeof name, "%.*s/%d", NP_MAX_NAME - INNER_BYTES, old, (*number)++);
    while (find_word(recipe->names, recipe->name_count, name) >= 0);
    NP_TRY(np_strdup(&recipe->names[which], name, err));
    for (int i = 0; i < recipe->block_count; i++)
        if (recipe->blocks[i].name == old)
            recipe->blocks[i].name = recipe->names[which];
    free(old);
out:
    return status;
}

enum np_status np_items_name_inner(struct np_item_list *list, struct np_error *err)
{
    enum np_status status = NP_OK;
    int number = 0;
    for (int i = 0; i < list->recipe->name_count; i++)
        if (list->inner[i])
            NP_TRY(name_inner(list->recipe, i, &number, err));
out:
    return status;
}
