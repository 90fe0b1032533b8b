/* Pools, and scales: of channels, which squeeze-and-excite makes of a pool, or of every value. */
#include "ops/node.h"

/* saved: which tap of each window was largest, as int32_t */
static void max_parts(struct np_node_parts *parts, const struct np_program *program,
                      const struct np_node *node, size_t samples)
{
    parts->saved = samples * np_shape_floats(program->values[node->out]);
}

static bool max_forward(struct np_pass *pass, int i)
{
    struct np_conv pool = np_pass_window(pass, i);
    pool.out = np_pass_value(pass, np_pass_node(pass, i)->out);
    pass->kernels->max_pool(pass->team, &pool, (int32_t *)np_pass_saved(pass, i));
    return true;
}

static bool max_backward(struct np_pass *pass, int i)
{
    struct np_conv pool = np_pass_window(pass, i);
    struct np_sink sink;
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    pool.out = sink.to;
    return pass->kernels->max_pool_grad(pass->team, &pool, (int32_t *)np_pass_saved(pass, i),
                                        sink.base);
}

const struct np_node_ops np_node_max_pool = {.forward = max_forward,
                                             .backward = max_backward,
                                             .parts = max_parts,
                                             .gives = NP_IN0,
                                             .takes_base = NP_IN0};

static bool avg_forward(struct np_pass *pass, int i)
{
    struct np_conv pool = np_pass_window(pass, i);
    pool.out = np_pass_value(pass, np_pass_node(pass, i)->out);
    pass->kernels->avg_pool(pass->team, &pool);
    return true;
}

static bool avg_backward(struct np_pass *pass, int i)
{
    struct np_conv pool = np_pass_window(pass, i);
    struct np_sink sink;
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    pool.out = sink.to;
    return pass->kernels->avg_pool_grad(pass->team, &pool, sink.base);
}

const struct np_node_ops np_node_avg_pool = {.forward = avg_forward,
                                             .backward = avg_backward,
                                             .gives = NP_IN0,
                                             .takes_base = NP_IN0,
                                             .silent = true};

static bool global_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    size_t positions = np_pass_positions(pass, node->in[0]);
    float *y = np_pass_value(pass, node->out);
    pass->kernels->col_sum(pass->team, y, np_pass_value(pass, node->in[0]), pass->call->samples,
                           positions, np_pass_channels(pass, node->out), 0, false);
    np_team_wait(pass->team);
    return pass->kernels->divide(pass->team, y, y, NULL, np_pass_floats(pass, node->out),
                                 (float)positions);
}

/* in B: dy over the number of positions */
static void global_parts(struct np_node_parts *parts, const struct np_program *program,
                         const struct np_node *node, size_t samples)
{
    parts->backward = samples * np_shape_floats(program->values[node->out]);
}

static bool global_backward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    size_t positions = np_pass_positions(pass, node->in[0]);
    float *each = np_pass_scratch(pass, i);
    struct np_sink sink;
    bool finite;
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    finite = pass->kernels->divide(pass->team, each, np_pass_dy(pass, i), NULL,
                                   np_pass_floats(pass, node->out), (float)positions);
    np_team_wait(pass->team);
    return pass->kernels->col_spread(pass->team, sink.to, sink.base, each, pass->call->samples,
                                     positions, np_pass_channels(pass, node->out)) &&
           finite;
}

const struct np_node_ops np_node_global_pool = {.forward = global_forward,
                                                .backward = global_backward,
                                                .parts = global_parts,
                                                .gives = NP_IN0,
                                                .takes_base = NP_IN0,
                                                .silent = true};

/* Rows of in[0] for each one of in[1]: those of a sample, or one. */
static size_t scaled_rows(const struct np_pass *pass, const struct np_node *node)
{
    return np_pass_positions(pass, node->out) / np_pass_positions(pass, node->in[1]);
}

static bool scale_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    return pass->kernels->col_scale(
        pass->team, np_pass_value(pass, node->out), NULL, np_pass_value(pass, node->in[0]),
        np_pass_value(pass, node->in[1]), np_pass_rows(pass, node->in[1]), scaled_rows(pass, node),
        np_pass_channels(pass, node->out));
}

static bool scale_backward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    size_t segments = np_pass_rows(pass, node->in[1]), rows = scaled_rows(pass, node);
    size_t channels = np_pass_channels(pass, node->out);
    const float *dy = np_pass_dy(pass, i);
    struct np_sink x, scale;
    bool finite = true;
    if (np_pass_sink(pass, &x, i, 0))
        finite =
            pass->kernels->col_scale(pass->team, x.to, x.base, dy, np_pass_value(pass, node->in[1]),
                                     segments, rows, channels);
    if (np_pass_sink(pass, &scale, i, 1)) {
        pass->kernels->col_dot(pass->team, np_sink_start(&scale), dy,
                               np_pass_value(pass, node->in[0]), segments, rows, channels, 0);
        finite = np_sink_finish(pass, &scale) && finite;
    }
    return finite;
}

const struct np_node_ops np_node_channel_scale = {.forward = scale_forward,
                                                  .backward = scale_backward,
                                                  .gives = NP_IN0 | NP_IN1,
                                                  .takes_base = NP_IN0,
                                                  .reads = NP_IN0 | NP_IN1};
