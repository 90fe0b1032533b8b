#include "plan/flight_layout.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/larger.h"
#include "base/memory.h"
#include "data/data.h"
#include "ops/op.h"
#include "sched/balance.h"
#include "sched/sched.h"

#define MOST ((size_t)1 << 60) /* where sums stay */

struct maker {
    const struct np_supernet *net;
    const struct np_flight_shape *shape;
    struct np_flight_layout *layout;
    size_t samples;           /* of a micro-batch */
    struct kind_needs *kinds; /* [kinds] */
    uint64_t pieces;          /* flights a step, on a replica */
    bool one_flight;          /* a step has one flight in all */
};

static size_t times(size_t a, size_t b)
{
    size_t product;
    return np_mul_size(&product, a, b) && product < MOST ? product : MOST;
}

/* Room for a part at the end of what is used; the part begins on a cache line. */
static size_t add_part(size_t *used, size_t floats)
{
    size_t at = *used;
    if (floats == 0)
        return NP_NO_STORAGE;
    *used = floats < MOST && at < MOST ? at + np_lines(floats) : MOST;
    return at;
}

/* What a candidate of a kind needs wherever it is, in floats. */
struct kind_needs {
    struct np_op_sizes op;
    size_t batch;
    bool makes; /* a value of its own */
    bool both;  /* it gives gradients of x and of memory */
};

static struct kind_needs kind_needs(const struct np_recipe *recipe, const struct np_kind *kind,
                                    size_t samples)
{
    struct np_batch batch;
    return (struct kind_needs){
        .op = np_op_sizes(kind, samples),
        .batch = np_batch_lay(&batch, recipe, samples, np_program_reads(&kind->program), NULL),
        .makes = !np_program_passes_on(&kind->program),
        .both = np_op_gives(kind, NP_VALUE_X) && np_op_gives(kind, NP_VALUE_MEMORY)};
}

/* What a candidate of a position needs, or all of them at most, in floats. */
struct needs {
    size_t y, dy, saved, delta, batch, work, sum;
    size_t apart; /* a second gradient of x, where a candidate gives two */
};

static struct needs needs_of(const struct np_supernet *net, uint32_t layer, int position,
                             size_t samples, const struct kind_needs *of_kind)
{
    const struct np_recipe *recipe = net->recipe;
    bool head = position == net->positions - 1, end = np_supernet_is_end(net, position);
    const struct np_block *block = end ? NULL : &recipe->blocks[position - 1];
    size_t value =
        samples * (head ? np_batch_targets(recipe) : np_shape_floats(net->shapes[position]));
    struct needs needs = {.y = of_kind->makes ? value : 0,
                          .dy = head ? 0 : value,
                          .saved = of_kind->op.saved,
                          .delta = of_kind->op.delta,
                          .batch = of_kind->batch,
                          .work = of_kind->op.work};
    if (!end || !recipe->shared_frozen)
        needs.sum = np_kind_whole(np_supernet_kind(net, layer))->floats;
    if (block && block->memory == block->from && of_kind->both)
        needs.apart = samples * np_shape_floats(net->shapes[block->from]);
    return needs;
}

static struct needs most_needs(const struct maker *m, int position)
{
    const struct np_supernet *net = m->net;
    struct needs most = {.y = 0};
    for (uint32_t l = net->layer_first[position]; l < net->layer_first[position + 1]; l++) {
        struct needs needs = needs_of(net, l, position, m->samples, &m->kinds[net->layer_kind[l]]);
        most.y = np_larger(most.y, needs.y);
        most.dy = np_larger(most.dy, needs.dy);
        most.saved = np_larger(most.saved, needs.saved);
        most.delta = np_larger(most.delta, needs.delta);
        most.batch = np_larger(most.batch, needs.batch);
        most.work = np_larger(most.work, needs.work);
        most.sum = np_larger(most.sum, needs.sum);
        most.apart = np_larger(most.apart, needs.apart);
    }
    return most;
}

size_t np_flight_layer_floats(const struct np_supernet *net, uint32_t layer, size_t samples)
{
    const struct kind_needs of_kind =
        kind_needs(net->recipe, np_supernet_kind(net, layer), samples);
    struct needs needs = needs_of(net, layer, np_supernet_position(net, layer), samples, &of_kind);
    size_t used = 0;
    add_part(&used, needs.y);
    add_part(&used, needs.batch);
    add_part(&used, needs.saved);
    add_part(&used, needs.dy);
    add_part(&used, needs.delta);
    return used;
}

/* Room for the open sums of a position, unless one buffer serves all. */
static void place_sums(const struct maker *m, const struct np_flight_stage *stage, int position,
                       size_t floats, size_t *used)
{
    struct np_flight_place *place = &stage->place[position - stage->lowest];
    uint32_t candidates = m->net->layer_first[position + 1] - m->net->layer_first[position];
    uint32_t members = (uint32_t)m->net->recipe->members;
    place->sum_floats = np_lines(floats);
    place->sums_by_choice = candidates < members;
    place->sums_a_step = place->sums_by_choice ? candidates : members;
    if (m->one_flight && !m->shape->late_updates) {
        *used = np_larger(*used, place->sum_floats);
        return;
    }
    size_t sums = times((size_t)stage->open_steps, place->sums_a_step);
    place->sums = add_part(used, times(sums, place->sum_floats));
}

static void open_stage(const struct maker *m, int k)
{
    struct np_flight_stage *stage = &m->layout->stage[k];
    uint64_t window = (uint64_t)m->shape->window;
    int asked = m->shape->in_flight ? m->shape->in_flight[k] : 0;
    stage->slots = asked ? (uint64_t)asked : window * m->pieces;
    stage->open_steps = (stage->slots + m->pieces - 2) / m->pieces + 1;
    if (stage->open_steps > window || m->shape->replicas > 1)
        stage->open_steps = window;
    if (m->one_flight)
        stage->open_steps = 1;
}

/* Floats of a stage's blocks, as its positions add up. */
struct sums {
    size_t slot, sums, work, apart, saved, batch;
    size_t entry, output; /* if `recompute`, at most */
};

/* The stage may be the first behind a cut between memories that the position's value crosses. */
static bool receives(const struct maker *m, int k, int position)
{
    const struct np_flight_shape *shape = m->shape;
    const struct np_flight_stage *stage = &m->layout->stage[k];
    int memory = np_flight_memory(shape->memories, shape->stages, k);
    int cut = shape->reach ? stage->end - 1 : stage->first; /* at most */
    if (memory == 0 || position >= cut)
        return false;
    if (!shape->reach && memory == np_flight_memory(shape->memories, shape->stages, k - 1))
        return false;
    return np_supernet_last_reader(m->net, position) >= stage->first;
}

/* Room for what a position receives that the stage does not run. */
static void lay_received(const struct maker *m, struct sums *used, int k, int position)
{
    const struct np_flight_stage *stage = &m->layout->stage[k];
    size_t value = m->samples * np_shape_floats(m->net->shapes[position]);
    struct np_flight_place *place = &stage->place[position - stage->lowest];
    *place = (struct np_flight_place){.y = NP_NO_STORAGE,
                                      .dy = NP_NO_STORAGE,
                                      .saved = NP_NO_STORAGE,
                                      .delta = NP_NO_STORAGE,
                                      .batch = NP_NO_STORAGE};
    if (!receives(m, k, position))
        return;
    place->y = add_part(&used->slot, value);
    place->dy = add_part(&used->slot, value);
}

static void lay_position(const struct maker *m, struct sums *used, int k, int position)
{
    const struct np_flight_stage *stage = &m->layout->stage[k];
    struct np_flight_place *place = &stage->place[position - stage->lowest];
    struct needs needs = most_needs(m, position);
    size_t entry = 0;
    *place = (struct np_flight_place){.dy = NP_NO_STORAGE, .delta = NP_NO_STORAGE};
    if (receives(m, k, position)) /* also where every candidate passes another value on */
        needs.y = needs.dy;
    place->y = add_part(&used->slot, needs.y);
    place->batch = add_part(&used->slot, needs.batch);
    used->work = np_larger(used->work, needs.work);
    used->batch = np_larger(used->batch, needs.batch);
    if (m->shape->forward_only) { /* what is saved is of no use after the call */
        used->saved = np_larger(used->saved, needs.saved);
        return;
    }
    place->saved = add_part(m->shape->recompute ? &entry : &used->slot, needs.saved);
    place->dy = add_part(&used->slot, needs.dy);
    place->delta = add_part(m->shape->recompute ? &entry : &used->slot, needs.delta);
    used->entry = np_larger(used->entry, entry);
    used->output = np_larger(used->output, needs.y);
    place_sums(m, stage, position, needs.sum, &used->sums);
    used->apart = np_larger(used->apart, needs.apart);
}

/* What the head's stage keeps of a step's first member, as long as the step's sums are open. */
static void lay_soft(const struct maker *m, struct np_flight_stage *stage)
{
    const struct np_recipe *recipe = m->net->recipe;
    size_t rows = m->samples * np_batch_targets(recipe);
    if (recipe->distill <= 0 || m->shape->forward_only || stage->end < m->net->positions)
        return;
    stage->soft_a_step = (size_t)m->pieces / (size_t)recipe->members;
    add_part(&stage->soft_floats, times(rows, (size_t)recipe->vocab));
    stage->block_bytes[NP_BLOCK_SOFT] =
        times(times(times((size_t)stage->open_steps, stage->soft_a_step), stage->soft_floats),
              sizeof(float));
}

/* Each position of a unit has an entry. */
static void lay_entries(const struct maker *m, struct np_flight_stage *stage,
                        const struct sums *used)
{
    size_t positions = (size_t)(stage->end - stage->first), unit = (size_t)m->shape->unit;
    if (!m->shape->recompute || m->shape->forward_only)
        return;
    stage->entries = unit < positions ? unit : positions;
    stage->entry_floats = used->entry;
    stage->output_floats = used->output;
    stage->block_bytes[NP_BLOCK_ENTRIES] =
        times(times(stage->entries, used->entry) + used->output, sizeof(float));
}

static void lay_stage(const struct maker *m, int k)
{
    const struct np_flight_shape *shape = m->shape;
    struct np_flight_stage *stage = &m->layout->stage[k];
    struct sums used = {.slot = 0};
    size_t work = 0;
    open_stage(m, k);
    for (int p = stage->lowest; p < stage->first; p++)
        lay_received(m, &used, k, p);
    for (int p = stage->first; p < stage->end; p++)
        lay_position(m, &used, k, p);
    if (shape->forward_only) {
        size_t saved = add_part(&used.slot, used.saved);
        for (int p = stage->first; p < stage->end; p++)
            stage->place[p - stage->lowest].saved = saved;
    }
    add_part(&work, used.work);
    stage->apart = add_part(&work, used.apart);
    stage->slot_floats = used.slot;
    stage->batch_floats = used.batch;
    stage->block_bytes[NP_BLOCK_SLOTS] =
        times(times((size_t)stage->slots, used.slot), sizeof(float));
    stage->block_bytes[NP_BLOCK_SUMS] = times(used.sums, sizeof(float));
    lay_soft(m, stage);
    lay_entries(m, stage, &used);
    stage->block_bytes[NP_BLOCK_WORK] = times(work, sizeof(float));
    stage->scratch_bytes = shape->scratch ? shape->scratch : np_ops_scratch_bytes(m->net);
    stage->scratch_bytes = np_round_up(stage->scratch_bytes, NP_ALIGN);
    stage->block_bytes[NP_BLOCK_SCRATCH] = times((size_t)shape->threads, stage->scratch_bytes);
}

/* Which positions each stage may run or receive, and their places. */
static enum np_status assign_places(const struct maker *m, struct np_error *err)
{
    const struct np_flight_shape *shape = m->shape;
    const struct np_balance balance = {m->net->positions, shape->stages, shape->stage_first,
                                       shape->unit, shape->reach};
    struct np_flight_stage *stages = m->layout->stage;
    struct np_flight_place *place;
    size_t count = 0;
    enum np_status status;
    for (int k = 0; k < shape->stages; k++) {
        int lowest = 0;
        np_balance_range(&balance, k, &stages[k].first, &stages[k].end);
        while (lowest < stages[k].first && !receives(m, k, lowest))
            lowest++;
        stages[k].lowest = lowest;
        count += (size_t)(stages[k].end - lowest);
    }
    status = np_zalloc(&m->layout->places, count, sizeof *place, err);
    if (status != NP_OK)
        return status;
    place = m->layout->places;
    for (int k = 0; k < shape->stages; k++) {
        stages[k].place = place;
        place += stages[k].end - stages[k].lowest;
    }
    return NP_OK;
}

enum np_status np_flight_layout_init(struct np_flight_layout *layout, const struct np_supernet *net,
                                     const struct np_flight_shape *shape, struct np_error *err)
{
    struct maker m = {.net = net, .shape = shape, .layout = layout};
    int replicas = shape->replicas ? shape->replicas : 1;
    const struct np_sched_share share =
        np_sched_share(replicas, net->recipe->members, shape->micro_batches);
    enum np_status status;
    *layout = (struct np_flight_layout){.apart = shape->apart};
    m.samples = (size_t)(net->recipe->batch / shape->micro_batches);
    m.pieces = (uint64_t)np_sched_flights_of(&share);
    m.one_flight = m.pieces == 1 && replicas == 1;
    NP_TRY(np_alloc(&m.kinds, (size_t)net->kind_count, sizeof *m.kinds, err));
    for (int k = 0; k < net->kind_count; k++)
        m.kinds[k] = kind_needs(net->recipe, &net->kinds[k], m.samples);
    NP_TRY(np_zalloc(&layout->stage, (size_t)shape->stages, sizeof *layout->stage, err));
    NP_TRY(assign_places(&m, err));
    for (int k = 0; k < shape->stages; k++)
        lay_stage(&m, k);
out:
    free(m.kinds);
    if (status != NP_OK)
        np_flight_layout_clear(layout);
    return status;
}

void np_flight_layout_clear(struct np_flight_layout *layout)
{
    free(layout->places);
    free(layout->stage);
    *layout = (struct np_flight_layout){NULL};
}

uint64_t np_flight_layout_bytes(const struct np_flight_layout *layout, int stage, int replica)
{
    uint64_t bytes = 0;
    for (int b = 0; b < NP_FLIGHT_BLOCKS; b++)
        if (b != NP_BLOCK_SUMS || replica == 0 || layout->apart)
            bytes += np_arena_bytes(layout->stage[stage].block_bytes[b]);
    return bytes;
}
