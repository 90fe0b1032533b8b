/* Group norm: a sample's statistics over its positions and the channels of a group, spread over
 * those channels: a column norm whose segments are samples. */
#include "ops/node.h"

enum { GAMMA, BETA };

/* One row of channels a sample: [samples][C], and their sums over groups [samples][groups]. */
static size_t each(const struct np_program *program, const struct np_node *node, size_t samples)
{
    return np_lines(samples * (size_t)program->values[node->out].channels);
}

/* saved: mean, rstd; delta: each sample's share of dbeta, dgamma; else scratch */
static void group_parts(struct np_node_parts *parts, const struct np_program *program,
                        const struct np_node *node, size_t samples)
{
    size_t row = each(program, node, samples), sums = np_lines(samples * (size_t)node->groups);
    parts->saved = parts->delta = 2 * row;
    parts->forward = row + sums;
    parts->backward = 3 * row + sums;
}

struct group {
    struct np_colnorm norm;
    size_t groups, width; /* of all samples; channels of each */
    size_t row;           /* floats from one array of [samples][C] to the next */
    float count;          /* elements of a group */
};

static struct group group_of(const struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    size_t channels = np_pass_channels(pass, node->out), samples = pass->call->samples;
    struct group g = {.groups = samples * (size_t)node->groups,
                      .width = channels / (size_t)node->groups,
                      .row = each(pass->program, node, samples)};
    const float *mean = np_pass_saved(pass, i);
    g.norm = (struct np_colnorm){.segments = samples,
                                 .rows = np_pass_positions(pass, node->out),
                                 .cols = channels,
                                 .x = np_pass_value(pass, node->in[0]),
                                 .mean = mean,
                                 .rstd = mean + g.row,
                                 .gamma = np_pass_tensor(pass, i, GAMMA),
                                 .beta = np_pass_tensor(pass, i, BETA),
                                 .act = node->act};
    g.count = (float)(g.norm.rows * g.width);
    return g;
}

/* The mean over each group of what [samples][C] `sums` add up to, on each of its channels. */
static bool spread_means(struct np_pass *pass, const struct group *g, float *means,
                         const float *sums, float *scratch)
{
    const struct np_kernels *kernels = pass->kernels;
    kernels->rowsum(pass->team, scratch, sums, g->groups, g->width);
    np_team_wait(pass->team);
    kernels->spread(pass->team, means, scratch, g->groups, g->width);
    np_team_wait(pass->team);
    return kernels->divide(pass->team, means, means, NULL, g->groups * g->width, g->count);
}

static bool group_forward(struct np_pass *pass, int i)
{
    struct group g = group_of(pass, i);
    const struct np_kernels *kernels = pass->kernels;
    float *mean = (float *)g.norm.mean, *rstd = (float *)g.norm.rstd;
    float *sums = np_pass_scratch(pass, i), *scratch = sums + g.row;
    bool finite;
    kernels->col_sum(pass->team, sums, g.norm.x, g.norm.segments, g.norm.rows, g.norm.cols, 0,
                     false);
    np_team_wait(pass->team);
    finite = spread_means(pass, &g, mean, sums, scratch);
    np_team_wait(pass->team);
    kernels->col_square(pass->team, sums, g.norm.x, mean, g.norm.segments, g.norm.rows, g.norm.cols,
                        NP_SUM_NEW);
    np_team_wait(pass->team);
    finite = spread_means(pass, &g, rstd, sums, scratch) && finite;
    finite =
        kernels->rstd(pass->team, rstd, rstd, g.norm.segments * g.norm.cols, NP_NORM_EPS) && finite;
    np_team_wait(pass->team);
    return np_pass_colnorm(pass, i, &g.norm) && finite;
}

/* scratch = gamma * sums, and its means over groups. */
static bool share_of_dx(struct np_pass *pass, const struct group *g, float *means,
                        const float *sums, float *scratch)
{
    bool finite = pass->kernels->col_scale(pass->team, scratch, NULL, sums, g->norm.gamma, 1,
                                           g->norm.segments, g->norm.cols);
    np_team_wait(pass->team);
    finite = spread_means(pass, g, means, scratch, scratch + g->row) && finite;
    np_team_wait(pass->team);
    return finite;
}

static bool group_backward(struct np_pass *pass, int i)
{
    struct group g = group_of(pass, i);
    float *sum = np_pass_delta(pass, i), *dot = sum + g.row;
    float *a = np_pass_scratch(pass, i), *b = a + g.row;
    struct np_sink sink;
    bool finite;
    pass->kernels->colnorm_grad_sums(pass->team, sum, dot, &g.norm, np_pass_dy(pass, i),
                                     NP_SUM_NEW);
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    np_team_wait(pass->team);
    finite = share_of_dx(pass, &g, a, sum, b + g.row);
    finite = share_of_dx(pass, &g, b, dot, b + g.row) && finite;
    return pass->kernels->colnorm_grad(pass->team, sink.to, sink.base, &g.norm, np_pass_dy(pass, i),
                                       a, b) &&
           finite;
}

/* A chunked sum over samples with grains of one adds one sample after the other. */
static bool group_weight(struct np_pass *pass, int i, float *g, bool accumulate)
{
    const struct np_node *node = np_pass_node(pass, i);
    size_t samples = pass->call->samples, channels = np_pass_channels(pass, node->out);
    const float *sum = np_pass_delta(pass, i);
    pass->kernels->col_sum(pass->team, np_pass_gradient(pass, g, i, GAMMA),
                           sum + each(pass->program, node, samples), 1, samples, channels, 1,
                           accumulate);
    pass->kernels->col_sum(pass->team, np_pass_gradient(pass, g, i, BETA), sum, 1, samples,
                           channels, 1, accumulate);
    return true;
}

const struct np_node_ops np_node_group_norm = {.forward = group_forward,
                                               .backward = group_backward,
                                               .weight = group_weight,
                                               .parts = group_parts,
                                               .gives = NP_IN0,
                                               .reads = NP_IN0,
                                               .takes_tail = true,
                                               .takes_base = NP_IN0,
                                               .over_dy = true,
                                               .over_input = true,
                                               .unseen_tensors = 1 << GAMMA | 1 << BETA};
