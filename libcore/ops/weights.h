/* A layer's weights: initial values by address, and the optimizer's update.
 *
 * Order     w, m, v are slabs of kind->floats; tensors in table order. The squared norm for
 *           clipping is the tensors' lane sums added in table order, its root correctly rounded;
 *           scale = limit / norm when norm > limit, else 1; a norm that overflows counts as a
 *           gradient that is not finite. adamw's c1 = 1 / (1 - beta1^t), t = updates + 1, beta1 as
 *           a float, in double by binary exponentiation, rounded once; so is c2.
 * Threads   called by every member of a team; they wait inside and return after a wait. Callers
 *           wait once more before the next update with the same `agreed`.
 */
#ifndef NP_OPS_WEIGHTS_H
#define NP_OPS_WEIGHTS_H

#include "space/supernet.h"

/* Version 0 of a layer: a pure function of (seed, layer). Moments start at +0. */
void np_weights_init(const struct np_kernels *kernels, struct np_team *team, float *w,
                     const struct np_kind *kind, uint64_t seed, uint32_t layer);

struct np_weights_update {
    float *w, *m, *v; /* m, v: NULL when the optimizer has none */
    const float *g;
    const struct np_kind *kind;
    uint32_t layer;
    uint64_t updates; /* before this one: the layer's own count */
    float lr;
    float *agreed; /* [team size], of the host, shared by the team: who saw what */
    float
        *square; /* in the device's memory: the squared norm goes there, where layers are clipped */
};

/* One update of one layer. This member's share of the fingerprint of everything written is added to
 * *fingerprint, in the device's memory (shares are added by the caller). False for all members
 * alike if a gradient, weight or moment is not finite: the slabs are spoilt then, and the run is
 * over. */
bool np_weights_update(const struct np_kernels *kernels, struct np_team *team,
                       const struct np_recipe *recipe, const struct np_weights_update *update,
                       uint64_t *fingerprint);

#endif
