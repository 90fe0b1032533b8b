/* Where a network begins and ends: images, embeddings, and the loss. */
#include "ops/node.h"

enum { TABLE, POSITIONS };

/* The batch's images are read where they are. */
const struct np_node_ops np_node_image = {0};

static const int32_t *tokens_of(const struct np_pass *pass, int i)
{
    return np_pass_node(pass, i)->source ? pass->call->source : pass->call->tokens;
}

static bool embed_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    pass->kernels->embed(
        pass->team, np_pass_value(pass, node->out), tokens_of(pass, i),
        np_pass_tensor(pass, i, TABLE), node->bias ? np_pass_tensor(pass, i, POSITIONS) : NULL,
        pass->call->samples, np_pass_positions(pass, node->out), np_pass_channels(pass, node->out));
    return true;
}

static bool embed_weight(struct np_pass *pass, int i, float *g, bool accumulate)
{
    const struct np_node *node = np_pass_node(pass, i);
    const struct np_tensor *tensors = pass->call->kind->tensors + node->tensor;
    for (int k = TABLE; !accumulate && k <= POSITIONS; k++)
        if (k == TABLE || node->bias)
            pass->kernels->fill(pass->team, g + tensors[k].offset, tensors[k].count, 0.0f);
    np_team_wait(pass->team);
    pass->kernels->embed_grad(pass->team, np_pass_gradient(pass, g, i, TABLE),
                              node->bias ? np_pass_gradient(pass, g, i, POSITIONS) : NULL,
                              tokens_of(pass, i), np_pass_dy(pass, i), pass->call->samples,
                              np_pass_positions(pass, node->out),
                              np_pass_channels(pass, node->out));
    return true;
}

const struct np_node_ops np_node_embed = {
    .forward = embed_forward, .weight = embed_weight, .reads_dy = true, .silent = true};

static bool xent_forward(struct np_pass *pass, int i)
{
    const struct np_op_call *call = pass->call;
    int value = np_pass_node(pass, i)->in[0];
    const float *logits = np_pass_value(pass, value);
    size_t rows = np_pass_rows(pass, value), classes = np_pass_channels(pass, value);
    pass->kernels->xent(pass->team, call->loss, logits, call->targets, rows, classes,
                        call->smoothing);
    if (call->hits)
        pass->kernels->hits(pass->team, call->hits, logits, call->targets, rows, classes);
    np_team_wait(pass->team);
    return pass->kernels->finite(pass->team, call->loss, rows);
}

static bool xent_backward(struct np_pass *pass, int i)
{
    const struct np_op_call *call = pass->call;
    int value = np_pass_node(pass, i)->in[0];
    struct np_sink sink;
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    pass->kernels->xent_grad(pass->team, np_sink_start(&sink), np_pass_value(pass, value),
                             call->targets, np_pass_rows(pass, value),
                             np_pass_channels(pass, value), call->smoothing, call->scale);
    return np_sink_finish(pass, &sink);
}

const struct np_node_ops np_node_xent = {.forward = xent_forward,
                                         .backward = xent_backward,
                                         .gives = NP_IN0,
                                         .reads = NP_IN0,
                                         .over_input = true};
