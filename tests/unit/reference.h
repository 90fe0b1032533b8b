/* An independent reference in double: layers forward and backward, optimizers, whole training.
 *
 * Plain loops written from the formulas, sharing nothing with libcore but the tensor tables and the
 * addresses of random numbers. Running out of memory aborts.
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
    const int32_t *tokens, *targets;
    double smoothing, scale;
};

/* y from x; the head's y is one loss a row. */
void reference_forward(const struct reference_call *call, double *y, const double *x);
/* dx (not the stem's) from dy (not the head's); adds to the gradient slab g. */
void reference_backward(const struct reference_call *call, double *dx, double *g, const double *x,
                        const double *dy);

/* A branch: r [R][C] from the normalised input; dxn is written, g added to. */
void reference_branch_forward(const struct reference_call *call, double *r, const double *xn);
void reference_branch_backward(const struct reference_call *call, double *dxn, double *g,
                               const double *xn, const double *dr);

/* y = x w + b (b may be NULL); the gradients are added to dx, dw, db. */
void reference_linear(double *y, const double *x, const double *w, const double *b, size_t rows,
                      size_t k, size_t n);
void reference_linear_grad(double *dx, double *dw, double *db, const double *x, const double *dy,
                           const double *w, size_t rows, size_t k, size_t n);
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
    uint64_t step;
};

void reference_net_init(struct reference_net *ref, const struct np_supernet *net);
void reference_net_clear(struct reference_net *ref);
/* The next step: choices [members][blocks], tokens and targets [members][B * T]; losses [members]
 * gets mean losses. */
void reference_net_step(struct reference_net *ref, const uint16_t *choices, const int32_t *tokens,
                        const int32_t *targets, double *losses);

#endif
