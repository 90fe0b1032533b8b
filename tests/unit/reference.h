/* An independent reference in double: layers forward and backward, optimizers, whole training.
 *
 * Plain loops over the definitions of nodes (space/program.h), sharing nothing with libcore but the
 * programs, the tensor tables and the addresses of random numbers. Running out of memory aborts.
 *
 * Shapes    as in ops/op.h, in double; weights in the layer's slab layout.
 */
#ifndef REFERENCE_H
#define REFERENCE_H

#include "space/supernet.h"

struct reference_call {
    const struct np_kind *kind;
    const double *w;
    size_t samples, first;
    uint64_t seed, step;
    uint32_t member, layer;
    bool train;
    const double *fixed; /* batch norm's statistics, NULL: the batch's own */
    const float *images;
    const int32_t *tokens, *source, *targets, *source_lengths, *target_lengths;
    double smoothing, scale;
    double *soft, distill; /* as in ops/op.h */
};

/* What a layer reads; NULL where it has none. */
struct reference_inputs {
    const double *x, *memory, *sum;
};

/* y, of the head one loss a row. */
void reference_forward(const struct reference_call *call, double *y,
                       const struct reference_inputs *in);
/* Adds to dx and dmemory (NULL: not wanted) and to the gradient slab g; dy: NULL for the head. */
void reference_backward(const struct reference_call *call, double *dx, double *dmemory, double *g,
                        const struct reference_inputs *in, const double *dy);

/* One node of a program on its way: what it reads and writes, and the gradients of those, which it
 * adds to; NULL where it has none. */
struct reference_node {
    const struct reference_call *call;
    const struct np_node *node;
    int number; /* of earlier nodes of its op */
    struct np_shape in[2], out;
    size_t samples;
    const double *x[2], *w[2], *dy;
    double *y, *dx[2], *g[2];
};

struct reference_op {
    void (*forward)(const struct reference_node *n);
    void (*backward)(const struct reference_node *n);
};

extern const struct reference_op reference_conv, reference_dwconv, reference_light,
    reference_max_pool, reference_avg_pool, reference_global_pool, reference_scale,
    reference_layer_norm, reference_rms_norm, reference_batch_norm, reference_group_norm,
    reference_act, reference_glu, reference_rotate, reference_repeat, reference_attention,
    reference_slice, reference_widen, reference_merge, reference_add, reference_dropout,
    reference_drop_path, reference_zero, reference_positions, reference_image, reference_embed,
    reference_xent;

double reference_activate(enum np_act act, double u);
double reference_slope(enum np_act act, double u);
/* count zeros, to be freed */
double *reference_zeros(size_t count);

/* Initial weights of a layer. */
void reference_init(double *w, const struct np_kind *kind, uint64_t seed, uint32_t layer);
/* One update; t counts from 1. g is overwritten. m, v as in struct np_weights_update. */
void reference_update(const struct np_recipe *recipe, const struct np_kind *kind, double *w,
                      double *m, double *v, double *g, double lr, uint64_t t);

/* Sequential training of a supernet, one step at a time. */
struct reference_net {
    const struct np_supernet *net;
    double **w, **m, **v, **g; /* [layers] */
    uint64_t *updates;         /* [layers] */
    double **pending[2];       /* stem's, head's gradients: ring of `delay` */
    double *soft;              /* what the first member predicts */
    uint64_t step;
};

/* The batch of one member. */
struct reference_batch {
    const float *images;
    const int32_t *tokens, *source, *targets, *source_lengths, *target_lengths;
};

void reference_net_init(struct reference_net *ref, const struct np_supernet *net);
void reference_net_clear(struct reference_net *ref);
/* The next step: choices [members][blocks], batches [members]; losses [members]: mean ones. */
void reference_net_step(struct reference_net *ref, const uint16_t *choices,
                        const struct reference_batch *batches, double *losses);

#endif
