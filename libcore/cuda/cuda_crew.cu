/* Crews of GPUs: a stream each. What np_crew_run has kernels do is launched when it ends. The host
 * waits for a task in await alone, for everything that the task has to say at once; what else is
 * ordered, events order. */
#include <assert.h>
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "base/memory.h"
#include "cuda/cuda_crew.h"
#include "cuda/cuda_lt.h"
#include "cuda/cuda_team.h"
}

#include "cuda/cuda_graphs.cuh"
#include "cuda/failure.cuh"

enum {
    LINE = 16, /* bytes: where replies begin */
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

void np_cuda_crew_free(struct np_crew *base)
{
    struct crew *crew = crew_of(base);
    if (crew->team.stream) {
        if (crew->found)
            cudaFreeAsync(crew->found, crew->team.stream);
        cudaStreamSynchronize(crew->team.stream);
        np_cuda_graphs_free(crew->team.graphs);
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

enum np_status np_cuda_crew_new(struct np_crew **out, const struct np_device *device,
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
        NP_TRY(cuda_fail(err, device->number, "cannot make a stream and its buffers", error));
    }
    NP_TRY(np_cuda_graphs_new(&crew->team.graphs, crew->team.stream, err));
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
        np_cuda_crew_free(&crew->base);
    return status;
}

void np_cuda_crew_run(struct np_crew *base, void (*function)(struct np_team *team, void *argument),
                      void *argument)
{
    struct crew *crew = crew_of(base);
    function(&crew->team.team, argument);
    np_cuda_graphs_play(crew->team.graphs);
}

void *np_cuda_crew_fill(struct np_crew *base, void *, size_t bytes)
{
    struct crew *crew = crew_of(base);
    char *at = task_of(crew, crew->marked)->filled + crew->filled;
    crew->filled += lines(bytes);
    assert(crew->filled <= lines(crew->config.fill_bytes));
    return at;
}

void np_cuda_crew_send(struct np_crew *base, void *to, const void *from, size_t bytes)
{
    struct crew *crew = crew_of(base);
    cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, crew->team.stream);
}

void *np_cuda_crew_reply(struct np_crew *base, void *to, size_t bytes)
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

void np_cuda_crew_watch(struct np_crew *base, bool *finite)
{
    struct crew *crew = crew_of(base);
    struct task *task = task_of(crew, crew->marked);
    assert(task->watches < crew->config.watches);
    task->watch[task->watches++] = finite;
    crew->team.verdict = verdicts(crew) + task->watches;
}

/* Stamps are events. */
static cudaEvent_t event_of(struct np_stamp *stamp)
{
    return reinterpret_cast<cudaEvent_t>(stamp);
}

/* What was found is brought to the host, and cleared for the next task. */
uint64_t np_cuda_crew_mark(struct np_crew *base, struct np_stamp *stamp)
{
    struct crew *crew = crew_of(base);
    struct task *task = task_of(crew, crew->marked);
    cudaStream_t stream = crew->team.stream;
    assert(crew->marked - crew->awaited < NP_CREW_AHEAD);
    if (stamp)
        cudaEventRecord(event_of(stamp), stream);
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
bool np_cuda_crew_reached(struct np_crew *base, uint64_t mark)
{
    struct crew *crew = crew_of(base);
    bool is =
        mark <= crew->awaited || cudaEventQuery(task_of(crew, mark - 1)->done) != cudaErrorNotReady;
    if (!is)
        cudaGetLastError();
    return is;
}

enum np_status np_cuda_crew_await(struct np_crew *base, uint64_t mark, struct np_error *err)
{
    struct crew *crew = crew_of(base);
    for (; crew->awaited < mark; crew->awaited++) {
        const struct task *task = task_of(crew, crew->awaited);
        cudaError_t error = cudaEventSynchronize(task->done);
        if (task->error != cudaSuccess)
            error = task->error;
        if (error != cudaSuccess) {
            crew->awaited = mark;
            return cuda_fail(err, crew->number, "a kernel or copy has failed", error);
        }
        if (crew->team.lt && crew->team.lt->failure.code != NP_OK) {
            crew->awaited = mark;
            return np_fail(err, crew->team.lt->failure.code, "%s", crew->team.lt->failure.msg);
        }
        deliver(task);
    }
    return NP_OK;
}

/* --- stamps --------------------------------------------------------------------------------- */

enum np_status np_cuda_stamp_new(struct np_stamp **out, struct np_crew *base, struct np_error *err)
{
    struct crew *crew = crew_of(base);
    cudaEvent_t event;
    cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (error != cudaSuccess) {
        cudaGetLastError(); /* it is told */
        return cuda_fail(err, crew->number, "cannot make an event", error);
    }
    *out = reinterpret_cast<struct np_stamp *>(event);
    return NP_OK;
}

void np_cuda_stamp_free(struct np_stamp *stamp, struct np_crew *base)
{
    crew_of(base);
    cudaEventDestroy(event_of(stamp));
}

void np_cuda_crew_stamp(struct np_crew *base, struct np_stamp *stamp)
{
    cudaEventRecord(event_of(stamp), crew_of(base)->team.stream);
}

void np_cuda_crew_after(struct np_crew *base, struct np_stamp *stamp)
{
    cudaStreamWaitEvent(crew_of(base)->team.stream, event_of(stamp), 0);
}

enum np_status np_cuda_stamp_await(struct np_crew *base, struct np_stamp *stamp,
                                   struct np_error *err)
{
    struct crew *crew = crew_of(base);
    cudaError_t error = cudaStreamWaitEvent(cudaStreamPerThread, event_of(stamp), 0);
    cudaError_t done = cudaStreamSynchronize(cudaStreamPerThread);
    if (error == cudaSuccess)
        error = done;
    return error == cudaSuccess ? NP_OK : cuda_fail(err, crew->number, "work has failed", error);
}
