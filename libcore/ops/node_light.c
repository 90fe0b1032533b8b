/* Lightweight convolution: depthwise, its kernel the softmax of the head's logits; head h serves
 * channels h*C/heads and on.
 *
 * The logits' gradient goes through sums over the channels of a head and through the softmax. These
 * are not chunked sums over rows, so they are made once a grain, and the grains are added in order:
 * a cut of the mini-batch at a grain's border changes nothing. */
#include "ops/node.h"

enum { LOGITS };

static size_t taps_of(const struct np_node *node)
{
    return (size_t)node->window.kernel_height * (size_t)node->window.kernel_width;
}

/* saved: the kernel as [heads][taps], and as [taps][C]; in F: as [taps][heads]; in W: gradients of
 * [taps][C], of [taps][heads], of its transpose, and of the logits */
static void light_parts(struct np_node_parts *parts, const struct np_program *program,
                        const struct np_node *node, size_t samples)
{
    size_t logits = np_lines((size_t)node->heads * taps_of(node));
    size_t taps = np_lines((size_t)program->values[node->out].channels * taps_of(node));
    (void)samples;
    parts->saved = logits + taps;
    parts->forward = logits;
    parts->weight = taps + 3 * logits;
}

struct light {
    struct np_conv conv;
    size_t heads, taps, width; /* width: channels of a head */
    float *soft, *kernel;
};

static struct light light_of(const struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    struct light l = {
        .conv = np_pass_window(pass, i), .heads = (size_t)node->heads, .taps = taps_of(node)};
    l.width = l.conv.in_channels / l.heads;
    l.soft = np_pass_saved(pass, i);
    l.kernel = l.soft + np_lines(l.heads * l.taps);
    l.conv.groups = l.conv.in_channels;
    l.conv.w = l.kernel;
    return l;
}

/* soft [heads][taps] -> kernel [taps][C] */
static void spread(struct np_pass *pass, const struct light *l, float *turned)
{
    np_team_wait(pass->team);
    pass->kernels->transpose(pass->team, turned, l->soft, l->heads, l->taps);
    np_team_wait(pass->team);
    pass->kernels->spread(pass->team, l->kernel, turned, l->taps * l->heads, l->width);
    np_team_wait(pass->team);
}

static bool light_forward(struct np_pass *pass, int i)
{
    struct light l = light_of(pass, i);
    l.conv.out = np_pass_value(pass, np_pass_node(pass, i)->out);
    pass->kernels->softmax(pass->team, l.soft, np_pass_tensor(pass, i, LOGITS), l.heads, l.taps);
    spread(pass, &l, np_pass_scratch(pass, i));
    return pass->kernels->dwconv(pass->team, &l.conv);
}

static bool light_backward(struct np_pass *pass, int i)
{
    struct light l = light_of(pass, i);
    struct np_sink sink;
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    l.conv.out = sink.to;
    l.conv.epilogue.residual = sink.base;
    l.conv.epilogue.ld = sink.ld;
    return pass->kernels->dwconv_grad(pass->team, &l.conv);
}

/* dlogits of samples first .. first+samples-1. */
static bool grain_gradient(struct np_pass *pass, const struct light *l, float *dlogits,
                           float *scratch, size_t first, size_t samples)
{
    const struct np_kernels *kernels = pass->kernels;
    size_t logits = np_lines(l->heads * l->taps);
    float *dkernel = scratch + logits, *sums = dkernel + np_lines(l->taps * l->conv.in_channels);
    float *turned = sums + logits;
    struct np_conv conv = l->conv;
    bool finite;
    conv.x += first * conv.in_height * conv.in_width * conv.ldx;
    conv.dy += first * conv.out_height * conv.out_width * conv.ldy;
    conv.samples = samples;
    conv.out = dkernel;
    finite = kernels->dwconv_grad_weight(pass->team, &conv);
    np_team_wait(pass->team);
    kernels->rowsum(pass->team, sums, dkernel, l->taps * l->heads, l->width);
    np_team_wait(pass->team);
    kernels->transpose(pass->team, turned, sums, l->taps, l->heads);
    np_team_wait(pass->team);
    kernels->softmax_grad(pass->team, dlogits, l->soft, turned, l->heads, l->taps);
    np_team_wait(pass->team);
    return finite;
}

static bool light_weight(struct np_pass *pass, int i, float *g, bool accumulate)
{
    struct light l = light_of(pass, i);
    float *sum = np_pass_gradient(pass, g, i, LOGITS), *scratch = np_pass_scratch(pass, i);
    size_t grain = pass->call->grain, samples = pass->call->samples, count = l.heads * l.taps;
    bool finite = true;
    for (size_t first = 0; first < samples; first += grain) {
        bool add = accumulate || first > 0;
        finite = grain_gradient(pass, &l, add ? scratch : sum, scratch, first,
                                grain < samples - first ? grain : samples - first) &&
                 finite;
        if (add)
            finite = pass->kernels->add(pass->team, NP_ACT_NONE, sum, NULL, sum, scratch, count) &&
                     finite;
        np_team_wait(pass->team);
    }
    return finite;
}

const struct np_node_ops np_node_light = {.forward = light_forward,
                                          .backward = light_backward,
                                          .weight = light_weight,
                                          .parts = light_parts,
                                          .gives = NP_IN0,
                                          .reads = NP_IN0,
                                          .reads_dy = true,
                                          .takes_base = NP_IN0,
                                          .unseen_tensors = 1 << LOGITS};
