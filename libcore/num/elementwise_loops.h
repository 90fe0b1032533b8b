/* Kernels of num/kernels.h: element by element without a transcendental function. */
#ifndef NP_NUM_ELEMENTWISE_LOOPS_H
#define NP_NUM_ELEMENTWISE_LOOPS_H

#include <math.h>
#include <string.h>

#include "num/elementary.h"
#include "num/loops.h"

static void bias_add(struct np_team *team, float *y, const float *x, const float *bias, size_t rows,
                     size_t cols)
{
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++) {
        const float *in = x + r * cols;
        float *out = y + r * cols;
        NP_INDEPENDENT
        for (size_t j = 0; j < cols; j++)
            out[j] = in[j] + bias[j];
    }
}

static void col_total(struct np_team *team, float *out, const float *x, size_t segments,
                      size_t chunks, size_t cols)
{
    struct np_share share = np_team_share(team, segments * cols, NP_SHARE_UNIT);
    for (size_t i = share.begin, n; i < share.end; i += n) {
        const float *chunk = x + i / cols * chunks * cols + i % cols;
        float *sum = out + i;
        n = np_min(cols - i % cols, share.end - i);
        memcpy(sum, chunk, n * sizeof *sum);
        for (size_t k = 1; k < chunks; k++) {
            chunk += cols;
            NP_INDEPENDENT
            for (size_t j = 0; j < n; j++)
                sum[j] = sum[j] + chunk[j];
        }
    }
}

static bool all_finite(struct np_team *team, const float *x, size_t count)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    uint32_t bad = 0;
    for (size_t i = share.begin; i < share.end; i++)
        bad |= np_not_finite(x[i]);
    return !bad;
}

static void fill(struct np_team *team, float *y, size_t count, float value)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    for (size_t i = share.begin; i < share.end; i++)
        y[i] = value;
}

static void copy(struct np_team *team, float *y, const float *x, size_t count)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    if (y != x)
        memcpy(y + share.begin, x + share.begin, (share.end - share.begin) * sizeof *y);
}

static bool divide(struct np_team *team, float *y, const float *x, const float *gamma, size_t count,
                   float by)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    uint32_t bad = 0;
    NP_INDEPENDENT
    for (size_t i = share.begin; i < share.end; i++) {
        float quotient = (gamma ? gamma[i] * x[i] : x[i]) / by;
        bad |= np_not_finite(quotient);
        y[i] = quotient;
    }
    return !bad;
}

static bool rstd(struct np_team *team, float *y, const float *x, size_t count, float eps)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    uint32_t bad = 0;
    for (size_t i = share.begin; i < share.end; i++) {
        float root = 1.0f / sqrtf(x[i] + eps);
        bad |= np_not_finite(x[i]) | np_not_finite(root);
        y[i] = root;
    }
    return !bad;
}

static void spread(struct np_team *team, float *y, const float *x, size_t count, size_t width)
{
    struct np_share share = np_team_share(team, count, 1);
    for (size_t i = share.begin; i < share.end; i++)
        for (size_t j = 0; j < width; j++)
            y[i * width + j] = x[i];
}

static void hits(struct np_team *team, int32_t *hits, const float *logits, const int32_t *targets,
                 size_t rows, size_t classes)
{
    struct np_share share = np_team_share(team, rows, NP_SHARE_UNIT);
    for (size_t r = share.begin; r < share.end; r++) {
        hits[r] = np_first_largest(logits + r * classes, classes) == (size_t)targets[r];
    }
}

#endif
