/* GPUs as devices: memory, and what they are; their crews are cuda_crew.cu's. */
#include <cuda_runtime.h>
#include <stdio.h>

extern "C" {
#include "base/text.h"
#include "cuda/cuda_crew.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_team.h"
}

#include "cuda/failure.cuh"

/* Bytes of room for chunks of long sums, and for more grains' products; tests, which have little
 * memory, have less. */
#ifndef NP_CUDA_SCRATCH_MORE
#define NP_CUDA_SCRATCH_MORE (32 << 20)
#endif

enum { LEAST_CAPABILITY = 8 }; /* major number: what the kernels are compiled for */

/* What a thread does begins with its choice of the GPU. Without one it would be GPU 0, which may be
 * somebody else's. */

/* --- memory --------------------------------------------------------------------------------- */

/* It is the pool's that every GPU has: layers come and go while the GPU computes, and cudaMalloc
 * and cudaFree may wait for all of that. What is given back stays in the pool, and becomes blocks
 * of other sizes. */

/* Has the pool keep what is given back. */
static cudaError_t keep_pool(int number)
{
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX;
    cudaError_t error = cudaDeviceGetDefaultMemPool(&pool, number);
    if (error == cudaSuccess)
        error = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);
    return error;
}

/* What the pool keeps for nobody is free. */
static void count_memory(int number, size_t *vacant, size_t *total)
{
    cudaMemPool_t pool;
    cudaSetDevice(number);
    if (cudaDeviceGetDefaultMemPool(&pool, number) == cudaSuccess)
        cudaMemPoolTrimTo(pool, 0);
    cudaMemGetInfo(vacant, total);
}

static enum np_status no_room(struct np_error *err, int number, uint64_t bytes)
{
    size_t vacant = 0, total = 0;
    count_memory(number, &vacant, &total);
    return np_fail(err, NP_EMEM, "CUDA device %d has no room for %s: %s of its %s are free", number,
                   np_text_size(bytes).s, np_text_size(vacant).s, np_text_size(total).s);
}

static enum np_status device_alloc(const struct np_device *device, void **out, uint64_t bytes,
                                   struct np_error *err)
{
    enum np_status status = NP_OK;
    cudaSetDevice(device->number);
    cudaError_t error = cudaMallocAsync(out, (size_t)bytes, cudaStreamPerThread);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(cudaStreamPerThread); /* it is for all streams */
    if (error == cudaErrorMemoryAllocation)
        status = no_room(err, device->number, bytes);
    else if (error != cudaSuccess)
        status = cuda_fail(err, device->number, "cannot allocate", error);
    if (error != cudaSuccess)
        cudaGetLastError(); /* it has been told */
    return status;
}

/* When it returns the pool has it again: what is taken next counts on that. */
static void device_release(const struct np_device *device, void *block)
{
    if (!block)
        return;
    cudaSetDevice(device->number);
    cudaFreeAsync(block, cudaStreamPerThread);
    cudaStreamSynchronize(cudaStreamPerThread);
}

static enum np_status device_pin(const struct np_device *device, void **out, uint64_t bytes,
                                 struct np_error *err)
{
    cudaSetDevice(device->number);
    cudaError_t error = cudaMallocHost(out, (size_t)bytes);
    if (error == cudaSuccess)
        return NP_OK;
    cudaGetLastError();
    return np_fail(err, NP_EMEM, "cannot pin %s of memory for CUDA device %d: %s",
                   np_text_size(bytes).s, device->number, cudaGetErrorString(error));
}

static void device_unpin(const struct np_device *, void *block)
{
    cudaFreeHost(block);
}

/* On the thread's own stream: threads that copy layers in and out do not wait for each other. */
static enum np_status device_copy(const struct np_device *device, void *to, const void *from,
                                  uint64_t bytes, struct np_error *err)
{
    cudaSetDevice(device->number);
    cudaError_t error =
        cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, cudaStreamPerThread);
    cudaError_t done = cudaStreamSynchronize(cudaStreamPerThread);
    if (error == cudaSuccess)
        error = done;
    return error == cudaSuccess ? NP_OK : cuda_fail(err, device->number, "cannot copy", error);
}

static const struct np_kernels *kernels(const struct np_device *device)
{
    return device->products ? &np_kernels_cuda_fast : &np_kernels_cuda;
}

static size_t scratch_bytes(const struct np_device *device, const struct np_extent *extent)
{
    size_t bytes = np_cuda_scratch_bytes(extent->queries, extent->rows);
    size_t fast = device->products ? np_cuda_fast_scratch_bytes(extent->product) : 0;
    return (bytes > fast ? bytes : fast) + NP_CUDA_SCRATCH_MORE;
}

/* --- the GPUs ------------------------------------------------------------------------------- */

static const struct np_device_ops cuda_ops = {.name = "cuda",
                                              .apart = true,
                                              .kernels = kernels,
                                              .scratch_bytes = scratch_bytes,
                                              .alloc = device_alloc,
                                              .release = device_release,
                                              .pin = device_pin,
                                              .unpin = device_unpin,
                                              .copy = device_copy,
                                              .crew_new = np_cuda_crew_new,
                                              .crew_free = np_cuda_crew_free,
                                              .run = np_cuda_crew_run,
                                              .fill = np_cuda_crew_fill,
                                              .send = np_cuda_crew_send,
                                              .reply = np_cuda_crew_reply,
                                              .watch = np_cuda_crew_watch,
                                              .mark = np_cuda_crew_mark,
                                              .reached = np_cuda_crew_reached,
                                              .await = np_cuda_crew_await,
                                              .stamp_new = np_cuda_stamp_new,
                                              .stamp_free = np_cuda_stamp_free,
                                              .stamp = np_cuda_crew_stamp,
                                              .after = np_cuda_crew_after,
                                              .stamp_await = np_cuda_stamp_await};

static enum np_status open_one(int number, int there, struct np_error *err)
{
    int major = 0, minor = 0;
    if (number >= there)
        return np_fail(err, NP_EINPUT, "there is no CUDA device %d: %d %s here, counted from 0",
                       number, there, there == 1 ? "is" : "are");
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, number);
    if (major < LEAST_CAPABILITY)
        return np_fail(err, NP_EINPUT,
                       "CUDA device %d has compute capability %d.%d: %d.0 is the least", number,
                       major, minor, LEAST_CAPABILITY);
    cudaError_t error = cudaSetDevice(number);
    if (error == cudaSuccess)
        error = cudaFree(nullptr); /* begins to use it */
    if (error == cudaSuccess)
        error = keep_pool(number);
    return error == cudaSuccess ? NP_OK : cuda_fail(err, number, "cannot be used", error);
}

static bool reaches(int number, int other)
{
    int can = 0;
    return cudaDeviceCanAccessPeer(&can, number, other) == cudaSuccess && can;
}

/* `number` reads and writes the memory of `other`, its pool's above all. */
static enum np_status join(int number, int other, struct np_error *err)
{
    cudaMemPool_t pool;
    cudaMemAccessDesc access = {};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = number;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    cudaSetDevice(number);
    cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError();
        error = cudaSuccess;
    }
    if (error == cudaSuccess)
        error = cudaDeviceGetDefaultMemPool(&pool, other);
    if (error == cudaSuccess)
        error = cudaMemPoolSetAccess(pool, &access, 1);
    return error == cudaSuccess ? NP_OK : cuda_fail(err, number, "cannot reach its peer", error);
}

enum np_status np_cuda_open(struct np_device *devices, const int *numbers, int count,
                            struct np_error *err)
{
    enum np_status status = NP_OK;
    int there = 0;
    cudaError_t error = cudaGetDeviceCount(&there);
    if (error != cudaSuccess)
        return np_fail(err, NP_EINPUT, "there is no CUDA device here: %s",
                       cudaGetErrorString(error));
    for (int i = 0; i < count && status == NP_OK; i++) {
        status = open_one(numbers[i], there, err);
        devices[i] = {.ops = &cuda_ops, .number = numbers[i]};
    }
    return status;
}

int np_cuda_count(void)
{
    int there = 0;
    return cudaGetDeviceCount(&there) == cudaSuccess ? there : 0;
}

bool np_cuda_reach(const struct np_device *devices, int count)
{
    bool all = true;
    for (int i = 0; i < count * count; i++)
        if (i / count != i % count)
            all = all && reaches(devices[i / count].number, devices[i % count].number);
    return all;
}

enum np_status np_cuda_join(const struct np_device *devices, int count, bool all,
                            struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int i = 0; i < count * count && status == NP_OK; i++) {
        int number = devices[i / count].number, other = devices[i % count].number;
        if (number == other)
            continue;
        if (reaches(number, other))
            status = join(number, other, err);
        else if (all)
            status = np_fail(err, NP_EINPUT, "CUDA device %d cannot reach the memory of device %d",
                             number, other);
    }
    return status;
}

void np_cuda_describe(const struct np_device *device, char *out, size_t bytes, uint64_t *vacant)
{
    struct cudaDeviceProp about = {};
    size_t free_bytes = 0, total = 0;
    int driver = 0;
    count_memory(device->number, &free_bytes, &total);
    cudaGetDeviceProperties(&about, device->number);
    cudaDriverGetVersion(&driver);
    snprintf(out, bytes, "%.64s, driver for %d.%d", about.name, driver / 1000, driver % 1000 / 10);
    *vacant = free_bytes;
}

void np_cuda_version(char *out, size_t bytes)
{
    int runtime = 0, driver = 0;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    snprintf(out, bytes, driver ? "runtime %d.%d, driver for %d.%d" : "runtime %d.%d, no driver",
             runtime / 1000, runtime % 1000 / 10, driver / 1000, driver % 1000 / 10);
}
