/* What windows see of an image, one dimension at a time: a part of conv_simd.h. */
#ifndef NP_NUM_IMAGE_AXIS_H
#define NP_NUM_IMAGE_AXIS_H

#include "num/chunk.h"
#include "num/grid.h"

/* Tap t of window position o reads image position o * stride + t * spacing + first. */
struct axis {
    size_t out, in, stride, spacing, taps;
    ptrdiff_t first;
    size_t place, step, places; /* position o is place + o * step of the `places` of the output */
};

/* Which of `count` numbers i satisfy 0 <= at + i * step < size; an empty share if none. */
static inline struct np_share in_range(ptrdiff_t at, size_t step, size_t count, size_t size)
{
    ptrdiff_t left = (ptrdiff_t)size - at;
    struct np_share i = {0, 0};
    if (left <= 0)
        return i;
    i.end = np_min(count, ((size_t)left + step - 1) / step);
    if (at < 0)
        i.begin = np_min(i.end, ((size_t)-at + step - 1) / step);
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

#endif
