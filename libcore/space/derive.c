#include "space/derive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "space/parts.h"
#include "space/recipe_internal.h"

struct derived {
    const struct np_recipe *from;
    struct np_recipe recipe; /* borrows all but its blocks from the other */
    char (*names)[NP_MAX_NAME + 1];
    bool *read, *named; /* of the value at each position: by any block; by its name */
};

static enum np_status derived_init(struct derived *d, const struct np_recipe *recipe,
                                   struct np_error *err)
{
    size_t positions = (size_t)recipe->block_count + 1;
    enum np_status status;
    *d = (struct derived){.from = recipe, .recipe = *recipe};
    d->recipe.blocks = NULL;
    NP_TRY(np_alloc(&d->recipe.blocks, positions, sizeof *d->recipe.blocks, err));
    NP_TRY(np_alloc(&d->names, positions, sizeof *d->names, err));
    NP_TRY(np_zalloc(&d->read, positions, sizeof *d->read, err));
    NP_TRY(np_zalloc(&d->named, positions, sizeof *d->named, err));
out:
    return status;
}

static void derived_clear(struct derived *d)
{
    free(d->recipe.blocks);
    free(d->names);
    free(d->read);
    free(d->named);
}

/* Whether a candidate before it has weights that could be its own. */
static bool has_double(const struct np_supernet *net, int block, int candidate)
{
    uint32_t first = net->layer_first[block + 1], layer = first + (uint32_t)candidate;
    for (uint32_t other = first; other < layer; other++)
        if (np_kind_same_weights(np_supernet_kind(net, layer), np_supernet_kind(net, other)))
            return true;
    return false;
}

/* Block b with one candidate: of no cell, drawn with no other. Its origin counts the recipe's own
 * candidates, as the run that it inherits from is the recipe's; that of a lone one stays. */
static void choose(struct np_block *block, const struct np_supernet *net, int b, int candidate)
{
    *block = net->recipe->blocks[b];
    if (block->count > 1)
        block->origin = has_double(net, b, candidate) ? candidate : 0;
    block->choices += candidate;
    block->count = 1;
    block->widths = block->widths ? 1 : 0;
    block->entangled = false;
    block->depth = -1;
    block->level = 0;
    block->cell = 0;
    block->inputs = 1;
    block->name = block->tie = "";
    if (!block->choices->cross)
        block->memory = -1;
}

/* Only what is written right before is read without a name. */
static void mark_readers(struct derived *d)
{
    for (int b = 0; b < d->recipe.block_count; b++) {
        const struct np_block *block = &d->recipe.blocks[b];
        d->read[block->from] = true;
        d->named[block->from] |= block->from != b;
        if (block->memory >= 0)
            d->read[block->memory] = d->named[block->memory] = true;
        if (block->sum >= 0)
            d->read[block->sum] = d->named[block->sum] = true;
    }
}

static enum np_status check_readers(const struct derived *d, struct np_error *err)
{
    for (int b = 0; b + 1 < d->recipe.block_count; b++)
        if (!d->read[b + 1])
            return np_fail(err, NP_EINPUT,
                           "'%s': in this subnet no block reads what block %d makes",
                           np_text_safe(d->from->path).s, b);
    return NP_OK;
}

/* The name by which the recipe knows the value, which is that of the last block which has it. */
static const char *known_name(const struct np_recipe *recipe, int position)
{
    const struct np_block *block;
    if (position == 0)
        return recipe->stem_name;
    block = &recipe->blocks[position - 1];
    return position < recipe->block_count && block[1].name == block->name ? "" : block->name;
}

static bool is_taken(const struct np_recipe *recipe, const char *name)
{
    for (int i = 0; i < recipe->name_count; i++)
        if (strcmp(recipe->names[i], name) == 0)
            return true;
    return false;
}

static const char *name_value(struct derived *d, int position)
{
    const char *known = known_name(d->from, position);
    char *name = d->names[position];
    size_t size = sizeof d->names[position];
    if (*known)
        return known;
    if (position == 0)
        snprintf(name, size, "stem");
    else
        snprintf(name, size, "block%d", position - 1);
    for (int again = 1; is_taken(d->from, name); again++)
        snprintf(name, size, "value%d.%d", position, again);
    return name;
}

static void name_values(struct derived *d)
{
    d->recipe.stem_name = d->named[0] ? name_value(d, 0) : "";
    for (int b = 0; b < d->recipe.block_count; b++)
        if (d->named[b + 1])
            d->recipe.blocks[b].name = name_value(d, b + 1);
}

enum np_status np_derive(struct np_buf *text, const struct np_supernet *net,
                         const uint16_t *choices, struct np_error *err)
{
    struct derived d;
    enum np_status status;
    NP_TRY(derived_init(&d, net->recipe, err));
    for (int b = 0; b < net->recipe->block_count; b++)
        choose(&d.recipe.blocks[b], net, b, choices[b]);
    mark_readers(&d);
    NP_TRY(check_readers(&d, err));
    name_values(&d);
    d.recipe.sampler = NP_SAMPLER_UNIFORM;
    d.recipe.members = 1;
    d.recipe.same_batch = false;
    d.recipe.distill = 0;
    d.recipe.has_init = false;
    if (!np_supernet_has_batch_norm(net, choices))
        d.recipe.calibration = 0;
    NP_TRY(np_recipe_write(&d.recipe, text, err));
out:
    derived_clear(&d);
    return status;
}
