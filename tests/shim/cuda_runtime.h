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
 *         may have, or has been allowed (cudaFuncSetAttribute). Each ends the program with a
 *         message (SIGABRT).
 *         Shared memory is filled with NaN patterns when a block begins, so what is read of it
 *         before it is written, for want of a barrier or of a store, gets into results.
 *         Two accesses to memory that nothing orders, in whatever order they are done, and one that
 *         is out of bounds: of streams (races.h), and of threads in their block's shared memory
 *         (shared.h).
 * Graph   kernels, each after the one before it.
 * Stream  a queue. Whoever waits for one has work done, of all queues, in an order drawn from
 *         SHIM_SEED that nothing but queues, events and synchronisation constrains; some is done as
 *         soon as it is queued. Work for the null stream is done at once, whatever else is queued,
 *         and may use the host's memory.
 * Memory  of the device is filled with NaN patterns when it is taken and when it is given back, and
 *         nobody has access to it but the work while it is done: whoever else tries is killed
 *         (SIGSEGV). A kernel has access to its own device's, and to that of peers whose pool its
 *         device has been given access to; copies between two devices say so. Pinned memory begins
 *         with the same patterns. A block of a pool is written by the stream that takes it, and
 *         again by the one that gives it back, when its turn comes.
 * Threads any, if they have chosen their device; work is done for one at a time.
 * Tests   choose by the environment:
 *         SHIM_SEED     of the order of work
 *         SHIM_DEVICES  how many there are (1); none, or no driver: 'driver'
 *         SHIM_PEERS    0: none can reach the memory of another (1)
 *         SHIM_ARCH     compute capability, as 75 (80)
 *         SHIM_MODEL    the name of every device (shim); with %d, its number
 *         SHIM_MEMORY   bytes of each device (1 GiB)
 *         SHIM_GRID     blocks that a grid may have along y and z (65535)
 *         SHIM_FAIL     CALL:N: the Nth call of a function fails, and with it all that come after,
 *                       unless it was for memory or to make a graph; 'launch' is a kernel's,
 *                       outside of graphs
 *         SHIM_SKIP     CALL: of cudaStreamSynchronize, cudaEventSynchronize or
 *                       cudaStreamWaitEvent: does nothing; of cudaEventQuery: says that all is
 *                       done
 */
#ifndef NP_TEST_CUDA_RUNTIME_H
#define NP_TEST_CUDA_RUNTIME_H

#include <math.h>
#include <new>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tuple>

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
inline constexpr dim3 &threadIdx = shim_place.thread, &blockIdx = shim_place.block,
                      &blockDim = shim_place.block_size, &gridDim = shim_place.grid_size;

/* A launch; the kernel tells it from others. */
struct shim_shape {
    const char *name;
    const void *kernel;
    dim3 grid, block;
    size_t shared, allowed; /* bytes, asked for beside, and at most on the thread's device */
};
void shim_run(const struct shim_shape *shape, void (*call)(const void *), const void *body);
/* The block's next shared array in the order of declarations, for a thread that declares it. */
void *shim_shared(size_t bytes);
/* What the launch asked for beside. */
void *shim_shared_dynamic(void);
/* Waits for the block; whether any of its threads brings one. */
int shim_block(int line, int any);
/* Waits for the warp. */
void shim_warp(int line);
/* Waits for the warp's words; that of lane `from`. */
uint32_t shim_word(int line, uint32_t word, unsigned from);
unsigned shim_ballot(int line, int vote);

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

/* What a stream has been told to do; from malloc. What is not named here begins as zeros. */
struct shim_work {
    struct shim_work *next;
    void (*run)(struct shim_work *work); /* NULL: nothing */
    cudaEvent_t event;                   /* to wait for, or to be recorded */
    uint64_t turn;                       /* which record of it */
    bool waits;
    bool copies; /* reaches all devices' memory */
    /* Whether it can do something now, once it is next in its stream; NULL: always. And whether
     * it stays there when it has. */
    bool (*ready)(struct shim_work *work);
    bool stays;
    const char *name;           /* NULL: of an event */
    struct shim_moment *moment; /* the record that is waited for, or that this is */
    struct clock *told;         /* what the host knew (races.h); NULL: it has begun */
};

void shim_post(cudaStream_t stream, struct shim_work *work);
/* What a launch wants to know of a kernel: how to take its arguments from where each stands, and to
 * call it with them. */
struct shim_kernel {
    const char *name;
    const void *kernel;
    size_t bytes; /* of the arguments, and the kernel */
    void (*take)(void *to, const void *kernel, void **arguments);
    void (*call)(const void *taken);
};
/* Makes it known, if it was not; what the runtime knows it by. */
const void *shim_know(const struct shim_kernel *kernel);

template <class... Parameters> struct shim_taken {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> arguments;
};

template <class... Parameters>
static inline const void *shim_kernel_of(const char *name, void (*kernel)(Parameters...))
{
    typedef shim_taken<Parameters...> Taken;
    const struct shim_kernel known = {
        name, reinterpret_cast<const void *>(kernel), sizeof(Taken),
        [](void *to, const void *key, void **arguments) {
            size_t i = 0;
            (void)arguments;
            (void)i;
            new (to) Taken{reinterpret_cast<void (*)(Parameters...)>(const_cast<void *>(key)),
                           {*static_cast<Parameters *>(arguments[i++])...}};
        },
        [](const void *taken) {
            const Taken *t = static_cast<const Taken *>(taken);
            std::apply(t->kernel, t->arguments);
        }};
    return shim_know(&known);
}

#define NP_KERNEL(kernel) shim_kernel_of(__PRETTY_FUNCTION__, kernel)
/* As kernel<<<grid, block, shared, stream>>>(...). */
#define SHIM_LAUNCH(kernel, grid, block, shared, stream, ...)                                      \
    shim_launch(NP_KERNEL(kernel), kernel, grid, block, shared, stream __VA_OPT__(, ) __VA_ARGS__)
#define NP_SHARED(type, name, size)                                                                \
    typedef type name##_array size;                                                                \
    name##_array &name = *static_cast<name##_array *>(shim_shared(sizeof(name##_array)))
#define NP_SHARED_DYNAMIC(type, name) type *name = static_cast<type *>(shim_shared_dynamic())

#define __syncthreads() ((void)shim_block(__LINE__, 0))
#define __syncthreads_or(any) shim_block(__LINE__, any)
#define __syncwarp() shim_warp(__LINE__)
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
    word = shim_word(line, word, from < 32 ? from : shim_lane());
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
#define PRODUCT_PROCESSORS shim_room()

enum cudaError_t {
    cudaSuccess,
    cudaErrorInvalidValue,
    cudaErrorMemoryAllocation,
    cudaErrorInsufficientDriver,
    cudaErrorNoDevice,
    cudaErrorInvalidResourceHandle,
    cudaErrorPeerAccessAlreadyEnabled,
    cudaErrorNotReady,
    cudaErrorUnknown
};
enum cudaMemcpyKind {
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum cudaDeviceAttr {
    cudaDevAttrComputeCapabilityMajor,
    cudaDevAttrComputeCapabilityMinor,
    cudaDevAttrMultiProcessorCount
};
#define cudaStreamPerThread (shim_thread_stream())
cudaStream_t shim_thread_stream(void);
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };

cudaError_t shim_allow(const void *kernel, int bytes);
template <class Kernel>
static inline cudaError_t cudaFuncSetAttribute(Kernel *kernel, cudaFuncAttribute, int bytes)
{
    return shim_allow(reinterpret_cast<const void *>(kernel), bytes);
}

cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaDriverGetVersion(int *version);

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
struct cudaDeviceProp {
    char name[256];
};
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *about, int device);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);

cudaError_t cudaMalloc(void **out, size_t bytes);
cudaError_t cudaFree(void *block);
typedef struct CUmemPool_st *cudaMemPool_t;
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold };
enum cudaMemLocationType { cudaMemLocationTypeDevice };
enum cudaMemAccessFlags { cudaMemAccessFlagsProtReadWrite };
struct cudaMemAccessDesc {
    struct {
        cudaMemLocationType type;
        int id;
    } location;
    cudaMemAccessFlags flags;
};
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value);
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc *access, size_t count);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes);
cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *block, cudaStream_t stream);
cudaError_t cudaMallocHost(void **out, size_t bytes);
cudaError_t cudaFreeHost(void *block);
cudaError_t cudaMemGetInfo(size_t *vacant, size_t *total);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t bytes, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream);
template <class... Parameters, class... Arguments>
static inline void shim_launch(const void *known, void (*)(Parameters...), dim3 grid, dim3 block,
                               size_t shared, cudaStream_t stream, Arguments... arguments)
{
    std::tuple<Parameters...> taken(arguments...);
    std::apply(
        [&](Parameters &...argument) {
            void *at[] = {nullptr, const_cast<void *>(static_cast<const void *>(&argument))...};
            cudaLaunchKernel(known, grid, block, at + 1, shared, stream);
        },
        taken);
}

typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
struct cudaKernelNodeParams {
    void *func;
    dim3 gridDim, blockDim;
    unsigned sharedMemBytes;
    void **kernelParams, **extra;
};
cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *after, size_t count,
                                   const struct cudaKernelNodeParams *params);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);

#endif
