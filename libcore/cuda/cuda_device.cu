/* GPUs as devices: memory, and crews that are a stream each. The host waits in finish alone, once
 * for everything that a pass has started and has to say. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "base/memory.h"
#include "base/text.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_team.h"
}

enum {
    LEAST_CAPABILITY = 8,   /* major number: what the kernels are compiled for */
    SCRATCH_MORE = 4 << 20, /* bytes: room for chunks of long sums (cuda_team.h) */
    REPLIES = 4,            /* between two finishes */
    LINE = 16               /* bytes: where replies begin; the verdict has the first line */
};

struct reply {
    void *to;
    size_t at, bytes;
};

struct crew {
    struct np_crew base;
    int number; /* of the GPU */
    struct np_cuda_team team;
    char *filled;        /* pinned: what the host has written to be sent */
    char *found, *heard; /* the verdict, then replies: on the GPU, and what came of it, pinned */
    size_t filled_bytes, found_bytes, used;
    int replies;
    struct reply reply[REPLIES];
};

static enum np_status fail(struct np_error *err, int number, const char *what, cudaError_t error)
{
    return np_fail(err, NP_EIO, "CUDA device %d: %s: %s", number, what, cudaGetErrorString(error));
}

/* What a thread does begins with its choice of the GPU. Without one it would be GPU 0, which may be
 * somebody else's. */

/* --- memory --------------------------------------------------------------------------------- */

static enum np_status no_room(struct np_error *err, int number, uint64_t bytes)
{
    size_t vacant = 0, total = 0;
    cudaMemGetInfo(&vacant, &total);
    return np_fail(err, NP_EMEM, "CUDA device %d has no room for %s: %s of its %s are free", number,
                   np_text_size(bytes).s, np_text_size(vacant).s, np_text_size(total).s);
}

static enum np_status device_alloc(const struct np_device *device, void **out, uint64_t bytes,
                                   struct np_error *err)
{
    enum np_status status = NP_OK;
    cudaSetDevice(device->number);
    cudaError_t error = cudaMalloc(out, (size_t)bytes);
    if (error == cudaErrorMemoryAllocation)
        status = no_room(err, device->number, bytes);
    else if (error != cudaSuccess)
        status = fail(err, device->number, "cannot allocate", error);
    if (error != cudaSuccess)
        cudaGetLastError(); /* it has been told */
    return status;
}

static void device_release(const struct np_device *device, void *block)
{
    cudaSetDevice(device->number);
    cudaFree(block);
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
    return error == cudaSuccess ? NP_OK : fail(err, device->number, "cannot copy", error);
}

/* --- crews ---------------------------------------------------------------------------------- */

/* The caller's thread works with the crew's GPU from here on. */
static struct crew *crew_of(struct np_crew *base)
{
    struct crew *crew = reinterpret_cast<struct crew *>(base);
    cudaSetDevice(crew->number);
    return crew;
}

static void crew_free(struct np_crew *base)
{
    struct crew *crew = crew_of(base);
    if (crew->team.stream)
        cudaStreamDestroy(crew->team.stream);
    cudaFreeHost(crew->filled);
    cudaFreeHost(crew->heard);
    cudaFree(crew->found);
    free(crew);
}

static cudaError_t crew_init(struct crew *crew)
{
    cudaError_t error = cudaStreamCreateWithFlags(&crew->team.stream, cudaStreamNonBlocking);
    if (error == cudaSuccess && crew->filled_bytes)
        error = cudaMallocHost(reinterpret_cast<void **>(&crew->filled), crew->filled_bytes);
    if (error == cudaSuccess)
        error = cudaMallocHost(reinterpret_cast<void **>(&crew->heard), crew->found_bytes);
    if (error == cudaSuccess)
        error = cudaMalloc(reinterpret_cast<void **>(&crew->found), crew->found_bytes);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(crew->found, 0, crew->found_bytes, crew->team.stream);
    return error;
}

static enum np_status crew_new(struct np_crew **out, const struct np_device *device,
                               const struct np_crew_config *config, struct np_error *err)
{
    struct crew *crew = nullptr;
    enum np_status status = np_zalloc(&crew, 1, sizeof *crew, err);
    if (status != NP_OK)
        return status;
    crew->base.ops = device->ops;
    crew->base.size = 1;
    crew->number = device->number;
    crew->filled_bytes = config->fill_bytes;
    crew->found_bytes = config->reply_bytes + (REPLIES + 1) * LINE;
    crew->used = LINE;
    cudaSetDevice(crew->number);
    cudaError_t error = crew_init(crew);
    if (error != cudaSuccess) {
        crew_free(&crew->base);
        cudaGetLastError();
        return fail(err, device->number, "cannot make a stream and its buffers", error);
    }
    crew->team.team.size = 1;
    crew->team.team.scratch = config->scratch;
    crew->team.team.scratch_bytes = config->scratch_bytes;
    crew->team.verdict = reinterpret_cast<uint32_t *>(crew->found);
    *out = &crew->base;
    return NP_OK;
}

static void run(struct np_crew *base, void (*function)(struct np_team *team, void *argument),
                void *argument)
{
    function(&crew_of(base)->team.team, argument);
}

static void *fill(struct np_crew *base, void *, size_t)
{
    return crew_of(base)->filled;
}

static void send(struct np_crew *base, void *to, const void *from, size_t bytes)
{
    struct crew *crew = crew_of(base);
    cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, crew->team.stream);
}

static void *reply(struct np_crew *base, void *to, size_t bytes)
{
    struct crew *crew = crew_of(base);
    size_t at = crew->used;
    crew->reply[crew->replies++] = {to, at, bytes};
    crew->used += (bytes + LINE - 1) / LINE * LINE;
    return crew->found + at;
}

/* What was found is brought to the host, and cleared for the next pass. */
static enum np_status finish(struct np_crew *base, bool *finite, struct np_error *err)
{
    struct crew *crew = crew_of(base);
    cudaStream_t stream = crew->team.stream;
    uint32_t verdict;
    cudaMemcpyAsync(crew->heard, crew->found, crew->used, cudaMemcpyDeviceToHost, stream);
    cudaMemsetAsync(crew->found, 0, crew->used, stream);
    cudaError_t error = cudaStreamSynchronize(stream), before = cudaGetLastError();
    if (error == cudaSuccess)
        error = before;
    if (error != cudaSuccess)
        return fail(err, crew->number, "a kernel or copy has failed", error);
    for (int i = 0; i < crew->replies; i++)
        memcpy(crew->reply[i].to, crew->heard + crew->reply[i].at, crew->reply[i].bytes);
    memcpy(&verdict, crew->heard, sizeof verdict);
    if (verdict)
        *finite = false;
    crew->used = LINE;
    crew->replies = 0;
    return NP_OK;
}

static size_t scratch_bytes(size_t queries, size_t rows)
{
    return np_cuda_scratch_bytes(queries, rows) + SCRATCH_MORE;
}

/* --- the GPUs ------------------------------------------------------------------------------- */

static const struct np_device_ops cuda_ops = {.name = "cuda",
                                              .kernels = &np_kernels_cuda,
                                              .apart = true,
                                              .scratch_bytes = scratch_bytes,
                                              .alloc = device_alloc,
                                              .release = device_release,
                                              .pin = device_pin,
                                              .unpin = device_unpin,
                                              .copy = device_copy,
                                              .crew_new = crew_new,
                                              .crew_free = crew_free,
                                              .run = run,
                                              .fill = fill,
                                              .send = send,
                                              .reply = reply,
                                              .finish = finish};

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
    return error == cudaSuccess ? NP_OK : fail(err, number, "cannot be used", error);
}

static bool reaches(int number, int other)
{
    int can = 0;
    return cudaDeviceCanAccessPeer(&can, number, other) == cudaSuccess && can;
}

/* `number` reads and writes the memory of `other`. */
static enum np_status join(int number, int other, struct np_error *err)
{
    if (!reaches(number, other))
        return np_fail(err, NP_EINPUT, "CUDA device %d cannot reach the memory of device %d",
                       number, other);
    cudaSetDevice(number);
    cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError();
        error = cudaSuccess;
    }
    return error == cudaSuccess ? NP_OK : fail(err, number, "cannot reach its peer", error);
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

bool np_cuda_reach(const struct np_device *devices, int count)
{
    bool all = true;
    for (int i = 0; i < count * count; i++)
        if (i / count != i % count)
            all = all && reaches(devices[i / count].number, devices[i % count].number);
    return all;
}

enum np_status np_cuda_join(const struct np_device *devices, int count, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int i = 0; i < count * count && status == NP_OK; i++)
        if (i / count != i % count)
            status = join(devices[i / count].number, devices[i % count].number, err);
    return status;
}

void np_cuda_version(char *out, size_t bytes)
{
    int runtime = 0, driver = 0;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    snprintf(out, bytes, driver ? "runtime %d.%d, driver for %d.%d" : "runtime %d.%d, no driver",
             runtime / 1000, runtime % 1000 / 10, driver / 1000, driver % 1000 / 10);
}
