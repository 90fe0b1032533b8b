/* The branches of candidates in double; see reference.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"

/* Shapes of a call, and its tensors' weights and gradients by index. */
struct layer {
    const struct np_kind *kind;
    size_t rows, samples, length, width, heads, taps;
    const double *w[NP_MAX_TENSORS];
    double *g[NP_MAX_TENSORS];
};

static struct layer layer_of(const struct reference_call *call, double *g)
{
    const struct np_kind *kind = call->kind;
    struct layer l = {.kind = kind,
                      .rows = call->samples * kind->length,
                      .samples = call->samples,
                      .length = kind->length,
                      .width = kind->width,
                      .heads = (size_t)kind->spec.heads,
                      .taps = (size_t)kind->spec.kernel};
    for (int i = 0; i < kind->tensor_count; i++) {
        l.w[i] = call->w + kind->tensors[i].offset;
        l.g[i] = g ? g + kind->tensors[i].offset : NULL;
    }
    return l;
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double act(enum np_act kind, double u)
{
    if (kind == NP_ACT_RELU)
        return u > 0.0 ? u : 0.0;
    if (kind == NP_ACT_GELU)
        return 0.5 * u * (1.0 + erf(u / sqrt(2.0)));
    return u * sigmoid(u);
}

static double act_slope(enum np_act kind, double u)
{
    double s = sigmoid(u);
    if (kind == NP_ACT_RELU)
        return u > 0.0 ? 1.0 : 0.0;
    if (kind == NP_ACT_GELU)
        return 0.5 * (1.0 + erf(u / sqrt(2.0))) + u * exp(-0.5 * u * u) / sqrt(2.0 * acos(-1.0));
    return s * (1.0 + u * (1.0 - s));
}

/* Attention weights of query i over keys 0..i; q, k point at the head's columns of sample row 0. */
static void attend(double *p, const double *q, const double *k, size_t i, size_t depth,
                   size_t stride)
{
    double top = -INFINITY, z = 0.0;
    for (size_t j = 0; j <= i; j++) {
        p[j] = 0.0;
        for (size_t d = 0; d < depth; d++)
            p[j] += q[i * stride + d] * k[j * stride + d] / sqrt((double)depth);
        top = fmax(top, p[j]);
    }
    for (size_t j = 0; j <= i; j++)
        z += exp(p[j] - top);
    for (size_t j = 0; j <= i; j++)
        p[j] = exp(p[j] - top) / z;
}

static void attention(const struct layer *l, double *out, const double *qkv)
{
    size_t depth = l->width / l->heads, stride = 3 * l->width;
    double *p = reference_zeros(l->length);
    memset(out, 0, l->rows * l->width * sizeof *out);
    for (size_t b = 0; b < l->samples * l->heads; b++) {
        const double *q = qkv + b / l->heads * l->length * stride + b % l->heads * depth;
        double *o = out + b / l->heads * l->length * l->width + b % l->heads * depth;
        for (size_t i = 0; i < l->length; i++) {
            attend(p, q, q + l->width, i, depth, stride);
            for (size_t j = 0; j <= i; j++)
                for (size_t d = 0; d < depth; d++)
                    o[i * l->width + d] += p[j] * q[j * stride + 2 * l->width + d];
        }
    }
    free(p);
}

/* One query's share of a head's gradients: dq has q's layout. */
static void attend_grad(const struct layer *l, double *dq, const double *q, const double *dout,
                        const double *p, size_t i)
{
    size_t depth = l->width / l->heads, stride = 3 * l->width, c = l->width;
    double mean = 0.0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t j = 0; j <= i; j++) {
            double dp = 0.0, ds;
            for (size_t d = 0; d < depth; d++)
                dp += dout[d] * q[j * stride + 2 * c + d];
            if (pass == 0) {
                mean += p[j] * dp;
                continue;
            }
            ds = p[j] * (dp - mean) / sqrt((double)depth);
            for (size_t d = 0; d < depth; d++) {
                dq[i * stride + d] += ds * q[j * stride + c + d];
                dq[j * stride + c + d] += ds * q[i * stride + d];
                dq[j * stride + 2 * c + d] += p[j] * dout[d];
            }
        }
    }
}

static void attention_grad(const struct layer *l, double *dqkv, const double *qkv,
                           const double *dout)
{
    size_t depth = l->width / l->heads, stride = 3 * l->width;
    double *p = reference_zeros(l->length);
    for (size_t b = 0; b < l->samples * l->heads; b++) {
        size_t at = b / l->heads * l->length * stride + b % l->heads * depth;
        const double *d = dout + b / l->heads * l->length * l->width + b % l->heads * depth;
        for (size_t i = 0; i < l->length; i++) {
            attend(p, qkv + at, qkv + at + l->width, i, depth, stride);
            attend_grad(l, dqkv + at, qkv + at, d + i * l->width, p, i);
        }
    }
    free(p);
}

static void mha_forward(const struct layer *l, double *r, const double *xn)
{
    double *qkv = reference_zeros(l->rows * 3 * l->width), *o = reference_zeros(l->rows * l->width);
    reference_linear(qkv, xn, l->w[2], l->w[3], l->rows, l->width, 3 * l->width);
    attention(l, o, qkv);
    reference_linear(r, o, l->w[4], l->w[5], l->rows, l->width, l->width);
    free(qkv);
    free(o);
}

static void mha_backward(const struct layer *l, double *dxn, const double *xn, const double *dr)
{
    size_t c = l->width;
    double *qkv = reference_zeros(l->rows * 3 * c), *dqkv = reference_zeros(l->rows * 3 * c);
    double *o = reference_zeros(l->rows * c), *dout = reference_zeros(l->rows * c);
    reference_linear(qkv, xn, l->w[2], l->w[3], l->rows, c, 3 * c);
    attention(l, o, qkv);
    reference_linear_grad(dout, l->g[4], l->g[5], o, dr, l->w[4], l->rows, c, c);
    attention_grad(l, dqkv, qkv, dout);
    reference_linear_grad(dxn, l->g[2], l->g[3], xn, dqkv, l->w[2], l->rows, c, 3 * c);
    free(qkv);
    free(dqkv);
    free(o);
    free(dout);
}

static void ffn_forward(const struct layer *l, double *r, const double *xn)
{
    size_t n = l->width * (size_t)l->kind->spec.ratio;
    double *u = reference_zeros(l->rows * n);
    reference_linear(u, xn, l->w[2], l->w[3], l->rows, l->width, n);
    for (size_t i = 0; i < l->rows * n; i++)
        u[i] = act(l->kind->spec.act, u[i]);
    reference_linear(r, u, l->w[4], l->w[5], l->rows, n, l->width);
    free(u);
}

static void ffn_backward(const struct layer *l, double *dxn, const double *xn, const double *dr)
{
    size_t n = l->width * (size_t)l->kind->spec.ratio;
    double *u = reference_zeros(l->rows * n), *h = reference_zeros(l->rows * n);
    double *du = reference_zeros(l->rows * n);
    reference_linear(u, xn, l->w[2], l->w[3], l->rows, l->width, n);
    for (size_t i = 0; i < l->rows * n; i++)
        h[i] = act(l->kind->spec.act, u[i]);
    reference_linear_grad(du, l->g[4], l->g[5], h, dr, l->w[4], l->rows, n, l->width);
    for (size_t i = 0; i < l->rows * n; i++)
        du[i] *= act_slope(l->kind->spec.act, u[i]);
    reference_linear_grad(dxn, l->g[2], l->g[3], xn, du, l->w[2], l->rows, l->width, n);
    free(u);
    free(h);
    free(du);
}

static void glu_forward(const struct layer *l, double *r, const double *xn)
{
    size_t c = l->width;
    double *u = reference_zeros(l->rows * 2 * c);
    reference_linear(u, xn, l->w[2], l->w[3], l->rows, c, 2 * c);
    for (size_t i = 0; i < l->rows * c; i++)
        r[i] = u[i / c * 2 * c + i % c] * sigmoid(u[i / c * 2 * c + c + i % c]);
    free(u);
}

static void glu_backward(const struct layer *l, double *dxn, const double *xn, const double *dr)
{
    size_t c = l->width;
    double *u = reference_zeros(l->rows * 2 * c), *du = reference_zeros(l->rows * 2 * c);
    reference_linear(u, xn, l->w[2], l->w[3], l->rows, c, 2 * c);
    for (size_t i = 0; i < l->rows * c; i++) {
        size_t a = i / c * 2 * c + i % c;
        double s = sigmoid(u[a + c]);
        du[a] = dr[i] * s;
        du[a + c] = dr[i] * u[a] * s * (1.0 - s);
    }
    reference_linear_grad(dxn, l->g[2], l->g[3], xn, du, l->w[2], l->rows, c, 2 * c);
    free(u);
    free(du);
}

/* The row of x that tap `tap` of row r reads; false before the sample's first row. */
static bool tap_row(const struct layer *l, size_t *from, size_t r, size_t tap)
{
    size_t back = l->taps - 1 - tap;
    *from = r - back;
    return r % l->length >= back;
}

static void conv1d_forward(const struct layer *l, double *r, const double *xn)
{
    size_t c = l->width, from;
    for (size_t row = 0; row < l->rows; row++) {
        memcpy(r + row * c, l->w[3], c * sizeof *r);
        for (size_t tap = 0; tap < l->taps; tap++)
            if (tap_row(l, &from, row, tap))
                for (size_t i = 0; i < c * c; i++)
                    r[row * c + i % c] += xn[from * c + i / c] * l->w[2][tap * c * c + i];
    }
}

static void conv1d_backward(const struct layer *l, double *dxn, const double *xn, const double *dr)
{
    size_t c = l->width, from;
    for (size_t row = 0; row < l->rows; row++) {
        for (size_t o = 0; o < c; o++)
            l->g[3][o] += dr[row * c + o];
        for (size_t tap = 0; tap < l->taps; tap++) {
            if (!tap_row(l, &from, row, tap))
                continue;
            for (size_t i = 0; i < c * c; i++) {
                dxn[from * c + i / c] += dr[row * c + i % c] * l->w[2][tap * c * c + i];
                l->g[2][tap * c * c + i] += xn[from * c + i / c] * dr[row * c + i % c];
            }
        }
    }
}

/* Depthwise convolution with w [taps][C]; its gradients are added to. */
static void depthwise(const struct layer *l, double *y, const double *x, const double *w)
{
    size_t c = l->width, from;
    memset(y, 0, l->rows * c * sizeof *y);
    for (size_t row = 0; row < l->rows; row++)
        for (size_t tap = 0; tap < l->taps; tap++)
            if (tap_row(l, &from, row, tap))
                for (size_t i = 0; i < c; i++)
                    y[row * c + i] += x[from * c + i] * w[tap * c + i];
}

static void depthwise_grad(const struct layer *l, double *dx, double *dw, const double *x,
                           const double *dy, const double *w)
{
    size_t c = l->width, from;
    for (size_t row = 0; row < l->rows; row++) {
        for (size_t tap = 0; tap < l->taps; tap++) {
            if (!tap_row(l, &from, row, tap))
                continue;
            for (size_t i = 0; i < c; i++) {
                dx[from * c + i] += dy[row * c + i] * w[tap * c + i];
                dw[tap * c + i] += x[from * c + i] * dy[row * c + i];
            }
        }
    }
}

static void add_bias(const struct layer *l, double *y, const double *bias)
{
    for (size_t i = 0; i < l->rows * l->width; i++)
        y[i] += bias[i % l->width];
}

static void sepconv1d_forward(const struct layer *l, double *r, const double *xn)
{
    double *h = reference_zeros(l->rows * l->width);
    depthwise(l, h, xn, l->w[2]);
    add_bias(l, h, l->w[3]);
    reference_linear(r, h, l->w[4], l->w[5], l->rows, l->width, l->width);
    free(h);
}

static void sepconv1d_backward(const struct layer *l, double *dxn, const double *xn,
                               const double *dr)
{
    size_t count = l->rows * l->width;
    double *h = reference_zeros(count), *dh = reference_zeros(count);
    depthwise(l, h, xn, l->w[2]);
    add_bias(l, h, l->w[3]);
    reference_linear_grad(dh, l->g[4], l->g[5], h, dr, l->w[4], l->rows, l->width, l->width);
    depthwise_grad(l, dxn, l->g[2], xn, dh, l->w[2]);
    for (size_t i = 0; i < count; i++)
        l->g[3][i % l->width] += dh[i];
    free(h);
    free(dh);
}

/* The kernel [taps][C] from the logits [heads][taps]. */
static double *light_kernel(const struct layer *l)
{
    double *w = reference_zeros(l->taps * l->width);
    for (size_t c = 0; c < l->width; c++) {
        const double *logits = l->w[2] + c * l->heads / l->width * l->taps;
        double z = 0.0;
        for (size_t tap = 0; tap < l->taps; tap++)
            z += exp(logits[tap]);
        for (size_t tap = 0; tap < l->taps; tap++)
            w[tap * l->width + c] = exp(logits[tap]) / z;
    }
    return w;
}

static void lightconv_forward(const struct layer *l, double *r, const double *xn)
{
    double *w = light_kernel(l);
    depthwise(l, r, xn, w);
    free(w);
}

static void lightconv_backward(const struct layer *l, double *dxn, const double *xn,
                               const double *dr)
{
    double *w = light_kernel(l), *dw = reference_zeros(l->taps * l->width);
    depthwise_grad(l, dxn, dw, xn, dr, w);
    for (size_t c = 0; c < l->width; c++) {
        double *dlogits = l->g[2] + c * l->heads / l->width * l->taps, mean = 0.0;
        for (size_t tap = 0; tap < l->taps; tap++)
            mean += w[tap * l->width + c] * dw[tap * l->width + c];
        for (size_t tap = 0; tap < l->taps; tap++)
            dlogits[tap] += w[tap * l->width + c] * (dw[tap * l->width + c] - mean);
    }
    free(w);
    free(dw);
}

void reference_branch_forward(const struct reference_call *call, double *r, const double *xn)
{
    static void (*const forwards[])(const struct layer *, double *,
                                    const double *) = {[NP_OP_MHA] = mha_forward,
                                                       [NP_OP_FFN] = ffn_forward,
                                                       [NP_OP_GLU] = glu_forward,
                                                       [NP_OP_CONV1D] = conv1d_forward,
                                                       [NP_OP_SEPCONV1D] = sepconv1d_forward,
                                                       [NP_OP_LIGHTCONV] = lightconv_forward};
    struct layer l = layer_of(call, NULL);
    forwards[call->kind->spec.op](&l, r, xn);
}

void reference_branch_backward(const struct reference_call *call, double *dxn, double *g,
                               const double *xn, const double *dr)
{
    static void (*const backwards[])(const struct layer *, double *, const double *,
                                     const double *) = {[NP_OP_MHA] = mha_backward,
                                                        [NP_OP_FFN] = ffn_backward,
                                                        [NP_OP_GLU] = glu_backward,
                                                        [NP_OP_CONV1D] = conv1d_backward,
                                                        [NP_OP_SEPCONV1D] = sepconv1d_backward,
                                                        [NP_OP_LIGHTCONV] = lightconv_backward};
    struct layer l = layer_of(call, g);
    memset(dxn, 0, l.rows * l.width * sizeof *dxn);
    backwards[call->kind->spec.op](&l, dxn, xn, dr);
}
