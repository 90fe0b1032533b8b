/* The supernet of a recipe: positions, layers, kinds, and their tensors.
 *
 * Words   position 0 is the stem, 1 .. N the choice blocks, N+1 the head. A layer is one candidate
 *         of one position, numbered layer_first[position] + choice. Layers with equal specs share a
 *         kind: one table of tensors, costs and profile for all of them. In a block with entangled
 *         weights (space/parts.h) a candidate may compute with a part of another layer's weights,
 *         which is its whole; its own number is then a layer without weights.
 * Shapes  a layer's weights are one slab, its tensors in table order, row-major; a linear layer
 *         from K to N channels is [K][N]. Moments are slabs of the same layout.
 *         A convolution's weight is [kh][kw][C/groups][N].
 * Errors  NP_EINPUT for too many kinds, a layer of more than 2^38 weights, or a value of more than
 *         2^38 floats a sample; NP_EMEM. That shapes fit is what np_recipe_read has checked.
 * Ownership: borrows the recipe; np_supernet_clear releases the rest.
 */
#ifndef NP_SPACE_SUPERNET_H
#define NP_SPACE_SUPERNET_H

#include "space/program.h"
#include "space/recipe.h"

enum np_init {
    NP_INIT_NORMAL, /* mean 0, std as given */
    NP_INIT_ZERO,
    NP_INIT_ONE
};

struct np_tensor {
    char name[32]; /* "norm.gamma", "up.weight", ... */
    int rank;
    size_t shape[4];
    size_t offset, count; /* floats, in the layer's slab */
    enum np_init init;
    float std;
    bool decay;  /* weight decay: matrices, not norms and biases */
    int abreast; /* matrices that stand side by side in it: of q, k and v, of a gate; 1 else */
};

/* A tensor within another slab than its own: where it is used, or where it is copied from. */
struct np_piece {
    size_t offset; /* floats, of its first element */
    struct np_slice slice;
    size_t ld;   /* its rows' distance, of one in one piece their length; 0: it is copied, ... */
    size_t copy; /* ... to this offset of what the part copies */
};

/* A layer spec in its surroundings: equal ones are one kind. */
struct np_kind {
    struct np_layer_spec spec;       /* of images: with the stride that it has here */
    struct np_shape in, memory, out; /* absent: 0 channels; head: out is a row a loss, 1 channel */
    struct np_shape image;           /* of the batch; 0 channels: sequences */
    bool summed;                     /* the block adds its output to another value */
    bool distills;                   /* head: some members learn from another's output */
    enum np_padded padded;           /* attention: where its keys are filled */
    int reads, makes;                /* the first channels of `in`, of `out`, alone; 0: all */
    size_t vocab, length;            /* V or classes; targets a sample */
    int part_of;                     /* its weights are a part of that kind's less 1; 0: its own */
    struct np_program program;       /* this and the rest: np_kind_build */
    int tensor_count;
    struct np_tensor *tensors;
    size_t floats;      /* weights of one layer; of a part 0 */
    size_t norm_floats; /* mean and variance of its batch norms */
    /* Of a part: where its weights are, and its tensors there (pieces NULL: they are all of it);
     * the weights that it has, and how many floats those are that it copies. */
    const struct np_kind *whole;
    struct np_piece *pieces; /* [tensor_count] */
    size_t part_floats, copy_floats;
};

/* The kind of the layer whose slab a kind's passes read. */
static inline const struct np_kind *np_kind_whole(const struct np_kind *kind)
{
    return kind->whole ? kind->whole : kind;
}

/* Who reads a value: the layer at `position`, as its NP_VALUE_X, _MEMORY or _SUM. */
struct np_reader {
    int position, value;
};

struct np_supernet {
    const struct np_recipe *recipe;
    int positions; /* N + 2 */
    uint32_t layers;
    uint32_t *layer_first; /* [positions + 1] */
    uint32_t *layer_whole; /* [layers]: whose weights it has; itself but for parts */
    uint16_t *layer_kind;  /* [layers]: what it computes */
    int kind_count;
    struct np_kind *kinds;           /* stem's and head's included */
    struct np_shape *shapes;         /* [positions] of the value that each makes */
    int *reader_first;               /* [positions + 1]: readers of position p's value are */
    struct np_reader *readers;       /* readers[reader_first[p]] .., by ascending position */
    bool whole_batch;                /* some layer has a batch norm: one micro-batch only */
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

/* Whether the position is the stem's or the head's, which every subnet has. */
static inline bool np_supernet_is_end(const struct np_supernet *net, int position)
{
    return position == 0 || position == net->positions - 1;
}

/* The candidate of a subnet, choices[blocks], at a position. */
static inline uint32_t np_supernet_chosen(const struct np_supernet *net, const uint16_t *choices,
                                          int position)
{
    uint32_t first = net->layer_first[position];
    return np_supernet_is_end(net, position) ? first : first + choices[position - 1];
}

/* Whether a subnet, choices[blocks], has batch norm: statistics to be found before it is used. */
static inline bool np_supernet_has_batch_norm(const struct np_supernet *net,
                                              const uint16_t *choices)
{
    for (int p = 0; p < net->positions; p++)
        if (np_supernet_kind(net, np_supernet_chosen(net, choices, p))->norm_floats)
            return true;
    return false;
}

/* The last position that reads the value of `position`, -1 if none does. */
static inline int np_supernet_last_reader(const struct np_supernet *net, int position)
{
    int end = net->reader_first[position + 1];
    return end > net->reader_first[position] ? net->readers[end - 1].position : -1;
}

/* Whether every step updates the layer: the stem or the head, with weights, and not frozen. */
bool np_supernet_is_shared(const struct np_supernet *net, uint32_t layer);
/* Old versions that are kept of a layer: D - 1 where it is read with a delay, else 0. */
int np_supernet_old_count(const struct np_supernet *net, uint32_t layer);

/* The position of a layer: binary search. */
int np_supernet_position(const struct np_supernet *net, uint32_t layer);

/* "stem", "head", "block07.choice03", both numbers from 0; at least two digits, as many as the
 * largest needs, so that names sort as layers do within each group. `out` holds NP_LAYER_NAME
 * bytes. */
#define NP_LAYER_NAME 48
void np_supernet_layer_name(const struct np_supernet *net, uint32_t layer, char *out);
/* The inverse; false if there is no such layer. */
bool np_supernet_find(const struct np_supernet *net, const char *name, uint32_t *layer);

/* "mha(heads=4)", "ffn(ratio=4,act=gelu,dropout=0.1)", "max_pool(kernel=3,in=8x8x16,out=8x8x16)",
 * "ffn(ratio=2,act=gelu,part_of=ffn(ratio=4,act=gelu))": for people and for the cost profile;
 * kinds of a supernet have different names. */
#define NP_KIND_NAME 448
void np_kind_name(const struct np_kind *kind, char *out);

/* Floating-point operations (a fused multiply-add counts two) per sample. */
struct np_flops {
    double forward, backward, weight;
};
struct np_flops np_kind_flops(const struct np_kind *kind);
/* The share of one node of its program. */
struct np_flops np_node_flops(const struct np_kind *kind, int node);
/* Multiply-adds of a sample's forward pass: of products, convolutions and attention, as papers
 * count them. */
double np_kind_macs(const struct np_kind *kind);

#endif
