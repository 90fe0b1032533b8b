#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "num/philox.h"
#include "ops/op.h"

double *reference_zeros(size_t count)
{
    double *x = calloc(count + 1, sizeof *x);
    if (!x)
        abort();
    return x;
}

static const double *tensor(const struct reference_call *call, int index)
{
    return call->w + call->kind->tensors[index].offset;
}

static void norm(const struct reference_call *call, double *xn, const double *x, size_t rows)
{
    size_t width = call->kind->width;
    const double *gamma = tensor(call, 0), *beta = tensor(call, 1);
    for (size_t r = 0; r < rows; r++) {
        const double *row = x + r * width;
        double mean = 0.0, var = 0.0;
        for (size_t c = 0; c < width; c++)
            mean += row[c] / (double)width;
        for (size_t c = 0; c < width; c++)
            var += (row[c] - mean) * (row[c] - mean) / (double)width;
        for (size_t c = 0; c < width; c++)
            xn[r * width + c] =
                (row[c] - mean) / sqrt(var + (double)NP_NORM_EPS) * gamma[c] + beta[c];
    }
}

/* Adds the gradient of x to dx. */
static void norm_grad(const struct reference_call *call, double *dx, double *g, const double *x,
                      const double *dxn, size_t rows)
{
    size_t width = call->kind->width;
    const double *gamma = tensor(call, 0);
    double *dgamma = g + call->kind->tensors[0].offset, *dbeta = g + call->kind->tensors[1].offset;
    for (size_t r = 0; r < rows; r++) {
        const double *row = x + r * width, *d = dxn + r * width;
        double mean = 0.0, var = 0.0, a = 0.0, b = 0.0, rstd;
        for (size_t c = 0; c < width; c++)
            mean += row[c] / (double)width;
        for (size_t c = 0; c < width; c++)
            var += (row[c] - mean) * (row[c] - mean) / (double)width;
        rstd = 1.0 / sqrt(var + (double)NP_NORM_EPS);
        for (size_t c = 0; c < width; c++) {
            double h = (row[c] - mean) * rstd;
            dgamma[c] += d[c] * h;
            dbeta[c] += d[c];
            a += d[c] * gamma[c] / (double)width;
            b += d[c] * gamma[c] * h / (double)width;
        }
        for (size_t c = 0; c < width; c++)
            dx[r * width + c] += rstd * (d[c] * gamma[c] - a - (row[c] - mean) * rstd * b);
    }
}

void reference_linear(double *y, const double *x, const double *w, const double *b, size_t rows,
                      size_t k, size_t n)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t j = 0; j < n; j++)
            y[r * n + j] = b ? b[j] : 0.0;
        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j < n; j++)
                y[r * n + j] += x[r * k + i] * w[i * n + j];
    }
}

void reference_linear_grad(double *dx, double *dw, double *db, const double *x, const double *dy,
                           const double *w, size_t rows, size_t k, size_t n)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < k; i++) {
            for (size_t j = 0; j < n; j++) {
                dx[r * k + i] += dy[r * n + j] * w[i * n + j];
                dw[i * n + j] += x[r * k + i] * dy[r * n + j];
            }
        }
        for (size_t j = 0; db && j < n; j++)
            db[j] += dy[r * n + j];
    }
}

/* Multiplies by the dropout mask, element by element. */
static void drop(const struct reference_call *call, double *y, size_t rows)
{
    const struct np_kind *kind = call->kind;
    double p = (double)kind->spec.dropout;
    struct np_draw_key key = np_draw_key(call->seed, NP_DRAW_DROPOUT, call->member, call->layer, 0);
    for (size_t i = 0; call->train && p > 0.0 && i < rows * kind->width; i++) {
        uint64_t element = (uint64_t)call->first * kind->length * kind->width + i;
        uint32_t word = np_draw(key, call->step, element / 4).w[element % 4];
        y[i] = (double)word < p * 4294967296.0 ? 0.0 : y[i] / (1.0 - p);
    }
}

static void embedding(const struct reference_call *call, double *y, size_t rows)
{
    size_t width = call->kind->width, length = call->kind->length;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < width; c++)
            y[r * width + c] = tensor(call, 0)[(size_t)call->tokens[r] * width + c] +
                               tensor(call, 1)[r % length * width + c];
}

static void embedding_grad(const struct reference_call *call, double *g, const double *dy,
                           size_t rows)
{
    size_t width = call->kind->width, length = call->kind->length;
    double *table = g + call->kind->tensors[0].offset, *place = g + call->kind->tensors[1].offset;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < width; c++) {
            table[(size_t)call->tokens[r] * width + c] += dy[r * width + c];
            place[r % length * width + c] += dy[r * width + c];
        }
    }
}

/* Probabilities of each class from xn, and each row's loss against its smoothed target. */
static void classify(const struct reference_call *call, double *p, double *loss, const double *xn,
                     size_t rows)
{
    size_t vocab = call->kind->vocab;
    double off = call->smoothing / (double)vocab;
    reference_linear(p, xn, tensor(call, 2), NULL, rows, call->kind->width, vocab);
    for (size_t r = 0; r < rows; r++) {
        double *row = p + r * vocab, z = 0.0, sum = 0.0, top = row[0];
        for (size_t v = 0; v < vocab; v++)
            top = fmax(top, row[v]);
        for (size_t v = 0; v < vocab; v++)
            z += exp(row[v] - top);
        for (size_t v = 0; v < vocab; v++) {
            double target = off + ((size_t)call->targets[r] == v ? 1.0 - call->smoothing : 0.0);
            sum -= target * (row[v] - top - log(z));
            row[v] = exp(row[v] - top) / z;
        }
        loss[r] = sum;
    }
}

static void head_grad(const struct reference_call *call, double *dx, double *g, const double *x,
                      size_t rows)
{
    const struct np_kind *kind = call->kind;
    double *xn = reference_zeros(rows * kind->width), *dxn = reference_zeros(rows * kind->width);
    double *p = reference_zeros(rows * kind->vocab), *loss = reference_zeros(rows);
    norm(call, xn, x, rows);
    classify(call, p, loss, xn, rows);
    for (size_t r = 0; r < rows; r++) {
        for (size_t v = 0; v < kind->vocab; v++) {
            double target = call->smoothing / (double)kind->vocab;
            if ((size_t)call->targets[r] == v)
                target += 1.0 - call->smoothing;
            p[r * kind->vocab + v] = (p[r * kind->vocab + v] - target) * call->scale;
        }
    }
    reference_linear_grad(dxn, g + kind->tensors[2].offset, NULL, xn, p, tensor(call, 2), rows,
                          kind->width, kind->vocab);
    memset(dx, 0, rows * kind->width * sizeof *dx);
    norm_grad(call, dx, g, x, dxn, rows);
    free(xn);
    free(dxn);
    free(p);
    free(loss);
}

void reference_forward(const struct reference_call *call, double *y, const double *x)
{
    size_t rows = call->samples * call->kind->length, count = rows * call->kind->width;
    double *xn, *p;
    if (call->kind->spec.op == NP_OP_EMBEDDING) {
        embedding(call, y, rows);
        return;
    }
    if (call->kind->spec.op == NP_OP_IDENTITY) {
        memcpy(y, x, count * sizeof *y);
        return;
    }
    xn = reference_zeros(count);
    norm(call, xn, x, rows);
    if (call->kind->spec.op == NP_OP_LM) {
        p = reference_zeros(rows * call->kind->vocab);
        classify(call, p, y, xn, rows);
        free(p);
    } else {
        reference_branch_forward(call, y, xn);
        drop(call, y, rows);
        for (size_t i = 0; i < count; i++)
            y[i] += x[i];
    }
    free(xn);
}

void reference_backward(const struct reference_call *call, double *dx, double *g, const double *x,
                        const double *dy)
{
    size_t rows = call->samples * call->kind->length, count = rows * call->kind->width;
    double *xn, *dr, *dxn;
    if (call->kind->spec.op == NP_OP_EMBEDDING) {
        embedding_grad(call, g, dy, rows);
        return;
    }
    if (call->kind->spec.op == NP_OP_LM) {
        head_grad(call, dx, g, x, rows);
        return;
    }
    memcpy(dx, dy, count * sizeof *dx);
    if (call->kind->spec.op == NP_OP_IDENTITY)
        return;
    xn = reference_zeros(count);
    dr = reference_zeros(count);
    dxn = reference_zeros(count);
    norm(call, xn, x, rows);
    memcpy(dr, dy, count * sizeof *dr);
    drop(call, dr, rows);
    reference_branch_backward(call, dxn, g, xn, dr);
    norm_grad(call, dx, g, x, dxn, rows);
    free(xn);
    free(dr);
    free(dxn);
}
