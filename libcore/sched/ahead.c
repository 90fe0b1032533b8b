#include "sched/ahead.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sched/virtual.h"

struct np_ahead {
    struct np_ahead_config config; /* of sched, only what is no pointer, and the two copies */
    uint32_t *layer_first;
    struct np_virtual *machine;
    uint64_t slots;    /* steps that may be known */
    uint16_t *choices; /* [slots][members][positions] */
    uint8_t *begun;    /* [slots][members][positions]: 1 << pass, where the member owns the layer */
};

static size_t places(const struct np_ahead *a)
{
    return (size_t)a->config.sched.members * (size_t)a->config.sched.positions;
}

static enum np_status visit(struct np_ahead *a, const struct np_task *task, int position,
                            struct np_error *err)
{
    const struct np_sched_config *c = &a->config.sched;
    enum np_context_pass pass = task->kind == NP_TASK_F ? NP_PASS_FORWARD : NP_PASS_BACKWARD;
    size_t slot = (size_t)(task->step % a->slots) * places(a), positions = (size_t)c->positions;
    const uint16_t *choice = a->choices + slot + position;
    uint16_t own = choice[(size_t)task->member * positions];
    size_t owner = 0;
    uint32_t users = 0;
    while (choice[owner * positions] != own)
        owner++;
    uint8_t *begun = &a->begun[slot + owner * positions + (size_t)position];
    if (*begun & 1 << pass)
        return NP_OK;
    *begun |= (uint8_t)(1 << pass);
    for (size_t i = owner; i < (size_t)c->members; i++)
        users += choice[i * positions] == own;
    users *= (uint32_t)c->micro_batches;
    struct np_visit v = {.stage = task->stage,
                         .layer = a->layer_first[position] + own,
                         .step = task->step,
                         .pass = pass,
                         .tasks = pass == NP_PASS_FORWARD ? users : 2 * users};
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
    NP_TRY(np_zalloc(&a->layer_first, (size_t)c->positions, sizeof *a->layer_first, err));
    memcpy(a->layer_first, c->layer_first, (size_t)c->positions * sizeof *a->layer_first);
    NP_TRY(np_zalloc(&a->choices, (size_t)a->slots, places(a) * sizeof *a->choices, err));
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
    free(a->layer_first);
    free(a->choices);
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
    memcpy(a->choices + slot, choices, places(a) * sizeof *choices);
    memset(a->begun + slot, 0, places(a));
    NP_TRY(np_virtual_push(a->machine, choices, err));
out:
    return status;
}
