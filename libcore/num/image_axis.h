/* What windows see of an image, one dimension at a time. Private to num/. */
#ifndef NP_NUM_IMAGE_AXIS_H
#define NP_NUM_IMAGE_AXIS_H

#include "num/arguments.h"
#include "num/chunk.h"
#include "num/grid.h"

/* Tap t of window position o reads image position o * stride + t * spacing + first. */
struct axis {
    size_t out, in, stride, spacing, taps;
    ptrdiff_t first;
    size_t place, step, places; /* position o is place + o * step of the `places` of the output */
};

/* Steps from 0 to `distance` or beyond; most steps are 1, and a division takes its time. */
static inline size_t steps_to(size_t distance, size_t step)
{
    return step == 1 ? distance : (distance + step - 1) / step;
}

/* Which of `count` numbers i satisfy 0 <= at + i * step < size; an empty share if none. */
static inline struct np_share in_range(ptrdiff_t at, size_t step, size_t count, size_t size)
{
    ptrdiff_t left = (ptrdiff_t)size - at;
    struct np_share i = {0, 0};
    if (left <= 0)
        return i;
    i.end = np_min(count, steps_to((size_t)left, step));
    if (at < 0)
        i.begin = np_min(i.end, steps_to((size_t)-at, step));
    return i;
}

/* The taps that see the image at position o. */
static inline struct np_share seen_taps(const struct axis *a, size_t o)
{
    return in_range((ptrdiff_t)(o * a->stride) + a->first, a->spacing, a->taps, a->in);
}

/* The positions at which tap t sees the image. */
static inline struct np_share seeing_positions(const struct axis *a, size_t t)
{
    return in_range((ptrdiff_t)(t * a->spacing) + a->first, a->stride, a->out, a->in);
}

/* The positions at which all taps do. */
static inline struct np_share full_positions(const struct axis *a)
{
    struct np_share none = {0, 0};
    if (a->taps == 0)
        return none;
    return (struct np_share){seeing_positions(a, 0).begin, seeing_positions(a, a->taps - 1).end};
}

/* Consecutive positions that see the same taps. */
struct zone {
    struct np_share positions, taps;
};

/* The zone that begins at position o. */
static inline struct zone zone_at(const struct axis *a, size_t o)
{
    struct zone z = {{o, o + 1}, seen_taps(a, o)};
    for (; z.positions.end < a->out; z.positions.end++) {
        struct np_share taps = seen_taps(a, z.positions.end);
        if (taps.begin != z.taps.begin || taps.end != z.taps.end)
            break;
    }
    return z;
}

static inline struct axis forward_axis(size_t out, size_t in, int stride, int taps, int dilation,
                                       int pad)
{
    return (struct axis){out, in, (size_t)stride, (size_t)dilation, (size_t)taps, -pad, 0, 1, out};
}

static inline struct axis forward_height(const struct np_conv *v)
{
    const struct np_window *w = &v->window;
    return forward_axis(v->out_height, v->in_height, w->stride_height, w->kernel_height,
                        w->dilation, w->pad_top);
}

static inline struct axis forward_width(const struct np_conv *v)
{
    const struct np_window *w = &v->window;
    return forward_axis(v->out_width, v->in_width, w->stride_width, w->kernel_width, w->dilation,
                        w->pad_left);
}

/* Input positions first, first + stride, ... of one dimension and the taps that reach them, in
 * descending order: last, last - step, ... */
struct residue {
    struct axis axis;
    size_t last, step;
};

static inline struct residue residue_at(size_t first, size_t in, size_t out, int stride, int taps,
                                        int dilation, int pad)
{
    struct residue r = {.step = 1};
    ptrdiff_t at = (ptrdiff_t)first + pad;
    size_t apart = (size_t)stride, wide = (size_t)dilation;
    while (r.step * wide % apart != 0)
        r.step++;
    r.axis = (struct axis){.out = (in - first + apart - 1) / apart, .in = out, .stride = 1};
    r.axis.spacing = r.step * wide / apart;
    r.axis.place = first;
    r.axis.step = apart;
    r.axis.places = in;
    for (int k = 0; k < taps; k++)
        if ((at - (ptrdiff_t)k * dilation) % stride == 0) {
            r.last = (size_t)k;
            r.axis.taps++;
        }
    r.axis.first = (at - (ptrdiff_t)(r.last * wide)) / stride;
    return r;
}

#endif
