/* SIMD kernels of num/kernels.h: average pools.
 *
 * Sums of windows are depthwise convolutions whose weights are 1 (num/dwconv_simd.h): fma(x, 1,
 * acc) is acc + x. The gradient divides a position of dy once, not once for each tap.
 */
#ifndef NP_NUM_AVG_POOL_SIMD_H
#define NP_NUM_AVG_POOL_SIMD_H

#include "num/backend.h"
#include "num/dwconv_simd.h"
#include "num/pool_axes.h"

#define POOL_QUOTIENTS (64 << 10) /* floats that stay in the second cache */

/* Sums of windows; one: the weights of a tap, which are those of all. */
struct pool_sums {
    const struct pool *pool;
    const float *one;
    struct dw_row row; /* its ld, cols, ld_out, ld_residual and ahead */
    bool forward;
};

/* What the output after o wants; what the gradient reads is close by. */
static void pool_look_ahead(struct pool_sums *s, const float *x, const struct dw_line *line,
                            size_t o)
{
    const struct axis *high = &s->pool->h, *wide = &s->pool->w;
    const size_t passes = dw_passes(&s->row, line), width = wide->places * s->row.ld_out;
    const size_t seen = o * high->stride + (high->taps - 1) * high->spacing + 1;
    const float *in = x + ((ptrdiff_t)seen + high->first) * (ptrdiff_t)(wide->in * s->row.ld);
    const float *out = s->row.out + high->step * width;
    s->row.ahead[0] =
        ahead_of(in, s->forward ? in + high->stride * wide->in * s->row.ld : in, passes);
    s->row.ahead[1] = ahead_of(out, out + width, passes);
}

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
            if (row->ahead && r == 0 && wide->place == 0) /* others are of the same rows */
                pool_look_ahead(s, x, &line, o);
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
    struct np_deal deal = np_team_deal(team, v->samples * v->out_height, 1);
    size_t most = pool_columns(team, v, 0);
    struct pool_sums s = {.pool = &p, .row = {.ld = v->ldx, .ld_out = v->ldy}, .forward = true};
    struct ahead ahead[2] = {{0}};
    s.row.ahead = ahead_pays(v) ? ahead : NULL;
    if (most == 0) {
        np_kernels_scalar.avg_pool(team, v);
        return;
    }
    s.one = pool_ones(team->scratch, most);
    for (struct np_share part; np_deal_run(&deal, v->out_height, &part);) {
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
    struct np_deal deal = np_team_deal(team, v->samples * v->in_height, 1);
    size_t image = v->out_height * v->out_width, most = pool_columns(team, v, image);
    struct pool_sums s = {.row = {.ld_out = v->ldx, .ld_residual = v->ldx}};
    struct ahead ahead[2] = {{0}};
    s.row.ahead = ahead_pays(v) ? ahead : NULL;
    float *quotient = team->scratch;
    vf bad = v_zero();
    if (most == 0)
        return np_kernels_scalar.avg_pool_grad(team, v, base);
    s.one = pool_ones(quotient + image * most, most);
    for (struct np_share part; np_deal_run(&deal, v->in_height, &part);) {
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
