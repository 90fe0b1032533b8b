/* Multi-head attention, of a value to itself or to another one; the positions that its queries and
 * keys are turned by, or what their offsets add to scores; keys and values that several heads of
 * queries share. */
#include "ops/node.h"

static void rotate(const struct np_pass *pass, int i, float *y, const float *x, bool back)
{
    const struct np_node *node = np_pass_node(pass, i);
    size_t cols = np_pass_channels(pass, node->out);
    const struct np_rotation rotation = {.samples = pass->call->samples,
                                         .length = np_pass_positions(pass, node->out),
                                         .cols = cols,
                                         .heads = (size_t)node->first,
                                         .width = cols / (size_t)node->heads,
                                         .base = node->base,
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

/* Heads of a row, and how often each is repeated. */
struct repeats {
    size_t rows, heads, width, times;
};

static struct repeats repeats_of(const struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    size_t few = np_pass_channels(pass, node->in[0]), heads = (size_t)node->heads;
    return (struct repeats){np_pass_rows(pass, node->out), heads, few / heads,
                            np_pass_channels(pass, node->out) / few};
}

static bool repeat_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    const struct repeats r = repeats_of(pass, i);
    const struct np_slice slice = {{r.rows, r.heads, r.times, r.width},
                                   {r.heads * r.width, r.width, 0}};
    pass->kernels->gather(pass->team, np_pass_value(pass, node->out),
                          np_pass_value(pass, node->in[0]), &slice);
    return true;
}

/* The sums of what is repeated, heads of rows being segments. */
static bool repeat_backward(struct np_pass *pass, int i)
{
    const struct repeats r = repeats_of(pass, i);
    struct np_sink sink;
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    pass->kernels->col_sum(pass->team, np_sink_start(&sink), np_pass_dy(pass, i), r.rows * r.heads,
                           r.times, r.width, 0, NP_SUM_NEW);
    return np_sink_finish(pass, &sink);
}

const struct np_node_ops np_node_repeat = {
    .forward = repeat_forward, .backward = repeat_backward, .gives = NP_IN0, .silent = true};

/* Floats of the table of relative positions. */
static size_t table_floats(const struct np_program *program, const struct np_node *node)
{
    struct np_shape out = program->values[node->out];
    if (!node->relative)
        return 0;
    return (size_t)node->heads *
           np_offset_count((size_t)out.height, (size_t)out.width, node->causal);
}

/* saved: two numbers a query and head; delta: each sample's share of the table's gradient */
static void attention_parts(struct np_node_parts *parts, const struct np_program *program,
                            const struct np_node *node, size_t samples)
{
    parts->saved = samples * np_shape_rows(program->values[node->out]) * (size_t)node->heads * 2;
    parts->delta = samples * table_floats(program, node);
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
    struct np_attention attention = {.samples = pass->call->samples,
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
    if (node->padded)
        attention.lengths = pass->call->lengths;
    if (node->relative) {
        attention.relative = np_pass_tensor(pass, i, 0);
        attention.across = (size_t)np_pass_shape(pass, node->out).width;
    }
    return attention;
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
    pass->kernels->attention_grad(pass->team, dq, dk, dk + attention.width, np_pass_delta(pass, i),
                                  np_pass_dy(pass, i), np_pass_saved(pass, i), &attention);
    finite = np_sink_finish(pass, &q);
    return (is_self(node) || np_sink_finish(pass, &k)) && finite;
}

/* One sample after the other. */
static bool attention_weight(struct np_pass *pass, int i, float *g, bool accumulate)
{
    const struct np_node *node = np_pass_node(pass, i);
    if (node->relative)
        pass->kernels->col_sum(pass->team, np_pass_gradient(pass, g, i, 0), np_pass_delta(pass, i),
                               1, pass->call->samples, table_floats(pass->program, node), 1,
                               accumulate);
    return true;
}

const struct np_node_ops np_node_attention = {.forward = attention_forward,
                                              .backward = attention_backward,
                                              .weight = attention_weight,
                                              .parts = attention_parts,
                                              .gives = NP_IN0 | NP_IN1,
                                              .reads = NP_IN0 | NP_IN1,
                                              .silent = true,
                                              .unseen_tensors = 1};
