/* Packing of B and A, a part of num/gemm_simd.h. Contracts stand in num/gemm.h. */
#ifndef NP_NUM_GEMM_PACK_H
#define NP_NUM_GEMM_PACK_H

#include "num/chunk.h"
#include "num/gemm_tile.h"
#include "num/simd.h"

/* dst[p * ld + i] = row[i][p] for i < 8. */
static void pack_eight(float *dst, size_t ld, const float *const row[8], size_t kc)
{
    for (size_t p = 0, at; kc >= 8 && p < kc; p += 8) {
        at = np_min(p, kc - 8); /* the last eight may hold some of those before */
        v_transpose8(dst + at * ld, ld, row, at);
    }
    for (size_t p = 0; kc < 8 && p < kc; p++)
        for (size_t u = 0; u < 8; u++)
            dst[p * ld + u] = row[u][p];
}

/* dst[p * NR + i] = row[i][p] for i < NR. */
static void pack_columns(float *dst, const float *const row[NR], size_t kc)
{
    for (size_t i = 0; i < NR; i += 8)
        pack_eight(dst + i, NR, row + i, kc);
}

static void pack_rows(float *dst, size_t sliver, const float *b, size_t ldb, size_t kc, size_t n)
{
    for (size_t p0 = 0; p0 < kc; p0 += 8) {
        size_t p1 = np_min(p0 + 8, kc);
        for (size_t j = 0; j < n; j += NR) {
            float *to = dst + j / NR * sliver + p0 * NR;
            size_t low = np_min(NP_VW, n - j), high = np_min(NR, n - j) - low;
            for (size_t p = p0; p < p1; p++, to += NR) {
                const float *from = b + p * ldb + j;
                v_store(to, v_load_n(from, low));
                v_store(to + NP_VW, v_load_n(from + low, high));
            }
        }
    }
}

void NP_SIMD(np_gemm_pack_b)(float *dst, size_t sliver, const float *b, size_t ldb, bool trans,
                             size_t kc, size_t n)
{
    if (!trans) {
        pack_rows(dst, sliver, b, ldb, kc, n);
        return;
    }
    for (size_t j = 0; j < n; j += NR, dst += sliver) {
        const float *row[NR];
        for (size_t i = 0; i < NR; i++)
            row[i] = b + np_min(j + i, n - 1) * ldb;
        pack_columns(dst, row, kc);
    }
}

/* The rows of C that a stretch is for, which are beside each other where A is packed. */
static struct np_share rows_for(const struct np_stretch *s, size_t m)
{
    struct np_share some = {0, m};
    if (s->rows != NP_GEMM_ALL)
        for (some.end = 0; some.end < m && s->rows >> some.end != 0; some.end++)
            some.begin += s->rows << (NP_GEMM_SOME - some.end) == 0;
    return some;
}

#define LINES_AHEAD 4 /* fetched before they are packed: more of a matrix's rows meet in one set */

/* Rows of A, packed. Strip number t: floats r < height of dst[t * STRIP_SIZE + p * STRIP + ..] are
 * inner index p of the rows under one row of tiles; where a stretch is not for a row, anything.
 * Whole vectors are stored in ascending order of p: what is behind a strip's rows comes later. */
static void pack_strip(const struct np_tiles *g, float *dst, struct band band)
{
    for (size_t k = 0; k < g->stretches; k++) {
        const struct np_stretch *s = &g->stretch[k];
        const float *row[8];
        for (size_t r = 0; r < 8; r++)
            row[r] = g->a[band.row + np_min(r, band.height - 1)] + g->a_at + s->at;
        pack_eight(dst + s->from * STRIP, STRIP, row, s->count);
    }
}

/* All strips together, as they have lines of the cache in common. Behind a strip that is whole are
 * other rows, so that no load of a whole vector leaves the matrix. */
static void pack_lines(const struct np_tiles *g, float *dst, const struct band *band, size_t count)
{
    size_t low[MOST_STRIPS], rows[MOST_STRIPS];
    for (size_t k = 0; k < g->stretches; k++) {
        const struct np_stretch *s = &g->stretch[k];
        const float *const *line = g->a + s->from, *const *end = line + s->count;
        float *to = dst + s->from * STRIP;
        struct np_share some = rows_for(s, g->m);
        size_t whole = 0;
        for (size_t t = 0; t < count; t++) {
            size_t i = band[t].row, h = band[t].height;
            low[t] = some.begin > i ? np_min(some.begin - i, h) : 0;
            rows[t] = (some.end > i ? np_min(some.end - i, h) : 0) - low[t];
            low[t] += i;
            if (whole == t && low[t] == i && i + NP_VW <= some.end)
                whole++;
        }
        for (; line < end; line++, to += STRIP) {
            const float *from = *line + g->a_at;
            if (line + LINES_AHEAD < end)
                for (size_t c = 0; c < count * MR; c += LINE)
                    __builtin_prefetch(line[LINES_AHEAD] + g->a_at + band[0].row + c);
            for (size_t t = 0; t < whole; t++)
                v_store(to + t * STRIP_SIZE, v_load(from + low[t]));
            for (size_t t = whole; t < count; t++)
                v_store(to + t * STRIP_SIZE + low[t] - band[t].row,
                        v_load_n(from + low[t], rows[t]));
        }
    }
}

static void pack_a(const struct np_tiles *g, float *dst, const struct band *band, size_t count)
{
    if (g->a_trans)
        pack_lines(g, dst, band, count);
    for (size_t t = 0; !g->a_trans && t < count; t++)
        pack_strip(g, dst + t * STRIP_SIZE, band[t]);
}

static struct coming coming_a(const struct np_tiles *g, const struct band *band, size_t count,
                              size_t n)
{
    const struct np_stretch *first = g->stretch, *last = first + g->stretches - 1;
    const struct band *end = band + count - 1;
    size_t row = end->row + end->height, rows = np_min(count * MR, g->m - row);
    struct coming c = {.row = g->a, .tiles = count * ((n + NR - 1) / NR)};
    if (g->a_trans) {
        c.count = rows > 0 ? last->from + last->count : 0;
        c.at = g->a_at + row;
        c.width = rows;
    } else {
        c.row += row;
        c.count = rows;
        c.at = g->a_at + first->at;
        c.width = np_min(last->at + last->count - first->at, NP_KC);
    }
    return c;
}

#endif
