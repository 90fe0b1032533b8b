/* The cost profile: how long each kind of layer takes, per micro-batch, on this machine.
 *
 * measured  every kind's F, B and W run on `concurrent` teams of `threads` at the same time (as the
 *           stages of a pipeline will share the machine), a few times; the median counts. Layers
 *           that take long are run with fewer samples, for their time is proportional to them. W
 *           includes the optimizer's update spread over the micro-batches.
 *           On a GPU one crew runs them, and each is awaited.
 * model     FLOPs (np_kind_flops) at a nominal rate, of which teams lose a share: the same on every
 *           machine.
 *
 * Units     whole nanoseconds per micro-batch of `samples` samples: a plan holds them as written.
 */
#ifndef NP_PLAN_PROFILE_H
#define NP_PLAN_PROFILE_H

#include "num/kernels.h"
#include "sched/sched.h"
#include "space/supernet.h"

struct np_device;

struct np_profile_config {
    const struct np_kernels *kernels;
    size_t samples; /* of a micro-batch */
    int micro_batches;
    int threads;    /* of a stage's team */
    int concurrent; /* teams measured at the same time */
    /* A GPU, which has one team whatever these say; NULL: the processors. */
    const struct np_device *device;
    const char *device_name;
    size_t scratch; /* bytes of its team */
};

/* cost[kinds of the supernet] */
enum np_status np_profile_measure(struct np_layer_cost *cost, const struct np_supernet *net,
                                  const struct np_profile_config *config, struct np_error *err);
void np_profile_model(struct np_layer_cost *cost, const struct np_supernet *net, size_t samples,
                      int micro_batches, int threads);

#endif
