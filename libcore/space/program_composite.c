/* Operators of images that are several convolutions.
 *
 * relu_conv_bn, sepconv, dilconv   NAS-Bench-201 and DARTS (Liu et al. 2019), operations.py
 * resnet_basic, bottleneck         He et al. 2016, shortcut B, the stride in the middle one;
 *                                  groups as in ResNeXt (Xie et al. 2017), squeeze-and-excite as
 *                                  in RegNetY (Radosavovic et al. 2020)
 * mbconv                           MobileNetV2 (Sandler et al. 2018), squeeze-and-excite where
 *                                  MobileNetV3 (Howard et al. 2019) has it: after the norm
 * shuffle                          ShuffleNetV2 (Ma et al. 2018), figure 3 c and d; xception: the
 *                                  fourth choice of SPOS (Guo et al. 2020)
 */
#include "space/op_fields.h"
#include "space/programs.h"

static const int one[2] = {1, 1};

static struct np_window point(int stride)
{
    return np_build_window(one, stride, 1);
}

/* act(bn(conv x)); tensors name.weight, name.gamma, name.beta. */
static int conv_bn(struct np_build *b, const char *name, int x, int channels,
                   struct np_window window, enum np_act act)
{
    x = np_build_conv(b, name, x, channels, window);
    return np_build_norm(b, name, x, NP_NORM_OF_BATCH, act);
}

static int point_bn(struct np_build *b, const char *name, int x, int channels, enum np_act act)
{
    return conv_bn(b, name, x, channels, point(1), act);
}

static int dwconv(struct np_build *b, const char *name, int x, struct np_window window)
{
    return np_build_dwconv(b, name, x, window, false, NP_FILL_HE);
}

static int dwconv_bn(struct np_build *b, const char *name, int x, struct np_window window,
                     enum np_act act)
{
    return np_build_norm(b, name, dwconv(b, name, x, window), NP_NORM_OF_BATCH, act);
}

int np_program_relu_conv_bn(struct np_build *b)
{
    const struct np_layer_spec *spec = &b->kind->spec;
    int x = np_build_act(b, b->x, NP_ACT_RELU);
    return conv_bn(b, "conv", x, b->out.channels,
                   np_build_window(spec->kernel, spec->stride, spec->dilation), NP_ACT_NONE);
}

int np_program_sepconv(struct np_build *b)
{
    const struct np_layer_spec *spec = &b->kind->spec;
    int x = np_build_act(b, b->x, NP_ACT_RELU);
    x = dwconv(b, "depth1", x, np_build_window(spec->kernel, spec->stride, 1));
    x = point_bn(b, "point1", x, b->in.channels, NP_ACT_RELU);
    x = dwconv(b, "depth2", x, np_build_window(spec->kernel, 1, 1));
    return point_bn(b, "point2", x, b->out.channels, NP_ACT_NONE);
}

int np_program_dilconv(struct np_build *b)
{
    const struct np_layer_spec *spec = &b->kind->spec;
    int x = np_build_act(b, b->x, NP_ACT_RELU);
    x = dwconv(b, "depth", x, np_build_window(spec->kernel, spec->stride, spec->dilation));
    return point_bn(b, "point", x, b->out.channels, NP_ACT_NONE);
}

/* Of another shape a 1 x 1 convolution with a batch norm. */
static int shortcut_of_x(struct np_build *b)
{
    const struct np_kind *kind = b->kind;
    if (np_build_keeps(b))
        return b->x;
    return conv_bn(b, "shortcut", b->x, b->out.channels, point(kind->spec.stride), NP_ACT_NONE);
}

int np_program_resnet_basic(struct np_build *b)
{
    const struct np_layer_spec *spec = &b->kind->spec;
    int shortcut = shortcut_of_x(b), x;
    x = conv_bn(b, "conv1", b->x, np_hidden_of(spec, b->out.channels),
                np_build_window(spec->kernel, spec->stride, 1), spec->act);
    x = conv_bn(b, "conv2", x, b->out.channels, np_build_window(spec->kernel, 1, 1), NP_ACT_NONE);
    return np_build_residual(b, shortcut, x, spec->act);
}

/* x times hsigmoid(up(relu(down(mean of x)))), down to its channels / reduction, 1 at least. */
static int squeeze_excite(struct np_build *b, int x, int reduction)
{
    int channels = np_build_shape(b, x).channels;
    int squeezed = channels / reduction > 0 ? channels / reduction : 1;
    int s = np_build_global_pool(b, x);
    s = np_build_linear(b, "squeeze", s, squeezed, true, NP_ACT_RELU);
    s = np_build_linear(b, "excite", s, channels, true, NP_ACT_HSIGMOID);
    return np_build_node(b, NP_NODE_CHANNEL_SCALE, x, s, np_build_shape(b, x))->out;
}

int np_program_bottleneck(struct np_build *b)
{
    const struct np_layer_spec *spec = &b->kind->spec;
    int hidden = np_hidden_of(spec, b->out.channels);
    struct np_build_product middle = {.name = "conv",
                                      .channels = hidden,
                                      .groups = spec->groups,
                                      .window = np_build_window(spec->kernel, spec->stride, 1),
                                      .fill = NP_FILL_HE};
    int shortcut = shortcut_of_x(b), x;
    x = point_bn(b, "reduce", b->x, hidden, spec->act);
    x = np_build_product(b, x, &middle);
    x = np_build_norm(b, "conv", x, NP_NORM_OF_BATCH, spec->act);
    if (spec->se)
        x = squeeze_excite(b, x, spec->se);
    x = point_bn(b, "expand", x, b->out.channels, NP_ACT_NONE);
    return np_build_residual(b, shortcut, x, spec->act);
}

int np_program_mbconv(struct np_build *b)
{
    const struct np_kind *kind = b->kind;
    const struct np_layer_spec *spec = &kind->spec;
    int hidden = spec->hidden ? spec->hidden : spec->expand * b->in.channels;
    int x = b->x;
    if (hidden != b->in.channels)
        x = point_bn(b, "expand", x, hidden, spec->act);
    x = dwconv_bn(b, "depth", x, np_build_window(spec->kernel, spec->stride, 1), spec->act);
    if (spec->se)
        x = squeeze_excite(b, x, spec->se);
    x = point_bn(b, "project", x, b->out.channels, NP_ACT_NONE);
    if (np_build_keeps(b))
        return np_build_residual(b, b->x, x, NP_ACT_NONE);
    return x;
}

/* 1 x 1, depthwise with the stride, 1 x 1. */
static int shuffle_branch(struct np_build *b, int x, int channels)
{
    const struct np_layer_spec *spec = &b->kind->spec;
    x = point_bn(b, "point1", x, channels, NP_ACT_RELU);
    x = dwconv_bn(b, "depth", x, np_build_window(spec->kernel, spec->stride, 1), NP_ACT_NONE);
    return point_bn(b, "point2", x, channels, NP_ACT_RELU);
}

/* Three times depthwise and 1 x 1, the first with the stride. */
static int xception_branch(struct np_build *b, int x, int channels)
{
    static const char *const depth[] = {"depth1", "depth2", "depth3"};
    static const char *const points[] = {"point1", "point2", "point3"};
    const struct np_layer_spec *spec = &b->kind->spec;
    for (int i = 0; i < 3; i++) {
        struct np_window window = np_build_window(spec->kernel, i == 0 ? spec->stride : 1, 1);
        x = dwconv_bn(b, depth[i], x, window, NP_ACT_NONE);
        x = point_bn(b, points[i], x, channels, NP_ACT_RELU);
    }
    return x;
}

static int half_of(struct np_build *b, int x, int first)
{
    struct np_shape shape = np_build_shape(b, x);
    struct np_node *node;
    shape.channels /= 2;
    node = np_build_node(b, NP_NODE_SLICE, x, -1, shape);
    node->first = first;
    return node->out;
}

/* The first half of the channels passes by, or at stride 2 all of them through another branch; then
 * both halves of the output are interleaved: the shuffle. */
int np_program_shuffle(struct np_build *b)
{
    const struct np_kind *kind = b->kind;
    const struct np_layer_spec *spec = &kind->spec;
    int half = b->out.channels / 2, left = b->x, right = b->x;
    struct np_node *node;
    if (spec->stride == 2) {
        left = dwconv_bn(b, "left_depth", left, np_build_window(spec->kernel, 2, 1), NP_ACT_NONE);
        left = point_bn(b, "left_point", left, half, NP_ACT_RELU);
    } else {
        left = half_of(b, b->x, 0);
        right = half_of(b, b->x, half);
    }
    right = spec->xception ? xception_branch(b, right, half) : shuffle_branch(b, right, half);
    node = np_build_node(b, NP_NODE_MERGE, left, right, b->out);
    node->interleave = true;
    return node->out;
}
