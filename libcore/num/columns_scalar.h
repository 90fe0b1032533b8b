/* Scalar reference of num/kernels.h: sums over rows, the transpose. */
#ifndef NP_NUM_COLUMNS_SCALAR_H
#define NP_NUM_COLUMNS_SCALAR_H

#include <math.h>

#include "num/loops.h"

/* The running result of a chunked sum after one more chunk, which begins at index begin. */
static float add_chunk(float sum, float chunk, size_t begin, bool accumulate)
{
    return begin == 0 && !accumulate ? chunk : sum + chunk;
}

static void layernorm_grad_weight(struct np_team *team, float *dgamma, float *dbeta, const float *x,
                                  const float *dy, const float *mean, const float *rstd,
                                  size_t rows, size_t cols, size_t grain, bool accumulate)
{
    struct np_share share = np_team_share(team, cols, NP_SHARE_UNIT);
    for (size_t c = share.begin; c < share.end; c++) {
        for (size_t begin = 0, end; begin < rows; begin = end) {
            float gamma = 0.0f, beta = 0.0f;
            end = np_chunk_end(begin, rows, grain);
            for (size_t r = begin; r < end; r++) {
                float h = (x[r * cols + c] - (mean ? mean[r] : 0.0f)) * rstd[r];
                gamma = fmaf(dy[r * cols + c], h, gamma);
                beta = beta + dy[r * cols + c];
            }
            dgamma[c] = add_chunk(dgamma[c], gamma, begin, accumulate);
            if (dbeta)
                dbeta[c] = add_chunk(dbeta[c], beta, begin, accumulate);
        }
    }
}

/* The sum of the chunk that begins at row `begin` of a segment, to where column i of all segments
 * wants it. */
static void put_chunk(float *out, float chunk, size_t i, size_t begin, size_t rows, size_t cols,
                      enum np_sum how)
{
    if (how == NP_SUM_CHUNKS)
        out[(i / cols * np_chunks(rows) + begin / NP_KC) * cols + i % cols] = chunk;
    else
        out[i] = add_chunk(out[i], chunk, begin, how == NP_SUM_ONTO);
}

/* Chunked sums over the rows of each segment: of a, of products with b, or of squares of
 * a - mean. */
static void col_chunked(struct np_team *team, float *out, const float *a, const float *b,
                        const float *mean, size_t segments, size_t rows, size_t cols, size_t grain,
                        enum np_sum how)
{
    struct np_share share = np_team_share(team, segments * cols, 1);
    for (size_t i = share.begin; i < share.end; i++) {
        size_t first = i / cols * rows * cols + i % cols;
        for (size_t begin = 0, end; begin < rows; begin = end) {
            float acc = 0.0f;
            end = np_chunk_end(begin, rows, grain);
            for (size_t r = begin; r < end; r++) {
                float x = a[first + r * cols], d = mean ? x - mean[i] : 0.0f;
                acc = mean ? fmaf(d, d, acc) : b ? fmaf(x, b[first + r * cols], acc) : acc + x;
            }
            put_chunk(out, acc, i, begin, rows, cols, how);
        }
    }
}

static void col_sum(struct np_team *team, float *out, const float *x, size_t segments, size_t rows,
                    size_t cols, size_t grain, enum np_sum how)
{
    col_chunked(team, out, x, NULL, NULL, segments, rows, cols, grain, how);
}

static void col_square(struct np_team *team, float *out, const float *x, const float *mean,
                       size_t segments, size_t rows, size_t cols, enum np_sum how)
{
    col_chunked(team, out, x, NULL, mean, segments, rows, cols, 0, how);
}

static void col_dot(struct np_team *team, float *out, const float *a, const float *b,
                    size_t segments, size_t rows, size_t cols, size_t grain)
{
    col_chunked(team, out, a, b, NULL, segments, rows, cols, grain, NP_SUM_NEW);
}

static void transpose(struct np_team *team, float *y, const float *x, size_t rows, size_t cols)
{
    struct np_share share = np_team_share(team, cols, NP_SHARE_UNIT);
    for (size_t c = share.begin; c < share.end; c++)
        for (size_t r = 0; r < rows; r++)
            y[c * rows + r] = x[r * cols + c];
}

#endif
