/* The space in the canonical text: layers with all their keys, and blocks folded into repeats and
 * cells, however they were written. */
#include <string.h>

#include "space/cells.h"
#include "space/depth.h"
#include "space/op_fields.h"
#include "space/recipe_internal.h"

/* memory: the name of what it attends to, if it does; name: its own, "" none. */
static enum np_status write_layer(struct np_buf *buf, const struct np_layer_spec *spec,
                                  enum np_op_role role, const char *memory, const char *name,
                                  struct np_error *err)
{
    const struct np_op_fields *op = np_op_fields(spec->op, role);
    char text[NP_FIELD_TEXT];
    enum np_status status;
    NP_TRY(np_buf_printf(buf, err, "{op: %s", op->name));
    for (int i = 0; i < NP_FIELD_COUNT; i++) {
        enum np_field field = (enum np_field)i;
        if (!np_op_has(op, field) || np_field_is_absent(op, spec, field))
            continue;
        if (field != NP_FIELD_MEMORY) {
            np_field_text(text, op, spec, field, false);
            NP_TRY(np_buf_printf(buf, err, ", %s: %s", np_field_name(field), text));
        } else if (spec->cross) {
            NP_TRY(np_buf_printf(buf, err, ", memory: "));
            NP_TRY(np_yaml_quote(buf, memory, err));
        }
    }
    if (*name) {
        NP_TRY(np_buf_printf(buf, err, ", name: "));
        NP_TRY(np_yaml_quote(buf, name, err));
    }
    NP_TRY(np_buf_append(buf, "}", 1, err));
out:
    return status;
}

static bool same_block(const struct np_block *a, const struct np_block *b)
{
    return a->count == b->count && a->out == b->out && a->memory == b->memory &&
           a->cell == b->cell && a->inputs == b->inputs && a->entangled == b->entangled &&
           a->widths == b->widths && a->origin == b->origin && a->depth == b->depth &&
           strcmp(a->tie_widths, b->tie_widths) == 0 && strcmp(a->name, b->name) == 0 &&
           strcmp(a->tie, b->tie) == 0 &&
           (a->choices == b->choices ||
            memcmp(a->choices, b->choices, (size_t)a->count * sizeof *a->choices) == 0);
}

/* Columns before an item's dash. */
#define OUTER 4
#define INNER 8 /* of a list within the list */

/* A key whose value is a name, if there is one. */
static enum np_status write_word(struct np_buf *buf, int indent, const char *key, const char *word,
                                 struct np_error *err)
{
    enum np_status status;
    if (!*word)
        return NP_OK;
    NP_TRY(np_buf_printf(buf, err, "%*s  %s: ", indent, "", key));
    NP_TRY(np_yaml_quote(buf, word, err));
    NP_TRY(np_buf_append(buf, "\n", 1, err));
out:
    return status;
}

/* The largest of its widths, 0 if it has none. */
static int widest(const struct np_block *block)
{
    return block->widths ? block->choices[block->count - 1].width : 0;
}

static enum np_status write_widths(struct np_buf *buf, int indent, const struct np_block *block,
                                   struct np_error *err)
{
    enum np_status status = NP_OK;
    if (block->widths)
        NP_TRY(np_buf_printf(buf, err, "%*s  widths: [", indent, ""));
    for (int i = 0; i < block->widths; i++)
        NP_TRY(np_buf_printf(buf, err, i ? ", %d" : "%d",
                             block->choices[i * np_width_candidates(block)].width));
    if (block->widths)
        NP_TRY(np_buf_printf(buf, err, "]\n"));
    NP_TRY(write_word(buf, indent, "tie_widths", block->tie_widths, err));
out:
    return status;
}

/* A repeat of an item. */
struct repeat {
    const struct np_recipe *recipe;
    const struct np_block *block; /* its first one with the item's candidates */
    int first;                    /* its first one of all */
};

static struct repeat repeat_at(const struct np_recipe *recipe, int first)
{
    const struct np_block *block = &recipe->blocks[first];
    return (struct repeat){recipe, block + np_cell_lead(block), first};
}

/* Its input is what was made before it; of cells with two inputs nothing else can be. */
static bool follows(const struct repeat *r)
{
    return r->block->inputs == 2 || r->block->from == r->first;
}

/* The name of the value at a position, "" if it has none or there is none. */
static const char *name_at(const struct np_recipe *recipe, int position)
{
    if (position < 0)
        return "";
    return position > 0 ? recipe->blocks[position - 1].name : recipe->stem_name;
}

/* What an item's block adds to; blocks of cells do so by themselves. */
static const char *added(const struct repeat *r)
{
    return r->block->cell ? "" : name_at(r->recipe, r->block->sum);
}

/* The candidates, of one width; that by which a block is passed over is not written. */
static enum np_status write_choices(struct np_buf *buf, int indent, const struct repeat *r,
                                    struct np_error *err)
{
    const struct np_block *block = r->block;
    const char *memory = name_at(r->recipe, block->memory);
    enum np_status status;
    NP_TRY(np_buf_printf(buf, err, "%*s  choices:\n", indent, ""));
    for (int i = 0; i < np_width_candidates(block); i++) {
        if (np_depth_passes(block, i))
            continue;
        NP_TRY(np_buf_printf(buf, err, "%*s    - ", indent, ""));
        NP_TRY(write_layer(buf, &block->choices[i], NP_ROLE_CHOICE, memory, "", err));
        NP_TRY(np_buf_append(buf, "\n", 1, err));
    }
out:
    return status;
}

static enum np_status write_number(struct np_buf *buf, int indent, const char *key, int number,
                                   struct np_error *err)
{
    return np_buf_printf(buf, err, "%*s  %s: %d\n", indent, "", key, number);
}

static enum np_status write_blocks(struct np_buf *buf, int indent, const struct repeat *r,
                                   int repeat, struct np_error *err)
{
    const struct np_recipe *recipe = r->recipe;
    const struct np_block *block = r->block;
    enum np_status status;
    NP_TRY(np_buf_printf(buf, err, "%*s- repeat: %d\n", indent, "", repeat));
    NP_TRY(write_word(buf, indent, "name", block->name, err));
    NP_TRY(write_word(buf, indent, "tie", block->tie, err));
    NP_TRY(write_word(buf, indent, "from", follows(r) ? "" : name_at(recipe, block->from), err));
    NP_TRY(write_word(buf, indent, "add", added(r), err));
    if (block->cell)
        NP_TRY(write_number(buf, indent, "cell", block->cell, err));
    if (block->inputs > 1)
        NP_TRY(write_number(buf, indent, "inputs", block->inputs, err));
    NP_TRY(write_widths(buf, indent, block, err));
    if (recipe->input == NP_INPUT_IMAGES && widest(block) != block->out)
        NP_TRY(write_number(buf, indent, "out", block->out, err));
    if (recipe->input == NP_INPUT_IMAGES)
        NP_TRY(write_number(buf, indent, "stride", block->stride, err));
    if (block->entangled)
        NP_TRY(np_buf_printf(buf, err, "%*s  weights: entangled\n", indent, ""));
    if (block->origin)
        NP_TRY(write_number(buf, indent, "origin", block->origin, err));
    NP_TRY(write_choices(buf, indent, r, err));
out:
    return status;
}

/* Equal neighbours fold into one `repeat`; all but the first have stride 1 and read what was made
 * before. A cell is written as its first edge. */
static bool goes_on(const struct repeat *r, int next, int end)
{
    struct repeat other;
    if (next == end)
        return false;
    other = repeat_at(r->recipe, next);
    return other.block->stride == 1 && same_block(r->block, other.block) && follows(&other) &&
           !*added(r) && !*added(&other);
}

/* The item that begins with a block, of those before `end`: where the next one does. */
static enum np_status write_item(struct np_buf *buf, int indent, const struct np_recipe *recipe,
                                 int *first, int end, struct np_error *err)
{
    struct repeat repeat = repeat_at(recipe, *first);
    int each = np_cell_blocks(repeat.block), next = *first + each;
    enum np_status status;
    while (goes_on(&repeat, next, end))
        next += each;
    status = write_blocks(buf, indent, &repeat, (next - *first) / each, err);
    *first = next;
    return status;
}

/* Repeats of which the last may be passed over: a list, of the first one's items. */
static enum np_status write_depth(struct np_buf *buf, const struct np_recipe *recipe, int *first,
                                  struct np_error *err)
{
    const struct np_depth *depth = &recipe->depths[recipe->blocks[*first].depth];
    int most = depth->repeats[depth->count - 1], end = *first + depth->each;
    enum np_status status;
    NP_TRY(np_buf_printf(buf, err, "%*s- repeat: %d\n%*s  depth: [", OUTER, "", most, OUTER, ""));
    for (int i = 0; i < depth->count; i++)
        NP_TRY(np_buf_printf(buf, err, i ? ", %d" : "%d", depth->repeats[i]));
    NP_TRY(np_buf_printf(buf, err, "]\n%*s  blocks:\n", OUTER, ""));
    for (int i = *first; i < end;)
        NP_TRY(write_item(buf, INNER, recipe, &i, end, err));
    *first += most * depth->each;
out:
    return status;
}

static enum np_status write_list(struct np_buf *buf, const struct np_recipe *recipe,
                                 struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int i = 0; i < recipe->block_count;)
        NP_TRY(recipe->blocks[i].depth >= 0
                   ? write_depth(buf, recipe, &i, err)
                   : write_item(buf, OUTER, recipe, &i, recipe->block_count, err));
out:
    return status;
}

static enum np_status write_input(struct np_buf *buf, const struct np_recipe *recipe,
                                  struct np_error *err)
{
    switch (recipe->input) {
    case NP_INPUT_PAIRS:
        return np_buf_printf(buf, err, "{kind: pairs, vocab: %d, source_length: %d, length: %d%s}",
                             recipe->vocab, recipe->source_length, recipe->length,
                             recipe->masked ? ", padding: masked" : "");
    case NP_INPUT_IMAGES:
        return np_buf_printf(buf, err,
                             "{kind: images, height: %d, width: %d, channels: %d, classes: %d}",
                             recipe->height, recipe->image_width, recipe->channels, recipe->vocab);
    case NP_INPUT_TOKENS:
        break;
    }
    return np_buf_printf(buf, err, "{kind: tokens, vocab: %d, length: %d}", recipe->vocab,
                         recipe->length);
}

enum np_status np_recipe_write_space(struct np_buf *buf, const struct np_recipe *recipe,
                                     struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_buf_printf(buf, err, "space:\n  input: "));
    NP_TRY(write_input(buf, recipe, err));
    NP_TRY(np_buf_printf(buf, err, "\n  width: %d\n  stem: ", recipe->width));
    NP_TRY(write_layer(buf, &recipe->stem, NP_ROLE_STEM, "", recipe->stem_name, err));
    NP_TRY(np_buf_printf(buf, err, "\n  blocks:\n"));
    NP_TRY(write_list(buf, recipe, err));
    NP_TRY(np_buf_printf(buf, err, "  head: "));
    NP_TRY(write_layer(buf, &recipe->head, NP_ROLE_HEAD, "", "", err));
    NP_TRY(np_buf_append(buf, "\n", 1, err));
out:
    return status;
}
