/* Sums of windows, channel by channel: of depthwise convolutions and of pools. Private to num/.
 *
 * A row of outputs is cut into lines, in which neighbours read neighbours: the outputs of one
 * residue modulo the dilation (the stride, for dx). Then y and dx, of any stride and dilation, are
 * one and the same sum, with taps and inputs in steps of one, and a block of outputs slides over a
 * run of inputs: each input is loaded once for all outputs that read it. What lies outside is never
 * met.
 */
#ifndef NP_NUM_DW_LINES_SIMD_H
#define NP_NUM_DW_LINES_SIMD_H

#include "num/image_ahead.h"
#include "num/image_axis.h"
#include "num/simd_loops.h"

#define DW_TAPS 7    /* that a function is made for */
#define DW_WIDE 8    /* outputs of a block, or ... */
#define DW_SEVEN 7   /* ... where rows fall into so many: images are 7, 14, 28 ... wide */
#define DW_NARROW 4  /* of what is left ... */
#define DW_PAIR 2    /* and of rows of so many */
#define DW_CHAINED 4 /* vectors of columns, where outputs come one by one */
#define DW_AHEAD 3   /* inputs, outputs and chosen numbers that are fetched */

/* What an input adds to a sum: itself times a weight, or itself, or that only where the number of
 * the tap was chosen. */
enum dw_term { DW_PRODUCT, DW_INPUT, DW_CHOSEN };

struct dw_line {
    ptrdiff_t out, out_step; /* output i (of count) is position out + i * out_step of its row */
    ptrdiff_t in, in_step;   /* input t is position in + t * in_step of its row ... */
    ptrdiff_t low, high;     /* ... if low <= t < high, or else outside */
    size_t count, stride;    /* tap j of output i reads input i * stride + j */
    size_t taps;             /* tap j is column tap + j * tap_step of the kernel */
    size_t tap, tap_step;
};

struct dw_pair {
    const float *in, *w; /* an input row and the row of the kernel that meets it; DW_CHOSEN: the */
    const float *chosen; /* bits of its taps' numbers, of each a vector, and of the chosen ones */
};

/* What all lines of one row of outputs share. */
struct dw_row {
    struct dw_pair pairs[NP_KC];
    size_t pair_count, ld, cols; /* ld: of inputs; of chosen numbers it is cols */
    float *out;
    const float *bias, *residual;
    const float *count; /* of each output position: what its sums are divided by; or NULL */
    size_t ld_out, ld_residual;
    struct ahead *ahead; /* of the next row; NULL: it is close by */
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

/* Neighbours in a line, at their first column: offsets and distances in floats, but of counts. */
struct dw_block {
    const struct dw_pair *pairs, *end;
    ptrdiff_t in, in_step; /* input q of the block ... */
    ptrdiff_t low, high;   /* ... if low <= q < high */
    ptrdiff_t chosen, chosen_step;
    size_t w, w_step;
    float *out;
    const float *bias, *residual, *count;
    ptrdiff_t out_step, residual_step, count_step;
    struct ahead *ahead;
};

NP_INLINE struct dw_block dw_block_of(enum dw_term term, const struct dw_row *row,
                                      const struct dw_line *line, size_t i)
{
    const ptrdiff_t t = (ptrdiff_t)(i * line->stride), in = line->in + t * line->in_step;
    const ptrdiff_t ld = (ptrdiff_t)row->ld, cols = (ptrdiff_t)row->cols;
    const ptrdiff_t out = line->out + (ptrdiff_t)i * line->out_step;
    struct dw_block b = {.pairs = row->pairs, .end = row->pairs + row->pair_count};
    b.ahead = row->ahead;
    b.in = in * ld;
    b.in_step = line->in_step * ld;
    b.chosen = term == DW_CHOSEN ? in * cols : 0;
    b.chosen_step = term == DW_CHOSEN ? line->in_step * cols : 0;
    b.low = line->low - t;
    b.high = line->high - t;
    b.w = line->tap * row->cols;
    b.w_step = line->tap_step * row->cols;
    b.out = row->out + out * (ptrdiff_t)row->ld_out;
    b.out_step = line->out_step * (ptrdiff_t)row->ld_out;
    b.bias = row->bias;
    b.residual = row->residual ? row->residual + out * (ptrdiff_t)row->ld_residual : NULL;
    b.residual_step = line->out_step * (ptrdiff_t)row->ld_residual;
    b.count = term == DW_INPUT && row->count ? row->count + out : NULL;
    b.count_step = line->out_step;
    return b;
}

/* The block `outputs` further on. */
NP_INLINE void dw_advance(enum dw_term term, struct dw_block *b, size_t outputs, size_t stride)
{
    b->in += (ptrdiff_t)(outputs * stride) * b->in_step;
    b->chosen += term == DW_CHOSEN ? (ptrdiff_t)(outputs * stride) * b->chosen_step : 0;
    b->low -= (ptrdiff_t)(outputs * stride);
    b->high -= (ptrdiff_t)(outputs * stride);
    b->out += (ptrdiff_t)outputs * b->out_step;
    b->residual += b->residual ? (ptrdiff_t)outputs * b->residual_step : 0;
    b->count += term == DW_INPUT && b->count ? (ptrdiff_t)outputs * b->count_step : 0;
}

/* The sums of n columns from c on of `count` of `outputs` outputs, to where they belong. Where they
 * are made of additions products by 0 find what is not finite: NaN, too, but in other pipes. */
NP_INLINE vf dw_finish(enum dw_term term, const struct dw_block *b, vf *acc, size_t outputs,
                       size_t count, size_t c, size_t n, vf bad)
{
    if (term == DW_INPUT && b->count) {
        NP_UNROLL
        for (size_t o = 0; o < outputs; o++)
            if (o < count)
                acc[o] = v_div(acc[o], v_set1(b->count[(ptrdiff_t)o * b->count_step]));
    }
    if (term == DW_PRODUCT && b->bias) {
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
        bad = term == DW_PRODUCT ? v_not_finite(bad, acc[o]) : v_or(bad, v_mul(acc[o], v_zero()));
    }
    return bad;
}

/* w: the weight, or the number of the tap. */
NP_INLINE vf dw_add(enum dw_term term, vf acc, vf x, vf chosen, vf w)
{
    return term == DW_PRODUCT ? v_fma(x, w, acc)
           : term == DW_INPUT ? v_add(acc, x)
                              : v_add_same(acc, x, chosen, w);
}

/* What tap j adds: where w is that of column c of the first. */
NP_INLINE vf dw_weight(enum dw_term term, const float *w, size_t w_step, size_t j, size_t n)
{
    return term == DW_PRODUCT ? v_part(w + j * w_step, n)
           : term == DW_INPUT ? v_zero()
                              : v_load(w + j * NP_VW);
}

/* n (1..NP_VW) columns from c on of `count` of `outputs` outputs; which: bit q, whether input q of
 * them is to be read. term, taps, stride and outputs are constants; where all outputs and inputs
 * are meant, count and which are, too. */
NP_INLINE vf dw_block_run(enum dw_term term, const struct dw_block *block, size_t c, size_t n,
                          size_t taps, size_t stride, size_t outputs, size_t count, uint32_t which,
                          vf bad)
{
    const struct dw_block b = *block;
    vf acc[DW_WIDE], weight[DW_TAPS], chosen = v_zero();
    NP_UNROLL
    for (size_t o = 0; o < outputs; o++)
        acc[o] = v_zero();
    for (const struct dw_pair *p = b.pairs; p < b.end; p++) {
        const float *in = p->in + (b.in + (ptrdiff_t)c);
        const float *number = term == DW_CHOSEN ? p->chosen + (b.chosen + (ptrdiff_t)c) : in;
        const float *w = p->w + (term == DW_PRODUCT ? b.w + c : 0);
        NP_UNROLL
        for (size_t j = 0; j < taps; j++)
            weight[j] = dw_weight(term, w, b.w_step, j, n);
        NP_UNROLL
        for (size_t q = 0; q < (outputs - 1) * stride + taps; q++) {
            const float *x_at = in, *chosen_at = number;
            in += b.in_step;
            number += b.chosen_step;
            if (!__builtin_constant_p(which))
                NP_OPAQUE(which); /* or its bits take registers */
            if ((which >> q & 1) == 0)
                continue;
            vf x = v_part(x_at, n);
            v_keep(x);
            if (term == DW_CHOSEN) {
                chosen = v_part(chosen_at, n);
                v_keep(chosen);
            }
            NP_UNROLL
            for (size_t o = 0; o < outputs; o++)
                if (q >= o * stride && q - o * stride < taps)
                    acc[o] = dw_add(term, acc[o], x, chosen, weight[q - o * stride]);
        }
    }
    return dw_finish(term, &b, acc, outputs, count, c, n, bad);
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
NP_INLINE void dw_fetch(enum dw_term term, struct ahead ahead[DW_AHEAD])
{
    for (size_t i = 0; i < (term == DW_CHOSEN ? DW_AHEAD : 2); i++)
        ahead_step(&ahead[i]);
}

/* Columns 0 .. end - 1 of n outputs, at most `outputs`, the last vector of them once more if it is
 * no whole one; which: as in dw_block_run. */
NP_INLINE vf dw_columns(enum dw_term term, const struct dw_block *b, size_t end, size_t taps,
                        size_t stride, size_t outputs, size_t n, uint32_t which, vf bad)
{
    for (size_t c = 0; c < end; c += NP_VW) {
        if (__builtin_expect(b->ahead != NULL, 0))
            dw_fetch(term, b->ahead);
        bad = dw_block_run(term, b, np_min(c, end - NP_VW), NP_VW, taps, stride, outputs, n, which,
                           bad);
    }
    return bad;
}

/* Those of `outputs` outputs, if it is known here which inputs they are to read: all, or without
 * edges half a kernel wide, as those of images mostly are. Else false. */
NP_INLINE bool dw_outputs(enum dw_term term, const struct dw_block *b, size_t end, size_t taps,
                          size_t stride, size_t outputs, vf *bad)
{
    const uint32_t all = dw_all_inputs(taps, outputs, stride);
    const uint32_t first = all >> (taps / 2) << (taps / 2);
    const bool wider = taps == 2 || (taps == 1 && term != DW_PRODUCT); /* pools': by one */
    const uint32_t last = all >> ((taps - stride) / 2 + wider);
    const uint32_t which = dw_bits(b->low, b->high) & all;
    if (which == all)
        *bad = dw_columns(term, b, end, taps, stride, outputs, outputs, all, *bad);
    else if (which == first)
        *bad = dw_columns(term, b, end, taps, stride, outputs, outputs, first, *bad);
    else if (which == last)
        *bad = dw_columns(term, b, end, taps, stride, outputs, outputs, last, *bad);
    else if (which == (first & last))
        *bad = dw_columns(term, b, end, taps, stride, outputs, outputs, first & last, *bad);
    else
        return false;
    return true;
}

/* Columns c .. end - 1, whole vectors as dw_columns, and the rest up to cols, of n outputs. */
NP_INLINE vf dw_parts(enum dw_term term, const struct dw_block *b, size_t c, size_t end,
                      size_t cols, size_t taps, size_t stride, size_t n, vf bad)
{
    for (size_t o = 0; o < n; o += DW_NARROW) {
        struct dw_block part = *b;
        dw_advance(term, &part, o, stride);
        const size_t count = np_min(DW_NARROW, n - o);
        const uint32_t which = dw_bits(part.low, part.high);
        if (c < end)
            bad = dw_columns(term, &part, end, taps, stride, DW_NARROW, count, which, bad);
        if (end < cols)
            bad = dw_block_run(term, &part, end, cols - end, taps, stride, DW_NARROW, count, which,
                               bad);
    }
    return bad;
}

/* Outputs of blocks of a line of so many. */
NP_INLINE size_t dw_wide(enum dw_term term, size_t count)
{
    if (term == DW_PRODUCT && count >= DW_SEVEN && count % DW_SEVEN == 0 && count % DW_WIDE != 0)
        return DW_SEVEN;
    return count >= DW_WIDE ? DW_WIDE : DW_NARROW;
}

/* Outputs begin .. end - 1 of a line, the last block's some once more if it is no whole one. */
NP_INLINE vf dw_line_of(enum dw_term term, const struct dw_row *row, const struct dw_line *line,
                        size_t begin, size_t end, size_t taps, size_t stride, vf bad)
{
    const size_t count = end - begin, wide = dw_wide(term, count);
    const bool again = row->residual != row->out, rest = row->cols < NP_VW || !again;
    const size_t cols = rest ? row->cols / NP_VW * NP_VW : row->cols;
    struct dw_block b = dw_block_of(term, row, line, begin);
    for (size_t i = begin, n; i < end; i += n, dw_advance(term, &b, n, stride)) {
        if (end - i < wide && count >= wide && again) {
            i = end - wide;
            b = dw_block_of(term, row, line, i);
        }
        n = end - i >= wide ? wide : np_min(DW_NARROW, end - i);
        const bool done =
            n == DW_WIDE    ? dw_outputs(term, &b, cols, taps, stride, DW_WIDE, &bad)
            : n == DW_SEVEN ? dw_outputs(term, &b, cols, taps, stride, DW_SEVEN, &bad)
            : n == DW_NARROW
                ? dw_outputs(term, &b, cols, taps, stride, DW_NARROW, &bad)
                : n == DW_PAIR && dw_outputs(term, &b, cols, taps, stride, DW_PAIR, &bad);
        if (__builtin_expect(!done || cols < row->cols, 0))
            bad = dw_parts(term, &b, done ? cols : 0, cols, row->cols, taps, stride, n, bad);
    }
    return bad;
}

/* `vectors` vectors of n columns each, from c on, of an output that taps first .. last - 1 meet.
 * vectors is a constant. */
NP_INLINE vf dw_any_columns(enum dw_term term, const struct dw_block *b, size_t first, size_t last,
                            size_t c, size_t vectors, size_t n, vf bad)
{
    vf acc[DW_CHAINED], chosen = v_zero();
    NP_UNROLL
    for (size_t g = 0; g < vectors; g++)
        acc[g] = v_zero();
    for (const struct dw_pair *p = b->pairs; p < b->end; p++) {
        const float *w = p->w + (term == DW_PRODUCT ? b->w + c : 0);
        for (size_t j = first; j < last; j++) {
            const float *x = p->in + (b->in + (ptrdiff_t)j * b->in_step) + c;
            NP_UNROLL
            for (size_t g = 0; g < vectors; g++) {
                if (term == DW_CHOSEN)
                    chosen = v_part(
                        p->chosen + (b->chosen + (ptrdiff_t)j * b->chosen_step) + c + g * NP_VW, n);
                acc[g] = dw_add(
                    term, acc[g], v_part(x + g * NP_VW, n), chosen,
                    dw_weight(term, w + (term == DW_PRODUCT ? g * NP_VW : 0), b->w_step, j, n));
            }
        }
    }
    NP_UNROLL
    for (size_t g = 0; g < vectors; g++)
        bad = dw_finish(term, b, &acc[g], 1, 1, c + g * NP_VW, n, bad);
    return bad;
}

/* Any number of taps, any stride: output by output. */
NP_INLINE vf dw_line_any(enum dw_term term, const struct dw_row *row, const struct dw_line *line,
                         size_t begin, size_t end, vf bad)
{
    for (size_t i = begin; i < end; i++) {
        const struct dw_block b = dw_block_of(term, row, line, i);
        const ptrdiff_t t = (ptrdiff_t)(i * line->stride);
        size_t first = line->low > t ? (size_t)(line->low - t) : 0;
        size_t last = line->high > t ? np_min(line->taps, (size_t)(line->high - t)) : 0, c = 0;
        for (; c + DW_CHAINED * NP_VW <= row->cols; c += DW_CHAINED * NP_VW)
            bad = dw_any_columns(term, &b, first, last, c, DW_CHAINED, NP_VW, bad);
        for (; c < row->cols; c += NP_VW)
            bad = dw_any_columns(term, &b, first, last, c, 1, np_min(NP_VW, row->cols - c), bad);
    }
    return bad;
}

typedef vf dw_line_run(const struct dw_row *, const struct dw_line *, size_t begin, size_t end,
                       vf bad);

/* Those that have a function of their own: CALL(term, taps, stride). */
#define DW_FEW(CALL, term) CALL(term, 1, 1) CALL(term, 2, 1) CALL(term, 3, 1)

#define DW_LINE(term, taps, stride)                                                                \
    static vf term##_line_##taps##_##stride(const struct dw_row *row, const struct dw_line *line,  \
                                            size_t begin, size_t end, vf bad)                      \
    {                                                                                              \
        return dw_line_of(term, row, line, begin, end, taps, stride, bad);                         \
    }
#define DW_CHOOSE(term, t, s)                                                                      \
    if (line->taps == t && line->stride == s)                                                      \
        return term##_line_##t##_##s;

/* Functions of LIST and one for any line; and name(line), which chooses. */
#define DW_RUNNER(name, term, LIST)                                                                \
    LIST(DW_LINE, term)                                                                            \
    static vf term##_line_any(const struct dw_row *row, const struct dw_line *line, size_t begin,  \
                              size_t end, vf bad)                                                  \
    {                                                                                              \
        return dw_line_any(term, row, line, begin, end, bad);                                      \
    }                                                                                              \
    static dw_line_run *name(const struct dw_line *line)                                           \
    {                                                                                              \
        LIST(DW_CHOOSE, term)                                                                      \
        return term##_line_any;                                                                    \
    }

/* Calls of dw_fetch in a row. */
static size_t dw_passes(size_t cols, const struct dw_line *line)
{
    return (line->count + DW_WIDE - 1) / DW_WIDE * ((cols + NP_VW - 1) / NP_VW);
}

#endif
