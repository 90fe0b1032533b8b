/* The matrix of what windows see, as the left operand of a product: a part of conv_simd.h.
 *
 * Row (sample, h, w) belongs to a position of the window, column (tap, channel) to a place in it;
 * rows are parts of the image. Positions that see the same taps form a zone, a rectangle of
 * positions and one of taps. Rows are numbered zone by zone, so that those worked on together leave
 * out the same columns.
 */
#ifndef NP_NUM_IMAGE_ROWS_H
#define NP_NUM_IMAGE_ROWS_H

#include "num/image_axis.h"
#include "num/product_simd.h"

struct image_rows {
    struct left base;
    const float *x; /* images of positions `ld` floats apart, `channels` of which are read */
    size_t samples, ld, channels;
    struct axis h, w;
    struct zone zone_h, zone_w;
    size_t begin; /* the zone's first row */
    const float *row[NP_GEMM_ROWS];
};

static size_t zone_rows(const struct image_rows *m)
{
    return m->samples * np_share_count(m->zone_h.positions) * np_share_count(m->zone_w.positions);
}

static size_t zone_taps(const struct image_rows *m)
{
    return np_share_count(m->zone_h.taps) * np_share_count(m->zone_w.taps);
}

static void first_zone(struct image_rows *m)
{
    m->begin = 0;
    m->zone_h = zone_at(&m->h, 0);
    m->zone_w = zone_at(&m->w, 0);
}

/* False after the last. */
static bool next_zone(struct image_rows *m)
{
    m->begin += zone_rows(m);
    if (m->zone_w.positions.end < m->w.out) {
        m->zone_w = zone_at(&m->w, m->zone_w.positions.end);
        return true;
    }
    if (m->zone_h.positions.end == m->h.out)
        return false;
    m->zone_h = zone_at(&m->h, m->zone_h.positions.end);
    m->zone_w = zone_at(&m->w, 0);
    return true;
}

static size_t rows_end(struct left *left, size_t begin, size_t end)
{
    struct image_rows *m = (struct image_rows *)left;
    if (begin < m->begin)
        first_zone(m);
    while (begin >= m->begin + zone_rows(m))
        next_zone(m);
    return np_min(end, m->begin + zone_rows(m));
}

/* A position, and how many of its line follow, itself included. */
struct place {
    size_t sample, h, w, count;
};

/* That of a row; the line is cut before row `end`. */
static struct place place_at(const struct image_rows *m, size_t row, size_t end)
{
    size_t high = np_share_count(m->zone_h.positions), wide = np_share_count(m->zone_w.positions);
    size_t number = row - m->begin, line = number / wide;
    struct place at = {.sample = line / high, .h = m->zone_h.positions.begin + line % high};
    at.w = m->zone_w.positions.begin + number % wide;
    at.count = np_min(m->zone_w.positions.end - at.w, end - row);
    return at;
}

/* That after the line of another, which ends before row `row`; no division takes its time. */
static struct place place_after(const struct image_rows *m, struct place at, size_t row, size_t end)
{
    at.w = m->zone_w.positions.begin;
    if (++at.h == m->zone_h.positions.end) {
        at.h = m->zone_h.positions.begin;
        at.sample++;
    }
    at.count = np_min(np_share_count(m->zone_w.positions), end - row);
    return at;
}

/* What the first of the zone's taps sees there. */
static const float *first_seen(const struct image_rows *m, struct place at)
{
    size_t h = at.h * m->h.stride + m->zone_h.taps.begin * m->h.spacing;
    size_t w = at.w * m->w.stride + m->zone_w.taps.begin * m->w.spacing;
    size_t line = at.sample * m->h.in + (size_t)((ptrdiff_t)h + m->h.first);
    return m->x + (line * m->w.in + (size_t)((ptrdiff_t)w + m->w.first)) * m->ld;
}

/* The next column that is not left out, how many follow it in memory, and where it is from
 * first_seen(). */
static size_t next_column(struct left *left, size_t col, struct np_stretch *s)
{
    const struct image_rows *m = (const struct image_rows *)left;
    struct np_share high = m->zone_h.taps, wide = m->zone_w.taps;
    if (high.begin >= high.end || wide.begin >= wide.end) /* also where there are no taps at all */
        return SIZE_MAX;
    size_t tap = col / m->channels, channel = col % m->channels;
    size_t th = tap / m->w.taps, tw = tap % m->w.taps;
    if (th < high.begin || tw >= wide.end) {
        th = th < high.begin ? high.begin : th + 1;
        tw = wide.begin;
        channel = 0;
    } else if (tw < wide.begin) {
        tw = wide.begin;
        channel = 0;
    }
    if (th >= high.end)
        return SIZE_MAX;
    bool dense = m->w.spacing == 1 && m->ld == m->channels;
    s->count = (dense ? wide.end - tw : 1) * m->channels - channel;
    s->at =
        ((th - high.begin) * m->h.spacing * m->w.in + (tw - wide.begin) * m->w.spacing) * m->ld +
        channel;
    return (th * m->w.taps + tw) * m->channels + channel;
}

static const float *const *find_image_rows(struct left *left, struct np_share rows,
                                           struct np_share cols)
{
    struct image_rows *m = (struct image_rows *)left;
    bool seen = zone_taps(m) > 0;
    size_t step = seen ? m->w.stride * m->ld : 0, r = rows.begin;
    const float **to = m->row;
    (void)cols;
    for (struct place at = place_at(m, r, rows.end); r < rows.end;
         at = place_after(m, at, r, rows.end)) {
        const float *first = seen ? first_seen(m, at) : m->x;
        for (size_t i = 0; i < at.count; i++)
            to[i] = first + i * step;
        to += at.count;
        r += at.count;
    }
    return m->row;
}

static void place_rows(const struct left *left, size_t *place, struct np_share rows)
{
    const struct image_rows *m = (const struct image_rows *)left;
    size_t step = m->w.step, r = rows.begin;
    for (struct place at = place_at(m, r, rows.end); r < rows.end;
         at = place_after(m, at, r, rows.end)) {
        size_t line = at.sample * m->h.places + m->h.place + at.h * m->h.step;
        size_t first = line * m->w.places + m->w.place + at.w * step;
        for (size_t i = 0; i < at.count; i++)
            place[i] = first + i * step;
        place += at.count;
        r += at.count;
    }
}

/* The first row of member `rank` of `size`, whose shares take the same time: a row takes that of
 * its taps, and what does not depend on them. */
static size_t share_begin(struct image_rows *m, size_t rank, size_t size)
{
    size_t work = 0, begin;
    first_zone(m);
    do {
        work += zone_rows(m) * (1 + zone_taps(m));
    } while (next_zone(m));
    begin = work * rank / size;
    first_zone(m);
    do {
        size_t each = 1 + zone_taps(m);
        if (begin < zone_rows(m) * each)
            return m->begin + begin / each;
        begin -= zone_rows(m) * each;
    } while (next_zone(m));
    return m->begin;
}

static struct np_share rows_share(struct image_rows *m, const struct np_team *team)
{
    size_t rank = (size_t)team->rank, size = (size_t)team->size;
    struct np_share share = {share_begin(m, rank, size), share_begin(m, rank + 1, size)};
    first_zone(m);
    return share;
}

#endif
