#include "plain_nodes.h"

#include <stdlib.h>
#include <string.h>

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

static void conv_forward(struct plain *p, const struct node *n)
{
    struct np_conv conv = conv_of(n);
    float *u = p->kept[n->number][0] = plain_array(n->count);
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
    float *du = plain_array(n->count), *dx = plain_array(plain_floats(p, n->is->in[0]));
    memcpy(du, n->dy, n->count * sizeof *du);
    if (n->is->act != NP_ACT_NONE)
        p->kernels->act_grad(p->team, n->is->act, du, NULL, p->kept[n->number][0], n->dy, n->count);
    conv.dy = du;
    conv.out = dx;
    if (n->is->op == NP_NODE_CONV)
        p->kernels->conv_grad(p->team, &conv);
    else
        p->kernels->dwconv_grad(p->team, &conv);
    plain_take(p, n->is->in[0], dx);
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

void plain_conv(struct plain *p, const struct node *n, bool forward)
{
    if (forward)
        conv_forward(p, n);
    else
        conv_backward(p, n);
}

static void light_forward(struct plain *p, const struct node *n)
{
    size_t heads = (size_t)n->is->heads, taps = (size_t)n->is->window.kernel_width;
    struct np_conv conv = conv_of(n);
    float *soft = p->kept[n->number][0] = plain_array(heads * taps);
    float *kernel = p->kept[n->number][1] = plain_array(taps * n->cols);
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
    float *dx = plain_array(n->count), *dkernel = plain_array(taps * n->cols);
    float *sums = plain_array(taps * heads), *turned = plain_array(taps * heads),
          *dlogits = plain_array(taps * heads);
    conv.w = p->kept[n->number][1];
    conv.dy = n->dy;
    conv.out = dx;
    p->kernels->dwconv_grad(p->team, &conv);
    plain_take(p, n->is->in[0], dx);
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

void plain_light(struct plain *p, const struct node *n, bool forward)
{
    if (forward)
        light_forward(p, n);
    else
        light_backward(p, n);
}

void plain_pool(struct plain *p, const struct node *n, bool forward)
{
    struct np_conv at = conv_of(n);
    bool max = n->is->op == NP_NODE_MAX_POOL;
    if (forward) {
        p->kept[n->number][0] = plain_array(n->count);
        at.out = n->y;
        if (max)
            p->kernels->max_pool(p->team, &at, (int32_t *)p->kept[n->number][0]);
        else
            p->kernels->avg_pool(p->team, &at);
        return;
    }
    at.dy = n->dy;
    at.out = plain_array(plain_floats(p, n->is->in[0]));
    if (max)
        p->kernels->max_pool_grad(p->team, &at, (int32_t *)p->kept[n->number][0], NULL);
    else
        p->kernels->avg_pool_grad(p->team, &at, NULL);
    plain_take(p, n->is->in[0], at.out);
}

void plain_global_pool(struct plain *p, const struct node *n, bool forward)
{
    size_t positions = np_shape_rows(n->in), count = n->samples * positions * n->cols;
    float *dx;
    if (forward) {
        p->kernels->col_sum(p->team, n->y, n->x[0], n->samples, positions, n->cols, 0, false);
        for (size_t i = 0; i < n->count; i++)
            n->y[i] = n->y[i] / (float)positions;
        return;
    }
    dx = plain_array(count);
    for (size_t i = 0; i < count; i++)
        dx[i] = n->dy[i / (positions * n->cols) * n->cols + i % n->cols] / (float)positions;
    plain_take(p, n->is->in[0], dx);
}
