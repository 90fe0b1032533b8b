#include "space/widths.h"

#include "space/op_fields.h"

static bool keeps_channels(enum np_op op)
{
    return np_op_fields(op, NP_ROLE_CHOICE)->keeps != NP_KEEPS_NOTHING;
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
