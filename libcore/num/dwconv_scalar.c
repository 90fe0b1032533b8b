/* Scalar reference of num/kernels.h: depthwise convolutions. */
#include <math.h>

#include "num/backend.h"
#include "num/chunk.h"
#include "num/epilogue.h"
#include "num/window.h"

/* The sum of one element of y: output position (oh, ow) of sample n. */
static float dwconv_y(const struct np_conv *v, size_t n, size_t oh, size_t ow, size_t c)
{
    const float *w = v->w + c;
    float acc = 0.0f;
    for (int kh = 0; kh < v->window.kernel_height; kh++) {
        size_t ih = np_input_row(v, oh, kh);
        for (int kw = 0; kw < v->window.kernel_width; kw++, w += v->in_channels) {
            size_t iw = np_input_column(v, ow, kw);
            if (ih != NP_OUTSIDE && iw != NP_OUTSIDE)
                acc =
                    fmaf(v->x[((n * v->in_height + ih) * v->in_width + iw) * v->ldx + c], *w, acc);
        }
    }
    return acc;
}

bool np_dwconv_scalar(struct np_team *team, const struct np_conv *v)
{
    size_t height = v->out_height, width = v->out_width;
    struct np_share share = np_team_share(team, v->samples * height * width, 1);
    bool finite = true;
    for (size_t r = share.begin; r < share.end; r++)
        for (size_t c = 0; c < v->in_channels; c++) {
            float y = dwconv_y(v, r / width / height, r / width % height, r % width, c);
            v->out[r * v->ldy + c] = np_epilogue_element(&v->epilogue, r, c, y, &finite);
        }
    return finite;
}

static float dwconv_dx(const struct np_conv *v, size_t n, size_t ih, size_t iw, size_t c)
{
    const float *w = v->w + c;
    float acc = 0.0f;
    for (int kh = 0; kh < v->window.kernel_height; kh++) {
        size_t oh = np_output_row(v, ih, kh);
        for (int kw = 0; kw < v->window.kernel_width; kw++, w += v->in_channels) {
            size_t ow = np_output_column(v, iw, kw);
            if (oh != NP_OUTSIDE && ow != NP_OUTSIDE)
                acc = fmaf(v->dy[((n * v->out_height + oh) * v->out_width + ow) * v->ldy + c], *w,
                           acc);
        }
    }
    return acc;
}

bool np_dwconv_grad_scalar(struct np_team *team, const struct np_conv *v)
{
    size_t height = v->in_height, width = v->in_width;
    struct np_share share = np_team_share(team, v->samples * height * width, 1);
    bool finite = true;
    for (size_t r = share.begin; r < share.end; r++)
        for (size_t c = 0; c < v->in_channels; c++) {
            float dx = dwconv_dx(v, r / width / height, r / width % height, r % width, c);
            v->out[r * v->ldx + c] = np_epilogue_element(&v->epilogue, r, c, dx, &finite);
        }
    return finite;
}

/* One chunk's part of the gradient of the weight of tap (kh, kw), channel c. */
static float dwconv_chunk(const struct np_conv *v, struct np_share chunk, int kh, int kw, size_t c)
{
    float acc = 0.0f;
    for (size_t r = chunk.begin; r < chunk.end; r++) {
        size_t sample = r / v->out_width / v->out_height;
        size_t ih = np_input_row(v, r / v->out_width % v->out_height, kh);
        size_t iw = np_input_column(v, r % v->out_width, kw);
        if (ih != NP_OUTSIDE && iw != NP_OUTSIDE)
            acc = fmaf(v->x[((sample * v->in_height + ih) * v->in_width + iw) * v->ldx + c],
                       v->dy[r * v->ldy + c], acc);
    }
    return acc;
}

bool np_dwconv_grad_weight_scalar(struct np_team *team, const struct np_conv *v)
{
    size_t cols = v->in_channels, image = v->out_height * v->out_width, rows = v->samples * image;
    int wide = v->window.kernel_width;
    struct np_share share = np_team_share(team, (size_t)(v->window.kernel_height * wide) * cols, 1);
    struct np_share chunk;
    bool finite = true;
    for (size_t i = share.begin; i < share.end; i++) {
        float *dw = &v->out[i];
        int tap = (int)(i / cols);
        for (chunk.begin = 0; chunk.begin < rows; chunk.begin = chunk.end) {
            chunk.end = np_chunk_end(chunk.begin, rows, v->grain * image);
            float sum = dwconv_chunk(v, chunk, tap / wide, tap % wide, i % cols);
            *dw = chunk.begin > 0 || v->accumulate ? *dw + sum : sum;
        }
        finite = finite && np_is_finite(*dw);
    }
    return finite;
}
