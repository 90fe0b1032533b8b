/* Scalar reference of num/kernels.h: what belongs to the columns of segments. */
#ifndef NP_NUM_COLNORM_SCALAR_H
#define NP_NUM_COLNORM_SCALAR_H

#include <math.h>

#include "num/activation.h"
#include "num/columns_scalar.h"

/* h of element (r, c); column is c of the segment that holds row r. */
static float colnorm_h(const struct np_colnorm *p, size_t r, size_t c, size_t column)
{
    return (p->x[r * p->cols + c] - p->mean[column]) * p->rstd[column];
}

static bool colnorm(struct np_team *team, float *y, const struct np_colnorm *p)
{
    struct np_share share = np_team_share(team, p->segments * p->rows, 1);
    bool finite = true;
    for (size_t r = share.begin; r < share.end; r++) {
        for (size_t c = 0; c < p->cols; c++) {
            float h = colnorm_h(p, r, c, r / p->rows * p->cols + c);
            float u = fmaf(h, p->gamma[c], p->beta[c]);
            if (p->residual)
                u = p->residual[r * p->cols + c] + u;
            if (p->kept)
                p->kept[r * p->cols + c] = u;
            y[r * p->cols + c] = np_act(p->act, u);
            finite = finite && np_is_finite(u);
        }
    }
    return finite;
}

static void colnorm_grad_sums(struct np_team *team, float *sum, float *dot,
                              const struct np_colnorm *p, const float *dy, enum np_sum how)
{
    struct np_share share = np_team_share(team, p->segments * p->cols, 1);
    for (size_t i = share.begin; i < share.end; i++) {
        size_t c = i % p->cols, first = i / p->cols * p->rows;
        for (size_t begin = 0, end; begin < p->rows; begin = end) {
            float plain = 0.0f, product = 0.0f;
            end = np_chunk_end(begin, p->rows, 0);
            for (size_t r = first + begin; r < first + end; r++) {
                float h = colnorm_h(p, r, c, i), u = fmaf(h, p->gamma[c], p->beta[c]);
                float du = dy[r * p->cols + c] * np_act_grad(p->act, u);
                plain = plain + du;
                product = fmaf(du, h, product);
            }
            put_chunk(sum, plain, i, begin, p->rows, p->cols, how);
            put_chunk(dot, product, i, begin, p->rows, p->cols, how);
        }
    }
}

static bool colnorm_grad(struct np_team *team, float *dx, const float *base,
                         const struct np_colnorm *p, const float *dy, const float *a,
                         const float *b)
{
    struct np_share share = np_team_share(team, p->segments * p->rows, 1);
    bool finite = true;
    for (size_t r = share.begin; r < share.end; r++) {
        for (size_t c = 0; c < p->cols; c++) {
            size_t i = r / p->rows * p->cols + c, at = r * p->cols + c;
            float h = colnorm_h(p, r, c, i), u = fmaf(h, p->gamma[c], p->beta[c]);
            float du = dy[at] * np_act_grad(p->act, u);
            float d = p->rstd[i] * ((du * p->gamma[c] - a[i]) - h * b[i]);
            dx[at] = base ? base[at] + d : d;
            finite = finite && np_is_finite(dx[at]);
        }
    }
    return finite;
}

static bool col_scale(struct np_team *team, float *y, const float *base, const float *x,
                      const float *s, size_t segments, size_t rows, size_t cols)
{
    struct np_share share = np_team_share(team, segments * rows, 1);
    bool finite = true;
    for (size_t r = share.begin; r < share.end; r++) {
        for (size_t c = 0; c < cols; c++) {
            float scaled = x[r * cols + c] * s[r / rows * cols + c];
            scaled = base ? base[r * cols + c] + scaled : scaled;
            y[r * cols + c] = scaled;
            finite = finite && np_is_finite(scaled);
        }
    }
    return finite;
}

static bool col_spread(struct np_team *team, float *y, const float *base, const float *s,
                       size_t segments, size_t rows, size_t cols)
{
    struct np_share share = np_team_share(team, segments * rows, 1);
    bool finite = true;
    for (size_t r = share.begin; r < share.end; r++) {
        for (size_t c = 0; c < cols; c++) {
            float spread = s[r / rows * cols + c];
            spread = base ? base[r * cols + c] + spread : spread;
            y[r * cols + c] = spread;
            finite = finite && np_is_finite(spread);
        }
    }
    return finite;
}

#endif
