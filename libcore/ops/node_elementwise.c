/* What works on elements by themselves: activations, gates, sums, drops. */
#include <math.h>

#include "ops/node.h"

static bool act_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    return pass->kernels->act(pass->team, node->act, np_pass_value(pass, node->out),
                              np_pass_value(pass, node->in[0]), np_pass_floats(pass, node->out));
}

static bool act_backward(struct np_pass *pass, int i)
{
    struct np_sink sink;
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    return pass->kernels->act_grad(pass->team, np_pass_node(pass, i)->act, sink.to, sink.base,
                                   np_pass_slope(pass, i), np_pass_dy(pass, i), sink.count);
}

const struct np_node_ops np_node_act = {.forward = act_forward,
                                        .backward = act_backward,
                                        .gives = NP_IN0,
                                        .in_place = NP_IN0,
                                        .takes_base = NP_IN0,
                                        .slopes = true,
                                        .over_dy = true};

/* Its input becomes u + bias, which B reads. */
static bool glu_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    pass->kernels->bias_glu(pass->team, np_pass_value(pass, node->out),
                            np_pass_value(pass, node->in[0]), np_pass_tensor(pass, i, 0),
                            np_pass_rows(pass, node->out), np_pass_channels(pass, node->out));
    return true;
}

static bool glu_backward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    struct np_sink sink;
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    pass->kernels->glu_grad(pass->team, sink.to, np_pass_value(pass, node->in[0]),
                            np_pass_dy(pass, i), np_pass_rows(pass, node->out),
                            np_pass_channels(pass, node->out));
    return true;
}

/* dbias: the sum of the rows that it gave. */
static bool glu_weight(struct np_pass *pass, int i, float *g, bool accumulate)
{
    const struct np_node *node = np_pass_node(pass, i);
    pass->kernels->col_sum(pass->team, np_pass_gradient(pass, g, i, 0),
                           np_pass_part(pass, pass->layout.node[i].gift[0].to), 1,
                           np_pass_rows(pass, node->in[0]), np_pass_channels(pass, node->in[0]),
                           pass->call->grain * np_pass_positions(pass, node->out), accumulate);
    return true;
}

const struct np_node_ops np_node_glu = {.forward = glu_forward,
                                        .backward = glu_backward,
                                        .weight = glu_weight,
                                        .gives = NP_IN0,
                                        .reads = NP_IN0,
                                        .reads_gift = true,
                                        .changes_input = true,
                                        .silent = true,
                                        .unseen_tensors = 1};

static bool add_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    return pass->kernels->add(pass->team, node->act, np_pass_value(pass, node->out),
                              pass->call->train ? np_pass_saved(pass, i) : NULL,
                              np_pass_value(pass, node->in[0]), np_pass_value(pass, node->in[1]),
                              np_pass_floats(pass, node->out));
}

/* saved: the sum, where B cannot take the slope of its activation from what that wrote */
static void add_parts(struct np_node_parts *parts, const struct np_program *program,
                      const struct np_node *node, size_t samples)
{
    if (node->act != NP_ACT_NONE && !np_node_slopes_at_output(program, node))
        parts->saved = samples * np_shape_floats(program->values[node->out]);
}

const struct np_node_ops np_node_add = {.forward = add_forward,
                                        .parts = add_parts,
                                        .gives = NP_IN0 | NP_IN1,
                                        .in_place = NP_IN0 | NP_IN1,
                                        .takes_base = NP_IN0 | NP_IN1,
                                        .slopes = true,
                                        .over_dy = true,
                                        .passes_on = true};

/* How a node drops: its key is told from those of others of its kind by their number before it. */
struct drop {
    struct np_draw_key key;
    uint32_t threshold; /* a word below it drops: exact, as p is a float below 1 */
    float keep_scale;   /* 1 / (1 - p), rounded once */
};

static struct drop drop_of(const struct np_pass *pass, int i, enum np_purpose purpose)
{
    const struct np_op_call *call = pass->call;
    double p = (double)np_pass_node(pass, i)->drop;
    uint32_t number = 0;
    for (int j = 0; j < i; j++)
        number += np_pass_node(pass, j)->op == np_pass_node(pass, i)->op;
    return (struct drop){np_draw_key(call->seed, purpose, call->member, call->layer, number),
                         (uint32_t)(p * 0x1p32), (float)(1.0 / (1.0 - p))};
}

/* Elements and samples are counted over the mini-batch, so its cuts do not show. */
static void drop(const struct np_pass *pass, int i, float *y, const float *x)
{
    const struct np_op_call *call = pass->call;
    const struct np_node *node = np_pass_node(pass, i);
    size_t each = np_shape_floats(np_pass_shape(pass, node->out));
    struct drop d;
    if (!call->train) {
        pass->kernels->copy(pass->team, y, x, call->samples * each);
    } else if (node->op == NP_NODE_DROPOUT) {
        d = drop_of(pass, i, NP_DRAW_DROPOUT);
        pass->kernels->dropout(pass->team, y, x, call->samples * each, d.key, call->step,
                               (uint64_t)call->first * each, d.threshold, d.keep_scale);
    } else {
        d = drop_of(pass, i, NP_DRAW_PATH);
        pass->kernels->drop_path(pass->team, y, x, call->samples, each, d.key, call->step,
                                 call->first, d.threshold, d.keep_scale);
    }
}

static bool drop_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    drop(pass, i, np_pass_value(pass, node->out), np_pass_value(pass, node->in[0]));
    return true;
}

static bool drop_backward(struct np_pass *pass, int i)
{
    struct np_sink sink;
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    drop(pass, i, np_sink_start(&sink), np_pass_dy(pass, i));
    return np_sink_finish(pass, &sink);
}

const struct np_node_ops np_node_drop = {.forward = drop_forward,
                                         .backward = drop_backward,
                                         .gives = NP_IN0,
                                         .in_place = NP_IN0,
                                         .over_dy = true,
                                         .silent = true};
