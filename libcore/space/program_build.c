#include "space/program_build.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"

#define MOST_GROUPS 32 /* of a group norm */

static void fail(struct np_build *b, enum np_status status)
{
    if (b->status == NP_OK)
        b->status = status;
}

static void exceed(struct np_build *b, enum np_build_excess excess)
{
    if (b->status == NP_OK)
        b->excess = excess;
    fail(b, NP_EINPUT);
}

static bool grow(struct np_build *b, void *array, size_t *capacity, int used, size_t size)
{
    fail(b, np_grow(array, capacity, (size_t)used, size, b->err));
    return b->status == NP_OK;
}

int np_build_value(struct np_build *b, struct np_shape shape, bool live)
{
    struct np_program *p = &b->kind->program;
    if (!grow(b, &p->values, &b->value_capacity, p->value_count, sizeof *p->values) ||
        !grow(b, &p->live, &b->live_capacity, p->value_count, sizeof *p->live))
        return NP_VALUE_X;
    p->values[p->value_count] = shape;
    p->live[p->value_count] = live;
    if (np_shape_floats(shape) > NP_MAX_VALUE_FLOATS)
        exceed(b, NP_LARGE_VALUE);
    return p->value_count++;
}

struct np_node *np_build_node(struct np_build *b, enum np_node_op op, int in0, int in1,
                              struct np_shape out)
{
    struct np_program *p = &b->kind->program;
    bool live = (in0 >= 0 && p->live[in0]) || (in1 >= 0 && p->live[in1]);
    int value = out.channels ? np_build_value(b, out, live) : -1;
    struct np_node *node = &b->spare;
    if (b->status == NP_OK &&
        grow(b, &p->nodes, &b->node_capacity, p->node_count, sizeof *p->nodes))
        node = &p->nodes[p->node_count++];
    *node = (struct np_node){.op = op, .in = {in0, in1}, .out = value, .tensor = -1};
    return node;
}

static void set_init(struct np_tensor *tensor, enum np_fill fill)
{
    double fan_in = (double)(tensor->count / tensor->shape[tensor->rank - 1]);
    tensor->decay = tensor->rank > 1;
    tensor->init = fill == NP_FILL_ONE    ? NP_INIT_ONE
                   : fill == NP_FILL_ZERO ? NP_INIT_ZERO
                                          : NP_INIT_NORMAL;
    if (fill == NP_FILL_LINEAR)
        tensor->std = (float)(1.0 / sqrt(3.0 * fan_in));
    else if (fill == NP_FILL_HE)
        tensor->std = (float)sqrt(2.0 / fan_in);
    else if (fill == NP_FILL_TENTH)
        tensor->std = 0.1f;
}

/* The first tensor of a node makes what it writes live. */
void np_build_tensor(struct np_build *b, struct np_node *node, const char *name, const char *part,
                     const size_t dims[4], enum np_fill fill)
{
    struct np_kind *kind = b->kind;
    struct np_tensor *tensor;
    if (b->status != NP_OK ||
        !grow(b, &kind->tensors, &b->tensor_capacity, kind->tensor_count, sizeof *kind->tensors))
        return;
    tensor = &kind->tensors[kind->tensor_count];
    *tensor = (struct np_tensor){.offset = kind->floats, .count = 1, .abreast = 1};
    snprintf(tensor->name, sizeof tensor->name, "%s.%s", name, part);
    while (tensor->rank < 4 && dims[tensor->rank]) {
        size_t dim = dims[tensor->rank];
        tensor->shape[tensor->rank++] = dim;
        if (!np_mul_size(&tensor->count, tensor->count, dim))
            exceed(b, NP_MANY_WEIGHTS);
    }
    set_init(tensor, fill);
    if (!np_add_size(&kind->floats, kind->floats, tensor->count) ||
        kind->floats > NP_MAX_LAYER_FLOATS)
        exceed(b, NP_MANY_WEIGHTS);
    if (node->tensor < 0)
        node->tensor = kind->tensor_count;
    if (node->out >= 0)
        kind->program.live[node->out] = true;
    kind->tensor_count++;
}

void np_build_abreast(struct np_build *b, int first, int matrices)
{
    for (int t = first; b->status == NP_OK && t < b->kind->tensor_count; t++)
        b->kind->tensors[t].abreast = matrices;
}

struct np_window np_build_window(const int kernel[2], int stride, int dilation)
{
    return (struct np_window){.kernel_height = kernel[0],
                              .kernel_width = kernel[1],
                              .stride_height = stride,
                              .stride_width = stride,
                              .dilation = dilation,
                              .pad_top = dilation * (kernel[0] - 1) / 2,
                              .pad_left = dilation * (kernel[1] - 1) / 2};
}

struct np_window np_build_causal_window(int kernel)
{
    struct np_window window = np_build_window((int[]){1, kernel}, 1, 1);
    window.pad_left = kernel - 1;
    return window;
}

struct np_shape np_build_windowed(struct np_shape in, struct np_window window, int channels)
{
    return (struct np_shape){(in.height + window.stride_height - 1) / window.stride_height,
                             (in.width + window.stride_width - 1) / window.stride_width, channels};
}

int np_build_product(struct np_build *b, int x, const struct np_build_product *product)
{
    const struct np_window *w = &product->window;
    struct np_shape in = np_build_shape(b, x);
    size_t depth = (size_t)in.channels / (size_t)product->groups, to = (size_t)product->channels;
    size_t dims[4] = {(size_t)w->kernel_height, (size_t)w->kernel_width, depth, to};
    size_t linear[4] = {depth, to};
    struct np_node *node =
        np_build_node(b, NP_NODE_CONV, x, -1, np_build_windowed(in, *w, product->channels));
    node->window = *w;
    node->groups = product->groups;
    node->act = product->act;
    node->bias = product->bias;
    np_build_tensor(b, node, product->name, "weight", product->linear ? linear : dims,
                    product->fill);
    if (product->bias)
        np_build_tensor(b, node, product->name, "bias", (size_t[4]){to}, NP_FILL_ZERO);
    return node->out;
}

int np_build_conv(struct np_build *b, const char *name, int x, int channels,
                  struct np_window window)
{
    struct np_build_product product = {
        .name = name, .channels = channels, .groups = 1, .window = window, .fill = NP_FILL_HE};
    return np_build_product(b, x, &product);
}

int np_build_linear(struct np_build *b, const char *name, int x, int channels, bool bias,
                    enum np_act act)
{
    struct np_build_product product = {.name = name,
                                       .channels = channels,
                                       .groups = 1,
                                       .window = np_build_causal_window(1),
                                       .linear = true,
                                       .bias = bias,
                                       .act = act,
                                       .fill = NP_FILL_LINEAR};
    return np_build_product(b, x, &product);
}

int np_build_dwconv(struct np_build *b, const char *name, int x, struct np_window window, bool bias,
                    enum np_fill fill)
{
    struct np_shape in = np_build_shape(b, x);
    size_t channels = (size_t)in.channels;
    struct np_node *node =
        np_build_node(b, NP_NODE_DWCONV, x, -1, np_build_windowed(in, window, in.channels));
    node->window = window;
    node->groups = in.channels;
    node->bias = bias;
    np_build_tensor(
        b, node, name, "weight",
        (size_t[4]){(size_t)window.kernel_height, (size_t)window.kernel_width, channels}, fill);
    if (bias)
        np_build_tensor(b, node, name, "bias", (size_t[4]){channels}, NP_FILL_ZERO);
    return node->out;
}

/* The largest number of groups up to 32 that divides the channels. */
static int norm_groups(int channels)
{
    int groups = MOST_GROUPS;
    while (channels % groups != 0)
        groups--;
    return groups;
}

int np_build_norm(struct np_build *b, const char *name, int x, enum np_norm norm, enum np_act act)
{
    static const enum np_node_op ops[] = {[NP_NORM_OF_BATCH] = NP_NODE_BATCH_NORM,
                                          [NP_NORM_OF_GROUPS] = NP_NODE_GROUP_NORM,
                                          [NP_NORM_OF_LAYER] = NP_NODE_LAYER_NORM,
                                          [NP_NORM_OF_RMS] = NP_NODE_RMS_NORM};
    struct np_shape shape = np_build_shape(b, x);
    size_t dims[4] = {(size_t)shape.channels};
    bool of_rows = norm == NP_NORM_OF_LAYER || norm == NP_NORM_OF_RMS;
    struct np_node *node;
    if (norm == NP_NORM_NONE)
        return np_build_act(b, x, act);
    node = np_build_node(b, ops[norm], x, -1, shape);
    if (!of_rows)
        node->act = act;
    if (norm == NP_NORM_OF_GROUPS)
        node->groups = norm_groups(shape.channels);
    if (norm == NP_NORM_OF_BATCH) {
        node->first = (int)b->kind->norm_floats;
        b->kind->norm_floats += 2 * dims[0];
    }
    np_build_tensor(b, node, name, "gamma", dims, NP_FILL_ONE);
    if (norm != NP_NORM_OF_RMS)
        np_build_tensor(b, node, name, "beta", dims, NP_FILL_ZERO);
    return of_rows ? np_build_act(b, node->out, act) : node->out;
}

int np_build_act(struct np_build *b, int x, enum np_act act)
{
    struct np_node *node;
    if (act == NP_ACT_NONE)
        return x;
    node = np_build_node(b, NP_NODE_ACT, x, -1, np_build_shape(b, x));
    node->act = act;
    return node->out;
}

void np_build_xent(struct np_build *b, int x)
{
    struct np_shape none = {0, 0, 0};
    np_build_node(b, NP_NODE_XENT, x, -1, none)->distills = b->kind->distills;
}

int np_build_global_pool(struct np_build *b, int x)
{
    struct np_shape shape = {1, 1, np_build_shape(b, x).channels};
    return np_build_node(b, NP_NODE_GLOBAL_POOL, x, -1, shape)->out;
}

static int change_channels(struct np_build *b, enum np_node_op op, int x, int channels)
{
    struct np_shape shape = np_build_shape(b, x);
    shape.channels = channels;
    return np_build_node(b, op, x, -1, shape)->out;
}

int np_build_cut(struct np_build *b, int x, int channels)
{
    return change_channels(b, NP_NODE_CUT, x, channels);
}

int np_build_widen(struct np_build *b, int x, int channels)
{
    return change_channels(b, NP_NODE_WIDEN, x, channels);
}

static int drop(struct np_build *b, enum np_node_op op, int x, float share)
{
    struct np_node *node;
    if (share == 0.0f)
        return x;
    node = np_build_node(b, op, x, -1, np_build_shape(b, x));
    node->drop = share;
    return node->out;
}

int np_build_add(struct np_build *b, int x, int branch, enum np_act act)
{
    struct np_node *node = np_build_node(b, NP_NODE_ADD, x, branch, np_build_shape(b, x));
    node->act = act;
    return node->out;
}

int np_build_dropout(struct np_build *b, int x)
{
    return drop(b, NP_NODE_DROPOUT, x, b->kind->spec.dropout);
}

int np_build_residual(struct np_build *b, int x, int branch, enum np_act act)
{
    branch = np_build_dropout(b, branch);
    branch = drop(b, NP_NODE_DROP_PATH, branch, b->kind->spec.drop_path);
    return np_build_add(b, x, branch, act);
}
