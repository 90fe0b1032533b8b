/* Packing of B, a part of num/gemm_simd.h. Contracts stand in num/gemm.h. */
#ifndef NP_NUM_GEMM_PACK_H
#define NP_NUM_GEMM_PACK_H

#include "num/chunk.h"
#include "num/gemm_tile.h"
#include "num/simd.h"

/* dst[p * NR + i] = row[i][p] for i < NR. */
static void pack_columns(float *dst, const float *const row[NR], size_t kc)
{
    for (size_t i = 0; i < NR; i += 8) {
        size_t p = 0;
        for (; p + 8 <= kc; p += 8)
            v_transpose8(dst + p * NR + i, NR, row + i, p);
        for (; p < kc; p++)
            for (size_t u = 0; u < 8; u++)
                dst[p * NR + i + u] = row[i + u][p];
    }
}

static void pack_rows(float *dst, size_t sliver, const float *b, size_t ldb, size_t kc, size_t n)
{
    for (size_t p0 = 0; p0 < kc; p0 += 8) {
        size_t p1 = np_min(p0 + 8, kc);
        for (size_t j = 0; j < n; j += NR) {
            float *to = dst + j / NR * sliver + p0 * NR;
            size_t low = np_min(NP_VW, n - j), high = np_min(NR, n - j) - low;
            for (size_t p = p0; p < p1; p++, to += NR) {
                const float *from = b + p * ldb + j;
                v_store(to, v_load_n(from, low));
                v_store(to + NP_VW, v_load_n(from + low, high));
            }
        }
    }
}

void NP_SIMD(np_gemm_pack_b)(float *dst, size_t sliver, const float *b, size_t ldb, bool trans,
                             size_t kc, size_t n)
{
    if (!trans) {
        pack_rows(dst, sliver, b, ldb, kc, n);
        return;
    }
    for (size_t j = 0; j < n; j += NR, dst += sliver) {
        const float *row[NR];
        for (size_t i = 0; i < NR; i++)
            row[i] = b + np_min(j + i, n - 1) * ldb;
        pack_columns(dst, row, kc);
    }
}

#endif
