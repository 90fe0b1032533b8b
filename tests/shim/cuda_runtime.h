/* Stands in for the header of CUDA's runtime where libcore/cuda is compiled as C++ for the CPU: the
 * language of the kernels, and as much of the runtime as their launchers call.
 *
 * A launch runs its blocks one after the other in a loop. The threads of a block are fibers that
 * meet at __syncthreads and in the functions of their warp; nothing else switches between them.
 * From launch to launch blocks and threads take turns in ascending and descending order, so that
 * what relies on an order shows.
 *
 * Caught  threads of a block at different barriers, or some at one and others at their end; lanes
 *         of a warp that are not all in the same function of it; more shared memory than a kernel
 *         may have. Each ends the program with a message (SIGABRT).
 *         Shared memory is filled with NaN patterns when a block begins, so what is read of it
 *         before it is written, for want of a barrier or of a store, gets into results. With
 *         AddressSanitizer every shared array lies between poisoned bytes.
 * Device  memory is the host's; streams do their work at once.
 * Threads one thread of the host at a time.
 */
#ifndef NP_TEST_CUDA_RUNTIME_H
#define NP_TEST_CUDA_RUNTIME_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z)
    {
    }
};

struct alignas(16) float4 {
    float x, y, z, w;
};

/* The thread that runs. */
struct shim_place {
    dim3 thread, block, block_size, grid_size;
};
extern struct shim_place shim_place;
#define threadIdx shim_place.thread
#define blockIdx shim_place.block
#define blockDim shim_place.block_size
#define gridDim shim_place.grid_size

void shim_run(const char *name, dim3 grid, dim3 block, size_t shared, void (*call)(const void *),
              const void *body);
/* The block's next shared array in the order of declarations, for a thread that declares it. */
void *shim_shared(size_t bytes);
/* What the launch asked for beside. */
void *shim_shared_dynamic(void);
/* Waits for the block; whether any of its threads brings one. */
int shim_block(int line, int any);
/* Waits for the warp; the word that lane `from` brings. */
uint32_t shim_warp(int line, uint32_t word, unsigned from);
unsigned shim_ballot(int line, int vote);

template <class Body>
static inline void shim_launch(const char *name, dim3 grid, dim3 block, size_t shared,
                               const Body &body)
{
    void (*call)(const void *) = [](const void *b) { (*static_cast<const Body *>(b))(); };
    shim_run(name, grid, block, shared, call, &body);
}

#define NP_LAUNCH(kernel, grid, block, shared, stream, ...)                                        \
    do {                                                                                           \
        (void)(stream);                                                                            \
        shim_launch(__func__, grid, block, shared, [&] { kernel(__VA_ARGS__); });                  \
    } while (0)
#define NP_SHARED(type, name, size)                                                                \
    typedef type name##_array size;                                                                \
    name##_array &name = *static_cast<name##_array *>(shim_shared(sizeof(name##_array)))
#define NP_SHARED_DYNAMIC(type, name) type *name = static_cast<type *>(shim_shared_dynamic())

#define __syncthreads() ((void)shim_block(__LINE__, 0))
#define __syncthreads_or(any) shim_block(__LINE__, any)
#define __syncwarp() ((void)shim_warp(__LINE__, 0, 0))
#define __shfl_sync(mask, value, from) shim_shuffle(__LINE__, mask, value, from)
#define __shfl_down_sync(mask, value, by) shim_shuffle(__LINE__, mask, value, shim_lane() + (by))
#define __shfl_xor_sync(mask, value, with)                                                         \
    shim_shuffle(__LINE__, mask, value, shim_lane() ^ (unsigned)(with))
#define __any_sync(mask, vote) (shim_ballot(__LINE__, vote) != 0)

static inline unsigned shim_lane(void)
{
    return shim_place.thread.x % 32;
}

/* A lane that asks for one beyond the warp gets its own value. */
template <class Value>
static inline Value shim_shuffle(int line, unsigned mask, Value value, unsigned from)
{
    static_assert(sizeof(Value) == sizeof(uint32_t), "words are exchanged");
    uint32_t word;
    (void)mask;
    memcpy(&word, &value, sizeof word);
    word = shim_warp(line, word, from < 32 ? from : shim_lane());
    memcpy(&value, &word, sizeof word);
    return value;
}

template <class Integer> static inline Integer atomicAdd(Integer *sum, Integer value)
{
    Integer old = *sum;
    *sum = old + value;
    return old;
}

/* How many blocks products think that a GPU has room for: from launch to launch another number, so
 * that few shapes bring out all tiles. */
unsigned shim_room(void);
#define PRODUCT_BLOCKS shim_room()

typedef struct CUstream_st *cudaStream_t;
enum cudaError_t { cudaSuccess };
enum cudaMemcpyKind { cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };

template <class Kernel>
static inline cudaError_t cudaFuncSetAttribute(Kernel *, cudaFuncAttribute, int)
{
    return cudaSuccess;
}

static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                                          cudaStream_t)
{
    memcpy(to, from, bytes);
    return cudaSuccess;
}

static inline cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t)
{
    memset(to, byte, bytes);
    return cudaSuccess;
}

static inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}

#endif
