/* Body of matmul_<isa>.c.
 *
 * A member of the team computes a rectangle of C and packs what it needs itself, so members do not
 * wait for each other, unless they share chunks. The gradient of weights (A transposed, many inner
 * indices, few rows of C) reads A in place, and B unless its rows meet in the cache, where A is not
 * packed: packing them takes longer than it saves. Where wide products pack A, it reads B in place
 * only if that is narrower than packed slivers; of a wider one slivers are copied one by one, into
 * the first cache, and used at once: few rows of C would not pay for a panel's way through memory.
 * Where it does not pack A, but inner indices are so far apart that nothing fetches the next ones
 * ahead, what a block of rows reads of them is first copied beside each other.
 */
#ifndef NP_NUM_MATMUL_SIMD_H
#define NP_NUM_MATMUL_SIMD_H

#include "num/backend.h"
#include "num/grid.h"
#include "num/product_chunks.h"
#include "num/product_simd.h"

struct matmul_left {
    struct left base;
    const float *a;
    size_t lda;
    bool trans;
    float *copy;  /* of a block of rows, transposed, NP_GEMM_C floats; NULL: none */
    size_t first; /* row of it */
    const float *row[NP_GEMM_ROWS];
};

static size_t any_end(struct left *left, size_t begin, size_t end)
{
    (void)left;
    (void)begin;
    return end;
}

#define COPY_STEP (NP_GEMM_ROWS + NP_GEMM_PAD)

_Static_assert(NP_KC *COPY_STEP <= NP_GEMM_C, "a panel's part of a block fits");

static const float *const *copy_lines(struct matmul_left *a, struct np_share rows,
                                      struct np_share inner)
{
    float *to = a->copy;
    a->first = rows.begin;
    for (size_t r = 0; r < np_share_count(inner); r++, to += COPY_STEP) {
        memcpy(to, a->a + (inner.begin + r) * a->lda + rows.begin,
               np_share_count(rows) * sizeof *to);
        a->row[r] = to;
    }
    return a->row;
}

static const float *const *find_rows(struct left *left, struct np_share rows, struct np_share inner)
{
    struct matmul_left *a = (struct matmul_left *)left;
    struct np_share down = a->trans ? inner : rows;
    if (a->copy)
        return copy_lines(a, rows, inner);
    for (size_t r = 0; r < np_share_count(down); r++)
        a->row[r] = a->a + (down.begin + r) * a->lda;
    return a->row;
}

static size_t next_inner(struct left *left, size_t index, struct np_stretch *s)
{
    (void)left;
    s->count = SIZE_MAX - index;
    s->at = index;
    return index;
}

static size_t row_at(const struct left *left, size_t row)
{
    return row - ((const struct matmul_left *)left)->first;
}

struct matmul_right {
    struct right base;
    const struct np_matmul *mm;
};

static void pack_b(const struct right *right, float *dst, size_t sliver, struct np_share inner,
                   struct np_share cols)
{
    const struct np_matmul *mm = ((const struct matmul_right *)right)->mm;
    size_t row = mm->b_trans ? cols.begin : inner.begin;
    size_t col = mm->b_trans ? inner.begin : cols.begin;
    NP_SIMD(np_gemm_pack_b)
    (dst, sliver, mm->b + row * mm->ldb + col, mm->ldb, mm->b_trans, np_share_count(inner),
     np_share_count(cols));
}

/* Whether packing B would take longer than it saves, for so many rows of C. */
static bool is_b_in_place(const struct np_matmul *mm, size_t rows)
{
    if (mm->b_trans || is_in_place(rows, mm->n, mm->ldb, mm->a_trans))
        return !mm->b_trans;
    if (!NP_GEMM_PACKS_A)
        return mm->a_trans && mm->ldb % NP_GEMM_ALIASES != 0;
    return mm->a_trans && mm->ldb == mm->n && mm->n <= DENSE;
}

/* Whether A, transposed, is copied for so many columns of C; few have no time to fetch ahead. */
static bool is_a_copied(const struct np_matmul *mm, size_t cols)
{
    size_t far = cols < NP_GEMM_COPIED ? NP_GEMM_FAR / 2 : NP_GEMM_FAR;
    return NP_VW == 16 && mm->a_trans && mm->lda >= far && is_bare(&mm->epilogue);
}

/* Whether it is packed sliver by sliver, beside all of packed A. */
static bool is_b_copied(const struct np_matmul *mm, size_t cols)
{
    size_t rest = cols % NR;
    return NP_GEMM_PACKS_A && mm->a_trans && !mm->b_trans && cols >= NP_GEMM_COPIED &&
           (rest == 0 || rest > NP_VW);
}

bool NP_SIMD(np_matmul)(struct np_team *team, const struct np_matmul *mm)
{
    bool chunks = mm->a_trans && is_bare(&mm->epilogue) &&
                  pays_by_chunks(team, mm->m, mm->n, mm->k, mm->grain);
    struct np_grid grid = {{0, mm->m}, {0, mm->n}, {0}};
    float *scratch = team->scratch;
    struct matmul_left a = {.base = {any_end, find_rows, next_inner, row_at, 0, 0}, .a = mm->a};
    struct matmul_right b = {{.pack = pack_b}, mm};
    if (!chunks)
        grid = np_grid_share(team, mm->m, mm->n, NR);
    struct product p = {.rows = grid.rows, .cols = grid.cols};
    a.lda = mm->lda;
    a.trans = mm->a_trans;
    p.inner.end = mm->k;
    p.grain = mm->grain;
    p.a_trans = mm->a_trans;
    p.accumulate = mm->accumulate;
    p.a = &a.base;
    p.b = &b.base;
    p.c = mm->c;
    p.ldc = mm->ldc;
    p.epilogue = mm->epilogue;
    p.packed = scratch;
    p.sums = scratch + NP_GEMM_B;
    if (mm->k == 0 && mm->accumulate)
        return np_matmul_scalar(team, mm);
    b.base.copied = is_b_copied(mm, np_share_count(p.cols));
    p.a_copied = !mm->a_trans && mm->lda % NP_GEMM_ALIASES == 0;
    if (!chunks && is_a_copied(mm, np_share_count(p.cols)))
        a.copy = p.sums;
    if (b.base.copied || is_b_in_place(mm, np_share_count(p.rows))) {
        b.base.direct = mm->b;
        b.base.ld = mm->ldb;
    }
    if (!chunks && grid.down.size == team->size)
        deal_rows(&p, team, mm->m);
    return chunks ? run_by_chunks(team, &p) : run_product(&p);
}

#endif
