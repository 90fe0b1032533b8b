/* The inner part of a matrix product, as the SIMD backends share it: packing and register tiles.
 * Private to num/; gemm_<isa>.c fills it, matmul_<isa>.c and attention_<isa>.c are built from it.
 *
 * A tile is at most np_gemm_mr x np_gemm_nr elements of C. Its sum over one chunk lives in
 * registers and is then added to C, which stays in the first cache from chunk to chunk.
 * Packed B is cut in slivers of np_gemm_nr columns; in a sliver, inner index p holds np_gemm_nr
 * consecutive floats. Columns past n repeat others or are zero, and are never stored.
 * Packed A is cut in tiles of balanced heights; in a tile of height h, inner index p holds h
 * floats.
 */
#ifndef NP_NUM_GEMM_H
#define NP_NUM_GEMM_H

#include <stdbool.h>
#include <stddef.h>

enum {
    NP_GEMM_MC = 192,  /* most rows of A packed at once */
    NP_GEMM_NC = 1024, /* most columns of B packed at once by a matrix product */
    NP_GEMM_NR = 32,   /* widest sliver of any backend */
    NP_GEMM_PAD = 16   /* floats after a packed tile, where packing may spill */
};

/* C[m][n] += A[m][kc] B[kc][n], or C = when first; kc <= NP_KC in chunks of `step`. */
struct np_gemm {
    size_t m, n, kc, step;
    const float *a; /* packed when a_row is 0, else a[i * a_row + p * a_col] */
    size_t a_row, a_col;
    const float *b; /* packed */
    size_t sliver;  /* floats from one sliver of b to the next */
    float *c;
    size_t ldc;
    bool first; /* the first chunk is stored, not added */
};

#define NP_GEMM(isa)                                                                               \
    void np_gemm_run_##isa(const struct np_gemm *);                                                \
    /* Rows of op(A) begin at row[0..m-1]; its inner indices 0..kc-1 follow each other. */         \
    void np_gemm_pack_a_##isa(float *dst, const float *const *row, size_t m, size_t kc);           \
    /* Inner indices of op(A) begin at line[0..kc-1]; its rows 0..m-1 follow each other. */        \
    void np_gemm_pack_a_trans_##isa(float *dst, const float *const *line, size_t m, size_t kc);    \
    /* op(B)[p][j] = b[p * ldb + j], or b[j * ldb + p] when trans. */                              \
    void np_gemm_pack_b_##isa(float *dst, size_t sliver, const float *b, size_t ldb, bool trans,   \
                              size_t kc, size_t n);

#if defined(__x86_64__)
NP_GEMM(avx2)
NP_GEMM(avx512)
#endif

#endif
