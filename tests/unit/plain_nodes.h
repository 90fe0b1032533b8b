/* What plain.c runs: every node op, forward and backward. */
#ifndef PLAIN_NODES_H
#define PLAIN_NODES_H

#include "plain.h"

struct plain {
    const struct np_op_call *call;
    const struct np_kernels *kernels;
    struct np_team *team;
    const struct np_program *program;
    float *g;
    bool accumulate;
    float *value[NP_MAX_VALUES], *gradient[NP_MAX_VALUES];
    bool *given[NP_MAX_VALUES];   /* [channels]: the gradient has begun */
    float *kept[NP_MAX_NODES][2]; /* what a node's forward leaves for its backward */
};

/* A node with what it reads and writes. */
struct node {
    const struct np_node *is;
    int number;
    struct np_shape in, out;
    const float *x[2], *w[2];
    float *y, *g[2];
    const float *dy;
    size_t rows, cols, positions, samples, count; /* of the output */
};

/* Zeros, to be freed; the size of a value of all samples. */
float *plain_array(size_t count);
size_t plain_floats(const struct plain *p, int value);

/* Adds a gift to columns first .. first+cols-1 of a value's gradient, or begins them with it. */
void plain_give_columns(struct plain *p, int v, const float *gift, size_t first, size_t cols);
void plain_give(struct plain *p, int v, const float *gift);

/* The same, of a gift that is not needed any more. */
void plain_take(struct plain *p, int v, float *gift);

typedef void plain_step(struct plain *p, const struct node *n, bool forward);

/* plain_windows.c */
plain_step plain_conv, plain_light, plain_pool, plain_global_pool;
/* plain_norms.c */
plain_step plain_row_norm, plain_col_norm;
/* plain_nodes.c; elementwise: activations by themselves, and sums with one. */
plain_step plain_rotate, plain_repeat, plain_attention, plain_scale, plain_glu, plain_elementwise,
    plain_merge, plain_slice, plain_cut, plain_widen, plain_dropping, plain_positions, plain_embed,
    plain_xent, plain_image, plain_zero;

#endif
