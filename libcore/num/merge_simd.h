/* Kernels of num/kernels.h: two tensors side by side in one. Rows that are whole cache lines are
 * worked on in vectors, and go past the caches where they are many and not read next; the compiler
 * does as well with others that are not just copied.
 */
#ifndef NP_NUM_MERGE_SIMD_H
#define NP_NUM_MERGE_SIMD_H

#include "num/merge_loops.h"
#include "num/simd_loops.h"

/* Whether p begins with a cache line, and `first` and `second` floats are whole ones. */
static bool is_in_lines(const float *p, size_t first, size_t second)
{
    return first % 16 == 0 && second % 16 == 0 && v_is_aligned(p);
}

/* Where a row does not end with a vector, the last one holds some floats of that before it too. */
NP_INLINE void copy_row(float *y, const float *x, size_t n, bool far)
{
    size_t i = 0;
    for (; i + NP_VW <= n; i += NP_VW)
        v_write(y + i, v_load(x + i), far);
    if (i < n && n > NP_VW)
        v_store(y + n - NP_VW, v_load(x + n - NP_VW));
    else if (i < n)
        v_store_n(y, n, v_load_n(x, n));
}

NP_INLINE void clear_row(float *y, size_t n, bool far)
{
    size_t i = 0;
    for (; i + NP_VW <= n; i += NP_VW)
        v_write(y + i, v_zero(), far);
    if (i < n)
        v_store_n(y + i, n - i, v_zero());
}

/* As merge_row; lines: rows are whole ones. */
NP_INLINE void merge_to(float *y, const float *a, const float *b, size_t na, size_t nb,
                        bool interleave, bool lines, bool far)
{
    if (!interleave) {
        copy_row(y, a, na, far);
        if (b)
            copy_row(y + na, b, nb, far);
        else
            clear_row(y + na, nb, far);
        return;
    }
    if (!lines) {
        merge_row(y, a, b, na, nb, true);
        return;
    }
    for (size_t i = 0; i < na; i += NP_VW) {
        vf left = v_load(a + i), right = v_load(b + i);
        v_write(y + 2 * i, v_zip_low(left, right), far);
        v_write(y + 2 * i + NP_VW, v_zip_high(left, right), far);
    }
}

static void merge(struct np_team *team, float *y, const float *a, const float *b, size_t rows,
                  size_t na, size_t nb, size_t lda, size_t ldb, bool interleave)
{
    struct np_deal deal = np_team_deal(team, rows, 1);
    bool lines = is_in_lines(y, na, nb), far = lines && rows * (na + nb) >= V_FAR;
    for (size_t r; np_deal_item(&deal, &r);) {
        const float *left = a + r * lda, *right = b ? b + r * ldb : NULL;
        float *row = y + r * (na + nb);
        if (far)
            merge_to(row, left, right, na, nb, interleave, true, true);
        else
            merge_to(row, left, right, na, nb, interleave, lines, false);
    }
    if (far)
        v_streamed();
}

/* Which of a row's floats belong to a part: n that follow each other, or every other of 2n. */
enum taken { FOLLOWING, EVEN, ODD };

/* base is NULL wherever based is false. */
NP_INLINE vf split_vectors(enum taken taken, bool based, bool far, float *to, const float *base,
                           const float *y, size_t n, vf bad)
{
    for (size_t i = 0; i < n; i += NP_VW) {
        vf x = v_load(taken == FOLLOWING ? y + i : y + 2 * i);
        if (taken == EVEN)
            x = v_even(x, v_load(y + 2 * i + NP_VW));
        else if (taken == ODD)
            x = v_odd(x, v_load(y + 2 * i + NP_VW));
        x = based ? v_add(v_load(base + i), x) : x;
        bad = v_not_finite(bad, x);
        v_write(to + i, x, far);
    }
    return bad;
}

/* What becomes of one of the two parts. */
struct part {
    float *to;
    const float *base;
    size_t n, ld;
    bool lines, far, bad;
};

static struct part part_of(float *to, const float *base, size_t n, size_t ld, bool far)
{
    bool lines = to && is_in_lines(to, n, ld);
    return (struct part){to, base, n, ld, lines, lines && far, false};
}

NP_INLINE vf split_lines(enum taken taken, const struct part *p, const float *y, size_t r, vf bad)
{
    float *to = p->to + r * p->ld;
    const float *base = p->base ? p->base + r * p->ld : NULL;
    if (p->far)
        return base ? split_vectors(taken, true, true, to, base, y, p->n, bad)
                    : split_vectors(taken, false, true, to, NULL, y, p->n, bad);
    return base ? split_vectors(taken, true, false, to, base, y, p->n, bad)
                : split_vectors(taken, false, false, to, NULL, y, p->n, bad);
}

/* Row r, whose part's floats begin at y. */
NP_INLINE vf split_part(enum taken taken, struct part *p, const float *y, size_t r, vf bad)
{
    size_t at = r * p->ld;
    if (p->lines)
        return split_lines(taken, p, taken == ODD ? y - 1 : y, r, bad);
    if (p->to && split_row(p->to + at, p->base ? p->base + at : NULL, y, p->n, taken != FOLLOWING))
        p->bad = true;
    return bad;
}

static bool split(struct np_team *team, float *a, float *b, const float *base_a,
                  const float *base_b, const float *y, size_t rows, size_t na, size_t nb,
                  size_t lda, size_t ldb, bool interleave)
{
    struct np_deal deal = np_team_deal(team, rows, 1);
    bool far = rows * (na + nb) >= V_FAR;
    struct part left = part_of(a, base_a, na, lda, far);
    struct part right = part_of(b, base_b, nb, ldb, false); /* what made b reads that next */
    vf bad = v_zero();
    for (size_t r; np_deal_item(&deal, &r);) {
        const float *row = y + r * (na + nb);
        bad = interleave ? split_part(EVEN, &left, row, r, bad)
                         : split_part(FOLLOWING, &left, row, r, bad);
        bad = interleave ? split_part(ODD, &right, row + 1, r, bad)
                         : split_part(FOLLOWING, &right, row + na, r, bad);
    }
    if (left.far)
        v_streamed();
    return !v_any(bad) && !left.bad && !right.bad;
}

#endif
