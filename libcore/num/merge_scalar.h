/* Scalar reference of num/kernels.h: two tensors side by side in one. */
#ifndef NP_NUM_MERGE_SCALAR_H
#define NP_NUM_MERGE_SCALAR_H

#include "num/elementary.h"
#include "num/kernels.h"

static void merge(struct np_team *team, float *y, const float *a, const float *b, size_t rows,
                  size_t na, size_t nb, size_t lda, size_t ldb, bool interleave)
{
    struct np_share share = np_team_share(team, rows, 1);
    size_t step = interleave ? 2 : 1, second = interleave ? 1 : na;
    for (size_t r = share.begin; r < share.end; r++) {
        float *out = y + r * (na + nb);
        for (size_t i = 0; i < na; i++)
            out[i * step] = a[r * lda + i];
        for (size_t i = 0; i < nb; i++)
            out[second + i * step] = b[r * ldb + i];
    }
}

/* One of the two parts: n columns from the first on, every step-th. */
static bool split_part(float *out, const float *base, const float *y, size_t n, size_t step)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        out[i] = base ? base[i] + y[i * step] : y[i * step];
        finite = finite && np_is_finite(out[i]);
    }
    return finite;
}

static bool split(struct np_team *team, float *a, float *b, const float *base_a,
                  const float *base_b, const float *y, size_t rows, size_t na, size_t nb,
                  size_t lda, size_t ldb, bool interleave)
{
    struct np_share share = np_team_share(team, rows, 1);
    size_t step = interleave ? 2 : 1, second = interleave ? 1 : na;
    bool finite = true;
    for (size_t r = share.begin; r < share.end; r++) {
        const float *in = y + r * (na + nb);
        if (a)
            finite &= split_part(a + r * lda, base_a ? base_a + r * lda : NULL, in, na, step);
        if (b)
            finite &=
                split_part(b + r * ldb, base_b ? base_b + r * ldb : NULL, in + second, nb, step);
    }
    return finite;
}

#endif
