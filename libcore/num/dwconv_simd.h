/* SIMD kernels of num/kernels.h: depthwise convolutions, line by line (num/dw_lines_simd.h).
 *
 * Dx goes from right to left, so that its taps ascend.
 */
#ifndef NP_NUM_DWCONV_SIMD_H
#define NP_NUM_DWCONV_SIMD_H

#include "num/columns_simd.h"
#include "num/dw_lines_simd.h"
#include "num/window.h"

#define DW_PRODUCTS(CALL, term)                                                                    \
    DW_FEW(CALL, term)                                                                             \
    CALL(term, 4, 1)                                                                               \
    CALL(term, 5, 1)                                                                               \
    CALL(term, 7, 1) CALL(term, 2, 2) CALL(term, 3, 2) CALL(term, 5, 2) CALL(term, 7, 2)
DW_RUNNER(dw_runner, DW_PRODUCT, DW_PRODUCTS)

/* The r-th of `period` lines of dx's rows: the positions r + i * period, the last one first. */
static struct dw_line dw_line_dx(const struct np_conv *v, size_t r, size_t *period)
{
    size_t stride = (size_t)v->window.stride_width, dilation = (size_t)v->window.dilation;
    size_t common = dw_gcd(stride, dilation), kernel = (size_t)v->window.kernel_width;
    struct dw_line line = {.stride = 1, .tap_step = stride / common};
    ptrdiff_t reach, step = (ptrdiff_t)(dilation / common);
    *period = stride * dilation / common;
    line.count = (v->in_width + *period - 1 - r) / *period;
    line.out = (ptrdiff_t)(r + *period * line.count) - (ptrdiff_t)*period;
    line.out_step = -(ptrdiff_t)*period;
    reach = line.out + v->window.pad_left;
    while (line.tap < kernel && (reach - (ptrdiff_t)(line.tap * dilation)) % (ptrdiff_t)stride != 0)
        line.tap++;
    if (line.tap == kernel)
        return line;
    line.taps = (kernel - line.tap + line.tap_step - 1) / line.tap_step;
    line.in = (reach - (ptrdiff_t)(line.tap * dilation)) / (ptrdiff_t)stride;
    line.in_step = -step;
    line.low = dw_ceil_div(line.in - (ptrdiff_t)v->out_width + 1, step);
    line.high = dw_ceil_div(line.in + 1, step);
    return line;
}

/* The rows of inputs that row r (of samples * height) of outputs reads. */
static void dw_row_pairs(const struct np_conv *v, struct dw_row *row, size_t r, bool grad)
{
    size_t height = grad ? v->in_height : v->out_height;
    size_t other = grad ? v->out_height : v->in_height;
    size_t width = grad ? v->out_width : v->in_width;
    row->pair_count = 0;
    for (int kh = 0; kh < v->window.kernel_height; kh++) {
        size_t h = grad ? np_output_row(v, r % height, kh) : np_input_row(v, r % height, kh);
        if (h == NP_OUTSIDE)
            continue;
        row->pairs[row->pair_count].in =
            (grad ? v->dy : v->x) + (r / height * other + h) * width * row->ld;
        row->pairs[row->pair_count++].w =
            v->w + (size_t)kh * (size_t)v->window.kernel_width * row->cols;
    }
}

/* Rows of inputs up to the last that rows 0 .. r of outputs read. */
static size_t dw_rows_read(const struct np_conv *v, size_t r, bool grad)
{
    const struct np_window *w = &v->window;
    size_t height = grad ? v->in_height : v->out_height;
    size_t other = grad ? v->out_height : v->in_height;
    ptrdiff_t at = (ptrdiff_t)(r % height), last;
    if (grad)
        last = (at + w->pad_top) / w->stride_height;
    else
        last = at * w->stride_height + (w->kernel_height - 1) * w->dilation - w->pad_top;
    last += (ptrdiff_t)(r / height * other);
    return last < 0 ? 0 : np_min((size_t)last + 1, v->samples * other);
}

/* What row r + 1 of outputs reads for the first time and writes. */
static void dw_look_ahead(const struct np_conv *v, struct dw_row *row, const struct dw_line *line,
                          size_t r, bool grad)
{
    const float *in = grad ? v->dy : v->x;
    size_t ld = (grad ? v->out_width : v->in_width) * row->ld;
    size_t out = (grad ? v->in_width : v->out_width) * row->ld_out;
    size_t passes = dw_passes(row, line);
    row->ahead[0] = ahead_of(in + dw_rows_read(v, r, grad) * ld,
                             in + dw_rows_read(v, r + 1, grad) * ld, passes);
    row->ahead[1] = ahead_of(row->out + out, row->out + 2 * out, passes);
}

/* Positions `share` of the outputs, which are of one sample: line by line, and row by row. */
static vf dw_rows_run(const struct np_conv *v, struct dw_row *row, struct np_share share, bool grad,
                      vf bad)
{
    const struct axis across = forward_width(v);
    size_t width = grad ? v->in_width : v->out_width, period = 1;
    for (size_t k = 0; k < period && k < width; k++) {
        struct dw_line line = grad ? dw_line_dx(v, k, &period) : dw_line_along(&across, k, &period);
        dw_line_run *run = dw_runner(&line);
        for (size_t r = share.begin / width; r * width < share.end; r++) {
            size_t first = r * width < share.begin ? share.begin - r * width : 0;
            size_t last = np_min(width, share.end - r * width);
            size_t begin = first > k ? (first - k + period - 1) / period : 0;
            size_t end = last > k ? (last - k + period - 1) / period : 0;
            dw_row_pairs(v, row, r, grad);
            row->out = v->out + r * width * row->ld_out;
            if (row->ahead && k == 0) /* later lines are of the same rows */
                dw_look_ahead(v, row, &line, r, grad);
            if (v->epilogue.residual)
                row->residual = v->epilogue.residual + r * width * row->ld_residual;
            bad = grad ? run(row, &line, line.count - end, line.count - begin, bad)
                       : run(row, &line, begin, end, bad);
        }
    }
    return bad;
}

static bool dw_run(struct np_team *team, const struct np_conv *v, bool grad)
{
    size_t image = grad ? v->in_height * v->in_width : v->out_height * v->out_width;
    struct np_deal deal = np_team_deal(team, v->samples * image, 1);
    struct ahead ahead[DW_AHEAD] = {{0}};
    struct dw_row row;
    vf bad = v_zero();
    row.cols = v->in_channels;
    row.bias = v->epilogue.bias;
    row.residual = row.count = NULL;
    row.ld = grad ? v->ldy : v->ldx;
    row.ld_out = grad ? v->ldx : v->ldy;
    row.ld_residual = v->epilogue.ld;
    row.ahead = ahead_pays(v) ? ahead : NULL;
    for (struct np_share part; np_deal_run(&deal, image, &part);)
        bad = dw_rows_run(v, &row, part, grad, bad);
    return v_all_finite(bad);
}

static bool dwconv(struct np_team *team, const struct np_conv *v)
{
    return dw_run(team, v, false);
}

static bool dwconv_grad(struct np_team *team, const struct np_conv *v)
{
    return dw_run(team, v, true);
}

#endif
