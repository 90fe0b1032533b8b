#include "space/widths.h"

static bool keeps_channels(enum np_op op)
{
    switch (op) {
    case NP_OP_IDENTITY:
    case NP_OP_MHA:
    case NP_OP_FFN:
    case NP_OP_GLU:
    case NP_OP_CONV1D:
    case NP_OP_SEPCONV1D:
    case NP_OP_LIGHTCONV:
    case NP_OP_DWCONV2D:
    case NP_OP_SHUFFLE:
    case NP_OP_MAX_POOL:
    case NP_OP_AVG_POOL:
    case NP_OP_NORM:
        return true;
    default:
        return false;
    }
}

bool np_widths_tied(const struct np_block *a, const struct np_block *b)
{
    return a->widths && b->widths && *a->tie_widths && a->tie_widths == b->tie_widths;
}

struct np_channels np_width_channels(const struct np_block *block, int candidate,
                                     const struct np_block *x, struct np_shape in,
                                     struct np_shape out)
{
    const struct np_layer_spec *spec = &block->choices[candidate];
    struct np_channels channels = {in.channels, out.channels};
    if (!block->widths)
        return channels;
    channels.makes = spec->width;
    if (x && np_widths_tied(x, block))
        channels.reads =
            x->choices[candidate / np_width_candidates(block) * np_width_candidates(x)].width;
    else if (!(x && x->widths) && keeps_channels(spec->op) && in.channels == out.channels)
        channels.reads = spec->width;
    return channels;
}
