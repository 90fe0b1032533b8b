/* Copies from the memory of one GPU to that of another, on the stream of the crew that asks. */
#include <cuda_runtime.h>
#include <stdlib.h>

extern "C" {
#include "base/memory.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_team.h"
}

struct peers {
    struct np_link base;
    int numbers[NP_CUDA_MOST];
};

struct copying {
    int from, to; /* numbers of GPUs */
    const struct np_link_part *parts;
    int count;
    cudaError_t error;
};

static void copy(struct np_team *team, void *argument)
{
    struct copying *c = static_cast<struct copying *>(argument);
    cudaStream_t stream = reinterpret_cast<struct np_cuda_team *>(team)->stream;
    for (int i = 0; i < c->count && c->error == cudaSuccess; i++)
        c->error = cudaMemcpyPeerAsync(c->parts[i].to, c->to, c->parts[i].from, c->from,
                                       (size_t)c->parts[i].bytes, stream);
}

static enum np_status carry(struct np_link *link, struct np_crew *crew, int from, int to,
                            const struct np_link_part *parts, int count, struct np_error *err)
{
    const struct peers *peers = reinterpret_cast<const struct peers *>(link);
    struct copying c = {peers->numbers[from], peers->numbers[to], parts, count, cudaSuccess};
    np_crew_run(crew, copy, &c);
    if (c.error == cudaSuccess)
        return NP_OK;
    return np_fail(err, NP_EIO, "cannot copy from CUDA device %d to device %d: %s", c.from, c.to,
                   cudaGetErrorString(c.error));
}

static void peers_free(struct np_link *link)
{
    free(link);
}

static const struct np_link_ops peer_ops = {.name = "peer", .carry = carry, .free = peers_free};

enum np_status np_cuda_peers(struct np_link **out, const struct np_device *devices, int count,
                             struct np_error *err)
{
    struct peers *peers = nullptr;
    enum np_status status = np_cuda_join(devices, count, true, err);
    if (status == NP_OK)
        status = np_zalloc(&peers, 1, sizeof *peers, err);
    if (status != NP_OK)
        return status;
    peers->base.ops = &peer_ops;
    for (int i = 0; i < count; i++)
        peers->numbers[i] = devices[i].number;
    *out = &peers->base;
    return NP_OK;
}
