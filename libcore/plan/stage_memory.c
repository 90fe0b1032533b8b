/* What a stage holds. Upper bounds: every step of the window takes the largest candidate. */
#include "plan/stage_memory.h"

#include <string.h>

#include "data/data.h"
#include "ops/op.h"

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct largest {
    uint64_t floats;        /* weights of one candidate */
    uint64_t kept;          /* of a micro-batch */
    uint64_t floats_of_all; /* weights of all candidates */
};

/* A value and its gradient; the head's losses take none. */
static uint64_t value_floats(const struct np_supernet *net, int position, size_t samples)
{
    return 2 * samples * np_shape_floats(net->shapes[position]);
}

static struct largest largest_candidate(const struct np_supernet *net, int position, size_t samples)
{
    struct largest most = {0};
    for (uint32_t l = net->layer_first[position]; l < net->layer_first[position + 1]; l++) {
        const struct np_kind *kind = np_supernet_kind(net, l);
        struct np_op_sizes sizes = np_op_sizes(kind, samples);
        struct np_batch batch;
        uint64_t words =
            np_batch_lay(&batch, net->recipe, samples, np_program_reads_inputs(&kind->program),
                         np_program_reads_targets(&kind->program), NULL);
        most.floats_of_all += kind->floats;
        most.floats = max_u64(most.floats, kind->floats);
        most.kept = max_u64(most.kept, sizes.saved + sizes.delta + words);
    }
    if (position < net->positions - 1)
        most.kept += value_floats(net, position, samples);
    return most;
}

/* Micro-batches that may be in flight at once. */
static uint64_t in_flight(const struct np_plan *plan, const struct np_supernet *net)
{
    return (uint64_t)plan->window * (uint64_t)net->recipe->members * (uint64_t)plan->micro_batches;
}

uint64_t np_memory_position(const struct np_plan *plan, const struct np_supernet *net, int position)
{
    const struct np_recipe *recipe = net->recipe;
    size_t samples = (size_t)(recipe->batch / plan->micro_batches);
    bool shared = position == 0 || position == net->positions - 1;
    bool frozen = shared && recipe->shared_frozen;
    struct largest most = largest_candidate(net, position, samples);
    uint64_t window = (uint64_t)plan->window, members = (uint64_t)recipe->members;
    uint64_t candidates = net->layer_first[position + 1] - net->layer_first[position];
    uint64_t floats = most.floats_of_all * (frozen ? 1 : 1 + (uint64_t)net->moments);
    /* Steps in flight read as many versions of a delayed layer as they can be apart. */
    if (shared && !frozen) {
        uint64_t versions = window < (uint64_t)recipe->delay ? window : (uint64_t)recipe->delay;
        floats += (versions - 1) * most.floats;
    }
    /* Sums are open for every layer a step in flight activates. */
    if (!frozen)
        floats += window * (members < candidates ? members : candidates) * most.floats;
    floats += in_flight(plan, net) * most.kept;
    return floats * sizeof(float);
}

/* What the value of an earlier position takes in a stage that begins at `position`: nothing if no
 * reader is left. */
static uint64_t crossing_bytes(const struct np_plan *plan, const struct np_supernet *net, int value,
                               int position)
{
    size_t samples = (size_t)(net->recipe->batch / plan->micro_batches);
    int end = net->reader_first[value + 1];
    if (end == net->reader_first[value] || net->readers[end - 1].position < position)
        return 0;
    return in_flight(plan, net) * value_floats(net, value, samples) * sizeof(float);
}

void np_memory_enter(uint64_t *bytes, const struct np_plan *plan, const struct np_supernet *net)
{
    memset(bytes, 0, (size_t)net->positions * sizeof *bytes);
    for (int p = 0; p < net->positions - 1; p++) {
        uint64_t crossing = crossing_bytes(plan, net, p, p + 1);
        for (int q = p + 1; q < net->positions && crossing_bytes(plan, net, p, q); q++)
            bytes[q] += crossing;
    }
}

uint64_t np_memory_work(const struct np_plan *plan, const struct np_supernet *net)
{
    size_t samples = (size_t)(net->recipe->batch / plan->micro_batches);
    uint64_t work = 0;
    for (int k = 0; k < net->kind_count; k++)
        work = max_u64(work, np_op_sizes(&net->kinds[k], samples).work);
    return work * sizeof(float);
}

uint64_t np_memory_stage(const struct np_plan *plan, const struct np_supernet *net, int stage)
{
    uint64_t bytes = np_memory_work(plan, net);
    for (int p = 0; p < plan->stage_first[stage]; p++)
        bytes += crossing_bytes(plan, net, p, plan->stage_first[stage]);
    for (int p = plan->stage_first[stage]; p < plan->stage_first[stage + 1]; p++)
        bytes += np_memory_position(plan, net, p);
    return bytes;
}
