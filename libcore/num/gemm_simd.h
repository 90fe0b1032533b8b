/* Body of gemm_avx2.c and gemm_avx512.c; contracts stand in num/gemm.h.
 *
 * MR x NR is as large as the registers allow: MR * 2 sums, two vectors of B, one element of A.
 */
#ifndef NP_NUM_GEMM_SIMD_H
#define NP_NUM_GEMM_SIMD_H

#include <string.h>

#include "num/chunk.h"
#include "num/gemm.h"
#include "num/simd.h"

#if NP_VW == 16
#define MR 14
#define HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#else
#define MR 6
#define HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif
#define NR (2 * NP_VW)
#define STEPS 8 /* inner indices per prefetched row of C */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* One tile of C: where its operands begin. */
struct tile {
    const float *a, *b;
    size_t a_row, a_col;
    float *c;
    size_t ldc;
};

/* The heights of m rows: `extra` tiles of `low` + 1 rows, then tiles of `low`. */
struct heights {
    size_t low, extra;
};

static struct heights balance(size_t m)
{
    size_t tiles = (m + MR - 1) / MR;
    struct heights t = {m / tiles, m % tiles};
    return t;
}

static inline __attribute__((always_inline)) void inner(vf acc[MR][2], size_t h, const float *a,
                                                        size_t a_row, const float *b)
{
    vf b0 = v_load(b), b1 = v_load(b + NP_VW);
    UNROLL
    for (size_t i = 0; i < h; i++) {
        vf x = v_set1(a[i * a_row]);
        acc[i][0] = v_fma(x, b0, acc[i][0]);
        acc[i][1] = v_fma(x, b1, acc[i][1]);
    }
}

static inline __attribute__((always_inline)) void finish(vf acc[MR][2], size_t h, float *c,
                                                         size_t ldc, bool first)
{
    UNROLL
    for (size_t i = 0; i < h; i++, c += ldc) {
        if (!first) {
            acc[i][0] = v_add(v_load(c), acc[i][0]);
            acc[i][1] = v_add(v_load(c + NP_VW), acc[i][1]);
        }
        v_store(c, acc[i][0]);
        v_store(c + NP_VW, acc[i][1]);
    }
}

/* h, and a_row for packed A, are constants wherever this is inlined. */
static inline __attribute__((always_inline)) void
tile_sum(size_t h, const struct np_gemm *g, struct tile t, size_t a_row, size_t a_col)
{
    bool first = g->first;
    const float *a = t.a, *b = t.b;
    for (size_t left = g->kc, step; left > 0; left -= step) {
        vf acc[MR][2];
        UNROLL
        for (size_t i = 0; i < h; i++)
            acc[i][0] = acc[i][1] = v_zero();
        step = np_min(left, g->step);
        size_t p = 0;
        /* Rows of C are fetched one by one while the sum runs: all at once would stall it. */
        const float *ahead = t.c, *last = t.c + (h - 1) * t.ldc;
        for (; p + STEPS <= step; p += STEPS) {
            __builtin_prefetch(ahead, 1);
            __builtin_prefetch(ahead + NR - 1, 1);
            ahead = ahead < last ? ahead + t.ldc : last;
            UNROLL
            for (size_t u = 0; u < STEPS; u++, a += a_col, b += NR)
                inner(acc, h, a, a_row, b);
        }
        for (; p < step; p++, a += a_col, b += NR)
            inner(acc, h, a, a_row, b);
        finish(acc, h, t.c, t.ldc, first);
        first = false;
    }
}

#define TILE(h)                                                                                    \
    static void packed_##h(const struct np_gemm *g, struct tile t)                                 \
    {                                                                                              \
        tile_sum(h, g, t, 1, h);                                                                   \
    }                                                                                              \
    static void direct_##h(const struct np_gemm *g, struct tile t)                                 \
    {                                                                                              \
        tile_sum(h, g, t, t.a_row, t.a_col);                                                       \
    }
HEIGHTS(TILE)

typedef void tile_function(const struct np_gemm *, struct tile);
#define PACKED(h) packed_##h,
#define DIRECT(h) direct_##h,
static tile_function *const tile_functions[2][MR + 1] = {{NULL, HEIGHTS(PACKED)},
                                                         {NULL, HEIGHTS(DIRECT)}};

/* A tile narrower than NR is summed in a buffer of its own. */
static void narrow_tile(tile_function *run, const struct np_gemm *g, struct tile t, size_t h,
                        size_t width)
{
    _Alignas(64) float buffer[MR * NR] = {0};
    float *c = t.c;
    size_t ldc = t.ldc;
    if (!g->first)
        for (size_t i = 0; i < h; i++)
            memcpy(buffer + i * NR, c + i * ldc, width * sizeof(float));
    t.c = buffer;
    t.ldc = NR;
    run(g, t);
    for (size_t i = 0; i < h; i++)
        memcpy(c + i * ldc, buffer + i * NR, width * sizeof(float));
}

void NP_SIMD(np_gemm_run)(const struct np_gemm *g)
{
    struct heights heights = balance(g->m);
    bool direct = g->a_row > 0;
    for (size_t j = 0; j < g->n; j += NR) {
        size_t width = np_min(NR, g->n - j), number = 0, h;
        struct tile t = {g->a, g->b + j / NR * g->sliver, g->a_row, g->a_col, g->c + j, g->ldc};
        for (size_t i = 0; i < g->m; i += h) {
            h = heights.low + (number++ < heights.extra);
            tile_function *run = tile_functions[direct][h];
            if (width == NR)
                run(g, t);
            else
                narrow_tile(run, g, t, h, width);
            t.a += direct ? h * g->a_row : h * g->kc + NP_GEMM_PAD;
            t.c += h * g->ldc;
        }
    }
}

/* r[u][v] -> r[v][u] */
static inline void transpose8(__m256 r[8])
{
    __m256 t[8], s[8];
    for (size_t u = 0; u < 8; u += 2) {
        t[u] = _mm256_unpacklo_ps(r[u], r[u + 1]);
        t[u + 1] = _mm256_unpackhi_ps(r[u], r[u + 1]);
    }
    for (size_t u = 0; u < 8; u += 4) {
        s[u] = _mm256_shuffle_ps(t[u], t[u + 2], 0x44);
        s[u + 1] = _mm256_shuffle_ps(t[u], t[u + 2], 0xee);
        s[u + 2] = _mm256_shuffle_ps(t[u + 1], t[u + 3], 0x44);
        s[u + 3] = _mm256_shuffle_ps(t[u + 1], t[u + 3], 0xee);
    }
    for (size_t u = 0; u < 4; u++) {
        r[u] = _mm256_permute2f128_ps(s[u], s[u + 4], 0x20);
        r[u + 4] = _mm256_permute2f128_ps(s[u], s[u + 4], 0x31);
    }
}

/* dst[p * stride + i] = row[i][p] for i < stride. Rows come in strips of eight; the last strip
 * overlaps the one before it, or, when stride < 8, spills into what is written next. */
static void pack_transposed(float *dst, size_t stride, const float *const *row, size_t kc)
{
    for (size_t strip = 0; strip < stride; strip += 8) {
        size_t base = stride < 8 ? 0 : np_min(strip, stride - 8), p = 0;
        const float *from[8];
        for (size_t i = 0; i < 8; i++)
            from[i] = row[np_min(base + i, stride - 1)];
        for (; p + 8 <= kc; p += 8) {
            __m256 r[8];
            for (size_t i = 0; i < 8; i++)
                r[i] = _mm256_loadu_ps(from[i] + p);
            transpose8(r);
            for (size_t u = 0; u < 8; u++)
                _mm256_storeu_ps(dst + (p + u) * stride + base, r[u]);
        }
        for (; p < kc; p++)
            for (size_t i = 0; i < np_min(8, stride); i++)
                dst[p * stride + base + i] = from[i][p];
    }
}

void NP_SIMD(np_gemm_pack_a)(float *dst, const float *const *row, size_t m, size_t kc)
{
    struct heights heights = balance(m);
    for (size_t i = 0, number = 0, h; i < m; i += h, number++) {
        h = heights.low + (number < heights.extra);
        pack_transposed(dst, h, row + i, kc);
        dst += h * kc + NP_GEMM_PAD;
    }
}

void NP_SIMD(np_gemm_pack_a_trans)(float *dst, const float *const *line, size_t m, size_t kc)
{
    struct heights heights = balance(m);
    for (size_t p0 = 0; p0 < kc; p0 += 8) {
        size_t p1 = np_min(p0 + 8, kc);
        float *tile = dst;
        for (size_t i = 0, number = 0, h; i < m; i += h, number++) {
            h = heights.low + (number < heights.extra);
            for (size_t p = p0; p < p1; p++)
                v_store(tile + p * h, v_load_n(line[p] + i, h));
            tile += h * kc + NP_GEMM_PAD;
        }
    }
}

static void pack_b_rows(float *dst, size_t sliver, const float *b, size_t ldb, size_t kc, size_t n)
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
        pack_b_rows(dst, sliver, b, ldb, kc, n);
        return;
    }
    for (size_t j = 0; j < n; j += NR, dst += sliver) {
        const float *row[NR];
        for (size_t i = 0; i < NR; i++)
            row[i] = b + np_min(j + i, n - 1) * ldb;
        pack_transposed(dst, NR, row, kc);
    }
}

#endif
