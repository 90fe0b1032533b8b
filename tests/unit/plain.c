#include "plain_nodes.h"

#include <stdlib.h>
#include <string.h>

float *plain_array(size_t count)
{
    float *x = calloc(count + 1, sizeof *x);
    if (!x)
        abort();
    return x;
}

size_t plain_floats(const struct plain *p, int value)
{
    return p->call->samples * np_shape_floats(p->program->values[value]);
}

static struct node node_of(const struct plain *p, int i)
{
    const struct np_node *is = &p->program->nodes[i];
    const struct np_tensor *tensors = p->call->kind->tensors + (is->tensor < 0 ? 0 : is->tensor);
    struct node n = {.is = is, .number = i, .samples = p->call->samples};
    for (int k = 0; k < 2 && is->in[k] >= 0; k++)
        n.x[k] = p->value[is->in[k]];
    for (int k = 0; k < 2 && is->tensor >= 0 && is->tensor + k < p->call->kind->tensor_count; k++) {
        n.w[k] = p->call->w + tensors[k].offset;
        n.g[k] = p->g + tensors[k].offset;
    }
    n.in = n.out = p->program->values[is->in[0] >= 0 ? is->in[0] : is->out];
    if (is->out >= 0) {
        n.out = p->program->values[is->out];
        n.y = p->value[is->out];
        n.dy = p->gradient[is->out];
    }
    n.positions = np_shape_rows(n.out);
    n.rows = n.samples * n.positions;
    n.cols = (size_t)n.out.channels;
    n.count = n.rows * n.cols;
    return n;
}

void plain_give_columns(struct plain *p, int v, const float *gift, size_t first, size_t cols)
{
    size_t rows = p->call->samples * np_shape_rows(p->program->values[v]);
    size_t ld = (size_t)p->program->values[v].channels;
    for (size_t c = 0; c < cols; c++) {
        for (size_t r = 0; r < rows; r++) {
            float *to = &p->gradient[v][r * ld + first + c];
            *to = p->given[v][first + c] ? *to + gift[r * cols + c] : gift[r * cols + c];
        }
        p->given[v][first + c] = true;
    }
}

void plain_give(struct plain *p, int v, const float *gift)
{
    plain_give_columns(p, v, gift, 0, (size_t)p->program->values[v].channels);
}

void plain_take(struct plain *p, int v, float *gift)
{
    plain_give(p, v, gift);
    free(gift);
}

static plain_step *const steps[NP_NODE_OP_COUNT] = {
    [NP_NODE_CONV] = plain_conv,
    [NP_NODE_DWCONV] = plain_conv,
    [NP_NODE_LAYER_NORM] = plain_row_norm,
    [NP_NODE_RMS_NORM] = plain_row_norm,
    [NP_NODE_BATCH_NORM] = plain_col_norm,
    [NP_NODE_GROUP_NORM] = plain_col_norm,
    [NP_NODE_ACT] = plain_elementwise,
    [NP_NODE_GLU] = plain_glu,
    [NP_NODE_ROTATE] = plain_rotate,
    [NP_NODE_REPEAT] = plain_repeat,
    [NP_NODE_ATTENTION] = plain_attention,
    [NP_NODE_LIGHTCONV] = plain_light,
    [NP_NODE_MAX_POOL] = plain_pool,
    [NP_NODE_AVG_POOL] = plain_pool,
    [NP_NODE_GLOBAL_POOL] = plain_global_pool,
    [NP_NODE_CHANNEL_SCALE] = plain_scale,
    [NP_NODE_SLICE] = plain_slice,
    [NP_NODE_CUT] = plain_cut,
    [NP_NODE_WIDEN] = plain_widen,
    [NP_NODE_MERGE] = plain_merge,
    [NP_NODE_ADD] = plain_elementwise,
    [NP_NODE_DROPOUT] = plain_dropping,
    [NP_NODE_DROP_PATH] = plain_dropping,
    [NP_NODE_ZERO] = plain_zero,
    [NP_NODE_POSITIONS] = plain_positions,
    [NP_NODE_IMAGE] = plain_image,
    [NP_NODE_EMBED] = plain_embed,
    [NP_NODE_XENT] = plain_xent,
};

static void begin(struct plain *p, const struct np_op_forward *in, const struct np_op_backward *io)
{
    const float *inputs[] = {in->x, in->memory, in->sum}, *bases[] = {io->base, io->memory_base};
    for (int v = 0; v < p->program->value_count; v++) {
        size_t channels = (size_t)p->program->values[v].channels;
        p->value[v] = plain_array(plain_floats(p, v));
        p->gradient[v] = plain_array(plain_floats(p, v));
        p->given[v] = calloc(channels + 1, sizeof **p->given);
        if (!p->given[v])
            abort();
        if (v < NP_VALUE_OWN && inputs[v])
            memcpy(p->value[v], inputs[v], plain_floats(p, v) * sizeof **inputs);
        if (v < NP_VALUE_SUM && bases[v])
            plain_give(p, v, bases[v]);
    }
}

static void clear(struct plain *p)
{
    for (int v = 0; v < p->program->value_count; v++) {
        free(p->value[v]);
        free(p->gradient[v]);
        free(p->given[v]);
    }
    for (int i = 0; i < p->program->node_count; i++) {
        free(p->kept[i][0]);
        free(p->kept[i][1]);
    }
}

void plain_run(const struct np_op_call *call, const struct np_op_forward *in,
               const struct np_op_backward *io, float *g, bool accumulate)
{
    struct plain p = {.call = call,
                      .kernels = np_kernels_get(NP_ISA_SCALAR),
                      .team = call->team,
                      .program = &call->kind->program,
                      .g = g,
                      .accumulate = accumulate};
    float *outputs[] = {io->dx, io->dmemory};
    int output = p.program->output;
    begin(&p, in, io);
    for (int i = 0; i < p.program->node_count; i++) {
        struct node n = node_of(&p, i);
        steps[n.is->op](&p, &n, true);
    }
    if (output >= 0) {
        memcpy(in->y, p.value[output], plain_floats(&p, output) * sizeof *in->y);
        plain_give(&p, output, io->dy);
    }
    for (int i = p.program->node_count - 1; i >= 0; i--) {
        struct node n = node_of(&p, i);
        steps[n.is->op](&p, &n, false);
    }
    for (int v = 0; v < 2; v++)
        if (outputs[v])
            memcpy(outputs[v], p.gradient[v], plain_floats(&p, v) * sizeof *outputs[v]);
    clear(&p);
}
