/* Body of dwconv_<isa>.c, too: the weights' gradient of depthwise convolutions.
 *
 * Strips of outputs, parts of rows, are gathered in a band, which meets one row of the kernel after
 * the other with the sums of its taps in registers, or all rows of a small one together: of several
 * vectors of columns where taps are few, since every sum is a chain of its own and the chains must
 * fill the latency.
 */
#ifndef NP_NUM_DWCONV_WEIGHT_SIMD_H
#define NP_NUM_DWCONV_WEIGHT_SIMD_H

#include "num/chunk_sums.h"
#include "num/dwconv_simd.h"

#define DW_STRIP 32        /* outputs of a strip, at most */
#define DW_BAND 64         /* strips of a band, at most ... */
#define DW_OUTPUTS 64      /* ... and outputs, whose inputs stay close by, or ... */
#define DW_ONCE NP_KC      /* ... of a band that is met once: a chunk */
#define DW_FETCHES 32      /* times that a part of what the next band reads is fetched, at most */
#define DW_SUMS (24 << 10) /* bytes of a chunk's sums, which stay in the first-level cache */
#define DW_VECTORS 3       /* of columns, at most */
#define DW_NEIGHBOURS 4    /* outputs that share inputs, at most */
#define DW_STRIDE 2        /* taps from one to the next, at most, that do */
#define DW_CLOSE 128       /* channels of an image, up to which short vectors do so */
#define DW_CHAINS 9        /* sums of a vector of columns, at most */

/* Vectors of columns and neighbours whose sums, outputs and inputs have registers; AVX-512 has more
 * of them. */
#define DW_VECTORS_OF(taps, rows)                                                                  \
    (NP_VW == 16                ? ((rows) == 1 && (taps) <= 5 ? 3 : 2)                             \
     : (rows) > 1 || (taps) > 5 ? 1                                                                \
     : (taps) > 3               ? 2                                                                \
                                : 3)
#define DW_NEIGHBOURS_OF(taps, stride, rows)                                                       \
    ((stride) == 0 ? 1 : (stride) == 1 && ((taps) > 5 || (rows) > 1 || NP_VW == 16) ? 4 : 2)

/* An output: of which sample, in which row of its, where in that. */
struct dw_place {
    size_t sample, h, w;
};

/* Part of a row of y. */
struct dw_strip {
    const float *row; /* what the kernel's row 0 meets: its position 0 ... */
    const float *in; /* ... and what tap 0 meets of it at the first output; it may be outside ... */
    ptrdiff_t h;     /* ... as may row h of the image, which it is */
    const float *dy; /* the first output ... */
    size_t w, count; /* ... where it is in its row; outputs */
    size_t begin, end; /* blocks that begin at begin .. end - 1 are all inside */
    uint16_t *some;    /* where another begins, bit q: whether input q from there is inside */
};

/* Floats of x from tap to tap across and down, of x and of dy from output to output. */
struct dw_steps {
    ptrdiff_t tap, row, next, ldy;
};

struct dw_band {
    struct dw_strip strip[DW_BAND];
    size_t strips, outputs;
    struct dw_place place; /* where the next one begins */
    struct dw_steps step;
    size_t stride, rows;    /* those of the functions that it is for */
    ptrdiff_t row, h, high; /* the kernel's row meets what is `row` floats and h rows further on,
                               inside if that is below high; rows are `apart` */
    ptrdiff_t apart;
    size_t asked_x, asked_dy;          /* positions of x and dy: those before them were asked for */
    struct ahead_runs next_x, next_dy; /* what the next band reads: parts are fetched ... */
    size_t every, wait; /* ... as often as that many strips are met; met until then, 0: never */
    uint16_t some[DW_ONCE];
};

/* What a function is made for, constants: rows of the kernel and taps in each, neighbours `stride`
 * taps apart, 0: that have nothing in common; n, columns of the last vector, is one if it is NP_VW.
 */
struct dw_shape {
    size_t taps, stride, rows, vectors, n;
};

NP_INLINE void dw_load(vf *to, const float *from, struct dw_shape s)
{
    NP_UNROLL
    for (size_t v = 0; v + 1 < s.vectors; v++)
        to[v] = v_load(from + v * NP_VW);
    to[s.vectors - 1] = v_part(from + (s.vectors - 1) * NP_VW, s.n);
}

/* sums += the products of some neighbours, y, with what a row of taps meets from `in` on, one input
 * after the other. which: bit q, whether input q is inside. */
NP_INLINE void dw_weight_row(vf sums[][DW_VECTORS], const float *in, vf y[][DW_VECTORS],
                             ptrdiff_t step, size_t outputs, uint32_t which, struct dw_shape s)
{
    const size_t inputs = s.taps + (outputs - 1) * s.stride;
    vf x[DW_VECTORS];
    NP_UNROLL
    for (size_t q = 0; q < inputs; q++, in += step) {
        if (!__builtin_constant_p(which))
            NP_OPAQUE(which);
        if ((which >> q & 1) == 0)
            continue;
        dw_load(x, in, s);
        NP_UNROLL
        for (size_t v = 0; v < s.vectors; v++) {
            if (outputs > 1 && q >= s.stride && q + s.stride < inputs)
                v_keep(x[v]);
            NP_UNROLL
            for (size_t o = 0; o < outputs; o++)
                if (q >= o * s.stride && q - o * s.stride < s.taps)
                    sums[q - o * s.stride][v] = v_fma(x[v], y[o][v], sums[q - o * s.stride][v]);
        }
    }
}

/* high: bit r, whether row r of the inputs is inside. */
NP_INLINE void dw_weight_block(vf sums[DW_CHAINS][DW_VECTORS], const float *in, const float *dy,
                               const struct dw_steps *step, size_t outputs, uint32_t high,
                               uint32_t which, struct dw_shape s)
{
    vf y[DW_NEIGHBOURS][DW_VECTORS];
    NP_UNROLL
    for (size_t o = 0; o < outputs; o++)
        dw_load(y[o], dy + (ptrdiff_t)o * step->ldy, s);
    NP_UNROLL
    for (size_t r = 0; r < s.rows; r++, in += step->row)
        if (s.rows == 1 || (high >> r & 1))
            dw_weight_row(sums + r * s.taps, in, y, step->tap, outputs, which, s);
}

/* Those of a block that is not all inside, as dw_outputs does it. */
NP_INLINE void dw_weight_edge(vf sums[DW_CHAINS][DW_VECTORS], const float *in, const float *dy,
                              const struct dw_steps *steps, size_t outputs, uint32_t high,
                              uint32_t which, struct dw_shape s)
{
    struct dw_steps own = *steps, *step = &own;
    const uint32_t all = dw_all_inputs(s.taps, outputs, s.stride);
    const uint32_t first = all >> s.taps / 2 << s.taps / 2, last = all >> (s.taps - s.stride) / 2;
    NP_OPAQUE(own.tap); /* or multiples of it take registers of the loop around */
    NP_OPAQUE(own.ldy);
    if (outputs > 1 && which == first)
        dw_weight_block(sums, in, dy, step, outputs, high, first, s);
    else if (outputs > 1 && which == last)
        dw_weight_block(sums, in, dy, step, outputs, high, last, s);
    else if (outputs > 1 && which == (first & last))
        dw_weight_block(sums, in, dy, step, outputs, high, first & last, s);
    else
        dw_weight_block(sums, in, dy, step, outputs, high, which, s);
}

/* Those that are left at the end of a strip, mostly of a row, too. */
NP_INLINE void dw_weight_rest(vf sums[DW_CHAINS][DW_VECTORS], const float *in, const float *dy,
                              const struct dw_steps *steps, size_t outputs, uint32_t high,
                              uint32_t which, struct dw_shape s)
{
    struct dw_steps own = *steps, *step = &own;
    const uint32_t last = dw_all_inputs(s.taps, outputs, s.stride) >> (s.taps - s.stride) / 2;
    NP_OPAQUE(own.tap);
    NP_OPAQUE(own.ldy);
    if (outputs > 1 && which == last)
        dw_weight_block(sums, in, dy, step, outputs, high, last, s);
    else
        dw_weight_block(sums, in, dy, step, outputs, high, which, s);
}

NP_INLINE void dw_weight_strip(vf sums[DW_CHAINS][DW_VECTORS], const float *in, const float *dy,
                               const struct dw_strip *strip, const struct dw_steps *step,
                               uint32_t high, struct dw_shape s)
{
    const size_t outputs = DW_NEIGHBOURS_OF(s.taps, s.stride, s.rows);
    const ptrdiff_t next = (ptrdiff_t)outputs * step->next, ldy = (ptrdiff_t)outputs * step->ldy;
    const uint32_t all = dw_all_inputs(s.taps, outputs, s.stride);
    size_t i = 0, end = strip->end;
    for (; i + outputs <= strip->count; i += outputs, in += next, dy += ldy) {
        if (i >= strip->begin)
            for (; i < end; i += outputs, in += next, dy += ldy)
                dw_weight_block(sums, in, dy, step, outputs, high, all, s);
        if (i + outputs > strip->count)
            break;
        dw_weight_edge(sums, in, dy, step, outputs, high, strip->some[i], s);
    }
    NP_UNROLL
    for (size_t rest = 1; rest < outputs; rest++)
        if (strip->count - i == rest)
            dw_weight_rest(sums, in, dy, step, rest, high, strip->some[i], s);
}

/* acc [rows][taps][ld] += the products of a band, columns from c on. */
NP_INLINE void dw_weight_of(float *acc, size_t ld, struct dw_band *b, size_t c, struct dw_shape s)
{
    struct dw_steps step = b->step;
    vf sums[DW_CHAINS][DW_VECTORS];
    NP_OPAQUE(step.tap);
    NP_OPAQUE(step.row);
    NP_OPAQUE(step.next);
    NP_OPAQUE(step.ldy);
    NP_UNROLL
    for (size_t j = 0; j < s.rows * s.taps; j++) {
        NP_UNROLL
        for (size_t v = 0; v < s.vectors; v++)
            sums[j][v] = v_load(acc + j * ld + v * NP_VW);
    }
    for (const struct dw_strip *strip = b->strip; strip < b->strip + b->strips; strip++) {
        uint32_t high = 0;
        if (__builtin_expect(--b->wait == 0, 0)) {
            b->wait = b->every;
            ahead_runs_step(&b->next_x);
            ahead_runs_step(&b->next_dy);
        }
        NP_UNROLL
        for (size_t r = 0; r < s.rows; r++) {
            ptrdiff_t h = strip->h + b->h + (ptrdiff_t)r * b->apart;
            high |= (uint32_t)(h >= 0 && h < b->high) << r;
        }
        if (high != 0)
            dw_weight_strip(sums, strip->in + (b->row + (ptrdiff_t)c), strip->dy + c, strip, &step,
                            high, s);
    }
    NP_UNROLL
    for (size_t j = 0; j < s.rows * s.taps; j++) {
        NP_UNROLL
        for (size_t v = 0; v < s.vectors; v++)
            v_store(acc + j * ld + v * NP_VW, sums[j][v]);
    }
}

/* The first columns of `cols`, as many as there are registers for; returns how many. */
NP_INLINE size_t dw_weight_some(float *acc, size_t ld, struct dw_band *b, struct np_share cols,
                                size_t taps, size_t stride, size_t rows)
{
    const size_t most = DW_VECTORS_OF(taps, rows), c = cols.begin, count = cols.end - c;
    const size_t all = (count + NP_VW - 1) / NP_VW;
    const size_t vectors = all == most + 1 ? (most + 2) / 2 : np_min(most, all); /* none alone */
    const size_t n = np_min(count - (vectors - 1) * NP_VW, NP_VW);
    NP_UNROLL
    for (size_t v = 1; v <= most; v++) {
        if (v != vectors)
            continue;
        if (n == NP_VW)
            dw_weight_of(acc, ld, b, c, (struct dw_shape){taps, stride, rows, v, NP_VW});
        else
            dw_weight_of(acc, ld, b, c, (struct dw_shape){taps, stride, rows, v, n});
    }
    return vectors * NP_VW;
}

typedef size_t dw_weight_run(float *acc, size_t ld, struct dw_band *, struct np_share cols);

#define DW_WEIGHT(taps, stride, rows)                                                              \
    static size_t dw_weight_##taps##_##stride##_##rows(float *acc, size_t ld, struct dw_band *b,   \
                                                       struct np_share cols)                       \
    {                                                                                              \
        return dw_weight_some(acc, ld, b, cols, taps, stride, rows);                               \
    }
#define DW_STRIDES(CALL, taps, rows) CALL(taps, 0, rows) CALL(taps, 1, rows) CALL(taps, 2, rows)
#define DW_EACH_TAPS(CALL)                                                                         \
    CALL(1, 0, 1)                                                                                  \
    CALL(1, 1, 1)                                                                                  \
    DW_STRIDES(CALL, 2, 1)                                                                         \
    DW_STRIDES(CALL, 3, 1)                                                                         \
    DW_STRIDES(CALL, 4, 1)                                                                         \
    DW_STRIDES(CALL, 5, 1)                                                                         \
    DW_STRIDES(CALL, 6, 1)                                                                         \
    DW_STRIDES(CALL, 7, 1)                                                                         \
    DW_STRIDES(CALL, 3, 3)
DW_EACH_TAPS(DW_WEIGHT)

#define DW_WEIGHT_ENTRY(taps, stride, rows)                                                        \
    [taps][stride][rows] = dw_weight_##taps##_##stride##_##rows,
static dw_weight_run *const dw_weight_runs[DW_TAPS + 1][DW_STRIDE + 1][DW_SIDE + 1] = {
    DW_EACH_TAPS(DW_WEIGHT_ENTRY)};

/* Taps from one output to the next, if a function is made for them. */
static size_t dw_weight_stride(const struct np_window *w, size_t taps)
{
    const size_t stride = (size_t)(w->stride_width / w->dilation);
    return w->stride_width % w->dilation == 0 && stride <= np_min(taps, DW_STRIDE) ? stride : 0;
}

/* Rows of the kernel that are met together. Where a vector is half a cache line, and lines are far
 * apart, it takes longer to meet each line once more. */
static size_t dw_weight_rows(const struct np_conv *v)
{
    const struct np_window *w = &v->window;
    const bool square = w->kernel_height == DW_SIDE && w->kernel_width == DW_SIDE;
    return square && (NP_VW == 16 || v->in_channels <= DW_CLOSE) ? DW_SIDE : 1;
}

/* What is fixed while the sums of chunks are made: [taps][width] for each block of columns. */
struct dw_sums {
    const struct np_conv *v;
    size_t width;
    bool far; /* x and dy are not close by */
};

static struct dw_place dw_place_of(const struct np_conv *v, size_t output)
{
    size_t row = output / v->out_width;
    return (struct dw_place){row / v->out_height, row % v->out_height, output % v->out_width};
}

static void dw_advance_place(const struct np_conv *v, struct dw_place *place, size_t outputs)
{
    place->w += outputs;
    if (place->w < v->out_width)
        return;
    place->w = 0;
    if (++place->h < v->out_height)
        return;
    place->h = 0;
    place->sample++;
}

/* The strips of a band that begins at output r and may reach output `end`: rows, or parts of them
 * that are long. */
static void dw_band_cut(const struct np_conv *v, struct dw_band *b, size_t r, size_t end,
                        size_t most)
{
    b->strips = b->outputs = 0;
    while (r < end && b->strips < DW_BAND) {
        struct dw_strip *strip = &b->strip[b->strips];
        const struct dw_place at = b->place;
        strip->count = np_min(np_min(v->out_width - at.w, end - r), DW_STRIP);
        if (b->outputs + strip->count > most)
            break;
        strip->h = (ptrdiff_t)at.h * v->window.stride_height - v->window.pad_top;
        strip->row = v->x + ((ptrdiff_t)(at.sample * v->in_height) + strip->h) *
                                (ptrdiff_t)v->in_width * (ptrdiff_t)v->ldx;
        strip->w = at.w;
        strip->dy = v->dy + r * v->ldy;
        strip->some = b->some + b->outputs;
        b->strips++;
        b->outputs += strip->count;
        r += strip->count;
        dw_advance_place(v, &b->place, strip->count);
    }
}

/* What the taps of a row of the kernel, or some of them, meet. */
static void dw_band_taps(const struct np_conv *v, struct dw_band *b, const struct axis *wide)
{
    const size_t outputs = DW_NEIGHBOURS_OF(wide->taps, b->stride, b->rows);
    const struct np_share full = full_positions(wide);
    const ptrdiff_t apart = (ptrdiff_t)wide->spacing;
    for (size_t k = 0; k < b->strips; k++) {
        struct dw_strip *strip = &b->strip[k], *last = strip - 1;
        const ptrdiff_t at = (ptrdiff_t)(strip->w * wide->stride) + wide->first;
        strip->in = strip->row + at * (ptrdiff_t)v->ldx;
        if (k > 0 && strip->w == last->w && strip->count == last->count) {
            strip->begin = last->begin;
            strip->end = last->end;
            strip->some = last->some;
            continue;
        }
        strip->begin = full.begin > strip->w ? full.begin - strip->w : 0;
        strip->end = np_min(full.end > strip->w ? full.end - strip->w : 0, strip->count);
        strip->end = strip->end < outputs ? 0 : strip->end - outputs + 1;
        for (size_t i = 0; i < strip->count; i += outputs) {
            const size_t n = np_min(outputs, strip->count - i);
            const uint32_t all = dw_all_inputs(wide->taps, n, b->stride);
            ptrdiff_t left = at + (ptrdiff_t)(i * wide->stride), right = (ptrdiff_t)wide->in - left;
            if (i < strip->begin || i >= strip->end)
                strip->some[i] =
                    (uint16_t)(dw_bits(dw_ceil_div(-left, apart), dw_ceil_div(right, apart)) & all);
        }
    }
}

/* Positions of x up to the last that an output reads. */
static size_t dw_read_end(const struct np_conv *v, struct dw_place last)
{
    const struct np_window *w = &v->window;
    const size_t most = v->samples * v->in_height * v->in_width;
    ptrdiff_t h = (ptrdiff_t)last.h * w->stride_height;
    ptrdiff_t at = (ptrdiff_t)last.w * w->stride_width;
    h += (ptrdiff_t)(last.sample * v->in_height);
    h += (w->kernel_height - 1) * w->dilation - w->pad_top;
    at += (w->kernel_width - 1) * w->dilation - w->pad_left + h * (ptrdiff_t)v->in_width;
    return at < 0 ? 0 : np_min((size_t)at + 1, most);
}

/* What a band of `most` outputs from r on reads and was not asked for. `passes` times this one's
 * strips are met. */
static void dw_band_ahead(const struct np_conv *v, struct dw_band *b, size_t r, size_t most,
                          size_t passes, struct np_share cols)
{
    const size_t end = np_min(r + most, v->samples * v->out_height * v->out_width);
    const size_t strips = passes * b->strips, steps = np_min(strips, DW_FETCHES);
    b->every = b->wait = 0;
    if (r >= end)
        return;
    const struct np_share x = {b->asked_x, dw_read_end(v, dw_place_of(v, end - 1))};
    b->next_dy = ahead_runs_of(v->dy, v->ldy, (struct np_share){b->asked_dy, end}, cols, steps);
    b->next_x = ahead_runs_of(v->x, v->ldx, x, cols, steps);
    b->asked_dy = end;
    b->asked_x = x.end;
    b->every = strips / steps;
    b->wait = 1;
}

/* acc += the products of a band with all rows of the kernel, of `taps` taps from kw on. */
static void dw_band_run(const struct dw_sums *sums, float *acc, struct dw_band *b, size_t kw,
                        size_t taps, struct np_share cols)
{
    const struct np_conv *v = sums->v;
    const struct np_window *win = &v->window;
    dw_weight_run *const run = dw_weight_runs[taps][b->stride][b->rows];
    for (size_t done = 0; cols.begin < cols.end; cols.begin += done, acc += done) {
        b->h = b->row = 0;
        for (size_t kh = 0; kh < (size_t)win->kernel_height; kh += b->rows) {
            float *to = acc + (kh * (size_t)win->kernel_width + kw) * sums->width;
            done = run(to, sums->width, b, cols);
            b->h += (ptrdiff_t)b->rows * b->apart;
            b->row += (ptrdiff_t)b->rows * b->step.row;
        }
    }
}

/* One chunk's sums for one block of columns. */
static void dw_weight_chunk(void *context, float *acc, struct np_share chunk, struct np_share cols)
{
    const struct dw_sums *sums = context;
    const struct np_conv *v = sums->v;
    const size_t high = (size_t)v->window.kernel_height, wide = (size_t)v->window.kernel_width;
    const size_t rows = dw_weight_rows(v), met = DW_VECTORS_OF(wide, rows) * NP_VW;
    const size_t passes =
        (np_share_count(cols) + met - 1) / met * ((wide + DW_TAPS - 1) / DW_TAPS) * (high / rows);
    const size_t most = passes > 1 ? DW_OUTPUTS : DW_ONCE;
    struct dw_band b;
    memset(acc, 0, high * wide * sums->width * sizeof *acc);
    b.place = dw_place_of(v, chunk.begin);
    b.rows = rows;
    b.wait = 0;
    b.high = (ptrdiff_t)v->in_height;
    b.apart = v->window.dilation;
    b.step.tap = b.apart * (ptrdiff_t)v->ldx;
    b.step.row = b.step.tap * (ptrdiff_t)v->in_width;
    b.step.next = v->window.stride_width * (ptrdiff_t)v->ldx;
    b.step.ldy = (ptrdiff_t)v->ldy;
    b.asked_dy = np_min(chunk.begin + most, v->samples * v->out_height * v->out_width);
    b.asked_x = dw_read_end(v, dw_place_of(v, b.asked_dy - 1));
    for (size_t r = chunk.begin; r < chunk.end; r += b.outputs) {
        dw_band_cut(v, &b, r, chunk.end, most);
        if (sums->far)
            dw_band_ahead(v, &b, r + b.outputs, most, passes, cols);
        for (size_t kw = 0, taps; kw < wide; kw += taps) {
            struct axis axis = forward_width(v);
            taps = axis.taps = np_min(wide - kw, DW_TAPS);
            axis.first += (ptrdiff_t)(kw * axis.spacing);
            b.stride = dw_weight_stride(&v->window, taps);
            dw_band_taps(v, &b, &axis);
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
    while (team->size > 1 && blocks < units && blocks * chunks < 4 * (size_t)team->size)
        blocks++;
    return (units + blocks - 1) / blocks * NP_SHARE_UNIT;
}

bool NP_SIMD(np_dwconv_grad_weight)(struct np_team *team, const struct np_conv *v)
{
    size_t wide = (size_t)v->window.kernel_width, taps = (size_t)v->window.kernel_height * wide;
    size_t image = v->out_height * v->out_width, room = team->scratch_bytes / sizeof(float), span;
    struct dw_sums sums = {.v = v, .far = ahead_pays(v, AHEAD_COLD)};
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
