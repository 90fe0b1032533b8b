/* Kernels of num/kernels.h: two tensors side by side in one. */
#ifndef NP_NUM_MERGE_SCALAR_H
#define NP_NUM_MERGE_SCALAR_H

#include "num/merge_loops.h"

static void merge(struct np_team *team, float *y, const float *a, const float *b, size_t rows,
                  size_t na, size_t nb, size_t lda, size_t ldb, bool interleave)
{
    struct np_deal deal = np_team_deal(team, rows, 1);
    for (size_t r; np_deal_item(&deal, &r);)
        merge_row(y + r * (na + nb), a + r * lda, b ? b + r * ldb : NULL, na, nb, interleave);
}

static bool split(struct np_team *team, float *a, float *b, const float *base_a,
                  const float *base_b, const float *y, size_t rows, size_t na, size_t nb,
                  size_t lda, size_t ldb, bool interleave)
{
    struct np_deal deal = np_team_deal(team, rows, 1);
    size_t second = interleave ? 1 : na;
    uint32_t bad = 0;
    for (size_t r; np_deal_item(&deal, &r);) {
        const float *in = y + r * (na + nb);
        if (a)
            bad |= split_row(a + r * lda, base_a ? base_a + r * lda : NULL, in, na, interleave);
        if (b)
            bad |= split_row(b + r * ldb, base_b ? base_b + r * ldb : NULL, in + second, nb,
                             interleave);
    }
    return !bad;
}

#endif
