/* The transposed matrix of what windows see, as the left operand of a product: a part of
 * conv_simd.h. Row (tap, channel), column (sample, h, w); columns are parts of the image. Rows of
 * one tap leave out the positions where it sees nothing.
 */
#ifndef NP_NUM_IMAGE_LINES_H
#define NP_NUM_IMAGE_LINES_H

#include <stdint.h>

#include "num/image_axis.h"
#include "num/product_simd.h"

struct image_lines {
    struct left base;
    const float *x; /* images of positions `ld` floats apart, `channels` of which are read */
    size_t ld, channels;
    struct axis h, w;
    struct np_share high, wide; /* positions at which the tap of the current rows sees the image */
    struct np_share found;      /* columns whose pointers are known */
    const float *line[NP_KC];
};

/* A pointer that may be outside of its image as long as nothing is read there. */
static const float *shift(const float *x, ptrdiff_t floats)
{
    return (const float *)((uintptr_t)x + (uintptr_t)floats * sizeof(float));
}

static size_t tap_end(struct left *left, size_t begin, size_t end)
{
    struct image_lines *m = (struct image_lines *)left;
    size_t tap = begin / m->channels;
    m->high = seeing_positions(&m->h, tap / m->w.taps);
    m->wide = seeing_positions(&m->w, tap % m->w.taps);
    return np_min(end, (tap + 1) * m->channels);
}

/* Pointers to where the first tap of the window would be. */
static const float *const *find_lines(struct left *left, struct np_share rows, struct np_share cols)
{
    struct image_lines *m = (struct image_lines *)left;
    size_t step = m->w.stride * m->ld;
    (void)rows;
    if (m->found.begin == cols.begin && m->found.end == cols.end)
        return m->line;
    m->found = cols;
    for (size_t p = cols.begin, count; p < cols.end; p += count) {
        size_t w = p % m->w.out, number = p / m->w.out, sample = number / m->h.out;
        ptrdiff_t h = (ptrdiff_t)(number % m->h.out * m->h.stride) + m->h.first;
        ptrdiff_t at = ((ptrdiff_t)(sample * m->h.in) + h) * (ptrdiff_t)m->w.in +
                       (ptrdiff_t)(w * m->w.stride) + m->w.first;
        const float *first = shift(m->x, at * (ptrdiff_t)m->ld);
        count = np_min(m->w.out - w, cols.end - p);
        for (size_t i = 0; i < count; i++)
            m->line[p - cols.begin + i] = shift(first, (ptrdiff_t)(i * step));
    }
    return m->line;
}

/* The next column at which the tap sees the image, and how many follow it. */
static size_t next_seeing(const struct left *left, size_t col, size_t *count, size_t *at)
{
    const struct image_lines *m = (const struct image_lines *)left;
    size_t w = col % m->w.out, line = col / m->w.out, h = line % m->h.out;
    *at = 0;
    if (np_share_count(m->high) == 0 || np_share_count(m->wide) == 0)
        return SIZE_MAX;
    if (w >= m->wide.end && m->high.begin <= h && h < m->high.end) {
        w = 0;
        line++;
        h++;
    }
    if (h < m->high.begin || h >= m->high.end) {
        line += h < m->high.begin ? m->high.begin - h : m->h.out - h + m->high.begin;
        h = m->high.begin;
        w = 0;
    }
    w = w < m->wide.begin ? m->wide.begin : w;
    *count = m->wide.end - w;
    if (np_share_count(m->wide) == m->w.out) {
        *count = (m->high.end - h) * m->w.out - w;
        if (np_share_count(m->high) == m->h.out)
            *count = SIZE_MAX / 2;
    }
    return line * m->w.out + w;
}

/* Where the first of the rows is, from each pointer. */
static size_t row_at(const struct left *left, size_t row)
{
    const struct image_lines *m = (const struct image_lines *)left;
    size_t tap = row / m->channels, th = tap / m->w.taps, tw = tap % m->w.taps;
    return (th * m->h.spacing * m->w.in + tw * m->w.spacing) * m->ld + row % m->channels;
}

#endif
