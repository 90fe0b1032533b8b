/* Kernels of num/kernels.h: two tensors side by side in one. */
#ifndef NP_NUM_MERGE_LOOPS_H
#define NP_NUM_MERGE_LOOPS_H

#include <string.h>

#include "num/elementary.h"
#include "num/loops.h"

static void merge(struct np_team *team, float *y, const float *a, const float *b, size_t rows,
                  size_t na, size_t nb, size_t lda, size_t ldb, bool interleave)
{
    struct np_deal deal = np_team_deal(team, rows, 1);
    for (size_t r; np_deal_item(&deal, &r);) {
        const float *left = a + r * lda, *right = b + r * ldb;
        float *out = y + r * (na + nb);
        if (!interleave) {
            memcpy(out, left, na * sizeof *out);
            memcpy(out + na, right, nb * sizeof *out);
            continue;
        }
        NP_INDEPENDENT
        for (size_t i = 0; i < na; i++) {
            out[2 * i] = left[i];
            out[2 * i + 1] = right[i];
        }
    }
}

/* One of the two parts: n columns from the first on, every step-th. base is NULL wherever based is
 * false. */
NP_INLINE uint32_t split_range(bool based, size_t step, float *out, const float *base,
                               const float *y, size_t n)
{
    uint32_t bad = 0;
    NP_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        float part = based ? base[i] + y[i * step] : y[i * step];
        out[i] = part;
        bad |= np_not_finite(part);
    }
    return bad;
}

static uint32_t split_row(float *out, const float *base, const float *y, size_t n, bool interleave)
{
    if (!out)
        return 0;
    if (interleave)
        return base ? split_range(true, 2, out, base, y, n)
                    : split_range(false, 2, out, NULL, y, n);
    return base ? split_range(true, 1, out, base, y, n) : split_range(false, 1, out, NULL, y, n);
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
        bad |=
            split_row(a ? a + r * lda : NULL, base_a ? base_a + r * lda : NULL, in, na, interleave);
        bad |= split_row(b ? b + r * ldb : NULL, base_b ? base_b + r * ldb : NULL, in + second, nb,
                         interleave);
    }
    return !bad;
}

#endif
