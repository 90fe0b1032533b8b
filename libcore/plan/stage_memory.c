#include "plan/stage_memory.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/larger.h"
#include "base/memory.h"
#include "base/text.h"

uint64_t np_memory_layer(const struct np_supernet *net, uint32_t layer)
{
    uint64_t old = (uint64_t)np_supernet_old_count(net, layer);
    uint64_t slab = np_lines(np_supernet_kind(net, layer)->floats) * sizeof(float);
    return np_arena_bytes((1 + (uint64_t)net->moments) * slab) + np_arena_bytes(old * slab);
}

uint64_t np_memory_copies(const struct np_supernet *net, uint32_t layer)
{
    uint64_t versions = 1 + (uint64_t)np_supernet_old_count(net, layer);
    uint64_t floats = np_lines(np_supernet_kind(net, layer)->floats);
    return np_arena_bytes(versions * floats * sizeof(float));
}

static uint64_t position_copies(const struct np_supernet *net, int position)
{
    uint64_t bytes = 0;
    for (uint32_t l = net->layer_first[position]; l < net->layer_first[position + 1]; l++)
        bytes += np_memory_copies(net, l);
    return bytes;
}

static uint64_t largest_layer(const struct np_supernet *net, int position)
{
    uint64_t bytes = 0;
    for (uint32_t l = net->layer_first[position]; l < net->layer_first[position + 1]; l++)
        bytes = np_larger(bytes, np_memory_layer(net, l));
    return bytes;
}

static uint64_t position_layers(const struct np_supernet *net, int position)
{
    uint64_t bytes = 0;
    for (uint32_t l = net->layer_first[position]; l < net->layer_first[position + 1]; l++)
        bytes += np_memory_layer(net, l);
    return bytes;
}

enum np_status np_memory_stages(struct np_stage_memory *memory, const struct np_plan *plan,
                                const struct np_supernet *net, struct np_error *err)
{
    const struct np_sched_share share = np_plan_share(plan, net);
    struct np_flight_shape shape = np_plan_flight_shape(plan);
    struct np_flight_layout layout;
    bool in_turn = np_plan_apart(plan) && share.members < net->recipe->members;
    enum np_status status = np_flight_layout_init(&layout, net, &shape, err);
    if (status != NP_OK)
        return status;
    for (int k = 0; k < plan->stages; k++) {
        memory[k] = (struct np_stage_memory){.flights = np_flight_layout_bytes(&layout, k, 0),
                                             .replica = np_flight_layout_bytes(&layout, k, 1)};
        for (int p = plan->stage_first[k]; p < plan->stage_first[k + 1]; p++) {
            *(np_supernet_is_end(net, p) ? &memory[k].shared : &memory[k].layers) +=
                position_layers(net, p);
            if (np_plan_apart(plan))
                memory[k].replica += position_copies(net, p);
            if (in_turn && !np_supernet_is_end(net, p))
                memory[k].copies += position_copies(net, p);
        }
        if (in_turn)
            memory[k].replica += memory[k].layers;
        for (int p = layout.stage[k].first; p < layout.stage[k].end; p++)
            if (!np_supernet_is_end(net, p))
                memory[k].largest = np_larger(memory[k].largest, largest_layer(net, p));
    }
    np_flight_layout_clear(&layout);
    return NP_OK;
}

enum np_status np_memory_fill(struct np_plan *plan, const struct np_supernet *net,
                              struct np_error *err)
{
    struct np_stage_memory *memory = NULL;
    enum np_status status;
    NP_TRY(np_alloc(&memory, (size_t)plan->stages, sizeof *memory, err));
    NP_TRY(np_memory_stages(memory, plan, net, err));
    for (int k = 0; k < plan->stages; k++)
        plan->stage_bytes[k] =
            memory[k].flights + memory[k].shared + memory[k].layers + memory[k].copies;
out:
    free(memory);
    return status;
}

enum np_status np_memory_total(uint64_t *total, const struct np_plan *plan, bool filed,
                               const struct np_supernet *net, struct np_error *err)
{
    struct np_stage_memory *memory = NULL;
    uint64_t others = (uint64_t)np_plan_replicas(plan) - 1;
    enum np_status status;
    NP_TRY(np_alloc(&memory, (size_t)plan->stages, sizeof *memory, err));
    NP_TRY(np_memory_stages(memory, plan, net, err));
    *total = 0;
    for (int k = 0; k < plan->stages; k++) {
        uint64_t stage = memory[k].flights + memory[k].shared + memory[k].layers + memory[k].copies;
        bool capped = filed && np_plan_swaps(plan) && plan->device_bytes < stage;
        stage = (capped ? plan->device_bytes : stage) + others * memory[k].replica;
        *total = *total + stage < stage ? UINT64_MAX : *total + stage;
    }
out:
    free(memory);
    return status;
}

enum np_status np_memory_least(uint64_t *least, const struct np_plan *plan,
                               const struct np_supernet *net, struct np_error *err)
{
    struct np_stage_memory *memory = NULL;
    enum np_status status;
    NP_TRY(np_alloc(&memory, (size_t)plan->stages, sizeof *memory, err));
    NP_TRY(np_memory_stages(memory, plan, net, err));
    *least = 0;
    for (int k = 0; k < plan->stages; k++) {
        uint64_t layers = np_plan_replicas(plan) > 1 ? memory[k].layers : memory[k].largest;
        *least =
            np_larger(*least, memory[k].flights + memory[k].shared + layers + memory[k].copies);
    }
out:
    free(memory);
    return status;
}

enum np_status np_memory_check(const struct np_plan *plan, const struct np_supernet *net,
                               struct np_error *err)
{
    uint64_t least;
    enum np_status status;
    if (!plan->device_bytes)
        return NP_OK;
    status = np_memory_least(&least, plan, net, err);
    if (status != NP_OK || least <= plan->device_bytes)
        return status;
    return np_fail(err, NP_EINPUT,
                   "%sa device memory of %llu bytes is too little for this plan: it needs %llu "
                   "(%s)",
                   plan->device_place ? plan->device_place : "",
                   (unsigned long long)plan->device_bytes, (unsigned long long)least,
                   np_text_size(least).s);
}

enum np_status np_memory_room(uint64_t *room, uint64_t *bytes, const struct np_plan *plan,
                              const struct np_supernet *net, struct np_error *err)
{
    struct np_stage_memory *memory = NULL;
    enum np_status status;
    NP_TRY(np_memory_check(plan, net, err));
    NP_TRY(np_alloc(&memory, (size_t)plan->stages, sizeof *memory, err));
    NP_TRY(np_memory_stages(memory, plan, net, err));
    for (int k = 0; k < plan->stages; k++)
        room[k] = plan->device_bytes - memory[k].flights - memory[k].shared;
    for (int p = 0; p < net->positions; p++)
        for (uint32_t l = net->layer_first[p]; l < net->layer_first[p + 1]; l++)
            bytes[l] = np_supernet_is_end(net, p) ? 0 : np_memory_layer(net, l);
out:
    free(memory);
    return status;
}

static uint64_t resident_layers(const struct np_supernet *net, int position, int resident)
{
    uint64_t some = (uint64_t)resident * largest_layer(net, position);
    uint64_t all = position_layers(net, position);
    return np_supernet_is_end(net, position) || all < some ? all : some;
}

struct np_copy_speed np_memory_copy_speed(const struct np_disk_bandwidth *disk)
{
    if (!disk->read)
        return (struct np_copy_speed){.latency = 0};
    return (struct np_copy_speed){.latency = NP_PLAN_COPY_NS,
                                  .read_per_byte = 1e9 / (double)disk->read,
                                  .write_per_byte = 1e9 / (double)disk->write,
                                  .both_per_byte = 1e9 / (double)disk->both,
                                  .busy_per_byte =
                                      disk->processor ? 1e9 / (double)disk->processor : 0};
}

/* Every position as a stage of its own. */
enum np_status np_memory_positions(uint64_t *bytes, uint64_t *beside, const struct np_plan *plan,
                                   int in_flight, int resident, const struct np_supernet *net,
                                   struct np_error *err)
{
    struct np_flight_shape shape = np_plan_flight_shape(plan);
    struct np_flight_layout layout = {NULL};
    uint64_t work = 0, apart = 0, sum = 0, layer = 0, entry = 0, output = 0;
    uint64_t entries = (uint64_t)(plan->unit < net->positions ? plan->unit : net->positions);
    bool one_sum = net->recipe->members * plan->micro_batches == 1;
    int *ints = NULL, *first;
    enum np_status status;
    NP_TRY(np_alloc(&ints, 2 * (size_t)net->positions + 1, sizeof *ints, err));
    first = ints + net->positions;
    for (int p = 0; p < net->positions; p++) {
        ints[p] = in_flight;
        first[p + 1] = p + 1;
    }
    first[0] = 0;
    shape.stages = net->positions;
    shape.reach = 0;
    shape.in_flight = ints;
    shape.stage_first = first;
    NP_TRY(np_flight_layout_init(&layout, net, &shape, err));
    for (int p = 0; p < net->positions; p++) {
        const struct np_flight_stage *stage = &layout.stage[p];
        const uint64_t *block = stage->block_bytes;
        uint64_t before =
            stage->apart == NP_NO_STORAGE ? block[NP_BLOCK_WORK] : stage->apart * sizeof(float);
        bytes[p] = resident_layers(net, p, resident) + block[NP_BLOCK_SLOTS] +
                   block[NP_BLOCK_SOFT] + (one_sum ? 0 : block[NP_BLOCK_SUMS]);
        if (!np_supernet_is_end(net, p))
            layer = np_larger(layer, largest_layer(net, p));
        if (one_sum)
            sum = np_larger(sum, block[NP_BLOCK_SUMS]);
        entry = np_larger(entry, (uint64_t)stage->entry_floats);
        output = np_larger(output, (uint64_t)stage->output_floats);
        work = np_larger(work, before);
        apart = np_larger(apart, block[NP_BLOCK_WORK] - before);
    }
    *beside =
        (resident ? 0 : layer) + sum + work + apart + (entries * entry + output) * sizeof(float) +
        layout.stage[0].block_bytes[NP_BLOCK_SCRATCH] + (uint64_t)NP_FLIGHT_BLOCKS * NP_ARENA_PAGE;
out:
    np_flight_layout_clear(&layout);
    free(ints);
    return status;
}
