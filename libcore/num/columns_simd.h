/* SIMD kernels of num/kernels.h: sums over rows, the transpose.
 *
 * Rows are read in the order in which they lie in memory, into one accumulator per column that
 * stays in the first-level cache; several rows at a time save loads and stores of accumulators.
 */
#ifndef NP_NUM_COLUMNS_SIMD_H
#define NP_NUM_COLUMNS_SIMD_H

#include <math.h>
#include <string.h>

#include "num/loops.h"
#include "num/simd.h"

#define COLUMN_TILE 1024

static inline size_t column_tile(size_t begin, size_t end)
{
    return end - begin < COLUMN_TILE ? end - begin : COLUMN_TILE;
}

/* Adds the sums of the chunk that begins at index begin to the running result. */
static void add_chunk(float *out, const float *chunk, size_t n, size_t begin, bool accumulate)
{
    if (begin == 0 && !accumulate) {
        memcpy(out, chunk, n * sizeof *out);
        return;
    }
    NP_INDEPENDENT
    for (size_t j = 0; j < n; j++)
        out[j] = out[j] + chunk[j];
}

/* acc += four rows of x. */
static void add_rows4(float *acc, const float *x, size_t ld, size_t n)
{
    const float *x1 = x + ld, *x2 = x1 + ld, *x3 = x2 + ld;
    NP_INDEPENDENT
    for (size_t j = 0; j < n; j++)
        acc[j] = (((acc[j] + x[j]) + x1[j]) + x2[j]) + x3[j];
}

static void colsum(struct np_team *team, float *out, const float *x, size_t rows, size_t cols,
                   size_t grain, bool accumulate)
{
    struct np_share share = np_team_share(team, cols, NP_SHARE_UNIT);
    float acc[COLUMN_TILE];
    for (size_t c = share.begin, n; c < share.end; c += n) {
        n = column_tile(c, share.end);
        for (size_t begin = 0, end; begin < rows; begin = end) {
            size_t r = begin;
            end = np_chunk_end(begin, rows, grain);
            memset(acc, 0, n * sizeof *acc);
            for (; r + 4 <= end; r += 4)
                add_rows4(acc, x + r * cols + c, cols, n);
            for (; r < end; r++)
                for (size_t j = 0; j < n; j++)
                    acc[j] = acc[j] + x[r * cols + c + j];
            add_chunk(out + c, acc, n, begin, accumulate);
        }
    }
}

/* gamma += dy * h, beta += dy over one row, and over two. */
static void norm_row(float *gamma, float *beta, const float *x, const float *dy, float mean,
                     float rstd, size_t n)
{
    NP_INDEPENDENT
    for (size_t j = 0; j < n; j++) {
        gamma[j] = fmaf(dy[j], (x[j] - mean) * rstd, gamma[j]);
        beta[j] = beta[j] + dy[j];
    }
}

static void norm_row2(float *gamma, float *beta, const float *x, const float *dy, size_t ld,
                      const float *mean, const float *rstd, size_t n)
{
    const float *x1 = x + ld, *dy1 = dy + ld;
    const float mean0 = mean[0], mean1 = mean[1], rstd0 = rstd[0], rstd1 = rstd[1];
    NP_INDEPENDENT
    for (size_t j = 0; j < n; j++) {
        float sum = fmaf(dy[j], (x[j] - mean0) * rstd0, gamma[j]);
        gamma[j] = fmaf(dy1[j], (x1[j] - mean1) * rstd1, sum);
        beta[j] = (beta[j] + dy[j]) + dy1[j];
    }
}

static void layernorm_grad_weight(struct np_team *team, float *dgamma, float *dbeta, const float *x,
                                  const float *dy, const float *mean, const float *rstd,
                                  size_t rows, size_t cols, size_t grain, bool accumulate)
{
    struct np_share share = np_team_share(team, cols, NP_SHARE_UNIT);
    float gamma[COLUMN_TILE], beta[COLUMN_TILE];
    for (size_t c = share.begin, n; c < share.end; c += n) {
        n = column_tile(c, share.end);
        for (size_t begin = 0, end; begin < rows; begin = end) {
            size_t r = begin, at = r * cols + c;
            end = np_chunk_end(begin, rows, grain);
            memset(gamma, 0, n * sizeof *gamma);
            memset(beta, 0, n * sizeof *beta);
            for (; r + 2 <= end; r += 2, at += 2 * cols)
                norm_row2(gamma, beta, x + at, dy + at, cols, mean + r, rstd + r, n);
            if (r < end)
                norm_row(gamma, beta, x + at, dy + at, mean[r], rstd[r], n);
            add_chunk(dgamma + c, gamma, n, begin, accumulate);
            add_chunk(dbeta + c, beta, n, begin, accumulate);
        }
    }
}

/* An 8 x 8 block of floats; both backends use 256-bit vectors for it. */
static void transpose8(float *y, size_t ldy, const float *x, size_t ldx)
{
    __m256 a[8], b[8];
    for (size_t i = 0; i < 8; i++)
        a[i] = _mm256_loadu_ps(x + i * ldx);
    for (size_t i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    for (size_t i = 0; i < 8; i += 4) {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    for (size_t i = 0; i < 4; i++) {
        _mm256_storeu_ps(y + i * ldy, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
        _mm256_storeu_ps(y + (i + 4) * ldy, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
    }
}

/* Tiles of 64 columns are read a whole row of the tile at a time, for the sake of the pages, and
 * written in whole cache lines. */
static void transpose(struct np_team *team, float *y, const float *x, size_t rows, size_t cols)
{
    struct np_share share = np_team_share(team, cols, NP_SHARE_UNIT);
    size_t whole = rows / 16 * 16;
    for (size_t c0 = share.begin, c1; c0 < share.end; c0 = c1) {
        c1 = share.end - c0 < 64 ? share.end : c0 + 64;
        for (size_t r = 0; r < whole; r += 16) {
            size_t c = c0;
            for (; c + 8 <= c1; c += 8) {
                transpose8(y + c * rows + r, rows, x + r * cols + c, cols);
                transpose8(y + c * rows + r + 8, rows, x + (r + 8) * cols + c, cols);
            }
            for (; c < c1; c++)
                for (size_t i = r; i < r + 16; i++)
                    y[c * rows + i] = x[i * cols + c];
        }
        for (size_t r = whole; r < rows; r++)
            for (size_t c = c0; c < c1; c++)
                y[c * rows + r] = x[r * cols + c];
    }
}

#endif
