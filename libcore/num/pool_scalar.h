/* Kernels of num/kernels.h: pools. A row's channels are taken a block at a time, which stays in
 * registers or the first cache from tap to tap. */
#ifndef NP_NUM_POOL_SCALAR_H
#define NP_NUM_POOL_SCALAR_H

#include "num/elementary.h"
#include "num/loops.h"
#include "num/window.h"

#define POOL_BLOCK 64 /* channels */

/* A position of an image of the batch. */
struct pool_spot {
    size_t sample, h, w;
};

static struct pool_spot pool_spot(size_t row, size_t height, size_t width)
{
    return (struct pool_spot){row / width / height, row / width % height, row % width};
}

/* The input row that tap (kh, kw) of an output position reads; NP_OUTSIDE. */
static size_t pool_reads(const struct np_conv *v, const struct pool_spot *at, int kh, int kw)
{
    size_t ih = np_input_row(v, at->h, kh), iw = np_input_column(v, at->w, kw);
    if (ih == NP_OUTSIDE || iw == NP_OUTSIDE)
        return NP_OUTSIDE;
    return (at->sample * v->in_height + ih) * v->in_width + iw;
}

/* The output position whose tap (kh, kw) reads an input position; a part of it NP_OUTSIDE. */
static struct pool_spot pool_reader(const struct np_conv *v, const struct pool_spot *at, int kh,
                                    int kw)
{
    return (struct pool_spot){at->sample, np_output_row(v, at->h, kh),
                              np_output_column(v, at->w, kw)};
}

static void max_row(const struct np_conv *v, float *y, int32_t *which, size_t row)
{
    struct pool_spot at = pool_spot(row, v->out_height, v->out_width);
    int wide = v->window.kernel_width, taps = v->window.kernel_height * wide;
    bool first = true;
    for (int tap = 0; tap < taps; tap++) {
        size_t in = pool_reads(v, &at, tap / wide, tap % wide);
        if (in == NP_OUTSIDE)
            continue;
        const float *x = v->x + in * v->ldx;
        NP_INDEPENDENT
        for (size_t c = 0; c < v->in_channels; c++) {
            bool more = first || x[c] > y[c];
            y[c] = more ? x[c] : y[c];
            which[c] = more ? tap : which[c];
        }
        first = false;
    }
}

static void max_pool(struct np_team *team, const struct np_conv *v, int32_t *which)
{
    size_t rows = v->samples * v->out_height * v->out_width;
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++)
        max_row(v, v->out + r * v->ldy, which + r * v->in_channels, r);
}

/* How many positions the window of an output position holds. */
static float pool_count(const struct np_conv *v, const struct pool_spot *at)
{
    int height = 0, width = 0;
    for (int kh = 0; kh < v->window.kernel_height; kh++)
        height += np_input_row(v, at->h, kh) != NP_OUTSIDE;
    for (int kw = 0; kw < v->window.kernel_width; kw++)
        width += np_input_column(v, at->w, kw) != NP_OUTSIDE;
    return (float)(height * width);
}

static void avg_row(const struct np_conv *v, float *y, size_t row)
{
    struct pool_spot at = pool_spot(row, v->out_height, v->out_width);
    int wide = v->window.kernel_width, taps = v->window.kernel_height * wide;
    float count = pool_count(v, &at);
    for (size_t c = 0; c < v->in_channels; c++)
        y[c] = 0.0f;
    for (int tap = 0; tap < taps; tap++) {
        size_t in = pool_reads(v, &at, tap / wide, tap % wide);
        if (in == NP_OUTSIDE)
            continue;
        const float *x = v->x + in * v->ldx;
        NP_INDEPENDENT
        for (size_t c = 0; c < v->in_channels; c++)
            y[c] = y[c] + x[c];
    }
    for (size_t c = 0; c < v->in_channels; c++)
        y[c] = y[c] / count;
}

static void avg_pool(struct np_team *team, const struct np_conv *v)
{
    size_t rows = v->samples * v->out_height * v->out_width;
    struct np_share share = np_team_share(team, rows, 1);
    for (size_t r = share.begin; r < share.end; r++)
        avg_row(v, v->out + r * v->ldy, r);
}

/* Adds what an output position gives back through its tap to n channels from the c-th on.
 * which: NULL for the average. */
static void pool_give(float *acc, const struct np_conv *v, const int32_t *which,
                      const struct pool_spot *at, int tap, size_t c, size_t n)
{
    const size_t r = (at->sample * v->out_height + at->h) * v->out_width + at->w;
    const float *dy = v->dy + r * v->ldy + c;
    if (which) {
        const int32_t *winner = which + r * v->in_channels + c;
        for (size_t i = 0; i < n; i++)
            acc[i] = acc[i] + (winner[i] == tap ? dy[i] : 0.0f);
    } else {
        float count = pool_count(v, at);
        for (size_t i = 0; i < n; i++)
            acc[i] = acc[i] + dy[i] / count;
    }
}

/* The gradient of n channels of an input row. Ascending output positions are descending taps. */
static void pool_gather(float *acc, const struct np_conv *v, const int32_t *which, size_t row,
                        size_t c, size_t n)
{
    struct pool_spot at = pool_spot(row, v->in_height, v->in_width);
    int wide = v->window.kernel_width, taps = v->window.kernel_height * wide;
    for (size_t i = 0; i < n; i++)
        acc[i] = 0.0f;
    for (int tap = taps - 1; tap >= 0; tap--) {
        struct pool_spot reader = pool_reader(v, &at, tap / wide, tap % wide);
        if (reader.h != NP_OUTSIDE && reader.w != NP_OUTSIDE)
            pool_give(acc, v, which, &reader, tap, c, n);
    }
}

static bool pool_grad(struct np_team *team, const struct np_conv *v, const int32_t *which,
                      const float *base)
{
    struct np_share share = np_team_share(team, v->samples * v->in_height * v->in_width, 1);
    uint32_t bad = 0;
    for (size_t r = share.begin; r < share.end; r++)
        for (size_t c = 0; c < v->in_channels; c += POOL_BLOCK) {
            size_t left = v->in_channels - c, n = left < POOL_BLOCK ? left : POOL_BLOCK;
            float acc[POOL_BLOCK];
            pool_gather(acc, v, which, r, c, n);
            NP_INDEPENDENT
            for (size_t i = 0; i < n; i++) {
                float dx = base ? base[r * v->ldx + c + i] + acc[i] : acc[i];
                v->out[r * v->ldx + c + i] = dx;
                bad |= np_not_finite(dx);
            }
        }
    return !bad;
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
