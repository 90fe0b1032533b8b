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
    if (call->soft && call->member == 0)
        pass->kernels->softmax(pass->team, call->soft, logits, rows, classes);
    if (call->hits)
        pass->kernels->hits(pass->team, call->hits, logits, call->targets, rows, classes);
    np_team_wait(pass->team);
    return pass->kernels->finite(pass->team, call->loss, rows);
}

/* in B, if it may distill: the softmax of the logits */
static void xent_parts(struct np_node_parts *parts, const struct np_program *program,
                       const struct np_node *node, size_t samples)
{
    if (node->distills)
        parts->backward = samples * np_shape_floats(program->values[node->in[0]]);
}

static bool xent_backward(struct np_pass *pass, int i)
{
    const struct np_op_call *call = pass->call;
    int value = np_pass_node(pass, i)->in[0];
    const float *logits = np_pass_value(pass, value);
    size_t rows = np_pass_rows(pass, value), classes = np_pass_channels(pass, value);
    bool learns = call->soft && call->member > 0;
    float *own = np_pass_scratch(pass, i), hard = 1.0f - call->distill;
    struct np_sink sink;
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    if (learns) { /* before what may be written over the logits */
        pass->kernels->softmax(pass->team, own, logits, rows, classes);
        np_team_wait(pass->team);
    }
    pass->kernels->xent_grad(pass->team, np_sink_start(&sink), logits, call->targets, rows, classes,
                             call->smoothing, learns ? hard * call->scale : call->scale);
    if (learns) {
        np_team_wait(pass->team);
        pass->kernels->distill(pass->team, np_sink_start(&sink), own, call->soft, call->targets,
                               rows, classes, call->distill * call->scale);
    }
    return np_sink_finish(pass, &sink);
}

const struct np_node_ops np_node_xent = {.forward = xent_forward,
                                         .backward = xent_backward,
                                         .parts = xent_parts,
                                         .gives = NP_IN0,
                                         .reads = NP_IN0,
                                         .over_input = true};
