/* The program of a kind of layer: what it computes, a straight line of nodes over values.
 *
 * Every operator of a recipe, from an embedding to an MBConv, is written down as a program when the
 * supernet is built; ops/ runs programs forward and backward and knows nothing else. The program
 * also gives the kind its tensors, its costs and its memory.
 *
 * Shapes    a value is [samples * height * width][channels]; a sequence of T tokens is 1 x T.
 *           Values 0, 1, 2 are the layer's input x, its memory (what cross-attention attends to,
 *           what concat puts first) and its sum (what the output is added to); absent ones have 0
 *           channels. The stem and the target's embedding have no x. Every other value is written
 *           by one node, before it is read.
 *           Every value is read by a node or is the output, and the output is the last one written.
 *           What a slice is cut from is read by slices alone, which share out its channels; a slice
 *           is read by one node, conv, dwconv or merge. What GLU reads is read by it alone.
 * Order     a value's gradient is the sum of what its readers give back, the last reader's first,
 *           each added with one rounding; of a node that reads it twice, in[0]'s first.
 */
#ifndef NP_SPACE_PROGRAM_H
#define NP_SPACE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "num/arguments.h"

enum { NP_VALUE_X, NP_VALUE_MEMORY, NP_VALUE_SUM, NP_VALUE_OWN };

/* The largest program. */
#define NP_MAX_NODES 40
#define NP_MAX_VALUES (NP_VALUE_OWN + NP_MAX_NODES)

struct np_shape {
    int height, width, channels;
};

static inline size_t np_shape_rows(struct np_shape s)
{
    return (size_t)s.height * (size_t)s.width;
}

static inline size_t np_shape_floats(struct np_shape s)
{
    return np_shape_rows(s) * (size_t)s.channels;
}

static inline bool np_shape_equal(struct np_shape a, struct np_shape b)
{
    return a.height == b.height && a.width == b.width && a.channels == b.channels;
}

enum np_node_op {
    /* tensors: weight [kh*kw*C/groups -> N]; bias [N] if `bias`; then act.
     * A linear layer is 1 x 1. */
    NP_NODE_CONV,
    NP_NODE_DWCONV,     /* weight [kh, kw, C]; bias */
    NP_NODE_LAYER_NORM, /* gamma, beta [C] */
    NP_NODE_RMS_NORM,   /* gamma [C] */
    NP_NODE_BATCH_NORM, /* gamma, beta [C]; then act; `first`: its mean in the statistics */
    NP_NODE_GROUP_NORM, /* gamma, beta [C]; `groups`; then act */
    NP_NODE_ACT,
    NP_NODE_GLU,    /* [2C] -> [C]; tensor: bias [2C] */
    NP_NODE_ROTATE, /* rotary positions: of `heads` heads side by side the `first` are turned */
    NP_NODE_REPEAT, /* each of `heads` heads side by side as often as fills the output's channels */
    /* in[0] queries' rows, in[1] keys' and values' rows. One value: [3C] = q, k, v; two: in[0] [C]
     * = q, in[1] [2C] = k, v. `heads`, `causal` or `padded`. Tensor if `relative`, in[0] and in[1]
     * being of one height and width: [heads, np_offset_count] */
    NP_NODE_ATTENTION,
    NP_NODE_LIGHTCONV, /* logits [heads, taps]: depthwise by softmax, shared in a head */
    NP_NODE_MAX_POOL,
    NP_NODE_AVG_POOL,
    NP_NODE_GLOBAL_POOL,   /* the mean over positions: 1 x 1 */
    NP_NODE_CHANNEL_SCALE, /* in[0] times in[1], which is 1 x 1 (squeeze-and-excite) or as large */
    NP_NODE_SLICE,         /* channels first .. of in[0], as many as the output has: a view */
    NP_NODE_CUT,           /* the first channels of in[0], as many as the output has: a copy */
    NP_NODE_WIDEN,         /* in[0], then +0 */
    NP_NODE_MERGE,         /* in[0], in[1] side by side, or `interleave` */
    NP_NODE_ADD,           /* act(in[0] + in[1]) */
    NP_NODE_DROPOUT,       /* `drop` */
    NP_NODE_DROP_PATH,     /* `drop` */
    NP_NODE_ZERO,          /* +0; reads nothing */
    NP_NODE_POSITIONS,     /* table [T, C] added to the rows of each sample */
    NP_NODE_IMAGE,         /* the batch's images; reads nothing */
    NP_NODE_EMBED,         /* table [V, C], positions [T, C] if `bias`; of the batch's tokens */
    NP_NODE_XENT,          /* the loss of logits [V]; writes nothing: out is -1 */
    NP_NODE_OP_COUNT
};

/* Of whose sequence filled positions are left out: keys of attention are those of the batch's
 * lengths, then. */
enum np_padded { NP_PADDED_NONE, NP_PADDED_SOURCE, NP_PADDED_TARGET };

struct np_node {
    enum np_node_op op;
    int in[2];               /* values read, -1 none */
    int out;                 /* value written */
    int tensor;              /* its first tensor in the kind's table, -1 none; the others follow */
    struct np_window window; /* conv, dwconv, lightconv, pools */
    enum np_act act;
    bool bias, causal, interleave, relative;
    bool source;           /* embed: of the source sequence of a pair, not of the target's */
    bool distills;         /* xent: the gradient may also be towards given probabilities */
    enum np_padded padded; /* attention: of its keys */
    int groups, heads, first;
    int base; /* rotate: of the angles (num/rotary.h) */
    float drop;
};

/* [rows][C] times [C][N]: a linear layer, a dense convolution of single positions. */
static inline bool np_node_is_product(const struct np_node *node)
{
    const struct np_window *w = &node->window;
    return node->op == NP_NODE_CONV && w->kernel_height == 1 && w->kernel_width == 1 &&
           w->stride_height == 1 && w->stride_width == 1 && w->pad_top == 0 && w->pad_left == 0 &&
           node->groups <= 1;
}

struct np_program {
    int value_count, node_count;
    struct np_shape *values;
    bool *live; /* of each value: its gradient is wanted, because tensors or inputs lie before it */
    struct np_node *nodes;
    int output; /* the value that is y, -1 of a head */
};

/* Without nodes: y is the input that `output` names, X or SUM. */
static inline bool np_program_passes_on(const struct np_program *program)
{
    return program->node_count == 0;
}

static inline bool np_program_has(const struct np_program *program, enum np_node_op op)
{
    for (int i = 0; i < program->node_count; i++)
        if (program->nodes[i].op == op)
            return true;
    return false;
}

/* What of the batch is read: images or tokens, targets, lengths. */
enum { NP_READS_INPUTS = 1, NP_READS_TARGETS = 2, NP_READS_SOURCE = 4, NP_READS_TARGET = 8 };

static inline unsigned np_program_reads(const struct np_program *program)
{
    unsigned reads = 0;
    for (int i = 0; i < program->node_count; i++) {
        const struct np_node *node = &program->nodes[i];
        if (node->op == NP_NODE_IMAGE || node->op == NP_NODE_EMBED)
            reads |= NP_READS_INPUTS;
        else if (node->op == NP_NODE_XENT)
            reads |= NP_READS_TARGETS;
        else if (node->padded)
            reads |= node->padded == NP_PADDED_SOURCE ? NP_READS_SOURCE : NP_READS_TARGET;
    }
    return reads;
}

#endif
