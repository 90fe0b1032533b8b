#include "sched/ahead.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sched/virtual.h"

struct np_ahead {
    struct np_ahead_config config; /* of sched, only what is no pointer */
    struct np_virtual *machine;
    uint64_t slots; /* steps that may be known */
    uint8_t *begun; /* [slots][members][positions]: 1 << pass, where the member owns the layer */
};

static size_t places(const struct np_ahead *a)
{
    return (size_t)a->config.sched.members * (size_t)a->config.sched.positions;
}

static uint32_t layer_of(const struct np_ahead *a, const struct np_task *task, int member,
                         int position)
{
    struct np_task other = *task;
    other.member = member;
    return np_sched_layer(np_virtual_sched(a->machine), &other, position);
}

static enum np_status visit(struct np_ahead *a, const struct np_task *task, int position,
                            struct np_error *err)
{
    const struct np_sched_config *c = &a->config.sched;
    enum np_context_pass pass = task->kind == NP_TASK_F ? NP_CONTEXT_FORWARD : NP_CONTEXT_BACKWARD;
    size_t slot = (size_t)(task->step % a->slots) * places(a), positions = (size_t)c->positions;
    uint32_t layer = layer_of(a, task, task->member, position), users = 0;
    int owner = 0;
    while (layer_of(a, task, owner, position) != layer)
        owner++;
    uint8_t *begun = &a->begun[slot + (size_t)owner * positions + (size_t)position];
    if (*begun & 1 << pass)
        return NP_OK;
    *begun |= (uint8_t)(1 << pass);
    for (int i = owner; i < c->members; i++)
        users += layer_of(a, task, i, position) == layer;
    users *= (uint32_t)c->micro_batches;
    struct np_visit v = {.stage = task->stage,
                         .layer = layer,
                         .step = task->step,
                         .pass = pass,
                         .tasks = pass == NP_CONTEXT_FORWARD ? users : 2 * users};
    return a->config.on_visit(a->config.context, &v, err);
}

static enum np_status on_start(void *context, const struct np_task *task, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int p = 0; p < task->count; p++)
        NP_TRY(visit(context, task, task->first + p, err));
out:
    return status;
}

enum np_status np_ahead_new(struct np_ahead **out, const struct np_ahead_config *config,
                            struct np_error *err)
{
    const struct np_sched_config *c = &config->sched;
    struct np_virtual_config machine = {.sched = *c,
                                        .overhead = config->overhead,
                                        .transfer = config->transfer,
                                        .on_start = on_start};
    struct np_ahead *a = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&a, 1, sizeof *a, err));
    a->config = *config;
    a->slots = (uint64_t)c->window + (uint64_t)c->lookahead;
    NP_TRY(np_zalloc(&a->begun, (size_t)a->slots, places(a), err));
    machine.context = a;
    NP_TRY(np_virtual_new(&a->machine, &machine, err));
    *out = a;
    return NP_OK;
out:
    np_ahead_free(a);
    return status;
}

void np_ahead_free(struct np_ahead *a)
{
    if (!a)
        return;
    np_virtual_free(a->machine);
    free(a->begun);
    free(a);
}

enum np_status np_ahead_run(struct np_ahead *a, uint64_t keep, struct np_error *err)
{
    const struct np_sched *sched = np_virtual_sched(a->machine);
    enum np_status status = np_virtual_assign(a->machine, err);
    bool more = true;
    while (status == NP_OK && more && np_sched_known(sched) - np_sched_completed(sched) > keep) {
        NP_TRY(np_virtual_advance(a->machine, &more, err));
        NP_TRY(np_virtual_assign(a->machine, err));
    }
out:
    return status;
}

enum np_status np_ahead_push(struct np_ahead *a, const uint16_t *choices, struct np_error *err)
{
    const struct np_sched *sched = np_virtual_sched(a->machine);
    enum np_status status;
    size_t slot;
    NP_TRY(np_ahead_run(a, a->slots - 1, err));
    slot = (size_t)(np_sched_known(sched) % a->slots) * places(a);
    memset(a->begun + slot, 0, places(a));
    NP_TRY(np_virtual_push(a->machine, choices, err));
out:
    return status;
}
