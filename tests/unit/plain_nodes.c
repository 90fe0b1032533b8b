#include "plain_nodes.h"

#include <stdlib.h>
#include <string.h>

static struct np_attention attention_of(const struct plain *p, const struct node *n)
{
    bool self = n->is->in[0] == n->is->in[1];
    const float *k = self ? n->x[0] + n->cols : n->x[1];
    struct np_shape keys = p->program->values[n->is->in[1]];
    return (struct np_attention){.samples = n->samples,
                                 .queries = n->positions,
                                 .keys = np_shape_rows(keys),
                                 .width = n->cols,
                                 .heads = (size_t)n->is->heads,
                                 .causal = n->is->causal,
                                 .q = n->x[0],
                                 .k = k,
                                 .v = k + n->cols,
                                 .ldq = (size_t)n->in.channels,
                                 .ldk = (size_t)keys.channels,
                                 .relative = n->is->relative ? n->w[0] : NULL,
                                 .across = n->is->relative ? (size_t)n->out.width : 0,
                                 .lengths = n->is->padded ? p->call->lengths : NULL};
}

void plain_rotate(struct plain *p, const struct node *n, bool forward)
{
    const struct np_rotation rotation = {.samples = n->samples,
                                         .length = n->positions,
                                         .cols = n->cols,
                                         .heads = (size_t)n->is->first,
                                         .width = n->cols / (size_t)n->is->heads,
                                         .base = n->is->base,
                                         .back = !forward};
    float *dx;
    if (forward) {
        p->kernels->rotate(p->team, n->y, n->x[0], &rotation);
        return;
    }
    dx = plain_array(n->count);
    p->kernels->rotate(p->team, dx, n->dy, &rotation);
    plain_take(p, n->is->in[0], dx);
}

/* Head h of the output is head h / times of the input, whose gradient is the chunked sum of
 * theirs. */
void plain_repeat(struct plain *p, const struct node *n, bool forward)
{
    size_t few = plain_floats(p, n->is->in[0]) / n->rows, width = few / (size_t)n->is->heads;
    size_t times = n->cols / few;
    float *dx = forward ? NULL : plain_array(n->rows * few);
    for (size_t i = 0; i < n->rows * few; i++) {
        size_t first = i / width * times * width + i % width;
        float chunk = 0.0f;
        for (size_t t = 0; t < times && forward; t++)
            n->y[first + t * width] = n->x[0][i];
        for (size_t t = 0; t < times && !forward; t++) {
            chunk = (t % NP_KC ? chunk : 0.0f) + n->dy[first + t * width];
            if (t + 1 == times || (t + 1) % NP_KC == 0)
                dx[i] = t < NP_KC ? chunk : dx[i] + chunk;
        }
    }
    if (!forward)
        plain_take(p, n->is->in[0], dx);
}

/* The table's gradient: one sample after the other. */
static void add_shares(struct plain *p, const struct node *n, const float *shares, size_t count)
{
    for (size_t s = 0; s < n->samples; s++)
        for (size_t i = 0; i < count; i++)
            n->g[0][i] = s == 0 && !p->accumulate ? shares[i] : n->g[0][i] + shares[s * count + i];
}

void plain_attention(struct plain *p, const struct node *n, bool forward)
{
    struct np_attention at = attention_of(p, n);
    bool self = n->is->in[0] == n->is->in[1];
    size_t down = (size_t)n->out.height, across = (size_t)n->out.width;
    size_t table = at.relative ? at.heads * np_offset_count(down, across, at.causal) : 0;
    float *dq, *dk, *shares;
    if (forward) {
        p->kept[n->number][0] = plain_array(n->rows * at.heads * 2);
        p->kernels->attention(p->team, n->y, p->kept[n->number][0], &at);
        return;
    }
    dq = plain_array(plain_floats(p, n->is->in[0]));
    dk = self ? dq + n->cols : plain_array(plain_floats(p, n->is->in[1]));
    shares = plain_array(n->samples * table);
    p->kernels->attention_grad(p->team, dq, dk, dk + n->cols, shares, n->dy, p->kept[n->number][0],
                               &at);
    if (at.relative)
        add_shares(p, n, shares, table);
    free(shares);
    plain_take(p, n->is->in[0], dq);
    if (!self)
        plain_take(p, n->is->in[1], dk);
}

void plain_scale(struct plain *p, const struct node *n, bool forward)
{
    size_t scales = plain_floats(p, n->is->in[1]) / n->cols, rows = n->rows / scales;
    float *dx, *ds;
    if (forward) {
        p->kernels->col_scale(p->team, n->y, NULL, n->x[0], n->x[1], scales, rows, n->cols);
        return;
    }
    dx = plain_array(n->count);
    ds = plain_array(scales * n->cols);
    p->kernels->col_scale(p->team, dx, NULL, n->dy, n->x[1], scales, rows, n->cols);
    p->kernels->col_dot(p->team, ds, n->dy, n->x[0], scales, rows, n->cols, 0);
    plain_take(p, n->is->in[0], dx);
    plain_take(p, n->is->in[1], ds);
}

void plain_glu(struct plain *p, const struct node *n, bool forward)
{
    size_t wide = 2 * n->cols;
    float **u = &p->kept[n->number][0], *du;
    if (forward) {
        *u = plain_array(n->rows * wide);
        memcpy(*u, n->x[0], n->rows * wide * sizeof **u);
        p->kernels->bias_glu(p->team, n->y, *u, n->w[0], n->rows, n->cols);
        return;
    }
    du = plain_array(n->rows * wide);
    p->kernels->glu_grad(p->team, du, *u, n->dy, n->rows, n->cols);
    p->kernels->col_sum(p->team, n->g[0], du, 1, n->rows, wide, p->call->grain * n->positions,
                        p->accumulate);
    plain_take(p, n->is->in[0], du);
}

void plain_elementwise(struct plain *p, const struct node *n, bool forward)
{
    float *u = p->kept[n->number][0], *du;
    if (forward) {
        u = p->kept[n->number][0] = plain_array(n->count);
        for (size_t i = 0; i < n->count; i++)
            u[i] = n->x[1] ? n->x[0][i] + n->x[1][i] : n->x[0][i];
        p->kernels->act(p->team, n->is->act, n->y, u, n->count);
        return;
    }
    du = plain_array(n->count);
    memcpy(du, n->dy, n->count * sizeof *du);
    if (n->is->act != NP_ACT_NONE)
        p->kernels->act_grad(p->team, n->is->act, du, NULL, u, n->dy, n->count);
    for (int k = 0; k < 2; k++)
        if (n->x[k] && n->is->in[k] != NP_VALUE_SUM)
            plain_give(p, n->is->in[k], du);
    free(du);
}

void plain_merge(struct plain *p, const struct node *n, bool forward)
{
    size_t na = (size_t)n->in.channels, nb = n->cols - na;
    float *a, *b;
    if (forward) {
        p->kernels->merge(p->team, n->y, n->x[0], n->x[1], n->rows, na, nb, na, nb,
                          n->is->interleave);
        return;
    }
    a = plain_array(n->rows * na);
    b = plain_array(n->rows * nb);
    p->kernels->split(p->team, a, b, NULL, NULL, n->dy, n->rows, na, nb, na, nb, n->is->interleave);
    plain_take(p, n->is->in[0], a);
    plain_take(p, n->is->in[1], b);
}

void plain_slice(struct plain *p, const struct node *n, bool forward)
{
    size_t ld = (size_t)n->in.channels, first = (size_t)n->is->first;
    for (size_t i = 0; forward && i < n->count; i++)
        n->y[i] = n->x[0][i / n->cols * ld + first + i % n->cols];
    if (!forward)
        plain_give_columns(p, n->is->in[0], n->dy, first, n->cols);
}

/* The first channels of rows, the others being zeros. */
static void first_columns(float *to, size_t to_cols, const float *from, size_t from_cols,
                          size_t rows)
{
    size_t cols = to_cols < from_cols ? to_cols : from_cols;
    memset(to, 0, rows * to_cols * sizeof *to);
    for (size_t r = 0; r < rows; r++)
        memcpy(to + r * to_cols, from + r * from_cols, cols * sizeof *to);
}

static void change_columns(struct plain *p, const struct node *n, bool forward)
{
    size_t in = (size_t)n->in.channels;
    float *gift;
    if (forward) {
        first_columns(n->y, n->cols, n->x[0], in, n->rows);
        return;
    }
    gift = plain_array(n->rows * in);
    first_columns(gift, in, n->dy, n->cols, n->rows);
    plain_take(p, n->is->in[0], gift);
}

void plain_cut(struct plain *p, const struct node *n, bool forward)
{
    change_columns(p, n, forward);
}

void plain_widen(struct plain *p, const struct node *n, bool forward)
{
    change_columns(p, n, forward);
}

/* Either way. */
static void drop(struct plain *p, const struct node *n, float *to, const float *from)
{
    const struct np_op_call *call = p->call;
    bool path = n->is->op == NP_NODE_DROP_PATH;
    size_t each = n->positions * n->cols;
    uint32_t number = 0;
    float keep = (float)(1.0 / (1.0 - (double)n->is->drop));
    uint32_t threshold = (uint32_t)((double)n->is->drop * 0x1p32);
    for (int j = 0; j < n->number; j++)
        number += p->program->nodes[j].op == n->is->op;
    struct np_draw_key key = np_draw_key(call->seed, path ? NP_DRAW_PATH : NP_DRAW_DROPOUT,
                                         call->member, call->layer, number);
    if (path)
        p->kernels->drop_path(p->team, to, from, n->samples, each, key, call->step, call->first,
                              threshold, keep);
    else
        p->kernels->dropout(p->team, to, from, n->count, key, call->step, call->first * each,
                            threshold, keep);
}

void plain_dropping(struct plain *p, const struct node *n, bool forward)
{
    float *dx;
    if (forward) {
        drop(p, n, n->y, n->x[0]);
        return;
    }
    dx = plain_array(n->count);
    drop(p, n, dx, n->dy);
    plain_take(p, n->is->in[0], dx);
}

void plain_positions(struct plain *p, const struct node *n, bool forward)
{
    size_t each = n->positions * n->cols;
    if (forward) {
        p->kernels->bias_add(p->team, n->y, n->x[0], n->w[0], n->samples, each);
        return;
    }
    plain_give(p, n->is->in[0], n->dy);
    p->kernels->col_sum(p->team, n->g[0], n->dy, 1, n->samples, each, p->call->grain,
                        p->accumulate);
}

void plain_embed(struct plain *p, const struct node *n, bool forward)
{
    const int32_t *tokens = n->is->source ? p->call->source : p->call->tokens;
    const struct np_tensor *tensors = p->call->kind->tensors + n->is->tensor;
    if (forward) {
        p->kernels->embed(p->team, n->y, tokens, n->w[0], n->is->bias ? n->w[1] : NULL, n->samples,
                          n->positions, n->cols);
        return;
    }
    for (int k = 0; !p->accumulate && k <= (int)n->is->bias; k++)
        memset(n->g[k], 0, tensors[k].count * sizeof(float));
    p->kernels->embed_grad(p->team, n->g[0], n->is->bias ? n->g[1] : NULL, tokens, n->dy,
                           n->samples, n->positions, n->cols);
}

void plain_xent(struct plain *p, const struct node *n, bool forward)
{
    const struct np_op_call *call = p->call;
    float *dx, *own, hard = 1.0f - call->distill;
    bool first = call->member == 0;
    if (forward) {
        p->kernels->xent(p->team, call->loss, n->x[0], call->targets, n->rows, n->cols,
                         call->smoothing);
        if (call->soft && first)
            p->kernels->softmax(p->team, call->soft, n->x[0], n->rows, n->cols);
        return;
    }
    dx = plain_array(n->count);
    p->kernels->xent_grad(p->team, dx, n->x[0], call->targets, n->rows, n->cols, call->smoothing,
                          call->soft && !first ? hard * call->scale : call->scale);
    if (call->soft && !first) {
        own = plain_array(n->count);
        p->kernels->softmax(p->team, own, n->x[0], n->rows, n->cols);
        p->kernels->distill(p->team, dx, own, call->soft, call->targets, n->rows, n->cols,
                            call->distill * call->scale);
        free(own);
    }
    plain_take(p, n->is->in[0], dx);
}

void plain_image(struct plain *p, const struct node *n, bool forward)
{
    if (forward)
        memcpy(n->y, p->call->images, n->count * sizeof *n->y);
}

void plain_zero(struct plain *p, const struct node *n, bool forward)
{
    (void)p;
    (void)n;
    (void)forward; /* values begin as zeros */
}
