/* Convolutions as products of a matrix that is never made: A's rows are read from the image where
 * the windows are. Group g is a problem of its own, and so is, backward, each class of input
 * positions whose taps are the same.
 */
#include "cuda/product.cuh"
#include "cuda/windows.cuh"

/* Channels channel .. channel + 3 of a row that begins at p, all of them absent where there is no
 * row. */
static inline __device__ void load_channels(float v[4], const float *p, bool some)
{
    float4 q = {absent(), absent(), absent(), absent()};
    if (some)
        q = *reinterpret_cast<const float4 *>(p);
    v[0] = q.x;
    v[1] = q.y;
    v[2] = q.z;
    v[3] = q.w;
}

/* Four numbers of rows `ld` apart that begin at p, from inner index q on: channel q % depth of the
 * row that row_at(q / depth) names. Aligned: all four are of one row, and within the chunk if the
 * first is. */
template <class Row>
static inline __device__ void load_taps(float v[4], const float *p, size_t ld, const divisor &depth,
                                        int q, int end, bool aligned, const Row &row_at)
{
    int tap = q / depth, channel = q - tap * (int)depth.by, row = q < end ? row_at(tap) : -1;
    if (aligned && q < end) {
        load_channels(v, p + row * (ptrdiff_t)ld + channel, row >= 0);
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
        v[e] = q + e >= end ? -0.0f : row < 0 ? absent() : p[row * ld + channel];
        if (++channel == (int)depth.by && q + e + 1 < end) {
            channel = 0;
            row = row_at(++tap);
        }
    }
}

/* y: rows are output positions, inner indices (kh, kw, ci), columns co. */
struct conv_source {
    static constexpr bool sparse = true, whole = false, may_be_whole = false;
    static constexpr bool a_inner = true, b_inner = false;
    conv_sizes s;
    int m, n, k, grain, first; /* column of the group */
    bool x_aligned, w_aligned;

    typedef conv_spot a_place;
    struct b_place {
        const float *at;
        int count;
    };

    __device__ void enter(int group)
    {
        s.x += (size_t)group * s.depth;
        first = group * n;
    }

    /* A row beyond the last is the last. */
    __device__ a_place a_quad(int i, int) const
    {
        return spot_of(i < m ? i : m - 1, s.by_out_height, s.by_out_width);
    }

    __device__ void a_load(float v[4], const a_place &at, int p, int end) const
    {
        load_taps(v, s.x, s.ldx, s.by_depth, p, end, x_aligned, [&](int tap) {
            return row_read(s, at, tap / s.by_kernel_width, tap % s.by_kernel_width);
        });
    }

    __device__ b_place b_quad(int j, int) const
    {
        return {s.w + first + j, n - j};
    }

    __device__ void b_load(float v[4], const b_place &at, int p, int end) const
    {
        load_quad(v, at.at + p * s.ldw, p < end ? at.count : 0, w_aligned, 0.0f);
    }

    __device__ size_t c_row(int i) const
    {
        return i;
    }

    __device__ size_t c_column(int j) const
    {
        return first + j;
    }
};

static product_output output_of(const struct np_conv *v, size_t ld)
{
    product_output out = {};
    out.c = v->out;
    out.ld = ld;
    out.accumulate = v->accumulate;
    out.epilogue = v->epilogue;
    return out;
}

bool np_cuda_conv(struct np_team *team, const struct np_conv *v)
{
    conv_source c = {};
    product_output out = output_of(v, v->ldy);
    size_t taps = (size_t)v->window.kernel_height * (size_t)v->window.kernel_width;
    c.s = sizes_of(v);
    c.m = c.s.samples * c.s.out_height * c.s.out_width;
    c.n = c.s.cols;
    c.k = (int)taps * c.s.depth;
    c.x_aligned = columns_in_quads(v->x, v->ldx, v->in_channels / v->groups);
    c.w_aligned = columns_in_quads(v->w, v->out_channels, v->out_channels / v->groups);
    out.accumulate = false;
    return launch_product(team, c, out,
                          {(size_t)c.m, (size_t)c.n, (size_t)c.k, 0, v->groups, true});
}

/* Along one dimension, the input positions first, first + stride, ... and the taps that join them
 * with output positions: tap t, in descending order, is last - t * step. */
struct conv_class {
    int first, count, last, step, taps;
    divisor by_count, by_taps;
};

static __device__ conv_class class_at(int first, int size, int stride, int kernel, int dilation,
                                      int pad)
{
    conv_class c = {first, first < size ? (size - first + stride - 1) / stride : 0, -1, 1, 0};
    for (int k = kernel - 1; k >= 0; k--) {
        if ((first + pad - k * dilation) % stride != 0)
            continue;
        if (c.taps == 0)
            c.last = k;
        else if (c.taps == 1)
            c.step = c.last - k;
        c.taps++;
    }
    c.by_count = divisor_of(c.count > 0 ? c.count : 1);
    c.by_taps = divisor_of(c.taps > 0 ? c.taps : 1);
    return c;
}

/* dx: rows are the input positions of a class, inner indices (tap descending, co), columns ci. */
struct conv_grad_source {
    static constexpr bool sparse = true, whole = false, may_be_whole = false;
    static constexpr bool a_inner = true, b_inner = true;
    conv_sizes s;
    int m, n, k, grain, first; /* column of the group */
    conv_class high, wide;
    bool dy_aligned, w_aligned;

    struct a_place {
        int sample, h, w; /* what is divided by the stride */
    };
    struct b_place {
        const float *at;
        bool some;
    };

    __device__ void enter(int problem)
    {
        const struct np_window &win = s.window;
        int classes = win.stride_height * win.stride_width, group = problem / classes;
        high = class_at(problem % classes / win.stride_width, s.in_height, win.stride_height,
                        win.kernel_height, win.dilation, win.pad_top);
        wide = class_at(problem % win.stride_width, s.in_width, win.stride_width, win.kernel_width,
                        win.dilation, win.pad_left);
        m = s.samples * high.count * wide.count;
        k = high.taps * wide.taps * s.cols;
        s.dy += (size_t)group * s.cols;
        s.w += (size_t)group * s.cols;
        first = group * n;
    }

    __device__ conv_spot input_at(int i) const
    {
        conv_spot at = spot_of(i, high.by_count, wide.by_count);
        at.h = high.first + at.h * s.window.stride_height;
        at.w = wide.first + at.w * s.window.stride_width;
        return at;
    }

    __device__ a_place a_quad(int i, int) const
    {
        conv_spot at = input_at(i < m ? i : m - 1);
        return {at.sample, at.h + s.window.pad_top, at.w + s.window.pad_left};
    }

    __device__ int tap_row(int tap) const
    {
        return high.last - tap / wide.by_taps * high.step;
    }

    __device__ int tap_column(int tap) const
    {
        return wide.last - tap % wide.by_taps * wide.step;
    }

    __device__ int row_written(const a_place &at, int tap) const
    {
        int h = at.h - tap_row(tap) * s.window.dilation;
        int w = at.w - tap_column(tap) * s.window.dilation;
        if (h < 0 || w < 0)
            return -1;
        int oh = h / s.by_stride_height, ow = w / s.by_stride_width;
        return oh < s.out_height && ow < s.out_width
                   ? (at.sample * s.out_height + oh) * s.out_width + ow
                   : -1;
    }

    __device__ void a_load(float v[4], const a_place &at, int p, int end) const
    {
        load_taps(v, s.dy, s.ldy, s.by_cols, p, end, dy_aligned,
                  [&](int tap) { return row_written(at, tap); });
    }

    __device__ b_place b_quad(int j, int) const
    {
        return {s.w + j * s.ldw, j < n};
    }

    /* Where the weights of a tap begin. */
    __device__ size_t tap_weights(int tap) const
    {
        int flat = tap_row(tap) * s.window.kernel_width + tap_column(tap);
        return flat * (size_t)s.depth * s.ldw;
    }

    __device__ void b_load(float v[4], const b_place &at, int p, int end) const
    {
        int tap = p / s.by_cols, channel = p - tap * s.cols;
        if (w_aligned && p < end && at.some) {
            load_channels(v, at.at + tap_weights(tap) + channel, true);
            return;
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            v[e] = p + e < end && at.some ? at.at[tap_weights(tap) + channel] : 0.0f;
            if (++channel == s.cols) {
                channel = 0;
                tap++;
            }
        }
    }

    __device__ size_t c_row(int i) const
    {
        conv_spot at = input_at(i);
        return ((size_t)at.sample * s.in_height + at.h) * s.in_width + at.w;
    }

    __device__ size_t c_column(int j) const
    {
        return first + j;
    }
};

bool np_cuda_conv_grad(struct np_team *team, const struct np_conv *v)
{
    conv_grad_source c = {};
    product_output out = output_of(v, v->ldx);
    size_t high = (size_t)v->window.stride_height, wide = (size_t)v->window.stride_width;
    size_t rows = v->samples * cuda_parts(v->in_height, high) * cuda_parts(v->in_width, wide);
    size_t taps = (size_t)v->window.kernel_height * (size_t)v->window.kernel_width;
    c.s = sizes_of(v);
    c.n = c.s.depth;
    c.dy_aligned = columns_in_quads(v->dy, v->ldy, v->out_channels / v->groups);
    c.w_aligned = columns_in_quads(v->w, v->out_channels, v->out_channels / v->groups);
    out.accumulate = false;
    return launch_product(
        team, c, out,
        {rows, (size_t)c.n, taps * (size_t)c.s.cols, 0, v->groups * high * wide, false});
}

/* dw: rows are (kh, kw, ci), inner indices output positions, columns co. */
struct conv_weight_source {
    static constexpr bool sparse = true, whole = false, may_be_whole = false;
    static constexpr bool a_inner = false, b_inner = false;
    conv_sizes s;
    int m, n, k, grain, first; /* column of the group */
    bool x_aligned, dy_aligned;

    struct a_place {
        int tap, channel, count;
    };
    struct b_place {
        const float *at;
        int count;
    };

    __device__ void enter(int group)
    {
        s.x += (size_t)group * s.depth;
        first = group * n;
    }

    __device__ a_place a_quad(int i, int) const
    {
        return {i / s.by_depth, i % s.by_depth, m - i};
    }

    __device__ void a_load(float v[4], const a_place &at, int p, int end) const
    {
        int tap = at.tap, channel = at.channel;
        conv_spot spot = spot_of(p, s.by_out_height, s.by_out_width);
        int row = row_read(s, spot, tap / s.by_kernel_width, tap % s.by_kernel_width);
        if (x_aligned && p < end && at.count > 0) {
            load_channels(v, s.x + row * (ptrdiff_t)s.ldx + channel, row >= 0);
            return;
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            bool some = p < end && e < at.count;
            v[e] = !some ? -0.0f : row < 0 ? absent() : s.x[row * s.ldx + channel];
            if (++channel == s.depth) {
                channel = 0;
                tap++;
                row = row_read(s, spot, tap / s.by_kernel_width, tap % s.by_kernel_width);
            }
        }
    }

    __device__ b_place b_quad(int j, int) const
    {
        return {s.dy + first + j, n - j};
    }

    __device__ void b_load(float v[4], const b_place &at, int p, int end) const
    {
        load_quad(v, at.at + p * s.ldy, p < end ? at.count : 0, dy_aligned, 0.0f);
    }

    __device__ size_t c_row(int i) const
    {
        return i;
    }

    __device__ size_t c_column(int j) const
    {
        return first + j;
    }
};

bool np_cuda_conv_grad_weight(struct np_team *team, const struct np_conv *v)
{
    conv_weight_source c = {};
    product_output out = output_of(v, v->out_channels);
    size_t taps = (size_t)v->window.kernel_height * (size_t)v->window.kernel_width;
    c.s = sizes_of(v);
    c.m = (int)taps * c.s.depth;
    c.n = c.s.cols;
    c.k = c.s.samples * c.s.out_height * c.s.out_width;
    c.grain = (int)v->grain * c.s.out_height * c.s.out_width;
    c.x_aligned = columns_in_quads(v->x, v->ldx, v->in_channels / v->groups);
    c.dy_aligned = columns_in_quads(v->dy, v->ldy, v->out_channels / v->groups);
    out.epilogue = {};
    return launch_product(
        team, c, out, {(size_t)c.m, (size_t)c.n, (size_t)c.k, (size_t)c.grain, v->groups, true});
}
