#include "estimate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/profile_cache.h"
#include "space/sampler.h"

/* What is known of a layer, or of several together. */
struct figures {
    uint64_t parameters, moment_bytes, activation_bytes;
    struct np_flops flops;
    double f, b, w; /* ns */
    double macs;
};

static struct figures figures_of(const struct np_plan *plan, const struct np_supernet *net,
                                 uint32_t layer)
{
    const struct np_kind *kind = np_supernet_kind(net, layer);
    struct np_layer_cost cost = plan->kind_cost[net->layer_kind[layer]];
    size_t samples = (size_t)(net->recipe->batch / plan->micro_batches);
    uint64_t activations = np_flight_layer_floats(net, layer, samples) * sizeof(float);
    return (struct figures){.parameters = kind->whole ? kind->part_floats : kind->floats,
                            .moment_bytes = kind->floats * (uint64_t)net->moments * sizeof(float),
                            .activation_bytes = (activations + samples - 1) / samples,
                            .flops = np_kind_flops(kind),
                            .f = (double)cost.f,
                            .b = (double)cost.b,
                            .w = (double)cost.w,
                            .macs = np_kind_macs(kind)};
}

#define FIGURES                                                                                    \
    "parameters\tmoment_bytes\tactivation_bytes\tforward_flops\tbackward_flops\tweight_flops\t"    \
    "forward_ns\tbackward_ns\tweight_ns\tmacs"

static enum np_status write_figures(struct np_buf *out, const struct figures *x,
                                    struct np_error *err)
{
    return np_buf_printf(
        out, err, "%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f",
        x->parameters, x->moment_bytes, x->activation_bytes, x->flops.forward, x->flops.backward,
        x->flops.weight, x->f, x->b, x->w, x->macs);
}

static enum np_status write_layer(struct np_buf *out, const struct np_plan *plan,
                                  const struct np_supernet *net, uint32_t layer,
                                  struct np_error *err)
{
    struct figures x = figures_of(plan, net, layer);
    uint32_t candidate = layer - net->layer_first[np_supernet_position(net, layer)];
    char name[NP_LAYER_NAME], kind_name[NP_KIND_NAME];
    enum np_status status;
    np_supernet_layer_name(net, layer, name);
    np_kind_name(np_supernet_kind(net, layer), kind_name);
    NP_TRY(np_buf_printf(out, err, "%.*s\t%" PRIu32 "\t%s\t", (int)strcspn(name, "."), name,
                         candidate, kind_name));
    NP_TRY(write_figures(out, &x, err));
    NP_TRY(np_buf_append(out, "\n", 1, err));
out:
    return status;
}

static enum np_status write_layers(struct np_buf *out, const struct np_plan *plan,
                                   const struct np_supernet *net, struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_buf_printf(out, err, "block\tcandidate\tkind\t" FIGURES "\n"));
    for (uint32_t l = 0; l < net->layers; l++)
        NP_TRY(write_layer(out, plan, net, l, err));
out:
    return status;
}

/* Its layers together, of[layers], stem and head included. */
static enum np_status write_subnet(struct np_buf *out, const struct figures *of,
                                   const struct np_supernet *net, const uint16_t *choices,
                                   struct np_error *err)
{
    struct figures sum = {0};
    enum np_status status;
    for (int p = 0; p < net->positions; p++) {
        struct figures x = of[np_supernet_chosen(net, choices, p)];
        sum.parameters += x.parameters;
        sum.moment_bytes += x.moment_bytes;
        sum.activation_bytes += x.activation_bytes;
        sum.flops.forward += x.flops.forward;
        sum.flops.backward += x.flops.backward;
        sum.flops.weight += x.flops.weight;
        sum.f += x.f;
        sum.b += x.b;
        sum.w += x.w;
        sum.macs += x.macs;
    }
    NP_TRY(write_figures(out, &sum, err));
    for (int b = 0; b < net->positions - 2; b++)
        NP_TRY(np_buf_printf(out, err, b > 0 ? " %d" : "\t%d", choices[b]));
    NP_TRY(np_buf_append(out, "\n", 1, err));
out:
    return status;
}

static enum np_status write_subnets(struct np_buf *out, const struct np_plan *plan,
                                    const struct np_supernet *net, const char *subnets,
                                    struct np_error *err)
{
    struct np_stream_shape shape;
    struct np_stream_block *each = NULL;
    struct np_stream *stream = NULL;
    struct figures *of = NULL;
    uint16_t *choices = NULL;
    bool more = true;
    enum np_status status;
    NP_TRY(np_alloc(&of, net->layers, sizeof *of, err));
    for (uint32_t layer = 0; layer < net->layers; layer++)
        of[layer] = figures_of(plan, net, layer);
    NP_TRY(np_stream_shape_init(&shape, &each, net->recipe, err));
    shape.members = 1;
    NP_TRY(np_alloc(&choices, (size_t)shape.blocks, sizeof *choices, err));
    NP_TRY(np_stream_open(&stream, &shape, subnets, 0, NULL, NULL, err));
    NP_TRY(np_buf_printf(out, err, FIGURES "\tsubnet\n"));
    for (;;) {
        NP_TRY(np_stream_next(stream, choices, &more, err));
        if (!more)
            break;
        NP_TRY(write_subnet(out, of, net, choices, err));
    }
out:
    np_stream_close(stream);
    free(of);
    free(choices);
    free(each);
    return status;
}

enum np_status estimate_write(struct np_buf *out, const struct np_supernet *net,
                              const struct np_partition_request *request, const char *subnets,
                              struct np_error *err)
{
    enum np_status status;
    struct np_plan plan = {0};
    NP_TRY(np_plan_init(&plan, net, request->stages ? request->stages : 1, err));
    plan.micro_batches = request->micro_batches ? request->micro_batches : 1;
    plan.threads = request->threads ? request->threads : 1;
    plan.measured = !request->model;
    NP_TRY(np_plan_check_cuts(plan.micro_batches, net, err));
    NP_TRY(np_profile_plans(&plan, 1, net, request, err));
    NP_TRY(subnets ? write_subnets(out, &plan, net, subnets, err)
                   : write_layers(out, &plan, net, err));
out:
    np_plan_clear(&plan);
    return status;
}
