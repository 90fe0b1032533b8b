/* Costs from arithmetic alone: what plans are made of where nothing may be measured. */
#include <math.h>

#include "ops/op.h"
#include "plan/profile.h"

/* A nominal core: round numbers, the same on every machine. Only ratios steer the cut. */
#define FLOPS_PER_NS 20.0
#define FLOATS_PER_NS 2.0 /* memory traffic of activations and of the update */
#define CALL_NS 500.0     /* and as much for each thread more, which waits for the others */
/* Of a layer's work, what a team does no faster than one thread: by their second thread the
 * examples gained 1.69 to 1.97 times their speed. */
#define SERIAL 0.06

static float work_ns(double flops, double floats, int threads)
{
    double rate = threads / (1 + SERIAL * (threads - 1));
    double ns = flops / FLOPS_PER_NS + floats / FLOATS_PER_NS;
    return (float)round(CALL_NS * threads + ns / rate);
}

void np_profile_model(struct np_layer_cost *cost, const struct np_supernet *net, size_t samples,
                      int micro_batches, int threads)
{
    for (int k = 0; k < net->kind_count; k++) {
        const struct np_kind *kind = &net->kinds[k];
        struct np_flops flops = np_kind_flops(kind);
        double n = (double)samples, out = n * (double)np_shape_floats(kind->out);
        double in = n * (double)(np_shape_floats(kind->in) + np_shape_floats(kind->memory));
        bool gives = np_op_gives(kind, NP_VALUE_X) || np_op_gives(kind, NP_VALUE_MEMORY);
        double floats = (double)np_kind_whole(kind)->floats;
        /* A part is copied from its whole for F and B, and for W there and back. */
        double copied = 2 * (double)kind->copy_floats;
        cost[k] = (struct np_layer_cost){0, 0, 0};
        if (np_program_passes_on(&kind->program))
            continue;
        cost[k].f = work_ns(flops.forward * n, in + out + copied, threads);
        if (gives || flops.backward > 0)
            cost[k].b = work_ns(flops.backward * n, 2 * in + out + copied, threads);
        /* The update reads the gradient and reads and writes weights and moments, once a step. */
        double update = floats * (1 + 2 * (1 + net->moments)) / micro_batches;
        if (floats > 0)
            cost[k].w = work_ns(flops.weight * n, in + out + 2 * copied + update, threads);
    }
}
