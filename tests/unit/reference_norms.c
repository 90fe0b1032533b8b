/* Norms in double; see reference.h. They differ only in which elements share a mean; RMS norm has
 * none, and no beta. */
#include <math.h>
#include <stdlib.h>

#include "ops/op.h"
#include "reference.h"

/* The set that element i belongs to, of `sets`. */
struct sets {
    const struct reference_node *n;
    size_t count, elements;
    double *mean, *rstd, *size;
};

static size_t set_of(const struct reference_node *n, size_t i)
{
    size_t c = (size_t)n->out.channels, each = np_shape_floats(n->out);
    size_t groups = n->node->groups > 0 ? (size_t)n->node->groups : 1;
    switch (n->node->op) {
    case NP_NODE_LAYER_NORM:
    case NP_NODE_RMS_NORM:
        return i / c;
    case NP_NODE_BATCH_NORM:
        return i % c;
    default:
        return i / each * groups + i % c / (c / groups);
    }
}

static bool has_mean(const struct reference_node *n)
{
    return n->node->op != NP_NODE_RMS_NORM;
}

static void sets_init(struct sets *s, const struct reference_node *n)
{
    const double *fixed = n->node->op == NP_NODE_BATCH_NORM ? n->call->fixed : NULL;
    s->n = n;
    s->elements = n->samples * np_shape_floats(n->out);
    s->count = s->elements;
    s->mean = reference_zeros(s->count);
    s->rstd = reference_zeros(s->count);
    s->size = reference_zeros(s->count);
    for (size_t i = 0; i < s->elements; i++)
        s->size[set_of(n, i)] += 1.0;
    for (size_t i = 0; i < s->elements && has_mean(n); i++)
        s->mean[set_of(n, i)] += n->x[0][i] / s->size[set_of(n, i)];
    for (int c = 0; fixed && c < n->out.channels; c++)
        s->mean[c] = fixed[n->node->first + c];
    for (size_t i = 0; i < s->elements; i++) {
        size_t set = set_of(n, i);
        s->rstd[set] += pow(n->x[0][i] - s->mean[set], 2.0) / s->size[set];
    }
    for (int c = 0; fixed && c < n->out.channels; c++)
        s->rstd[c] = fixed[n->node->first + n->out.channels + c];
    for (size_t i = 0; i < s->count; i++)
        s->rstd[i] = 1.0 / sqrt(s->rstd[i] + (double)NP_NORM_EPS);
}

static void sets_clear(struct sets *s)
{
    free(s->mean);
    free(s->rstd);
    free(s->size);
}

static double normal_of(const struct sets *s, size_t i)
{
    size_t set = set_of(s->n, i);
    return (s->n->x[0][i] - s->mean[set]) * s->rstd[set];
}

/* What goes into the activation; norms of rows have none. */
static double affine_of(const struct sets *s, size_t i)
{
    size_t c = i % (size_t)s->n->out.channels;
    return normal_of(s, i) * s->n->w[0][c] + (has_mean(s->n) ? s->n->w[1][c] : 0.0);
}

static void forward(const struct reference_node *n)
{
    struct sets s;
    sets_init(&s, n);
    for (size_t i = 0; i < s.elements; i++)
        n->y[i] = reference_activate(n->node->act, affine_of(&s, i));
    sets_clear(&s);
}

static void backward(const struct reference_node *n)
{
    size_t c = (size_t)n->out.channels;
    struct sets s;
    double *a, *b;
    sets_init(&s, n);
    a = reference_zeros(s.count);
    b = reference_zeros(s.count);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < s.elements; i++) {
            size_t set = set_of(n, i);
            double du = n->dy[i] * reference_slope(n->node->act, affine_of(&s, i));
            double t = du * n->w[0][i % c], h = normal_of(&s, i);
            if (pass == 0) {
                n->g[0][i % c] += du * h;
                if (has_mean(n)) {
                    n->g[1][i % c] += du;
                    a[set] += t / s.size[set];
                }
                b[set] += t * h / s.size[set];
            } else {
                n->dx[0][i] += s.rstd[set] * (t - a[set] - h * b[set]);
            }
        }
    }
    free(a);
    free(b);
    sets_clear(&s);
}

const struct reference_op reference_layer_norm = {forward, backward};
const struct reference_op reference_rms_norm = {forward, backward};
const struct reference_op reference_batch_norm = {forward, backward};
const struct reference_op reference_group_norm = {forward, backward};
