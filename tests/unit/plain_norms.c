#include "plain_nodes.h"

#include <math.h>
#include <stdlib.h>

/* Layer norm and RMS norm. */
void plain_row_norm(struct plain *p, const struct node *n, bool forward)
{
    bool mean = n->is->op == NP_NODE_LAYER_NORM;
    float **kept = p->kept[n->number], *dx;
    if (forward) {
        kept[0] = mean ? plain_array(n->rows) : NULL;
        kept[1] = plain_array(n->rows);
        p->kernels->layernorm(p->team, n->y, kept[0], kept[1], n->x[0], n->w[0],
                              mean ? n->w[1] : NULL, n->rows, n->cols, NP_NORM_EPS);
        return;
    }
    dx = plain_array(n->count);
    p->kernels->layernorm_grad(p->team, dx, NULL, n->x[0], n->dy, kept[0], kept[1], n->w[0],
                               n->rows, n->cols);
    plain_take(p, n->is->in[0], dx);
    p->kernels->layernorm_grad_weight(p->team, n->g[0], mean ? n->g[1] : NULL, n->x[0], n->dy,
                                      kept[0], kept[1], n->rows, n->cols,
                                      p->call->grain * n->positions, p->accumulate);
}

/* Batch norm: one segment, groups of one channel. Group norm: a segment a sample. */
static struct np_colnorm norm_of(const struct plain *p, const struct node *n)
{
    bool batch = n->is->op == NP_NODE_BATCH_NORM;
    return (struct np_colnorm){.segments = batch ? 1 : n->samples,
                               .rows = batch ? n->rows : n->positions,
                               .cols = n->cols,
                               .x = n->x[0],
                               .mean = p->kept[n->number][0],
                               .rstd = p->kept[n->number][1],
                               .gamma = n->w[0],
                               .beta = n->w[1],
                               .act = n->is->act};
}

/* sums of columns, in place, over their groups and divided by how many elements those have */
static void mean_of_groups(struct plain *p, const struct node *n, float *sums)
{
    struct np_colnorm norm = norm_of(p, n);
    size_t groups = n->is->op == NP_NODE_BATCH_NORM ? n->cols : (size_t)n->is->groups;
    size_t width = n->cols / groups, count = norm.segments * groups;
    float *total = plain_array(count);
    p->kernels->rowsum(p->team, total, sums, count, width);
    for (size_t i = 0; i < count * width; i++)
        sums[i] = (width > 1 || n->is->op == NP_NODE_GROUP_NORM ? total[i / width] : sums[i]) /
                  (float)(norm.rows * width);
    free(total);
}

static void col_norm_forward(struct plain *p, const struct node *n)
{
    struct np_colnorm norm = norm_of(p, n);
    size_t count = norm.segments * norm.cols;
    float *mean = p->kept[n->number][0] = plain_array(count);
    float *rstd = p->kept[n->number][1] = plain_array(count);
    p->kernels->col_sum(p->team, mean, norm.x, norm.segments, norm.rows, norm.cols, 0, false);
    mean_of_groups(p, n, mean);
    p->kernels->col_square(p->team, rstd, norm.x, mean, norm.segments, norm.rows, norm.cols,
                           NP_SUM_NEW);
    mean_of_groups(p, n, rstd);
    for (size_t i = 0; i < count; i++)
        rstd[i] = 1.0f / sqrtf(rstd[i] + NP_NORM_EPS);
    norm = norm_of(p, n);
    p->kernels->colnorm(p->team, n->y, &norm);
}

static void col_norm_backward(struct plain *p, const struct node *n)
{
    struct np_colnorm norm = norm_of(p, n);
    size_t count = norm.segments * norm.cols;
    float *sum = plain_array(count), *dot = plain_array(count), *a = plain_array(count),
          *b = plain_array(count);
    float *dx = plain_array(n->count);
    p->kernels->colnorm_grad_sums(p->team, sum, dot, &norm, n->dy, NP_SUM_NEW);
    for (size_t i = 0; i < count; i++) {
        float *dgamma = &n->g[0][i % n->cols], *dbeta = &n->g[1][i % n->cols];
        bool add = p->accumulate || i >= n->cols;
        a[i] = norm.gamma[i % n->cols] * sum[i];
        b[i] = norm.gamma[i % n->cols] * dot[i];
        *dgamma = add ? *dgamma + (dot[i] + 0.0f) : dot[i] + 0.0f;
        *dbeta = add ? *dbeta + (sum[i] + 0.0f) : sum[i] + 0.0f;
    }
    mean_of_groups(p, n, a);
    mean_of_groups(p, n, b);
    p->kernels->colnorm_grad(p->team, dx, NULL, &norm, n->dy, a, b);
    plain_take(p, n->is->in[0], dx);
    free(sum);
    free(dot);
    free(a);
    free(b);
}

void plain_col_norm(struct plain *p, const struct node *n, bool forward)
{
    if (forward)
        col_norm_forward(p, n);
    else
        col_norm_backward(p, n);
}
