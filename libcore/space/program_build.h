/* Building blocks of programs: each helper appends nodes, values and tensors to a kind.
 *
 * A helper takes the value it reads, returns the one it wrote, and names its tensors after `name`:
 * "name.weight", "name.bias", "name.gamma", "name.beta". Tensors stand in the slab in the order in
 * which they are asked for. Those named qkv, kv and gate, and no others, are matrices side by side
 * (naspipe-numerics(7), Parts).
 *
 * Errors    the first failure is kept in `status`, and whatever is built after it is worth nothing:
 *           operators are written without looking.
 * Ownership what is built belongs to the kind.
 */
#ifndef NP_SPACE_PROGRAM_BUILD_H
#define NP_SPACE_PROGRAM_BUILD_H

#include "space/supernet.h"

/* Three slabs (weights, two moments) stay below 2^44, the distance of fingerprint addresses. */
#define NP_MAX_LAYER_FLOATS ((size_t)1 << 38)
#define NP_MAX_VALUE_FLOATS ((size_t)1 << 38)

enum np_build_excess { NP_FITS, NP_MANY_WEIGHTS, NP_LARGE_VALUE };

struct np_build {
    struct np_kind *kind;
    int x;                   /* what the operator reads: NP_VALUE_X, or its first channels */
    struct np_shape in, out; /* its shape, and that of what the operator makes */
    size_t value_capacity, live_capacity, node_capacity, tensor_capacity;
    enum np_build_excess excess; /* status is NP_EINPUT: why */
    enum np_status status;
    struct np_error *err;
    struct np_node spare; /* what a failed np_build_node gives */
};

/* Initial values. Fan-in: the product of all dimensions but the last. */
enum np_fill {
    NP_FILL_ONE,
    NP_FILL_ZERO,
    NP_FILL_LINEAR, /* normal, std 1 / sqrt(3 fan-in): the variance of PyTorch's default */
    NP_FILL_HE,     /* normal, std sqrt(2 / fan-in) */
    NP_FILL_TENTH   /* normal, std 0.1 */
};

/* The shape of a value, and its rows as the height x width that they are. */
static inline struct np_shape np_build_shape(const struct np_build *b, int value)
{
    return b->kind->program.values[value];
}

/* In and out have one shape, and the layer no stride: a residual fits. */
static inline bool np_build_keeps(const struct np_build *b)
{
    return b->kind->spec.stride <= 1 && np_shape_equal(b->in, b->out);
}

/* Windows; whichever it is, the output has ceil(size / stride) positions.
 * A kernel around its position, of even sizes with one tap more behind it than before; of a
 * sequence, the last tap being the present. */
struct np_window np_build_window(const int kernel[2], int stride, int dilation);
struct np_window np_build_causal_window(int kernel);
struct np_shape np_build_windowed(struct np_shape in, struct np_window window, int channels);

/* A value that no node writes: an input. */
int np_build_value(struct np_build *b, struct np_shape shape, bool live);
/* A node and the value it writes, of this shape (0 channels: none); the node's other fields are
 * zero, and it is good until the next node. in0, in1: -1 none. */
struct np_node *np_build_node(struct np_build *b, enum np_node_op op, int in0, int in1,
                              struct np_shape out);
/* A tensor of this node, the next of the slab, "name.part". dims end at the first 0. */
void np_build_tensor(struct np_build *b, struct np_node *node, const char *name, const char *part,
                     const size_t dims[4], enum np_fill fill);

/* The tensors from one on are of so many matrices side by side. */
void np_build_abreast(struct np_build *b, int first, int matrices);

/* A convolution of images, He initialised, without a bias. */
int np_build_conv(struct np_build *b, const char *name, int x, int channels,
                  struct np_window window);
/* A convolution with everything. */
struct np_build_product {
    const char *name;
    int channels, groups;
    struct np_window window;
    bool bias, linear; /* linear: the weight is [K][N] */
    enum np_act act;
    enum np_fill fill;
};
int np_build_product(struct np_build *b, int x, const struct np_build_product *product);
/* A linear layer: 1 x 1, initialised as one. */
int np_build_linear(struct np_build *b, const char *name, int x, int channels, bool bias,
                    enum np_act act);
int np_build_dwconv(struct np_build *b, const char *name, int x, struct np_window window, bool bias,
                    enum np_fill fill);
/* norm, then act; NP_NORM_NONE leaves the act. */
int np_build_norm(struct np_build *b, const char *name, int x, enum np_norm norm, enum np_act act);
/* act by itself; NP_ACT_NONE is x. */
int np_build_act(struct np_build *b, int x, enum np_act act);
/* The mean over positions. */
int np_build_global_pool(struct np_build *b, int x);
/* The loss of logits x. */
void np_build_xent(struct np_build *b, int x);
/* The first channels of x; x, and then zeros. */
int np_build_cut(struct np_build *b, int x, int channels);
int np_build_widen(struct np_build *b, int x, int channels);
/* What the layer's dropout leaves of x. */
int np_build_dropout(struct np_build *b, int x);
/* act(x + branch); residual: of the branch after its dropout and drop-path. */
int np_build_add(struct np_build *b, int x, int branch, enum np_act act);
int np_build_residual(struct np_build *b, int x, int branch, enum np_act act);

#endif
