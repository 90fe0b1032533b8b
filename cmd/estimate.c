#include "estimate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "plan/profile_cache.h"

static enum np_status write_layer(struct np_buf *out, const struct np_plan *plan,
                                  const struct np_supernet *net, uint32_t layer,
                                  struct np_error *err)
{
    const struct np_kind *kind = np_supernet_kind(net, layer);
    struct np_layer_cost cost = plan->kind_cost[net->layer_kind[layer]];
    struct np_flops flops = np_kind_flops(kind);
    size_t samples = (size_t)(net->recipe->batch / plan->micro_batches);
    uint64_t activations = np_flight_layer_floats(net, layer, samples) * sizeof(float);
    size_t weights = kind->whole ? kind->part_floats : kind->floats;
    uint64_t moments = kind->floats * (uint64_t)net->moments;
    uint32_t candidate = layer - net->layer_first[np_supernet_position(net, layer)];
    char name[NP_LAYER_NAME], kind_name[NP_KIND_NAME];
    np_supernet_layer_name(net, layer, name);
    np_kind_name(kind, kind_name);
    return np_buf_printf(out, err,
                         "%.*s\t%" PRIu32 "\t%s\t%zu\t%" PRIu64 "\t%" PRIu64
                         "\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\n",
                         (int)strcspn(name, "."), name, candidate, kind_name, weights,
                         moments * sizeof(float), (activations + samples - 1) / samples,
                         flops.forward, flops.backward, flops.weight, (double)cost.f,
                         (double)cost.b, (double)cost.w);
}

enum np_status estimate_write(struct np_buf *out, const struct np_supernet *net,
                              const struct np_partition_request *request, struct np_error *err)
{
    enum np_status status;
    struct np_plan plan = {0};
    NP_TRY(np_plan_init(&plan, net, request->stages ? request->stages : 1, err));
    plan.micro_batches = request->micro_batches ? request->micro_batches : 1;
    plan.threads = request->threads ? request->threads : 1;
    plan.measured = !request->model;
    NP_TRY(np_plan_check_cuts(plan.micro_batches, net, err));
    NP_TRY(np_profile_plans(&plan, 1, net, request, err));
    NP_TRY(np_buf_printf(out, err,
                         "block\tcandidate\tkind\tparameters\tmoment_bytes\tactivation_bytes\t"
                         "forward_flops\tbackward_flops\tweight_flops\t"
                         "forward_ns\tbackward_ns\tweight_ns\n"));
    for (uint32_t l = 0; l < net->layers; l++)
        NP_TRY(write_layer(out, &plan, net, l, err));
out:
    np_plan_clear(&plan);
    return status;
}
