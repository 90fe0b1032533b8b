/* What a stage holds. Upper bounds: every step of the window takes the largest candidate. */
#include "plan/stage_memory.h"

#include "ops/op.h"

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct largest {
    uint64_t floats;        /* weights of one candidate */
    uint64_t kept;          /* what F and B leave for W, a micro-batch */
    uint64_t floats_of_all; /* weights of all candidates */
};

static struct largest largest_candidate(const struct np_supernet *net, int position, size_t samples)
{
    struct largest most = {0};
    uint64_t rows = samples * net->kinds[0].length * net->kinds[0].width;
    for (uint32_t l = net->layer_first[position]; l < net->layer_first[position + 1]; l++) {
        const struct np_kind *kind = np_supernet_kind(net, l);
        struct np_op_sizes sizes = np_op_sizes(kind, samples);
        most.floats_of_all += kind->floats;
        most.floats = max_u64(most.floats, kind->floats);
        /* Beside what the operator keeps: its input and the gradient of its output. */
        most.kept = max_u64(most.kept, sizes.saved + sizes.delta + 2 * rows);
    }
    return most;
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
    floats += window * members * (uint64_t)plan->micro_batches * most.kept;
    return floats * sizeof(float);
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
    for (int p = plan->stage_first[stage]; p < plan->stage_first[stage + 1]; p++)
        bytes += np_memory_position(plan, net, p);
    return bytes;
}
