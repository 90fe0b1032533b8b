/* Products that a team shares by chunks (num/chunk_sums.h): gradients of weights whose C is small.
 * Halves of C would make narrow tiles, and every member would read, or pack, all of an operand.
 * A part of matmul_simd.h and conv_simd.h.
 */
#ifndef NP_NUM_PRODUCT_CHUNKS_H
#define NP_NUM_PRODUCT_CHUNKS_H

#include "num/chunk_sums.h"
#include "num/product_simd.h"

#define SHORT 64         /* inner indices of a chunk that do not pay for a product of their own */
#define SMALL (16 << 10) /* elements of C, of which halves would be too narrow */

static void product_of_chunk(void *context, float *sums, struct np_share inner,
                             struct np_share cols)
{
    struct product p = *(const struct product *)context;
    (void)cols;
    p.inner = inner;
    p.accumulate = false;
    p.c = sums;
    p.ldc = np_share_count(p.cols);
    run_product(&p);
}

/* Whether there are enough chunks for everybody, long enough, and their sums stay in the cache. */
static bool pays_by_chunks(const struct np_team *team, size_t m, size_t n, size_t k, size_t grain)
{
    return team->size > 1 && m * n <= SMALL && np_chunk_end(0, k, grain) >= SHORT &&
           np_chunk_count(k, grain) >= 2 * (size_t)team->size;
}

/* The team's product, which has no epilogue, of all rows and columns of C. */
static bool run_by_chunks(struct np_team *team, const struct product *p)
{
    size_t n = np_share_count(p->cols);
    struct product whole = *p;
    struct np_chunk_sums s = {.team = team, .out = p->c, .ld = p->ldc, .cols = p->cols};
    s.lines = np_share_count(p->rows);
    s.width = n;
    s.count = np_share_count(p->inner);
    s.grain = p->grain;
    s.accumulate = p->accumulate;
    s.at = NP_GEMM_B;
    s.room = NP_GEMM_C;
    s.sum = product_of_chunk;
    s.context = &whole;
    return np_sums_run(&s);
}

#endif
