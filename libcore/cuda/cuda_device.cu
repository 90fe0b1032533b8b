/* GPUs as devices: memory, and crews that are a stream each. The host waits for a task in await
 * alone, for everything that the task has to say at once; what else is ordered, events order. */
#include <assert.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "base/memory.h"
#include "base/text.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_lt.h"
#include "cuda/cuda_team.h"
}

enum {
    LEAST_CAPABILITY = 8,   /* major number: what the kernels are compiled for */
    SCRATCH_MORE = 4 << 20, /* bytes: room for chunks of long sums, for more grains' products */
    LINE = 16,              /* bytes: where replies begin */
    TASKS = NP_CREW_AHEAD + 1
};

struct reply {
    void *to;
    size_t at, bytes;
};

/* A task: what the host has written to be sent, and what the GPU has found, both pinned. */
struct task {
    cudaEvent_t done;
    cudaError_t error; /* of its launches */
    char *filled, *heard;
    struct reply *reply;
    bool **watch;
    size_t replies, watches;
};

/* What is found, on the GPU, is a verdict that nobody watches, one for each watch, and the replies.
 * The current task is number marked + 1. */
struct crew {
    struct np_crew base;
    int number; /* of the GPU */
    struct np_cuda_team team;
    struct np_crew_config config;
    char *found, *pinned;
    size_t found_bytes, used, filled; /* used, filled: by the current task */
    struct reply *replies;
    bool **watches;
    uint64_t marked, awaited;
    struct task tasks[TASKS]; /* in turn: one that begins, and those before it */
};

static enum np_status fail(struct np_error *err, int number, const char *what, cudaError_t error)
{
    return np_fail(err, NP_EIO, "CUDA device %d: %s: %s", number, what, cudaGetErrorString(error));
}

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
        status = fail(err, device->number, "cannot allocate", error);
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

static struct task *task_of(struct crew *crew, uint64_t before)
{
    return &crew->tasks[before % TASKS];
}

static uint32_t *verdicts(struct crew *crew)
{
    return reinterpret_cast<uint32_t *>(crew->found);
}

static size_t lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static void begin_task(struct crew *crew)
{
    struct task *task = task_of(crew, crew->marked);
    task->replies = task->watches = 0;
    crew->used = lines((1 + crew->config.watches) * sizeof(uint32_t));
    crew->filled = 0;
    crew->team.verdict = verdicts(crew);
}

static void crew_free(struct np_crew *base)
{
    struct crew *crew = crew_of(base);
    if (crew->team.stream) {
        if (crew->found)
            cudaFreeAsync(crew->found, crew->team.stream);
        cudaStreamSynchronize(crew->team.stream);
        cudaStreamDestroy(crew->team.stream);
    }
    np_cuda_lt_free(crew->team.lt);
    for (int i = 0; i < TASKS; i++)
        if (crew->tasks[i].done)
            cudaEventDestroy(crew->tasks[i].done);
    cudaFreeHost(crew->pinned);
    free(crew->replies);
    free(crew->watches);
    free(crew);
}

static cudaError_t crew_init(struct crew *crew)
{
    size_t fill_bytes = lines(crew->config.fill_bytes), task_bytes = fill_bytes + crew->found_bytes;
    cudaError_t error = cudaStreamCreateWithFlags(&crew->team.stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaMallocHost(reinterpret_cast<void **>(&crew->pinned), TASKS * task_bytes);
    for (int i = 0; i < TASKS && error == cudaSuccess; i++) {
        struct task *task = &crew->tasks[i];
        task->filled = crew->pinned + (size_t)i * task_bytes;
        task->heard = task->filled + fill_bytes;
        task->reply = crew->replies + (size_t)i * crew->config.replies;
        task->watch = crew->watches + (size_t)i * crew->config.watches;
        error = cudaEventCreateWithFlags(&task->done, cudaEventDisableTiming);
    }
    if (error == cudaSuccess)
        error = cudaMallocAsync(reinterpret_cast<void **>(&crew->found), crew->found_bytes,
                                crew->team.stream);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(crew->found, 0, crew->found_bytes, crew->team.stream);
    return error;
}

static enum np_status crew_new(struct np_crew **out, const struct np_device *device,
                               const struct np_crew_config *config, struct np_error *err)
{
    struct crew *crew = nullptr;
    cudaError_t error;
    enum np_status status;
    NP_TRY(np_zalloc(&crew, 1, sizeof *crew, err));
    crew->base.ops = device->ops;
    crew->base.size = 1;
    crew->number = device->number;
    crew->config = *config;
    crew->found_bytes = lines((1 + config->watches) * sizeof(uint32_t)) + config->reply_bytes +
                        config->replies * LINE;
    NP_TRY(np_zalloc(&crew->replies, TASKS * config->replies, sizeof(struct reply), err));
    NP_TRY(np_zalloc(&crew->watches, TASKS * config->watches, sizeof(bool *), err));
    cudaSetDevice(crew->number);
    error = crew_init(crew);
    if (error != cudaSuccess) {
        cudaGetLastError(); /* it will be told */
        NP_TRY(fail(err, device->number, "cannot make a stream and its buffers", error));
    }
    if (device->products)
        NP_TRY(np_cuda_lt_new(&crew->team.lt, device->products, err));
    crew->team.team.size = 1;
    crew->team.team.scratch = config->scratch;
    crew->team.team.scratch_bytes = config->scratch_bytes;
    begin_task(crew);
    *out = &crew->base;
    crew = nullptr;
out:
    if (crew)
        crew_free(&crew->base);
    return status;
}

static void run(struct np_crew *base, void (*function)(struct np_team *team, void *argument),
                void *argument)
{
    function(&crew_of(base)->team.team, argument);
}

static void *fill(struct np_crew *base, void *, size_t bytes)
{
    struct crew *crew = crew_of(base);
    char *at = task_of(crew, crew->marked)->filled + crew->filled;
    crew->filled += lines(bytes);
    assert(crew->filled <= lines(crew->config.fill_bytes));
    return at;
}

static void send(struct np_crew *base, void *to, const void *from, size_t bytes)
{
    struct crew *crew = crew_of(base);
    cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, crew->team.stream);
}

static void *reply(struct np_crew *base, void *to, size_t bytes)
{
    struct crew *crew = crew_of(base);
    struct task *task = task_of(crew, crew->marked);
    size_t at = crew->used;
    assert(task->replies < crew->config.replies);
    task->reply[task->replies++] = {to, at, bytes};
    crew->used += lines(bytes);
    assert(crew->used <= crew->found_bytes);
    return crew->found + at;
}

static void watch(struct np_crew *base, bool *finite)
{
    struct crew *crew = crew_of(base);
    struct task *task = task_of(crew, crew->marked);
    assert(task->watches < crew->config.watches);
    task->watch[task->watches++] = finite;
    crew->team.verdict = verdicts(crew) + task->watches;
}

/* What was found is brought to the host, and cleared for the next task. */
static uint64_t mark(struct np_crew *base)
{
    struct crew *crew = crew_of(base);
    struct task *task = task_of(crew, crew->marked);
    cudaStream_t stream = crew->team.stream;
    assert(crew->marked - crew->awaited < NP_CREW_AHEAD);
    cudaMemcpyAsync(task->heard, crew->found, crew->used, cudaMemcpyDeviceToHost, stream);
    cudaMemsetAsync(crew->found, 0, crew->used, stream);
    cudaEventRecord(task->done, stream);
    task->error = cudaGetLastError();
    crew->marked++;
    begin_task(crew);
    return crew->marked;
}

static void deliver(const struct task *task)
{
    for (size_t i = 0; i < task->replies; i++)
        memcpy(task->reply[i].to, task->heard + task->reply[i].at, task->reply[i].bytes);
    for (size_t i = 0; i < task->watches; i++) {
        uint32_t verdict;
        memcpy(&verdict, task->heard + (1 + i) * sizeof verdict, sizeof verdict);
        if (verdict)
            *task->watch[i] = false;
    }
}

/* Not ready is no error that the next task has met. */
static bool reached(struct np_crew *base, uint64_t mark)
{
    struct crew *crew = crew_of(base);
    bool is =
        mark <= crew->awaited || cudaEventQuery(task_of(crew, mark - 1)->done) != cudaErrorNotReady;
    if (!is)
        cudaGetLastError();
    return is;
}

static enum np_status await(struct np_crew *base, uint64_t mark, struct np_error *err)
{
    struct crew *crew = crew_of(base);
    for (; crew->awaited < mark; crew->awaited++) {
        const struct task *task = task_of(crew, crew->awaited);
        cudaError_t error = cudaEventSynchronize(task->done);
        if (task->error != cudaSuccess)
            error = task->error;
        if (error != cudaSuccess) {
            crew->awaited = mark;
            return fail(err, crew->number, "a kernel or copy has failed", error);
        }
        if (crew->team.lt && crew->team.lt->failure.code != NP_OK) {
            crew->awaited = mark;
            return np_fail(err, crew->team.lt->failure.code, "%s", crew->team.lt->failure.msg);
        }
        deliver(task);
    }
    return NP_OK;
}

/* --- stamps: events ------------------------------------------------------------------------- */

static cudaEvent_t event_of(struct np_stamp *stamp)
{
    return reinterpret_cast<cudaEvent_t>(stamp);
}

static enum np_status stamp_new(struct np_stamp **out, struct np_crew *base, struct np_error *err)
{
    struct crew *crew = crew_of(base);
    cudaEvent_t event;
    cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (error != cudaSuccess) {
        cudaGetLastError(); /* it is told */
        return fail(err, crew->number, "cannot make an event", error);
    }
    *out = reinterpret_cast<struct np_stamp *>(event);
    return NP_OK;
}

static void stamp_free(struct np_stamp *stamp, struct np_crew *base)
{
    crew_of(base);
    cudaEventDestroy(event_of(stamp));
}

static void stamp(struct np_crew *base, struct np_stamp *stamp)
{
    cudaEventRecord(event_of(stamp), crew_of(base)->team.stream);
}

static void after(struct np_crew *base, struct np_stamp *stamp)
{
    cudaStreamWaitEvent(crew_of(base)->team.stream, event_of(stamp), 0);
}

static enum np_status stamp_await(struct np_crew *base, struct np_stamp *stamp,
                                  struct np_error *err)
{
    struct crew *crew = crew_of(base);
    cudaError_t error = cudaStreamWaitEvent(cudaStreamPerThread, event_of(stamp), 0);
    cudaError_t done = cudaStreamSynchronize(cudaStreamPerThread);
    if (error == cudaSuccess)
        error = done;
    return error == cudaSuccess ? NP_OK : fail(err, crew->number, "work has failed", error);
}

static const struct np_kernels *kernels(const struct np_device *device)
{
    return device->products ? &np_kernels_cuda_fast : &np_kernels_cuda;
}

static size_t scratch_bytes(const struct np_device *device, const struct np_extent *extent)
{
    size_t bytes = np_cuda_scratch_bytes(extent->queries, extent->rows);
    size_t fast = device->products ? np_cuda_fast_scratch_bytes(extent->product) : 0;
    return (bytes > fast ? bytes : fast) + SCRATCH_MORE;
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
                                              .crew_new = crew_new,
                                              .crew_free = crew_free,
                                              .run = run,
                                              .fill = fill,
                                              .send = send,
                                              .reply = reply,
                                              .watch = watch,
                                              .mark = mark,
                                              .reached = reached,
                                              .await = await,
                                              .stamp_new = stamp_new,
                                              .stamp_free = stamp_free,
                                              .stamp = stamp,
                                              .after = after,
                                              .stamp_await = stamp_await};

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
    return error == cudaSuccess ? NP_OK : fail(err, number, "cannot be used", error);
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
