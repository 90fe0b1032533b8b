/* Where networks begin and end, in double; see reference.h. */
#include <math.h>

#include "reference.h"

static size_t count_of(const struct reference_node *n)
{
    return n->samples * np_shape_floats(n->out);
}

static void nothing(const struct reference_node *n)
{
    (void)n;
}

const struct reference_op reference_zero = {nothing, nothing}; /* values begin as zeros */

static void positions_forward(const struct reference_node *n)
{
    for (size_t i = 0; i < count_of(n); i++)
        n->y[i] = n->x[0][i] + n->w[0][i % np_shape_floats(n->out)];
}

static void positions_backward(const struct reference_node *n)
{
    for (size_t i = 0; i < count_of(n); i++) {
        n->dx[0][i] += n->dy[i];
        n->g[0][i % np_shape_floats(n->out)] += n->dy[i];
    }
}

const struct reference_op reference_positions = {positions_forward, positions_backward};

static void image_forward(const struct reference_node *n)
{
    for (size_t i = 0; i < count_of(n); i++)
        n->y[i] = (double)n->call->images[i];
}

const struct reference_op reference_image = {image_forward, nothing};

/* The element of the token's row that element i is. */
static size_t token_at(const struct reference_node *n, size_t i)
{
    const int32_t *tokens = n->node->source ? n->call->source : n->call->tokens;
    size_t c = (size_t)n->out.channels;
    return (size_t)tokens[i / c] * c + i % c;
}

static void embed_forward(const struct reference_node *n)
{
    size_t each = np_shape_floats(n->out);
    for (size_t i = 0; i < count_of(n); i++)
        n->y[i] = n->w[0][token_at(n, i)] + (n->node->bias ? n->w[1][i % each] : 0.0);
}

static void embed_backward(const struct reference_node *n)
{
    size_t each = np_shape_floats(n->out);
    for (size_t i = 0; i < count_of(n); i++) {
        n->g[0][token_at(n, i)] += n->dy[i];
        if (n->node->bias)
            n->g[1][i % each] += n->dy[i];
    }
}

const struct reference_op reference_embed = {embed_forward, embed_backward};

/* log of the sum of a row's exponentials */
static double log_sum(const double *logits, size_t classes)
{
    double top = -INFINITY, z = 0.0;
    for (size_t v = 0; v < classes; v++)
        top = fmax(top, logits[v]);
    for (size_t v = 0; v < classes; v++)
        z += exp(logits[v] - top);
    return top + log(z);
}

static double target_of(const struct reference_node *n, size_t row, size_t v)
{
    double off = n->call->smoothing / (double)n->in[0].channels;
    return (size_t)n->call->targets[row] == v ? 1.0 - n->call->smoothing + off : off;
}

/* Of a row without a target both are 0. */
static double counts(const struct reference_node *n, size_t row)
{
    return n->call->targets[row] >= 0;
}

/* y: one loss a row */
static void xent_forward(const struct reference_node *n)
{
    size_t classes = (size_t)n->in[0].channels;
    for (size_t r = 0; r < n->samples * np_shape_rows(n->in[0]); r++) {
        const double *logits = n->x[0] + r * classes;
        double z = log_sum(logits, classes);
        n->y[r] = 0.0;
        for (size_t v = 0; v < classes; v++) {
            n->y[r] += counts(n, r) * target_of(n, r, v) * (z - logits[v]);
            if (n->call->soft && n->call->member == 0)
                n->call->soft[r * classes + v] = exp(logits[v] - z);
        }
    }
}

static void xent_backward(const struct reference_node *n)
{
    size_t classes = (size_t)n->in[0].channels;
    double learns = n->call->soft && n->call->member > 0 ? n->call->distill : 0;
    for (size_t r = 0; r < n->samples * np_shape_rows(n->in[0]); r++) {
        const double *logits = n->x[0] + r * classes;
        double z = log_sum(logits, classes);
        for (size_t v = 0; v < classes; v++) {
            double target = (1 - learns) * target_of(n, r, v);
            target += learns > 0 ? learns * n->call->soft[r * classes + v] : 0;
            n->dx[0][r * classes + v] +=
                counts(n, r) * (exp(logits[v] - z) - target) * n->call->scale;
        }
    }
}

const struct reference_op reference_xent = {xent_forward, xent_backward};
