/* The optimizer's update with the fingerprint of what it writes, in one pass. */
#include "cuda/launch.cuh"

extern "C" {
#include "num/optimizer_element.h"
}

/* The block's sums to *sum, by one addition: many blocks would wait for each other there. Integers:
 * any order gives the same. */
static __device__ void add_fingerprint(unsigned long long *sum, uint64_t part)
{
    NP_SHARED(uint64_t, parts, [NP_BLOCK / NP_WARP]);
    for (int stride = NP_WARP / 2; stride > 0; stride /= 2) {
        uint32_t low = __shfl_xor_sync(NP_ALL_LANES, (uint32_t)part, stride);
        uint32_t high = __shfl_xor_sync(NP_ALL_LANES, (uint32_t)(part >> 32), stride);
        part += (uint64_t)high << 32 | low;
    }
    if (threadIdx.x % NP_WARP == 0)
        parts[threadIdx.x / NP_WARP] = part;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int i = 1; i < NP_BLOCK / NP_WARP; i++)
        part += parts[i];
    atomicAdd(sum, (unsigned long long)part);
}

enum rule { ADAMW, SGD, READ };

/* Blocks along y: tensors. */
template <enum rule rule>
static __global__ void __launch_bounds__(NP_BLOCK, 1)
    update(struct np_layer_update all, unsigned long long *sum, uint32_t *verdict)
{
    const struct np_update u = np_update_of(&all, (int)blockIdx.y);
    size_t step = (size_t)gridDim.x * NP_BLOCK;
    float scale = rule == READ ? 1.0f : clip_scale(&u);
    struct tally tally = {0, scale > 0};
    if ((size_t)blockIdx.x * NP_BLOCK >= u.count && blockIdx.x > 0)
        return; /* blocks are as many as the largest tensor wants */
    for (size_t i = (size_t)blockIdx.x * NP_BLOCK + threadIdx.x; i < u.count; i += step) {
        if (rule == ADAMW)
            adamw_element(&u, scale, i, &tally);
        else if (rule == SGD)
            sgd_element(&u, scale, i, &tally);
        else
            tally.sum += np_fingerprint_mix(u.address + i, np_float_bits(u.w[i]));
    }
    add_fingerprint(sum, tally.sum);
    cuda_judge(verdict, !tally.finite);
}

template <enum rule rule>
static bool launch(struct np_team *team, const struct np_layer_update *all, uint64_t *sum)
{
    const struct np_cuda_team t = cuda_at_once(team); /* rates change */
    static_assert(sizeof *sum == sizeof(unsigned long long), "what atomicAdd adds");
    size_t most = 0;
    for (int i = 0; i < all->count; i++)
        most = all->of[i].count > most ? all->of[i].count : most;
    if (most == 0)
        return true;
    auto kernel = update<rule>;
    dim3 grid(cuda_blocks(cuda_parts(most, NP_BLOCK), NP_BLOCKS_MOST), (unsigned)all->count);
    NP_LAUNCH(&t, kernel, grid, NP_BLOCK, 0, *all, reinterpret_cast<unsigned long long *>(sum),
              t.verdict);
    return true;
}

bool np_cuda_adamw(struct np_team *team, const struct np_layer_update *all, uint64_t *sum)
{
    return launch<ADAMW>(team, all, sum);
}

bool np_cuda_sgd(struct np_team *team, const struct np_layer_update *all, uint64_t *sum)
{
    return launch<SGD>(team, all, sum);
}

uint64_t np_cuda_fingerprint(struct np_team *team, const float *x, size_t count, uint64_t address)
{
    const struct np_cuda_team t = cuda_at_once(team);
    uint64_t *sum = static_cast<uint64_t *>(t.team.scratch), result = 0;
    struct np_layer_update all = {};
    all.layer.w = const_cast<float *>(x); /* only read */
    all.layer.address = address;
    all.of[0].count = count;
    all.count = 1;
    cudaMemsetAsync(sum, 0, sizeof *sum, t.stream);
    launch<READ>(team, &all, sum);
    cudaMemcpyAsync(&result, sum, sizeof result, cudaMemcpyDeviceToHost, t.stream);
    cudaStreamSynchronize(t.stream);
    return result;
}
