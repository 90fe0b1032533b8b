/* Convolutions, dense and depthwise. A dense one of single positions is a matrix product. */
#include "ops/node.h"

enum { WEIGHT, BIAS };

static struct np_conv conv_of(const struct np_pass *pass, int i)
{
    struct np_conv conv = np_pass_window(pass, i);
    const struct np_node *node = np_pass_node(pass, i);
    conv.groups = node->groups > 1 ? (size_t)node->groups : 1;
    conv.w = np_pass_tensor(pass, i, WEIGHT);
    return conv;
}

static size_t rows_of_grain(const struct np_pass *pass, const struct np_conv *conv)
{
    return pass->call->grain * conv->in_height * conv->in_width;
}

/* A pass of one node as a product of matrices. */
static struct np_matmul product_of(const struct np_pass *pass, int i, const struct np_conv *conv)
{
    size_t rows = conv->samples * conv->in_height * conv->in_width;
    return (struct np_matmul){.m = rows,
                              .n = conv->out_channels,
                              .k = conv->in_channels,
                              .a = conv->x,
                              .b = conv->w,
                              .c = conv->out,
                              .lda = conv->ldx,
                              .ldb = np_pass_weight_ld(pass, i),
                              .ldc = conv->ldy,
                              .row_grain = rows_of_grain(pass, conv),
                              .epilogue = conv->epilogue};
}

static struct np_matmul product_grad_of(const struct np_pass *pass, int i,
                                        const struct np_conv *conv)
{
    size_t rows = conv->samples * conv->in_height * conv->in_width;
    return (struct np_matmul){.m = rows,
                              .n = conv->in_channels,
                              .k = conv->out_channels,
                              .a = conv->dy,
                              .b = conv->w,
                              .c = conv->out,
                              .lda = conv->ldy,
                              .ldb = np_pass_weight_ld(pass, i),
                              .ldc = conv->ldx,
                              .row_grain = rows_of_grain(pass, conv),
                              .b_trans = true,
                              .epilogue = conv->epilogue};
}

static struct np_matmul product_grad_weight_of(const struct np_pass *pass, int i,
                                               const struct np_conv *conv)
{
    size_t positions = conv->in_height * conv->in_width;
    return (struct np_matmul){.m = conv->in_channels,
                              .n = conv->out_channels,
                              .k = conv->samples * positions,
                              .a = conv->x,
                              .b = conv->dy,
                              .c = conv->out,
                              .lda = conv->ldx,
                              .ldb = conv->ldy,
                              .ldc = np_pass_weight_ld(pass, i),
                              .grain = rows_of_grain(pass, conv),
                              .a_trans = true,
                              .accumulate = conv->accumulate};
}

static bool conv_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    int last = np_pass_last(pass, i);
    struct np_conv conv = conv_of(pass, i);
    conv.out = np_pass_value(pass, np_pass_node(pass, last)->out);
    conv.epilogue = (struct np_epilogue){.bias = node->bias ? np_pass_tensor(pass, i, BIAS) : NULL,
                                         .residual = np_pass_residual(pass, i),
                                         .act = np_pass_node(pass, last)->act,
                                         .kept = np_pass_kept(pass, last),
                                         .ld = conv.ldy};
    if (np_node_is_product(node)) {
        struct np_matmul product = product_of(pass, i, &conv);
        return pass->kernels->matmul(pass->team, &product);
    }
    return pass->kernels->conv(pass->team, &conv);
}

static bool conv_backward(struct np_pass *pass, int i)
{
    struct np_conv conv = conv_of(pass, i);
    int through = pass->layout.node[i].through;
    struct np_sink sink;
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    conv.out = sink.to;
    conv.epilogue.residual = sink.base;
    conv.epilogue.ld = sink.ld;
    if (through != NP_NOWHERE) {
        conv.epilogue.act = np_pass_node(pass, through)->act;
        conv.epilogue.before = np_pass_slope(pass, through);
    }
    if (np_node_is_product(np_pass_node(pass, i))) {
        struct np_matmul product = product_grad_of(pass, i, &conv);
        return pass->kernels->matmul(pass->team, &product);
    }
    return pass->kernels->conv_grad(pass->team, &conv);
}

/* dbias: the sum of dy's rows. */
static void bias_weight(struct np_pass *pass, int i, float *g, bool accumulate)
{
    const struct np_node *node = np_pass_node(pass, i);
    if (node->bias)
        pass->kernels->col_sum(pass->team, np_pass_gradient(pass, g, i, BIAS), np_pass_dy(pass, i),
                               1, np_pass_rows(pass, node->out), np_pass_channels(pass, node->out),
                               pass->call->grain * np_pass_positions(pass, node->out), accumulate);
}

static bool conv_weight(struct np_pass *pass, int i, float *g, bool accumulate)
{
    struct np_conv conv = conv_of(pass, i);
    conv.out = np_pass_gradient(pass, g, i, WEIGHT);
    conv.grain = pass->call->grain;
    conv.accumulate = accumulate;
    bias_weight(pass, i, g, accumulate);
    if (np_node_is_product(np_pass_node(pass, i))) {
        struct np_matmul product = product_grad_weight_of(pass, i, &conv);
        return pass->kernels->matmul(pass->team, &product);
    }
    return pass->kernels->conv_grad_weight(pass->team, &conv);
}

/* What an activation reads, where B cannot take its slope from what it wrote. */
static void conv_parts(struct np_node_parts *parts, const struct np_program *program,
                       const struct np_node *node, size_t samples)
{
    if (node->act != NP_ACT_NONE && !np_node_slopes_at_output(program, node))
        parts->saved = samples * np_shape_floats(program->values[node->out]);
}

const struct np_node_ops np_node_conv = {.forward = conv_forward,
                                         .backward = conv_backward,
                                         .weight = conv_weight,
                                         .parts = conv_parts,
                                         .gives = NP_IN0,
                                         .reads = NP_IN0,
                                         .takes_tail = true,
                                         .slopes = true,
                                         .reads_dy = true,
                                         .takes_base = NP_IN0,
                                         .unseen_tensors = 1 << BIAS};

static bool dwconv_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    struct np_conv conv = conv_of(pass, i);
    conv.groups = conv.in_channels;
    conv.out = np_pass_value(pass, node->out);
    conv.epilogue.ld = conv.ldy;
    if (node->bias)
        conv.epilogue.bias = np_pass_tensor(pass, i, BIAS);
    return pass->kernels->dwconv(pass->team, &conv);
}

static bool dwconv_backward(struct np_pass *pass, int i)
{
    struct np_conv conv = conv_of(pass, i);
    struct np_sink sink;
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    conv.groups = conv.in_channels;
    conv.out = sink.to;
    conv.epilogue.residual = sink.base;
    conv.epilogue.ld = sink.ld;
    return pass->kernels->dwconv_grad(pass->team, &conv);
}

static bool dwconv_weight(struct np_pass *pass, int i, float *g, bool accumulate)
{
    struct np_conv conv = conv_of(pass, i);
    conv.groups = conv.in_channels;
    conv.out = np_pass_gradient(pass, g, i, WEIGHT);
    conv.grain = pass->call->grain;
    conv.accumulate = accumulate;
    bias_weight(pass, i, g, accumulate);
    return pass->kernels->dwconv_grad_weight(pass->team, &conv);
}

const struct np_node_ops np_node_dwconv = {.forward = dwconv_forward,
                                           .backward = dwconv_backward,
                                           .weight = dwconv_weight,
                                           .gives = NP_IN0,
                                           .reads = NP_IN0,
                                           .reads_dy = true,
                                           .takes_base = NP_IN0,
                                           .unseen_tensors = 1 << BIAS};
