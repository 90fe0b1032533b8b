/* SIMD kernels of num/kernels.h: max pools.
 *
 * What a window sees is known for all neighbours that see its whole width: they go through one loop
 * whose taps across are unrolled.
 */
#ifndef NP_NUM_MAX_POOL_SIMD_H
#define NP_NUM_MAX_POOL_SIMD_H

#include "num/backend.h"
#include "num/pool_axes.h"
#include "num/simd_loops.h"

/* What windows slide over: images [samples][h.in][w.in]. */
struct pool_images {
    const struct pool *pool;
    struct np_share full;   /* positions across that see the whole width */
    const float *x, *which; /* which: NULL, or the bits of numbers of taps */
    const float *number;    /* the bits of 0, 1, ... */
    size_t ld, ld_which;
};

/* High x wide positions that a window sees. */
struct pool_window {
    const float *x, *which;                        /* at the first */
    const float *number;                           /* the bits of the number of its tap */
    size_t down, across, which_down, which_across; /* floats to the next position ... */
    ptrdiff_t number_down, number_across;          /* ... and number */
    size_t high, wide;
};

/* Windows of neighbours that see as much: the first, and floats to the next. */
struct pool_zone {
    struct pool_window first;
    size_t count, step, which_step;
};

static struct pool_window pool_window(const struct pool_images *m, size_t sample, size_t oh,
                                      size_t ow, struct np_share high, struct np_share wide)
{
    const struct pool *p = m->pool;
    size_t ih = (size_t)((ptrdiff_t)(oh * p->h.stride + high.begin * p->h.spacing) + p->h.first);
    size_t iw = (size_t)((ptrdiff_t)(ow * p->w.stride + wide.begin * p->w.spacing) + p->w.first);
    size_t down = p->h.spacing * p->w.in, across = p->w.spacing;
    size_t at = (sample * p->h.in + ih) * p->w.in + iw;
    struct pool_window v = {.x = m->x, .which = m->which};
    if (np_share_count(high) == 0 || np_share_count(wide) == 0)
        return v;
    v.x += at * m->ld;
    v.down = down * m->ld;
    v.across = across * m->ld;
    v.which += m->which ? at * m->ld_which : 0;
    v.which_down = down * m->ld_which;
    v.which_across = across * m->ld_which;
    v.number = m->number + p->tap + (ptrdiff_t)high.begin * p->tap_down +
               (ptrdiff_t)wide.begin * p->tap_across;
    v.number_down = p->tap_down;
    v.number_across = p->tap_across;
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
                              inside ? m->full.end - ow : 1, p->w.stride * m->ld,
                              p->w.stride * m->ld_which};
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

/* The numbers of taps as bits of floats, one after the other; NULL if there are too many. */
static const float *pool_numbers(const struct np_conv *v, int32_t number[NP_KC])
{
    int32_t taps = v->window.kernel_height * v->window.kernel_width;
    for (int32_t t = 0; t < taps && t < NP_KC; t++)
        number[t] = t;
    return taps <= NP_KC ? (const float *)(const void *)number : NULL;
}

/* The largest, and the bits of its tap's number. */
NP_INLINE vf pool_max(const struct pool_window *v, size_t wide, size_t c, size_t n, vf *which)
{
    vf most = v_part(v->x + c, n);
    *which = v_set1(*v->number);
    for (size_t i = 0; i < v->high; i++) {
        const float *x = v->x + i * v->down + c;
        const float *number = v->number + (ptrdiff_t)i * v->number_down;
        NP_UNROLL
        for (size_t j = 0; j < wide; j++) {
            vf next = v_part(x + j * v->across, n);
            v_keep(next);
            *which = v_pick(next, most, *which, v_set1(number[j]));
            most = v_max(next, most);
        }
    }
    return most;
}

/* n channels of an output position from c on, and where they came from. */
NP_INLINE void pool_put(const struct pool_window *w, size_t wide, float *y, float *which, size_t c,
                        size_t n)
{
    vf tap, most = pool_max(w, wide, c, n, &tap);
    v_put(y + c, n, most);
    v_put(which + c, n, tap);
}

NP_INLINE void max_zone(const struct pool_zone *z, size_t wide, float *y, size_t ldy, float *which,
                        size_t cols)
{
    struct pool_window w = z->first;
    for (size_t i = 0; i < z->count; i++) {
        size_t c = 0;
        for (; c + NP_VW <= cols; c += NP_VW)
            pool_put(&w, wide, y, which, c, NP_VW);
        if (c < cols && cols > NP_VW) /* some once more: quicker than a part of a vector */
            pool_put(&w, wide, y, which, cols - NP_VW, NP_VW);
        else if (c < cols)
            pool_put(&w, wide, y, which, c, cols - c);
        w.x += z->step;
        y += ldy;
        which += cols;
    }
}

static void max_pool(struct np_team *team, const struct np_conv *v, int32_t *which)
{
    int32_t number[NP_KC];
    const struct pool p = forward_pool(v);
    const struct pool_images m = {.pool = &p,
                                  .full = full_positions(&p.w),
                                  .x = v->x,
                                  .ld = v->ldx,
                                  .number = pool_numbers(v, number)};
    float *taps = (float *)(void *)which;
    size_t height = v->out_height, width = v->out_width, cols = v->in_channels, count;
    struct np_deal deal = np_team_deal(team, v->samples * height, 1);
    if (!m.number) {
        np_kernels_scalar.max_pool(team, v, which);
        return;
    }
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

/* The sum of what a window sees and whose tap was chosen, of n channels from c on. */
NP_INLINE vf pool_sum(const struct pool_window *v, size_t wide, size_t c, size_t n)
{
    vf acc = v_zero();
    for (size_t i = 0; i < v->high; i++) {
        const float *x = v->x + i * v->down + c, *which = v->which + i * v->which_down + c;
        const float *number = v->number + (ptrdiff_t)i * v->number_down;
        NP_UNROLL
        for (size_t j = 0; j < wide; j++) {
            vf chosen = v_part(which + j * v->which_across, n);
            vf next = v_same(v_part(x + j * v->across, n), chosen, v_set1(*number));
            acc = v_add(acc, next);
            number += v->number_across;
        }
    }
    return acc;
}

/* The gradient of n channels of an input position, from c on. */
NP_INLINE vf pool_back(const struct pool_window *w, size_t wide, float *dx, const float *base,
                       size_t c, size_t n, vf bad)
{
    vf sum = pool_sum(w, wide, c, n);
    if (base)
        sum = v_add(v_part(base + c, n), sum);
    v_put(dx + c, n, sum);
    return v_not_finite(bad, sum);
}

/* The gradients of a zone's positions, ld floats apart. */
NP_INLINE vf pool_back_zone(const struct pool_zone *z, size_t wide, float *dx, const float *base,
                            size_t ld, size_t cols, vf bad)
{
    struct pool_window w = z->first;
    for (size_t i = 0; i < z->count; i++) {
        size_t c = 0;
        for (; c + NP_VW <= cols; c += NP_VW)
            bad = pool_back(&w, wide, dx, base, c, NP_VW, bad);
        if (c < cols)
            bad = pool_back(&w, wide, dx, base, c, cols - c, bad);
        w.x += z->step;
        w.which += z->which_step;
        dx += ld;
        base += base ? ld : 0;
    }
    return bad;
}

/* Lines of the input, all of one sample. */
static vf pool_back_lines(const struct np_conv *v, const struct pool_images *m,
                          struct np_share lines, const float *base, vf bad)
{
    const struct pool *p = m->pool;
    size_t height = v->in_height, sample = lines.begin / height, cols = v->in_channels, count;
    size_t ld = p->w.step * v->ldx;
    for (size_t oh = 0; oh < p->h.out; oh++) {
        size_t line = sample * height + p->h.place + oh * p->h.step;
        struct np_share high = seen_taps(&p->h, oh);
        if (line < lines.begin || line >= lines.end)
            continue;
        for (size_t ow = 0; ow < p->w.out; ow += count) {
            size_t at = (line * v->in_width + p->w.place + ow * p->w.step) * v->ldx;
            const float *from = base ? base + at : NULL;
            const struct pool_zone z = pool_zone(m, sample, oh, ow, high);
            count = z.count;
#define CALL(wide) bad = pool_back_zone(&z, wide, v->out + at, from, ld, cols, bad)
            POOL_WIDE(z.first.wide, CALL);
#undef CALL
        }
    }
    return bad;
}

static bool max_pool_grad(struct np_team *team, const struct np_conv *v, const int32_t *which,
                          const float *base)
{
    struct np_deal deal = np_team_deal(team, v->samples * v->in_height, 1);
    int32_t number[NP_KC];
    struct pool_images m = {.x = v->dy,
                            .ld = v->ldy,
                            .ld_which = v->in_channels,
                            .which = (const float *)(const void *)which,
                            .number = pool_numbers(v, number)};
    vf bad = v_zero();
    if (!m.number)
        return np_kernels_scalar.max_pool_grad(team, v, which, base);
    for (struct np_share part; np_deal_run(&deal, v->in_height, &part);) {
        for (size_t i = 0; i < pool_residues(v); i++) {
            const struct pool p = pool_residue(v, i);
            m.pool = &p;
            m.full = full_positions(&p.w);
            bad = pool_back_lines(v, &m, part, base, bad);
        }
    }
    return v_all_finite(bad);
}

#endif
