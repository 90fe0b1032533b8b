/* The supernet of a recipe: positions, layers, kinds, and their tensors.
 *
 * Words   position 0 is the stem, 1 .. N the choice blocks, N+1 the head. A layer is one candidate
 *         of one position, numbered layer_first[position] + choice. Layers with equal specs share a
 *         kind: one table of tensors, costs and profile for all of them.
 * Shapes  a layer's weights are one slab, its tensors in table order, row-major; a linear layer
 *         from K to N channels is [K][N]. Moments are slabs of the same layout.
 * Errors  NP_EINPUT for too many kinds or a layer of more than 2^38 weights; NP_EMEM.
 * Ownership: borrows the recipe; np_supernet_clear releases the rest.
 */
#ifndef NP_SPACE_SUPERNET_H
#define NP_SPACE_SUPERNET_H

#include "space/recipe.h"

#define NP_MAX_TENSORS 8

enum np_init {
    NP_INIT_NORMAL, /* mean 0, std as given */
    NP_INIT_ZERO,
    NP_INIT_ONE
};

struct np_tensor {
    const char *name; /* "norm.gamma", "up.weight", ... */
    int rank;
    size_t shape[3];
    size_t offset, count; /* floats, in the layer's slab */
    enum np_init init;
    float std;
    bool decay; /* weight decay: matrices, not norms and biases */
};

struct np_kind {
    struct np_layer_spec spec;
    size_t width, length, vocab; /* C, T, V of the supernet */
    int tensor_count;
    struct np_tensor tensors[NP_MAX_TENSORS];
    size_t floats; /* weights of one layer */
};

struct np_supernet {
    const struct np_recipe *recipe;
    int positions; /* N + 2 */
    uint32_t layers;
    uint32_t *layer_first; /* [positions + 1] */
    uint16_t *layer_kind;  /* [layers] */
    int kind_count;
    struct np_kind *kinds;           /* stem's and head's included */
    int block_digits, choice_digits; /* of layer names */
    int moments;                     /* slabs of moments a layer has: 0 sgd, 1 momentum, 2 adamw */
};

enum np_status np_supernet_init(struct np_supernet *net, const struct np_recipe *recipe,
                                struct np_error *err);
void np_supernet_clear(struct np_supernet *net);

static inline const struct np_kind *np_supernet_kind(const struct np_supernet *net, uint32_t layer)
{
    return &net->kinds[net->layer_kind[layer]];
}

/* The position of a layer: binary search. */
int np_supernet_position(const struct np_supernet *net, uint32_t layer);

/* "stem", "head", "block07.choice03", both numbers from 0; at least two digits, as many as the
 * largest needs, so that names sort as layers do within each group. `out` holds NP_LAYER_NAME
 * bytes. */
#define NP_LAYER_NAME 48
void np_supernet_layer_name(const struct np_supernet *net, uint32_t layer, char *out);
/* The inverse; false if there is no such layer. */
bool np_supernet_find(const struct np_supernet *net, const char *name, uint32_t *layer);

/* "mha(heads=4)", "ffn(ratio=4,act=gelu,dropout=0.1)": for people and for the cost profile. */
#define NP_KIND_NAME 80
void np_kind_name(const struct np_kind *kind, char *out);

/* Floating-point operations (a fused multiply-add counts two) per sample. */
struct np_flops {
    double forward, backward, weight;
};
struct np_flops np_kind_flops(const struct np_kind *kind);

#endif
