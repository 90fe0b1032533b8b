#include "reference.h"

#include <stdlib.h>
#include <string.h>

static const struct reference_op *const ops[NP_NODE_OP_COUNT] = {
    [NP_NODE_CONV] = &reference_conv,
    [NP_NODE_DWCONV] = &reference_dwconv,
    [NP_NODE_LAYER_NORM] = &reference_layer_norm,
    [NP_NODE_RMS_NORM] = &reference_rms_norm,
    [NP_NODE_BATCH_NORM] = &reference_batch_norm,
    [NP_NODE_GROUP_NORM] = &reference_group_norm,
    [NP_NODE_ACT] = &reference_act,
    [NP_NODE_GLU] = &reference_glu,
    [NP_NODE_ROTATE] = &reference_rotate,
    [NP_NODE_REPEAT] = &reference_repeat,
    [NP_NODE_ATTENTION] = &reference_attention,
    [NP_NODE_LIGHTCONV] = &reference_light,
    [NP_NODE_MAX_POOL] = &reference_max_pool,
    [NP_NODE_AVG_POOL] = &reference_avg_pool,
    [NP_NODE_GLOBAL_POOL] = &reference_global_pool,
    [NP_NODE_CHANNEL_SCALE] = &reference_scale,
    [NP_NODE_SLICE] = &reference_slice,
    [NP_NODE_CUT] = &reference_slice,
    [NP_NODE_WIDEN] = &reference_widen,
    [NP_NODE_MERGE] = &reference_merge,
    [NP_NODE_ADD] = &reference_add,
    [NP_NODE_DROPOUT] = &reference_dropout,
    [NP_NODE_DROP_PATH] = &reference_drop_path,
    [NP_NODE_ZERO] = &reference_zero,
    [NP_NODE_POSITIONS] = &reference_positions,
    [NP_NODE_IMAGE] = &reference_image,
    [NP_NODE_EMBED] = &reference_embed,
    [NP_NODE_XENT] = &reference_xent,
};

double *reference_zeros(size_t count)
{
    double *x = calloc(count + 1, sizeof *x);
    if (!x)
        abort();
    return x;
}

/* Every value and every gradient of a layer, none of them shared. */
struct values {
    double *value[NP_MAX_VALUES], *gradient[NP_MAX_VALUES];
    double *loss;
};

static size_t floats(const struct reference_call *call, int value)
{
    return call->samples * np_shape_floats(call->kind->program.values[value]);
}

static void values_init(struct values *v, const struct reference_call *call,
                        const struct reference_inputs *in)
{
    const double *inputs[] = {in->x, in->memory, in->sum};
    for (int i = 0; i < call->kind->program.value_count; i++) {
        v->value[i] = reference_zeros(floats(call, i));
        v->gradient[i] = reference_zeros(floats(call, i));
        if (i < NP_VALUE_OWN && inputs[i])
            memcpy(v->value[i], inputs[i], floats(call, i) * sizeof(double));
    }
    v->loss = reference_zeros(call->samples * call->kind->length);
}

static void values_clear(struct values *v, const struct reference_call *call)
{
    for (int i = 0; i < call->kind->program.value_count; i++) {
        free(v->value[i]);
        free(v->gradient[i]);
    }
    free(v->loss);
}

static struct reference_node node_of(const struct reference_call *call, const struct values *v,
                                     double *g, int i)
{
    const struct np_program *program = &call->kind->program;
    const struct np_node *node = &program->nodes[i];
    struct reference_node n = {.call = call, .node = node, .samples = call->samples, .y = v->loss};
    for (int j = 0; j < i; j++)
        n.number += program->nodes[j].op == node->op;
    for (int k = 0; k < 2 && node->in[k] >= 0; k++) {
        n.in[k] = program->values[node->in[k]];
        n.x[k] = v->value[node->in[k]];
        n.dx[k] = v->gradient[node->in[k]];
    }
    if (node->out >= 0) {
        n.out = program->values[node->out];
        n.y = v->value[node->out];
        n.dy = v->gradient[node->out];
    }
    for (int k = 0; k < 2 && node->tensor >= 0 && node->tensor + k < call->kind->tensor_count;
         k++) {
        n.w[k] = call->w + call->kind->tensors[node->tensor + k].offset;
        n.g[k] = g ? g + call->kind->tensors[node->tensor + k].offset : NULL;
    }
    return n;
}

static void compute(const struct reference_call *call, struct values *v)
{
    for (int i = 0; i < call->kind->program.node_count; i++) {
        struct reference_node n = node_of(call, v, NULL, i);
        ops[n.node->op]->forward(&n);
    }
}

void reference_forward(const struct reference_call *call, double *y,
                       const struct reference_inputs *in)
{
    int output = call->kind->program.output;
    struct values v;
    values_init(&v, call, in);
    compute(call, &v);
    if (output >= 0)
        memcpy(y, v.value[output], floats(call, output) * sizeof *y);
    else
        memcpy(y, v.loss, call->samples * call->kind->length * sizeof *y);
    values_clear(&v, call);
}

void reference_backward(const struct reference_call *call, double *dx, double *dmemory, double *g,
                        const struct reference_inputs *in, const double *dy)
{
    double *inputs[] = {dx, dmemory};
    int output = call->kind->program.output;
    struct values v;
    values_init(&v, call, in);
    compute(call, &v);
    if (output >= 0)
        memcpy(v.gradient[output], dy, floats(call, output) * sizeof *dy);
    for (int i = call->kind->program.node_count - 1; i >= 0; i--) {
        struct reference_node n = node_of(call, &v, g, i);
        ops[n.node->op]->backward(&n);
    }
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; inputs[k] && i < floats(call, k); i++)
            inputs[k][i] += v.gradient[k][i];
    values_clear(&v, call);
}
