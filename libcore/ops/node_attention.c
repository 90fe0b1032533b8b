/* Multi-head attention, of a value to itself or to another one, and the positions that its queries
 * and keys are turned by. */
#include "ops/node.h"

static void rotate(const struct np_pass *pass, int i, float *y, const float *x, bool back)
{
    const struct np_node *node = np_pass_node(pass, i);
    size_t cols = np_pass_channels(pass, node->out), heads = (size_t)node->heads;
    const struct np_rotation rotation = {.samples = pass->call->samples,
                                         .length = np_pass_positions(pass, node->out),
                                         .cols = cols,
                                         .heads = 2 * heads,
                                         .width = cols / 3 / heads,
                                         .back = back};
    pass->kernels->rotate(pass->team, y, x, &rotation);
}

static bool rotate_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    rotate(pass, i, np_pass_value(pass, node->out), np_pass_value(pass, node->in[0]), false);
    return true;
}

static bool rotate_backward(struct np_pass *pass, int i)
{
    struct np_sink sink;
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    rotate(pass, i, np_sink_start(&sink), np_pass_dy(pass, i), true);
    return np_sink_finish(pass, &sink);
}

const struct np_node_ops np_node_rotate = {.forward = rotate_forward,
                                           .backward = rotate_backward,
                                           .gives = NP_IN0,
                                           .in_place = NP_IN0,
                                           .over_dy = true,
                                           .silent = true};

/* saved: two numbers a query and head */
static void attention_parts(struct np_node_parts *parts, const struct np_program *program,
                            const struct np_node *node, size_t samples)
{
    parts->saved = samples * np_shape_rows(program->values[node->out]) * (size_t)node->heads * 2;
}

static bool is_self(const struct np_node *node)
{
    return node->in[0] == node->in[1];
}

static struct np_attention attention_of(const struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    size_t width = np_pass_channels(pass, node->out);
    const float *q = np_pass_value(pass, node->in[0]);
    const float *k = is_self(node) ? q + width : np_pass_value(pass, node->in[1]);
    return (struct np_attention){.samples = pass->call->samples,
                                 .queries = np_pass_positions(pass, node->in[0]),
                                 .keys = np_pass_positions(pass, node->in[1]),
                                 .width = width,
                                 .heads = (size_t)node->heads,
                                 .causal = node->causal,
                                 .q = q,
                                 .k = k,
                                 .v = k + width,
                                 .ldq = np_pass_ld(pass, node->in[0]),
                                 .ldk = np_pass_ld(pass, node->in[1])};
}

static bool attention_forward(struct np_pass *pass, int i)
{
    struct np_attention attention = attention_of(pass, i);
    pass->kernels->attention(pass->team, np_pass_value(pass, np_pass_node(pass, i)->out),
                             np_pass_saved(pass, i), &attention);
    return true;
}

static bool attention_backward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    struct np_attention attention = attention_of(pass, i);
    struct np_sink q, k;
    float *dq, *dk;
    bool finite;
    if (!np_pass_sink(pass, &q, i, 0) || (!is_self(node) && !np_pass_sink(pass, &k, i, 1)))
        return true;
    dq = np_sink_start(&q);
    dk = is_self(node) ? dq + attention.width : np_sink_start(&k);
    pass->kernels->attention_grad(pass->team, dq, dk, dk + attention.width, np_pass_dy(pass, i),
                                  np_pass_saved(pass, i), &attention);
    finite = np_sink_finish(pass, &q);
    return (is_self(node) || np_sink_finish(pass, &k)) && finite;
}

const struct np_node_ops np_node_attention = {.forward = attention_forward,
                                              .backward = attention_backward,
                                              .parts = attention_parts,
                                              .gives = NP_IN0 | NP_IN1,
                                              .reads = NP_IN0 | NP_IN1,
                                              .silent = true};
