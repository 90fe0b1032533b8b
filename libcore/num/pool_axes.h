/* How windows of pools slide, and over what. Private to num/.
 *
 * Y reads x as a window of positions, and dx reads dy as one, too: for each residue of positions
 * modulo the stride, by those taps that reach it (num/image_axis.h).
 */
#ifndef NP_NUM_POOL_AXES_H
#define NP_NUM_POOL_AXES_H

#include "num/image_axis.h"

struct pool {
    struct axis h, w;
    size_t tap;                     /* the number of tap (0, 0) ... */
    ptrdiff_t tap_down, tap_across; /* ... and steps to those of others */
};

/* The taps across that see the image at position o; `full`: where all do. */
static inline struct np_share pool_across(const struct pool *p, const struct np_share *full,
                                          size_t o)
{
    if (o >= full->begin && o < full->end)
        return (struct np_share){0, p->w.taps};
    return seen_taps(&p->w, o);
}

static struct pool forward_pool(const struct np_conv *v)
{
    return (struct pool){forward_height(v), forward_width(v), 0, v->window.kernel_width, 1};
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
    p.tap = h.last * (size_t)win->kernel_width + w.last;
    p.tap_down = -(ptrdiff_t)h.step * win->kernel_width;
    p.tap_across = -(ptrdiff_t)w.step;
    return p;
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

/* Those of strides up to 2, worked out once: small images would feel the divisions. */
#define POOL_KEPT 4
struct pool_kept {
    struct pool residue[POOL_KEPT];
};

static struct pool_kept pool_keep(const struct np_conv *v)
{
    struct pool_kept kept = {0};
    const size_t count = np_min(POOL_KEPT, pool_residues(v));
    for (size_t i = 0; i < count; i++)
        kept.residue[i] = pool_residue(v, i);
    return kept;
}

static struct pool pool_kept(const struct pool_kept *kept, const struct np_conv *v, size_t number)
{
    return number < POOL_KEPT ? kept->residue[number] : pool_residue(v, number);
}

#endif
