/* What belongs to columns: sums over rows, norms with statistics of columns, scales. */
#include "cuda/columns.cuh"

template <class Term>
static void sum_one(struct np_team *team, float *out, size_t segments, size_t rows, size_t cols,
                    size_t grain, enum np_sum how, const Term &term)
{
    sum_columns<1, Term>(team, {{out}, segments, rows, cols, grain, how, false, term});
}

void np_cuda_col_sum(struct np_team *team, float *out, const float *x, size_t segments, size_t rows,
                     size_t cols, size_t grain, enum np_sum how)
{
    auto term = [=] __device__(float *acc, size_t segment, size_t r, uint32_t c) {
        *acc = *acc + x[(segment * rows + r) * cols + c];
    };
    sum_one(team, out, segments, rows, cols, grain, how, term);
}

void np_cuda_col_square(struct np_team *team, float *out, const float *x, const float *mean,
                        size_t segments, size_t rows, size_t cols, enum np_sum how)
{
    auto term = [=] __device__(float *acc, size_t segment, size_t r, uint32_t c) {
        float d = x[(segment * rows + r) * cols + c] - mean[segment * cols + c];
        *acc = np_fmaf(d, d, *acc);
    };
    sum_one(team, out, segments, rows, cols, 0, how, term);
}

void np_cuda_col_dot(struct np_team *team, float *out, const float *a, const float *b,
                     size_t segments, size_t rows, size_t cols, size_t grain)
{
    auto term = [=] __device__(float *acc, size_t segment, size_t r, uint32_t c) {
        size_t at = (segment * rows + r) * cols + c;
        *acc = np_fmaf(a[at], b[at], *acc);
    };
    sum_one(team, out, segments, rows, cols, grain, NP_SUM_NEW, term);
}

void np_cuda_col_total(struct np_team *team, float *out, const float *x, size_t segments,
                       size_t chunks, size_t cols)
{
    cuda_cells(team, segments, cols, [=] __device__(size_t segment, uint32_t c) {
        const float *chunk = x + segment * chunks * cols + c;
        float sum = *chunk;
        for (size_t k = 1; k < chunks; k++)
            sum = sum + chunk[k * cols];
        out[segment * cols + c] = sum;
        return 0u;
    });
}

void np_cuda_layernorm_grad_weight(struct np_team *team, float *dgamma, float *dbeta,
                                   const float *x, const float *dy, const float *mean,
                                   const float *rstd, size_t rows, size_t cols, size_t grain,
                                   bool accumulate)
{
    auto term = [=] __device__(float *acc, size_t, size_t r, uint32_t c) {
        float h = (x[r * cols + c] - mean[r]) * rstd[r], up = dy[r * cols + c];
        acc[0] = np_fmaf(up, h, acc[0]);
        acc[1] = acc[1] + up;
    };
    enum np_sum how = accumulate ? NP_SUM_ONTO : NP_SUM_NEW;
    sum_columns<2, decltype(term)>(team, {{dgamma, dbeta}, 1, rows, cols, grain, how, false, term});
}

/* h and u of one element: row r of all, column c, `at` its place, i that of its statistics. */
struct normed {
    float h, u;
};

static inline __device__ normed normed_at(const struct np_colnorm &p, size_t at, size_t i,
                                          uint32_t c)
{
    float h = (p.x[at] - p.mean[i]) * p.rstd[i];
    return {h, np_fmaf(h, p.gamma[c], p.beta[c])};
}

/* Where the statistics of row r begin; one segment is worth no division. */
static inline __device__ size_t segment_of(size_t r, size_t segments, size_t rows)
{
    return segments == 1 ? 0 : (uint32_t)r / (uint32_t)rows;
}

bool np_cuda_colnorm(struct np_team *team, float *y, const struct np_colnorm *norm)
{
    const struct np_colnorm p = *norm;
    return cuda_cells(team, p.segments * p.rows, p.cols, [=] __device__(size_t r, uint32_t c) {
        size_t at = r * p.cols + c, i = segment_of(r, p.segments, p.rows) * p.cols + c;
        float u = normed_at(p, at, i, c).u;
        u = p.residual ? p.residual[at] + u : u;
        if (p.kept)
            p.kept[at] = u;
        y[at] = np_act(p.act, u);
        return (uint32_t)!np_is_finite(u);
    });
}

void np_cuda_colnorm_grad_sums(struct np_team *team, float *sum, float *dot,
                               const struct np_colnorm *norm, const float *dy, enum np_sum how)
{
    const struct np_colnorm p = *norm;
    auto term = [=] __device__(float *acc, size_t segment, size_t r, uint32_t c) {
        size_t at = (segment * p.rows + r) * p.cols + c;
        normed n = normed_at(p, at, segment * p.cols + c, c);
        float du = dy[at] * np_act_grad(p.act, n.u);
        acc[0] = acc[0] + du;
        acc[1] = np_fmaf(du, n.h, acc[1]);
    };
    sum_columns<2, decltype(term)>(team,
                                   {{sum, dot}, p.segments, p.rows, p.cols, 0, how, false, term});
}

bool np_cuda_colnorm_grad(struct np_team *team, float *dx, const float *base,
                          const struct np_colnorm *norm, const float *dy, const float *a,
                          const float *b)
{
    const struct np_colnorm p = *norm;
    return cuda_cells(team, p.segments * p.rows, p.cols, [=] __device__(size_t r, uint32_t c) {
        size_t at = r * p.cols + c, i = segment_of(r, p.segments, p.rows) * p.cols + c;
        normed n = normed_at(p, at, i, c);
        float du = dy[at] * np_act_grad(p.act, n.u);
        float d = p.rstd[i] * ((du * p.gamma[c] - a[i]) - n.h * b[i]);
        d = base ? base[at] + d : d;
        dx[at] = d;
        return (uint32_t)!np_is_finite(d);
    });
}

bool np_cuda_col_scale(struct np_team *team, float *y, const float *base, const float *x,
                       const float *s, size_t segments, size_t rows, size_t cols)
{
    return cuda_cells(team, segments * rows, cols, [=] __device__(size_t r, uint32_t c) {
        size_t at = r * cols + c;
        float scaled = x[at] * s[segment_of(r, segments, rows) * cols + c];
        scaled = base ? base[at] + scaled : scaled;
        y[at] = scaled;
        return (uint32_t)!np_is_finite(scaled);
    });
}

bool np_cuda_col_spread(struct np_team *team, float *y, const float *base, const float *s,
                        size_t segments, size_t rows, size_t cols)
{
    return cuda_cells(team, segments * rows, cols, [=] __device__(size_t r, uint32_t c) {
        size_t at = r * cols + c;
        float spread = s[segment_of(r, segments, rows) * cols + c];
        spread = base ? base[at] + spread : spread;
        y[at] = spread;
        return (uint32_t)!np_is_finite(spread);
    });
}
