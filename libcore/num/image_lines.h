/* The transposed matrix of what windows see, as the left operand of a product: a part of
 * conv_simd.h. Row (tap, channel), column (sample, h, w); columns are parts of the image. Rows of
 * one tap leave out the positions where it sees nothing. Where taps beside each other read floats
 * beside each other, and channels are few, the rows of all taps across are worked on together, as a
 * strip, or those of the whole window: rows of one tap alone would make low tiles.
 */
#ifndef NP_NUM_IMAGE_LINES_H
#define NP_NUM_IMAGE_LINES_H

#include <stdint.h>

#include "num/image_axis.h"
#include "num/product_simd.h"

enum { STRIP_CHANNELS = 8 };

struct image_lines {
    struct left base;
    const float *x; /* images of positions `ld` floats apart, `channels` of which are read */
    size_t ld, channels;
    struct axis h, w;
    size_t taps, lines; /* of a strip: 1, or all that are across, or all */
    /* Of the current rows: positions at which any and at which all of their taps see the image. */
    struct np_share rows, high, wide, all_high, all_wide;
    size_t before;          /* rows of a strip that come before them */
    size_t col, at_w, at_h; /* a column and its position */
    struct np_share found;  /* columns whose pointers are known */
    const float *line[NP_KC];
};

/* A pointer that may be outside of its image as long as nothing is read there. */
static const float *shift(const float *x, ptrdiff_t floats)
{
    return (const float *)((uintptr_t)x + (uintptr_t)floats * sizeof(float));
}

/* Whether the tiles of n columns of C know such windows. */
static bool is_known_window(const struct image_lines *m, size_t n)
{
    size_t across = m->w.taps * m->channels, rows = m->h.taps * across;
#define IS_WINDOW(r, a) || (rows == (r) && across == (a))
    bool known = false NP_GEMM_WINDOWS(IS_WINDOW);
#undef IS_WINDOW
    return NP_VW == 16 && n > NP_VW / 2 && n <= NP_VW && known;
}

static void choose_strips(struct image_lines *m, size_t n)
{
    bool dense = m->w.spacing == 1 && m->ld == m->channels;
    bool strip = dense && m->channels <= STRIP_CHANNELS && m->w.taps * m->channels <= NP_GEMM_SOME;
    m->taps = strip ? m->w.taps : 1;
    m->lines = strip && is_known_window(m, n) ? m->h.taps : 1;
}

static struct np_share either(struct np_share first, struct np_share last)
{
    return (struct np_share){np_min(first.begin, last.begin),
                             first.end > last.end ? first.end : last.end};
}

static size_t strip_end(struct left *left, size_t begin, size_t end)
{
    struct image_lines *m = (struct image_lines *)left;
    size_t rows = m->taps * m->channels, tap = begin / rows * m->taps, lines = m->lines;
    if (lines > 1 && (begin > 0 || end < lines * rows)) /* members share the rows */
        lines = 1;
    struct np_share top = seeing_positions(&m->h, tap / m->w.taps);
    struct np_share bottom = seeing_positions(&m->h, tap / m->w.taps + lines - 1);
    struct np_share first = seeing_positions(&m->w, tap % m->w.taps);
    struct np_share last = seeing_positions(&m->w, tap % m->w.taps + m->taps - 1);
    m->all_high = (struct np_share){top.begin, bottom.end};
    m->all_wide = (struct np_share){first.begin, last.end};
    m->high = either(top, bottom);
    m->wide = m->taps > 1 ? (struct np_share){0, m->w.out} : first;
    m->base.across = lines > 1 ? rows : 0;
    m->base.pitch = m->h.spacing * m->w.in * m->ld;
    m->before = begin % rows;
    m->rows = (struct np_share){begin, np_min(end, begin / rows * rows + lines * rows)};
    return m->rows.end;
}

/* Where the first tap of the window at a position would be. */
static const float *window_at(const struct image_lines *m, size_t sample, size_t h, size_t w)
{
    ptrdiff_t line = (ptrdiff_t)(sample * m->h.in + h * m->h.stride) + m->h.first;
    ptrdiff_t at = line * (ptrdiff_t)m->w.in + (ptrdiff_t)(w * m->w.stride) + m->w.first;
    return shift(m->x, at * (ptrdiff_t)m->ld);
}

/* Pointers to them. */
static const float *const *find_lines(struct left *left, struct np_share rows, struct np_share cols)
{
    struct image_lines *m = (struct image_lines *)left;
    size_t step = m->w.stride * m->ld;
    (void)rows;
    if (m->found.begin == cols.begin && m->found.end == cols.end)
        return m->line;
    m->found = cols;
    size_t p = cols.begin, w = p % m->w.out, h = p / m->w.out % m->h.out;
    size_t sample = p / m->w.out / m->h.out;
    const float **to = m->line;
    for (size_t count; p < cols.end; p += count, to += count, w = 0) {
        const float *first = window_at(m, sample, h, w);
        count = np_min(m->w.out - w, cols.end - p);
        for (size_t i = 0; i < count; i++)
            to[i] = shift(first, (ptrdiff_t)(i * step));
        if (++h == m->h.out) {
            h = 0;
            sample++;
        }
    }
    return m->line;
}

/* Goes to a column. Divisions take as long as the sums of a line of few channels, so none is made
 * for the columns of the next line. */
static void walk(struct image_lines *m, size_t col)
{
    if (col < m->col || col - m->col > m->w.out) {
        m->at_w = col % m->w.out;
        m->at_h = col / m->w.out % m->h.out;
    } else {
        m->at_w += col - m->col;
        for (; m->at_w >= m->w.out; m->at_w -= m->w.out)
            m->at_h = m->at_h + 1 < m->h.out ? m->at_h + 1 : 0;
    }
    m->col = col;
}

static bool is_in(struct np_share share, size_t i)
{
    return share.begin <= i && i < share.end;
}

/* The rows that want position (h, w). */
static uint64_t rows_seeing(const struct image_lines *m, size_t h, size_t w)
{
    struct np_share taps = in_range((ptrdiff_t)(w * m->w.stride) + m->w.first, 1, m->taps, m->w.in);
    size_t low = taps.begin * m->channels, high = taps.end * m->channels, across = m->base.across;
    low = low > m->before ? low - m->before : 0;
    high = np_min(high > m->before ? high - m->before : 0, np_share_count(m->rows));
    uint64_t bits = ((uint64_t)1 << high) - ((uint64_t)1 << low), line = bits;
    if (across == 0)
        return high > low ? bits : 0;
    taps = is_in(m->all_high, h) ? (struct np_share){0, m->lines} : seen_taps(&m->h, h);
    for (bits = 0; taps.begin < taps.end; taps.begin++)
        bits |= line << taps.begin * across;
    return bits;
}

/* The next column at which a tap sees the image, and how many follow it. */
static size_t next_seeing(struct left *left, size_t col, struct np_stretch *s)
{
    struct image_lines *m = (struct image_lines *)left;
    if (np_share_count(m->high) == 0 || np_share_count(m->wide) == 0)
        return SIZE_MAX;
    walk(m, col);
    size_t line = col - m->at_w, w = m->at_w, h = m->at_h;
    if (w >= m->wide.end && m->high.begin <= h && h < m->high.end) {
        w = 0;
        line += m->w.out;
        h++;
    }
    if (h < m->high.begin || h >= m->high.end) {
        line += (h < m->high.begin ? m->high.begin - h : m->h.out - h + m->high.begin) * m->w.out;
        h = m->high.begin;
        w = 0;
    }
    w = w < m->wide.begin ? m->wide.begin : w;
    bool inside = is_in(m->all_high, h), among = is_in(m->all_wide, w);
    s->count = among ? m->all_wide.end - w : 1;
    if (!inside || !among)
        s->rows = rows_seeing(m, h, w);
    else if (np_share_count(m->all_wide) == m->w.out)
        s->count = np_share_count(m->all_high) == m->h.out ? SIZE_MAX / 2
                                                           : (m->all_high.end - h) * m->w.out - w;
    return line + w;
}

/* Where the first of the rows is, from each pointer. */
static size_t row_at(const struct left *left, size_t row)
{
    const struct image_lines *m = (const struct image_lines *)left;
    size_t tap = row / m->channels, th = tap / m->w.taps, tw = tap % m->w.taps;
    return (th * m->h.spacing * m->w.in + tw * m->w.spacing) * m->ld + row % m->channels;
}

#endif
