/* What every .cu file begins with: the contracts, the launch, and loops over elements and cells.
 *
 * Kernels are launched with NP_LAUNCH and declare shared arrays with NP_SHARED, so that other
 * compilers can build them for a CPU, where tests run them: their cuda_runtime.h brings its own
 * NP_KERNEL and NP_SHARED.
 * Warps are whole and take part in shuffles and barriers as wholes.
 */
#ifndef NP_CUDA_LAUNCH_CUH
#define NP_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

#include <atomic>

extern "C" {
#include "cuda/cuda_team.h"
#include "num/activation.h"
#include "num/arguments.h"
#include "num/elementary.h"
#include "num/kernels.h"
}

#include "cuda/cuda_graphs.cuh"
#include "cuda/entries.cuh"

#ifndef NP_KERNEL
#define NP_KERNEL(kernel) reinterpret_cast<const void *>(kernel)
#define NP_SHARED(type, name, size) __shared__ __align__(16) type name size
#define NP_SHARED_DYNAMIC(type, name) extern __shared__ __align__(16) type name[]
#endif

/* By a team: at once, or noted if it has graphs. */
#define NP_LAUNCH(team, kernel, grid, block, shared, ...)                                          \
    cuda_launch(team, NP_KERNEL(kernel), kernel, grid, block, shared, __VA_ARGS__)

#define NP_WARP 32
#define NP_ALL_LANES 0xffffffffu
#define NP_GRID_MOST 65535u  /* blocks along y or z */
#define NP_BLOCK 256         /* threads, where nothing asks for another number */
#define NP_BLOCKS_MOST 4096u /* of a loop over elements; each thread takes several */

#define ABSENT_BITS 0x7fa5a5a5u /* a NaN that no operation gives */

/* Stands for an operand whose product is left out of a sum. */
static inline __device__ float absent(void)
{
    return np_bits_float(ABSENT_BITS);
}

static inline const struct np_cuda_team *cuda_team(struct np_team *team)
{
    return reinterpret_cast<const struct np_cuda_team *>(team);
}

/* The team, for launches that are hardly ever made again as they are (they draw, or have a rate
 * that changes) or that are not kernels': they are made at once, after those that were noted. */
static inline struct np_cuda_team cuda_at_once(struct np_team *team)
{
    struct np_cuda_team mine = *cuda_team(team);
    if (mine.graphs)
        np_cuda_graphs_play(mine.graphs);
    mine.graphs = nullptr;
    return mine;
}

/* Lets the kernel have so much shared memory at a launch, on the thread's GPU: which the runtime is
 * told once of each, for it takes a microsecond. Threads that tell it at the same time tell it
 * twice, which does no harm. */
template <auto kernel> static inline void cuda_allow_shared(int bytes)
{
    static std::atomic<uint64_t> told; /* bits, of the first GPUs */
    int number = 0;
    cudaGetDevice(&number);
    uint64_t bit = number < 64 ? (uint64_t)1 << number : 0;
    if (told.load(std::memory_order_relaxed) & bit)
        return;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) ==
        cudaSuccess)
        told.fetch_or(bit, std::memory_order_relaxed);
}

/* a / b, rounded up */
static inline __host__ __device__ size_t cuda_parts(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static inline unsigned cuda_blocks(size_t count, unsigned most)
{
    return count < most ? (unsigned)count : most;
}

/* A verdict of no consequence is not written, so that what is finite costs nothing. */
static inline __device__ void cuda_judge(uint32_t *verdict, uint32_t bad)
{
    if (bad)
        *verdict = 1;
}

template <class Function>
static __global__ void __launch_bounds__(NP_BLOCK, 1)
    each_element(size_t count, uint32_t *verdict, Function f)
{
    size_t step = (size_t)gridDim.x * NP_BLOCK;
    uint32_t bad = 0;
    for (size_t i = (size_t)blockIdx.x * NP_BLOCK + threadIdx.x; i < count; i += step)
        bad |= f(i);
    cuda_judge(verdict, bad);
}

/* f(i) for every i below count; what it returns is 0, or the verdict is set. */
template <class Function>
static inline bool cuda_each(struct np_team *team, size_t count, const Function &f)
{
    const struct np_cuda_team *t = cuda_team(team);
    if (count == 0)
        return true;
    unsigned blocks = cuda_blocks(cuda_parts(count, NP_BLOCK), NP_BLOCKS_MOST);
    NP_LAUNCH(t, each_element<Function>, blocks, NP_BLOCK, 0, count, t->verdict, f);
    return true;
}

template <class Function>
static __global__ void __launch_bounds__(NP_BLOCK, 1)
    each_cell(size_t rows, uint32_t cols, uint32_t *verdict, Function f)
{
    size_t step = (size_t)gridDim.x * blockDim.y;
    uint32_t column = blockIdx.y * blockDim.x + threadIdx.x, bad = 0;
    for (size_t r = (size_t)blockIdx.x * blockDim.y + threadIdx.y; r < rows; r += step)
        for (uint32_t c = column; c < cols; c += gridDim.y * blockDim.x)
            bad |= f(r, c);
    cuda_judge(verdict, bad);
}

/* f(r, c) for every cell of a matrix: neighbours along a row are neighbours of a warp, and no cell
 * costs a division. */
template <class Function>
static inline bool cuda_cells(struct np_team *team, size_t rows, size_t cols, const Function &f)
{
    const struct np_cuda_team *t = cuda_team(team);
    unsigned wide = NP_BLOCK;
    if (rows == 0 || cols == 0)
        return true;
    while (wide > 8 && wide / 2 >= cols)
        wide /= 2;
    dim3 block(wide, NP_BLOCK / wide);
    dim3 grid(cuda_blocks(cuda_parts(rows, block.y), NP_BLOCKS_MOST),
              cuda_blocks(cuda_parts(cols, wide), NP_GRID_MOST));
    NP_LAUNCH(t, each_cell<Function>, grid, block, 0, rows, (uint32_t)cols, t->verdict, f);
    return true;
}

/* The lanes of a 32-lane sum, one a thread of the warp, to their total, in every lane. */
static inline __device__ float cuda_lane_total(float lane)
{
    for (int stride = NP_WARP / 2; stride > 0; stride /= 2)
        lane = lane + __shfl_down_sync(NP_ALL_LANES, lane, stride);
    return __shfl_sync(NP_ALL_LANES, lane, 0);
}

/* The largest of a warp's numbers, in every lane. */
static inline __device__ float cuda_lane_max(float x)
{
    for (int stride = NP_WARP / 2; stride > 0; stride /= 2) {
        float other = __shfl_xor_sync(NP_ALL_LANES, x, stride);
        x = other > x ? other : x;
    }
    return x;
}

/* f(row) by every lane of a warp, for every row. */
template <class Function>
static __global__ void __launch_bounds__(NP_BLOCK, 1)
    each_row(size_t rows, uint32_t *verdict, Function f)
{
    size_t warps = NP_BLOCK / NP_WARP, step = gridDim.x * warps;
    uint32_t bad = 0;
    for (size_t r = blockIdx.x * warps + threadIdx.x / NP_WARP; r < rows; r += step)
        bad |= f(r, threadIdx.x % NP_WARP);
    cuda_judge(verdict, bad);
}

/* f(row, lane) by a warp a row: its lanes are those of the contract's 32-lane sums. */
template <class Function>
static inline bool cuda_rows(struct np_team *team, size_t rows, const Function &f)
{
    const struct np_cuda_team *t = cuda_team(team);
    if (rows == 0)
        return true;
    unsigned blocks = cuda_blocks(cuda_parts(rows, NP_BLOCK / NP_WARP), 1u << 20);
    NP_LAUNCH(t, each_row<Function>, blocks, NP_BLOCK, 0, rows, t->verdict, f);
    return true;
}

#endif
