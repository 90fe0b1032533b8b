#include "ops/node.h"

#include <string.h>

const struct np_node_ops *np_node_ops_of(const struct np_node *node)
{
    static const struct np_node_ops *const table[NP_NODE_OP_COUNT] = {
        [NP_NODE_CONV] = &np_node_conv,
        [NP_NODE_DWCONV] = &np_node_dwconv,
        [NP_NODE_LAYER_NORM] = &np_node_layer_norm,
        [NP_NODE_RMS_NORM] = &np_node_rms_norm,
        [NP_NODE_BATCH_NORM] = &np_node_batch_norm,
        [NP_NODE_GROUP_NORM] = &np_node_group_norm,
        [NP_NODE_ACT] = &np_node_act,
        [NP_NODE_GLU] = &np_node_glu,
        [NP_NODE_ROTATE] = &np_node_rotate,
        [NP_NODE_REPEAT] = &np_node_repeat,
        [NP_NODE_ATTENTION] = &np_node_attention,
        [NP_NODE_LIGHTCONV] = &np_node_light,
        [NP_NODE_MAX_POOL] = &np_node_max_pool,
        [NP_NODE_AVG_POOL] = &np_node_avg_pool,
        [NP_NODE_GLOBAL_POOL] = &np_node_global_pool,
        [NP_NODE_CHANNEL_SCALE] = &np_node_channel_scale,
        [NP_NODE_SLICE] = &np_node_slice,
        [NP_NODE_CUT] = &np_node_cut,
        [NP_NODE_WIDEN] = &np_node_widen,
        [NP_NODE_MERGE] = &np_node_merge,
        [NP_NODE_ADD] = &np_node_add,
        [NP_NODE_DROPOUT] = &np_node_drop,
        [NP_NODE_DROP_PATH] = &np_node_drop,
        [NP_NODE_ZERO] = &np_node_zero,
        [NP_NODE_POSITIONS] = &np_node_positions,
        [NP_NODE_IMAGE] = &np_node_image,
        [NP_NODE_EMBED] = &np_node_embed,
        [NP_NODE_XENT] = &np_node_xent,
    };
    return table[node->op];
}

const float *np_pass_slope(const struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    if (np_node_slopes_at_output(pass->program, node))
        return np_pass_value(pass, node->out);
    return node->op == NP_NODE_ACT ? np_pass_value(pass, node->in[0]) : np_pass_saved(pass, i);
}

float *np_pass_kept(const struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    if (node->act == NP_ACT_NONE || !pass->call->train ||
        np_node_slopes_at_output(pass->program, node))
        return NULL;
    return (float *)np_pass_slope(pass, i);
}

bool np_pass_sink(const struct np_pass *pass, struct np_sink *sink, int node, int k)
{
    const struct np_gift *gift = &pass->layout.node[node].gift[k];
    float *to;
    int root;
    if (gift->value == NP_NOWHERE)
        return false;
    root = pass->layout.origin[gift->value];
    to = root < NP_VALUE_OWN ? pass->slab[NP_SLAB_DX + root] : np_pass_part(pass, gift->to);
    if (!to)
        return false;
    *sink = (struct np_sink){.to = to + pass->layout.value[gift->value].shift,
                             .base = np_pass_part(pass, gift->base),
                             .temp = np_pass_part(pass, gift->temp),
                             .ld = np_pass_ld(pass, gift->value),
                             .count = np_pass_floats(pass, gift->value)};
    if (root < NP_VALUE_OWN)
        sink->base = pass->given[root];
    if (sink->base)
        sink->base += pass->layout.value[gift->value].shift;
    return true;
}

bool np_sink_finish(const struct np_pass *pass, const struct np_sink *sink)
{
    if (!sink->base)
        return true;
    np_team_wait(pass->team);
    return pass->kernels->add(pass->team, NP_ACT_NONE, sink->to, NULL, sink->base, sink->temp,
                              sink->count);
}

struct np_conv np_pass_window(const struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    struct np_shape in = np_pass_shape(pass, node->in[0]), out = np_pass_shape(pass, node->out);
    return (struct np_conv){.window = node->window,
                            .samples = pass->call->samples,
                            .in_height = (size_t)in.height,
                            .in_width = (size_t)in.width,
                            .in_channels = (size_t)in.channels,
                            .out_height = (size_t)out.height,
                            .out_width = (size_t)out.width,
                            .out_channels = (size_t)out.channels,
                            .groups = 1,
                            .x = np_pass_value(pass, node->in[0]),
                            .dy = np_pass_dy(pass, i),
                            .ldx = np_pass_ld(pass, node->in[0]),
                            .ldy = (size_t)out.channels};
}
