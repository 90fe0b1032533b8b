/* Embedding, and its gradient: positions sorted by token, so that a token's are one segment, which
 * is summed in order.
 */
#include "cuda/launch.cuh"

void np_cuda_embed(struct np_team *team, float *y, const int32_t *tokens, const float *table,
                   const float *positions, size_t samples, size_t length, size_t cols)
{
    cuda_cells(team, samples * length, cols, [=] __device__(size_t r, uint32_t j) {
        float x = table[(size_t)tokens[r] * cols + j];
        y[r * cols + j] = positions ? x + positions[(uint32_t)r % (uint32_t)length * cols + j] : x;
        return 0u;
    });
}

/* order[place] = row, by token and among equal ones by row. A row's place is the number of those
 * before it: all are compared with all, which for the tens of thousands of a micro-batch is sooner
 * done than a sort in passes. */
static __global__ void __launch_bounds__(NP_BLOCK, 1)
    rank_rows(int32_t *order, const int32_t *tokens, unsigned rows)
{
    NP_SHARED(int32_t, part, [NP_BLOCK]);
    unsigned row = blockIdx.x * NP_BLOCK + threadIdx.x, place = 0;
    int32_t mine = row < rows ? tokens[row] : 0;
    for (unsigned first = 0; first < rows; first += NP_BLOCK) {
        unsigned count = rows - first < NP_BLOCK ? rows - first : NP_BLOCK;
        __syncthreads();
        if (threadIdx.x < count)
            part[threadIdx.x] = tokens[first + threadIdx.x];
        __syncthreads();
        for (unsigned i = 0; i < count; i++)
            place += part[i] < mine || (part[i] == mine && first + i < row);
    }
    if (row < rows)
        order[place] = (int32_t)row;
}

/* Where the segment that begins at `place` ends. */
static __device__ size_t segment_end(const int32_t *order, const int32_t *tokens, size_t place,
                                     size_t rows)
{
    int32_t token = tokens[order[place]];
    size_t low = place + 1, high = rows;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (tokens[order[middle]] == token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void np_cuda_embed_grad(struct np_team *team, float *dtable, float *dpositions,
                        const int32_t *tokens, const float *dy, size_t samples, size_t length,
                        size_t cols)
{
    const struct np_cuda_team *t = cuda_team(team);
    int32_t *order = static_cast<int32_t *>(t->team.scratch);
    size_t rows = samples * length;
    NP_LAUNCH(t, rank_rows, (unsigned)cuda_parts(rows, NP_BLOCK), NP_BLOCK, 0, order, tokens,
              (unsigned)rows);
    cuda_cells(team, rows, cols, [=] __device__(size_t place, uint32_t j) {
        int32_t token = tokens[order[place]];
        if (place > 0 && tokens[order[place - 1]] == token)
            return 0u; /* only the first of a segment sums it */
        float *at = dtable + (size_t)token * cols + j, sum = *at;
        size_t end = segment_end(order, tokens, place, rows);
#pragma unroll 8
        for (size_t p = place; p < end; p++)
            sum = sum + dy[order[p] * cols + j];
        *at = sum;
        return 0u;
    });
    if (!dpositions)
        return;
    cuda_cells(team, length, cols, [=] __device__(size_t position, uint32_t j) {
        float *at = dpositions + position * cols + j, sum = *at;
#pragma unroll 8
        for (size_t r = position; r < rows; r += length)
            sum = sum + dy[r * cols + j];
        *at = sum;
        return 0u;
    });
}
