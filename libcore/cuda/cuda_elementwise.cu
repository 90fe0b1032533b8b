/* Element by element: bias, activations, gated units, copies of parts, the transpose. */
#include "cuda/launch.cuh"

/* Functions with lambdas have activations as ints, here and below: nvcc cannot name a type beside a
 * function of its name. */
static inline __device__ float act_of(int act, float u)
{
    return np_act((enum np_act)act, u);
}

void np_cuda_bias_add(struct np_team *team, float *y, const float *x, const float *bias,
                      size_t rows, size_t cols)
{
    cuda_cells(team, rows, cols, [=] __device__(size_t r, uint32_t j) {
        y[r * cols + j] = x[r * cols + j] + bias[j];
        return 0u;
    });
}

static bool act_grad_of(struct np_team *team, int act, float *dx, const float *base, const float *u,
                        const float *dy, size_t count)
{
    return cuda_each(team, count, [=] __device__(size_t i) {
        float d = dy[i] * np_act_grad((enum np_act)act, u[i]);
        d = base ? base[i] + d : d;
        dx[i] = d;
        return (uint32_t)!np_is_finite(d);
    });
}

bool np_cuda_act_grad(struct np_team *team, enum np_act act, float *dx, const float *base,
                      const float *u, const float *dy, size_t count)
{
    return act_grad_of(team, act, dx, base, u, dy, count);
}

void np_cuda_bias_glu(struct np_team *team, float *y, float *u, const float *bias, size_t rows,
                      size_t cols)
{
    cuda_cells(team, rows, cols, [=] __device__(size_t r, uint32_t j) {
        float *value = u + r * 2 * cols + j, *gate = value + cols;
        float a = *value + bias[j], b = *gate + bias[cols + j];
        *value = a;
        *gate = b;
        y[r * cols + j] = a * np_sigmoidf(b);
        return 0u;
    });
}

void np_cuda_glu_grad(struct np_team *team, float *du, const float *u, const float *dy, size_t rows,
                      size_t cols)
{
    cuda_cells(team, rows, cols, [=] __device__(size_t r, uint32_t j) {
        size_t at = r * 2 * cols + j;
        float up = dy[r * cols + j], s = np_sigmoidf(u[at + cols]);
        float db = ((up * u[at]) * s) * (1.0f - s);
        du[at] = up * s;
        du[at + cols] = db;
        return 0u;
    });
}

static bool add_of(struct np_team *team, int act, float *y, float *kept, const float *a,
                   const float *b, size_t count)
{
    return cuda_each(team, count, [=] __device__(size_t i) {
        float sum = a[i] + b[i];
        if (kept)
            kept[i] = sum;
        y[i] = act_of(act, sum);
        return (uint32_t)!np_is_finite(sum);
    });
}

bool np_cuda_add(struct np_team *team, enum np_act act, float *y, float *kept, const float *a,
                 const float *b, size_t count)
{
    return add_of(team, act, y, act == NP_ACT_NONE ? nullptr : kept, a, b, count);
}

void np_cuda_distill(struct np_team *team, float *y, const float *p, const float *q,
                     const int32_t *targets, size_t rows, size_t classes, float scale)
{
    cuda_cells(team, rows, classes, [=] __device__(size_t r, uint32_t v) {
        size_t i = r * classes + v;
        if (targets[r] >= 0)
            y[i] = y[i] + (p[i] - q[i]) * scale;
        return 0u;
    });
}

static bool act_each(struct np_team *team, int act, float *y, const float *x, size_t count)
{
    return cuda_each(team, count, [=] __device__(size_t i) {
        float u = x[i];
        y[i] = act_of(act, u);
        return (uint32_t)!np_is_finite(u);
    });
}

bool np_cuda_act(struct np_team *team, enum np_act act, float *y, const float *x, size_t count)
{
    return act_each(team, act, y, x, count);
}

bool np_cuda_finite(struct np_team *team, const float *x, size_t count)
{
    return cuda_each(team, count,
                     [=] __device__(size_t i) { return (uint32_t)!np_is_finite(x[i]); });
}

void np_cuda_fill(struct np_team *team, float *y, size_t count, float value)
{
    cuda_each(team, count, [=] __device__(size_t i) {
        y[i] = value;
        return 0u;
    });
}

void np_cuda_copy(struct np_team *team, float *y, const float *x, size_t count)
{
    cuda_each(team, y == x ? 0 : count, [=] __device__(size_t i) {
        y[i] = x[i];
        return 0u;
    });
}

bool np_cuda_divide(struct np_team *team, float *y, const float *x, const float *gamma,
                    size_t count, float by)
{
    return cuda_each(team, count, [=] __device__(size_t i) {
        float quotient = (gamma ? gamma[i] * x[i] : x[i]) / by;
        y[i] = quotient;
        return (uint32_t)!np_is_finite(quotient);
    });
}

bool np_cuda_rstd(struct np_team *team, float *y, const float *x, size_t count, float eps)
{
    return cuda_each(team, count, [=] __device__(size_t i) {
        float from = x[i], root = 1.0f / sqrtf(from + eps);
        y[i] = root;
        return (uint32_t)!np_is_finite(from) | (uint32_t)!np_is_finite(root);
    });
}

void np_cuda_spread(struct np_team *team, float *y, const float *x, size_t count, size_t width)
{
    cuda_cells(team, count, width, [=] __device__(size_t i, uint32_t j) {
        y[i * width + j] = x[i];
        return 0u;
    });
}

/* Where a row of a slice lies in its tensor. */
static __device__ size_t slice_row(const struct np_slice &slice, size_t row)
{
    size_t k = row % slice.count[2], j = row / slice.count[2] % slice.count[1];
    size_t i = row / slice.count[2] / slice.count[1];
    return i * slice.stride[0] + j * slice.stride[1] + k * slice.stride[2];
}

static size_t slice_rows(const struct np_slice &slice)
{
    return slice.count[0] * slice.count[1] * slice.count[2];
}

void np_cuda_gather(struct np_team *team, float *y, const float *x, const struct np_slice *call)
{
    const struct np_slice slice = *call;
    cuda_cells(team, slice_rows(slice), slice.count[3], [=] __device__(size_t r, uint32_t l) {
        y[r * slice.count[3] + l] = x[slice_row(slice, r) + l];
        return 0u;
    });
}

void np_cuda_scatter(struct np_team *team, float *y, const float *x, const struct np_slice *call)
{
    const struct np_slice slice = *call;
    cuda_cells(team, slice_rows(slice), slice.count[3], [=] __device__(size_t r, uint32_t l) {
        y[slice_row(slice, r) + l] = x[r * slice.count[3] + l];
        return 0u;
    });
}

void np_cuda_hits(struct np_team *team, int32_t *hits, const float *logits, const int32_t *targets,
                  size_t rows, size_t classes)
{
    cuda_each(team, rows, [=] __device__(size_t r) {
        hits[r] = np_first_largest(logits + r * classes, classes) == (size_t)targets[r];
        return 0u;
    });
}

#define TURN 32 /* rows and columns of a part that is turned in shared memory */

static __global__ void __launch_bounds__(NP_BLOCK, 1)
    turn(float *y, const float *x, size_t rows, size_t cols)
{
    NP_SHARED(float, part, [TURN][TURN + 1]);
    size_t top = (size_t)blockIdx.x * TURN, left = (size_t)blockIdx.y * TURN;
    for (unsigned i = threadIdx.y; i < TURN; i += NP_BLOCK / TURN)
        if (top + i < rows && left + threadIdx.x < cols)
            part[i][threadIdx.x] = x[(top + i) * cols + left + threadIdx.x];
    __syncthreads();
    for (unsigned i = threadIdx.y; i < TURN; i += NP_BLOCK / TURN)
        if (left + i < cols && top + threadIdx.x < rows)
            y[(left + i) * rows + top + threadIdx.x] = part[threadIdx.x][i];
}

void np_cuda_transpose(struct np_team *team, float *y, const float *x, size_t rows, size_t cols)
{
    dim3 grid((unsigned)cuda_parts(rows, TURN), (unsigned)cuda_parts(cols, TURN));
    NP_LAUNCH(cuda_team(team), turn, grid, dim3(TURN, NP_BLOCK / TURN), 0, y, x, rows, cols);
}

void np_cuda_merge(struct np_team *team, float *y, const float *a, const float *b, size_t rows,
                   size_t na, size_t nb, size_t lda, size_t ldb, bool interleave)
{
    cuda_cells(team, rows, na + nb, [=] __device__(size_t r, uint32_t j) {
        bool left = interleave ? j % 2 == 0 : j < na;
        size_t from = interleave ? j / 2 : left ? j : j - na;
        y[r * (na + nb) + j] = left ? a[r * lda + from] : b ? b[r * ldb + from] : 0.0f;
        return 0u;
    });
}

bool np_cuda_split(struct np_team *team, float *a, float *b, const float *base_a,
                   const float *base_b, const float *y, size_t rows, size_t na, size_t nb,
                   size_t lda, size_t ldb, bool interleave)
{
    return cuda_cells(team, rows, na + nb, [=] __device__(size_t r, uint32_t j) {
        bool left = interleave ? j % 2 == 0 : j < na;
        size_t to = interleave ? j / 2 : left ? j : j - na, at = r * (left ? lda : ldb) + to;
        float *out = left ? a : b;
        const float *base = left ? base_a : base_b;
        if (!out)
            return 0u;
        float part = y[r * (na + nb) + j];
        part = base ? base[at] + part : part;
        out[at] = part;
        return (uint32_t)!np_is_finite(part);
    });
}
