/* Scalar reference of num/kernels.h: pools. */
#ifndef NP_NUM_POOL_SCALAR_H
#define NP_NUM_POOL_SCALAR_H

#include "num/elementary.h"
#include "num/kernels.h"
#include "num/window.h"

/* Channel c of x at what tap (kh, kw) of output row r reads; NULL outside. */
static const float *pool_x(const struct np_conv *v, size_t r, int kh, int kw, size_t c)
{
    size_t sample = r / v->out_width / v->out_height;
    size_t ih = np_input_row(v, r / v->out_width % v->out_height, kh);
    size_t iw = np_input_column(v, r % v->out_width, kw);
    if (ih == NP_OUTSIDE || iw == NP_OUTSIDE)
        return NULL;
    return &v->x[((sample * v->in_height + ih) * v->in_width + iw) * v->ldx + c];
}

static void max_pool(struct np_team *team, const struct np_conv *v, int32_t *which)
{
    size_t rows = v->samples * v->out_height * v->out_width, cols = v->in_channels;
    struct np_share share = np_team_share(team, rows * cols, 1);
    int wide = v->window.kernel_width, taps = v->window.kernel_height * wide;
    for (size_t i = share.begin; i < share.end; i++) {
        const float *most = NULL;
        for (int tap = 0; tap < taps; tap++) {
            const float *x = pool_x(v, i / cols, tap / wide, tap % wide, i % cols);
            if (x && (!most || *x > *most)) {
                most = x;
                which[i] = tap;
            }
        }
        v->out[i / cols * v->ldy + i % cols] = *most;
    }
}

static void avg_pool(struct np_team *team, const struct np_conv *v)
{
    size_t rows = v->samples * v->out_height * v->out_width, cols = v->in_channels;
    struct np_share share = np_team_share(team, rows * cols, 1);
    int wide = v->window.kernel_width, taps = v->window.kernel_height * wide;
    for (size_t i = share.begin; i < share.end; i++) {
        float acc = 0.0f;
        int count = 0;
        for (int tap = 0; tap < taps; tap++) {
            const float *x = pool_x(v, i / cols, tap / wide, tap % wide, i % cols);
            if (x) {
                acc = acc + *x;
                count++;
            }
        }
        v->out[i / cols * v->ldy + i % cols] = acc / (float)count;
    }
}

/* How many positions the window of output row r holds. */
static float pool_count(const struct np_conv *v, size_t r)
{
    int height = 0, width = 0;
    for (int kh = 0; kh < v->window.kernel_height; kh++)
        height += np_input_row(v, r / v->out_width % v->out_height, kh) != NP_OUTSIDE;
    for (int kw = 0; kw < v->window.kernel_width; kw++)
        width += np_input_column(v, r % v->out_width, kw) != NP_OUTSIDE;
    return (float)(height * width);
}

/* What output row r gives back through its tap to channel c. which: NULL for the average. */
static float pool_term(const struct np_conv *v, const int32_t *which, size_t r, int tap, size_t c)
{
    float dy = v->dy[r * v->ldy + c];
    if (!which)
        return dy / pool_count(v, r);
    return which[r * v->in_channels + c] == tap ? dy : 0.0f;
}

/* The gradient at input row r. Ascending output positions are descending taps. */
static float pool_dx(const struct np_conv *v, const int32_t *which, size_t r, size_t c)
{
    size_t ih = r / v->in_width % v->in_height, iw = r % v->in_width;
    size_t sample = r / v->in_width / v->in_height;
    float acc = 0.0f;
    for (int kh = v->window.kernel_height - 1; kh >= 0; kh--) {
        size_t oh = np_output_row(v, ih, kh);
        for (int kw = v->window.kernel_width - 1; kw >= 0; kw--) {
            size_t ow = np_output_column(v, iw, kw);
            size_t row = (sample * v->out_height + oh) * v->out_width + ow;
            if (oh != NP_OUTSIDE && ow != NP_OUTSIDE)
                acc = acc + pool_term(v, which, row, kh * v->window.kernel_width + kw, c);
        }
    }
    return acc;
}

static bool pool_grad(struct np_team *team, const struct np_conv *v, const int32_t *which,
                      const float *base)
{
    struct np_share share = np_team_share(team, v->samples * v->in_height * v->in_width, 1);
    bool finite = true;
    for (size_t r = share.begin; r < share.end; r++)
        for (size_t c = 0; c < v->in_channels; c++) {
            float acc = pool_dx(v, which, r, c);
            acc = base ? base[r * v->ldx + c] + acc : acc;
            v->out[r * v->ldx + c] = acc;
            finite = finite && np_is_finite(acc);
        }
    return finite;
}

static bool max_pool_grad(struct np_team *team, const struct np_conv *v, const int32_t *which,
                          const float *base)
{
    return pool_grad(team, v, which, base);
}

static bool avg_pool_grad(struct np_team *team, const struct np_conv *v, const float *base)
{
    return pool_grad(team, v, NULL, base);
}

#endif
