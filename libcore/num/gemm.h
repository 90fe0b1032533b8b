/* The inner part of matrix products, as the SIMD backends share it: packing of B and register
 * tiles. Private to num/; gemm_<isa>.c fills it, product_simd.h and attention_simd.h use it.
 *
 * A tile is a few rows and vectors of C. Its sum over one chunk lives in registers and is then
 * added to C, which stays in the second cache from chunk to chunk.
 * A is given by a table of pointers to its rows: one of op(A), whose elements are broadcast one
 * after the other, or, transposed, one to every inner index of op(A). It is read where it is, or,
 * by some backends where C is wide, packed for a few rows of tiles at a time.
 * Packed B is cut in slivers of two vectors of columns; in a sliver, inner index p holds as many
 * consecutive floats. Columns past n are zero or repeat others, and are never stored.
 * Grouped convolutions: columns of C are in groups, each with its own columns of A. A sliver does
 * not leave its group; or, where groups are narrow, it is one vector of several whole groups.
 */
#ifndef NP_NUM_GEMM_H
#define NP_NUM_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "num/isa.h"
#include "num/kernels.h"

enum {
    NP_GEMM_DIRECT = 64,    /* for fewer rows packing B costs more than it saves ... */
    NP_GEMM_FEW = 16,       /* ... for fewer than these however it lies there */
    NP_GEMM_COPIED = 128,   /* columns from which on B is copied where A is transposed and packed */
    NP_GEMM_ALIASES = 1024, /* rows that many floats apart meet in one set of the first cache */
    NP_GEMM_FAR = 2048, /* floats from inner index to inner index that are fetched late in place */
    NP_GEMM_ROWS = 336, /* most rows of C in one call of np_gemm_tiles ... */
    NP_GEMM_SOME = 63,  /* ... if not every stretch is for all of them */
    NP_GEMM_NC = 512,   /* most columns of B packed at once by a matrix product */
    NP_GEMM_NR = 32,    /* widest sliver of any backend */
    NP_GEMM_PAD = 16,   /* floats between rows, so that they spread over the cache */
    NP_GEMM_B = 640 << 10,                /* floats of packed B of a matrix product */
    NP_GEMM_STRIPS = NP_GEMM_ROWS * 272,  /* of packed A */
    NP_GEMM_C = NP_GEMM_ROWS * NP_GEMM_NC /* of C, where sums cannot wait in place */
};

/* Whether a backend packs A: where that was measured to pay (num/simd.h). */
#define NP_GEMM_PACKS_A (NP_VW == 8)

/* Inner indices that follow each other in memory. Those before it are left out; for rows of C that
 * it is not for, so are its own. */
struct np_stretch {
    size_t from;   /* the first, counted from the panel's */
    size_t count;  /* may be 0 */
    size_t at;     /* where it is, from the pointer of each row; not used when transposed */
    bool ends;     /* a chunk */
    uint64_t rows; /* of C that it is for, bit r: row r; NP_GEMM_ALL; used when transposed */
};

#define NP_GEMM_ALL UINT64_MAX /* else there are at most NP_GEMM_SOME rows */

/* Windows of which AVX-512 reads several lines of taps together, where C is one vector wide: all
 * rows of C, rows of a line. */
#define NP_GEMM_WINDOWS(X) X(27, 9) X(25, 5) X(9, 3)

/* The groups of a grouped convolution. */
struct np_groups {
    size_t cols, depth; /* columns of C, and of A, in each */
    size_t lanes;       /* narrow: columns of a sliver; else 0 */
    /* [depth][floats of a vector]: inner index (or row, where A is transposed) c modulo depth
     * multiplies lane l of B by number order[c][l] of the floats of A for all groups of the
     * sliver. */
    const int32_t *order;
};

/* What happens to elements whose sum is complete. */
struct np_finish {
    const struct np_epilogue *epilogue;
    float *c;          /* where row 0 of the output begins */
    size_t ldc, col;   /* its column that is column 0 here */
    const size_t *row; /* and its rows that are rows 0..m-1 here */
    bool plain; /* nothing but bias and residual are added, and rows are those of np_tiles.c */
};

/* C[m][n] += op(A)[m][..] B[..][n], or C = where first. */
struct np_tiles {
    size_t m, n;
    const float *const *a; /* [m]; transposed: [inner indices] */
    size_t a_at;           /* transposed: where row 0 is, from each pointer */
    bool a_trans;
    size_t across, pitch; /* across > 0: and row r is r / across * pitch + r % across from there */
    bool a_copied;        /* rows meet in the cache: those of a tile are copied before it begins */
    float *strips; /* not NULL: B is in place, but sliver after sliver is copied before it is used,
                    * beside all of A, packed here: NP_GEMM_STRIPS floats */
    const struct np_groups *groups; /* NULL: one */
    size_t channel; /* of inner index 0 (or row 0, where A is transposed) modulo their depth */
    const struct np_stretch *stretch;
    size_t stretches;
    const float *b;
    size_t b_step, sliver;          /* floats from one inner index, one sliver to the next; sliver
                                     * 0: B is read in place, column j at b + j */
    const float *tail;              /* packed, where the last sliver is if it is narrower */
    float *const *c;                /* [m]: rows */
    bool first;                     /* the first chunk is stored, not added */
    bool small;                     /* of an attention head */
    const struct np_finish *finish; /* NULL: there are more chunks to come, or it is for who asks */
};

/* The same for small matrices with strides and packed B; kc <= NP_KC in chunks of `step`. */
struct np_gemm {
    size_t m, n, kc, step;
    const float *a; /* a[i * a_row + p * a_col], one of them being 1 */
    size_t a_row, a_col;
    const float *b; /* packed */
    size_t sliver;  /* floats from one sliver of b to the next */
    float *c;
    size_t ldc;
    bool first; /* the first chunk is stored, not added */
};

#define NP_GEMM(isa)                                                                               \
    void np_gemm_run_##isa(const struct np_gemm *);                                                \
    /* False if an element that was finished is not finite. */                                     \
    bool np_gemm_tiles_##isa(const struct np_tiles *);                                             \
    /* op(B)[p][j] = b[p * ldb + j], or b[j * ldb + p] when trans. */                              \
    void np_gemm_pack_b_##isa(float *dst, size_t sliver, const float *b, size_t ldb, bool trans,   \
                              size_t kc, size_t n);

NP_EACH_SIMD(NP_GEMM)

#endif
