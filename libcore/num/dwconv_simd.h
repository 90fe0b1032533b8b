/* SIMD kernels of num/kernels.h: depthwise convolutions.
 *
 * y and dx: a row of outputs is cut into lines, in which neighbours read neighbours: the outputs of
 * one residue modulo the dilation (the stride, for dx). Then y and dx, of any stride and dilation,
 * are one and the same sum, with taps and inputs in steps of one, and a block of outputs slides
 * over a run of inputs: each input is loaded once for all outputs that read it. What lies outside
 * is never met. dx goes from right to left, so that its taps ascend.
 */
#ifndef NP_NUM_DWCONV_SIMD_H
#define NP_NUM_DWCONV_SIMD_H

#include "num/columns_simd.h"
#include "num/image_ahead.h"
#include "num/image_axis.h"
#include "num/simd_loops.h"
#include "num/window.h"

#define DW_TAPS 7   /* that a function is made for */
#define DW_WIDE 8   /* outputs of a block */
#define DW_NARROW 4 /* of what is left ... */
#define DW_PAIR 2   /* and of rows of so many */

struct dw_line {
    ptrdiff_t out, out_step; /* output i (of count) is position out + i * out_step of its row */
    ptrdiff_t in, in_step;   /* input t is position in + t * in_step of its row ... */
    ptrdiff_t low, high;     /* ... if low <= t < high, or else outside */
    size_t count, stride;    /* tap j of output i reads input i * stride + j */
    size_t taps;             /* tap j is column tap + j * tap_step of the kernel */
    size_t tap, tap_step;
};

struct dw_pair {
    const float *in, *w; /* an input row and the row of the kernel that meets it */
};

/* What all lines of one row of outputs share. */
struct dw_row {
    struct dw_pair pairs[NP_KC];
    size_t pair_count, ld, cols; /* ld: of inputs */
    float *out;
    const float *bias, *residual;
    size_t ld_out, ld_residual;
    struct ahead *ahead; /* [2]: inputs and outputs of the next row; NULL: they are close by */
};

static size_t dw_gcd(size_t a, size_t b)
{
    return b == 0 ? a : dw_gcd(b, a % b);
}

static ptrdiff_t dw_ceil_div(ptrdiff_t a, ptrdiff_t b)
{
    return b == 1 ? a : a > 0 ? (a + b - 1) / b : -(-a / b);
}

/* The r-th of `period` lines of rows of windows. */
static struct dw_line dw_line_along(const struct axis *a, size_t r, size_t *period)
{
    size_t common = dw_gcd(a->stride, a->spacing);
    struct dw_line line = {.in_step = (ptrdiff_t)a->spacing, .taps = a->taps, .tap_step = 1};
    *period = a->spacing / common;
    line.out = (ptrdiff_t)(a->place + r * a->step);
    line.out_step = (ptrdiff_t)(*period * a->step);
    line.count = (a->out + *period - 1 - r) / *period;
    line.stride = a->stride / common;
    line.in = (ptrdiff_t)(a->stride * r) + a->first;
    line.low = dw_ceil_div(-line.in, line.in_step);
    line.high = dw_ceil_div((ptrdiff_t)a->in - line.in, line.in_step);
    return line;
}

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

/* Neighbours in a line, at their first column: offsets and distances in floats. */
struct dw_block {
    const struct dw_pair *pairs, *end;
    ptrdiff_t in, in_step; /* input q of the block ... */
    ptrdiff_t low, high;   /* ... if low <= q < high */
    size_t w, w_step;
    float *out;
    const float *bias, *residual;
    ptrdiff_t out_step, residual_step;
    struct ahead *ahead;
};

static inline struct dw_block dw_block_of(const struct dw_row *row, const struct dw_line *line,
                                          size_t i)
{
    const ptrdiff_t t = (ptrdiff_t)(i * line->stride), ld = (ptrdiff_t)row->ld;
    const ptrdiff_t out = line->out + (ptrdiff_t)i * line->out_step;
    struct dw_block b = {.pairs = row->pairs, .end = row->pairs + row->pair_count};
    b.ahead = row->ahead;
    b.in = (line->in + t * line->in_step) * ld;
    b.in_step = line->in_step * ld;
    b.low = line->low - t;
    b.high = line->high - t;
    b.w = line->tap * row->cols;
    b.w_step = line->tap_step * row->cols;
    b.out = row->out + out * (ptrdiff_t)row->ld_out;
    b.out_step = line->out_step * (ptrdiff_t)row->ld_out;
    b.bias = row->bias;
    b.residual = row->residual ? row->residual + out * (ptrdiff_t)row->ld_residual : NULL;
    b.residual_step = line->out_step * (ptrdiff_t)row->ld_residual;
    return b;
}

/* The block `outputs` further on. */
static inline void dw_advance(struct dw_block *b, size_t outputs, size_t stride)
{
    b->in += (ptrdiff_t)(outputs * stride) * b->in_step;
    b->low -= (ptrdiff_t)(outputs * stride);
    b->high -= (ptrdiff_t)(outputs * stride);
    b->out += (ptrdiff_t)outputs * b->out_step;
    b->residual += b->residual ? (ptrdiff_t)outputs * b->residual_step : 0;
}

/* The sums of n columns from c on of `count` of `outputs` outputs, to where they belong. */
NP_INLINE vf dw_finish(const struct dw_block *b, vf *acc, size_t outputs, size_t count, size_t c,
                       size_t n, vf bad)
{
    if (b->bias) {
        vf bias = v_part(b->bias + c, n);
        NP_UNROLL
        for (size_t o = 0; o < outputs; o++)
            acc[o] = v_add(acc[o], bias);
    }
    if (b->residual) {
        const float *residual = b->residual + c;
        NP_UNROLL
        for (size_t o = 0; o < outputs; o++, residual += b->residual_step)
            if (o < count)
                acc[o] = v_add(v_part(residual, n), acc[o]);
    }
    float *out = b->out + c;
    NP_UNROLL
    for (size_t o = 0; o < outputs; o++, out += b->out_step) {
        if (o >= count)
            break;
        v_put(out, n, acc[o]);
        bad = v_not_finite(bad, acc[o]);
    }
    return bad;
}

/* n (1..NP_VW) columns from c on of `count` of `outputs` outputs; which: bit q, whether input q of
 * them is to be read. taps, stride and outputs are constants; where all outputs and inputs are
 * meant, count and which are, too. */
NP_INLINE vf dw_block_run(const struct dw_block *block, size_t c, size_t n, size_t taps,
                          size_t stride, size_t outputs, size_t count, uint32_t which, vf bad)
{
    const struct dw_block b = *block;
    vf acc[DW_WIDE], weight[DW_TAPS];
    NP_UNROLL
    for (size_t o = 0; o < outputs; o++)
        acc[o] = v_zero();
    for (const struct dw_pair *p = b.pairs; p < b.end; p++) {
        const float *in = p->in + (b.in + (ptrdiff_t)c), *w = p->w + (b.w + c);
        NP_UNROLL
        for (size_t j = 0; j < taps; j++, w += b.w_step)
            weight[j] = v_part(w, n);
        NP_UNROLL
        for (size_t q = 0; q < (outputs - 1) * stride + taps; q++, in += b.in_step) {
            if (!__builtin_constant_p(which))
                NP_OPAQUE(which); /* or its bits take registers */
            if ((which >> q & 1) == 0)
                continue;
            vf x = v_part(in, n);
            v_keep(x);
            NP_UNROLL
            for (size_t o = 0; o < outputs; o++)
                if (q >= o * stride && q - o * stride < taps)
                    acc[o] = v_fma(x, weight[q - o * stride], acc[o]);
        }
    }
    return dw_finish(&b, acc, outputs, count, c, n, bad);
}

/* Bits low .. high - 1 of 32. */
static inline uint32_t dw_bits(ptrdiff_t low, ptrdiff_t high)
{
    uint32_t below = high >= 32 ? ~UINT32_C(0) : high > 0 ? (UINT32_C(1) << high) - 1 : 0;
    return low >= 32 ? 0 : low > 0 ? below >> low << low : below;
}

static inline uint32_t dw_all_inputs(size_t taps, size_t outputs, size_t stride)
{
    return (UINT32_C(1) << ((outputs - 1) * stride + taps)) - 1;
}

/* Some of what the next row wants. */
static void dw_fetch(struct ahead ahead[2])
{
    ahead_step(&ahead[0]);
    ahead_step(&ahead[1]);
}

/* Columns 0 .. end - 1 of n outputs, at most `outputs`, the last vector of them once more if it is
 * no whole one; which: as in dw_block_run. */
NP_INLINE vf dw_columns(const struct dw_block *b, size_t end, size_t taps, size_t stride,
                        size_t outputs, size_t n, uint32_t which, vf bad)
{
    for (size_t c = 0; c < end; c += NP_VW) {
        if (__builtin_expect(b->ahead != NULL, 0))
            dw_fetch(b->ahead);
        bad = dw_block_run(b, np_min(c, end - NP_VW), NP_VW, taps, stride, outputs, n, which, bad);
    }
    return bad;
}

/* Those of `outputs` outputs. Images whose edges are half a kernel wide, as they mostly are, leave
 * out inputs that are known here, so that blocks at edges take no longer than others. */
NP_INLINE vf dw_outputs(const struct dw_block *b, size_t end, size_t taps, size_t stride,
                        size_t outputs, vf bad)
{
    const uint32_t all = dw_all_inputs(taps, outputs, stride);
    const uint32_t first = all >> (taps / 2) << (taps / 2), last = all >> ((taps - stride) / 2);
    const uint32_t which = dw_bits(b->low, b->high) & all;
    if (which == all)
        return dw_columns(b, end, taps, stride, outputs, outputs, all, bad);
    if (which == first)
        return dw_columns(b, end, taps, stride, outputs, outputs, first, bad);
    if (which == last)
        return dw_columns(b, end, taps, stride, outputs, outputs, last, bad);
    if (which == (first & last))
        return dw_columns(b, end, taps, stride, outputs, outputs, first & last, bad);
    return dw_columns(b, end, taps, stride, outputs, outputs, which, bad);
}

/* Columns c .. cols - 1, less than a vector, of n outputs. */
NP_INLINE vf dw_rest(const struct dw_block *b, size_t c, size_t cols, size_t taps, size_t stride,
                     size_t n, vf bad)
{
    for (size_t o = 0; o < n; o += DW_NARROW) {
        struct dw_block part = *b;
        dw_advance(&part, o, stride);
        bad = dw_block_run(&part, c, cols - c, taps, stride, DW_NARROW, np_min(DW_NARROW, n - o),
                           dw_bits(part.low, part.high), bad);
    }
    return bad;
}

/* Outputs begin .. end - 1 of a line, the last block's some once more if it is no whole one. */
NP_INLINE vf dw_line_of(const struct dw_row *row, const struct dw_line *line, size_t begin,
                        size_t end, size_t taps, size_t stride, vf bad)
{
    const size_t count = end - begin, wide = count >= DW_WIDE ? DW_WIDE : DW_NARROW;
    const bool again = row->residual != row->out, rest = row->cols < NP_VW || !again;
    const size_t cols = rest ? row->cols / NP_VW * NP_VW : row->cols;
    struct dw_block b = dw_block_of(row, line, begin);
    for (size_t i = begin, n; i < end; i += n, dw_advance(&b, n, stride)) {
        if (end - i < wide && count >= wide && again) {
            i = end - wide;
            b = dw_block_of(row, line, i);
        }
        n = end - i >= DW_WIDE ? DW_WIDE : np_min(DW_NARROW, end - i);
        if (n == DW_WIDE)
            bad = dw_outputs(&b, cols, taps, stride, DW_WIDE, bad);
        else if (n == DW_NARROW)
            bad = dw_outputs(&b, cols, taps, stride, DW_NARROW, bad);
        else if (n == DW_PAIR)
            bad = dw_outputs(&b, cols, taps, stride, DW_PAIR, bad);
        else
            bad = dw_columns(&b, cols, taps, stride, DW_NARROW, n, dw_bits(b.low, b.high), bad);
        if (cols < row->cols)
            bad = dw_rest(&b, cols, row->cols, taps, stride, n, bad);
    }
    return bad;
}

/* Any number of taps, any stride: output by output. */
static vf dw_line_any(const struct dw_row *row, const struct dw_line *line, size_t begin,
                      size_t end, vf bad)
{
    for (size_t i = begin; i < end; i++) {
        const struct dw_block b = dw_block_of(row, line, i);
        const ptrdiff_t t = (ptrdiff_t)(i * line->stride);
        size_t first = line->low > t ? (size_t)(line->low - t) : 0;
        size_t last = line->high > t ? np_min(line->taps, (size_t)(line->high - t)) : 0;
        for (size_t c = 0; c < row->cols; c += NP_VW) {
            size_t n = np_min(NP_VW, row->cols - c);
            vf acc = v_zero();
            for (size_t p = 0; p < row->pair_count; p++) {
                for (size_t j = first; j < last; j++) {
                    ptrdiff_t at = line->in + (t + (ptrdiff_t)j) * line->in_step;
                    size_t tap = line->tap + j * line->tap_step;
                    acc = v_fma(v_part(row->pairs[p].in + at * (ptrdiff_t)row->ld + c, n),
                                v_part(row->pairs[p].w + tap * row->cols + c, n), acc);
                }
            }
            bad = dw_finish(&b, &acc, 1, 1, c, n, bad);
        }
    }
    return bad;
}

/* Those that have a function of their own: CALL(taps, stride). */
#define DW_EACH(CALL)                                                                              \
    CALL(1, 1)                                                                                     \
    CALL(2, 1)                                                                                     \
    CALL(3, 1)                                                                                     \
    CALL(4, 1) CALL(5, 1) CALL(6, 1) CALL(7, 1) CALL(2, 2) CALL(3, 2) CALL(5, 2) CALL(7, 2)

#define DW_LINE(taps, stride)                                                                      \
    static vf dw_line_##taps##_##stride(const struct dw_row *row, const struct dw_line *line,      \
                                        size_t begin, size_t end, vf bad)                          \
    {                                                                                              \
        return dw_line_of(row, line, begin, end, taps, stride, bad);                               \
    }
DW_EACH(DW_LINE)

typedef vf dw_line_run(const struct dw_row *, const struct dw_line *, size_t begin, size_t end,
                       vf bad);

static dw_line_run *dw_line_runner(const struct dw_line *line)
{
#define DW_CHOOSE(t, s)                                                                            \
    if (line->taps == t && line->stride == s)                                                      \
        return dw_line_##t##_##s;
    DW_EACH(DW_CHOOSE)
    return dw_line_any;
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

/* Calls of dw_fetch in a row. */
static size_t dw_passes(const struct dw_row *row, const struct dw_line *line)
{
    return (line->count + DW_WIDE - 1) / DW_WIDE * ((row->cols + NP_VW - 1) / NP_VW);
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
        dw_line_run *run = dw_line_runner(&line);
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
    struct ahead ahead[2];
    struct dw_row row;
    vf bad = v_zero();
    row.cols = v->in_channels;
    row.bias = v->epilogue.bias;
    row.residual = NULL;
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
