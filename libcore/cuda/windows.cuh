/* Windows over images, for convolutions and pools: which rows of x and y a tap joins. */
#ifndef NP_CUDA_WINDOWS_CUH
#define NP_CUDA_WINDOWS_CUH

#include "cuda/launch.cuh"

/* The sizes of struct np_conv as 32-bit numbers, for the sake of divisions. */
struct conv_sizes {
    struct np_window window;
    int in_height, in_width, out_height, out_width; /* positions */
    int depth, cols;                                /* channels of a group, in and out */
    int samples;
    size_t ldx, ldy, ldw; /* of rows of w: all output channels */
    const float *x, *w, *dy;
};

static inline conv_sizes sizes_of(const struct np_conv *v)
{
    conv_sizes s = {};
    s.window = v->window;
    s.in_height = (int)v->in_height;
    s.in_width = (int)v->in_width;
    s.out_height = (int)v->out_height;
    s.out_width = (int)v->out_width;
    s.depth = (int)(v->in_channels / v->groups);
    s.cols = (int)(v->out_channels / v->groups);
    s.samples = (int)v->samples;
    s.ldx = v->ldx;
    s.ldy = v->ldy;
    s.ldw = v->out_channels;
    s.x = v->x;
    s.w = v->w;
    s.dy = v->dy;
    return s;
}

/* A position of an output or input image. */
struct conv_spot {
    int sample, h, w;
};

static inline __device__ conv_spot spot_of(int row, int height, int width)
{
    return {row / width / height, row / width % height, row % width};
}

/* The row of x that tap (kh, kw) of an output position reads; negative outside. */
static inline __device__ int row_read(const conv_sizes &s, const conv_spot &at, int kh, int kw)
{
    int h = at.h * s.window.stride_height + kh * s.window.dilation - s.window.pad_top;
    int w = at.w * s.window.stride_width + kw * s.window.dilation - s.window.pad_left;
    bool inside = h >= 0 && w >= 0 && h < s.in_height && w < s.in_width;
    return inside ? (at.sample * s.in_height + h) * s.in_width + w : -1;
}

/* The row of y whose tap (kh, kw) reads an input position; negative if there is none. */
static inline __device__ int row_reader(const conv_sizes &s, const conv_spot &at, int kh, int kw)
{
    int h = at.h + s.window.pad_top - kh * s.window.dilation;
    int w = at.w + s.window.pad_left - kw * s.window.dilation;
    int oh = h / s.window.stride_height, ow = w / s.window.stride_width;
    bool whole = oh * s.window.stride_height == h && ow * s.window.stride_width == w;
    bool inside = h >= 0 && w >= 0 && oh < s.out_height && ow < s.out_width;
    return whole && inside ? (at.sample * s.out_height + oh) * s.out_width + ow : -1;
}

#endif
