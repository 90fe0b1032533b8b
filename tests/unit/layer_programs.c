#include "layer_programs.h"

static int linear(struct np_build *b, int x, int channels, enum np_act act)
{
    return np_build_linear(b, "linear", x, channels, true, act);
}

static struct np_window window(int kernel, int stride)
{
    return np_build_window((int[]){kernel, kernel}, stride, 1);
}

/* Each activation between two products: B goes through it in the second one's kernel. */
int layer_program_activations(struct np_build *b)
{
    int x = NP_VALUE_X;
    for (int act = NP_ACT_RELU; act <= NP_ACT_HSIGMOID; act++)
        x = linear(b, x, 6, (enum np_act)act);
    return linear(b, x, 5, NP_ACT_NONE);
}

/* The same by themselves: in place, and as the output. */
int layer_program_lone_activations(struct np_build *b)
{
    int x = linear(b, NP_VALUE_X, 5, NP_ACT_NONE);
    for (int act = NP_ACT_RELU; act <= NP_ACT_HSIGMOID; act++)
        x = np_build_act(b, x, (enum np_act)act);
    return x;
}

/* x is read by four nodes, what an activation wrote by two, and what it read by another. */
int layer_program_readers(struct np_build *b)
{
    int u = linear(b, NP_VALUE_X, 5, NP_ACT_NONE), v = np_build_act(b, u, NP_ACT_GELU);
    int a = linear(b, v, 5, NP_ACT_NONE), c = np_build_act(b, NP_VALUE_X, NP_ACT_SWISH);
    int d = np_build_add(b, np_build_add(b, a, v, NP_ACT_RELU), u, NP_ACT_HSWISH);
    d = np_build_add(b, d, c, NP_ACT_NONE);
    return np_build_add(b, np_build_add(b, d, NP_VALUE_X, NP_ACT_NONE), NP_VALUE_X, NP_ACT_SIGMOID);
}

/* B goes through an activation of x, or may not, as somebody in between gives to x. */
int layer_program_through(struct np_build *b)
{
    int a = linear(b, np_build_act(b, NP_VALUE_X, NP_ACT_RELU), 5, NP_ACT_NONE);
    int v = np_build_act(b, NP_VALUE_X, NP_ACT_GELU), w = np_build_act(b, NP_VALUE_X, NP_ACT_RELU6);
    int c = linear(b, v, 5, NP_ACT_NONE), d = linear(b, w, 5, NP_ACT_SIGMOID);
    return np_build_add(b, np_build_add(b, a, c, NP_ACT_NONE), d, NP_ACT_NONE);
}

/* A sum's activation that a product goes through; a value added to itself; sums of sums. */
int layer_program_sums(struct np_build *b)
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
int layer_program_drops(struct np_build *b)
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
int layer_program_slices(struct np_build *b)
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
int layer_program_slices_of_x(struct np_build *b)
{
    int p = slice(b, NP_VALUE_X, 0, 2), q = slice(b, NP_VALUE_X, 2, 3);
    q = np_build_dwconv(b, "depth", q, window(3, 1), false, NP_FILL_HE);
    return merge(b, q, p, false);
}

/* Cuts of x and of values of its own, which others read too; what is widened is read by all. */
int layer_program_cuts(struct np_build *b)
{
    int p = np_build_cut(b, NP_VALUE_X, 3), q = linear(b, p, 4, NP_ACT_GELU), r, s;
    r = np_build_cut(b, q, 2);
    s = np_build_widen(b, np_build_add(b, r, np_build_cut(b, p, 2), NP_ACT_NONE), 4);
    q = np_build_add(b, q, s, NP_ACT_RELU);
    q = np_build_widen(b, np_build_add(b, q, s, NP_ACT_NONE), 5);
    return np_build_add(b, NP_VALUE_X, q, NP_ACT_NONE);
}

/* Squeeze-and-excite of x itself, so that nothing takes a base but what can. */
int layer_program_squeeze(struct np_build *b)
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
int layer_program_pools(struct np_build *b)
{
    int m = pool(b, NP_NODE_MAX_POOL, NP_VALUE_X, 3, 2);
    int a = pool(b, NP_NODE_AVG_POOL, NP_VALUE_X, 3, 2);
    int x = linear(b, NP_VALUE_X, 5, NP_ACT_NONE), n = pool(b, NP_NODE_AVG_POOL, x, 5, 2);
    return np_build_add(b, np_build_add(b, m, a, NP_ACT_NONE), n, NP_ACT_NONE);
}

/* Attention and gates whose inputs nobody else made: x itself. */
int layer_program_bare_attention(struct np_build *b)
{
    struct np_shape shape = b->kind->in;
    struct np_node *node;
    shape.channels /= 3;
    node = np_build_node(b, NP_NODE_ATTENTION, NP_VALUE_X, NP_VALUE_X, shape);
    node->heads = 2;
    return node->out;
}

/* Turned by themselves: x, which others read too, and what nobody else reads, in place. */
int layer_program_rotations(struct np_build *b)
{
    int x = NP_VALUE_X, y;
    for (int i = 0; i < 2; i++) {
        struct np_node *node = np_build_node(b, NP_NODE_ROTATE, x, -1, b->kind->in);
        node->heads = 3 - i;
        node->first = 2;
        node->base = 100;
        y = node->out;
        x = np_build_linear(b, i ? "b" : "a", y, 12, true, NP_ACT_NONE);
    }
    return np_build_add(b, np_build_add(b, x, y, NP_ACT_NONE), NP_VALUE_X, NP_ACT_NONE);
}

/* Heads that are repeated more often than a chunk of their gradient's sum has terms. */
int layer_program_repeats(struct np_build *b)
{
    struct np_node *node = np_build_node(b, NP_NODE_REPEAT, NP_VALUE_X, -1, b->kind->out);
    node->heads = 2;
    return node->out;
}

int layer_program_norms(struct np_build *b)
{
    int x = np_build_norm(b, "a", NP_VALUE_X, NP_NORM_OF_GROUPS, NP_ACT_SWISH);
    x = np_build_add(b, x, NP_VALUE_X, NP_ACT_NONE);
    x = np_build_norm(b, "b", x, NP_NORM_OF_LAYER, NP_ACT_HSWISH);
    x = np_build_norm(b, "c", x, NP_NORM_OF_GROUPS, NP_ACT_NONE);
    return np_build_norm(b, "d", x, NP_NORM_OF_RMS, NP_ACT_RELU);
}

/* Batch norms that share what they read with others. */
int layer_program_batch_norms(struct np_build *b)
{
    int x = np_build_norm(b, "a", NP_VALUE_X, NP_NORM_OF_BATCH, NP_ACT_GELU);
    int y = np_build_norm(b, "b", x, NP_NORM_OF_BATCH, NP_ACT_RELU6);
    int z = np_build_norm(b, "c", x, NP_NORM_OF_BATCH, NP_ACT_NONE);
    return np_build_add(b, np_build_add(b, y, z, NP_ACT_NONE), x, NP_ACT_RELU);
}

/* Values that no B reads, and what it does read is made of: F must be repeated through them. */
int layer_program_unread(struct np_build *b)
{
    int p = linear(b, NP_VALUE_X, 3, NP_ACT_NONE), q = linear(b, NP_VALUE_X, 3, NP_ACT_NONE);
    int s = np_build_add(b, p, q, NP_ACT_GELU), t = linear(b, NP_VALUE_X, 2, NP_ACT_NONE);
    int u = linear(b, merge(b, s, t, false), 5, NP_ACT_NONE);
    return np_build_add(b, u, linear(b, NP_VALUE_X, 5, NP_ACT_NONE), NP_ACT_SWISH);
}

/* What B reads is not what its kernel makes last. */
int layer_program_half_read(struct np_build *b)
{
    return np_build_act(b, linear(b, NP_VALUE_X, 5, NP_ACT_NONE), NP_ACT_GELU);
}
