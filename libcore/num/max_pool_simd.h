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
    const float *number;    /* the bits of 0, 1, ..., of each a vector */
    size_t ld, ld_which;
};

/* High x wide positions that a window sees. */
struct pool_window {
    const float *x, *which;                        /* at the first */
    const float *number;                           /* a vector of the bits of its tap's number */
    size_t down, across, which_down, which_across; /* floats to the next position ... */
    ptrdiff_t number_down, number_across;          /* ... and to its number */
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
    v.number_down = p->tap_down * NP_VW;
    v.number_across = p->tap_across * NP_VW;
    v.number = m->number + p->tap * NP_VW + (ptrdiff_t)high.begin * v.number_down +
               (ptrdiff_t)wide.begin * v.number_across;
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

/* The numbers of taps, of each a vector; NULL if there are too many. */
static const float *pool_numbers(const struct np_conv *v, int32_t number[NP_KC * NP_VW])
{
    int32_t taps = v->window.kernel_height * v->window.kernel_width;
    for (int32_t i = 0; i < taps * NP_VW && taps <= NP_KC; i++)
        number[i] = i / NP_VW;
    return taps <= NP_KC ? (const float *)(const void *)number : NULL;
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
        const float *number = w->number + (ptrdiff_t)i * w->number_down;
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

/* The gradients of one, two or four vectors of an input position, from channel c on, one of n
 * channels or more whole ones: sums of what the window sees and whose tap was chosen. */
NP_INLINE vf pool_back(const struct pool_window *w, size_t wide, float *dx, const float *base,
                       size_t c, size_t vectors, size_t n, vf bad)
{
    vf acc[4];
    NP_UNROLL
    for (size_t g = 0; g < vectors; g++)
        acc[g] = v_zero();
    for (size_t i = 0; i < w->high; i++) {
        const float *x = w->x + i * w->down + c, *which = w->which + i * w->which_down + c;
        const float *number = w->number + (ptrdiff_t)i * w->number_down;
        NP_UNROLL
        for (size_t j = 0; j < wide; j++) {
            vf tap = v_load(number);
            NP_UNROLL
            for (size_t g = 0; g < vectors; g++) {
                vf chosen = v_part(which + g * NP_VW, n);
                acc[g] = v_add(acc[g], v_same(v_part(x + g * NP_VW, n), chosen, tap));
            }
            x += w->across;
            which += w->which_across;
            number += w->number_across;
        }
    }
    NP_UNROLL
    for (size_t g = 0; g < vectors; g++) {
        if (base)
            acc[g] = v_add(v_part(base + c + g * NP_VW, n), acc[g]);
        v_put(dx + c + g * NP_VW, n, acc[g]);
        bad = v_not_finite(bad, acc[g]);
    }
    return bad;
}

/* The gradients of a zone's positions, ld floats apart. */
NP_INLINE vf pool_back_zone(const struct pool_zone *z, size_t wide, float *dx, const float *base,
                            size_t ld, size_t cols, vf bad)
{
    struct pool_window w = z->first;
    for (size_t i = 0; i < z->count; i++) {
        size_t c = 0;
        for (; c + 4 * NP_VW <= cols; c += 4 * NP_VW)
            bad = pool_back(&w, wide, dx, base, c, 4, NP_VW, bad);
        for (; c + 2 * NP_VW <= cols; c += 2 * NP_VW)
            bad = pool_back(&w, wide, dx, base, c, 2, NP_VW, bad);
        for (; c + NP_VW <= cols; c += NP_VW)
            bad = pool_back(&w, wide, dx, base, c, 1, NP_VW, bad);
        if (c < cols && cols > NP_VW && base != dx) /* some once more, as max_zone */
            bad = pool_back(&w, wide, dx, base, cols - NP_VW, 1, NP_VW, bad);
        else if (c < cols)
            bad = pool_back(&w, wide, dx, base, c, 1, cols - c, bad);
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
    int32_t number[NP_KC * NP_VW];
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
