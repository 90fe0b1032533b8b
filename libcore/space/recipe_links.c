/* What the items of the list of blocks call each other: names, ties, and what they read and add. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "space/cells.h"
#include "space/recipe_blocks.h"

/* "" if it is not there. */
static enum np_status read_word(const struct np_yaml_node *node, const char *key, const char **word,
                                struct np_error *err)
{
    enum np_status status;
    *word = "";
    NP_TRY(np_yaml_get_string(node, word, err));
    if (node->kind != NP_YAML_ABSENT && (**word == '\0' || strlen(*word) > NP_MAX_NAME))
        NP_TRY(np_yaml_fail(node, err, "'%s' must have 1 to %d bytes", key, NP_MAX_NAME));
out:
    return status;
}

/* The place in words, -1 if it is not there. */
static int find_word(char *const *words, int count, const char *word)
{
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

/* The word is known here, or another block has the name. */
static bool is_taken(const struct np_item_list *list, const char *word, const char *name)
{
    for (size_t i = 0; i < list->named.count; i++)
        if (strcmp(list->named.words[i], word) == 0)
            return true;
    return find_word(list->recipe->names, list->recipe->name_count, name) >= 0;
}

static enum np_status read_name(struct np_item_list *list, struct np_item *item,
                                const struct np_yaml_node *node, struct np_error *err)
{
    struct np_recipe *recipe = list->recipe;
    size_t used = (size_t)recipe->name_count;
    char name[NP_MAX_NAME + 16];
    enum np_status status;
    NP_TRY(read_word(node, "name", &item->word, err));
    item->block.name = "";
    if (!*item->word)
        return NP_OK;
    if (list->inside)
        snprintf(name, sizeof name, "%s/%d", item->word, list->inner++);
    else
        snprintf(name, sizeof name, "%s", item->word);
    if (strlen(name) > NP_MAX_NAME)
        NP_TRY(np_yaml_fail(node, err, "'name' must have 1 to %d bytes: it is '%s' here",
                            NP_MAX_NAME, np_text_safe(name).s));
    if (is_taken(list, item->word, name))
        NP_TRY(np_yaml_fail(node, err, "a block before this one has the name '%s'",
                            np_text_safe(name).s));
    NP_TRY(np_grow(&recipe->names, &list->name_capacity, used, sizeof *recipe->names, err));
    NP_TRY(np_strdup(&recipe->names[used], name, err));
    item->block.name = recipe->names[recipe->name_count++];
out:
    return status;
}

static enum np_status read_tie(struct np_item_list *list, struct np_item *item,
                               const struct np_yaml_node *node, struct np_error *err)
{
    struct np_recipe *recipe = list->recipe;
    size_t used = (size_t)recipe->tie_count;
    const char *tie;
    enum np_status status;
    NP_TRY(read_word(node, "tie", &tie, err));
    item->block.tie = "";
    item->tie = *tie ? find_word(recipe->ties, recipe->tie_count, tie) : -1;
    if (*tie && item->tie < 0) {
        NP_TRY(np_grow(&recipe->ties, &list->tie_capacity, used, sizeof *recipe->ties, err));
        NP_TRY(np_grow(&list->tied, &list->tied_capacity, used, sizeof *list->tied, err));
        NP_TRY(np_strdup(&recipe->ties[used], tie, err));
        list->tied[used] = -1;
        item->tie = recipe->tie_count++;
    }
    if (*tie)
        item->block.tie = recipe->ties[item->tie];
out:
    return status;
}

/* The position of a named block before this one, or what it was. */
static enum np_status read_position(const struct np_item_list *list,
                                    const struct np_yaml_node *node, int *position,
                                    struct np_error *err)
{
    const struct np_named *named = &list->named;
    enum np_status status;
    int which = 0;
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    if (named->count == 0)
        NP_TRY(np_yaml_fail(node, err, "no block before this one has a name"));
    NP_TRY(np_yaml_get_word(node, &which, named->words, named->count, err));
    *position = named->positions[which];
out:
    return status;
}

static enum np_status check_alone(const struct np_item *item, const struct np_yaml_node *node,
                                  const char *key, struct np_error *err)
{
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    if (item->block.cell)
        return np_yaml_fail(node, err, "a cell has no '%s'", key);
    if (item->repeat > 1)
        return np_yaml_fail(node, err, "'%s' is for a block that is not repeated", key);
    return NP_OK;
}

enum np_status np_item_read_links(struct np_item_list *list, struct np_item *item,
                                  struct np_yaml_map *map, struct np_error *err)
{
    const struct np_yaml_node *from = np_yaml_find(map, "from"), *add = np_yaml_find(map, "add");
    enum np_status status;
    if (item->block.inputs == 2 && from->kind != NP_YAML_ABSENT)
        NP_TRY(np_yaml_fail(from, err, "a cell of two inputs reads what is before it"));
    NP_TRY(check_alone(item, add, "add", err));
    NP_TRY(read_position(list, from, &item->block.from, err));
    NP_TRY(read_position(list, add, &item->block.sum, err));
    NP_TRY(read_tie(list, item, np_yaml_find(map, "tie"), err));
    NP_TRY(read_name(list, item, np_yaml_find(map, "name"), err));
out:
    return status;
}

/* Whether the item has as many candidates, and edges, as the first with its tie. */
static enum np_status check_tie(const struct np_item_list *list, const struct np_item *item,
                                const struct np_yaml_node *node, struct np_error *err)
{
    const struct np_block *block = &item->block, *first;
    if (item->tie < 0 || list->tied[item->tie] < 0)
        return NP_OK;
    first = &list->recipe->blocks[list->tied[item->tie]];
    if (first->cell != block->cell || first->inputs != block->inputs)
        return np_yaml_fail(node, err, "what is tied to '%s' is a cell of %d nodes, not of %d",
                            np_text_safe(block->tie).s, first->cell, block->cell);
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

enum np_status np_item_check_links(const struct np_item_list *list, const struct np_item *item,
                                   struct np_yaml_map *map, struct np_error *err)
{
    enum np_status status;
    NP_TRY(check_tie(list, item, np_yaml_find(map, "tie"), err));
    NP_TRY(check_sum(list, item, np_yaml_find(map, "add"), err));
out:
    return status;
}

enum np_status np_item_settle_name(struct np_item_list *list, const struct np_item *item,
                                   struct np_error *err)
{
    struct np_named *n = &list->named;
    enum np_status status;
    if (!*item->word)
        return NP_OK;
    NP_TRY(np_grow(&n->words, &n->word_capacity, n->count, sizeof *n->words, err));
    NP_TRY(np_grow(&n->positions, &n->position_capacity, n->count, sizeof *n->positions, err));
    NP_TRY(np_grow(&n->shapes, &n->shape_capacity, n->count, sizeof *n->shapes, err));
    n->words[n->count] = item->word;
    n->positions[n->count] = list->made;
    n->shapes[n->count++] = list->shapes[list->made];
out:
    return status;
}
