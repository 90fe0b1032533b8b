/* Body of dwconv_<isa>.c: depthwise convolutions, line by line (num/dw_lines_simd.h).
 *
 * Dx goes from right to left, so that its taps ascend.
 */
#ifndef NP_NUM_DWCONV_SIMD_H
#define NP_NUM_DWCONV_SIMD_H

#include "num/backend.h"
#include "num/dw_two_rows_simd.h"

#define DW_LINES 4 /* of a row, whose functions are kept */

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

/* The lines of a row of outputs and their functions, worked out once; those from DW_LINES on, of
 * strides that hardly anybody has, each time. */
struct dw_lines {
    const struct np_conv *v;
    bool grad;
    size_t height, width, period; /* of outputs */
    const float *in;
    size_t in_height, in_row; /* of inputs: rows of a sample, floats of a row */
    size_t passes;            /* calls of dw_fetch in a row, or in two */
    bool two;                 /* rows may go two by two */
    struct dw_line line[DW_LINES];
    dw_line_run *run[DW_LINES];
};

static struct dw_line dw_line_at(const struct np_conv *v, bool grad, size_t k, size_t *period)
{
    const struct axis across = forward_width(v);
    return grad ? dw_line_dx(v, k, period) : dw_line_along(&across, k, period);
}

static struct dw_lines dw_lines_of(const struct np_conv *v, bool grad)
{
    struct dw_lines lines = {.v = v, .grad = grad, .period = 1};
    lines.height = grad ? v->in_height : v->out_height;
    lines.width = grad ? v->in_width : v->out_width;
    lines.in = grad ? v->dy : v->x;
    lines.in_height = grad ? v->out_height : v->in_height;
    lines.in_row = grad ? v->out_width * v->ldy : v->in_width * v->ldx;
    for (size_t k = 0; k < np_min(lines.period, np_min(lines.width, DW_LINES)); k++) {
        lines.line[k] = dw_line_at(v, grad, k, &lines.period);
        lines.run[k] = dw_runner(&lines.line[k]);
        lines.passes += dw_passes(v->in_channels, &lines.line[k]);
    }
    lines.two = v->window.kernel_height == DW_SIDE && v->window.stride_height == 1 &&
                v->window.dilation == 1 && v->epilogue.residual != v->out &&
                dw_go_by_two(&lines.line[0], v->in_channels);
    return lines;
}

/* The rows of inputs that row h of a sample's outputs reads. */
static void dw_row_pairs(const struct dw_lines *lines, struct dw_row *row, size_t sample, size_t h)
{
    const struct np_conv *v = lines->v;
    const struct np_window *w = &v->window;
    const float *in = lines->in + sample * lines->in_height * lines->in_row;
    const size_t taps = (size_t)w->kernel_width * row->cols;
    ptrdiff_t at = (ptrdiff_t)h * w->stride_height - w->pad_top;
    ptrdiff_t beyond = 0; /* dx: row `at` of dy and so many of the stride's parts of one */
    if (lines->grad) {
        at = (ptrdiff_t)h + w->pad_top;
        beyond = w->stride_height == 1 ? 0 : at % w->stride_height;
        at = w->stride_height == 1 ? at : at / w->stride_height;
    }
    row->pair_count = 0;
    for (size_t kh = 0; kh < (size_t)w->kernel_height; kh++) {
        if (beyond == 0 && at >= 0 && at < (ptrdiff_t)lines->in_height)
            row->pairs[row->pair_count++] =
                (struct dw_pair){in + (size_t)at * lines->in_row, v->w + kh * taps, NULL};
        if (!lines->grad)
            at += w->dilation;
        else
            for (beyond -= w->dilation; beyond < 0; beyond += w->stride_height)
                at--;
    }
}

/* Rows of inputs up to the last that rows up to row h of a sample's outputs read. */
static size_t dw_rows_read(const struct dw_lines *lines, size_t sample, size_t h)
{
    const struct np_window *w = &lines->v->window;
    ptrdiff_t last = (ptrdiff_t)h;
    if (lines->grad)
        last = (last + w->pad_top) / w->stride_height;
    else
        last = last * w->stride_height + (w->kernel_height - 1) * w->dilation - w->pad_top;
    last += (ptrdiff_t)(sample * lines->in_height);
    return last < 0 ? 0 : np_min((size_t)last + 1, lines->v->samples * lines->in_height);
}

/* The same, but the row may be of a sample after it. */
static size_t dw_rows_read_later(const struct dw_lines *lines, size_t sample, size_t h)
{
    for (; h >= lines->height; h -= lines->height)
        sample++;
    return dw_rows_read(lines, sample, h);
}

/* What as many rows after rows h .. h + count - 1 of a sample's outputs, at out, read for the first
 * time and write; of dx, whose rows take little time, those after them. */
static void dw_look_ahead(const struct dw_lines *lines, struct dw_row *row, const float *out,
                          size_t sample, size_t h, size_t count)
{
    const float *in = lines->in;
    const size_t first = (lines->grad ? 2 : 1) * count, end = first + count;
    const size_t line = lines->width * row->ld_out;
    const size_t from = dw_rows_read_later(lines, sample, h + first - 1);
    const size_t to = dw_rows_read_later(lines, sample, h + end - 1);
    row->ahead[0] = ahead_of(in + from * lines->in_row, in + to * lines->in_row, lines->passes);
    row->ahead[1] = ahead_of(out + first * line, out + end * line, lines->passes);
}

/* Outputs first .. last - 1 of a row. */
static vf dw_row_run(const struct dw_lines *lines, const struct dw_row *row, size_t first,
                     size_t last, vf bad)
{
    size_t period = lines->period;
    for (size_t k = 0; k < period && k < last; k++) {
        struct dw_line own;
        const struct dw_line *line = k < DW_LINES ? &lines->line[k] : &own;
        if (k >= DW_LINES)
            own = dw_line_at(lines->v, lines->grad, k, &period);
        dw_line_run *run = k < DW_LINES ? lines->run[k] : dw_runner(line);
        size_t begin = first > k ? steps_to(first - k, period) : 0;
        size_t end = last == lines->width ? line->count : steps_to(last - k, period);
        if (begin < end)
            bad = lines->grad ? run(row, line, line->count - end, line->count - begin, bad)
                              : run(row, line, begin, end, bad);
    }
    return bad;
}

/* Rows h and h + 1 of a sample's outputs; row: of the first in the order of taps. */
static vf dw_two_rows(const struct dw_lines *lines, const struct dw_row *row, size_t sample,
                      size_t h, vf bad)
{
    const struct np_conv *v = lines->v;
    const float *in = lines->in + sample * lines->in_height * lines->in_row;
    const ptrdiff_t next = lines->grad ? -1 : 1, width = (ptrdiff_t)lines->width;
    ptrdiff_t at = (ptrdiff_t)h - v->window.pad_top;
    struct dw_two two = {.w = v->w};
    two.out = next * width * (ptrdiff_t)row->ld_out;
    two.residual = next * width * (ptrdiff_t)row->ld_residual;
    if (lines->grad)
        at = (ptrdiff_t)h + 1 + v->window.pad_top;
    for (size_t i = 0; i < DW_SIDE + 1; i++, at += next)
        two.in[i] =
            at >= 0 && at < (ptrdiff_t)lines->in_height ? in + (size_t)at * lines->in_row : NULL;
    return dw_two_run(row, &lines->line[0], &two, bad);
}

/* Positions `share` of the outputs, which are of one sample. */
static vf dw_rows_run(const struct dw_lines *lines, struct dw_row *row, struct np_share share,
                      vf bad)
{
    const struct np_conv *v = lines->v;
    const size_t width = lines->width, begin = share.begin / width;
    const size_t sample = begin / lines->height, top = sample * lines->height;
    for (size_t r = begin, count; r * width < share.end; r += count) {
        const size_t first = r * width < share.begin ? share.begin - r * width : 0;
        const bool two = DW_TWO_ROWS && lines->two && first == 0 && (r + 2) * width <= share.end;
        const size_t at = (two && lines->grad ? r + 1 : r) * width; /* first in the order of taps */
        count = two ? 2 : 1;
        row->out = v->out + at * row->ld_out;
        if (v->epilogue.residual)
            row->residual = v->epilogue.residual + at * row->ld_residual;
        if (row->ahead)
            dw_look_ahead(lines, row, v->out + r * width * row->ld_out, sample, r - top, count);
        if (two) {
            bad = dw_two_rows(lines, row, sample, r - top, bad);
            continue;
        }
        dw_row_pairs(lines, row, sample, r - top);
        bad = dw_row_run(lines, row, first, np_min(width, share.end - r * width), bad);
    }
    return bad;
}

static bool dw_run(struct np_team *team, const struct np_conv *v, bool grad)
{
    const struct dw_lines lines = dw_lines_of(v, grad);
    size_t image = lines.height * lines.width;
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
    row.ahead = ahead_pays(v, grad ? AHEAD_WARM : AHEAD_COLD) ? ahead : NULL;
    for (struct np_share part; np_deal_run(&deal, image, &part);)
        bad = dw_rows_run(&lines, &row, part, bad);
    return v_all_finite(bad);
}

bool NP_SIMD(np_dwconv)(struct np_team *team, const struct np_conv *v)
{
    return dw_run(team, v, false);
}

bool NP_SIMD(np_dwconv_grad)(struct np_team *team, const struct np_conv *v)
{
    return dw_run(team, v, true);
}

#endif
