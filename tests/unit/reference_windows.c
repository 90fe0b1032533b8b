/* Convolutions and pools in double; see reference.h. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"

/* One tap of one output position: where it reads, and what it is numbered. */
struct tap {
    size_t x, y; /* rows: of the input, of the output */
    size_t tap;
};

typedef void visit(const struct reference_node *n, const struct tap *tap, void *context);

/* Every tap that falls inside, taps ascending for each output row. */
static void each_tap(const struct reference_node *n, visit *visit_tap, void *context)
{
    const struct np_window *w = &n->node->window;
    size_t outputs = np_shape_rows(n->out), inputs = np_shape_rows(n->in[0]);
    for (size_t row = 0; row < n->samples * outputs; row++) {
        int oh = (int)(row % outputs) / n->out.width, ow = (int)(row % outputs) % n->out.width;
        for (int kh = 0; kh < w->kernel_height; kh++) {
            for (int kw = 0; kw < w->kernel_width; kw++) {
                int h = oh * w->stride_height + kh * w->dilation - w->pad_top;
                int v = ow * w->stride_width + kw * w->dilation - w->pad_left;
                struct tap tap = {0, row, (size_t)(kh * w->kernel_width + kw)};
                if (h < 0 || v < 0 || h >= n->in[0].height || v >= n->in[0].width)
                    continue;
                tap.x = row / outputs * inputs + (size_t)(h * n->in[0].width + v);
                visit_tap(n, &tap, context);
            }
        }
    }
}

static size_t columns(struct np_shape shape)
{
    return (size_t)shape.channels;
}

/* u, what the activation reads: convolution and bias. */
static void conv_tap(const struct reference_node *n, const struct tap *tap, void *context)
{
    double *u = context;
    size_t c = columns(n->in[0]), to = columns(n->out);
    size_t groups = n->node->groups > 0 ? (size_t)n->node->groups : 1;
    size_t depth = c / groups, width = to / groups;
    for (size_t j = 0; j < to; j++)
        for (size_t i = 0; i < depth; i++)
            u[tap->y * to + j] += n->x[0][tap->x * c + j / width * depth + i] *
                                  n->w[0][(tap->tap * depth + i) * to + j];
}

static double *conv_sum(const struct reference_node *n, visit *visit_tap)
{
    size_t to = columns(n->out), count = n->samples * np_shape_floats(n->out);
    double *u = reference_zeros(count);
    for (size_t i = 0; n->node->bias && i < count; i++)
        u[i] = n->w[1][i % to];
    each_tap(n, visit_tap, u);
    return u;
}

static void conv_forward(const struct reference_node *n)
{
    double *u = conv_sum(n, conv_tap);
    for (size_t i = 0; i < n->samples * np_shape_floats(n->out); i++)
        n->y[i] = reference_activate(n->node->act, u[i]);
    free(u);
}

static void conv_tap_grad(const struct reference_node *n, const struct tap *tap, void *context)
{
    const double *du = context;
    size_t c = columns(n->in[0]), to = columns(n->out);
    size_t groups = n->node->groups > 0 ? (size_t)n->node->groups : 1;
    size_t depth = c / groups, width = to / groups;
    for (size_t j = 0; j < to; j++) {
        for (size_t i = 0; i < depth; i++) {
            size_t x = tap->x * c + j / width * depth + i, w = (tap->tap * depth + i) * to + j;
            n->dx[0][x] += du[tap->y * to + j] * n->w[0][w];
            n->g[0][w] += n->x[0][x] * du[tap->y * to + j];
        }
    }
}

static void conv_backward(const struct reference_node *n)
{
    size_t to = columns(n->out), count = n->samples * np_shape_floats(n->out);
    double *u = conv_sum(n, conv_tap);
    for (size_t i = 0; i < count; i++) {
        u[i] = n->dy[i] * reference_slope(n->node->act, u[i]);
        if (n->node->bias)
            n->g[1][i % to] += u[i];
    }
    each_tap(n, conv_tap_grad, u);
    free(u);
}

const struct reference_op reference_conv = {conv_forward, conv_backward};

/* Depthwise, with a kernel [taps][C]. */
struct depthwise {
    const double *w;
    double *u, *dw;
    const double *du;
};

static void depth_tap(const struct reference_node *n, const struct tap *tap, void *context)
{
    const struct depthwise *d = context;
    size_t c = columns(n->in[0]);
    for (size_t i = 0; i < c; i++)
        d->u[tap->y * c + i] += n->x[0][tap->x * c + i] * d->w[tap->tap * c + i];
}

static void depth_tap_grad(const struct reference_node *n, const struct tap *tap, void *context)
{
    const struct depthwise *d = context;
    size_t c = columns(n->in[0]);
    for (size_t i = 0; i < c; i++) {
        n->dx[0][tap->x * c + i] += d->du[tap->y * c + i] * d->w[tap->tap * c + i];
        d->dw[tap->tap * c + i] += n->x[0][tap->x * c + i] * d->du[tap->y * c + i];
    }
}

static void dwconv_forward(const struct reference_node *n)
{
    struct depthwise d = {.w = n->w[0], .u = n->y};
    size_t c = columns(n->out);
    for (size_t i = 0; i < n->samples * np_shape_floats(n->out); i++)
        n->y[i] = n->node->bias ? n->w[1][i % c] : 0.0;
    each_tap(n, depth_tap, &d);
}

static void dwconv_backward(const struct reference_node *n)
{
    struct depthwise d = {.w = n->w[0], .dw = n->g[0], .du = n->dy};
    size_t c = columns(n->out);
    for (size_t i = 0; n->node->bias && i < n->samples * np_shape_floats(n->out); i++)
        n->g[1][i % c] += n->dy[i];
    each_tap(n, depth_tap_grad, &d);
}

const struct reference_op reference_dwconv = {dwconv_forward, dwconv_backward};

static size_t taps_of(const struct reference_node *n)
{
    return (size_t)(n->node->window.kernel_height * n->node->window.kernel_width);
}

/* The kernel [taps][C] from the logits [heads][taps]. */
static double *light_kernel(const struct reference_node *n)
{
    size_t c = columns(n->in[0]), taps = taps_of(n), heads = (size_t)n->node->heads;
    double *w = reference_zeros(taps * c);
    for (size_t i = 0; i < c; i++) {
        const double *logits = n->w[0] + i * heads / c * taps;
        double z = 0.0;
        for (size_t tap = 0; tap < taps; tap++)
            z += exp(logits[tap]);
        for (size_t tap = 0; tap < taps; tap++)
            w[tap * c + i] = exp(logits[tap]) / z;
    }
    return w;
}

static void light_forward(const struct reference_node *n)
{
    double *w = light_kernel(n);
    struct depthwise d = {.w = w, .u = n->y};
    each_tap(n, depth_tap, &d);
    free(w);
}

static void light_backward(const struct reference_node *n)
{
    size_t c = columns(n->in[0]), taps = taps_of(n), heads = (size_t)n->node->heads;
    double *w = light_kernel(n), *dw = reference_zeros(taps * c);
    struct depthwise d = {.w = w, .dw = dw, .du = n->dy};
    each_tap(n, depth_tap_grad, &d);
    for (size_t i = 0; i < c; i++) {
        double *dlogits = n->g[0] + i * heads / c * taps, mean = 0.0;
        for (size_t tap = 0; tap < taps; tap++)
            mean += w[tap * c + i] * dw[tap * c + i];
        for (size_t tap = 0; tap < taps; tap++)
            dlogits[tap] += w[tap * c + i] * (dw[tap * c + i] - mean);
    }
    free(w);
    free(dw);
}

const struct reference_op reference_light = {light_forward, light_backward};

/* The best input row of every output element so far. */
struct best {
    double *value;
    size_t *row;
};

static void max_tap(const struct reference_node *n, const struct tap *tap, void *context)
{
    struct best *best = context;
    size_t c = columns(n->in[0]);
    for (size_t i = 0; i < c; i++) {
        if (n->x[0][tap->x * c + i] <= best->value[tap->y * c + i])
            continue;
        best->value[tap->y * c + i] = n->x[0][tap->x * c + i];
        best->row[tap->y * c + i] = tap->x;
    }
}

static void find_best(const struct reference_node *n, struct best *best)
{
    size_t count = n->samples * np_shape_floats(n->out);
    best->value = reference_zeros(count);
    best->row = calloc(count + 1, sizeof *best->row);
    if (!best->row)
        abort();
    for (size_t i = 0; i < count; i++)
        best->value[i] = -DBL_MAX;
    each_tap(n, max_tap, best);
}

static void max_forward(const struct reference_node *n)
{
    struct best best;
    find_best(n, &best);
    memcpy(n->y, best.value, n->samples * np_shape_floats(n->out) * sizeof *n->y);
    free(best.value);
    free(best.row);
}

static void max_backward(const struct reference_node *n)
{
    size_t c = columns(n->in[0]);
    struct best best;
    find_best(n, &best);
    for (size_t i = 0; i < n->samples * np_shape_floats(n->out); i++)
        n->dx[0][best.row[i] * c + i % c] += n->dy[i];
    free(best.value);
    free(best.row);
}

const struct reference_op reference_max_pool = {max_forward, max_backward};

static void count_tap(const struct reference_node *n, const struct tap *tap, void *context)
{
    (void)n;
    ((double *)context)[tap->y] += 1.0;
}

struct average {
    double *count; /* positions of each window */
};

static void avg_tap(const struct reference_node *n, const struct tap *tap, void *context)
{
    const double *count = ((struct average *)context)->count;
    size_t c = columns(n->in[0]);
    for (size_t i = 0; i < c; i++)
        n->y[tap->y * c + i] += n->x[0][tap->x * c + i] / count[tap->y];
}

static void avg_tap_grad(const struct reference_node *n, const struct tap *tap, void *context)
{
    const double *count = ((struct average *)context)->count;
    size_t c = columns(n->in[0]);
    for (size_t i = 0; i < c; i++)
        n->dx[0][tap->x * c + i] += n->dy[tap->y * c + i] / count[tap->y];
}

static void average(const struct reference_node *n, visit *visit_tap)
{
    struct average a = {reference_zeros(n->samples * np_shape_rows(n->out))};
    each_tap(n, count_tap, a.count);
    each_tap(n, visit_tap, &a);
    free(a.count);
}

static void avg_forward(const struct reference_node *n)
{
    average(n, avg_tap);
}

static void avg_backward(const struct reference_node *n)
{
    average(n, avg_tap_grad);
}

const struct reference_op reference_avg_pool = {avg_forward, avg_backward};
