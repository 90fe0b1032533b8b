/* Whether a layer fits the place where it stands: what its operator asks of channels and shapes. */
#include "space/recipe_layer.h"

static bool keeps(const struct np_place *place)
{
    return place->stride == 1 && np_shape_equal(place->in, place->out);
}

static enum np_status fit_channels(const struct np_layer_fit *fit, struct np_error *err)
{
    int in = fit->place->in.channels, out = fit->place->out.channels;
    if (in == out)
        return NP_OK;
    return np_yaml_fail(fit->node, err, "'%s' keeps the channels, its block makes %d of %d",
                        fit->op->name, out, in);
}

static enum np_status fit_shape(const struct np_layer_fit *fit, struct np_error *err)
{
    const struct np_shape *in = &fit->place->in, *out = &fit->place->out;
    if (keeps(fit->place))
        return NP_OK;
    return np_yaml_fail(
        fit->node, err, "'%s' keeps the shape, its block makes %dx%dx%d of %dx%dx%d", fit->op->name,
        out->height, out->width, out->channels, in->height, in->width, in->channels);
}

static enum np_status fit_shuffle(const struct np_layer_fit *fit, struct np_error *err)
{
    int in = fit->place->in.channels, out = fit->place->out.channels;
    if (out % 2 != 0)
        return np_yaml_fail(fit->node, err, "'shuffle' makes an even number of channels, not %d",
                            out);
    if (fit->place->stride == 1 && in != out)
        return np_yaml_fail(fit->node, err,
                            "'shuffle' keeps the channels at stride 1, its block makes %d of %d",
                            out, in);
    return NP_OK;
}

static enum np_status fit_identity(const struct np_layer_fit *fit, struct np_error *err)
{
    if (fit->recipe->input != NP_INPUT_IMAGES)
        return fit_shape(fit, err);
    if (fit->place->stride == 2 && fit->place->out.channels == 1)
        return np_yaml_fail(fit->node, err, "'identity' makes 2 channels or more at stride 2");
    return NP_OK;
}

static enum np_status fit_groups(const struct np_layer_fit *fit, struct np_error *err)
{
    int groups = fit->spec->groups, in = fit->place->in.channels, out = fit->place->out.channels;
    if (in % groups == 0 && out % groups == 0)
        return NP_OK;
    return np_yaml_fail(np_yaml_find(fit->map, "groups"), err,
                        "'groups' must divide the %d channels it reads and the %d it makes, not %d",
                        in, out, groups);
}

static enum np_status fit_bottleneck(const struct np_layer_fit *fit, struct np_error *err)
{
    int groups = fit->spec->groups;
    int hidden = np_hidden_of(fit->spec, fit->place->out.channels);
    if (hidden % groups == 0)
        return NP_OK;
    return np_yaml_fail(np_yaml_find(fit->map, "groups"), err,
                        "'groups' must divide the %d channels between, not %d", hidden, groups);
}

static enum np_status fit_patch(const struct np_layer_fit *fit, struct np_error *err)
{
    const struct np_recipe *recipe = fit->recipe;
    const int *kernel = fit->spec->kernel;
    if (recipe->height % kernel[0] == 0 && recipe->image_width % kernel[1] == 0)
        return NP_OK;
    return np_yaml_fail(np_yaml_find(fit->map, "kernel"), err,
                        "'kernel' must divide the image of %d x %d, not %d x %d", recipe->height,
                        recipe->image_width, kernel[0], kernel[1]);
}

static enum np_status fit_concat(const struct np_layer_fit *fit, struct np_error *err)
{
    const struct np_shape *in = &fit->place->in, *out = &fit->place->out, *memory = fit->memory;
    if (fit->place->stride != 1 || in->height != memory->height || in->width != memory->width)
        return np_yaml_fail(fit->node, err,
                            "'concat' keeps the size: of %dx%d and its memory's %dx%d, its block "
                            "makes %dx%d",
                            in->height, in->width, memory->height, memory->width, out->height,
                            out->width);
    if (out->channels != memory->channels + in->channels)
        return np_yaml_fail(fit->node, err,
                            "'concat' puts %d channels before %d, its block makes %d",
                            memory->channels, in->channels, out->channels);
    return NP_OK;
}

static bool has_batch_norm(const struct np_layer_fit *fit)
{
    switch (fit->spec->op) {
    case NP_OP_IDENTITY:
        return !keeps(fit->place);
    case NP_OP_RELU_CONV_BN:
    case NP_OP_SEPCONV:
    case NP_OP_DILCONV:
    case NP_OP_RESNET_BASIC:
    case NP_OP_BOTTLENECK:
    case NP_OP_MBCONV:
    case NP_OP_SHUFFLE:
        return true;
    default:
        return fit->spec->norm == NP_NORM_OF_BATCH;
    }
}

enum np_status np_recipe_fit_layer(const struct np_layer_fit *fit, bool *batch_norm,
                                   struct np_error *err)
{
    *batch_norm = *batch_norm || has_batch_norm(fit);
    switch (fit->op->keeps) {
    case NP_KEEPS_SHAPE:
        return fit_shape(fit, err);
    case NP_KEEPS_CHANNELS:
        return fit_channels(fit, err);
    default:
        break;
    }
    switch (fit->spec->op) {
    case NP_OP_CONV2D:
        return fit_groups(fit, err);
    case NP_OP_BOTTLENECK:
        return fit_bottleneck(fit, err);
    case NP_OP_PATCH:
        return fit_patch(fit, err);
    case NP_OP_IDENTITY:
        return fit_identity(fit, err);
    case NP_OP_CONCAT:
        return fit_concat(fit, err);
    case NP_OP_SHUFFLE:
        return fit_shuffle(fit, err);
    default:
        return NP_OK;
    }
}
