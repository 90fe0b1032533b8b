/* Operators of images that are one step, and both ends of an image space. */
#include "space/programs.h"

static struct np_window window_of(const struct np_layer_spec *spec)
{
    return np_build_window(spec->kernel, spec->stride, spec->dilation);
}

/* What an image operator reads: x, or the batch's images if it is the stem. */
static int input(struct np_build *b)
{
    if (b->in.channels)
        return b->x;
    return np_build_node(b, NP_NODE_IMAGE, -1, -1, b->kind->image)->out;
}

/* act(norm(conv)); the bias is the norm's, or without a norm the convolution's, as is the act. */
int np_program_conv2d(struct np_build *b)
{
    const struct np_layer_spec *spec = &b->kind->spec;
    bool bare = spec->norm == NP_NORM_NONE;
    struct np_build_product product = {.name = "conv",
                                       .channels = b->out.channels,
                                       .groups = spec->groups,
                                       .window = window_of(spec),
                                       .bias = bare,
                                       .act = bare ? spec->act : NP_ACT_NONE,
                                       .fill = NP_FILL_HE};
    int x = np_build_product(b, input(b), &product);
    return bare ? x : np_build_norm(b, "norm", x, spec->norm, spec->act);
}

int np_program_dwconv2d(struct np_build *b)
{
    const struct np_layer_spec *spec = &b->kind->spec;
    bool bare = spec->norm == NP_NORM_NONE;
    int x = np_build_dwconv(b, "conv", b->x, window_of(spec), bare, NP_FILL_HE);
    return np_build_norm(b, "norm", x, spec->norm, spec->act);
}

/* Patches side by side, each a row of the output. */
int np_program_patch(struct np_build *b)
{
    const struct np_kind *kind = b->kind;
    const int *kernel = kind->spec.kernel;
    struct np_build_product product = {.name = "patch",
                                       .channels = b->out.channels,
                                       .groups = 1,
                                       .window = {.kernel_height = kernel[0],
                                                  .kernel_width = kernel[1],
                                                  .stride_height = kernel[0],
                                                  .stride_width = kernel[1],
                                                  .dilation = 1},
                                       .bias = true,
                                       .fill = NP_FILL_HE};
    int x = np_build_product(b, input(b), &product);
    struct np_node *node;
    if (kind->spec.positions != NP_POSITIONS_LEARNED)
        return x;
    node = np_build_node(b, NP_NODE_POSITIONS, x, -1, b->out);
    x = node->out;
    np_build_tensor(b, node, "position", "table",
                    (size_t[4]){np_shape_rows(b->out), (size_t)b->out.channels}, NP_FILL_TENTH);
    return x;
}

int np_program_pool(struct np_build *b)
{
    const struct np_layer_spec *spec = &b->kind->spec;
    enum np_node_op op = spec->op == NP_OP_MAX_POOL ? NP_NODE_MAX_POOL : NP_NODE_AVG_POOL;
    struct np_node *node = np_build_node(b, op, b->x, -1, b->out);
    node->window = np_build_window(spec->kernel, spec->stride, 1);
    return np_build_norm(b, "norm", node->out, spec->norm, NP_ACT_NONE);
}

/* Half of the channels at the even positions, the other half at the odd ones. */
static int factorised(struct np_build *b, int x)
{
    struct np_shape out = b->out, half = out;
    struct np_window window = np_build_window((int[]){1, 1}, 2, 1);
    struct np_node *node;
    int even, odd;
    half.channels = out.channels / 2;
    even = np_build_conv(b, "even", x, half.channels, window);
    window.pad_top = window.pad_left = -1;
    odd = np_build_conv(b, "odd", x, out.channels - half.channels, window);
    node = np_build_node(b, NP_NODE_MERGE, even, odd, out);
    return node->out;
}

/* Nothing where shapes agree; else relu, 1 x 1 convolution, batch norm. */
int np_program_identity(struct np_build *b)
{
    const struct np_kind *kind = b->kind;
    struct np_window window = np_build_window((int[]){1, 1}, 1, 1);
    int x;
    if (np_build_keeps(b))
        return b->x;
    x = np_build_act(b, b->x, NP_ACT_RELU);
    x = kind->spec.stride == 2 ? factorised(b, x)
                               : np_build_conv(b, "conv", x, b->out.channels, window);
    return np_build_norm(b, "norm", x, NP_NORM_OF_BATCH, NP_ACT_NONE);
}

int np_program_norm(struct np_build *b)
{
    return np_build_norm(b, "norm", b->x, b->kind->spec.norm, b->kind->spec.act);
}

int np_program_concat(struct np_build *b)
{
    return np_build_node(b, NP_NODE_MERGE, NP_VALUE_MEMORY, b->x, b->out)->out;
}

/* Nothing to add to a sum: it is the result. */
int np_program_zero(struct np_build *b)
{
    if (b->kind->summed)
        return NP_VALUE_SUM;
    return np_build_node(b, NP_NODE_ZERO, -1, -1, b->out)->out;
}

/* Features, if there are any; then the mean over positions and a linear layer. */
/* `act` is of the features and of the hidden layer; without both of what is read. */
int np_program_classifier(struct np_build *b)
{
    const struct np_kind *kind = b->kind;
    const struct np_layer_spec *spec = &kind->spec;
    bool bare = spec->norm == NP_NORM_NONE;
    enum np_act act = spec->features || !spec->hidden ? spec->act : NP_ACT_NONE;
    int x = b->x;
    struct np_build_product features = {.name = "features",
                                        .channels = spec->features,
                                        .groups = 1,
                                        .window = np_build_causal_window(1),
                                        .bias = bare,
                                        .act = bare ? act : NP_ACT_NONE,
                                        .fill = NP_FILL_HE};
    if (spec->features)
        x = np_build_product(b, x, &features);
    if (!spec->features || !bare)
        x = np_build_norm(b, "norm", x, spec->norm, act);
    x = np_build_global_pool(b, x);
    if (spec->hidden)
        x = np_build_linear(b, "hidden", x, spec->hidden, true, spec->act);
    x = np_build_dropout(b, x);
    x = np_build_linear(b, "out", x, (int)kind->vocab, true, NP_ACT_NONE);
    np_build_xent(b, x);
    return -1;
}
