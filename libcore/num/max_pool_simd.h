/* SIMD kernels of num/kernels.h: max pools.
 *
 * What a window sees is known for all neighbours that see its whole width: they go through one loop
 * whose taps across are unrolled. Gradients are sums of windows of dy (num/pool_sums_simd.h).
 */
#ifndef NP_NUM_MAX_POOL_SIMD_H
#define NP_NUM_MAX_POOL_SIMD_H

#include "num/backend.h"
#include "num/pool_sums_simd.h"

/* What windows slide over: images [samples][h.in][w.in]. */
struct pool_images {
    const struct pool *pool;
    struct np_share full; /* positions across that see the whole width */
    const float *x;
    const float *number; /* the bits of 0, 1, ..., of each a vector */
    size_t ld;
};

/* High x wide positions that a window sees. */
struct pool_window {
    const float *x;      /* at the first */
    const float *number; /* a vector of the bits of its tap's number */
    size_t down, across; /* floats to the next position ... */
    size_t number_down;  /* ... and to its number: across it is the next vector */
    size_t high, wide;
};

/* Windows of neighbours that see as much: the first, and floats to the next. */
struct pool_zone {
    struct pool_window first;
    size_t count, step;
};

static struct pool_window pool_window(const struct pool_images *m, size_t sample, size_t oh,
                                      size_t ow, struct np_share high, struct np_share wide)
{
    const struct pool *p = m->pool;
    size_t ih = (size_t)((ptrdiff_t)(oh * p->h.stride + high.begin * p->h.spacing) + p->h.first);
    size_t iw = (size_t)((ptrdiff_t)(ow * p->w.stride + wide.begin * p->w.spacing) + p->w.first);
    size_t down = p->h.spacing * p->w.in, across = p->w.spacing;
    size_t at = (sample * p->h.in + ih) * p->w.in + iw;
    struct pool_window v = {.x = m->x};
    if (np_share_count(high) == 0 || np_share_count(wide) == 0)
        return v;
    v.x += at * m->ld;
    v.down = down * m->ld;
    v.across = across * m->ld;
    v.number_down = p->w.taps * NP_VW;
    v.number = m->number + high.begin * v.number_down + wide.begin * NP_VW;
    v.high = np_share_count(high);
    v.wide = np_share_count(wide);
    return v;
}

/* The zone that begins at position (oh, ow): all that see the whole width, or one. */
static struct pool_zone pool_zone(const struct pool_images *m, size_t sample, size_t oh, size_t ow,
                                  struct np_share high)
{
    const struct pool *p = m->pool;
    bool inside = ow >= m->full.begin && ow < m->full.end;
    struct np_share wide = pool_across(p, &m->full, ow);
    return (struct pool_zone){pool_window(m, sample, oh, ow, high, wide),
                              inside ? m->full.end - ow : 1, p->w.stride * m->ld};
}

/* CALL(constant) for widths that are usual. */
#define POOL_WIDE(wide, CALL)                                                                      \
    do {                                                                                           \
        if ((wide) == 1)                                                                           \
            CALL(1);                                                                               \
        else if ((wide) == 2)                                                                      \
            CALL(2);                                                                               \
        else if ((wide) == 3)                                                                      \
            CALL(3);                                                                               \
        else                                                                                       \
            CALL(wide);                                                                            \
    } while (0)

/* The bits of the numbers of taps, of each a vector. */
static void pool_numbers(int32_t *number, const struct pool *p)
{
    for (size_t i = 0; i < p->h.taps; i++)
        for (size_t j = 0; j < p->w.taps; j++)
            for (size_t lane = 0; lane < NP_VW; lane++)
                *number++ = (int32_t)((ptrdiff_t)p->tap + (ptrdiff_t)i * p->tap_down +
                                      (ptrdiff_t)j * p->tap_across);
}

static bool too_many_taps(const struct np_conv *v)
{
    return (size_t)v->window.kernel_height * (size_t)v->window.kernel_width > NP_KC;
}

/* The largest of one or two vectors of an output position, from channel c on, one of n channels or
 * two whole ones, and the bits of their taps' numbers. */
NP_INLINE void pool_max(const struct pool_window *w, size_t wide, float *y, float *which, size_t c,
                        size_t vectors, size_t n)
{
    vf most[2], tap[2];
    NP_UNROLL
    for (size_t g = 0; g < vectors; g++) {
        most[g] = v_part(w->x + c + g * NP_VW, n);
        tap[g] = v_load(w->number);
    }
    for (size_t i = 0; i < w->high; i++) {
        const float *x = w->x + i * w->down + c;
        const float *number = w->number + i * w->number_down;
        NP_UNROLL
        for (size_t j = 0; j < wide; j++) {
            vf here = v_load(number + j * NP_VW);
            NP_UNROLL
            for (size_t g = 0; g < vectors; g++) {
                vf next = v_part(x + j * w->across + g * NP_VW, n);
                v_keep(next);
                tap[g] = v_pick(next, most[g], tap[g], here);
                most[g] = v_max(next, most[g]);
            }
        }
    }
    NP_UNROLL
    for (size_t g = 0; g < vectors; g++) {
        v_put(y + c + g * NP_VW, n, most[g]);
        v_put(which + c + g * NP_VW, n, tap[g]);
    }
}

NP_INLINE void max_zone(const struct pool_zone *z, size_t wide, float *y, size_t ldy, float *which,
                        size_t cols)
{
    struct pool_window w = z->first;
    for (size_t i = 0; i < z->count; i++) {
        size_t c = 0;
        for (; c + 2 * NP_VW <= cols; c += 2 * NP_VW)
            pool_max(&w, wide, y, which, c, 2, NP_VW);
        for (; c + NP_VW <= cols; c += NP_VW)
            pool_max(&w, wide, y, which, c, 1, NP_VW);
        if (c < cols && cols > NP_VW) /* some once more: quicker than a part of a vector */
            pool_max(&w, wide, y, which, cols - NP_VW, 1, NP_VW);
        else if (c < cols)
            pool_max(&w, wide, y, which, c, 1, cols - c);
        w.x += z->step;
        y += ldy;
        which += cols;
    }
}

static void max_pool(struct np_team *team, const struct np_conv *v, int32_t *which)
{
    int32_t number[NP_KC * NP_VW];
    const struct pool p = forward_pool(v);
    const struct pool_images m = {.pool = &p,
                                  .full = full_positions(&p.w),
                                  .x = v->x,
                                  .ld = v->ldx,
                                  .number = (const float *)(const void *)number};
    float *taps = (float *)(void *)which;
    size_t height = v->out_height, width = v->out_width, cols = v->in_channels, count;
    struct np_deal deal = np_team_deal(team, v->samples * height, 1);
    if (too_many_taps(v)) {
        np_kernels_scalar.max_pool(team, v, which);
        return;
    }
    pool_numbers(number, &p);
    for (size_t line; np_deal_item(&deal, &line);) {
        struct np_share high = seen_taps(&p.h, line % height);
        for (size_t ow = 0; ow < width; ow += count) {
            size_t at = line * width + ow;
            const struct pool_zone z = pool_zone(&m, line / height, line % height, ow, high);
            count = z.count;
#define CALL(wide) max_zone(&z, wide, v->out + at * v->ldy, v->ldy, taps + at * cols, cols)
            POOL_WIDE(z.first.wide, CALL);
#undef CALL
        }
    }
}

DW_RUNNER(max_runner, DW_CHOSEN, DW_FEW)

static bool max_pool_grad(struct np_team *team, const struct np_conv *v, const int32_t *which,
                          const float *base)
{
    struct np_deal deal = np_team_deal(team, v->samples * v->in_height, 1);
    int32_t number[NP_KC * NP_VW];
    struct pool_sums s = {
        .afar = true, .runner = max_runner, .number = (const float *)(const void *)number};
    struct ahead ahead[DW_AHEAD] = {{0}};
    const struct pool_kept kept = pool_keep(v);
    vf bad = v_zero();
    if (too_many_taps(v))
        return np_kernels_scalar.max_pool_grad(team, v, which, base);
    s.row.ld = v->ldy;
    s.row.cols = v->in_channels;
    s.row.ld_out = s.row.ld_residual = v->ldx;
    s.row.ahead = ahead_pays(v, AHEAD_WARM) ? ahead : NULL;
    for (struct np_share part; np_deal_run(&deal, v->in_height, &part);) {
        size_t sample = part.begin / v->in_height, begin = part.begin % v->in_height;
        struct np_share inside = {begin, begin + np_share_count(part)};
        size_t at = sample * v->in_height * v->in_width * v->ldx;
        size_t row = sample * v->out_height * v->out_width;
        s.chosen = (const float *)(const void *)which + row * v->in_channels;
        for (size_t i = 0; i < pool_residues(v); i++) {
            const struct pool p = pool_kept(&kept, v, i);
            pool_numbers(number, &p);
            s.pool = &p;
            bad = pool_add(&s, v->dy + row * v->ldy, v->out + at, base ? base + at : NULL, inside,
                           bad);
        }
    }
    return v_all_finite(bad);
}

#endif
