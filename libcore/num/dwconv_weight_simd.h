/* SIMD kernels of num/kernels.h: the weights' gradient of depthwise convolutions.
 *
 * Strips of outputs, parts of rows, are gathered in a band, which meets one row of the kernel after
 * the other with the sums of its taps in registers: of several vectors of columns where taps are
 * few, since every sum is a chain of its own and the chains must fill the latency.
 */
#ifndef NP_NUM_DWCONV_WEIGHT_SIMD_H
#define NP_NUM_DWCONV_WEIGHT_SIMD_H

#include "num/chunk_sums.h"
#include "num/dwconv_simd.h"

#define DW_BAND 16         /* strips of a band, and outputs, at least: their inputs stay close by */
#define DW_OUTPUTS 64      /* if columns are few, up to so many outputs */
#define DW_SUMS (24 << 10) /* bytes of a chunk's sums, which stay in the first-level cache */
#define DW_VECTORS 3       /* of columns, at most */

/* Vectors of columns whose sums, outputs and inputs have registers. */
#define DW_VECTORS_OF(taps) ((taps) <= 3 ? 3 : (taps) <= 5 ? 2 : 1)

/* Part of a row of y. */
struct dw_strip {
    const float *in;   /* the row that the row of the kernel meets; NULL: it is outside */
    const float *dy;   /* the first output */
    size_t row, ow;    /* of y, of all samples: where it begins */
    ptrdiff_t at;      /* tap j of output i meets position at + i * stride + j * dilation */
    size_t count;      /* outputs ... */
    size_t begin, end; /* ... of which these have all taps inside */
    uint8_t *some;     /* [count]: of others, bit j: whether tap j is inside */
};

struct dw_band {
    struct dw_strip strip[DW_BAND];
    size_t strips, outputs, most;
    size_t stride, ldx, ldy;
    ptrdiff_t step; /* floats from tap to tap */
    uint8_t some[DW_OUTPUTS];
};

/* What a function is made for: constants. n, columns of the last vector, is one if it is NP_VW. */
struct dw_shape {
    size_t taps, vectors, n;
};

NP_INLINE void dw_load(vf *to, const float *from, struct dw_shape s)
{
    NP_UNROLL
    for (size_t v = 0; v + 1 < s.vectors; v++)
        to[v] = v_load(from + v * NP_VW);
    to[s.vectors - 1] = v_part(from + (s.vectors - 1) * NP_VW, s.n);
}

/* sums += the products of one output with what its taps meet from `in` on; which: bit j, whether
 * tap j is inside. */
NP_INLINE void dw_weight_one(vf sums[DW_TAPS][DW_VECTORS], const float *in, ptrdiff_t step,
                             const float *dy, uint32_t which, struct dw_shape s)
{
    vf y[DW_VECTORS], x[DW_VECTORS];
    dw_load(y, dy, s);
    NP_UNROLL
    for (size_t j = 0; j < s.taps; j++) {
        if ((which >> j & 1) == 0)
            continue;
        dw_load(x, in + (ptrdiff_t)j * step, s);
        NP_UNROLL
        for (size_t v = 0; v < s.vectors; v++)
            sums[j][v] = v_fma(x[v], y[v], sums[j][v]);
    }
}

/* The same with two neighbours, which share inputs where the stride is that from tap to tap. */
NP_INLINE void dw_weight_two(vf sums[DW_TAPS][DW_VECTORS], const float *in, ptrdiff_t step,
                             const float *dy, size_t ldy, struct dw_shape s)
{
    vf y[2][DW_VECTORS], x[DW_VECTORS];
    dw_load(y[0], dy, s);
    dw_load(y[1], dy + ldy, s);
    NP_UNROLL
    for (size_t q = 0; q <= s.taps; q++) {
        dw_load(x, in + (ptrdiff_t)q * step, s);
        NP_UNROLL
        for (size_t v = 0; v < s.vectors; v++) {
            v_keep(x[v]);
            if (q < s.taps)
                sums[q][v] = v_fma(x[v], y[0][v], sums[q][v]);
            if (q > 0)
                sums[q - 1][v] = v_fma(x[v], y[1][v], sums[q - 1][v]);
        }
    }
}

NP_INLINE void dw_weight_strip(vf sums[DW_TAPS][DW_VECTORS], const struct dw_band *b,
                               const struct dw_strip *strip, size_t c, bool shared,
                               struct dw_shape s)
{
    const ptrdiff_t next = (ptrdiff_t)(b->stride * b->ldx);
    const float *in = strip->in + strip->at * (ptrdiff_t)b->ldx + c, *dy = strip->dy + c;
    size_t i = 0;
    for (; i < strip->begin; i++, in += next, dy += b->ldy)
        dw_weight_one(sums, in, b->step, dy, strip->some[i], s);
    for (; shared && i + 2 <= strip->end; i += 2, in += 2 * next, dy += 2 * b->ldy)
        dw_weight_two(sums, in, b->step, dy, b->ldy, s);
    for (; i < strip->end; i++, in += next, dy += b->ldy)
        dw_weight_one(sums, in, b->step, dy, ~UINT32_C(0), s);
    for (; i < strip->count; i++, in += next, dy += b->ldy)
        dw_weight_one(sums, in, b->step, dy, strip->some[i], s);
}

/* acc [taps][ld] += the products of a band, columns from c on. */
NP_INLINE void dw_weight_of(float *acc, size_t ld, const struct dw_band *b, size_t c, bool shared,
                            struct dw_shape s)
{
    vf sums[DW_TAPS][DW_VECTORS];
    NP_UNROLL
    for (size_t j = 0; j < s.taps; j++) {
        NP_UNROLL
        for (size_t v = 0; v < s.vectors; v++)
            sums[j][v] = v_load(acc + j * ld + v * NP_VW);
    }
    for (const struct dw_strip *strip = b->strip; strip < b->strip + b->strips; strip++)
        if (strip->in)
            dw_weight_strip(sums, b, strip, c, shared, s);
    NP_UNROLL
    for (size_t j = 0; j < s.taps; j++) {
        NP_UNROLL
        for (size_t v = 0; v < s.vectors; v++)
            v_store(acc + j * ld + v * NP_VW, sums[j][v]);
    }
}

/* The first columns of `cols`, as many as there are registers for; returns how many. */
NP_INLINE size_t dw_weight_some(float *acc, size_t ld, const struct dw_band *b,
                                struct np_share cols, size_t taps, bool shared)
{
    const size_t most = DW_VECTORS_OF(taps), count = cols.end - cols.begin, c = cols.begin;
    const size_t vectors = np_min(most, (count + NP_VW - 1) / NP_VW);
    const size_t n = np_min(count - (vectors - 1) * NP_VW, NP_VW);
    NP_UNROLL
    for (size_t v = 1; v <= most; v++) {
        if (v != vectors)
            continue;
        if (n == NP_VW)
            dw_weight_of(acc, ld, b, c, shared, (struct dw_shape){taps, v, NP_VW});
        else
            dw_weight_of(acc, ld, b, c, shared, (struct dw_shape){taps, v, n});
    }
    return vectors * NP_VW;
}

typedef size_t dw_weight_run(float *acc, size_t ld, const struct dw_band *, struct np_share cols);

#define DW_WEIGHT(taps)                                                                            \
    static size_t dw_weight_##taps(float *acc, size_t ld, const struct dw_band *b,                 \
                                   struct np_share cols)                                           \
    {                                                                                              \
        return dw_weight_some(acc, ld, b, cols, taps, false);                                      \
    }                                                                                              \
    static size_t dw_weight_shared_##taps(float *acc, size_t ld, const struct dw_band *b,          \
                                          struct np_share cols)                                    \
    {                                                                                              \
        return dw_weight_some(acc, ld, b, cols, taps, true);                                       \
    }
#define DW_EACH_TAPS(CALL) CALL(1) CALL(2) CALL(3) CALL(4) CALL(5) CALL(6) CALL(7)
DW_EACH_TAPS(DW_WEIGHT)

/* [taps - 1][whether neighbours share inputs] */
static dw_weight_run *const dw_weight_runs[DW_TAPS][2] = {
#define DW_WEIGHT_ENTRY(taps) {dw_weight_##taps, dw_weight_shared_##taps},
    DW_EACH_TAPS(DW_WEIGHT_ENTRY)};

/* What is fixed while the sums of chunks are made: [taps][width] for each block of columns. */
struct dw_sums {
    const struct np_conv *v;
    size_t width;
};

/* The strips of a band that begins at row r of y, and may reach row `end`. */
static void dw_band_cut(const struct np_conv *v, struct dw_band *b, size_t r, size_t end)
{
    b->strips = b->outputs = 0;
    while (r < end && b->strips < DW_BAND && b->outputs < b->most) {
        struct dw_strip *strip = &b->strip[b->strips++];
        strip->row = r / v->out_width;
        strip->ow = r % v->out_width;
        strip->count = np_min(np_min(v->out_width - strip->ow, end - r), b->most - b->outputs);
        strip->dy = v->dy + r * v->ldy;
        strip->some = b->some + b->outputs;
        b->outputs += strip->count;
        r += strip->count;
    }
}

/* Which of the taps kw .. kw + taps - 1 of a row of the kernel are inside. */
static void dw_band_taps(const struct np_conv *v, struct dw_band *b, size_t kw, size_t taps)
{
    const struct np_window *win = &v->window;
    const ptrdiff_t dilation = win->dilation;
    uint32_t all = (UINT32_C(1) << taps) - 1;
    for (size_t k = 0; k < b->strips; k++) {
        struct dw_strip *strip = &b->strip[k];
        strip->at = (ptrdiff_t)(strip->ow * b->stride + kw * (size_t)dilation) - win->pad_left;
        strip->begin = strip->end = strip->count;
        for (size_t i = 0; i < strip->count; i++) {
            ptrdiff_t at = strip->at + (ptrdiff_t)(i * b->stride);
            uint32_t some = all & dw_bits(dw_ceil_div(-at, dilation),
                                          dw_ceil_div((ptrdiff_t)v->in_width - at, dilation));
            strip->some[i] = (uint8_t)some;
            if (some == all && strip->begin == strip->count)
                strip->begin = i;
            else if (some != all && strip->begin < i && strip->end == strip->count)
                strip->end = i;
        }
    }
}

/* acc += the products of a band with all rows of the kernel, of the taps from kw on. */
static void dw_band_run(const struct dw_sums *sums, float *acc, struct dw_band *b, size_t kw,
                        size_t taps, struct np_share cols)
{
    const struct np_conv *v = sums->v;
    size_t wide = (size_t)v->window.kernel_width;
    dw_weight_run *run = dw_weight_runs[taps - 1][b->stride * b->ldx == (size_t)b->step];
    for (int kh = 0; kh < v->window.kernel_height; kh++) {
        for (size_t k = 0; k < b->strips; k++) {
            struct dw_strip *strip = &b->strip[k];
            size_t sample = strip->row / v->out_height;
            size_t h = np_input_row(v, strip->row % v->out_height, kh);
            strip->in = NULL;
            if (h != NP_OUTSIDE)
                strip->in = v->x + (sample * v->in_height + h) * v->in_width * v->ldx;
        }
        float *to = acc + ((size_t)kh * wide + kw) * sums->width;
        for (struct np_share left = cols; left.begin < left.end;) {
            size_t done = run(to, sums->width, b, left);
            left.begin += done;
            to += done;
        }
    }
}

/* One chunk's sums for one block of columns. */
static void dw_weight_chunk(void *context, float *acc, struct np_share chunk, struct np_share cols)
{
    const struct dw_sums *sums = context;
    const struct np_conv *v = sums->v;
    struct dw_band b = {.stride = (size_t)v->window.stride_width, .ldx = v->ldx, .ldy = v->ldy};
    size_t high = (size_t)v->window.kernel_height, wide = (size_t)v->window.kernel_width;
    memset(acc, 0, high * wide * sums->width * sizeof *acc);
    b.most = np_min(DW_BAND * 64 / np_min(cols.end - cols.begin, 64), DW_OUTPUTS);
    b.step = (ptrdiff_t)((size_t)v->window.dilation * v->ldx);
    for (size_t r = chunk.begin; r < chunk.end; r += b.outputs) {
        dw_band_cut(v, &b, r, chunk.end);
        for (size_t kw = 0, taps; kw < wide; kw += taps) {
            taps = np_min(wide - kw, DW_TAPS);
            dw_band_taps(v, &b, kw, taps);
            dw_band_run(sums, acc, &b, kw, taps, cols);
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
    struct dw_sums sums = {.v = v};
    struct np_chunk_sums s = {.team = team, .out = v->out, .ld = v->in_channels, .lines = taps};
    bool finite = true;
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
