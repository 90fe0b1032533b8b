#include "cuda/cuda_graphs.cuh"

#include <stdlib.h>

extern "C" {
#include "base/memory.h"
#include "cuda/cuda_device.h"
}

enum {
    ROOM = 64 << 10, /* bytes of launches */
    LEAST = 3,       /* launches of a graph; fewer are made one by one */
    SETS = 512,
    WAYS = 8,
    LONG = 16 * SETS * WAYS, /* plays after which a graph that was not among them may go */
    LOOK = 16,               /* at so many for one that may, when a new one is to be made */
    LAUNCH_BYTES = 12 << 10  /* of a graph on an H200, about */
};

/* Launches that have been played; without a graph, that some of this hash have been. */
struct played {
    uint64_t hash, last; /* when: of all plays */
    unsigned char *launches;
    size_t bytes;
    unsigned count;
    cudaGraphExec_t graph;
};

struct np_cuda_graphs {
    cudaStream_t stream;
    uint64_t plays;
    bool failed;     /* to make a graph: no more are made */
    unsigned kept;   /* launches, in graphs */
    unsigned looked; /* at how many, for one that may go */
    unsigned count;
    size_t bytes; /* noted, calls and their arguments in turn */
    alignas(8) unsigned char launches[ROOM];
    struct played played[SETS][WAYS];
};

static_assert(sizeof(struct np_cuda_call) == 2 * sizeof(void *) + 8 * sizeof(unsigned) &&
                  sizeof(struct np_cuda_call) % 8 == 0,
              "equal calls have equal bytes");

enum np_status np_cuda_graphs_new(struct np_cuda_graphs **out, cudaStream_t stream,
                                  struct np_error *err)
{
    enum np_status status = np_zalloc(out, 1, sizeof **out, err);
    if (status == NP_OK)
        (*out)->stream = stream;
    return status;
}

uint64_t np_cuda_besides(void)
{
    return (uint64_t)NP_CUDA_GRAPH_LAUNCHES * LAUNCH_BYTES;
}

/* When the device is done with it. */
static void forget(struct np_cuda_graphs *graphs, struct played *played)
{
    if (played->graph) {
        cudaStreamSynchronize(graphs->stream);
        cudaGraphExecDestroy(played->graph);
    }
    graphs->kept -= played->count;
    free(played->launches);
    *played = {};
}

void np_cuda_graphs_free(struct np_cuda_graphs *graphs)
{
    for (int i = 0; graphs && i < SETS * WAYS; i++)
        forget(graphs, &graphs->played[i / WAYS][i % WAYS]);
    free(graphs);
}

/* As the runtime wants them. */
static void point_to(void **pointers, const struct np_cuda_call *call,
                     const unsigned char *arguments)
{
    for (unsigned i = 0; i < call->count; i++)
        pointers[i] = const_cast<unsigned char *>(arguments + call->at[i]);
}

void np_cuda_call_make(const struct np_cuda_call *call, const unsigned char *arguments,
                       cudaStream_t stream)
{
    void *pointers[NP_CUDA_ARGUMENTS];
    point_to(pointers, call, arguments);
    cudaLaunchKernel(call->kernel, call->grid, call->block, pointers, call->shared, stream);
}

void np_cuda_graphs_note(struct np_cuda_graphs *graphs, const struct np_cuda_call *call,
                         const unsigned char *arguments)
{
    size_t bytes = call->at[call->count];
    if (sizeof *call + bytes > ROOM - graphs->bytes)
        np_cuda_graphs_play(graphs);
    memcpy(graphs->launches + graphs->bytes, call, sizeof *call);
    memcpy(graphs->launches + graphs->bytes + sizeof *call, arguments, bytes);
    graphs->bytes += sizeof *call + bytes;
    graphs->count++;
}

/* f(call, arguments) for each of the launches, until it is false. */
template <class Function>
static void each_launch(const unsigned char *launches, size_t bytes, const Function &f)
{
    for (size_t at = 0; at < bytes;) {
        const struct np_cuda_call *call =
            reinterpret_cast<const struct np_cuda_call *>(launches + at);
        if (!f(call, launches + at + sizeof *call))
            return;
        at += sizeof *call + call->at[call->count];
    }
}

static void make_each(const struct np_cuda_graphs *graphs)
{
    each_launch(graphs->launches, graphs->bytes,
                [=](const struct np_cuda_call *call, const unsigned char *arguments) {
                    np_cuda_call_make(call, arguments, graphs->stream);
                    return true;
                });
}

/* One after the other. */
static cudaError_t graph_of(cudaGraphExec_t *out, const unsigned char *launches, size_t bytes)
{
    cudaGraph_t graph;
    cudaGraphNode_t last = nullptr;
    cudaError_t error = cudaGraphCreate(&graph, 0);
    if (error != cudaSuccess)
        return error;
    each_launch(launches, bytes,
                [&](const struct np_cuda_call *call, const unsigned char *arguments) {
                    void *pointers[NP_CUDA_ARGUMENTS];
                    struct cudaKernelNodeParams node = {};
                    cudaGraphNode_t before = last;
                    point_to(pointers, call, arguments);
                    node.func = const_cast<void *>(call->kernel);
                    node.gridDim = call->grid;
                    node.blockDim = call->block;
                    node.sharedMemBytes = call->shared;
                    node.kernelParams = pointers;
                    error = cudaGraphAddKernelNode(&last, graph, &before, before != nullptr, &node);
                    return error == cudaSuccess;
                });
    if (error == cudaSuccess)
        error = cudaGraphInstantiate(out, graph, 0);
    cudaGraphDestroy(graph);
    return error;
}

static uint64_t hash_of(const unsigned char *launches, size_t bytes)
{
    uint64_t hash = bytes;
    for (size_t i = 0; i < bytes; i += sizeof hash) {
        uint64_t word;
        memcpy(&word, launches + i, sizeof word);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static bool may_go(const struct np_cuda_graphs *graphs, const struct played *played)
{
    return !played->graph || graphs->plays - played->last >= LONG;
}

/* Where those of the hash are, or may be from now on: nowhere, if all that is there is in use. */
static struct played *find(struct np_cuda_graphs *graphs, uint64_t hash)
{
    struct played *set = graphs->played[hash % SETS], *oldest = nullptr;
    for (int i = 0; i < WAYS; i++)
        if (set[i].last && set[i].hash == hash)
            return &set[i];
    for (int i = 0; i < WAYS; i++)
        if (may_go(graphs, &set[i]) && (!oldest || set[i].last < oldest->last))
            oldest = &set[i];
    return oldest;
}

/* Of some graphs at a time, those that may go do. Whether there is room for what is noted. */
static bool make_room(struct np_cuda_graphs *graphs)
{
    for (int i = 0; i < LOOK; i++) {
        unsigned at = graphs->looked++ % (SETS * WAYS);
        struct played *played = &graphs->played[at / WAYS][at % WAYS];
        if (played->graph && may_go(graphs, played))
            forget(graphs, played);
    }
    return graphs->kept + graphs->count <= NP_CUDA_GRAPH_LAUNCHES;
}

/* They have been played once before: they become a graph, if they can, for which the device and the
 * host want room. Whatever went wrong before is not lost. */
static void keep(struct np_cuda_graphs *graphs, struct played *played)
{
    if (graphs->failed || cudaPeekAtLastError() != cudaSuccess || !make_room(graphs))
        return;
    played->launches = static_cast<unsigned char *>(malloc(graphs->bytes));
    if (!played->launches)
        return;
    memcpy(played->launches, graphs->launches, graphs->bytes);
    played->bytes = graphs->bytes;
    if (graph_of(&played->graph, graphs->launches, graphs->bytes) == cudaSuccess) {
        played->count = graphs->count;
        graphs->kept += graphs->count;
        return;
    }
    cudaGetLastError();
    played->graph = nullptr;
    free(played->launches);
    played->launches = nullptr;
    graphs->failed = true;
}

static bool equal(const struct played *played, const struct np_cuda_graphs *graphs)
{
    return played->graph && played->bytes == graphs->bytes &&
           memcmp(played->launches, graphs->launches, graphs->bytes) == 0;
}

/* Has a graph for what is noted; NULL: there is none, or not yet. */
static cudaGraphExec_t graph_for(struct np_cuda_graphs *graphs)
{
    uint64_t hash = hash_of(graphs->launches, graphs->bytes);
    struct played *played = find(graphs, hash);
    if (!played)
        return nullptr;
    if (!played->last || played->hash != hash) {
        forget(graphs, played);
        played->hash = hash;
    } else if (!played->graph) {
        keep(graphs, played);
    }
    played->last = graphs->plays;
    return equal(played, graphs) ? played->graph : nullptr;
}

void np_cuda_graphs_play(struct np_cuda_graphs *graphs)
{
    cudaGraphExec_t graph = nullptr;
    if (graphs->count >= LEAST) {
        graphs->plays++;
        graph = graph_for(graphs);
    }
    if (graph)
        cudaGraphLaunch(graph, graphs->stream);
    else
        make_each(graphs);
    graphs->bytes = 0;
    graphs->count = 0;
}
