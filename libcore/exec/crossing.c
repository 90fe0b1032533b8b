#include "exec/crossing.h"

#include <assert.h>

#include "exec/step.h"

struct cut {
    const struct np_sweep *sweep;
    const struct np_supernet *net;
    int position;       /* the first behind it */
    int before, behind; /* memories */
};

int np_crossing_entry(const struct np_plan *plan, const uint16_t *stages, int position)
{
    int memory = np_plan_memory(plan, stages[position]); /* cuts are the same in all replicas */
    while (position > 0 && np_plan_memory(plan, stages[position - 1]) == memory)
        position--;
    return position;
}

/* False if nothing is to be carried there. */
static bool cut_at(struct cut *cut, const struct np_sweep *sweep, int position)
{
    const struct np_plan *plan = sweep->config->plan;
    *cut = (struct cut){.sweep = sweep, .net = sweep->config->net, .position = position};
    if (!sweep->transport || position == 0 || position == cut->net->positions)
        return false;
    cut->before = np_plan_memory(plan, sweep->device + sweep->stages[position - 1]);
    cut->behind = np_plan_memory(plan, sweep->device + sweep->stages[position]);
    return cut->before != cut->behind;
}

static bool crosses(const struct cut *cut, int value)
{
    return np_supernet_last_reader(cut->net, value) >= cut->position;
}

/* Whether B of a reader gives something back, as np_sweep_backward has it. */
static bool gives(const struct cut *cut, const struct np_reader *reader)
{
    const struct np_kind *kind = np_step_kind(cut->net, cut->sweep->choices, reader->position);
    if (reader->value == NP_VALUE_SUM)
        return true;
    if (np_program_passes_on(&kind->program))
        return reader->value == kind->program.output;
    return np_op_gives(kind, reader->value);
}

static bool returns(const struct cut *cut, int value)
{
    const struct np_supernet *net = cut->net;
    for (int i = net->reader_first[value + 1] - 1; i >= net->reader_first[value]; i--)
        if (net->readers[i].position >= cut->position && gives(cut, &net->readers[i]))
            return true;
    return false;
}

static struct np_message message_of(const struct cut *cut, enum np_cargo cargo)
{
    bool back = cargo == NP_CARGO_GRADIENTS;
    return (struct np_message){.cargo = cargo,
                               .from = back ? cut->behind : cut->before,
                               .to = back ? cut->before : cut->behind,
                               .flight = cut->sweep->flight,
                               .number = (uint32_t)cut->position};
}

/* A message's parts: all values that cross, or gradients that return, in ascending order, each
 * where `place` has it. */
static int gather(const struct cut *cut, enum np_cargo cargo,
                  float *(*place)(const struct cut *cut, int value))
{
    struct np_cargo_part *parts = cut->sweep->parts;
    int count = 0;
    for (int v = 0; v < cut->position; v++) {
        size_t floats = cut->sweep->samples * np_shape_floats(cut->net->shapes[v]);
        if (!crosses(cut, v) || (cargo == NP_CARGO_GRADIENTS && !returns(cut, v)))
            continue;
        parts[count++] = (struct np_cargo_part){place(cut, v), floats * sizeof(float)};
    }
    return count;
}

/* What is sent is only read, but a part is of either side. */
static float *made(const float *floats)
{
    union {
        const float *floats;
        float *at;
    } sent = {floats};
    assert(sent.at);
    return sent.at;
}

static float *value_made(const struct cut *cut, int value)
{
    return made(cut->sweep->cells[value].y);
}

static float *gradient_made(const struct cut *cut, int value)
{
    return made(cut->sweep->cells[value].dy);
}

static float *value_room(const struct cut *cut, int value)
{
    return np_sweep_received(cut->sweep, cut->position, value);
}

static float *gradient_room(const struct cut *cut, int value)
{
    return np_sweep_gradient(cut->sweep, value);
}

enum np_status np_crossing_enter(const struct np_sweep *sweep, int first, struct np_error *err)
{
    struct cut cut;
    enum np_status status;
    int count, i = 0;
    if (!cut_at(&cut, sweep, first))
        return NP_OK;
    struct np_message message = message_of(&cut, NP_CARGO_VALUES);
    count = gather(&cut, NP_CARGO_VALUES, value_room);
    NP_TRY(np_transport_carry(sweep->transport, NP_RECEIVES, &message, sweep->parts, count,
                              sweep->came, err));
    np_crew_after(sweep->crew, sweep->came.through);
    for (int v = 0; v < first; v++)
        if (crosses(&cut, v))
            sweep->cells[v] = (struct np_cell){.y = sweep->parts[i++].at};
out:
    return status;
}

void np_crossing_leave(const struct np_sweep *sweep, int last)
{
    struct cut cut;
    int count;
    if (!cut_at(&cut, sweep, last + 1))
        return;
    struct np_message values = message_of(&cut, NP_CARGO_VALUES);
    struct np_message gradients = message_of(&cut, NP_CARGO_GRADIENTS);
    count = gather(&cut, NP_CARGO_VALUES, value_made);
    np_transport_post(sweep->transport, NP_SENDS, &values, sweep->parts, count);
    if (sweep->evaluated)
        return;
    count = gather(&cut, NP_CARGO_GRADIENTS, gradient_room);
    if (count)
        np_transport_post(sweep->transport, NP_RECEIVES, &gradients, sweep->parts, count);
}

enum np_status np_crossing_enter_back(const struct np_sweep *sweep, int last, struct np_error *err)
{
    struct cut cut;
    enum np_status status = NP_OK;
    if (!cut_at(&cut, sweep, last + 1))
        return NP_OK;
    struct np_message message = message_of(&cut, NP_CARGO_GRADIENTS);
    int count = 0;
    for (int v = 0; v < cut.position; v++)
        if (crosses(&cut, v) && returns(&cut, v)) {
            sweep->cells[v].dy = gradient_room(&cut, v);
            count++;
        }
    if (count)
        NP_TRY(np_transport_await(sweep->transport, &message, sweep->crew, err));
out:
    return status;
}

enum np_status np_crossing_leave_back(const struct np_sweep *sweep, int first, struct np_error *err)
{
    struct cut cut;
    if (!cut_at(&cut, sweep, first))
        return NP_OK;
    struct np_message message = message_of(&cut, NP_CARGO_GRADIENTS);
    int count = gather(&cut, NP_CARGO_GRADIENTS, gradient_made);
    if (!count)
        return NP_OK;
    return np_transport_carry(sweep->transport, NP_SENDS, &message, sweep->parts, count,
                              sweep->went, err);
}
