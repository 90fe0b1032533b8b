/* Activations, attention and what moves rows, in double; see reference.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "num/philox.h"
#include "reference.h"

static size_t count_of(const struct reference_node *n)
{
    return n->samples * np_shape_floats(n->out);
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double clamp6(double x)
{
    return fmin(fmax(x, 0.0), 6.0);
}

double reference_activate(enum np_act act, double u)
{
    switch (act) {
    case NP_ACT_RELU:
        return fmax(u, 0.0);
    case NP_ACT_RELU6:
        return clamp6(u);
    case NP_ACT_GELU:
        return 0.5 * u * (1.0 + erf(u / sqrt(2.0)));
    case NP_ACT_SWISH:
        return u * sigmoid(u);
    case NP_ACT_HSWISH:
        return u * clamp6(u + 3.0) / 6.0;
    case NP_ACT_SIGMOID:
        return sigmoid(u);
    case NP_ACT_HSIGMOID:
        return clamp6(u + 3.0) / 6.0;
    default:
        return u;
    }
}

double reference_slope(enum np_act act, double u)
{
    double s = sigmoid(u);
    switch (act) {
    case NP_ACT_RELU:
        return u > 0.0 ? 1.0 : 0.0;
    case NP_ACT_RELU6:
        return u > 0.0 && u < 6.0 ? 1.0 : 0.0;
    case NP_ACT_GELU:
        return 0.5 * (1.0 + erf(u / sqrt(2.0))) + u * exp(-0.5 * u * u) / sqrt(2.0 * acos(-1.0));
    case NP_ACT_SWISH:
        return s * (1.0 + u * (1.0 - s));
    case NP_ACT_HSWISH:
        return u <= -3.0 ? 0.0 : u >= 3.0 ? 1.0 : u / 3.0 + 0.5;
    case NP_ACT_SIGMOID:
        return s * (1.0 - s);
    case NP_ACT_HSIGMOID:
        return u > -3.0 && u < 3.0 ? 1.0 / 6.0 : 0.0;
    default:
        return 1.0;
    }
}

static void act_forward(const struct reference_node *n)
{
    for (size_t i = 0; i < count_of(n); i++)
        n->y[i] = reference_activate(n->node->act, n->x[0][i]);
}

static void act_backward(const struct reference_node *n)
{
    for (size_t i = 0; i < count_of(n); i++)
        n->dx[0][i] += n->dy[i] * reference_slope(n->node->act, n->x[0][i]);
}

const struct reference_op reference_act = {act_forward, act_backward};

static void add_forward(const struct reference_node *n)
{
    for (size_t i = 0; i < count_of(n); i++)
        n->y[i] = reference_activate(n->node->act, n->x[0][i] + n->x[1][i]);
}

static void add_backward(const struct reference_node *n)
{
    for (size_t i = 0; i < count_of(n); i++) {
        double du = n->dy[i] * reference_slope(n->node->act, n->x[0][i] + n->x[1][i]);
        n->dx[0][i] += du;
        n->dx[1][i] += du;
    }
}

const struct reference_op reference_add = {add_forward, add_backward};

static void glu_forward(const struct reference_node *n)
{
    size_t c = (size_t)n->out.channels;
    for (size_t i = 0; i < count_of(n); i++) {
        const double *u = n->x[0] + i / c * 2 * c;
        n->y[i] = (u[i % c] + n->w[0][i % c]) * sigmoid(u[c + i % c] + n->w[0][c + i % c]);
    }
}

static void glu_backward(const struct reference_node *n)
{
    size_t c = (size_t)n->out.channels;
    for (size_t i = 0; i < count_of(n); i++) {
        size_t at = i / c * 2 * c + i % c;
        double a = n->x[0][at] + n->w[0][i % c];
        double s = sigmoid(n->x[0][at + c] + n->w[0][c + i % c]);
        double da = n->dy[i] * s, db = n->dy[i] * a * s * (1.0 - s);
        n->dx[0][at] += da;
        n->dx[0][at + c] += db;
        n->g[0][i % c] += da;
        n->g[0][c + i % c] += db;
    }
}

const struct reference_op reference_glu = {glu_forward, glu_backward};

/* One head of one sample: rows of queries, keys and values, the first `real` of which are not
 * filled, and how far apart they lie. */
struct head {
    size_t number, queries, keys, real, depth, ldq, ldk, q, k, v, out;
    bool causal, self;
};

static struct head head_of(const struct reference_node *n, size_t index)
{
    size_t c = (size_t)n->out.channels, heads = (size_t)n->node->heads;
    struct head h = {.number = index % heads,
                     .queries = np_shape_rows(n->in[0]),
                     .keys = np_shape_rows(n->in[1]),
                     .depth = c / heads,
                     .ldq = (size_t)n->in[0].channels,
                     .ldk = (size_t)n->in[1].channels,
                     .causal = n->node->causal,
                     .self = n->node->in[0] == n->node->in[1]};
    size_t sample = index / heads, first = index % heads * h.depth;
    h.real = h.keys;
    if (n->node->padded == NP_PADDED_SOURCE)
        h.real = (size_t)n->call->source_lengths[sample];
    else if (n->node->padded == NP_PADDED_TARGET)
        h.real = (size_t)n->call->target_lengths[sample];
    h.q = sample * h.queries * h.ldq + first;
    h.k = sample * h.keys * h.ldk + first + (h.self ? c : 0);
    h.v = h.k + c;
    h.out = sample * h.queries * c + first;
    return h;
}

/* The place of a query and a key in the table of relative positions. */
static size_t offset_of(const struct reference_node *n, const struct head *h, size_t i, size_t j)
{
    int width = n->out.width, height = n->out.height;
    int x = (int)j % width - (int)i % width, y = (int)j / width - (int)i / width;
    size_t count = n->node->causal ? (size_t)width : (size_t)((2 * width - 1) * (2 * height - 1));
    return h->number * count + (size_t)((y + height - 1) * (2 * width - 1) + x + width - 1);
}

/* How much query i attends to each key. */
static void attend(const struct reference_node *n, const struct head *h, double *p, size_t i)
{
    size_t seen = h->causal ? i + 1 : h->real;
    double top = -INFINITY, z = 0.0;
    memset(p, 0, h->keys * sizeof *p);
    for (size_t j = 0; j < seen; j++) {
        for (size_t d = 0; d < h->depth; d++)
            p[j] += n->x[0][h->q + i * h->ldq + d] * n->x[1][h->k + j * h->ldk + d] /
                    sqrt((double)h->depth);
        if (n->node->relative)
            p[j] += n->w[0][offset_of(n, h, i, j)];
        top = fmax(top, p[j]);
    }
    for (size_t j = 0; j < seen; j++)
        z += exp(p[j] - top);
    for (size_t j = 0; j < seen; j++)
        p[j] = exp(p[j] - top) / z;
}

static void attention_forward(const struct reference_node *n)
{
    size_t c = (size_t)n->out.channels;
    for (size_t index = 0; index < n->samples * (size_t)n->node->heads; index++) {
        struct head h = head_of(n, index);
        double *p = reference_zeros(h.keys);
        for (size_t i = 0; i < h.queries; i++) {
            attend(n, &h, p, i);
            for (size_t j = 0; j < h.keys; j++)
                for (size_t d = 0; d < h.depth; d++)
                    n->y[h.out + i * c + d] += p[j] * n->x[1][h.v + j * h.ldk + d];
        }
        free(p);
    }
}

static void attention_query_grad(const struct reference_node *n, const struct head *h, size_t i)
{
    const double *dout = n->dy + h->out + i * (size_t)n->out.channels;
    double *p = reference_zeros(h->keys), *dp = reference_zeros(h->keys), mean = 0.0;
    attend(n, h, p, i);
    for (size_t j = 0; j < h->keys; j++) {
        for (size_t d = 0; d < h->depth; d++) {
            dp[j] += dout[d] * n->x[1][h->v + j * h->ldk + d];
            n->dx[1][h->v + j * h->ldk + d] += p[j] * dout[d];
        }
        mean += p[j] * dp[j];
    }
    for (size_t j = 0; j < h->keys; j++) {
        double g = p[j] * (dp[j] - mean), ds = g / sqrt((double)h->depth);
        if (n->node->relative && (j <= i || !h->causal))
            n->g[0][offset_of(n, h, i, j)] += g;
        for (size_t d = 0; d < h->depth; d++) {
            size_t q = h->q + i * h->ldq + d, k = h->k + j * h->ldk + d;
            n->dx[0][q] += ds * n->x[1][k];
            n->dx[1][k] += ds * n->x[0][q];
        }
    }
    free(p);
    free(dp);
}

static void attention_backward(const struct reference_node *n)
{
    for (size_t index = 0; index < n->samples * (size_t)n->node->heads; index++) {
        struct head h = head_of(n, index);
        for (size_t i = 0; i < h.queries; i++)
            attention_query_grad(n, &h, i);
    }
}

/* y += x, the pairs of heads that turn turned by `sign` times their angles. */
static void turn(const struct reference_node *n, double *y, const double *x, double sign)
{
    size_t cols = (size_t)n->out.channels, length = np_shape_rows(n->out);
    size_t width = cols / (size_t)n->node->heads, half = width / 2;
    for (size_t e = 0; e < count_of(n); e++) {
        size_t i = e % cols % width, pair = i % half;
        double step = pow((double)n->node->base, -2.0 * (double)pair / (double)width);
        double angle = (double)(e / cols % length) * step * sign;
        if (e % cols >= width * (size_t)n->node->first)
            y[e] += x[e];
        else if (i < half)
            y[e] += x[e] * cos(angle) - x[e + half] * sin(angle);
        else
            y[e] += x[e] * cos(angle) + x[e - half] * sin(angle);
    }
}

static void rotate_forward(const struct reference_node *n)
{
    turn(n, n->y, n->x[0], 1.0);
}

static void rotate_backward(const struct reference_node *n)
{
    turn(n, n->dx[0], n->dy, -1.0);
}

const struct reference_op reference_rotate = {rotate_forward, rotate_backward};

/* The element that element e of the output repeats. */
static size_t repeated(const struct reference_node *n, size_t e)
{
    size_t cols = (size_t)n->out.channels, few = (size_t)n->in[0].channels;
    size_t width = few / (size_t)n->node->heads, c = e % cols;
    return e / cols * few + c / width / (cols / few) * width + c % width;
}

static void repeat_forward(const struct reference_node *n)
{
    for (size_t e = 0; e < count_of(n); e++)
        n->y[e] = n->x[0][repeated(n, e)];
}

static void repeat_backward(const struct reference_node *n)
{
    for (size_t e = 0; e < count_of(n); e++)
        n->dx[0][repeated(n, e)] += n->dy[e];
}

const struct reference_op reference_repeat = {repeat_forward, repeat_backward};
const struct reference_op reference_attention = {attention_forward, attention_backward};

static void global_forward(const struct reference_node *n)
{
    size_t c = (size_t)n->out.channels, rows = np_shape_rows(n->in[0]);
    for (size_t i = 0; i < n->samples * rows * c; i++)
        n->y[i / (rows * c) * c + i % c] += n->x[0][i] / (double)rows;
}

static void global_backward(const struct reference_node *n)
{
    size_t c = (size_t)n->out.channels, rows = np_shape_rows(n->in[0]);
    for (size_t i = 0; i < n->samples * rows * c; i++)
        n->dx[0][i] += n->dy[i / (rows * c) * c + i % c] / (double)rows;
}

const struct reference_op reference_global_pool = {global_forward, global_backward};

/* Of each sample one number a channel, or one for every value. */
static size_t scale_at(const struct reference_node *n, size_t i)
{
    size_t c = (size_t)n->out.channels;
    return np_shape_equal(n->in[1], n->out) ? i : i / np_shape_floats(n->out) * c + i % c;
}

static void scale_forward(const struct reference_node *n)
{
    for (size_t i = 0; i < count_of(n); i++)
        n->y[i] = n->x[0][i] * n->x[1][scale_at(n, i)];
}

static void scale_backward(const struct reference_node *n)
{
    for (size_t i = 0; i < count_of(n); i++) {
        n->dx[0][i] += n->dy[i] * n->x[1][scale_at(n, i)];
        n->dx[1][scale_at(n, i)] += n->dy[i] * n->x[0][i];
    }
}

const struct reference_op reference_scale = {scale_forward, scale_backward};

/* The element of in[0] that element i of a slice is. */
static size_t sliced(const struct reference_node *n, size_t i)
{
    size_t c = (size_t)n->out.channels;
    return i / c * (size_t)n->in[0].channels + (size_t)n->node->first + i % c;
}

static void slice_forward(const struct reference_node *n)
{
    for (size_t i = 0; i < count_of(n); i++)
        n->y[i] = n->x[0][sliced(n, i)];
}

static void slice_backward(const struct reference_node *n)
{
    for (size_t i = 0; i < count_of(n); i++)
        n->dx[0][sliced(n, i)] += n->dy[i];
}

const struct reference_op reference_slice = {slice_forward, slice_backward};

static void widen_forward(const struct reference_node *n)
{
    size_t few = (size_t)n->in[0].channels, all = (size_t)n->out.channels;
    for (size_t r = 0; r < n->samples * np_shape_rows(n->out); r++)
        for (size_t c = 0; c < all; c++)
            n->y[r * all + c] = c < few ? n->x[0][r * few + c] : 0.0;
}

static void widen_backward(const struct reference_node *n)
{
    size_t few = (size_t)n->in[0].channels, all = (size_t)n->out.channels;
    for (size_t r = 0; r < n->samples * np_shape_rows(n->out); r++)
        for (size_t c = 0; c < few; c++)
            n->dx[0][r * few + c] += n->dy[r * all + c];
}

const struct reference_op reference_widen = {widen_forward, widen_backward};

/* Where element i of a merge comes from: input *k, element of it. */
static size_t merged(const struct reference_node *n, size_t i, int *k)
{
    size_t na = (size_t)n->in[0].channels, nb = (size_t)n->in[1].channels;
    size_t row = i / (na + nb), c = i % (na + nb);
    *k = n->node->interleave ? (int)(c % 2) : c >= na;
    if (n->node->interleave)
        return row * na + c / 2;
    return *k ? row * nb + c - na : row * na + c;
}

static void merge_forward(const struct reference_node *n)
{
    for (size_t i = 0; i < count_of(n); i++) {
        int k;
        size_t from = merged(n, i, &k);
        n->y[i] = n->x[k][from];
    }
}

static void merge_backward(const struct reference_node *n)
{
    for (size_t i = 0; i < count_of(n); i++) {
        int k;
        size_t from = merged(n, i, &k);
        n->dx[k][from] += n->dy[i];
    }
}

const struct reference_op reference_merge = {merge_forward, merge_backward};

/* What element i is multiplied by: its own draw, or its sample's. */
static double kept(const struct reference_node *n, size_t i)
{
    const struct reference_call *call = n->call;
    bool path = n->node->op == NP_NODE_DROP_PATH;
    struct np_draw_key key = np_draw_key(call->seed, path ? NP_DRAW_PATH : NP_DRAW_DROPOUT,
                                         call->member, call->layer, (uint32_t)n->number);
    size_t each = np_shape_floats(n->out);
    uint64_t element = path ? call->first + i / each : call->first * each + i;
    double drawn = (double)np_draw(key, call->step, element / 4).w[element % 4] * 0x1p-32;
    if (!call->train)
        return 1.0;
    return drawn < (double)n->node->drop ? 0.0 : 1.0 / (1.0 - (double)n->node->drop);
}

static void drop_forward(const struct reference_node *n)
{
    for (size_t i = 0; i < count_of(n); i++)
        n->y[i] = n->x[0][i] * kept(n, i);
}

static void drop_backward(const struct reference_node *n)
{
    for (size_t i = 0; i < count_of(n); i++)
        n->dx[0][i] += n->dy[i] * kept(n, i);
}

const struct reference_op reference_dropout = {drop_forward, drop_backward};
const struct reference_op reference_drop_path = {drop_forward, drop_backward};
