/* Depthwise windows of 3 x 3, in steps of one: two rows of outputs at once, so that an input is
 * loaded for up to six sums, and is met twice, not three times, by those of its column. Private to
 * num/.
 */
#ifndef NP_NUM_DW_TWO_ROWS_SIMD_H
#define NP_NUM_DW_TWO_ROWS_SIMD_H

#include "num/dw_lines_simd.h"

#define DW_SIDE 3                 /* rows and columns of a kernel whose rows are met together */
#define DW_TWO_ROWS (NP_VW == 16) /* there are registers for the sums and all weights */

/* Rows of inputs in the order of taps: row i meets row i of the kernel for the first row of outputs
 * and row i - 1 for the second. NULL: outside. */
struct dw_two {
    const float *in[DW_SIDE + 1];
    const float *w;
    ptrdiff_t out, residual; /* floats from an output of the first row to that of the second */
};

/* A whole vector of columns, from c on, of outputs beside each other in both rows, as dw_block_run.
 * outputs and which are constants. */
NP_INLINE vf dw_two_block(const struct dw_block *block, const struct dw_two *two, size_t cols,
                          size_t c, size_t outputs, uint32_t which, vf bad)
{
    struct dw_block b = *block;
    vf acc[2][DW_WIDE], weight[DW_SIDE][DW_SIDE];
    NP_UNROLL
    for (size_t o = 0; o < outputs; o++)
        acc[0][o] = acc[1][o] = v_zero();
    NP_UNROLL
    for (size_t j = 0; j < DW_SIDE * DW_SIDE; j++)
        weight[j / DW_SIDE][j % DW_SIDE] = v_load(two->w + j * cols + c);
    NP_UNROLL
    for (size_t i = 0; i < DW_SIDE + 1; i++) {
        if (!two->in[i])
            continue;
        const float *in = two->in[i] + (b.in + (ptrdiff_t)c);
        NP_UNROLL
        for (size_t q = 0; q < outputs - 1 + DW_SIDE; q++, in += b.in_step) {
            if ((which >> q & 1) == 0)
                continue;
            vf x = v_load(in);
            v_keep(x);
            NP_UNROLL
            for (size_t o = 0; o < outputs; o++) {
                if (q < o || q - o >= DW_SIDE)
                    continue;
                if (i < DW_SIDE)
                    acc[0][o] = v_fma(x, weight[i][q - o], acc[0][o]);
                if (i > 0)
                    acc[1][o] = v_fma(x, weight[i - 1][q - o], acc[1][o]);
            }
        }
    }
    bad = dw_finish(DW_PRODUCT, &b, acc[0], outputs, outputs, c, NP_VW, bad);
    b.out += two->out;
    b.residual += b.residual ? two->residual : 0;
    return dw_finish(DW_PRODUCT, &b, acc[1], outputs, outputs, c, NP_VW, bad);
}

NP_INLINE vf dw_two_columns(const struct dw_block *b, const struct dw_two *two, size_t cols,
                            size_t outputs, uint32_t which, vf bad)
{
    for (size_t c = 0; c < cols; c += NP_VW) {
        if (__builtin_expect(b->ahead != NULL, 0))
            dw_fetch(DW_PRODUCT, b->ahead);
        bad = dw_two_block(b, two, cols, np_min(c, cols - NP_VW), outputs, which, bad);
    }
    return bad;
}

/* Whole lines of outputs, of blocks of so many, a constant. */
NP_INLINE vf dw_two_lines(const struct dw_row *row, const struct dw_line *line,
                          const struct dw_two *two, size_t outputs, vf bad)
{
    const uint32_t all = dw_all_inputs(DW_SIDE, outputs, 1), first = all >> 1 << 1;
    struct dw_block b = dw_block_of(DW_PRODUCT, row, line, 0);
    for (size_t i = 0; i < line->count; i += outputs, dw_advance(DW_PRODUCT, &b, outputs, 1)) {
        const uint32_t which = dw_bits(b.low, b.high) & all;
        if (which == all)
            bad = dw_two_columns(&b, two, row->cols, outputs, all, bad);
        else if (which == first)
            bad = dw_two_columns(&b, two, row->cols, outputs, first, bad);
        else if (which == all >> 1)
            bad = dw_two_columns(&b, two, row->cols, outputs, all >> 1, bad);
        else
            bad = dw_two_columns(&b, two, row->cols, outputs, first & all >> 1, bad);
    }
    return bad;
}

/* Whether rows of such lines, of vectors of columns, may go two by two: dw_two_lines knows all that
 * they see. */
static bool dw_go_by_two(const struct dw_line *line, size_t cols)
{
    const size_t outputs = dw_wide(DW_PRODUCT, line->count);
    return cols >= NP_VW && line->taps == DW_SIDE && line->tap == 0 && line->tap_step == 1 &&
           line->stride == 1 && line->count % outputs == 0 && line->low <= 1 &&
           line->high >= (ptrdiff_t)line->count + 1;
}

static vf dw_two_run(const struct dw_row *row, const struct dw_line *line, const struct dw_two *two,
                     vf bad)
{
    const size_t outputs = dw_wide(DW_PRODUCT, line->count);
    return outputs == DW_WIDE    ? dw_two_lines(row, line, two, DW_WIDE, bad)
           : outputs == DW_SEVEN ? dw_two_lines(row, line, two, DW_SEVEN, bad)
                                 : dw_two_lines(row, line, two, DW_NARROW, bad);
}

#endif
