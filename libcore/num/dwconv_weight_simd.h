/* SIMD kernels of num/kernels.h: the weights' gradient of depthwise convolutions.
 *
 * A strip of outputs meets one row of the kernel after the other, with the sums of its taps in
 * registers; neighbours share inputs as in y and dx.
 */
#ifndef NP_NUM_DWCONV_WEIGHT_SIMD_H
#define NP_NUM_DWCONV_WEIGHT_SIMD_H

#include "num/chunk_sums.h"
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

/* What is fixed while the sums of chunks are made: [taps][width] for each block of columns. */
struct dw_sums {
    const struct np_conv *v;
    size_t width;
    dw_weight_run *full, *rest; /* DW_TAPS taps, and what is left of a row of the kernel */
};

/* acc += the products of a strip that begins at output column ow, for one row of the kernel. */
static void dw_weight_row(const struct dw_sums *sums, float *acc, struct dw_strip strip, size_t ow,
                          struct np_share cols)
{
    const struct np_window *window = &sums->v->window;
    size_t wide = (size_t)window->kernel_width, taps;
    strip.at = (ptrdiff_t)(ow * strip.stride) - window->pad_left;
    for (size_t kw = 0; kw < wide; kw += taps, acc += taps * sums->width) {
        taps = np_min(wide - kw, DW_TAPS);
        dw_weight_run *run = taps == DW_TAPS ? sums->full : sums->rest;
        for (size_t c = cols.begin; c < cols.end; c += NP_VW)
            run(acc + (c - cols.begin), sums->width, &strip, c, np_min(NP_VW, cols.end - c));
        strip.at += (ptrdiff_t)(taps * strip.dilation);
    }
}

/* One chunk's sums for one block of columns. */
static void dw_weight_chunk(void *context, float *acc, struct np_share chunk, struct np_share cols)
{
    const struct dw_sums *sums = context;
    const struct np_conv *v = sums->v;
    struct dw_strip strip = {.stride = (size_t)v->window.stride_width, .ldx = v->ldx};
    size_t high = (size_t)v->window.kernel_height, row = (size_t)v->window.kernel_width;
    size_t narrow = np_min(cols.end - cols.begin, 64);
    row *= sums->width;
    memset(acc, 0, high * row * sizeof *acc);
    strip.dilation = (size_t)v->window.dilation;
    strip.width = (ptrdiff_t)v->in_width;
    strip.ldy = v->ldy;
    for (size_t r = chunk.begin; r < chunk.end; r += strip.count) {
        size_t ow = r % v->out_width, oh = r / v->out_width % v->out_height;
        size_t sample = r / v->out_width / v->out_height;
        strip.count = np_min(v->out_width - ow, chunk.end - r);
        strip.count = np_min(strip.count, DW_STRIP * 64 / narrow);
        strip.dy = v->dy + r * v->ldy;
        for (size_t kh = 0; kh < high; kh++) {
            size_t ih = np_input_row(v, oh, (int)kh);
            if (ih == NP_OUTSIDE)
                continue;
            strip.in = v->x + (sample * v->in_height + ih) * v->in_width * v->ldx;
            dw_weight_row(sums, acc + kh * row, strip, ow, cols);
        }
    }
}

/* Columns of a block: whose sums stay in the first-level cache, and few enough that there is an
 * item for everybody. */
static size_t dw_block(const struct np_team *team, size_t taps, size_t cols, size_t chunks)
{
    size_t most = DW_SUMS / sizeof(float) / taps / NP_SHARE_UNIT * NP_SHARE_UNIT;
    size_t width =
        np_min(np_min(most, 128), (cols + NP_SHARE_UNIT - 1) / NP_SHARE_UNIT * NP_SHARE_UNIT);
    while (width > NP_SHARE_UNIT && (cols + width - 1) / width * chunks < 4 * (size_t)team->size)
        width -= NP_SHARE_UNIT;
    return width;
}

static bool dwconv_grad_weight(struct np_team *team, const struct np_conv *v)
{
    size_t wide = (size_t)v->window.kernel_width, taps = (size_t)v->window.kernel_height * wide;
    size_t image = v->out_height * v->out_width, room = team->scratch_bytes / sizeof(float), span;
    size_t stride = v->window.dilation == 1 ? (size_t)v->window.stride_width : 0;
    struct dw_sums sums = {.v = v, .full = dw_weight_runner(DW_TAPS, stride)};
    struct np_chunk_sums s = {.team = team, .out = v->out, .ld = v->in_channels, .lines = taps};
    bool finite = true;
    sums.rest = dw_weight_runner((wide - 1) % DW_TAPS + 1, stride);
    s.count = v->samples * image;
    s.grain = v->grain * image;
    s.width = sums.width = dw_block(team, taps, v->in_channels, np_chunk_count(s.count, s.grain));
    s.accumulate = v->accumulate;
    s.room = room;
    s.sum = dw_weight_chunk;
    s.context = &sums;
    span = room / taps / s.width * s.width;
    for (; s.cols.begin < v->in_channels; s.cols.begin = s.cols.end) {
        s.cols.end = np_min(s.cols.begin + span, v->in_channels);
        finite = np_sums_run(&s) && finite;
    }
    return finite;
}

#endif
