/* The blocks that an item of the list stands for. */
#include "base/memory.h"
#include "space/cells.h"
#include "space/recipe_blocks.h"

/* The fixed candidates of cells with two inputs. */
static const struct np_layer_spec fit_same = {
    .op = NP_OP_RELU_CONV_BN, .kernel = {1, 1}, .dilation = 1};
static const struct np_layer_spec fit_half = {.op = NP_OP_IDENTITY};
static const struct np_layer_spec join = {.op = NP_OP_CONCAT, .cross = true};

/* A repeat of an item as it is laid out. */
struct layout {
    struct np_item_list *list;
    const struct np_item *item;
    struct np_error *err;
    int first; /* its first block */
    int drawn; /* the first block of what it is tied to, or of itself; of its widths */
    int width_drawn;
    enum np_status status;
};

/* A block that reads `from`; its position. */
static int add_block(struct layout *l, struct np_block block)
{
    struct np_item_list *list = l->list;
    struct np_recipe *recipe = list->recipe;
    size_t used = (size_t)recipe->block_count;
    enum np_status status = l->status;
    NP_TRY(status);
    NP_TRY(np_grow(&recipe->blocks, &list->block_capacity, used, sizeof block, l->err));
    NP_TRY(np_grow(&list->nodes, &list->node_capacity, used, sizeof *list->nodes, l->err));
    NP_TRY(np_grow(&list->shapes, &list->shape_capacity, used + 1, sizeof *list->shapes, l->err));
    block.drawn = l->drawn + recipe->block_count - l->first;
    block.width_drawn = l->width_drawn + recipe->block_count - l->first;
    recipe->blocks[used] = block;
    list->nodes[used] = l->item->node;
    list->shapes[used + 1] = np_shape_of_block(recipe, &block, list->shapes[block.from]);
    recipe->block_count++;
out:
    l->status = status;
    return recipe->block_count;
}

/* A block of the cell without a choice. */
static int add_fixed(struct layout *l, const struct np_layer_spec *spec, int from, int stride,
                     int memory, int out)
{
    struct np_block block = l->item->block;
    block.count = 1;
    block.choices = spec;
    block.from = from;
    block.stride = stride;
    block.memory = memory;
    block.out = out;
    return add_block(l, block);
}

/* The value at a position, with the cell's channels and the size of what the last repeat made. */
static int add_fit(struct layout *l, int from)
{
    const struct np_shape *shapes = l->list->shapes;
    bool same = shapes[from].height == shapes[l->list->made].height &&
                shapes[from].width == shapes[l->list->made].width;
    return add_fixed(l, same ? &fit_same : &fit_half, from, same ? 1 : 2, -1, l->item->block.out);
}

/* Edges to nodes `first` .. from all before; of those that leave an input, the item's stride. */
static void add_edges(struct layout *l, int *nodes, int first, int stride)
{
    const struct np_block *block = &l->item->block;
    for (int j = first; j < block->cell; j++) {
        struct np_block edge = *block;
        for (int i = 0; i < j; i++) {
            edge.from = nodes[i];
            edge.stride = i < first ? stride : 1;
            nodes[j] = add_block(l, edge);
            edge.sum = nodes[j];
        }
    }
}

static int add_cell(struct layout *l, int from, int stride)
{
    int nodes[NP_MAX_CELL] = {from};
    add_edges(l, nodes, 1, stride);
    return nodes[l->item->block.cell - 1];
}

static int add_cell_of_two(struct layout *l, int stride)
{
    const struct np_block *block = &l->item->block;
    int nodes[NP_MAX_CELL], made;
    nodes[0] = add_fit(l, l->list->before);
    nodes[1] = add_fit(l, l->list->made);
    add_edges(l, nodes, 2, stride);
    made = nodes[2];
    for (int j = 3; j < block->cell; j++)
        made = add_fixed(l, &join, nodes[j], 1, made, (j - 1) * block->out);
    return made;
}

/* The first repeat has the item's stride, and reads where the item says. */
static int add_repeat(struct layout *l, int from, int stride)
{
    struct np_block block = l->item->block;
    if (block.cell)
        return block.inputs == 2 ? add_cell_of_two(l, stride) : add_cell(l, from, stride);
    block.from = from;
    block.stride = stride;
    return add_block(l, block);
}

/* The first block that is known, which this one is if there was none. */
static int first_of(int *known, int block)
{
    if (*known < 0)
        *known = block;
    return *known;
}

enum np_status np_item_lay_out(struct np_item_list *list, const struct np_item *item,
                               struct np_error *err)
{
    struct layout l = {.list = list, .item = item, .err = err};
    for (int i = 0; i < item->repeat && l.status == NP_OK; i++) {
        int made;
        l.first = list->recipe->block_count;
        l.drawn = item->tie < 0 ? l.first : first_of(&list->tied[item->tie].repeat, l.first);
        l.width_drawn = item->tie_widths < 0
                            ? l.drawn
                            : first_of(&list->tied[item->tie_widths].widths, l.first);
        made = i == 0 ? add_repeat(&l, item->block.from, item->block.stride)
                      : add_repeat(&l, list->made, 1);
        list->before = list->made;
        list->made = made;
    }
    return l.status;
}
