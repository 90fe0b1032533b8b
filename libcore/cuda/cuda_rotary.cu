/* Rotary positions: a thread takes one pair of a row, and of the rows after it. */
#include "cuda/launch.cuh"

extern "C" {
#include "num/rotary.h"
}

/* An np_rotation without padding (cuda_graphs.cuh). */
struct rotation {
    size_t rows, cols, heads, width;
    double octaves;
    uint32_t length, back;
};

static __global__ void __launch_bounds__(NP_BLOCK, 1)
    rotate_pairs(float *y, const float *x, struct rotation r)
{
    size_t half = r.width / 2;
    size_t pair = (size_t)blockIdx.y * NP_BLOCK + threadIdx.x, i = pair % half;
    if (pair >= r.heads * half)
        return;
    uint64_t step = np_rotary_step(i, r.width, r.octaves);
    for (size_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
        size_t at = row * r.cols + pair / half * r.width + i;
        float turn = np_rotary_turn(step, (uint32_t)row % r.length);
        float u = x[at], v = x[at + half], c = np_cos2pif(turn), s = np_sin2pif(turn);
        s = r.back ? -s : s;
        y[at] = np_fmaf(u, c, -(v * s));
        y[at + half] = np_fmaf(v, c, u * s);
    }
}

void np_cuda_rotate(struct np_team *team, float *y, const float *x, const struct np_rotation *r)
{
    const struct np_cuda_team *t = cuda_team(team);
    size_t rows = r->samples * r->length, cols = r->cols, turned = r->heads * r->width;
    struct rotation rotation = {.rows = rows,
                                .cols = cols,
                                .heads = r->heads,
                                .width = r->width,
                                .octaves = np_rotary_octaves(r->base),
                                .length = (uint32_t)r->length,
                                .back = r->back};
    dim3 grid(cuda_blocks(rows, NP_BLOCKS_MOST), (unsigned)cuda_parts(turned / 2, NP_BLOCK));
    NP_LAUNCH(t, rotate_pairs, grid, NP_BLOCK, 0, y, x, rotation);
    if (y != x)
        cuda_cells(team, rows, cols - turned, [=] __device__(size_t row, uint32_t j) {
            size_t at = row * cols + turned + j;
            y[at] = x[at];
            return 0u;
        });
}
