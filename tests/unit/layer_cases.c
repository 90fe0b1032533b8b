#include "layer_cases.h"

#include <check.h>
#include <string.h>

#include "base/memory.h"
#include "space/kinds.h"
#include "space/op_fields.h"
#include "space/program_build.h"

struct layer_case {
    struct np_layer_spec spec;
    struct np_shape in, out, memory; /* out: in, unless given; in 0 channels: a stem */
    bool summed, distills;
    int reads, makes;                   /* as in struct np_kind */
    int (*program)(struct np_build *b); /* instead of the spec's */
};

/* clang-format off */
#define TEXT(length, width) {1, length, width}
#define K(h, w) .kernel = {h, w}
#define ONE .stride = 1, .dilation = 1, .groups = 1
/* clang-format on */

/* Programs with what operators do not have: activations within convolutions and sums that others
 * read, values with several readers, a value twice in a node, slices of slices of all sorts. */

static int linear(struct np_build *b, int x, int channels, enum np_act act)
{
    return np_build_linear(b, "linear", x, channels, true, act);
}

static struct np_window window(int kernel, int stride)
{
    return np_build_window((int[]){kernel, kernel}, stride, 1);
}

/* Each activation between two products: B goes through it in the second one's kernel. */
static int activations(struct np_build *b)
{
    int x = NP_VALUE_X;
    for (int act = NP_ACT_RELU; act <= NP_ACT_HSIGMOID; act++)
        x = linear(b, x, 6, (enum np_act)act);
    return linear(b, x, 5, NP_ACT_NONE);
}

/* The same by themselves: in place, and as the output. */
static int lone_activations(struct np_build *b)
{
    int x = linear(b, NP_VALUE_X, 5, NP_ACT_NONE);
    for (int act = NP_ACT_RELU; act <= NP_ACT_HSIGMOID; act++)
        x = np_build_act(b, x, (enum np_act)act);
    return x;
}

/* x is read by four nodes, what an activation wrote by two, and what it read by another. */
static int readers(struct np_build *b)
{
    int u = linear(b, NP_VALUE_X, 5, NP_ACT_NONE), v = np_build_act(b, u, NP_ACT_GELU);
    int a = linear(b, v, 5, NP_ACT_NONE), c = np_build_act(b, NP_VALUE_X, NP_ACT_SWISH);
    int d = np_build_add(b, np_build_add(b, a, v, NP_ACT_RELU), u, NP_ACT_HSWISH);
    d = np_build_add(b, d, c, NP_ACT_NONE);
    return np_build_add(b, np_build_add(b, d, NP_VALUE_X, NP_ACT_NONE), NP_VALUE_X, NP_ACT_SIGMOID);
}

/* B goes through an activation of x, or may not, as somebody in between gives to x. */
static int through(struct np_build *b)
{
    int a = linear(b, np_build_act(b, NP_VALUE_X, NP_ACT_RELU), 5, NP_ACT_NONE);
    int v = np_build_act(b, NP_VALUE_X, NP_ACT_GELU), w = np_build_act(b, NP_VALUE_X, NP_ACT_RELU6);
    int c = linear(b, v, 5, NP_ACT_NONE), d = linear(b, w, 5, NP_ACT_SIGMOID);
    return np_build_add(b, np_build_add(b, a, c, NP_ACT_NONE), d, NP_ACT_NONE);
}

/* A sum's activation that a product goes through; a value added to itself; sums of sums. */
static int sums(struct np_build *b)
{
    int a = linear(b, NP_VALUE_X, 5, NP_ACT_NONE), s = np_build_add(b, a, a, NP_ACT_SWISH);
    int c = linear(b, s, 5, NP_ACT_NONE), t = np_build_add(b, NP_VALUE_X, c, NP_ACT_GELU);
    int d = linear(b, t, 5, NP_ACT_NONE);
    return np_build_add(b, np_build_add(b, d, NP_VALUE_X, NP_ACT_NONE), NP_VALUE_MEMORY,
                        NP_ACT_NONE);
}

static int drop(struct np_build *b, enum np_node_op op, int x, float p)
{
    struct np_node *node = np_build_node(b, op, x, -1, np_build_shape(b, x));
    node->drop = p;
    return node->out;
}

/* Several drops, of x itself and of values that others read too. */
static int drops(struct np_build *b)
{
    int x = drop(b, NP_NODE_DROPOUT, NP_VALUE_X, 0.5f), y = linear(b, x, 5, NP_ACT_NONE);
    int z = drop(b, NP_NODE_DROP_PATH, y, 0.25f);
    y = np_build_add(b, np_build_add(b, y, z, NP_ACT_NONE), x, NP_ACT_NONE);
    y = np_build_add(b, drop(b, NP_NODE_DROPOUT, y, 0.125f), NP_VALUE_X, NP_ACT_NONE);
    return drop(b, NP_NODE_DROP_PATH, y, 0.5f);
}

static int slice(struct np_build *b, int x, int first, int channels)
{
    struct np_shape shape = np_build_shape(b, x);
    struct np_node *node;
    shape.channels = channels;
    node = np_build_node(b, NP_NODE_SLICE, x, -1, shape);
    node->first = first;
    return node->out;
}

static int merge(struct np_build *b, int x, int y, bool interleave)
{
    struct np_shape shape = np_build_shape(b, x);
    struct np_node *node;
    shape.channels += np_build_shape(b, y).channels;
    node = np_build_node(b, NP_NODE_MERGE, x, y, shape);
    node->interleave = interleave;
    return node->out;
}

/* Slices of a value of its own: by a convolution, a depthwise one, a product and a merge. */
static int slices(struct np_build *b)
{
    int x = linear(b, NP_VALUE_X, 13, NP_ACT_NONE);
    int p = slice(b, x, 0, 4), q = slice(b, x, 4, 3), r = slice(b, x, 7, 4), s = slice(b, x, 11, 2);
    p = np_build_conv(b, "conv", p, 4, window(3, 1));
    q = np_build_dwconv(b, "depth", q, window(3, 1), true, NP_FILL_HE);
    r = linear(b, r, 4, NP_ACT_RELU);
    q = merge(b, q, s, false);
    return merge(b, merge(b, p, r, true), q, false);
}

/* Slices of x by all of their readers. */
static int slices_of_x(struct np_build *b)
{
    int p = slice(b, NP_VALUE_X, 0, 2), q = slice(b, NP_VALUE_X, 2, 3);
    q = np_build_dwconv(b, "depth", q, window(3, 1), false, NP_FILL_HE);
    return merge(b, q, p, false);
}

/* Cuts of x and of values of its own, which others read too; what is widened is read by all. */
static int cuts(struct np_build *b)
{
    int p = np_build_cut(b, NP_VALUE_X, 3), q = linear(b, p, 4, NP_ACT_GELU), r, s;
    r = np_build_cut(b, q, 2);
    s = np_build_widen(b, np_build_add(b, r, np_build_cut(b, p, 2), NP_ACT_NONE), 4);
    q = np_build_add(b, q, s, NP_ACT_RELU);
    q = np_build_widen(b, np_build_add(b, q, s, NP_ACT_NONE), 5);
    return np_build_add(b, NP_VALUE_X, q, NP_ACT_NONE);
}

/* Squeeze-and-excite of x itself, so that nothing takes a base but what can. */
static int squeeze(struct np_build *b)
{
    int s = np_build_global_pool(b, NP_VALUE_X);
    s = linear(b, s, 5, NP_ACT_SIGMOID);
    return np_build_node(b, NP_NODE_CHANNEL_SCALE, NP_VALUE_X, s, b->kind->in)->out;
}

static int pool(struct np_build *b, enum np_node_op op, int x, int kernel, int stride)
{
    struct np_node *node;
    struct np_window w = window(kernel, stride);
    struct np_shape in = np_build_shape(b, x);
    node = np_build_node(b, op, x, -1, np_build_windowed(in, w, in.channels));
    node->window = w;
    return node->out;
}

/* Pools of one value, whose gradients add up; a pool of what a product made. */
static int pools(struct np_build *b)
{
    int m = pool(b, NP_NODE_MAX_POOL, NP_VALUE_X, 3, 2);
    int a = pool(b, NP_NODE_AVG_POOL, NP_VALUE_X, 3, 2);
    int x = linear(b, NP_VALUE_X, 5, NP_ACT_NONE), n = pool(b, NP_NODE_AVG_POOL, x, 5, 2);
    return np_build_add(b, np_build_add(b, m, a, NP_ACT_NONE), n, NP_ACT_NONE);
}

/* Attention and gates whose inputs nobody else made: x itself. */
static int bare_attention(struct np_build *b)
{
    struct np_shape shape = b->kind->in;
    struct np_node *node;
    shape.channels /= 3;
    node = np_build_node(b, NP_NODE_ATTENTION, NP_VALUE_X, NP_VALUE_X, shape);
    node->heads = 2;
    return node->out;
}

/* Turned by themselves: x, which others read too, and what nobody else reads, in place. */
static int rotations(struct np_build *b)
{
    int x = NP_VALUE_X, y;
    for (int i = 0; i < 2; i++) {
        struct np_node *node = np_build_node(b, NP_NODE_ROTATE, x, -1, b->kind->in);
        node->heads = 3 - i;
        node->first = 2;
        y = node->out;
        x = np_build_linear(b, i ? "b" : "a", y, 12, true, NP_ACT_NONE);
    }
    return np_build_add(b, np_build_add(b, x, y, NP_ACT_NONE), NP_VALUE_X, NP_ACT_NONE);
}

static int norms(struct np_build *b)
{
    int x = np_build_norm(b, "a", NP_VALUE_X, NP_NORM_OF_GROUPS, NP_ACT_SWISH);
    x = np_build_add(b, x, NP_VALUE_X, NP_ACT_NONE);
    x = np_build_norm(b, "b", x, NP_NORM_OF_LAYER, NP_ACT_HSWISH);
    x = np_build_norm(b, "c", x, NP_NORM_OF_GROUPS, NP_ACT_NONE);
    return np_build_norm(b, "d", x, NP_NORM_OF_RMS, NP_ACT_RELU);
}

/* Batch norms that share what they read with others. */
static int batch_norms(struct np_build *b)
{
    int x = np_build_norm(b, "a", NP_VALUE_X, NP_NORM_OF_BATCH, NP_ACT_GELU);
    int y = np_build_norm(b, "b", x, NP_NORM_OF_BATCH, NP_ACT_RELU6);
    int z = np_build_norm(b, "c", x, NP_NORM_OF_BATCH, NP_ACT_NONE);
    return np_build_add(b, np_build_add(b, y, z, NP_ACT_NONE), x, NP_ACT_RELU);
}

/* Values that no B reads, and what it does read is made of: F must be repeated through them. */
static int unread(struct np_build *b)
{
    int p = linear(b, NP_VALUE_X, 3, NP_ACT_NONE), q = linear(b, NP_VALUE_X, 3, NP_ACT_NONE);
    int s = np_build_add(b, p, q, NP_ACT_GELU), t = linear(b, NP_VALUE_X, 2, NP_ACT_NONE);
    int u = linear(b, merge(b, s, t, false), 5, NP_ACT_NONE);
    return np_build_add(b, u, linear(b, NP_VALUE_X, 5, NP_ACT_NONE), NP_ACT_SWISH);
}

/* What B reads is not what its kernel makes last. */
static int half_read(struct np_build *b)
{
    return np_build_act(b, linear(b, NP_VALUE_X, 5, NP_ACT_NONE), NP_ACT_GELU);
}

static const struct layer_case cases[] = {
    {{.op = NP_OP_IDENTITY}, .in = TEXT(5, 8)},
    {{.op = NP_OP_IDENTITY}, .in = TEXT(5, 8), .summed = true},
    {{.op = NP_OP_MHA, .heads = 1, .causal = true}, .in = TEXT(1, 4)},
    {{.op = NP_OP_MHA, .heads = 2, .causal = true, .dropout = 0.25f}, .in = TEXT(5, 8)},
    {{.op = NP_OP_MHA, .heads = 4, .causal = true}, .in = TEXT(33, 24)},
    {{.op = NP_OP_MHA, .heads = 2}, .in = TEXT(9, 8)},
    {{.op = NP_OP_MHA, .heads = 2, .positions = true, .causal = true, .dropout = 0.25f},
     .in = TEXT(33, 24),
     .summed = true},
    {{.op = NP_OP_MHA, .heads = 6, .kv_heads = 2, .positions = true, .causal = true},
     .in = TEXT(33, 24)},
    {{.op = NP_OP_MHA, .heads = 4, .kv_heads = 1, .drop_path = 0.25f}, .in = {3, 3, 8}},
    {{.op = NP_OP_MHA, .heads = 4, .kv_heads = 2, .cross = true},
     .in = TEXT(5, 12),
     .memory = TEXT(7, 12),
     .summed = true},
    {{.op = NP_OP_MHA, .heads = 1, .hidden = 6, .positions = true, .unbiased = true},
     .in = TEXT(5, 8)},
    {{.op = NP_OP_FFN, .ratio = 2, .act = NP_ACT_SWISH, .unbiased = true}, .in = TEXT(5, 8)},
    {{.op = NP_OP_MHA, .heads = 3, .norm = NP_NORM_OF_RMS, .causal = true}, .in = TEXT(33, 24)},
    {{.op = NP_OP_MHA, .heads = 2, .cross = true, .dropout = 0.1f},
     .in = TEXT(5, 8),
     .memory = TEXT(7, 8)},
    {{.op = NP_OP_MHA, .heads = 2, .drop_path = 0.25f}, .in = {3, 3, 8}, .summed = true},
    {{.op = NP_OP_FFN, .ratio = 1, .act = NP_ACT_RELU}, .in = TEXT(5, 4)},
    {{.op = NP_OP_FFN, .ratio = 4, .act = NP_ACT_GELU, .dropout = 0.1f}, .in = TEXT(33, 24)},
    {{.op = NP_OP_FFN, .ratio = 2, .act = NP_ACT_SWISH}, .in = TEXT(1, 8)},
    {{.op = NP_OP_GATED_FFN, .ratio = 1, .act = NP_ACT_RELU}, .in = TEXT(5, 4)},
    {{.op = NP_OP_GATED_FFN, .hidden = 33, .act = NP_ACT_SWISH, .dropout = 0.1f},
     .in = TEXT(33, 24)},
    {{.op = NP_OP_GATED_FFN, .ratio = 2, .act = NP_ACT_NONE}, .in = TEXT(1, 8)},
    {{.op = NP_OP_GATED_FFN,
      .ratio = 2,
      .norm = NP_NORM_OF_RMS,
      .act = NP_ACT_SWISH,
      .unbiased = true},
     .in = TEXT(5, 24),
     .reads = 9,
     .makes = 9},
    {{.op = NP_OP_GATED_FFN, .ratio = 2, .act = NP_ACT_GELU, .drop_path = 0.25f},
     .in = {3, 3, 8},
     .summed = true},
    {{.op = NP_OP_GLU}, .in = TEXT(33, 8)},
    {{.op = NP_OP_GLU, .dropout = 0.5f, .drop_path = 0.25f}, .in = TEXT(5, 24)},
    {{.op = NP_OP_CONV1D, K(1, 1)}, .in = TEXT(5, 8)},
    {{.op = NP_OP_CONV1D, K(1, 3)}, .in = TEXT(33, 24)},
    {{.op = NP_OP_CONV1D, K(1, 7), .dropout = 0.1f}, .in = TEXT(5, 4)},
    {{.op = NP_OP_CONV1D, K(1, 2)}, .in = TEXT(1, 8)},
    {{.op = NP_OP_SEPCONV1D, K(1, 1)}, .in = TEXT(1, 8)},
    {{.op = NP_OP_SEPCONV1D, K(1, 5)}, .in = TEXT(33, 24)},
    {{.op = NP_OP_SEPCONV1D, K(1, 6), .dropout = 0.3f}, .in = TEXT(5, 4)},
    {{.op = NP_OP_LIGHTCONV, K(1, 4), .heads = 4}, .in = TEXT(33, 24)},
    {{.op = NP_OP_LIGHTCONV, K(1, 7), .heads = 2, .dropout = 0.2f}, .in = TEXT(5, 8)},
    {{.op = NP_OP_LIGHTCONV, K(1, 1), .heads = 1}, .in = TEXT(1, 4)},
    {{.op = NP_OP_EMBEDDING, .positions = true}, .out = TEXT(33, 24)},
    {{.op = NP_OP_EMBEDDING}, .out = TEXT(1, 4)},
    {{.op = NP_OP_EMBEDDING, .positions = true, .source = true}, .out = TEXT(5, 8)},
    {{.op = NP_OP_LM}, .in = TEXT(33, 24)},
    {{.op = NP_OP_LM, .norm = NP_NORM_OF_RMS}, .in = TEXT(1, 4)},

    {{.op = NP_OP_CONV2D, K(3, 3), ONE, .act = NP_ACT_HSWISH}, .in = {7, 5, 3}, .out = {7, 5, 6}},
    {{.op = NP_OP_CONV2D, K(3, 3), ONE, .norm = NP_NORM_OF_BATCH, .act = NP_ACT_RELU},
     .in = {5, 6, 4},
     .out = {5, 6, 8}},
    {{.op = NP_OP_CONV2D,
      K(5, 3),
      .stride = 2,
      .dilation = 1,
      .groups = 2,
      .norm = NP_NORM_OF_GROUPS,
      .act = NP_ACT_SWISH},
     .in = {7, 6, 4},
     .out = {4, 3, 6}},
    {{.op = NP_OP_CONV2D,
      K(3, 3),
      .stride = 1,
      .dilation = 2,
      .groups = 1,
      .norm = NP_NORM_OF_LAYER,
      .act = NP_ACT_RELU6},
     .in = {6, 6, 5}},
    {{.op = NP_OP_CONV2D, K(1, 1), ONE, .act = NP_ACT_RELU}, .in = {4, 4, 6}, .out = {4, 4, 9}},
    {{.op = NP_OP_CONV2D, K(3, 3), ONE, .norm = NP_NORM_OF_BATCH}, .in = {4, 4, 3}, .summed = true},
    {{.op = NP_OP_DWCONV2D, K(3, 3), ONE, .act = NP_ACT_RELU}, .in = {5, 5, 7}},
    {{.op = NP_OP_DWCONV2D,
      K(5, 5),
      .stride = 2,
      .dilation = 1,
      .norm = NP_NORM_OF_BATCH,
      .act = NP_ACT_SIGMOID},
     .in = {7, 7, 5},
     .out = {4, 4, 5}},
    {{.op = NP_OP_RELU_CONV_BN, K(3, 3), ONE}, .in = {6, 6, 4}, .summed = true},
    {{.op = NP_OP_RELU_CONV_BN, K(1, 7), ONE}, .in = {6, 6, 4}},
    {{.op = NP_OP_SEPCONV, K(3, 3), .stride = 2}, .in = {7, 7, 4}, .out = {4, 4, 6}},
    {{.op = NP_OP_SEPCONV, K(5, 5), .stride = 1}, .in = {6, 6, 4}, .summed = true},
    {{.op = NP_OP_DILCONV, K(3, 3), .stride = 1, .dilation = 2}, .in = {6, 6, 4}},
    {{.op = NP_OP_DILCONV, K(5, 5), .stride = 2, .dilation = 2}, .in = {7, 7, 4}, .out = {4, 4, 4}},
    {{.op = NP_OP_RESNET_BASIC,
      K(3, 3),
      .stride = 1,
      .hidden = 6,
      .act = NP_ACT_RELU,
      .drop_path = 0.25f},
     .in = {5, 5, 4}},
    {{.op = NP_OP_RESNET_BASIC, K(3, 3), .stride = 2, .hidden = 6, .act = NP_ACT_HSWISH},
     .in = {5, 5, 4},
     .out = {3, 3, 6}},
    {{.op = NP_OP_BOTTLENECK,
      K(3, 3),
      .stride = 1,
      .groups = 3,
      .hidden = 6,
      .se = 2,
      .act = NP_ACT_RELU,
      .drop_path = 0.25f},
     .in = {5, 5, 4}},
    {{.op = NP_OP_BOTTLENECK, K(3, 5), .stride = 2, .groups = 1, .hidden = 3, .act = NP_ACT_SWISH},
     .in = {5, 5, 4},
     .out = {3, 3, 6}},
    {{.op = NP_OP_MBCONV, K(3, 3), .stride = 1, .hidden = 7, .act = NP_ACT_HSWISH},
     .in = {5, 5, 4}},
    {{.op = NP_OP_MBCONV, K(3, 3), .stride = 1, .hidden = 4}, .in = {5, 5, 4}, .out = {5, 5, 6}},
    {{.op = NP_OP_MBCONV, K(3, 3), .stride = 1, .expand = 6, .act = NP_ACT_RELU6, .dropout = 0.1f},
     .in = {5, 5, 4}},
    {{.op = NP_OP_MBCONV, K(5, 5), .stride = 2, .expand = 3, .se = 4, .act = NP_ACT_HSWISH},
     .in = {5, 5, 4},
     .out = {3, 3, 6}},
    {{.op = NP_OP_MBCONV, K(3, 3), .stride = 1, .expand = 1, .se = 2, .act = NP_ACT_SWISH},
     .in = {4, 4, 6}},
    {{.op = NP_OP_SHUFFLE, K(3, 3), .stride = 1}, .in = {5, 5, 8}},
    {{.op = NP_OP_SHUFFLE, K(5, 5), .stride = 2}, .in = {5, 5, 4}, .out = {3, 3, 8}},
    {{.op = NP_OP_SHUFFLE, K(3, 3), .stride = 1, .xception = true}, .in = {5, 5, 8}},
    {{.op = NP_OP_SHUFFLE, K(3, 3), .stride = 2, .xception = true},
     .in = {5, 5, 4},
     .out = {3, 3, 8}},
    {{.op = NP_OP_MAX_POOL, K(3, 3), .stride = 1}, .in = {5, 5, 7}},
    {{.op = NP_OP_MAX_POOL, K(3, 3), .stride = 2, .norm = NP_NORM_OF_BATCH},
     .in = {5, 6, 7},
     .out = {3, 3, 7}},
    {{.op = NP_OP_AVG_POOL, K(3, 3), .stride = 1}, .in = {5, 5, 7}, .summed = true},
    {{.op = NP_OP_AVG_POOL, K(5, 3), .stride = 2}, .in = {5, 6, 7}, .out = {3, 3, 7}},
    {{.op = NP_OP_IDENTITY, .stride = 2}, .in = {5, 5, 4}, .out = {3, 3, 6}},
    {{.op = NP_OP_IDENTITY, .stride = 1}, .in = {4, 4, 4}, .out = {4, 4, 6}},
    {{.op = NP_OP_MAX_POOL, K(2, 2), .stride = 2}, .in = {5, 6, 7}, .out = {3, 3, 7}},
    {{.op = NP_OP_AVG_POOL, K(2, 4), .stride = 1}, .in = {5, 6, 7}},
    {{.op = NP_OP_CONV2D, K(2, 2), .stride = 2, .dilation = 1, .groups = 1},
     .in = {5, 6, 4},
     .out = {3, 3, 6}},
    {{.op = NP_OP_CONV2D, K(4, 2), .stride = 1, .dilation = 2, .groups = 1}, .in = {6, 5, 4}},
    {{.op = NP_OP_DILCONV, K(2, 4), .stride = 2, .dilation = 2}, .in = {6, 5, 4}, .out = {3, 3, 6}},
    {{.op = NP_OP_SEPCONV, K(4, 4), .stride = 1}, .in = {6, 5, 4}},
    {{.op = NP_OP_CONCAT, .stride = 1, .cross = true},
     .in = {4, 3, 3},
     .memory = {4, 3, 5},
     .out = {4, 3, 8}},
    {{.op = NP_OP_CONCAT, .stride = 1, .cross = true},
     .in = {4, 3, 4},
     .memory = {4, 3, 4},
     .out = {4, 3, 8},
     .summed = true},
    {{.op = NP_OP_ZERO, .stride = 2}, .in = {4, 4, 4}, .out = {2, 2, 4}},
    {{.op = NP_OP_ZERO, .stride = 1}, .in = {4, 4, 4}, .summed = true},
    {{.op = NP_OP_NORM, .norm = NP_NORM_OF_LAYER, .act = NP_ACT_HSWISH}, .in = TEXT(5, 8)},
    {{.op = NP_OP_NORM, .norm = NP_NORM_OF_RMS}, .in = {4, 3, 7}, .summed = true},
    {{.op = NP_OP_NORM, .norm = NP_NORM_OF_BATCH}, .in = {4, 3, 5}, .summed = true},
    {{.op = NP_OP_NORM, .norm = NP_NORM_OF_GROUPS, .act = NP_ACT_RELU}, .in = {4, 3, 6}},

    {{.op = NP_OP_IDENTITY}, .in = TEXT(5, 8), .reads = 6, .makes = 6},
    {{.op = NP_OP_MHA, .heads = 3, .causal = true, .dropout = 0.25f},
     .in = TEXT(33, 24),
     .reads = 18,
     .makes = 18},
    {{.op = NP_OP_MHA, .heads = 1, .hidden = 8, .cross = true},
     .in = TEXT(5, 8),
     .memory = TEXT(7, 8),
     .summed = true,
     .reads = 5,
     .makes = 5},
    {{.op = NP_OP_FFN, .ratio = 2, .act = NP_ACT_GELU},
     .in = TEXT(9, 32),
     .reads = 16,
     .makes = 16},
    {{.op = NP_OP_GATED_FFN, .ratio = 2, .act = NP_ACT_SWISH},
     .in = TEXT(5, 24),
     .reads = 9,
     .makes = 9},
    {{.op = NP_OP_GLU}, .in = TEXT(5, 24), .reads = 7, .makes = 7},
    {{.op = NP_OP_NORM, .norm = NP_NORM_OF_LAYER}, .in = TEXT(5, 8), .reads = 5, .makes = 5},
    {{.op = NP_OP_MBCONV, K(3, 3), .stride = 1, .expand = 3, .se = 4, .act = NP_ACT_HSWISH},
     .in = {5, 5, 6},
     .reads = 4,
     .makes = 4},
    {{.op = NP_OP_MBCONV, K(3, 3), .stride = 2, .expand = 2},
     .in = {5, 5, 6},
     .out = {3, 3, 8},
     .makes = 5},
    {{.op = NP_OP_RESNET_BASIC, K(3, 3), .stride = 1, .act = NP_ACT_RELU},
     .in = {5, 5, 6},
     .reads = 5,
     .makes = 3},
    {{.op = NP_OP_BOTTLENECK, K(3, 3), .stride = 1, .groups = 1, .act = NP_ACT_RELU},
     .in = {5, 5, 9},
     .summed = true,
     .reads = 8,
     .makes = 8},
    {{.op = NP_OP_CONV2D, K(3, 3), ONE, .norm = NP_NORM_OF_BATCH, .act = NP_ACT_RELU},
     .in = {4, 4, 6},
     .out = {4, 4, 8},
     .makes = 7},
    {{.op = NP_OP_CONV2D, K(1, 1), ONE, .act = NP_ACT_RELU}, .in = {4, 4, 8}, .reads = 3},
    {{.op = NP_OP_SHUFFLE, K(3, 3), .stride = 1}, .in = {5, 5, 8}, .reads = 6, .makes = 6},
    {{.op = NP_OP_SHUFFLE, K(3, 3), .stride = 1, .xception = true},
     .in = {4, 4, 9},
     .summed = true,
     .reads = 4,
     .makes = 4},
    {{.op = NP_OP_MAX_POOL, K(3, 3), .stride = 2},
     .in = {5, 6, 7},
     .out = {3, 3, 7},
     .reads = 4,
     .makes = 4},
    {{.op = NP_OP_AVG_POOL, K(3, 3), .stride = 1}, .in = {5, 5, 7}, .reads = 6, .makes = 6},
    {{.op = NP_OP_DWCONV2D, K(3, 3), ONE, .act = NP_ACT_RELU},
     .in = {5, 5, 17},
     .reads = 16,
     .makes = 16},

    {{.op = NP_OP_CONV2D,
      K(3, 3),
      .stride = 2,
      .dilation = 1,
      .groups = 1,
      .norm = NP_NORM_OF_BATCH,
      .act = NP_ACT_RELU},
     .out = {4, 3, 8}},
    {{.op = NP_OP_PATCH, K(2, 2), .stride = 2, .positions = true}, .out = {4, 3, 8}},
    {{.op = NP_OP_PATCH, K(4, 3), .stride = 4}, .out = {2, 2, 8}},
    {{.op = NP_OP_CLASSIFIER, .features = 10, .norm = NP_NORM_OF_BATCH, .act = NP_ACT_RELU6},
     .in = {3, 3, 6}},
    {{.op = NP_OP_CLASSIFIER, .norm = NP_NORM_OF_LAYER}, .in = {3, 3, 6}},
    {{.op = NP_OP_CLASSIFIER, .norm = NP_NORM_OF_LAYER}, .in = {3, 3, 6}, .distills = true},
    {{.op = NP_OP_LM}, .in = TEXT(5, 8), .distills = true},
    {{.op = NP_OP_CLASSIFIER, .features = 7, .act = NP_ACT_HSWISH}, .in = {1, 1, 6}},

    {.in = TEXT(3, 5), .program = activations},
    {.in = TEXT(3, 5), .program = lone_activations},
    {.in = TEXT(3, 5), .program = readers},
    {.in = TEXT(3, 5), .program = through},
    {.in = TEXT(3, 5), .memory = TEXT(3, 5), .program = sums},
    {.in = TEXT(3, 5), .program = drops},
    {.in = {4, 3, 5}, .out = {4, 3, 13}, .program = slices},
    {.in = {4, 3, 5}, .program = slices_of_x},
    {.in = TEXT(3, 5), .program = cuts},
    {.in = {3, 3, 5}, .program = squeeze},
    {.in = {5, 5, 5}, .out = {3, 3, 5}, .program = pools},
    {.in = TEXT(6, 12), .out = TEXT(6, 4), .program = bare_attention},
    {.in = TEXT(6, 12), .program = rotations},
    {.in = {3, 3, 6}, .program = norms},
    {.in = {3, 3, 6}, .program = batch_norms},
    {.in = TEXT(3, 5), .program = unread},
    {.in = TEXT(3, 5), .program = half_read},
};

const int layer_cases = (int)(sizeof cases / sizeof *cases);

/* What np_kind_build does, of a program of ours. */
static void build(struct np_kind *kind, int (*program)(struct np_build *b))
{
    struct np_build b = {.kind = kind};
    np_build_value(&b, kind->in, true);
    np_build_value(&b, kind->memory, kind->memory.channels > 0);
    np_build_value(&b, (struct np_shape){0, 0, 0}, false);
    kind->program.output = program(&b);
    ck_assert_int_eq(b.status, NP_OK);
}

void layer_case_init(struct np_kind *kind, int index)
{
    const struct layer_case *c = &cases[index];
    bool head = c->spec.op == NP_OP_LM || c->spec.op == NP_OP_CLASSIFIER;
    const struct np_op_fields *op = np_op_fields(c->spec.op, head ? NP_ROLE_HEAD : NP_ROLE_CHOICE);
    *kind = (struct np_kind){.spec = c->spec,
                             .in = c->in,
                             .memory = c->memory,
                             .out = c->out.channels ? c->out : c->in,
                             .summed = c->summed,
                             .distills = c->distills,
                             .reads = c->reads,
                             .makes = c->makes,
                             .vocab = CASE_VOCAB,
                             .length = c->spec.op == NP_OP_LM ? (size_t)c->in.width : 1};
    /* what no recipe can leave out */
    if (op && op->norms && !(op->norms & NP_BIT(NP_NORM_NONE)) && !kind->spec.norm)
        kind->spec.norm = op->norm;
    if (head)
        kind->out = (struct np_shape){1, (int)kind->length, 1};
    if (!c->in.channels && c->spec.op != NP_OP_EMBEDDING)
        kind->image = (struct np_shape){8, 6, 3};
    if (c->program)
        build(kind, c->program);
    else
        ck_assert_int_eq(np_kind_build(kind, "case", NULL), NP_OK);
}

float *case_floats(size_t count)
{
    float *x;
    ck_assert_int_eq(np_alloc(&x, count + 1, sizeof *x, NULL), NP_OK);
    memset(x, 0xff, (count + 1) * sizeof *x);
    return x;
}

float *case_drawn(size_t count, uint32_t stream)
{
    float *x = case_floats(count);
    for (size_t i = 0; i < count; i++)
        x[i] = case_value(stream, i);
    return x;
}

float *case_weights(const struct np_kind *kind)
{
    float *w = case_floats(kind->floats);
    for (int k = 0; k < kind->tensor_count; k++)
        for (size_t i = 0; i < kind->tensors[k].count; i++)
            w[kind->tensors[k].offset + i] = case_weight(&kind->tensors[k], (uint32_t)k, i);
    return w;
}
