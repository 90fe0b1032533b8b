/* SIMD kernels of num/kernels.h: average pools.
 *
 * The gradient divides a position of dy once, not once for each tap.
 */
#ifndef NP_NUM_AVG_POOL_SIMD_H
#define NP_NUM_AVG_POOL_SIMD_H

#include "num/backend.h"
#include "num/pool_sums_simd.h"

#define POOL_QUOTIENTS (64 << 10) /* floats that stay in the second cache */

#define AVG_LINES(CALL, term) DW_FEW(CALL, term) CALL(term, 5, 1) CALL(term, 2, 2) CALL(term, 3, 2)
DW_RUNNER(avg_runner, DW_INPUT, AVG_LINES)

/* Numbers of positions that windows hold: [taps down that see the image][out_width]. */
static const float *pool_counts(float *counts, const struct pool *p)
{
    struct np_share full = full_positions(&p->w);
    for (size_t i = 0, seen = 0; seen <= p->h.taps; seen++)
        for (size_t ow = 0; ow < p->w.out; ow++)
            counts[i++] = (float)(seen * np_share_count(pool_across(p, &full, ow)));
    return counts;
}

/* Columns that are worked on at once: `floats` each, and the counts, fit the scratch. 0: none. */
static size_t pool_columns(const struct np_team *team, const struct np_conv *v, size_t floats)
{
    size_t room = np_min(team->scratch_bytes / sizeof(float), POOL_QUOTIENTS);
    size_t counts = ((size_t)v->window.kernel_height + 1) * v->out_width;
    if (v->window.kernel_height > NP_KC || counts > room)
        return 0;
    return floats > 0 ? np_min((room - counts) / floats / NP_VW * NP_VW, v->in_channels)
                      : v->in_channels;
}

static void avg_pool(struct np_team *team, const struct np_conv *v)
{
    const struct pool p = forward_pool(v);
    struct np_deal deal = np_team_deal(team, v->samples * v->out_height, 1);
    struct pool_sums s = {.pool = &p, .runner = avg_runner, .afar = true};
    struct ahead ahead[DW_AHEAD] = {{0}};
    s.row.ld = v->ldx;
    s.row.ld_out = v->ldy;
    s.row.cols = pool_columns(team, v, 0);
    s.row.ahead = ahead_pays(v, AHEAD_WARM) ? ahead : NULL;
    if (s.row.cols == 0) {
        np_kernels_scalar.avg_pool(team, v);
        return;
    }
    s.counts = pool_counts(team->scratch, &p);
    for (struct np_share part; np_deal_run(&deal, v->out_height, &part);) {
        size_t sample = part.begin / v->out_height, begin = part.begin % v->out_height;
        struct np_share inside = {begin, begin + np_share_count(part)};
        const float *x = v->x + sample * v->in_height * v->in_width * v->ldx;
        float *out = v->out + sample * v->out_height * v->out_width * v->ldy;
        pool_add(&s, x, out, NULL, inside, v_zero());
    }
}

/* Dy of windows that meet lines of the input, channels from `first` on, divided by the numbers of
 * positions that they hold: [out_height][out_width][cols]. */
static void pool_divide(float *quotient, const struct np_conv *v, const float *counts,
                        struct np_share lines, size_t first, size_t cols)
{
    const struct axis high = forward_height(v);
    const size_t width = v->out_width, ld = v->ldy, sample = lines.begin / v->in_height;
    const float *dy = v->dy + sample * high.out * width * ld + first;
    size_t begin = lines.begin % v->in_height, end = begin + np_share_count(lines);
    for (size_t oh = 0; oh < high.out; oh++) {
        ptrdiff_t low = (ptrdiff_t)(oh * high.stride) + high.first;
        const float *count = counts + np_share_count(seen_taps(&high, oh)) * width;
        if (low + (ptrdiff_t)((high.taps - 1) * high.spacing) < (ptrdiff_t)begin ||
            low >= (ptrdiff_t)end)
            continue;
        for (size_t i = oh * width; i < (oh + 1) * width; i++) {
            const float n = *count++;
            NP_INDEPENDENT
            for (size_t c = 0; c < cols; c++)
                quotient[i * cols + c] = dy[i * ld + c] / n;
        }
    }
}

static bool avg_pool_grad(struct np_team *team, const struct np_conv *v, const float *base)
{
    struct np_deal deal = np_team_deal(team, v->samples * v->in_height, 1);
    size_t image = v->out_height * v->out_width, most = pool_columns(team, v, image);
    const struct pool forward = forward_pool(v);
    const struct pool_kept kept = pool_keep(v);
    struct pool_sums s = {.runner = avg_runner};
    struct ahead ahead[DW_AHEAD] = {{0}};
    s.row.ld_out = s.row.ld_residual = v->ldx;
    s.row.ahead = ahead_pays(v, AHEAD_WARM) ? ahead : NULL;
    float *quotient = team->scratch;
    vf bad = v_zero();
    if (most == 0)
        return np_kernels_scalar.avg_pool_grad(team, v, base);
    const float *counts = pool_counts(quotient + image * most, &forward);
    for (struct np_share part; np_deal_run(&deal, v->in_height, &part);) {
        size_t sample = part.begin / v->in_height, begin = part.begin % v->in_height;
        struct np_share inside = {begin, begin + np_share_count(part)};
        for (size_t first = 0; first < v->in_channels; first += most) {
            size_t at = sample * v->in_height * v->in_width * v->ldx + first;
            s.row.cols = s.row.ld = np_min(most, v->in_channels - first);
            pool_divide(quotient, v, counts, part, first, s.row.cols);
            for (size_t i = 0; i < pool_residues(v); i++) {
                const struct pool p = pool_kept(&kept, v, i);
                s.pool = &p;
                bad = pool_add(&s, quotient, v->out + at, base ? base + at : NULL, inside, bad);
            }
        }
    }
    return v_all_finite(bad);
}

#endif
