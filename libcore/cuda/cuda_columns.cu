/* What belongs to columns: sums over rows, norms with statistics of columns, scales. */
#include "cuda/columns.cuh"

struct sum_terms : column_terms {
    const float *x;
    size_t rows, cols;

    __device__ void fetch(float *v, size_t segment, size_t r, uint32_t c, int) const
    {
        v[0] = x[(segment * rows + r) * cols + c];
    }
};

/* A thread a column where they are short: of a block most threads would have no row. */
#define FEW_ROWS 32

static void sum_few(struct np_team *team, float *out, const float *x, size_t segments, size_t rows,
                    size_t cols)
{
    cuda_cells(team, segments, cols, [=] __device__(size_t segment, uint32_t c) {
        float sum = 0.0f;
        for (size_t r = 0; r < rows; r++)
            sum = sum + x[(segment * rows + r) * cols + c];
        out[segment * cols + c] = sum;
        return 0u;
    });
}

void np_cuda_col_sum(struct np_team *team, float *out, const float *x, size_t segments, size_t rows,
                     size_t cols, size_t grain, enum np_sum how)
{
    if (segments > 1 && rows > 0 && rows <= FEW_ROWS && grain == 0 && how == NP_SUM_NEW) {
        sum_few(team, out, x, segments, rows, cols);
        return;
    }
    sum_columns(team, column_sums<COLUMN_SUM, sum_terms>{
                          {out}, segments, rows, cols, grain, how, false, {{}, x, rows, cols}});
}

struct square_terms : column_terms {
    const float *x, *mean;
    size_t rows, cols;

    __device__ void fetch(float *v, size_t segment, size_t r, uint32_t c, int) const
    {
        v[0] = v[1] = x[(segment * rows + r) * cols + c] - mean[segment * cols + c];
    }
};

void np_cuda_col_square(struct np_team *team, float *out, const float *x, const float *mean,
                        size_t segments, size_t rows, size_t cols, enum np_sum how)
{
    sum_columns(team, column_sums<COLUMN_DOT, square_terms>{
                          {out}, segments, rows, cols, 0, how, false, {{}, x, mean, rows, cols}});
}

struct dot_terms : column_terms {
    const float *a, *b;
    size_t rows, cols;

    __device__ void fetch(float *v, size_t segment, size_t r, uint32_t c, int) const
    {
        size_t at = (segment * rows + r) * cols + c;
        v[0] = a[at];
        v[1] = b[at];
    }
};

void np_cuda_col_dot(struct np_team *team, float *out, const float *a, const float *b,
                     size_t segments, size_t rows, size_t cols, size_t grain)
{
    sum_columns(team,
                column_sums<COLUMN_DOT, dot_terms>{
                    {out}, segments, rows, cols, grain, NP_SUM_NEW, false, {{}, a, b, rows, cols}});
}

/* A thread a column of a moment. */
struct moment_totals {
    struct np_moments all;

    __device__ uint32_t operator()(size_t number, uint32_t c) const
    {
        const struct np_moment m = number ? all.of[1] : all.of[0]; /* a place would be memory */
        float total = add_chunks_to(0.0f, false, m.sums + c, all.chunks, all.cols);
        uint32_t bad;
        if (m.total)
            m.total[c] = total;
        if (!m.quotient && !m.stats && !m.rstd)
            return 0u;
        float quotient = (m.gamma ? m.gamma[c] * total : total) / all.by;
        bad = !np_is_finite(quotient);
        if (m.quotient)
            m.quotient[c] = quotient;
        if (m.stats) {
            float sum = m.stats[c] + quotient;
            m.stats[c] = sum;
            bad |= !np_is_finite(sum);
        }
        if (m.rstd) {
            float root = 1.0f / sqrtf(quotient + all.eps);
            m.rstd[c] = root;
            bad |= !np_is_finite(root);
        }
        return bad;
    }
};

bool np_cuda_moments(struct np_team *team, const struct np_moments *moments)
{
    return cuda_cells(team, (size_t)moments->count, moments->cols, moment_totals{*moments});
}

bool np_cuda_norm_weight(struct np_team *team, float *dgamma, float *dbeta, const float *dot,
                         const float *sum, size_t cols, bool accumulate)
{
    return cuda_each(team, cols, [=] __device__(size_t i) {
        float gamma = 0.0f + dot[i], beta = 0.0f + sum[i];
        gamma = accumulate ? dgamma[i] + gamma : gamma;
        beta = accumulate ? dbeta[i] + beta : beta;
        dgamma[i] = gamma;
        dbeta[i] = beta;
        return (uint32_t)!np_is_finite(gamma) | (uint32_t)!np_is_finite(beta);
    });
}

struct layernorm_terms : column_terms {
    const float *x, *dy, *mean, *rstd;
    size_t cols;

    __device__ void fetch(float *v, size_t, size_t r, uint32_t c, int) const
    {
        v[0] = dy[r * cols + c];
        v[1] = (x[r * cols + c] - mean[r]) * rstd[r];
    }
};

struct rmsnorm_terms : column_terms {
    const float *x, *dy, *rstd;
    size_t cols;

    __device__ void fetch(float *v, size_t, size_t r, uint32_t c, int) const
    {
        v[0] = dy[r * cols + c];
        v[1] = x[r * cols + c] * rstd[r];
    }
};

void np_cuda_layernorm_grad_weight(struct np_team *team, float *dgamma, float *dbeta,
                                   const float *x, const float *dy, const float *mean,
                                   const float *rstd, size_t rows, size_t cols, size_t grain,
                                   bool accumulate)
{
    enum np_sum how = accumulate ? NP_SUM_ONTO : NP_SUM_NEW;
    layernorm_terms terms = {{}, x, dy, mean, rstd, cols};
    if (!mean) {
        sum_columns(team, column_sums<COLUMN_DOT, rmsnorm_terms>{
                              {dgamma}, 1, rows, cols, grain, how, false, {{}, x, dy, rstd, cols}});
        return;
    }
    sum_columns(team, column_sums<COLUMN_SUM_DOT, layernorm_terms>{
                          {dbeta, dgamma}, 1, rows, cols, grain, how, false, terms});
}

/* h and u of one element x of column c; i: the place of its statistics. */
struct normed {
    float h, u;
};

static inline __device__ normed normed_of(const struct np_colnorm &p, float x, size_t i, uint32_t c)
{
    float h = (x - p.mean[i]) * p.rstd[i];
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
        float u = normed_of(p, p.x[at], i, c).u;
        u = p.residual ? p.residual[at] + u : u;
        if (p.kept)
            p.kept[at] = u;
        y[at] = np_act(p.act, u);
        return (uint32_t)!np_is_finite(u);
    });
}

struct colnorm_terms : column_terms {
    struct np_colnorm p;
    const float *dy;

    __device__ void fetch(float *v, size_t segment, size_t r, uint32_t c, int) const
    {
        size_t at = (segment * p.rows + r) * p.cols + c;
        v[0] = dy[at];
        v[1] = p.x[at];
    }

    __device__ void work(float *v, size_t segment, uint32_t c) const
    {
        normed n = normed_of(p, v[1], segment * p.cols + c, c);
        v[0] = v[0] * np_act_grad(p.act, n.u);
        v[1] = n.h;
    }
};

void np_cuda_colnorm_grad_sums(struct np_team *team, float *sum, float *dot,
                               const struct np_colnorm *norm, const float *dy, enum np_sum how)
{
    sum_columns(
        team,
        column_sums<COLUMN_SUM_DOT, colnorm_terms>{
            {sum, dot}, norm->segments, norm->rows, norm->cols, 0, how, false, {{}, *norm, dy}});
}

bool np_cuda_colnorm_grad(struct np_team *team, float *dx, const float *base,
                          const struct np_colnorm *norm, const float *dy, const float *a,
                          const float *b)
{
    const struct np_colnorm p = *norm;
    return cuda_cells(team, p.segments * p.rows, p.cols, [=] __device__(size_t r, uint32_t c) {
        size_t at = r * p.cols + c, i = segment_of(r, p.segments, p.rows) * p.cols + c;
        normed n = normed_of(p, p.x[at], i, c);
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
