/* The epilogue of tiles side by side whose sums are complete, a part of num/gemm_simd.h.
 *
 * The elementary functions take long and wait for themselves, so they run over many vectors at a
 * time: over the sums of FINISHED columns, which wait in the first cache or where they are stored.
 */
#ifndef NP_NUM_GEMM_FINISH_H
#define NP_NUM_GEMM_FINISH_H

#include "num/activation_lanes.h"
#include "num/gemm_tile.h"

/* Where a row's elements are: those of C and of what its epilogue reads and writes. */
struct finish_row {
    const float *sums, *before, *residual; /* the last two may be NULL */
    float *kept, *c;                       /* kept may be NULL; c may be sums or residual */
    size_t width;
};

/* back: through an activation, whose input is row->before. */
NP_INLINE vf finish_as(enum np_act act, bool back, const struct finish_row *row)
{
    vf bad = v_zero();
#define STEP(at, n)                                                                                \
    do {                                                                                           \
        struct lanes u = lanes_load(row->sums + (at), n);                                          \
        if (back)                                                                                  \
            u = l_mul(u, l_act_grad(act, lanes_load(row->before + (at), n)));                      \
        if (row->residual)                                                                         \
            u = l_add(lanes_load(row->residual + (at), n), u);                                     \
        bad = lanes_bad(bad, u);                                                                   \
        if (!back && row->kept)                                                                    \
            lanes_store(row->kept + (at), n, u);                                                   \
        lanes_store(row->c + (at), n, back ? u : l_act(act, u));                                   \
    } while (0)
    LANES_BLOCKS(0, row->width, STEP);
#undef STEP
    return bad;
}

/* Columns j.. of row i of C: their sums, with the bias, are in `sums`, which may be where they are
 * stored. The result is 0, or NaN somewhere if an element is not finite. */
static vf finish_row(const struct np_finish *f, const float *sums, size_t i, size_t j, size_t width)
{
    const struct np_epilogue *e = f->epilogue;
    size_t col = f->col + j, at = f->row[i] * e->ld + col;
    struct finish_row row = {.sums = sums, .c = f->c + f->row[i] * f->ldc + col, .width = width};
    vf bad = v_zero();
    row.before = e->before ? e->before + at : NULL;
    row.residual = e->residual ? e->residual + at : NULL;
    row.kept = e->kept && e->act != NP_ACT_NONE ? e->kept + at : NULL;
#define CALL(act) bad = row.before ? finish_as(act, true, &row) : finish_as(act, false, &row)
    NP_ACT_EACH(e->act, CALL);
#undef CALL
    return bad;
}

/* How many rows from i on, of `count`, follow each other without a gap wherever they are, of C and
 * of sums `pitch` floats apart. */
static size_t joined_rows(const struct np_finish *f, size_t pitch, size_t i, size_t count,
                          size_t width)
{
    const struct np_epilogue *e = f->epilogue;
    bool alone = !e->before && !e->residual && !e->kept;
    size_t joined = 1;
    if (pitch != width || f->ldc != width || (e->ld != width && !alone))
        return 1;
    while (joined < count && f->row[i + joined] == f->row[i] + joined)
        joined++;
    return joined;
}

/* The same of `count` rows, sums `pitch` floats apart. Those that may are finished as one row: what
 * is done for a row takes as long as some vectors of it. */
static vf finish_rows(const struct np_finish *f, const float *sums, size_t pitch, size_t i,
                      size_t count, size_t j, size_t width)
{
    vf bad = v_zero();
    for (size_t joined; count > 0; count -= joined, i += joined, sums += joined * pitch) {
        joined = joined_rows(f, pitch, i, count, width);
        bad = v_or(bad, finish_row(f, sums, i, j, joined * width));
    }
    return bad;
}

#endif
