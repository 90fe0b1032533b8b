/* Sums of windows of pools, line by line (num/dw_lines_simd.h). Private to num/. */
#ifndef NP_NUM_POOL_SUMS_SIMD_H
#define NP_NUM_POOL_SUMS_SIMD_H

#include "num/dw_lines_simd.h"
#include "num/pool_axes.h"

struct pool_sums {
    const struct pool *pool;
    dw_line_run *(*runner)(const struct dw_line *);
    struct dw_row row;   /* its ld, cols, ld_out, ld_residual and ahead */
    const float *counts; /* of row.count where so many taps down see the image, or NULL */
    const float *chosen; /* of the image, or NULL, ... */
    const float *number; /* ... and the bits of the numbers of taps, of each a vector */
    bool afar;           /* inputs are in memory: not made just before */
};

/* What the output after o wants. */
static void pool_look_ahead(struct pool_sums *s, const float *x, const struct dw_line *line,
                            size_t o)
{
    const struct axis *high = &s->pool->h, *wide = &s->pool->w;
    const size_t passes = dw_passes(s->row.cols, line), width = wide->places * s->row.ld_out;
    const size_t seen = o * high->stride + (high->taps - 1) * high->spacing + 1;
    const ptrdiff_t at = ((ptrdiff_t)seen + high->first) * (ptrdiff_t)wide->in;
    const size_t fresh = s->afar ? high->stride * wide->in : 0;
    const float *in = x + at * (ptrdiff_t)s->row.ld;
    const float *out = s->row.out + high->step * width;
    s->row.ahead[0] = ahead_of(in, in + fresh * s->row.ld, passes);
    s->row.ahead[1] = ahead_of(out, out + width, passes);
    if (s->chosen) {
        const float *chosen = s->chosen + at * (ptrdiff_t)s->row.cols;
        s->row.ahead[2] = ahead_of(chosen, chosen + fresh * s->row.cols, passes);
    }
}

/* Those that go to lines `lines` of an image, added to what residual holds, if it is not NULL. */
static vf pool_add(struct pool_sums *s, const float *x, float *out, const float *residual,
                   struct np_share lines, vf bad)
{
    const struct axis *high = &s->pool->h, *wide = &s->pool->w;
    struct dw_row *row = &s->row;
    size_t period = 1;
    for (size_t r = 0; r < period && r < wide->out; r++) {
        struct dw_line line = dw_line_along(wide, r, &period);
        dw_line_run *run = s->runner(&line);
        for (size_t o = 0; o < high->out; o++) {
            size_t at = high->place + o * high->step;
            if (at < lines.begin || at >= lines.end)
                continue;
            struct np_share seen = seen_taps(high, o);
            row->pair_count = 0;
            for (size_t t = seen.begin; t < seen.end; t++) {
                ptrdiff_t from = (ptrdiff_t)(o * high->stride + t * high->spacing) + high->first;
                size_t in = (size_t)from * wide->in;
                struct dw_pair *pair = &row->pairs[row->pair_count++];
                pair->in = x + in * row->ld;
                if (s->chosen) {
                    pair->w = s->number + t * wide->taps * NP_VW;
                    pair->chosen = s->chosen + in * row->cols;
                }
            }
            row->count = s->counts ? s->counts + np_share_count(seen) * wide->out : NULL;
            row->out = out + at * wide->places * row->ld_out;
            if (row->ahead && r == 0 && wide->place == 0) /* others are of the same rows */
                pool_look_ahead(s, x, &line, o);
            if (residual)
                row->residual = residual + at * wide->places * row->ld_residual;
            bad = run(row, &line, 0, line.count, bad);
        }
    }
    return bad;
}

#endif
