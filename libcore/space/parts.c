#include "space/parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "space/op_fields.h"

/* --- families --------------------------------------------------------------------------------- */

/* Candidates like one another compute the same, but for sizes: the largest of each sort. Some
 * operators have two forms: units of xception, fewer keys and values than heads. */
struct largest {
    int of[2][2][NP_OP_COUNT];
};

static int *like(struct largest *largest, const struct np_layer_spec *spec)
{
    return &largest->of[spec->cross][spec->xception || spec->kv_heads][spec->op];
}

static void find_wholes(struct np_family *family)
{
    struct largest largest;
    memset(&largest, -1, sizeof largest);
    for (int i = 0; i < family->count; i++) {
        int *best = like(&largest, &family->kinds[i].spec);
        if (*best < 0 || family->kinds[i].floats > family->kinds[*best].floats)
            *best = i;
    }
    for (int i = 0; i < family->count; i++)
        family->whole[i] = family->kinds[i].floats ? *like(&largest, &family->kinds[i].spec) : i;
}

enum np_status np_family_init(struct np_family *family, const struct np_recipe *recipe,
                              const struct np_block *block, const struct np_setting *setting,
                              struct np_error *err)
{
    enum np_status status;
    *family = (struct np_family){.count = 0};
    NP_TRY(np_zalloc(&family->kinds, (size_t)block->count, sizeof *family->kinds, err));
    NP_TRY(np_zalloc(&family->whole, (size_t)block->count, sizeof *family->whole, err));
    for (; family->count < block->count; family->count++) {
        struct np_kind *kind = &family->kinds[family->count];
        np_kind_set_candidate(kind, recipe, block, family->count, setting);
        NP_TRY(np_kind_build(kind, recipe->path, err));
    }
    if (block->entangled)
        find_wholes(family);
    for (int i = 0; i < block->count && !block->entangled; i++)
        family->whole[i] = i;
out:
    return status;
}

void np_family_clear(struct np_family *family)
{
    for (int i = 0; i < family->count; i++)
        np_kind_clear(&family->kinds[i]);
    free(family->kinds);
    free(family->whole);
}

/* --- places ----------------------------------------------------------------------------------- */

/* A tensor as four dimensions, the last one of each of the matrices that stand abreast. */
struct block {
    size_t count[4];
    size_t present[4]; /* of a window's dimension: the tap at the output's position, or the last */
};

const struct np_tensor *np_kind_tensor(const struct np_kind *kind, const char *name)
{
    for (int t = 0; t < kind->tensor_count; t++)
        if (strcmp(kind->tensors[t].name, name) == 0)
            return &kind->tensors[t];
    return NULL;
}

/* The node whose first tensor it is, which of windows is their weight; else NULL. */
static const struct np_node *weighed(const struct np_kind *kind, const struct np_tensor *tensor)
{
    for (int n = 0; n < kind->program.node_count; n++)
        if (kind->program.nodes[n].tensor == (int)(tensor - kind->tensors))
            return &kind->program.nodes[n];
    return NULL;
}

static struct block block_of(const struct np_kind *kind, const struct np_tensor *tensor)
{
    const struct np_node *node = weighed(kind, tensor);
    struct block block = {{1, 1, 1, 1}, {0, 0, 0, 0}};
    int shift = 4 - tensor->rank - (tensor->abreast > 1);
    for (int i = 0; i < tensor->rank; i++)
        block.count[shift + i] = tensor->shape[i];
    if (tensor->abreast > 1) {
        block.count[2] = (size_t)tensor->abreast;
        block.count[3] = tensor->shape[tensor->rank - 1] / (size_t)tensor->abreast;
    }
    if (!node)
        return block;
    const struct np_window *window = &node->window;
    if (node->op == NP_NODE_LIGHTCONV) {
        block.present[3] = (size_t)(window->pad_left / window->dilation);
    } else if ((node->op == NP_NODE_CONV && tensor->rank == 4) || node->op == NP_NODE_DWCONV) {
        block.present[shift] = (size_t)(window->pad_top / window->dilation);
        block.present[shift + 1] = (size_t)(window->pad_left / window->dilation);
    }
    return block;
}

/* False if the part's tensor has no place. */
static bool place(struct np_piece *piece, const struct np_kind *part,
                  const struct np_tensor *tensor, const struct np_kind *whole)
{
    const struct np_tensor *from = np_kind_tensor(whole, tensor->name);
    struct block inner, outer;
    size_t stride = 1;
    if (!from || from->rank != tensor->rank || from->abreast != tensor->abreast)
        return false;
    inner = block_of(part, tensor);
    outer = block_of(whole, from);
    piece->offset = from->offset;
    for (int i = 3; i >= 0; i--) {
        size_t first = outer.present[i] - inner.present[i];
        if (outer.present[i] < inner.present[i] || first + inner.count[i] > outer.count[i])
            return false;
        piece->slice.count[i] = inner.count[i];
        if (i < 3)
            piece->slice.stride[i] = stride;
        piece->offset += first * stride;
        stride *= outer.count[i];
    }
    return true;
}

const struct np_tensor *np_part_misfit(const struct np_kind *part, const struct np_kind *whole)
{
    struct np_piece piece;
    for (int t = 0; t < part->tensor_count; t++)
        if (!place(&piece, part, &part->tensors[t], whole))
            return &part->tensors[t];
    return NULL;
}

/* The distance of rows where kernels can use the tensor as it lies: in one piece, or as a product's
 * matrix; else 0. */
static size_t rows_apart(const struct np_piece *piece, const struct np_tensor *tensor,
                         const struct np_node *node)
{
    const size_t *count = piece->slice.count, *stride = piece->slice.stride;
    size_t inner = count[3];
    bool one_piece = true;
    for (int i = 2; i >= 0; inner *= count[i--])
        one_piece = one_piece && (count[i] == 1 || stride[i] == inner);
    if (one_piece)
        return tensor->shape[tensor->rank - 1];
    return node && np_node_is_product(node) && count[0] * count[1] == 1 ? stride[2] : 0;
}

static void lay_piece(struct np_kind *part, int t, const struct np_kind *whole)
{
    struct np_piece *piece = &part->pieces[t];
    place(piece, part, &part->tensors[t], whole);
    piece->ld = rows_apart(piece, &part->tensors[t], weighed(part, &part->tensors[t]));
    piece->copy = part->copy_floats;
    if (!piece->ld)
        part->copy_floats += np_lines(part->tensors[t].count);
}

/* Whether all of the whole is there, as it lies. */
static bool is_all(const struct np_kind *part, const struct np_kind *whole)
{
    for (int t = 0; t < part->tensor_count; t++)
        if (np_kind_tensor(whole, part->tensors[t].name) != &whole->tensors[t])
            return false;
    return part->floats == whole->floats;
}

enum np_status np_part_join(struct np_kind *part, const struct np_kind *whole, struct np_error *err)
{
    enum np_status status = NP_OK;
    if (!is_all(part, whole)) {
        NP_TRY(np_zalloc(&part->pieces, (size_t)part->tensor_count, sizeof *part->pieces, err));
        for (int t = 0; t < part->tensor_count; t++)
            lay_piece(part, t, whole);
    }
    part->whole = whole;
    part->part_floats = part->floats;
    part->floats = 0;
out:
    return status;
}

/* Copies a part's rows, in order, out of the slab or into it; the other is only read. */
static void move_rows(const struct np_kind *part, float *weights, float *slab, bool into)
{
    for (int t = 0; t < part->tensor_count; t++) {
        const struct np_piece *piece = &part->pieces[t];
        const size_t *count = piece->slice.count, *stride = piece->slice.stride;
        for (size_t i = 0; i < count[0]; i++)
            for (size_t j = 0; j < count[1]; j++)
                for (size_t k = 0; k < count[2]; k++, weights += count[3]) {
                    float *row =
                        slab + piece->offset + i * stride[0] + j * stride[1] + k * stride[2];
                    memcpy(into ? row : weights, into ? weights : row, count[3] * sizeof *row);
                }
    }
}

void np_part_cut(float *out, const struct np_kind *part, const float *slab)
{
    move_rows(part, out, (float *)slab, false);
}

void np_part_paste(float *slab, const struct np_kind *part, const float *weights)
{
    move_rows(part, (float *)weights, slab, true);
}

/* --- equals ----------------------------------------------------------------------------------- */

bool np_tensor_same(const struct np_tensor *a, const struct np_tensor *b)
{
    bool same = a->rank == b->rank && a->abreast == b->abreast && strcmp(a->name, b->name) == 0;
    for (int i = 0; same && i < a->rank; i++)
        same = a->shape[i] == b->shape[i];
    return same;
}

bool np_kind_same_weights(const struct np_kind *a, const struct np_kind *b)
{
    struct np_layer_spec as, bs;
    bool same;
    memcpy(&as, &a->spec, sizeof as); /* padding, too */
    memcpy(&bs, &b->spec, sizeof bs);
    as.dropout = bs.dropout = as.drop_path = bs.drop_path = 0;
    same = memcmp(&as, &bs, sizeof as) == 0 && a->tensor_count == b->tensor_count;
    for (int t = 0; same && t < a->tensor_count; t++)
        same = np_tensor_same(&a->tensors[t], &b->tensors[t]);
    return same;
}
