/* What moves rows: slices, cuts and their inverse, concatenations, tables of positions, zeros. */
#include "ops/node.h"

/* A view: its gradient is a view of its origin's. */
const struct np_node_ops np_node_slice = {0};

/* The first channels of rows: to[few] of from[few + others]. */
static bool take_first(struct np_pass *pass, float *to, const float *base, const float *from,
                       size_t rows, size_t few, size_t others)
{
    return pass->kernels->split(pass->team, to, NULL, base, NULL, from, rows, few, others, few,
                                others, false);
}

/* The inverse, and zeros. */
static void put_first(struct np_pass *pass, float *to, const float *from, size_t rows, size_t few,
                      size_t others)
{
    pass->kernels->merge(pass->team, to, from, NULL, rows, few, others, few, others, false);
}

/* Channels of the one of two values that has fewer, and those which it lacks. */
struct channels {
    size_t few, others;
};

static struct channels channels_of(const struct np_pass *pass, int narrow, int wide)
{
    size_t few = np_pass_channels(pass, narrow);
    return (struct channels){few, np_pass_channels(pass, wide) - few};
}

static bool cut_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    struct channels c = channels_of(pass, node->out, node->in[0]);
    return take_first(pass, np_pass_value(pass, node->out), NULL, np_pass_value(pass, node->in[0]),
                      np_pass_rows(pass, node->out), c.few, c.others);
}

static bool cut_backward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    struct channels c = channels_of(pass, node->out, node->in[0]);
    struct np_sink sink;
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    put_first(pass, np_sink_start(&sink), np_pass_dy(pass, i), np_pass_rows(pass, node->out), c.few,
              c.others);
    return np_sink_finish(pass, &sink);
}

const struct np_node_ops np_node_cut = {
    .forward = cut_forward, .backward = cut_backward, .gives = NP_IN0, .silent = true};

static bool widen_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    struct channels c = channels_of(pass, node->in[0], node->out);
    put_first(pass, np_pass_value(pass, node->out), np_pass_value(pass, node->in[0]),
              np_pass_rows(pass, node->out), c.few, c.others);
    return true;
}

static bool widen_backward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    struct channels c = channels_of(pass, node->in[0], node->out);
    struct np_sink sink;
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    return take_first(pass, sink.to, sink.base, np_pass_dy(pass, i), np_pass_rows(pass, node->out),
                      c.few, c.others);
}

const struct np_node_ops np_node_widen = {.forward = widen_forward,
                                          .backward = widen_backward,
                                          .gives = NP_IN0,
                                          .takes_base = NP_IN0,
                                          .silent = true};

static bool merge_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    int a = node->in[0], b = node->in[1];
    pass->kernels->merge(pass->team, np_pass_value(pass, node->out), np_pass_value(pass, a),
                         np_pass_value(pass, b), np_pass_rows(pass, node->out),
                         np_pass_channels(pass, a), np_pass_channels(pass, b), np_pass_ld(pass, a),
                         np_pass_ld(pass, b), node->interleave);
    return true;
}

static bool merge_backward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    struct np_sink a = {.ld = 1}, b = {.ld = 1};
    bool any = np_pass_sink(pass, &a, i, 0);
    any = np_pass_sink(pass, &b, i, 1) || any;
    if (!any)
        return true;
    return pass->kernels->split(pass->team, a.to, b.to, a.base, b.base, np_pass_dy(pass, i),
                                np_pass_rows(pass, node->out), np_pass_channels(pass, node->in[0]),
                                np_pass_channels(pass, node->in[1]), a.ld, b.ld, node->interleave);
}

const struct np_node_ops np_node_merge = {.forward = merge_forward,
                                          .backward = merge_backward,
                                          .gives = NP_IN0 | NP_IN1,
                                          .takes_base = NP_IN0 | NP_IN1};

static bool zero_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    pass->kernels->fill(pass->team, np_pass_value(pass, node->out), np_pass_floats(pass, node->out),
                        0.0f);
    return true;
}

const struct np_node_ops np_node_zero = {.forward = zero_forward};

/* A sample is one row of T*C, the table its bias. */
static bool positions_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    pass->kernels->bias_add(pass->team, np_pass_value(pass, node->out),
                            np_pass_value(pass, node->in[0]), np_pass_tensor(pass, i, 0),
                            pass->call->samples, np_shape_floats(np_pass_shape(pass, node->out)));
    return true;
}

static bool positions_weight(struct np_pass *pass, int i, float *g, bool accumulate)
{
    const struct np_node *node = np_pass_node(pass, i);
    pass->kernels->col_sum(pass->team, np_pass_gradient(pass, g, i, 0), np_pass_dy(pass, i), 1,
                           pass->call->samples, np_shape_floats(np_pass_shape(pass, node->out)),
                           pass->call->grain, accumulate);
    return true;
}

const struct np_node_ops np_node_positions = {.forward = positions_forward,
                                              .weight = positions_weight,
                                              .gives = NP_IN0,
                                              .in_place = NP_IN0,
                                              .takes_base = NP_IN0,
                                              .reads_dy = true,
                                              .passes_on = true,
                                              .silent = true,
                                              .unseen_tensors = 1};
