/* Layer norm and RMS norm, whose statistics belong to rows, and batch norm, whose statistics belong
 * to the channels of a whole mini-batch. */
#include "ops/node.h"

enum { GAMMA, BETA };

/* Of an RMS norm there is no mean. */
static bool has_mean(const struct np_node *node)
{
    return node->op == NP_NODE_LAYER_NORM;
}

/* saved: mean, if there is one, and rstd of each row */
static void row_parts(struct np_node_parts *parts, const struct np_program *program,
                      const struct np_node *node, size_t samples)
{
    size_t rows = np_lines(samples * np_shape_rows(program->values[node->out]));
    parts->saved = has_mean(node) ? 2 * rows : rows;
}

static float *mean_of(const struct np_pass *pass, int i)
{
    return has_mean(np_pass_node(pass, i)) ? np_pass_saved(pass, i) : NULL;
}

static float *rstd_of(const struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    size_t mean = has_mean(node) ? np_lines(np_pass_rows(pass, node->out)) : 0;
    return np_pass_saved(pass, i) + mean;
}

static bool row_forward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    pass->kernels->layernorm(
        pass->team, np_pass_value(pass, node->out), mean_of(pass, i), rstd_of(pass, i),
        np_pass_value(pass, node->in[0]), np_pass_tensor(pass, i, GAMMA),
        has_mean(node) ? np_pass_tensor(pass, i, BETA) : NULL, np_pass_rows(pass, node->out),
        np_pass_channels(pass, node->out), NP_NORM_EPS);
    return true;
}

static bool row_backward(struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    struct np_sink sink;
    if (!np_pass_sink(pass, &sink, i, 0))
        return true;
    return pass->kernels->layernorm_grad(
        pass->team, sink.to, sink.base, np_pass_value(pass, node->in[0]), np_pass_dy(pass, i),
        mean_of(pass, i), rstd_of(pass, i), np_pass_tensor(pass, i, GAMMA),
        np_pass_rows(pass, node->out), np_pass_channels(pass, node->out));
}

static bool row_weight(struct np_pass *pass, int i, float *g, bool accumulate)
{
    const struct np_node *node = np_pass_node(pass, i);
    pass->kernels->layernorm_grad_weight(
        pass->team, np_pass_gradient(pass, g, i, GAMMA),
        has_mean(node) ? np_pass_gradient(pass, g, i, BETA) : NULL,
        np_pass_value(pass, node->in[0]), np_pass_dy(pass, i), mean_of(pass, i), rstd_of(pass, i),
        np_pass_rows(pass, node->out), np_pass_channels(pass, node->out),
        pass->call->grain * np_pass_positions(pass, node->out), accumulate);
    return true;
}

#define ROW_NORM                                                                                   \
    .forward = row_forward, .backward = row_backward, .weight = row_weight, .parts = row_parts,    \
    .gives = NP_IN0, .reads = NP_IN0, .reads_dy = true, .takes_base = NP_IN0, .silent = true

const struct np_node_ops np_node_layer_norm = {ROW_NORM, .unseen_tensors = 1 << GAMMA | 1 << BETA};
const struct np_node_ops np_node_rms_norm = {ROW_NORM, .unseen_tensors = 1 << GAMMA};

/* Floats of the chunks' sums of each channel. */
static size_t batch_chunks(const struct np_program *program, const struct np_node *node,
                           size_t samples)
{
    struct np_shape shape = program->values[node->out];
    return np_lines(np_chunks(samples * np_shape_rows(shape)) * (size_t)shape.channels);
}

/* saved: mean, rstd of each channel; delta: dbeta, dgamma; in B: their shares of dx; in F and B:
 * sums of chunks */
static void batch_parts(struct np_node_parts *parts, const struct np_program *program,
                        const struct np_node *node, size_t samples)
{
    size_t channels = np_lines((size_t)program->values[node->out].channels);
    parts->saved = parts->delta = 2 * channels;
    parts->forward = batch_chunks(program, node, samples);
    parts->backward = 2 * channels + 2 * parts->forward;
}

/* The node's norm, with its statistics behind one another in saved. */
static struct np_colnorm batch_of(const struct np_pass *pass, int i)
{
    const struct np_node *node = np_pass_node(pass, i);
    size_t channels = np_pass_channels(pass, node->out);
    const float *mean = np_pass_saved(pass, i);
    return (struct np_colnorm){.segments = 1,
                               .rows = np_pass_rows(pass, node->out),
                               .cols = channels,
                               .x = np_pass_value(pass, node->in[0]),
                               .mean = mean,
                               .rstd = mean + np_lines(channels),
                               .gamma = np_pass_tensor(pass, i, GAMMA),
                               .beta = np_pass_tensor(pass, i, BETA),
                               .act = node->act};
}

/* mean and rstd from norm_stats, where the call wants so. */
static bool batch_fixed(struct np_pass *pass, const struct np_colnorm *norm, const float *stats)
{
    const struct np_kernels *kernels = pass->kernels;
    float *mean = (float *)norm->mean, *rstd = (float *)norm->rstd;
    bool finite = kernels->finite(pass->team, stats, norm->cols);
    kernels->copy(pass->team, mean, stats, norm->cols);
    finite = kernels->rstd(pass->team, rstd, stats + norm->cols, norm->cols, NP_NORM_EPS) && finite;
    np_team_wait(pass->team);
    return finite;
}

/* mean and rstd of x; stats, if not NULL, grows by mean and variance. */
static bool batch_statistics(struct np_pass *pass, const struct np_colnorm *norm, float *sums,
                             float *stats)
{
    const struct np_kernels *kernels = pass->kernels;
    const size_t cols = norm->cols;
    float *mean = (float *)norm->mean, *rstd = (float *)norm->rstd;
    struct np_moments moments = {.of = {{.sums = sums, .quotient = mean, .stats = stats}},
                                 .count = 1,
                                 .chunks = np_chunks(norm->rows),
                                 .cols = cols,
                                 .by = (float)norm->rows};
    bool finite;
    kernels->col_sum(pass->team, sums, norm->x, 1, norm->rows, cols, 0, NP_SUM_CHUNKS);
    np_team_wait(pass->team);
    finite = kernels->moments(pass->team, &moments);
    np_team_wait(pass->team);
    kernels->col_square(pass->team, sums, norm->x, mean, 1, norm->rows, cols, NP_SUM_CHUNKS);
    np_team_wait(pass->team);
    moments.of[0] =
        (struct np_moment){.sums = sums, .stats = stats ? stats + cols : NULL, .rstd = rstd};
    moments.eps = NP_NORM_EPS;
    finite = kernels->moments(pass->team, &moments) && finite;
    np_team_wait(pass->team);
    return finite;
}

bool np_pass_colnorm(struct np_pass *pass, int i, struct np_colnorm *norm)
{
    const struct np_node *last = np_pass_node(pass, np_pass_last(pass, i));
    norm->residual = np_pass_residual(pass, i);
    if (norm->residual)
        norm->kept = np_pass_kept(pass, np_pass_last(pass, i));
    norm->act = last->act;
    return pass->kernels->colnorm(pass->team, np_pass_value(pass, last->out), norm);
}

static bool batch_forward(struct np_pass *pass, int i)
{
    const struct np_op_call *call = pass->call;
    const struct np_node *node = np_pass_node(pass, i);
    struct np_colnorm norm = batch_of(pass, i);
    float *stats = call->norm == NP_NORM_BATCH ? NULL : call->norm_stats + node->first;
    bool finite = call->norm == NP_NORM_FIXED
                      ? batch_fixed(pass, &norm, stats)
                      : batch_statistics(pass, &norm, np_pass_scratch(pass, i), stats);
    return np_pass_colnorm(pass, i, &norm) && finite;
}

static bool batch_backward(struct np_pass *pass, int i)
{
    struct np_colnorm norm = batch_of(pass, i);
    float *sum = np_pass_delta(pass, i), *dot = sum + np_lines(norm.cols);
    float *a = np_pass_scratch(pass, i), *b = a + np_lines(norm.cols);
    float *sums = b + np_lines(norm.cols);
    float *dots = sums + batch_chunks(pass->program, np_pass_node(pass, i), pass->call->samples);
    struct np_moments moments = {.of = {{.sums = sums, .total = sum}, {.sums = dots, .total = dot}},
                                 .count = 2,
                                 .chunks = np_chunks(norm.rows),
                                 .cols = norm.cols,
                                 .by = (float)norm.rows};
    struct np_sink sink;
    bool wanted = np_pass_sink(pass, &sink, i, 0), finite;
    pass->kernels->colnorm_grad_sums(pass->team, sums, dots, &norm, np_pass_dy(pass, i),
                                     NP_SUM_CHUNKS);
    if (wanted) {
        moments.of[0].gamma = moments.of[1].gamma = norm.gamma;
        moments.of[0].quotient = a;
        moments.of[1].quotient = b;
    }
    np_team_wait(pass->team);
    finite = pass->kernels->moments(pass->team, &moments);
    if (!wanted)
        return finite;
    np_team_wait(pass->team);
    return pass->kernels->colnorm_grad(pass->team, sink.to, sink.base, &norm, np_pass_dy(pass, i),
                                       a, b) &&
           finite;
}

/* The sums of this member's mini-batch, to those of others. */
static bool batch_weight(struct np_pass *pass, int i, float *g, bool accumulate)
{
    size_t channels = np_pass_channels(pass, np_pass_node(pass, i)->out);
    const float *sum = np_pass_delta(pass, i), *dot = sum + np_lines(channels);
    return pass->kernels->norm_weight(pass->team, np_pass_gradient(pass, g, i, GAMMA),
                                      np_pass_gradient(pass, g, i, BETA), dot, sum, channels,
                                      accumulate);
}

const struct np_node_ops np_node_batch_norm = {.forward = batch_forward,
                                               .backward = batch_backward,
                                               .weight = batch_weight,
                                               .parts = batch_parts,
                                               .gives = NP_IN0,
                                               .reads = NP_IN0,
                                               .takes_tail = true,
                                               .takes_base = NP_IN0,
                                               .over_dy = true,
                                               .over_input = true};
