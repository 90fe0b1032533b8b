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

#define DW_BAND 16         /* strips of a band, at most ... */
#define DW_OUTPUTS 64      /* ... and outputs, whose inputs stay close by */
#define DW_SUMS (24 << 10) /* bytes of a chunk's sums, which stay in the first-level cache */
#define DW_PASSES 4        /* over a band, from which fetching the next pays */
#define DW_VECTORS 3       /* of columns, at most */
#define DW_NEIGHBOURS 4    /* outputs that share inputs, at most */

/* Vectors of columns and neighbours whose sums, outputs and inputs have registers; AVX-512 has more
 * of them. */
#define DW_VECTORS_OF(taps) ((taps) <= 3 ? 3 : (taps) <= 5 ? 2 : 1)
#define DW_NEIGHBOURS_OF(taps) ((taps) > 5 || ((taps) <= 3 && NP_VW == 16) ? 4 : 2)

/* Part of a row of y. */
struct dw_strip {
    const float *in;   /* what tap 0 of the kernel's row 0 meets at the first output ... */
    ptrdiff_t h;       /* ... in row h of the image, which may be outside, as may the position */
    const float *dy;   /* the first output */
    size_t row, ow;    /* of y, of all samples: where it begins */
    size_t count;      /* outputs ... */
    size_t begin, end; /* ... of which these begin a block of neighbours that are all inside */
    uint16_t *some;    /* [count]: of the others, bit q: whether input q from there is inside */
};

/* Positions that the next band reads, `each` of them fetched at a time. */
struct dw_next {
    const float *at, *end;
    size_t ld, each;
};

struct dw_band {
    struct dw_strip strip[DW_BAND];
    size_t strips, outputs;
    ptrdiff_t tap, next, ldy; /* floats from tap to tap, from output to output */
    ptrdiff_t row, h, high;   /* the kernel's row meets what is `row` floats and h rows further on,
                                 inside if that is below high */
    struct dw_next next_x, next_dy;
    uint16_t some[DW_OUTPUTS];
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

/* How to get from one output to the next: floats of x and of dy. */
struct dw_steps {
    ptrdiff_t tap, next, ldy;
};

/* sums += the products of some neighbours with what their taps meet from `in` on, one input after
 * the other: where there are several, the stride is that from tap to tap. which: bit q, whether
 * input q is inside. */
NP_INLINE void dw_weight_block(vf sums[DW_TAPS][DW_VECTORS], const float *in, const float *dy,
                               const struct dw_steps *step, size_t outputs, uint32_t which,
                               struct dw_shape s)
{
    vf y[DW_NEIGHBOURS][DW_VECTORS], x[DW_VECTORS];
    NP_UNROLL
    for (size_t o = 0; o < outputs; o++)
        dw_load(y[o], dy + (ptrdiff_t)o * step->ldy, s);
    NP_UNROLL
    for (size_t q = 0; q < s.taps + outputs - 1; q++, in += step->tap) {
        if (!__builtin_constant_p(which))
            NP_OPAQUE(which);
        if ((which >> q & 1) == 0)
            continue;
        dw_load(x, in, s);
        NP_UNROLL
        for (size_t v = 0; v < s.vectors; v++) {
            if (q > 0 && q + 2 < s.taps + outputs)
                v_keep(x[v]);
            NP_UNROLL
            for (size_t o = 0; o < outputs; o++)
                if (q >= o && q - o < s.taps)
                    sums[q - o][v] = v_fma(x[v], y[o][v], sums[q - o][v]);
        }
    }
}

NP_INLINE void dw_weight_strip(vf sums[DW_TAPS][DW_VECTORS], const float *in, const float *dy,
                               const struct dw_strip *strip, const struct dw_steps *step,
                               size_t outputs, struct dw_shape s)
{
    const ptrdiff_t next = (ptrdiff_t)outputs * step->next, ldy = (ptrdiff_t)outputs * step->ldy;
    size_t i = 0;
    for (; i + outputs <= strip->count; i += outputs, in += next, dy += ldy) {
        for (; i >= strip->begin && i < strip->end; i += outputs, in += next, dy += ldy)
            dw_weight_block(sums, in, dy, step, outputs, ~UINT32_C(0), s);
        if (i + outputs > strip->count)
            break;
        dw_weight_block(sums, in, dy, step, outputs, strip->some[i], s);
    }
    for (; outputs > 1 && i < strip->count; i++, in += step->next, dy += step->ldy)
        dw_weight_block(sums, in, dy, step, 1, strip->some[i], s);
}

/* acc [taps][ld] += the products of a band, columns from c on. */
NP_INLINE void dw_weight_of(float *acc, size_t ld, const struct dw_band *b, size_t c,
                            size_t outputs, struct dw_shape s)
{
    struct dw_steps step = {b->tap, b->next, b->ldy};
    vf sums[DW_TAPS][DW_VECTORS];
    NP_OPAQUE(step.tap);
    NP_OPAQUE(step.next);
    NP_OPAQUE(step.ldy);
    NP_UNROLL
    for (size_t j = 0; j < s.taps; j++) {
        NP_UNROLL
        for (size_t v = 0; v < s.vectors; v++)
            sums[j][v] = v_load(acc + j * ld + v * NP_VW);
    }
    for (const struct dw_strip *strip = b->strip; strip < b->strip + b->strips; strip++)
        if (strip->h + b->h >= 0 && strip->h + b->h < b->high)
            dw_weight_strip(sums, strip->in + (b->row + (ptrdiff_t)c), strip->dy + c, strip, &step,
                            outputs, s);
    NP_UNROLL
    for (size_t j = 0; j < s.taps; j++) {
        NP_UNROLL
        for (size_t v = 0; v < s.vectors; v++)
            v_store(acc + j * ld + v * NP_VW, sums[j][v]);
    }
}

/* The first columns of `cols`, as many as there are registers for; returns how many. */
NP_INLINE size_t dw_weight_some(float *acc, size_t ld, const struct dw_band *b,
                                struct np_share cols, size_t taps, size_t outputs)
{
    const size_t most = DW_VECTORS_OF(taps), count = cols.end - cols.begin, c = cols.begin;
    const size_t all = (count + NP_VW - 1) / NP_VW;
    const size_t vectors = all == most + 1 ? (most + 2) / 2 : np_min(most, all); /* none alone */
    const size_t n = np_min(count - (vectors - 1) * NP_VW, NP_VW);
    NP_UNROLL
    for (size_t v = 1; v <= most; v++) {
        if (v != vectors)
            continue;
        if (n == NP_VW)
            dw_weight_of(acc, ld, b, c, outputs, (struct dw_shape){taps, v, NP_VW});
        else
            dw_weight_of(acc, ld, b, c, outputs, (struct dw_shape){taps, v, n});
    }
    return vectors * NP_VW;
}

typedef size_t dw_weight_run(float *acc, size_t ld, const struct dw_band *, struct np_share cols);

#define DW_WEIGHT(taps)                                                                            \
    static size_t dw_weight_##taps(float *acc, size_t ld, const struct dw_band *b,                 \
                                   struct np_share cols)                                           \
    {                                                                                              \
        return dw_weight_some(acc, ld, b, cols, taps, 1);                                          \
    }                                                                                              \
    static size_t dw_weight_shared_##taps(float *acc, size_t ld, const struct dw_band *b,          \
                                          struct np_share cols)                                    \
    {                                                                                              \
        return dw_weight_some(acc, ld, b, cols, taps, DW_NEIGHBOURS_OF(taps));                     \
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
    bool far; /* x and dy are not close by */
};

/* The strips of a band that begins at row r of y, and may reach row `end`. */
static void dw_band_cut(const struct np_conv *v, struct dw_band *b, size_t r, size_t end)
{
    b->strips = b->outputs = 0;
    while (r < end && b->strips < DW_BAND && b->outputs < DW_OUTPUTS) {
        struct dw_strip *strip = &b->strip[b->strips++];
        strip->row = r / v->out_width;
        strip->ow = r % v->out_width;
        strip->count = np_min(np_min(v->out_width - strip->ow, end - r), DW_OUTPUTS - b->outputs);
        strip->dy = v->dy + r * v->ldy;
        strip->some = b->some + b->outputs;
        b->outputs += strip->count;
        r += strip->count;
    }
}

/* What the taps of a row of the kernel, or some of them, meet. */
static void dw_band_taps(const struct np_conv *v, struct dw_band *b, const struct axis *wide,
                         size_t outputs)
{
    const struct np_share full = full_positions(wide);
    const ptrdiff_t apart = (ptrdiff_t)wide->spacing;
    for (size_t k = 0; k < b->strips; k++) {
        struct dw_strip *strip = &b->strip[k];
        const size_t ow = strip->ow, sample = strip->row / v->out_height;
        const ptrdiff_t at = (ptrdiff_t)(ow * wide->stride) + wide->first;
        strip->h = (ptrdiff_t)(strip->row % v->out_height) * v->window.stride_height;
        strip->h -= v->window.pad_top;
        strip->in =
            v->x + (((ptrdiff_t)(sample * v->in_height) + strip->h) * (ptrdiff_t)v->in_width + at) *
                       (ptrdiff_t)v->ldx;
        strip->begin = np_min(full.begin > ow ? full.begin - ow : 0, strip->count);
        strip->end = np_min(full.end > ow ? full.end - ow : 0, strip->count);
        strip->end = strip->end < strip->begin + outputs ? strip->begin : strip->end - outputs + 1;
        for (size_t i = 0; i < strip->count; i++) {
            if (i == strip->begin && (i = strip->end) == strip->count)
                break;
            ptrdiff_t left = at + (ptrdiff_t)(i * wide->stride), right = (ptrdiff_t)wide->in - left;
            strip->some[i] =
                (uint16_t)dw_bits(dw_ceil_div(-left, apart), dw_ceil_div(right, apart));
        }
    }
}

/* Positions up to the last that output r, of all samples, reads. */
static size_t dw_read_end(const struct np_conv *v, size_t r)
{
    const struct np_window *w = &v->window;
    const size_t row = r / v->out_width, most = v->samples * v->in_height * v->in_width;
    ptrdiff_t h = (ptrdiff_t)(row % v->out_height) * w->stride_height;
    ptrdiff_t at = (ptrdiff_t)(r % v->out_width) * w->stride_width;
    h += (ptrdiff_t)(row / v->out_height * v->in_height);
    h += (w->kernel_height - 1) * w->dilation - w->pad_top;
    at += (w->kernel_width - 1) * w->dilation - w->pad_left + h * (ptrdiff_t)v->in_width;
    return at < 0 ? 0 : np_min((size_t)at + 1, most);
}

static struct dw_next dw_next_of(const float *p, size_t ld, size_t from, size_t end, size_t steps)
{
    if (end <= from)
        return (struct dw_next){0};
    return (struct dw_next){p + from * ld, p + end * ld, ld, (end - from + steps - 1) / steps};
}

/* What `outputs` outputs from r on read and those before them do not. It takes time where a band is
 * gone over a few times only: there memory is met almost in order. */
static void dw_band_ahead(const struct np_conv *v, struct dw_band *b, size_t r, size_t outputs,
                          struct np_share cols)
{
    const size_t all = v->samples * v->out_height * v->out_width;
    const size_t most = DW_VECTORS_OF((size_t)v->window.kernel_width);
    const size_t vectors = (np_share_count(cols) + NP_VW - 1) / NP_VW;
    const size_t passes = (vectors + most - 1) / most * (size_t)v->window.kernel_height;
    const size_t end = np_min(r + outputs, all);
    b->next_x = b->next_dy = (struct dw_next){0};
    if (r >= end || passes < DW_PASSES)
        return;
    b->next_dy = dw_next_of(v->dy + cols.begin, v->ldy, r, end, passes);
    b->next_x = dw_next_of(v->x + cols.begin, v->ldx, dw_read_end(v, r - 1),
                           dw_read_end(v, end - 1), passes);
}

/* `cols` columns of some of them. */
static void dw_fetch_next(struct dw_next *next, size_t cols)
{
    for (size_t i = 0; i < next->each && next->at < next->end; i++, next->at += next->ld)
        ahead_fetch(next->at, next->at + cols);
}

/* acc += the products of a band with all rows of the kernel, of `taps` taps from kw on. */
static void dw_band_run(const struct dw_sums *sums, float *acc, struct dw_band *b, size_t kw,
                        size_t taps, struct np_share cols)
{
    const struct np_conv *v = sums->v;
    const struct np_window *win = &v->window;
    const size_t all = np_share_count(cols);
    dw_weight_run *run = dw_weight_runs[taps - 1][b->next == b->tap];
    for (size_t done = 0; cols.begin < cols.end; cols.begin += done, acc += done) {
        b->h = b->row = 0;
        for (size_t kh = 0; kh < (size_t)win->kernel_height; kh++) {
            float *to = acc + (kh * (size_t)win->kernel_width + kw) * sums->width;
            dw_fetch_next(&b->next_x, all);
            dw_fetch_next(&b->next_dy, all);
            done = run(to, sums->width, b, cols);
            b->h += win->dilation;
            b->row += win->dilation * (ptrdiff_t)(v->in_width * v->ldx);
        }
    }
}

/* One chunk's sums for one block of columns. */
static void dw_weight_chunk(void *context, float *acc, struct np_share chunk, struct np_share cols)
{
    const struct dw_sums *sums = context;
    const struct np_conv *v = sums->v;
    const size_t high = (size_t)v->window.kernel_height, wide = (size_t)v->window.kernel_width;
    struct dw_band b = {.ldy = (ptrdiff_t)v->ldy, .high = (ptrdiff_t)v->in_height};
    memset(acc, 0, high * wide * sums->width * sizeof *acc);
    b.tap = (ptrdiff_t)((size_t)v->window.dilation * v->ldx);
    b.next = (ptrdiff_t)((size_t)v->window.stride_width * v->ldx);
    for (size_t r = chunk.begin; r < chunk.end; r += b.outputs) {
        dw_band_cut(v, &b, r, chunk.end);
        if (sums->far)
            dw_band_ahead(v, &b, r + b.outputs, b.outputs, cols);
        for (size_t kw = 0, taps; kw < wide; kw += taps) {
            struct axis axis = forward_width(v);
            taps = axis.taps = np_min(wide - kw, DW_TAPS);
            axis.first += (ptrdiff_t)(kw * axis.spacing);
            dw_band_taps(v, &b, &axis, b.next == b.tap ? DW_NEIGHBOURS_OF(taps) : 1);
            dw_band_run(sums, acc, &b, kw, taps, cols);
        }
    }
}

/* Columns of a block: whose sums stay in the first-level cache, and few enough that there is an
 * item for everybody. */
static size_t dw_block(const struct np_team *team, size_t taps, size_t cols, size_t chunks)
{
    size_t most = np_min(DW_SUMS / sizeof(float) / taps / NP_SHARE_UNIT * NP_SHARE_UNIT, 128);
    size_t units = (cols + NP_SHARE_UNIT - 1) / NP_SHARE_UNIT, blocks = (cols + most - 1) / most;
    while (blocks < units && blocks * chunks < 4 * (size_t)team->size)
        blocks++;
    return (units + blocks - 1) / blocks * NP_SHARE_UNIT;
}

static bool dwconv_grad_weight(struct np_team *team, const struct np_conv *v)
{
    size_t wide = (size_t)v->window.kernel_width, taps = (size_t)v->window.kernel_height * wide;
    size_t image = v->out_height * v->out_width, room = team->scratch_bytes / sizeof(float), span;
    struct dw_sums sums = {.v = v, .far = ahead_pays(v)};
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
