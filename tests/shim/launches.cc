/* Launches of the shim: of kernels one by one, and of graphs of them. */
#include <stdlib.h>

#include "shared.h"
#include "state.h"

enum { KERNELS = 4096 };

static struct shim_kernel known[KERNELS]; /* by address; kernel NULL: none */

/* With the lock held. */
static struct shim_kernel *place_of(const void *kernel)
{
    size_t at = (uintptr_t)kernel / 16;
    for (int i = 0; i < KERNELS; i++, at++) {
        struct shim_kernel *k = &known[at % KERNELS];
        if (!k->kernel || k->kernel == kernel)
            return k;
    }
    die("there are too many kernels");
}

const void *shim_know(const struct shim_kernel *kernel)
{
    lock();
    struct shim_kernel *place = place_of(kernel->kernel);
    if (!place->kernel)
        *place = *kernel;
    unlock(cudaSuccess);
    return kernel->kernel;
}

cudaError_t shim_allow(const void *kernel, int bytes)
{
    lock();
    if (refused("cudaFuncSetAttribute") || bytes > SHARED_MOST)
        return unlock(cudaErrorInvalidValue);
    shared_allow(kernel, current < 0 ? 0 : current, (size_t)bytes);
    return unlock(cudaSuccess);
}

/* A kernel's launch, and behind it what was taken of its arguments. */
struct launch {
    struct shim_work work;
    struct shim_shape shape;
    struct shim_kernel kernel;
    alignas(16) char taken[];
};

static void run(struct shim_work *work)
{
    struct launch *l = reinterpret_cast<struct launch *>(work);
    shim_run(&l->shape, l->kernel.call, l->taken);
}

/* With the lock held; from malloc. */
static struct launch *launch_of(const void *kernel, dim3 grid, dim3 block, void **arguments,
                                size_t shared)
{
    const struct shim_kernel *place = place_of(kernel);
    if (!place->kernel)
        die("nobody knows the kernel that is launched");
    struct launch *l = static_cast<struct launch *>(malloc(sizeof *l + place->bytes));
    memset(static_cast<void *>(l), 0, sizeof *l);
    l->work.run = run;
    l->work.name = place->name;
    l->shape = {place->name, kernel, grid,
                block,       shared, shared_allowed(kernel, current < 0 ? 0 : current)};
    l->kernel = *place;
    place->take(l->taken, kernel, arguments);
    return l;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream)
{
    lock();
    if (stream && stream->device != current)
        return unlock(cudaErrorInvalidResourceHandle);
    if (refused("launch"))
        return unlock(cudaErrorUnknown);
    struct launch *l = launch_of(kernel, grid, block, arguments, shared);
    unlock(cudaSuccess);
    shim_post(stream, &l->work);
    return cudaSuccess;
}

/* --- graphs --------------------------------------------------------------------------------- */

unsigned shim_graphs_launched, shim_graphs_there;

/* Launches in a row, by what would be next in a stream. */
struct CUgraph_st {
    struct launch *first, *last;
};
struct CUgraphExec_st {
    struct CUgraph_st graph;
    int device;
    cudaStream_t stream; /* of the last launch */
};

static struct launch *after(const struct launch *l)
{
    return reinterpret_cast<struct launch *>(l->work.next);
}

static void append(struct CUgraph_st *graph, struct launch *l)
{
    if (graph->last)
        graph->last->work.next = &l->work;
    else
        graph->first = l;
    graph->last = l;
}

static struct launch *again(const struct launch *l)
{
    size_t bytes = sizeof *l + l->kernel.bytes;
    struct launch *copy = static_cast<struct launch *>(malloc(bytes));
    memcpy(static_cast<void *>(copy), static_cast<const void *>(l), bytes);
    copy->work.next = NULL;
    return copy;
}

static void clear(struct CUgraph_st *graph)
{
    while (graph->first) {
        struct launch *l = graph->first;
        graph->first = after(l);
        free(l);
    }
}

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned)
{
    lock();
    if (refused(__func__))
        return unlock(cudaErrorMemoryAllocation);
    *graph = static_cast<cudaGraph_t>(calloc(1, sizeof **graph));
    return unlock(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    clear(graph);
    free(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *before, size_t count,
                                   const struct cudaKernelNodeParams *params)
{
    lock();
    need_device();
    if (refused(__func__))
        return unlock(cudaErrorMemoryAllocation);
    struct launch *last = graph->last;
    if (count != (last != NULL) || (last && *before != reinterpret_cast<cudaGraphNode_t>(last)))
        die("a graph's kernel does not follow the one before it");
    append(graph, launch_of(params->func, params->gridDim, params->blockDim, params->kernelParams,
                            params->sharedMemBytes));
    *node = reinterpret_cast<cudaGraphNode_t>(graph->last);
    return unlock(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    lock();
    need_device();
    if (refused(__func__))
        return unlock(cudaErrorMemoryAllocation);
    *exec = static_cast<cudaGraphExec_t>(calloc(1, sizeof **exec));
    for (const struct launch *l = graph->first; l; l = after(l))
        append(&(*exec)->graph, again(l));
    (*exec)->device = current;
    shim_graphs_there++;
    return unlock(cudaSuccess);
}

/* Not while it runs, or may. */
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    lock();
    for (cudaStream_t s = shim.streams; s; s = s->next)
        if (s == exec->stream && s->first && !shim.dead)
            die("a graph is destroyed that its stream may not be done with");
    shim_graphs_there--;
    unlock(cudaSuccess);
    clear(&exec->graph);
    free(exec);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    lock();
    if (stream->device != current || exec->device != current)
        return unlock(cudaErrorInvalidResourceHandle);
    if (refused(__func__))
        return unlock(cudaErrorUnknown);
    shim_graphs_launched++;
    exec->stream = stream;
    unlock(cudaSuccess);
    for (const struct launch *l = exec->graph.first; l; l = after(l))
        shim_post(stream, &again(l)->work);
    return cudaSuccess;
}
