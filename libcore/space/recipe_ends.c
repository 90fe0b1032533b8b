/* The largest and the smallest candidate of every block, which the sampler sandwich takes. */
#include "space/depth.h"
#include "space/recipe_internal.h"
#include "space/supernet.h"

static size_t weights_of(const struct np_supernet *net, uint32_t layer)
{
    const struct np_kind *kind = np_supernet_kind(net, layer);
    return kind->whole ? kind->part_floats : kind->floats;
}

/* The first of the largest of a width, or of the smallest, which passes over what can be. */
static int find_candidate(const struct np_supernet *net, int block, int width, int sign)
{
    const struct np_block *b = &net->recipe->blocks[block];
    int each = np_width_candidates(b), best = 0;
    uint32_t first = net->layer_first[block + 1] + (uint32_t)(width * each);
    if (b->level > 0 && sign < 0)
        return each - 1;
    for (int c = 1; c < each; c++) {
        size_t own = weights_of(net, first + (uint32_t)c);
        size_t most = weights_of(net, first + (uint32_t)best);
        if (sign > 0 ? own > most : own < most)
            best = c;
    }
    return best;
}

/* Widths ascend. A block that draws like an earlier one has that one's candidate of its width. */
static int find_end(const struct np_supernet *net, int block, int sign)
{
    const struct np_block *blocks = net->recipe->blocks, *b = &blocks[block];
    const struct np_block *drawn = &blocks[b->drawn];
    int each = np_width_candidates(b), width = b->widths && sign > 0 ? b->widths - 1 : 0;
    int candidate = (sign > 0 ? drawn->largest : drawn->smallest) % each;
    if (drawn == b)
        candidate = find_candidate(net, block, width, sign);
    return width * each + candidate;
}

enum np_status np_recipe_find_ends(struct np_recipe *recipe, struct np_error *err)
{
    struct np_supernet net;
    enum np_status status = np_supernet_init(&net, recipe, err);
    if (status != NP_OK)
        return status;
    for (int b = 0; b < recipe->block_count; b++) {
        recipe->blocks[b].largest = find_end(&net, b, 1);
        recipe->blocks[b].smallest = find_end(&net, b, -1);
    }
    np_supernet_clear(&net);
    return NP_OK;
}
