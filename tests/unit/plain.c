#include "plain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct plain {
    const struct np_op_call *call;
    const struct np_kernels *kernels;
    struct np_team *team;
    const struct np_program *program;
    float *g;
    bool accumulate;
    float *value[NP_MAX_VALUES], *gradient[NP_MAX_VALUES];
    bool *given[NP_MAX_VALUES];   /* [channels]: the gradient has begun */
    float *kept[NP_MAX_NODES][2]; /* what a node's forward leaves for its backward */
};

/* A node with what it reads and writes. */
struct node {
    const struct np_node *is;
    int number;
    struct np_shape in, out;
    const float *x[2], *w[2];
    float *y, *g[2];
    const float *dy;
    size_t rows, cols, positions, samples, count; /* of the output */
};

static float *array(size_t count)
{
    float *x = calloc(count + 1, sizeof *x);
    if (!x)
        abort();
    return x;
}

static size_t floats(const struct plain *p, int value)
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

static struct np_conv conv_of(const struct node *n)
{
    bool depthwise = n->is->op == NP_NODE_DWCONV || n->is->op == NP_NODE_LIGHTCONV;
    size_t groups = n->is->groups > 0 ? (size_t)n->is->groups : 1;
    return (struct np_conv){.window = n->is->window,
                            .samples = n->samples,
                            .in_height = (size_t)n->in.height,
                            .in_width = (size_t)n->in.width,
                            .in_channels = (size_t)n->in.channels,
                            .out_height = (size_t)n->out.height,
                            .out_width = (size_t)n->out.width,
                            .out_channels = (size_t)n->out.channels,
                            .groups = depthwise ? (size_t)n->in.channels : groups,
                            .x = n->x[0],
                            .w = n->w[0],
                            .ldx = (size_t)n->in.channels,
                            .ldy = (size_t)n->out.channels};
}

/* Adds a gift to columns first .. first+cols-1 of a value's gradient, or begins them with it. */
static void give_columns(struct plain *p, int v, const float *gift, size_t first, size_t cols)
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

static void give(struct plain *p, int v, const float *gift)
{
    give_columns(p, v, gift, 0, (size_t)p->program->values[v].channels);
}

/* The same, of a gift that is not needed any more. */
static void take(struct plain *p, int v, float *gift)
{
    give(p, v, gift);
    free(gift);
}

static void conv_forward(struct plain *p, const struct node *n)
{
    struct np_conv conv = conv_of(n);
    float *u = p->kept[n->number][0] = array(n->count);
    conv.out = u;
    if (n->is->op == NP_NODE_CONV)
        p->kernels->conv(p->team, &conv);
    else
        p->kernels->dwconv(p->team, &conv);
    if (n->is->bias)
        p->kernels->bias_add(p->team, u, u, n->w[1], n->rows, n->cols);
    p->kernels->act(p->team, n->is->act, n->y, u, n->count);
}

static void conv_backward(struct plain *p, const struct node *n)
{
    struct np_conv conv = conv_of(n);
    float *du = array(n->count), *dx = array(floats(p, n->is->in[0]));
    memcpy(du, n->dy, n->count * sizeof *du);
    if (n->is->act != NP_ACT_NONE)
        p->kernels->act_grad(p->team, n->is->act, du, NULL, p->kept[n->number][0], n->dy, n->count);
    conv.dy = du;
    conv.out = dx;
    if (n->is->op == NP_NODE_CONV)
        p->kernels->conv_grad(p->team, &conv);
    else
        p->kernels->dwconv_grad(p->team, &conv);
    take(p, n->is->in[0], dx);
    conv.out = n->g[0];
    conv.grain = p->call->grain;
    conv.accumulate = p->accumulate;
    if (n->is->op == NP_NODE_CONV)
        p->kernels->conv_grad_weight(p->team, &conv);
    else
        p->kernels->dwconv_grad_weight(p->team, &conv);
    if (n->is->bias)
        p->kernels->col_sum(p->team, n->g[1], du, 1, n->rows, n->cols,
                            p->call->grain * n->positions, p->accumulate);
    free(du);
}

static void light_forward(struct plain *p, const struct node *n)
{
    size_t heads = (size_t)n->is->heads, taps = (size_t)n->is->window.kernel_width;
    struct np_conv conv = conv_of(n);
    float *soft = p->kept[n->number][0] = array(heads * taps);
    float *kernel = p->kept[n->number][1] = array(taps * n->cols);
    p->kernels->softmax(p->team, soft, n->w[0], heads, taps);
    for (size_t i = 0; i < taps * n->cols; i++)
        kernel[i] = soft[i % n->cols / (n->cols / heads) * taps + i / n->cols];
    conv.w = kernel;
    conv.out = n->y;
    p->kernels->dwconv(p->team, &conv);
}

static void light_backward(struct plain *p, const struct node *n)
{
    size_t heads = (size_t)n->is->heads, taps = (size_t)n->is->window.kernel_width;
    size_t each = p->call->grain * n->positions * n->cols;
    struct np_conv conv = conv_of(n);
    float *dx = array(n->count), *dkernel = array(taps * n->cols);
    float *sums = array(taps * heads), *turned = array(taps * heads),
          *dlogits = array(taps * heads);
    conv.w = p->kept[n->number][1];
    conv.dy = n->dy;
    conv.out = dx;
    p->kernels->dwconv_grad(p->team, &conv);
    take(p, n->is->in[0], dx);
    for (size_t first = 0; first < n->samples; first += p->call->grain) {
        conv.samples = p->call->grain;
        conv.out = dkernel;
        p->kernels->dwconv_grad_weight(p->team, &conv);
        p->kernels->rowsum(p->team, sums, dkernel, taps * heads, n->cols / heads);
        for (size_t i = 0; i < taps * heads; i++)
            turned[i % heads * taps + i / heads] = sums[i];
        p->kernels->softmax_grad(p->team, dlogits, p->kept[n->number][0], turned, heads, taps);
        for (size_t i = 0; i < taps * heads; i++)
            n->g[0][i] = first || p->accumulate ? n->g[0][i] + dlogits[i] : dlogits[i];
        conv.x += each;
        conv.dy += each;
    }
    free(dkernel);
    free(sums);
    free(turned);
    free(dlogits);
}

static void layer_norm(struct plain *p, const struct node *n, bool forward)
{
    float **kept = p->kept[n->number], *dx;
    if (forward) {
        kept[0] = array(n->rows);
        kept[1] = array(n->rows);
        p->kernels->layernorm(p->team, n->y, kept[0], kept[1], n->x[0], n->w[0], n->w[1], n->rows,
                              n->cols, NP_NORM_EPS);
        return;
    }
    dx = array(n->count);
    p->kernels->layernorm_grad(p->team, dx, NULL, n->x[0], n->dy, kept[0], kept[1], n->w[0],
                               n->rows, n->cols);
    take(p, n->is->in[0], dx);
    p->kernels->layernorm_grad_weight(p->team, n->g[0], n->g[1], n->x[0], n->dy, kept[0], kept[1],
                                      n->rows, n->cols, p->call->grain * n->positions,
                                      p->accumulate);
}

/* Batch norm: one segment, groups of one channel. Group norm: a segment a sample. */
static struct np_colnorm norm_of(const struct plain *p, const struct node *n)
{
    bool batch = n->is->op == NP_NODE_BATCH_NORM;
    return (struct np_colnorm){.segments = batch ? 1 : n->samples,
                               .rows = batch ? n->rows : n->positions,
                               .cols = n->cols,
                               .x = n->x[0],
                               .mean = p->kept[n->number][0],
                               .rstd = p->kept[n->number][1],
                               .gamma = n->w[0],
                               .beta = n->w[1],
                               .act = n->is->act};
}

/* sums of columns, in place, over their groups and divided by how many elements those have */
static void mean_of_groups(struct plain *p, const struct node *n, float *sums)
{
    struct np_colnorm norm = norm_of(p, n);
    size_t groups = n->is->op == NP_NODE_BATCH_NORM ? n->cols : (size_t)n->is->groups;
    size_t width = n->cols / groups, count = norm.segments * groups;
    float *total = array(count);
    p->kernels->rowsum(p->team, total, sums, count, width);
    for (size_t i = 0; i < count * width; i++)
        sums[i] = (width > 1 || n->is->op == NP_NODE_GROUP_NORM ? total[i / width] : sums[i]) /
                  (float)(norm.rows * width);
    free(total);
}

static void col_norm_forward(struct plain *p, const struct node *n)
{
    struct np_colnorm norm = norm_of(p, n);
    size_t count = norm.segments * norm.cols;
    float *mean = p->kept[n->number][0] = array(count);
    float *rstd = p->kept[n->number][1] = array(count);
    p->kernels->col_sum(p->team, mean, norm.x, norm.segments, norm.rows, norm.cols, 0, false);
    mean_of_groups(p, n, mean);
    p->kernels->col_square(p->team, rstd, norm.x, mean, norm.segments, norm.rows, norm.cols,
                           NP_SUM_NEW);
    mean_of_groups(p, n, rstd);
    for (size_t i = 0; i < count; i++)
        rstd[i] = 1.0f / sqrtf(rstd[i] + NP_NORM_EPS);
    norm = norm_of(p, n);
    p->kernels->colnorm(p->team, n->y, &norm);
}

static void col_norm_backward(struct plain *p, const struct node *n)
{
    struct np_colnorm norm = norm_of(p, n);
    size_t count = norm.segments * norm.cols;
    float *sum = array(count), *dot = array(count), *a = array(count), *b = array(count);
    float *dx = array(n->count);
    p->kernels->colnorm_grad_sums(p->team, sum, dot, &norm, n->dy, NP_SUM_NEW);
    for (size_t i = 0; i < count; i++) {
        float *dgamma = &n->g[0][i % n->cols], *dbeta = &n->g[1][i % n->cols];
        bool add = p->accumulate || i >= n->cols;
        a[i] = norm.gamma[i % n->cols] * sum[i];
        b[i] = norm.gamma[i % n->cols] * dot[i];
        *dgamma = add ? *dgamma + (dot[i] + 0.0f) : dot[i] + 0.0f;
        *dbeta = add ? *dbeta + (sum[i] + 0.0f) : sum[i] + 0.0f;
    }
    mean_of_groups(p, n, a);
    mean_of_groups(p, n, b);
    p->kernels->colnorm_grad(p->team, dx, NULL, &norm, n->dy, a, b);
    take(p, n->is->in[0], dx);
    free(sum);
    free(dot);
    free(a);
    free(b);
}

static struct np_attention attention_of(const struct plain *p, const struct node *n)
{
    bool self = n->is->in[0] == n->is->in[1];
    const float *k = self ? n->x[0] + n->cols : n->x[1];
    struct np_shape keys = p->program->values[n->is->in[1]];
    return (struct np_attention){.samples = n->samples,
                                 .queries = n->positions,
                                 .keys = np_shape_rows(keys),
                                 .width = n->cols,
                                 .heads = (size_t)n->is->heads,
                                 .causal = n->is->causal,
                                 .q = n->x[0],
                                 .k = k,
                                 .v = k + n->cols,
                                 .ldq = (size_t)n->in.channels,
                                 .ldk = (size_t)keys.channels};
}

static void attention(struct plain *p, const struct node *n, bool forward)
{
    struct np_attention at = attention_of(p, n);
    bool self = n->is->in[0] == n->is->in[1];
    float *dq, *dk;
    if (forward) {
        p->kept[n->number][0] = array(n->rows * at.heads * 2);
        p->kernels->attention(p->team, n->y, p->kept[n->number][0], &at);
        return;
    }
    dq = array(floats(p, n->is->in[0]));
    dk = self ? dq + n->cols : array(floats(p, n->is->in[1]));
    p->kernels->attention_grad(p->team, dq, dk, dk + n->cols, n->dy, p->kept[n->number][0], &at);
    take(p, n->is->in[0], dq);
    if (!self)
        take(p, n->is->in[1], dk);
}

static void pool(struct plain *p, const struct node *n, bool forward)
{
    struct np_conv at = conv_of(n);
    bool max = n->is->op == NP_NODE_MAX_POOL;
    if (forward) {
        p->kept[n->number][0] = array(n->count);
        at.out = n->y;
        if (max)
            p->kernels->max_pool(p->team, &at, (int32_t *)p->kept[n->number][0]);
        else
            p->kernels->avg_pool(p->team, &at);
        return;
    }
    at.dy = n->dy;
    at.out = array(floats(p, n->is->in[0]));
    if (max)
        p->kernels->max_pool_grad(p->team, &at, (int32_t *)p->kept[n->number][0], NULL);
    else
        p->kernels->avg_pool_grad(p->team, &at, NULL);
    take(p, n->is->in[0], at.out);
}

static void global_pool(struct plain *p, const struct node *n, bool forward)
{
    size_t positions = np_shape_rows(n->in), count = n->samples * positions * n->cols;
    float *dx;
    if (forward) {
        p->kernels->col_sum(p->team, n->y, n->x[0], n->samples, positions, n->cols, 0, false);
        for (size_t i = 0; i < n->count; i++)
            n->y[i] = n->y[i] / (float)positions;
        return;
    }
    dx = array(count);
    for (size_t i = 0; i < count; i++)
        dx[i] = n->dy[i / (positions * n->cols) * n->cols + i % n->cols] / (float)positions;
    take(p, n->is->in[0], dx);
}

static void scale(struct plain *p, const struct node *n, bool forward)
{
    float *dx, *ds;
    if (forward) {
        p->kernels->col_scale(p->team, n->y, NULL, n->x[0], n->x[1], n->samples, n->positions,
                              n->cols);
        return;
    }
    dx = array(n->count);
    ds = array(n->samples * n->cols);
    p->kernels->col_scale(p->team, dx, NULL, n->dy, n->x[1], n->samples, n->positions, n->cols);
    p->kernels->col_dot(p->team, ds, n->dy, n->x[0], n->samples, n->positions, n->cols, 0);
    take(p, n->is->in[0], dx);
    take(p, n->is->in[1], ds);
}

static void glu(struct plain *p, const struct node *n, bool forward)
{
    size_t wide = 2 * n->cols;
    float **u = &p->kept[n->number][0], *du;
    if (forward) {
        *u = array(n->rows * wide);
        memcpy(*u, n->x[0], n->rows * wide * sizeof **u);
        p->kernels->bias_glu(p->team, n->y, *u, n->w[0], n->rows, n->cols);
        return;
    }
    du = array(n->rows * wide);
    p->kernels->glu_grad(p->team, du, *u, n->dy, n->rows, n->cols);
    p->kernels->col_sum(p->team, n->g[0], du, 1, n->rows, wide, p->call->grain * n->positions,
                        p->accumulate);
    take(p, n->is->in[0], du);
}

/* Activations by themselves, and sums with one. */
static void elementwise(struct plain *p, const struct node *n, bool forward)
{
    float *u = p->kept[n->number][0], *du;
    if (forward) {
        u = p->kept[n->number][0] = array(n->count);
        for (size_t i = 0; i < n->count; i++)
            u[i] = n->x[1] ? n->x[0][i] + n->x[1][i] : n->x[0][i];
        p->kernels->act(p->team, n->is->act, n->y, u, n->count);
        return;
    }
    du = array(n->count);
    memcpy(du, n->dy, n->count * sizeof *du);
    if (n->is->act != NP_ACT_NONE)
        p->kernels->act_grad(p->team, n->is->act, du, NULL, u, n->dy, n->count);
    for (int k = 0; k < 2; k++)
        if (n->x[k] && n->is->in[k] != NP_VALUE_SUM)
            give(p, n->is->in[k], du);
    free(du);
}

static void merge(struct plain *p, const struct node *n, bool forward)
{
    size_t na = (size_t)n->in.channels, nb = n->cols - na;
    float *a, *b;
    if (forward) {
        p->kernels->merge(p->team, n->y, n->x[0], n->x[1], n->rows, na, nb, na, nb,
                          n->is->interleave);
        return;
    }
    a = array(n->rows * na);
    b = array(n->rows * nb);
    p->kernels->split(p->team, a, b, NULL, NULL, n->dy, n->rows, na, nb, na, nb, n->is->interleave);
    take(p, n->is->in[0], a);
    take(p, n->is->in[1], b);
}

static void slice(struct plain *p, const struct node *n, bool forward)
{
    size_t ld = (size_t)n->in.channels, first = (size_t)n->is->first;
    for (size_t i = 0; forward && i < n->count; i++)
        n->y[i] = n->x[0][i / n->cols * ld + first + i % n->cols];
    if (!forward)
        give_columns(p, n->is->in[0], n->dy, first, n->cols);
}

/* Either way. */
static void drop(struct plain *p, const struct node *n, float *to, const float *from)
{
    const struct np_op_call *call = p->call;
    bool path = n->is->op == NP_NODE_DROP_PATH;
    size_t each = n->positions * n->cols;
    uint32_t number = 0;
    float keep = (float)(1.0 / (1.0 - (double)n->is->drop));
    uint32_t threshold = (uint32_t)((double)n->is->drop * 0x1p32);
    for (int j = 0; j < n->number; j++)
        number += p->program->nodes[j].op == n->is->op;
    struct np_draw_key key = np_draw_key(call->seed, path ? NP_DRAW_PATH : NP_DRAW_DROPOUT,
                                         call->member, call->layer, number);
    if (path)
        p->kernels->drop_path(p->team, to, from, n->samples, each, key, call->step, call->first,
                              threshold, keep);
    else
        p->kernels->dropout(p->team, to, from, n->count, key, call->step, call->first * each,
                            threshold, keep);
}

static void dropping(struct plain *p, const struct node *n, bool forward)
{
    float *dx;
    if (forward) {
        drop(p, n, n->y, n->x[0]);
        return;
    }
    dx = array(n->count);
    drop(p, n, dx, n->dy);
    take(p, n->is->in[0], dx);
}

static void positions(struct plain *p, const struct node *n, bool forward)
{
    size_t each = n->positions * n->cols;
    if (forward) {
        p->kernels->bias_add(p->team, n->y, n->x[0], n->w[0], n->samples, each);
        return;
    }
    give(p, n->is->in[0], n->dy);
    p->kernels->col_sum(p->team, n->g[0], n->dy, 1, n->samples, each, p->call->grain,
                        p->accumulate);
}

static void embed(struct plain *p, const struct node *n, bool forward)
{
    const int32_t *tokens = n->is->source ? p->call->source : p->call->tokens;
    const struct np_tensor *tensors = p->call->kind->tensors + n->is->tensor;
    if (forward) {
        p->kernels->embed(p->team, n->y, tokens, n->w[0], n->is->bias ? n->w[1] : NULL, n->samples,
                          n->positions, n->cols);
        return;
    }
    for (int k = 0; !p->accumulate && k <= (int)n->is->bias; k++)
        memset(n->g[k], 0, tensors[k].count * sizeof(float));
    p->kernels->embed_grad(p->team, n->g[0], n->is->bias ? n->g[1] : NULL, tokens, n->dy,
                           n->samples, n->positions, n->cols);
}

static void xent(struct plain *p, const struct node *n, bool forward)
{
    const struct np_op_call *call = p->call;
    float *dx;
    if (forward) {
        p->kernels->xent(p->team, call->loss, n->x[0], call->targets, n->rows, n->cols,
                         call->smoothing);
        return;
    }
    dx = array(n->count);
    p->kernels->xent_grad(p->team, dx, n->x[0], call->targets, n->rows, n->cols, call->smoothing,
                          call->scale);
    take(p, n->is->in[0], dx);
}

static void image(struct plain *p, const struct node *n, bool forward)
{
    if (forward)
        memcpy(n->y, p->call->images, n->count * sizeof *n->y);
}

static void zero(struct plain *p, const struct node *n, bool forward)
{
    (void)p;
    (void)n;
    (void)forward; /* values begin as zeros */
}

static void conv(struct plain *p, const struct node *n, bool forward)
{
    if (forward)
        conv_forward(p, n);
    else
        conv_backward(p, n);
}

static void light(struct plain *p, const struct node *n, bool forward)
{
    if (forward)
        light_forward(p, n);
    else
        light_backward(p, n);
}

static void col_norm(struct plain *p, const struct node *n, bool forward)
{
    if (forward)
        col_norm_forward(p, n);
    else
        col_norm_backward(p, n);
}

static void (*const steps[NP_NODE_OP_COUNT])(struct plain *, const struct node *, bool forward) = {
    [NP_NODE_CONV] = conv,
    [NP_NODE_DWCONV] = conv,
    [NP_NODE_LAYER_NORM] = layer_norm,
    [NP_NODE_BATCH_NORM] = col_norm,
    [NP_NODE_GROUP_NORM] = col_norm,
    [NP_NODE_ACT] = elementwise,
    [NP_NODE_GLU] = glu,
    [NP_NODE_ATTENTION] = attention,
    [NP_NODE_LIGHTCONV] = light,
    [NP_NODE_MAX_POOL] = pool,
    [NP_NODE_AVG_POOL] = pool,
    [NP_NODE_GLOBAL_POOL] = global_pool,
    [NP_NODE_CHANNEL_SCALE] = scale,
    [NP_NODE_SLICE] = slice,
    [NP_NODE_MERGE] = merge,
    [NP_NODE_ADD] = elementwise,
    [NP_NODE_DROPOUT] = dropping,
    [NP_NODE_DROP_PATH] = dropping,
    [NP_NODE_ZERO] = zero,
    [NP_NODE_POSITIONS] = positions,
    [NP_NODE_IMAGE] = image,
    [NP_NODE_EMBED] = embed,
    [NP_NODE_XENT] = xent,
};

static void begin(struct plain *p, const struct np_op_forward *in, const struct np_op_backward *io)
{
    const float *inputs[] = {in->x, in->memory, in->sum}, *bases[] = {io->base, io->memory_base};
    for (int v = 0; v < p->program->value_count; v++) {
        size_t channels = (size_t)p->program->values[v].channels;
        p->value[v] = array(floats(p, v));
        p->gradient[v] = array(floats(p, v));
        p->given[v] = calloc(channels + 1, sizeof **p->given);
        if (!p->given[v])
            abort();
        if (v < NP_VALUE_OWN && inputs[v])
            memcpy(p->value[v], inputs[v], floats(p, v) * sizeof **inputs);
        if (v < NP_VALUE_SUM && bases[v])
            give(p, v, bases[v]);
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
        memcpy(in->y, p.value[output], floats(&p, output) * sizeof *in->y);
        give(&p, output, io->dy);
    }
    for (int i = p.program->node_count - 1; i >= 0; i--) {
        struct node n = node_of(&p, i);
        steps[n.is->op](&p, &n, false);
    }
    for (int v = 0; v < 2; v++)
        if (outputs[v])
            memcpy(outputs[v], p.gradient[v], floats(&p, v) * sizeof *outputs[v]);
    clear(&p);
}
