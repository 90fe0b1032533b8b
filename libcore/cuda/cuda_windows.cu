/* Windows of one channel each: depthwise convolutions and pools. */
#include "cuda/columns.cuh"
#include "cuda/windows.cuh"

extern "C" {
#include "num/epilogue.h"
}

bool np_cuda_dwconv(struct np_team *team, const struct np_conv *v)
{
    const conv_sizes s = sizes_of(v);
    const struct np_epilogue epilogue = v->epilogue;
    float *out = v->out;
    size_t rows = v->samples * v->out_height * v->out_width;
    return cuda_cells(team, rows, v->in_channels, [=] __device__(size_t r, uint32_t c) {
        conv_spot at = spot_of((int)r, s.by_out_height, s.by_out_width);
        const float *w = s.w + c;
        float acc = 0.0f;
        bool finite = true;
        for (int kh = 0; kh < s.window.kernel_height; kh++)
            for (int kw = 0; kw < s.window.kernel_width; kw++, w += s.ldw) {
                int row = row_read(s, at, kh, kw);
                if (row >= 0)
                    acc = np_fmaf(s.x[row * s.ldx + c], *w, acc);
            }
        out[r * s.ldy + c] = np_epilogue_element(&epilogue, r, c, acc, &finite);
        return (uint32_t)!finite;
    });
}

bool np_cuda_dwconv_grad(struct np_team *team, const struct np_conv *v)
{
    const conv_sizes s = sizes_of(v);
    const struct np_epilogue epilogue = v->epilogue;
    float *out = v->out;
    size_t rows = v->samples * v->in_height * v->in_width;
    return cuda_cells(team, rows, v->in_channels, [=] __device__(size_t r, uint32_t c) {
        conv_spot at = spot_of((int)r, s.by_in_height, s.by_in_width);
        const float *w = s.w + c;
        float acc = 0.0f;
        bool finite = true;
        for (int kh = 0; kh < s.window.kernel_height; kh++)
            for (int kw = 0; kw < s.window.kernel_width; kw++, w += s.ldw) {
                int row = row_reader(s, at, kh, kw);
                if (row >= 0)
                    acc = np_fmaf(s.dy[row * s.ldy + c], *w, acc);
            }
        out[r * s.ldx + c] = np_epilogue_element(&epilogue, r, c, acc, &finite);
        return (uint32_t)!finite;
    });
}

/* A tap is a segment of column sums over the output's rows. */
struct tap_terms : column_terms {
    static constexpr bool locates = true;
    conv_sizes s;

    __device__ int locate(size_t tap, size_t r) const
    {
        conv_spot at = spot_of((int)r, s.by_out_height, s.by_out_width);
        return row_read(s, at, (int)tap / s.by_kernel_width, (int)tap % s.by_kernel_width);
    }

    __device__ void fetch(float *v, size_t, size_t r, uint32_t c, int row) const
    {
        v[0] = row >= 0 ? s.x[row * s.ldx + c] : absent();
        v[1] = s.dy[r * s.ldy + c];
    }
};

bool np_cuda_dwconv_grad_weight(struct np_team *team, const struct np_conv *v)
{
    size_t taps = (size_t)v->window.kernel_height * (size_t)v->window.kernel_width;
    size_t image = v->out_height * v->out_width;
    column_sums<COLUMN_DOT, tap_terms> sums = {};
    sums.out[0] = v->out;
    sums.segments = taps;
    sums.rows = v->samples * image;
    sums.cols = v->in_channels;
    sums.grain = v->grain * image;
    sums.how = v->accumulate ? NP_SUM_ONTO : NP_SUM_NEW;
    sums.judged = true;
    sums.terms.s = sizes_of(v);
    sum_columns(team, sums);
    return true;
}

void np_cuda_max_pool(struct np_team *team, const struct np_conv *v, int32_t *which)
{
    const conv_sizes s = sizes_of(v);
    float *out = v->out;
    size_t rows = v->samples * v->out_height * v->out_width, cols = v->in_channels;
    cuda_cells(team, rows, cols, [=] __device__(size_t r, uint32_t c) {
        conv_spot at = spot_of((int)r, s.by_out_height, s.by_out_width);
        int tap = 0, best = -1;
        float most = 0.0f;
        for (int kh = 0; kh < s.window.kernel_height; kh++)
            for (int kw = 0; kw < s.window.kernel_width; kw++, tap++) {
                int row = row_read(s, at, kh, kw);
                float x = row < 0 ? 0.0f : s.x[row * s.ldx + c];
                if (row >= 0 && (best < 0 || x > most)) {
                    most = x;
                    best = tap;
                }
            }
        out[r * s.ldy + c] = most;
        which[r * cols + c] = best;
        return 0u;
    });
}

/* How many positions the window of an output position holds. */
static inline __device__ float window_count(const conv_sizes &s, const conv_spot &at)
{
    int count = 0;
    for (int kh = 0; kh < s.window.kernel_height; kh++)
        for (int kw = 0; kw < s.window.kernel_width; kw++)
            count += row_read(s, at, kh, kw) >= 0;
    return (float)count;
}

void np_cuda_avg_pool(struct np_team *team, const struct np_conv *v)
{
    const conv_sizes s = sizes_of(v);
    float *out = v->out;
    size_t rows = v->samples * v->out_height * v->out_width;
    cuda_cells(team, rows, v->in_channels, [=] __device__(size_t r, uint32_t c) {
        conv_spot at = spot_of((int)r, s.by_out_height, s.by_out_width);
        float acc = 0.0f;
        for (int kh = 0; kh < s.window.kernel_height; kh++)
            for (int kw = 0; kw < s.window.kernel_width; kw++) {
                int row = row_read(s, at, kh, kw);
                if (row >= 0)
                    acc = acc + s.x[row * s.ldx + c];
            }
        out[r * s.ldy + c] = acc / window_count(s, at);
        return 0u;
    });
}

/* which: NULL for the average. Ascending output positions are descending taps. */
static bool pool_grad(struct np_team *team, const struct np_conv *v, const int32_t *which,
                      const float *base)
{
    const conv_sizes s = sizes_of(v);
    float *out = v->out;
    size_t rows = v->samples * v->in_height * v->in_width, cols = v->in_channels;
    return cuda_cells(team, rows, cols, [=] __device__(size_t r, uint32_t c) {
        conv_spot at = spot_of((int)r, s.by_in_height, s.by_in_width);
        float acc = 0.0f;
        for (int kh = s.window.kernel_height - 1; kh >= 0; kh--)
            for (int kw = s.window.kernel_width - 1; kw >= 0; kw--) {
                int row = row_reader(s, at, kh, kw);
                if (row < 0)
                    continue;
                float dy = s.dy[row * s.ldy + c];
                if (which)
                    dy = which[row * cols + c] == kh * s.window.kernel_width + kw ? dy : 0.0f;
                else
                    dy = dy / window_count(s, spot_of(row, s.by_out_height, s.by_out_width));
                acc = acc + dy;
            }
        float dx = base ? base[r * s.ldx + c] + acc : acc;
        out[r * s.ldx + c] = dx;
        return (uint32_t)!np_is_finite(dx);
    });
}

bool np_cuda_max_pool_grad(struct np_team *team, const struct np_conv *v, const int32_t *which,
                           const float *base)
{
    return pool_grad(team, v, which, base);
}

bool np_cuda_avg_pool_grad(struct np_team *team, const struct np_conv *v, const float *base)
{
    return pool_grad(team, v, nullptr, base);
}
