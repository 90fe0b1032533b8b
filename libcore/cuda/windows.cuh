/* Windows over images, for convolutions and pools: which rows of x and y a tap joins. */
#ifndef NP_CUDA_WINDOWS_CUH
#define NP_CUDA_WINDOWS_CUH

#include <cassert>
#include <climits>

#include "cuda/launch.cuh"

/* Divides numbers below 2^31 by a multiplication: the reciprocal, rounded up, has so many bits that
 * what it is too large by never reaches the next whole number. */
struct divisor {
    uint32_t by, reciprocal;
    int shift;
};

static inline __host__ __device__ divisor divisor_of(int by)
{
    int bits = 0;
    while ((uint32_t)1 << bits < (uint32_t)by)
        bits++;
    uint64_t one = (uint64_t)1 << (31 + bits);
    return {(uint32_t)by, (uint32_t)((one + (uint32_t)by - 1) / (uint32_t)by), 31 + bits};
}

static inline __device__ int operator/(int n, const divisor &d)
{
    return (int)((uint64_t)(uint32_t)n * d.reciprocal >> d.shift);
}

static inline __device__ int operator%(int n, const divisor &d)
{
    return n - n / d * (int)d.by;
}

/* The sizes of struct np_conv as 32-bit numbers, and what is divided by. */
struct conv_sizes {
    struct np_window window;
    int in_height, in_width, out_height, out_width; /* positions */
    int depth, cols;                                /* channels of a group, in and out */
    int samples;
    divisor by_in_height, by_in_width, by_out_height, by_out_width, by_depth, by_cols;
    divisor by_kernel_width, by_stride_height, by_stride_width;
    size_t ldx, ldy, ldw; /* of rows of w: all output channels */
    const float *x, *w, *dy;
};

static inline conv_sizes sizes_of(const struct np_conv *v)
{
    conv_sizes s = {};
    assert(v->samples * v->in_height * v->in_width <= INT_MAX);
    assert(v->samples * v->out_height * v->out_width <= INT_MAX);
    s.window = v->window;
    s.in_height = (int)v->in_height;
    s.in_width = (int)v->in_width;
    s.out_height = (int)v->out_height;
    s.out_width = (int)v->out_width;
    s.depth = (int)(v->in_channels / v->groups);
    s.cols = (int)(v->out_channels / v->groups);
    s.samples = (int)v->samples;
    s.by_in_height = divisor_of(s.in_height);
    s.by_in_width = divisor_of(s.in_width);
    s.by_out_height = divisor_of(s.out_height);
    s.by_out_width = divisor_of(s.out_width);
    s.by_depth = divisor_of(s.depth);
    s.by_cols = divisor_of(s.cols);
    s.by_kernel_width = divisor_of(v->window.kernel_width);
    s.by_stride_height = divisor_of(v->window.stride_height);
    s.by_stride_width = divisor_of(v->window.stride_width);
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

static inline __device__ conv_spot spot_of(int row, const divisor &height, const divisor &width)
{
    int line = row / width, sample = line / height;
    return {sample, line - sample * (int)height.by, row - line * (int)width.by};
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
    if (h < 0 || w < 0)
        return -1;
    int oh = h / s.by_stride_height, ow = w / s.by_stride_width;
    bool whole = oh * s.window.stride_height == h && ow * s.window.stride_width == w;
    return whole && oh < s.out_height && ow < s.out_width
               ? (at.sample * s.out_height + oh) * s.out_width + ow
               : -1;
}

#endif
