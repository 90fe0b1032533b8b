/* A warp a row: layer norm, softmax, cross entropy, sums. Lane l of the warp is lane l of the
 * contract's 32-lane sums.
 */
#include "cuda/launch.cuh"

/* f(j) for the elements of a lane, in order. */
template <class Function>
static inline __device__ void lane_each(size_t cols, unsigned lane, const Function &f)
{
    for (size_t j = lane; j < cols; j += NP_WARP)
        f(j);
}

static inline __device__ float lane_sum(const float *x, size_t cols, unsigned lane)
{
    float sum = 0.0f;
    lane_each(cols, lane, [&](size_t j) { sum = sum + x[j]; });
    return cuda_lane_total(sum);
}

static inline __device__ float row_max(const float *x, size_t cols, unsigned lane)
{
    float most = x[0];
    lane_each(cols, lane, [&](size_t j) { most = x[j] > most ? x[j] : most; });
    return cuda_lane_max(most);
}

/* The lane sum of np_expf(x - most). */
static inline __device__ float exp_sum(const float *x, float most, size_t cols, unsigned lane)
{
    float sum = 0.0f;
    lane_each(cols, lane, [&](size_t j) { sum = sum + np_expf(x[j] - most); });
    return cuda_lane_total(sum);
}

void np_cuda_layernorm(struct np_team *team, float *y, float *mean, float *rstd, const float *x,
                       const float *gamma, const float *beta, size_t rows, size_t cols, float eps)
{
    cuda_rows(team, rows, [=] __device__(size_t r, unsigned lane) {
        const float *in = x + r * cols;
        float m = mean ? lane_sum(in, cols, lane) / (float)cols : 0.0f, square = 0.0f, scale;
        lane_each(cols, lane, [&](size_t j) {
            float d = in[j] - m;
            square = np_fmaf(d, d, square);
        });
        scale = 1.0f / sqrtf(cuda_lane_total(square) / (float)cols + eps);
        lane_each(cols, lane, [&](size_t j) {
            float h = (in[j] - m) * scale;
            y[r * cols + j] = mean ? np_fmaf(h, gamma[j], beta[j]) : h * gamma[j];
        });
        if (lane == 0 && mean)
            mean[r] = m;
        if (lane == 0)
            rstd[r] = scale;
        return 0u;
    });
}

bool np_cuda_layernorm_grad(struct np_team *team, float *dx, const float *base, const float *x,
                            const float *dy, const float *mean, const float *rstd,
                            const float *gamma, size_t rows, size_t cols)
{
    return cuda_rows(team, rows, [=] __device__(size_t r, unsigned lane) {
        float m = mean ? mean[r] : 0.0f, scale = rstd[r], a = 0.0f, b = 0.0f;
        size_t row = r * cols;
        uint32_t bad = 0;
        lane_each(cols, lane, [&](size_t j) {
            float h = (x[row + j] - m) * scale, t = dy[row + j] * gamma[j];
            a = a + t;
            b = np_fmaf(t, h, b);
        });
        a = mean ? cuda_lane_total(a) / (float)cols : 0.0f;
        b = cuda_lane_total(b) / (float)cols;
        lane_each(cols, lane, [&](size_t j) {
            float h = (x[row + j] - m) * scale, t = dy[row + j] * gamma[j];
            float d = scale * ((t - a) - h * b);
            d = base ? base[row + j] + d : d;
            dx[row + j] = d;
            bad |= !np_is_finite(d);
        });
        return bad;
    });
}

void np_cuda_rowsum(struct np_team *team, float *out, const float *x, size_t rows, size_t cols)
{
    cuda_rows(team, rows, [=] __device__(size_t r, unsigned lane) {
        float sum = lane_sum(x + r * cols, cols, lane);
        if (lane == 0)
            out[r] = sum;
        return 0u;
    });
}

/* The contract has 32 lanes for the whole tensor, so this is one warp's work. */
void np_cuda_sumsq(struct np_team *team, float *sum, const float *x, size_t count, bool accumulate)
{
    cuda_rows(team, 1, [=] __device__(size_t, unsigned lane) {
        float square = 0.0f;
#pragma unroll 16
        for (size_t i = lane; i < count; i += NP_WARP)
            square = np_fmaf(x[i], x[i], square);
        square = cuda_lane_total(square);
        if (lane == 0)
            *sum = accumulate ? *sum + square : square;
        return 0u;
    });
}

void np_cuda_softmax(struct np_team *team, float *y, const float *x, size_t rows, size_t cols)
{
    cuda_rows(team, rows, [=] __device__(size_t r, unsigned lane) {
        const float *in = x + r * cols;
        float most = row_max(in, cols, lane), sum = exp_sum(in, most, cols, lane);
        lane_each(cols, lane,
                  [&](size_t j) { y[r * cols + j] = np_flushf(np_expf(in[j] - most) / sum); });
        return 0u;
    });
}

void np_cuda_softmax_grad(struct np_team *team, float *dx, const float *y, const float *dy,
                          size_t rows, size_t cols)
{
    cuda_rows(team, rows, [=] __device__(size_t r, unsigned lane) {
        const float *p = y + r * cols, *up = dy + r * cols;
        float a = 0.0f;
        lane_each(cols, lane, [&](size_t j) { a = np_fmaf(p[j], up[j], a); });
        a = cuda_lane_total(a);
        lane_each(cols, lane, [&](size_t j) { dx[r * cols + j] = p[j] * (up[j] - a); });
        return 0u;
    });
}

void np_cuda_xent(struct np_team *team, float *loss, const float *logits, const int32_t *targets,
                  size_t rows, size_t classes, float smoothing)
{
    float on = 1.0f - smoothing, off = smoothing / (float)classes;
    cuda_rows(team, rows, [=] __device__(size_t r, unsigned lane) {
        const float *x = logits + r * classes;
        float most = row_max(x, classes, lane);
        bool none = targets[r] < 0;
        float log_z = np_logf(exp_sum(x, most, classes, lane));
        float d = x[none ? 0 : targets[r]] - most, sum = 0.0f, result = log_z - d;
        if (smoothing != 0.0f) {
            lane_each(classes, lane, [&](size_t v) { sum = sum + (x[v] - most); });
            result = np_fmaf(-off, cuda_lane_total(sum), np_fmaf(-on, d, log_z));
        }
        if (lane == 0)
            loss[r] = none ? 0.0f : result;
        return 0u;
    });
}

void np_cuda_xent_grad(struct np_team *team, float *dlogits, const float *logits,
                       const int32_t *targets, size_t rows, size_t classes, float smoothing,
                       float scale)
{
    float on = 1.0f - smoothing, off = smoothing / (float)classes;
    cuda_rows(team, rows, [=] __device__(size_t r, unsigned lane) {
        const float *x = logits + r * classes;
        float most = row_max(x, classes, lane), z = exp_sum(x, most, classes, lane);
        int32_t target = targets[r];
        lane_each(classes, lane, [&](size_t v) {
            float t = v == (size_t)target ? off + on : off;
            float d = (np_flushf(np_expf(x[v] - most) / z) - t) * scale;
            dlogits[r * classes + v] = target < 0 ? 0.0f : d;
        });
        return 0u;
    });
}
