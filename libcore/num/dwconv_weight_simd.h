/* SIMD kernels of num/kernels.h: the weights' gradient of depthwise convolutions.
 *
 * A strip of outputs meets one row of the kernel after the other, with the sums of its taps in
 * registers; neighbours share inputs as in y and dx.
 */
#ifndef NP_NUM_DWCONV_WEIGHT_SIMD_H
#define NP_NUM_DWCONV_WEIGHT_SIMD_H

#include "num/dwconv_simd.h"

/* The part of a row of y whose products go into the weights' gradient at once. */
struct dw_strip {
    const float *in, *dy; /* the input row, the first output */
    ptrdiff_t at, width;  /* output i's tap j meets position at + i * stride + j * dilation of it */
    size_t count, stride, dilation, ldx, ldy;
};

#define DW_STRIP 16        /* outputs, at least: their inputs stay close by; if narrow, more */
#define DW_SUMS (24 << 10) /* bytes of a chunk's sums, which stay in the first-level cache */

/* sums[j] += the products of taps j (a constant number) with one output, n columns from c on. */
NP_INLINE void dw_weight_one(vf *sums, const struct dw_strip *s, size_t i, size_t c, size_t n,
                             size_t taps)
{
    const ptrdiff_t at = s->at + (ptrdiff_t)(i * s->stride), step = (ptrdiff_t)s->dilation;
    vf dy = v_part(s->dy + i * s->ldy + c, n);
    NP_UNROLL
    for (size_t j = 0; j < taps; j++) {
        ptrdiff_t from = at + (ptrdiff_t)j * step;
        if (from >= 0 && from < s->width)
            sums[j] = v_fma(v_part(s->in + (size_t)from * s->ldx + c, n), dy, sums[j]);
    }
}

/* The same with DW_NARROW outputs from i on; without dilation, and stride is a constant. */
NP_INLINE void dw_weight_block(vf *sums, const struct dw_strip *s, size_t i, size_t c, size_t n,
                               size_t taps, size_t stride, bool inside)
{
    const ptrdiff_t at = s->at + (ptrdiff_t)(i * stride);
    vf dy[DW_NARROW];
    NP_UNROLL
    for (size_t o = 0; o < DW_NARROW; o++)
        dy[o] = v_part(s->dy + (i + o) * s->ldy + c, n);
    NP_UNROLL
    for (size_t q = 0; q < (DW_NARROW - 1) * stride + taps; q++) {
        ptrdiff_t from = at + (ptrdiff_t)q;
        if (!inside && (from < 0 || from >= s->width))
            continue;
        vf x = v_part(s->in + (size_t)from * s->ldx + c, n);
        v_keep(x);
        NP_UNROLL
        for (size_t o = 0; o < DW_NARROW; o++)
            if (q >= o * stride && q - o * stride < taps)
                sums[q - o * stride] = v_fma(x, dy[o], sums[q - o * stride]);
    }
}

/* acc [taps][ld] += the products of a strip, columns c .. c + n - 1.
 * stride 0: any, dilation too. */
NP_INLINE void dw_weight_of(float *acc, size_t ld, const struct dw_strip *s, size_t c, size_t n,
                            size_t taps, size_t stride)
{
    vf sums[DW_TAPS];
    size_t i = 0;
    NP_UNROLL
    for (size_t j = 0; j < taps; j++)
        sums[j] = v_load(acc + j * ld);
    for (; stride > 0 && i + DW_NARROW <= s->count; i += DW_NARROW) {
        ptrdiff_t from = s->at + (ptrdiff_t)(i * stride);
        ptrdiff_t end = from + (ptrdiff_t)((DW_NARROW - 1) * stride + taps);
        if (n == NP_VW && from >= 0 && end <= s->width)
            dw_weight_block(sums, s, i, c, NP_VW, taps, stride, true);
        else
            dw_weight_block(sums, s, i, c, n, taps, stride, false);
    }
    for (; i < s->count; i++)
        dw_weight_one(sums, s, i, c, n, taps);
    NP_UNROLL
    for (size_t j = 0; j < taps; j++)
        v_store(acc + j * ld, sums[j]);
}

#define DW_WEIGHT(taps, stride)                                                                    \
    static void dw_weight_##taps##_##stride(float *acc, size_t ld, const struct dw_strip *s,       \
                                            size_t c, size_t n)                                    \
    {                                                                                              \
        dw_weight_of(acc, ld, s, c, n, taps, stride);                                              \
    }
#define DW_EACH_ANY(CALL)                                                                          \
    CALL(1, 0) CALL(2, 0) CALL(3, 0) CALL(4, 0) CALL(5, 0) CALL(6, 0) CALL(7, 0)
DW_EACH(DW_WEIGHT)
DW_EACH_ANY(DW_WEIGHT)

typedef void dw_weight_run(float *acc, size_t ld, const struct dw_strip *, size_t c, size_t n);

static dw_weight_run *dw_weight_runner(size_t taps, size_t stride)
{
#define DW_CHOOSE_WEIGHT(t, s)                                                                     \
    if (taps == t && stride == s)                                                                  \
        return dw_weight_##t##_##s;
    DW_EACH(DW_CHOOSE_WEIGHT)
    DW_EACH_ANY(DW_CHOOSE_WEIGHT)
    return dw_weight_runner(taps, 0);
}

/* What a member computes at a time: kernel rows `kernel` of columns `cols`. */
struct dw_part {
    struct np_share kernel, cols;
    float *acc; /* [kernel rows][kernel_width][ld], one chunk's */
    size_t ld, strip;
    dw_weight_run *full, *rest; /* DW_TAPS taps, and what is left of a row of the kernel */
};

/* acc += the products of a strip that begins at output column ow, for one row of the kernel. */
static void dw_weight_row(const struct np_conv *v, const struct dw_part *part, float *acc,
                          struct dw_strip strip, size_t ow)
{
    size_t wide = (size_t)v->window.kernel_width, taps;
    strip.at = (ptrdiff_t)(ow * strip.stride) - v->window.pad_left;
    for (size_t kw = 0; kw < wide; kw += taps, acc += taps * part->ld) {
        taps = np_min(wide - kw, DW_TAPS);
        dw_weight_run *run = taps == DW_TAPS ? part->full : part->rest;
        for (size_t c = part->cols.begin; c < part->cols.end; c += NP_VW)
            run(acc + (c - part->cols.begin), part->ld, &strip, c,
                np_min(NP_VW, part->cols.end - c));
        strip.at += (ptrdiff_t)(taps * strip.dilation);
    }
}

static void dw_weight_chunk(const struct np_conv *v, const struct dw_part *part,
                            struct np_share chunk)
{
    struct dw_strip strip = {.stride = (size_t)v->window.stride_width, .ldx = v->ldx};
    size_t wide = (size_t)v->window.kernel_width;
    strip.dilation = (size_t)v->window.dilation;
    strip.width = (ptrdiff_t)v->in_width;
    strip.ldy = v->ldy;
    for (size_t r = chunk.begin; r < chunk.end; r += strip.count) {
        size_t ow = r % v->out_width, oh = r / v->out_width % v->out_height;
        size_t sample = r / v->out_width / v->out_height;
        strip.count = np_min(np_min(part->strip, v->out_width - ow), chunk.end - r);
        strip.dy = v->dy + r * v->ldy;
        for (size_t kh = part->kernel.begin; kh < part->kernel.end; kh++) {
            size_t ih = np_input_row(v, oh, (int)kh);
            if (ih == NP_OUTSIDE)
                continue;
            strip.in = v->x + (sample * v->in_height + ih) * v->in_width * v->ldx;
            dw_weight_row(v, part, part->acc + (kh - part->kernel.begin) * wide * part->ld, strip,
                          ow);
        }
    }
}

/* dw of a part, all chunks in order. */
static bool dw_weight_part(const struct np_conv *v, struct dw_part *part)
{
    size_t image = v->out_height * v->out_width, rows = v->samples * image;
    size_t wide = (size_t)v->window.kernel_width, cols = part->cols.end - part->cols.begin;
    size_t taps = (part->kernel.end - part->kernel.begin) * wide;
    float *dw = v->out + part->kernel.begin * wide * v->in_channels + part->cols.begin;
    struct np_share chunk;
    uint32_t bad = 0;
    for (chunk.begin = 0; chunk.begin < rows; chunk.begin = chunk.end) {
        chunk.end = np_chunk_end(chunk.begin, rows, v->grain * image);
        memset(part->acc, 0, taps * part->ld * sizeof *part->acc);
        dw_weight_chunk(v, part, chunk);
        for (size_t tap = 0; tap < taps; tap++)
            add_chunk(dw + tap * v->in_channels, part->acc + tap * part->ld, cols, chunk.begin,
                      v->accumulate);
    }
    for (size_t tap = 0; tap < taps; tap++)
        for (size_t c = 0; c < cols; c++)
            bad |= np_not_finite(dw[tap * v->in_channels + c]);
    return !bad;
}

/* Columns go to members in blocks, and the kernel's rows of one block too: there may be few. */
static bool dwconv_grad_weight(struct np_team *team, const struct np_conv *v)
{
    _Alignas(64) float acc[DW_SUMS / sizeof(float)];
    size_t high = (size_t)v->window.kernel_height, wide = (size_t)v->window.kernel_width;
    size_t most = np_min(DW_SUMS / sizeof(float) / (high * wide) / NP_VW * NP_VW, 128);
    size_t blocks = (v->in_channels + NP_SHARE_UNIT - 1) / NP_SHARE_UNIT;
    struct np_share share = np_team_share(team, blocks * high, 1);
    size_t stride = v->window.dilation == 1 ? (size_t)v->window.stride_width : 0;
    dw_weight_run *full = dw_weight_runner(DW_TAPS, stride);
    dw_weight_run *rest = dw_weight_runner((wide - 1) % DW_TAPS + 1, stride);
    bool finite = true;
    for (size_t i = share.begin, n; i < share.end; i += n) {
        struct dw_part part = {.kernel = {i % high, high}, .acc = acc, .full = full, .rest = rest};
        size_t whole = np_min((share.end - i) / high, most / NP_SHARE_UNIT);
        part.cols.begin = i / high * NP_SHARE_UNIT;
        if (part.kernel.begin > 0 || whole == 0) {
            part.kernel.end = np_min(high, part.kernel.begin + (share.end - i));
            whole = 1;
        }
        n = part.kernel.begin > 0 || part.kernel.end < high ? part.kernel.end - part.kernel.begin
                                                            : whole * high;
        part.cols.end = np_min(part.cols.begin + whole * NP_SHARE_UNIT, v->in_channels);
        part.ld = (part.cols.end - part.cols.begin + NP_VW - 1) / NP_VW * NP_VW;
        part.strip = part.ld < 64 ? DW_STRIP * 64 / part.ld : DW_STRIP;
        finite &= dw_weight_part(v, &part);
    }
    return finite;
}

#endif
