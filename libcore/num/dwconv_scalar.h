/* Scalar reference of num/kernels.h: the causal depthwise convolution. */
#ifndef NP_NUM_DWCONV_SCALAR_H
#define NP_NUM_DWCONV_SCALAR_H

#include <math.h>

#include "num/columns_scalar.h"
#include "num/loops.h"

static void dwconv(struct np_team *team, float *y, const float *x, const float *w, size_t samples,
                   size_t length, size_t cols, size_t taps)
{
    struct np_share share = np_team_share(team, samples * length, 1);
    for (size_t r = share.begin; r < share.end; r++) {
        const float *in = x + (r + r / length * (taps - 1)) * cols;
        for (size_t c = 0; c < cols; c++) {
            float acc = 0.0f;
            for (size_t tap = 0; tap < taps; tap++)
                acc = fmaf(in[tap * cols + c], w[tap * cols + c], acc);
            y[r * cols + c] = acc;
        }
    }
}

static void dwconv_grad(struct np_team *team, float *dx, const float *dy, const float *w,
                        size_t samples, size_t length, size_t cols, size_t taps)
{
    struct np_share share = np_team_share(team, samples * length, 1);
    for (size_t r = share.begin; r < share.end; r++) {
        size_t sample = r / length, t = r % length;
        for (size_t c = 0; c < cols; c++) {
            float acc = 0.0f;
            for (size_t tap = 0; tap < taps; tap++) {
                size_t from = t + taps - 1 - tap;
                if (from < length)
                    acc = fmaf(dy[(sample * length + from) * cols + c], w[tap * cols + c], acc);
            }
            dx[r * cols + c] = acc;
        }
    }
}

static void dwconv_grad_weight(struct np_team *team, float *dw, const float *x, const float *dy,
                               size_t samples, size_t length, size_t cols, size_t taps,
                               size_t grain, bool accumulate)
{
    struct np_share share = np_team_share(team, cols, NP_SHARE_UNIT);
    size_t rows = samples * length;
    for (size_t tap = 0; tap < taps; tap++) {
        for (size_t c = share.begin; c < share.end; c++) {
            float *out = dw + tap * cols + c;
            for (size_t begin = 0, end; begin < rows; begin = end) {
                float acc = 0.0f;
                end = np_chunk_end(begin, rows, grain);
                for (size_t r = begin; r < end; r++) {
                    size_t from = r + r / length * (taps - 1) + tap;
                    acc = fmaf(x[from * cols + c], dy[r * cols + c], acc);
                }
                *out = add_chunk(*out, acc, begin, accumulate);
            }
        }
    }
}

#endif
