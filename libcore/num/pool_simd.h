/* SIMD kernels of num/kernels.h: pools.
 *
 * Y reads x as a window of positions, and dx reads dy as one, too: for each residue of positions
 * modulo the stride, by those taps that reach it (num/image_axis.h). Sums of windows are depthwise
 * convolutions whose weights are 1 (num/dwconv_simd.h): fma(x, 1, acc) is acc + x. The average's
 * gradient divides a position of dy once, not once for each tap.
 */
#ifndef NP_NUM_POOL_SIMD_H
#define NP_NUM_POOL_SIMD_H

#include "num/backend.h"
#include "num/dwconv_simd.h"
#include "num/image_axis.h"
#include "num/simd_loops.h"

#define POOL_QUOTIENTS (64 << 10) /* floats that stay in the second cache */

/* What the window of a position sees: high x wide positions. */
struct pool_window {
    const float *x, *which; /* at the first; which: NULL, or the bits of numbers of taps */
    size_t down, across, which_down, which_across; /* floats to the next position */
    size_t high, wide;
    int32_t tap, tap_down, tap_across; /* the number of the first tap, and steps */
};

/* How windows slide, and over what: images [samples][h.in][w.in]. */
struct pool {
    struct axis h, w;
    const float *x, *which;
    size_t ld, ld_which;
    int32_t tap, tap_down, tap_across; /* the number of tap (0, 0), and steps */
};

static struct pool_window pool_window(const struct pool *p, size_t sample, size_t oh, size_t ow,
                                      struct np_share high, struct np_share wide)
{
    size_t ih = (size_t)((ptrdiff_t)(oh * p->h.stride + high.begin * p->h.spacing) + p->h.first);
    size_t iw = (size_t)((ptrdiff_t)(ow * p->w.stride + wide.begin * p->w.spacing) + p->w.first);
    size_t down = p->h.spacing * p->w.in, across = p->w.spacing;
    size_t at = (sample * p->h.in + ih) * p->w.in + iw;
    struct pool_window v = {.x = p->x, .which = p->which};
    v.high = np_share_count(high);
    v.wide = np_share_count(wide);
    if (v.high == 0 || v.wide == 0)
        return v;
    v.x += at * p->ld;
    v.down = down * p->ld;
    v.across = across * p->ld;
    v.which += p->which ? at * p->ld_which : 0;
    v.which_down = down * p->ld_which;
    v.which_across = across * p->ld_which;
    v.tap = p->tap + (int32_t)high.begin * p->tap_down + (int32_t)wide.begin * p->tap_across;
    v.tap_down = p->tap_down;
    v.tap_across = p->tap_across;
    return v;
}

/* The taps across that see the image at position o; `full`: where all do. */
static inline struct np_share pool_across(const struct pool *p, const struct np_share *full,
                                          size_t o)
{
    if (o >= full->begin && o < full->end)
        return (struct np_share){0, p->w.taps};
    return seen_taps(&p->w, o);
}

/* The sum of what a window sees and whose tap was chosen, of n channels from c on. */
NP_INLINE vf pool_sum(const struct pool_window *v, size_t c, size_t n)
{
    vf acc = v_zero();
    for (size_t i = 0; i < v->high; i++) {
        const float *x = v->x + i * v->down + c, *which = v->which + i * v->which_down + c;
        int32_t tap = v->tap + (int32_t)i * v->tap_down;
        for (size_t j = 0; j < v->wide; j++, tap += v->tap_across) {
            vf number = v_set1(np_bits_float((uint32_t)tap));
            acc = v_add(acc, v_same(v_part(x, n), v_part(which, n), number));
            x += v->across;
            which += v->which_across;
        }
    }
    return acc;
}

/* The largest, and the bits of its tap's number. */
NP_INLINE vf pool_max(const struct pool_window *v, size_t c, size_t n, vf *which)
{
    vf most = v_part(v->x + c, n);
    *which = v_set1(np_bits_float((uint32_t)v->tap));
    for (size_t i = 0; i < v->high; i++) {
        const float *x = v->x + i * v->down + c;
        int32_t tap = v->tap + (int32_t)i * v->tap_down;
        for (size_t j = 0; j < v->wide; j++, x += v->across, tap += v->tap_across) {
            vf next = v_part(x, n), number = v_set1(np_bits_float((uint32_t)tap));
            *which = v_or(v_drop(*which, most, next), v_only(number, most, next));
            most = v_max(next, most);
        }
    }
    return most;
}

static struct pool forward_pool(const struct np_conv *v)
{
    struct pool p = {.h = forward_height(v), .w = forward_width(v), .x = v->x, .ld = v->ldx};
    p.tap_down = v->window.kernel_width;
    p.tap_across = 1;
    return p;
}

/* n channels of an output position from c on, and where they came from. */
NP_INLINE void pool_put(const struct pool_window *w, float *y, float *which, size_t c, size_t n)
{
    vf tap, most = pool_max(w, c, n, &tap);
    v_put(y, n, most);
    v_put(which, n, tap);
}

static void max_pool(struct np_team *team, const struct np_conv *v, int32_t *which)
{
    const struct pool p = forward_pool(v);
    float *taps = (float *)(void *)which;
    size_t height = v->out_height, width = v->out_width, cols = v->in_channels;
    struct np_share lines = np_team_share(team, v->samples * height, 1);
    struct np_share full = full_positions(&p.w);
    for (size_t line = lines.begin; line < lines.end; line++) {
        struct np_share high = seen_taps(&p.h, line % height);
        for (size_t ow = 0; ow < width; ow++) {
            struct np_share wide = pool_across(&p, &full, ow);
            struct pool_window w = pool_window(&p, line / height, line % height, ow, high, wide);
            size_t at = line * width + ow, c = 0;
            for (; c + NP_VW <= cols; c += NP_VW)
                pool_put(&w, v->out + at * v->ldy + c, taps + at * cols + c, c, NP_VW);
            if (c < cols)
                pool_put(&w, v->out + at * v->ldy + c, taps + at * cols + c, c, cols - c);
        }
    }
}

/* Sums of windows; one: the weights of a tap, which are those of all. */
struct pool_sums {
    const struct pool *pool;
    const float *one;
    struct dw_row row; /* its ld, cols, ld_out and ld_residual */
};

/* Those that go to lines `lines` of an image, added to what residual holds, if it is not NULL. */
static vf pool_add(struct pool_sums *s, const float *x, float *out, const float *residual,
                   struct np_share lines, vf bad)
{
    const struct axis *high = &s->pool->h, *wide = &s->pool->w;
    struct dw_row *row = &s->row;
    size_t period = 1;
    for (size_t r = 0; r < period && r < wide->out; r++) {
        struct dw_line line = dw_line_along(wide, r, &period);
        dw_line_run *run = dw_line_runner(&line);
        line.tap_step = 0;
        for (size_t o = 0; o < high->out; o++) {
            size_t at = high->place + o * high->step;
            if (at < lines.begin || at >= lines.end)
                continue;
            struct np_share seen = seen_taps(high, o);
            row->pair_count = 0;
            for (size_t t = seen.begin; t < seen.end; t++) {
                ptrdiff_t from = (ptrdiff_t)(o * high->stride + t * high->spacing) + high->first;
                const float *in = x + (size_t)from * wide->in * row->ld;
                row->pairs[row->pair_count++] = (struct dw_pair){in, s->one};
            }
            row->out = out + at * wide->places * row->ld_out;
            if (residual)
                row->residual = residual + at * wide->places * row->ld_residual;
            bad = run(row, &line, 0, line.count, bad);
        }
    }
    return bad;
}

static const float *pool_ones(float *one, size_t count)
{
    for (size_t i = 0; i < count; i++)
        one[i] = 1;
    return one;
}

/* Columns that are worked on at once: `floats` each, and the ones, fit the scratch. 0: none do. */
static size_t pool_columns(const struct np_team *team, const struct np_conv *v, size_t floats)
{
    size_t room = np_min(team->scratch_bytes / sizeof(float), POOL_QUOTIENTS);
    if (v->window.kernel_height > NP_KC)
        return 0;
    return np_min(room / (floats + 1) / NP_VW * NP_VW, v->in_channels);
}

/* The lines from lines.begin on that are of the same sample, `height` of which are one. */
static struct np_share pool_lines(size_t height, struct np_share lines)
{
    lines.end = np_min(lines.end, (lines.begin / height + 1) * height);
    return lines;
}

/* Lines of y, all of one sample, divided by the numbers of positions that their windows hold. */
static void pool_average(const struct np_conv *v, const struct pool *p, struct np_share lines,
                         size_t first, size_t cols)
{
    struct np_share full = full_positions(&p->w);
    float *y = v->out + lines.begin * v->out_width * v->ldy + first;
    for (size_t line = lines.begin; line < lines.end; line++) {
        size_t seen = np_share_count(seen_taps(&p->h, line % v->out_height));
        for (size_t ow = 0; ow < v->out_width; ow++, y += v->ldy) {
            float count = (float)(seen * np_share_count(pool_across(p, &full, ow)));
            NP_INDEPENDENT
            for (size_t c = 0; c < cols; c++)
                y[c] = y[c] / count;
        }
    }
}

static void avg_pool(struct np_team *team, const struct np_conv *v)
{
    const struct pool p = forward_pool(v);
    struct np_share lines = np_team_share(team, v->samples * v->out_height, 1), part;
    size_t most = pool_columns(team, v, 0);
    struct pool_sums s = {.pool = &p, .row = {.ld = v->ldx, .ld_out = v->ldy}};
    if (most == 0) {
        np_kernels_scalar.avg_pool(team, v);
        return;
    }
    s.one = pool_ones(team->scratch, most);
    for (; lines.begin < lines.end; lines.begin = part.end) {
        part = pool_lines(v->out_height, lines);
        size_t sample = part.begin / v->out_height, begin = part.begin % v->out_height;
        struct np_share inside = {begin, begin + np_share_count(part)};
        for (size_t first = 0; first < v->in_channels; first += most) {
            const float *x = v->x + sample * v->in_height * v->in_width * v->ldx + first;
            float *out = v->out + sample * v->out_height * v->out_width * v->ldy + first;
            s.row.cols = np_min(most, v->in_channels - first);
            pool_add(&s, x, out, NULL, inside, v_zero());
            pool_average(v, &p, part, first, s.row.cols);
        }
    }
}

/* The readers of the input positions of residue (i, j) modulo the strides. */
static struct pool backward_pool(const struct np_conv *v, size_t i, size_t j)
{
    const struct np_window *win = &v->window;
    struct residue h = residue_at(i, v->in_height, v->out_height, win->stride_height,
                                  win->kernel_height, win->dilation, win->pad_top);
    struct residue w = residue_at(j, v->in_width, v->out_width, win->stride_width,
                                  win->kernel_width, win->dilation, win->pad_left);
    struct pool p = {.h = h.axis, .w = w.axis};
    p.tap = (int32_t)(h.last * (size_t)win->kernel_width + w.last);
    p.tap_down = -(int32_t)h.step * win->kernel_width;
    p.tap_across = -(int32_t)w.step;
    return p;
}

/* The gradient of n channels of an input position, from c on. */
NP_INLINE vf pool_back(const struct pool_window *w, float *dx, const float *base, size_t c,
                       size_t n, vf bad)
{
    vf sum = pool_sum(w, c, n);
    if (base)
        sum = v_add(v_part(base, n), sum);
    v_put(dx, n, sum);
    return v_not_finite(bad, sum);
}

/* Lines of the input, all of one sample. */
static vf pool_back_lines(const struct np_conv *v, const struct pool *p, struct np_share lines,
                          const float *base, vf bad)
{
    size_t height = v->in_height, sample = lines.begin / height, cols = v->in_channels;
    struct np_share full = full_positions(&p->w);
    for (size_t oh = 0; oh < p->h.out; oh++) {
        size_t line = sample * height + p->h.place + oh * p->h.step;
        struct np_share high = seen_taps(&p->h, oh);
        if (line < lines.begin || line >= lines.end)
            continue;
        for (size_t ow = 0; ow < p->w.out; ow++) {
            size_t at = (line * v->in_width + p->w.place + ow * p->w.step) * v->ldx;
            const float *from = base ? base + at : NULL;
            struct pool_window w = pool_window(p, sample, oh, ow, high, pool_across(p, &full, ow));
            size_t c = 0;
            for (; c + NP_VW <= cols; c += NP_VW)
                bad = pool_back(&w, v->out + at + c, from ? from + c : NULL, c, NP_VW, bad);
            if (c < cols)
                bad = pool_back(&w, v->out + at + c, from ? from + c : NULL, c, cols - c, bad);
        }
    }
    return bad;
}

/* Residues of positions of the input: how many there are, and one of them. */
static size_t pool_residues(const struct np_conv *v)
{
    return np_min((size_t)v->window.stride_height, v->in_height) *
           np_min((size_t)v->window.stride_width, v->in_width);
}

static struct pool pool_residue(const struct np_conv *v, size_t number)
{
    size_t wide = np_min((size_t)v->window.stride_width, v->in_width);
    return backward_pool(v, number / wide, number % wide);
}

static bool max_pool_grad(struct np_team *team, const struct np_conv *v, const int32_t *which,
                          const float *base)
{
    struct np_share lines = np_team_share(team, v->samples * v->in_height, 1), part;
    vf bad = v_zero();
    for (; lines.begin < lines.end; lines.begin = part.end) {
        part = pool_lines(v->in_height, lines);
        for (size_t i = 0; i < pool_residues(v); i++) {
            struct pool p = pool_residue(v, i);
            p.x = v->dy;
            p.ld = v->ldy;
            p.which = (const float *)(const void *)which;
            p.ld_which = v->in_channels;
            bad = pool_back_lines(v, &p, part, base, bad);
        }
    }
    return v_all_finite(bad);
}

/* Dy of windows that meet lines of the input, channels from `first` on, divided by the numbers of
 * positions that they hold: [out_height][out_width][cols]. */
static void pool_divide(float *quotient, const struct np_conv *v, struct np_share lines,
                        size_t first, size_t cols)
{
    const struct pool p = forward_pool(v);
    struct np_share full = full_positions(&p.w);
    size_t sample = lines.begin / v->in_height, begin = lines.begin % v->in_height;
    size_t end = begin + np_share_count(lines);
    for (size_t oh = 0; oh < v->out_height; oh++) {
        ptrdiff_t low = (ptrdiff_t)(oh * p.h.stride) + p.h.first;
        ptrdiff_t high = low + (ptrdiff_t)((p.h.taps - 1) * p.h.spacing);
        size_t seen = np_share_count(seen_taps(&p.h, oh));
        if (high < (ptrdiff_t)begin || low >= (ptrdiff_t)end)
            continue;
        for (size_t ow = 0; ow < v->out_width; ow++) {
            size_t at = oh * v->out_width + ow;
            const float *dy = v->dy + (sample * v->out_height * v->out_width + at) * v->ldy + first;
            float count = (float)(seen * np_share_count(pool_across(&p, &full, ow)));
            NP_INDEPENDENT
            for (size_t c = 0; c < cols; c++)
                quotient[at * cols + c] = dy[c] / count;
        }
    }
}

static bool avg_pool_grad(struct np_team *team, const struct np_conv *v, const float *base)
{
    struct np_share lines = np_team_share(team, v->samples * v->in_height, 1), part;
    size_t image = v->out_height * v->out_width, most = pool_columns(team, v, image);
    struct pool_sums s = {.row = {.ld_out = v->ldx, .ld_residual = v->ldx}};
    float *quotient = team->scratch;
    vf bad = v_zero();
    if (most == 0)
        return np_kernels_scalar.avg_pool_grad(team, v, base);
    s.one = pool_ones(quotient + image * most, most);
    for (; lines.begin < lines.end; lines.begin = part.end) {
        part = pool_lines(v->in_height, lines);
        size_t sample = part.begin / v->in_height, begin = part.begin % v->in_height;
        struct np_share inside = {begin, begin + np_share_count(part)};
        for (size_t first = 0; first < v->in_channels; first += most) {
            size_t at = sample * v->in_height * v->in_width * v->ldx + first;
            s.row.cols = s.row.ld = np_min(most, v->in_channels - first);
            pool_divide(quotient, v, part, first, s.row.cols);
            for (size_t i = 0; i < pool_residues(v); i++) {
                const struct pool p = pool_residue(v, i);
                s.pool = &p;
                bad = pool_add(&s, quotient, v->out + at, base ? base + at : NULL, inside, bad);
            }
        }
    }
    return v_all_finite(bad);
}

#endif
