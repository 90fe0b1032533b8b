/* The epilogue of tiles side by side whose sums are complete, a part of num/gemm_simd.h.
 *
 * They lie in a buffer in the first cache, their rows following each other, as wide as whole
 * vectors: so the elementary functions, each of which takes long and waits for itself, run over
 * many vectors in one loop. Columns that C does not have are computed with the others; what they
 * hold is not finite only if their row of A is not, and then no sum of that row is.
 */
#ifndef NP_NUM_GEMM_FINISH_H
#define NP_NUM_GEMM_FINISH_H

#include "num/activation.h"
#include "num/gemm_tile.h"
#include "num/loops.h"
#include "num/simd.h"

/* Copies part of a row, and zeros after it up to a whole vector. */
static inline void read_row(float *dst, const float *src, size_t width)
{
    size_t j = 0;
    for (; j + NP_VW <= width; j += NP_VW)
        v_store(dst + j, v_load(src + j));
    if (j < width)
        v_store(dst + j, v_load_n(src + j, width - j));
}

static inline void write_row(float *dst, const float *src, size_t width)
{
    size_t j = 0;
    for (; j + NP_VW <= width; j += NP_VW)
        v_store(dst + j, v_load(src + j));
    if (j < width)
        v_store_n(dst + j, width - j, v_load(src + j));
}

NP_INLINE void act_all(enum np_act act, float *u, size_t count)
{
    NP_INDEPENDENT
    for (size_t k = 0; k < count; k++)
        u[k] = np_act(act, u[k]);
}

NP_INLINE void act_grad_all(enum np_act act, float *u, const float *before, size_t count)
{
    NP_INDEPENDENT
    for (size_t k = 0; k < count; k++)
        u[k] = u[k] * np_act_grad(act, before[k]);
}

/* The part of an epilogue's matrix under tiles, its rows `pitch` floats apart. */
static void read_under(float *dst, size_t pitch, const float *from, size_t ld, const size_t *row,
                       size_t h, size_t width)
{
    for (size_t r = 0; r < h; r++)
        read_row(dst + r * pitch, from + row[r] * ld, width);
}

/* Rows i.. of C, h of them, columns j..: their sums, with the bias, are in u. The result is 0, or
 * NaN somewhere if an element is not finite. */
static vf finish_tiles(const struct np_finish *f, float *u, size_t i, size_t h, size_t j,
                       size_t width)
{
    const struct np_epilogue *e = f->epilogue;
    size_t pitch = (width + NP_VW - 1) / NP_VW * NP_VW, count = h * pitch, col = f->col + j;
    const size_t *row = f->row + i;
    float other[MR * FINISHED];
    vf bad = v_zero();
    if (e->before) {
        read_under(other, pitch, e->before + col, e->ld, row, h, width);
#define CALL(act) act_grad_all(act, u, other, count)
        NP_ACT_EACH(e->act, CALL);
#undef CALL
    }
    if (e->residual) {
        read_under(other, pitch, e->residual + col, e->ld, row, h, width);
        for (size_t k = 0; k < count; k += NP_VW)
            v_store(u + k, v_add(v_load(other + k), v_load(u + k)));
    }
    for (size_t k = 0; k < count; k += NP_VW)
        bad = v_or(bad, v_sub(v_load(u + k), v_load(u + k)));
    if (!e->before && e->act != NP_ACT_NONE) {
        for (size_t r = 0; e->kept && r < h; r++)
            write_row(e->kept + row[r] * e->ld + col, u + r * pitch, width);
#define CALL(act) act_all(act, u, count)
        NP_ACT_EACH(e->act, CALL);
#undef CALL
    }
    for (size_t r = 0; r < h; r++)
        write_row(f->c + row[r] * f->ldc + col, u + r * pitch, width);
    return bad;
}

#endif
