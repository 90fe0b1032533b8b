/* The kernel table of num/kernels.h for a GPU.
 *
 * The same arguments give the same bits as on a CPU. What differs is when and where:
 * Team    is one thread of the host that works on one stream: the np_team handed to the table is
 *         the first member of a struct np_cuda_team, rank 0 of 1 (a copy of it alone will not do).
 *         Kernels begin in the order of calls, and the calls return before they are done;
 *         np_team_wait is nothing between two of them.
 * Memory  every pointer, also inside the arguments' structs, the team's scratch and where adamw and
 *         sgd add their fingerprint, is memory of the device. The table allocates nothing.
 * Results a table function that returns bool returns true; where its contract asks for false the
 *         kernel sets *verdict to 1, to be read once for a whole task. fingerprint waits for
 *         the stream, to return what it has found.
 * Sizes   rows, columns, inner indices and distances of rows are below 2^31; tensors may be larger.
 * Errors  of a launch stay with the runtime (cudaGetLastError), for the end of the task.
 *
 * Nothing here needs a header of CUDA's.
 */
#ifndef NP_CUDA_CUDA_TEAM_H
#define NP_CUDA_CUDA_TEAM_H

#include <stddef.h>
#include <stdint.h>

#include "num/kernels.h"
#include "num/products.h"

struct CUstream_st; /* what a cudaStream_t points to */
struct np_cuda_lt;
struct np_cuda_graphs;

struct np_cuda_team {
    struct np_team team; /* scratch: NP_ALIGN-aligned */
    struct CUstream_st *stream;
    uint32_t *verdict;
    struct np_cuda_lt *lt;         /* the fast table's alone (cuda/cuda_lt.h) */
    struct np_cuda_graphs *graphs; /* note launches (cuda/cuda_graphs.cuh); NULL: made at once */
};

extern const struct np_kernels np_kernels_cuda;
/* The same, but for products, which are a library's (num/products.h). */
extern const struct np_kernels np_kernels_cuda_fast;

/* The least scratch of a team for attention of `queries` queries in all samples and heads, and for
 * gradients of embeddings of `rows` rows. With more (a few MiB), chunks of long sums are summed in
 * parallel; how much there is changes no bit. */
static inline size_t np_cuda_scratch_bytes(size_t queries, size_t rows)
{
    size_t words = queries > rows ? queries : rows;
    return (words + 64) * sizeof(uint32_t);
}

/* The least of a team whose products are the library's, `floats` of a grain's matrices: its
 * workspace, and the matrices. */
/* Tests have less, for it takes time to guard. */
#ifndef NP_CUDA_LT_WORKSPACE
#define NP_CUDA_LT_WORKSPACE ((size_t)32 << 20) /* bytes */
#endif
static inline size_t np_cuda_fast_scratch_bytes(size_t floats)
{
    return NP_CUDA_LT_WORKSPACE + floats * sizeof(float) + 4 * NP_PRODUCT_ALIGN;
}

#endif
