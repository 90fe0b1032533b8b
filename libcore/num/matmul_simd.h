/* Body of matmul_avx2.c and matmul_avx512.c.
 *
 * The usual three levels: columns of C in blocks whose B stays in the second or third cache, inner
 * panels, rows of C in blocks whose A stays in the second cache. A member of the team computes a
 * rectangle of C and packs what it needs itself, so members never wait for each other.
 */
#ifndef NP_NUM_MATMUL_SIMD_H
#define NP_NUM_MATMUL_SIMD_H

#include <string.h>

#include "num/backend.h"
#include "num/chunk.h"
#include "num/gemm.h"
#include "num/simd.h"

#if NP_VW == 16
#define MC 168
#else
#define MC 192
#endif
#define NR (2 * NP_VW)
#define DIRECT_WORK ((size_t)128 * 128 * 128) /* below it packing A costs more than it saves */
#define PACK_COST 8                           /* multiplications in the time of packing a float */

_Static_assert(MC <= NP_GEMM_MC && NR <= NP_GEMM_NR, "packed blocks fit the scratch");

struct block {
    struct np_share rows, cols;
};

/* The member's rectangle of C: the grid of members whose rectangles cost least. */
static struct block choose_block(const struct np_team *team, const struct np_matmul *mm)
{
    size_t size = (size_t)team->size, rank = (size_t)team->rank, high = 1, best = SIZE_MAX;
    for (size_t down = 1; down <= size; down++) {
        size_t across = size / down;
        size_t rows = (mm->m + down - 1) / down;
        size_t slivers = (mm->n + NR - 1) / NR, cols = (slivers + across - 1) / across * NR;
        size_t cost = rows * cols + PACK_COST * (rows + cols);
        if (size % down == 0 && cost < best) {
            best = cost;
            high = down;
        }
    }
    struct np_team down = {.rank = (int)(rank % high), .size = (int)high};
    struct np_team across = {.rank = (int)(rank / high), .size = (int)(size / high)};
    struct block b = {np_team_share(&down, mm->m, 1), np_team_share(&across, mm->n, NR)};
    return b;
}

static const float *stored_row(const struct np_matmul *mm, size_t row)
{
    size_t skip = mm->period > 0 ? row / mm->period * mm->skip : 0;
    return mm->a + row * mm->lda + skip;
}

static void pack_a(float *dst, const struct np_matmul *mm, size_t i, size_t m, size_t k0, size_t kc)
{
    const float *row[NP_KC > MC ? NP_KC : MC];
    if (mm->a_trans) {
        for (size_t p = 0; p < kc; p++)
            row[p] = stored_row(mm, k0 + p) + i;
        NP_SIMD(np_gemm_pack_a_trans)(dst, row, m, kc);
    } else {
        for (size_t r = 0; r < m; r++)
            row[r] = stored_row(mm, i + r) + k0;
        NP_SIMD(np_gemm_pack_a)(dst, row, m, kc);
    }
}

/* Adds one panel, whose B is packed in g, to the rows of the block, in steps of balanced height. */
static void add_panel(const struct np_matmul *mm, struct np_gemm g, struct np_share rows, size_t k0,
                      float *packed_a)
{
    size_t count = rows.end - rows.begin;
    size_t steps = packed_a ? (count + MC - 1) / MC : 1;
    float *c = g.c;
    for (size_t s = 0, i = rows.begin; s < steps; s++, i += g.m) {
        g.m = count / steps + (s < count % steps);
        g.c = c + i * mm->ldc;
        if (packed_a) {
            pack_a(packed_a, mm, i, g.m, k0, g.kc);
            g.a = packed_a;
        } else {
            g.a_row = mm->a_trans ? 1 : mm->lda;
            g.a_col = mm->a_trans ? mm->lda : 1;
            g.a = mm->a + i * g.a_row + k0 * g.a_col;
        }
        NP_SIMD(np_gemm_run)(&g);
    }
}

static void zero_block(const struct np_matmul *mm, struct block b)
{
    for (size_t i = b.rows.begin; i < b.rows.end; i++)
        memset(mm->c + i * mm->ldc + b.cols.begin, 0, (b.cols.end - b.cols.begin) * sizeof(float));
}

void NP_SIMD(np_matmul)(struct np_team *team, const struct np_matmul *mm)
{
    struct block block = choose_block(team, mm);
    size_t rows = block.rows.end - block.rows.begin, cols = block.cols.end - block.cols.begin;
    bool direct =
        (mm->period == 0 || mm->skip == 0) && rows * cols * mm->k < DIRECT_WORK && mm->lda > 0;
    float *packed_b = team->scratch;
    float *packed_a = direct ? NULL : packed_b + NP_GEMM_NC * NP_KC;
    if (rows == 0)
        return;
    if (mm->k == 0 && !mm->accumulate)
        zero_block(mm, block);
    for (size_t j = block.cols.begin; j < block.cols.end; j += NP_GEMM_NC) {
        size_t n = np_min(NP_GEMM_NC, block.cols.end - j), end;
        for (size_t k0 = 0; k0 < mm->k; k0 = end) {
            struct np_gemm g = {.n = n, .b = packed_b, .c = mm->c + j, .ldc = mm->ldc};
            end = np_panel_end(k0, mm->k, mm->grain, &g.step);
            g.kc = end - k0;
            g.sliver = g.kc * NR;
            g.first = k0 == 0 && !mm->accumulate;
            NP_SIMD(np_gemm_pack_b)
            (packed_b, g.sliver, mm->b + (mm->b_trans ? j * mm->ldb + k0 : k0 * mm->ldb + j),
             mm->ldb, mm->b_trans, g.kc, n);
            add_panel(mm, g, block.rows, k0, packed_a);
        }
    }
}

#endif
