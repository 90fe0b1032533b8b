/* Costs of a program, node by node. Products are exact, the rest is about right: operations on one
 * element, elementary functions being polynomials of so many. */
#include "num/arguments.h"
#include "space/op_fields.h"
#include "space/supernet.h"

enum { NORM_F = 8, NORM_B = 14, NORM_W = 4, EXP = 20, DRAW = 20 };

static double act_cost(enum np_act act)
{
    static const double costs[NP_ACT_COUNT] = {
        [NP_ACT_NONE] = 0,    [NP_ACT_RELU] = 1,   [NP_ACT_RELU6] = 2,     [NP_ACT_GELU] = EXP,
        [NP_ACT_SWISH] = EXP, [NP_ACT_HSWISH] = 5, [NP_ACT_SIGMOID] = EXP, [NP_ACT_HSIGMOID] = 4};
    return costs[act];
}

/* What a node computes with: `in` and `out` in elements. */
struct work {
    const struct np_node *node;
    struct np_shape from, to;
    double in, out, taps;
};

static struct np_flops each(double cost)
{
    return (struct np_flops){cost, cost, 0.0};
}

static struct np_flops convolution(const struct work *work, double depth)
{
    double product = 2.0 * work->out * work->taps * depth;
    double bias = work->node->bias ? work->out : 0.0, act = act_cost(work->node->act) * work->out;
    return (struct np_flops){product + bias + act, product + act, product + bias};
}

static struct np_flops norm(const struct work *work)
{
    double act = act_cost(work->node->act);
    return (struct np_flops){(NORM_F + act) * work->out, (NORM_B + act) * work->out,
                             NORM_W * work->out};
}

/* Of a query and a key; causal: half of the T x T. */
static double pairs_of(const struct work *work, double keys)
{
    double queries = (double)np_shape_rows(work->to);
    return work->node->causal ? queries * (queries + 1.0) / 2.0 : queries * keys;
}

/* Forward: scores and values; backward: scores again, and the gradients of probabilities, values,
 * queries and keys. A table of relative positions is added to scores, both times, and takes the
 * sums of their gradients; weight: of samples' tables. */
static struct np_flops attention(const struct work *work, double keys)
{
    double width = work->to.channels, heads = work->node->heads, pairs = pairs_of(work, keys);
    struct np_flops flops = {pairs * (4.0 * width + EXP * heads),
                             pairs * (10.0 * width + (EXP + 6.0) * heads), 0.0};
    if (work->node->relative) {
        flops.forward += pairs * heads;
        flops.backward += 2.0 * pairs * heads;
        flops.weight = heads * (double)np_offset_count((size_t)work->to.height,
                                                       (size_t)work->to.width, work->node->causal);
    }
    return flops;
}

static struct np_flops node_flops(const struct work *work, const struct np_shape *values)
{
    const struct np_node *node = work->node;
    double in = work->in, out = work->out;
    switch (node->op) {
    case NP_NODE_CONV:
        return convolution(work, (double)(work->from.channels / node->groups));
    case NP_NODE_DWCONV:
    case NP_NODE_LIGHTCONV:
        return convolution(work, 1.0);
    case NP_NODE_LAYER_NORM:
    case NP_NODE_RMS_NORM:
    case NP_NODE_BATCH_NORM:
    case NP_NODE_GROUP_NORM:
        return norm(work);
    case NP_NODE_ROTATE:
        return each(2.0 * out * node->first / node->heads);
    case NP_NODE_REPEAT:
        return (struct np_flops){0.0, out, 0.0};
    case NP_NODE_ATTENTION:
        return attention(work, (double)np_shape_rows(values[node->in[1]]));
    case NP_NODE_ACT:
        return each(act_cost(node->act) * out);
    case NP_NODE_GLU:
        return (struct np_flops){EXP * out, EXP * out, in};
    case NP_NODE_MAX_POOL:
    case NP_NODE_AVG_POOL:
        return each(work->taps * out);
    case NP_NODE_GLOBAL_POOL:
        return each(in);
    case NP_NODE_CHANNEL_SCALE:
        return (struct np_flops){out, 3.0 * out, 0.0};
    case NP_NODE_ADD:
        return (struct np_flops){(1.0 + act_cost(node->act)) * out, act_cost(node->act) * out, 0.0};
    case NP_NODE_DROPOUT:
        return each(DRAW * out);
    case NP_NODE_DROP_PATH:
        return each(out);
    case NP_NODE_POSITIONS:
        return (struct np_flops){out, 0.0, out};
    case NP_NODE_EMBED:
        return (struct np_flops){out, 0.0, 2.0 * out};
    case NP_NODE_XENT:
        return each(EXP * in);
    case NP_NODE_SLICE: /* what moves values only */
    case NP_NODE_CUT:
    case NP_NODE_WIDEN:
    case NP_NODE_MERGE:
    case NP_NODE_ZERO:
    case NP_NODE_IMAGE:
    case NP_NODE_OP_COUNT:
        break;
    }
    return each(0.0);
}

static struct work work_of(const struct np_program *program, const struct np_node *node)
{
    struct work work = {.node = node,
                        .taps = (double)node->window.kernel_height * node->window.kernel_width};
    if (node->in[0] >= 0)
        work.from = program->values[node->in[0]];
    if (node->out >= 0)
        work.to = program->values[node->out];
    work.in = (double)np_shape_floats(work.from);
    work.out = (double)np_shape_floats(work.to);
    return work;
}

struct np_flops np_node_flops(const struct np_kind *kind, int number)
{
    const struct np_program *program = &kind->program;
    const struct np_node *node = &program->nodes[number];
    struct work work = work_of(program, node);
    struct np_flops flops = node_flops(&work, program->values);
    if (node->in[0] < 0 || !program->live[node->in[0]])
        flops.backward = 0;
    return flops;
}

struct np_flops np_kind_flops(const struct np_kind *kind)
{
    struct np_flops sum = {0.0, 0.0, 0.0};
    for (int i = 0; i < kind->program.node_count; i++) {
        struct np_flops flops = np_node_flops(kind, i);
        sum.forward += flops.forward;
        sum.backward += flops.backward;
        sum.weight += flops.weight;
    }
    return sum;
}

double np_kind_macs(const struct np_kind *kind)
{
    const struct np_program *program = &kind->program;
    double sum = 0;
    for (int i = 0; i < program->node_count; i++) {
        const struct np_node *node = &program->nodes[i];
        struct work work = work_of(program, node);
        if (node->op == NP_NODE_CONV)
            sum += work.out * work.taps * (work.from.channels / node->groups);
        else if (node->op == NP_NODE_DWCONV || node->op == NP_NODE_LIGHTCONV)
            sum += work.out * work.taps;
        else if (node->op == NP_NODE_ATTENTION)
            sum += pairs_of(&work, (double)np_shape_rows(program->values[node->in[1]])) * 2.0 *
                   work.to.channels;
    }
    return sum;
}
