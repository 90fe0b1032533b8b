/* How a step becomes known to the scheduler: its uses of layers, its cut and its flights. */
#include <assert.h>
#include <string.h>

#include "sched/sched_state.h"

/* Enters the use into its own step's chain, or else into the FIFO of its layer. True if an earlier
 * step still has to update the layer. */
static bool enter_choice(struct np_sched *s, uint32_t slot, uint32_t member, uint32_t position)
{
    uint32_t node = np_node(s, slot, member, position), first = np_node(s, slot, 0, position);
    struct np_use *use = &s->use[node];
    uint32_t before = s->last_user[use->layer];
    if (before != NP_NO_NODE && before >= first && before < node) {
        struct np_use *owner = &s->use[before];
        use->owner = owner->owner;
        s->use[np_node(s, slot, owner->last, position)].same = (uint16_t)member;
        owner->last = (uint16_t)member;
        return owner->waits;
    }
    s->last_user[use->layer] = node;
    if (before != NP_NO_NODE)
        s->use[before].next = node;
    use->waits = before != NP_NO_NODE;
    return use->waits;
}

/* A shared position: all members are one chain, and the version to wait for is D steps back. */
static bool enter_shared(struct np_sched *s, uint32_t slot, uint32_t member, uint32_t position)
{
    struct np_use *use = &s->use[np_node(s, slot, member, position)];
    uint64_t delay = (uint64_t)s->config.delay, number = s->step[slot].number;
    bool waits = number >= delay && s->shared_updates[position] < number - delay + 1;
    use->owner = 0;
    if (member + 1 < (uint32_t)s->config.members)
        use->same = (uint16_t)(member + 1);
    if (member == 0)
        use->waits = waits;
    return waits;
}

static void enter(struct np_sched *s, uint32_t slot, uint32_t member, uint32_t position,
                  uint32_t choice)
{
    const struct np_sched_config *c = &s->config;
    struct np_use *use = &s->use[np_node(s, slot, member, position)];
    uint32_t candidate = c->layer_first[position] + choice;
    uint32_t layer = np_sched_whole(c, candidate);
    struct np_layer_cost cost = c->cost[candidate];
    bool learns = c->kind[position] != NP_SHARED_FROZEN && !c->weightless[layer], waits;
    assert(candidate < c->layer_first[position + 1]);
    *use = (struct np_use){.layer = layer,
                           .cost = cost,
                           .next = NP_NO_NODE,
                           .same = NP_NO_MEMBER,
                           .last = (uint16_t)member,
                           .owner = (uint16_t)member,
                           .turn_member = (uint16_t)member,
                           .learns = learns};
    s->step[slot].piece +=
        (cost.f + cost.b + (learns ? cost.w : 0)) / (float)(c->members * c->stages);
    if (!learns)
        return;
    if (c->kind[position] == NP_SHARED_DELAY)
        waits = enter_shared(s, slot, member, position);
    else
        waits = enter_choice(s, slot, member, position);
    if (waits)
        s->blocked[np_flight(s, slot, member, s->unit_of[position])]++;
}

/* What a member's flights lack at first: their tasks, counted from the last stage down. */
static void enter_flights(struct np_sched *s, uint32_t slot, uint32_t member)
{
    const struct np_sched_config *c = &s->config;
    const struct np_use *use = &s->use[np_node(s, slot, member, 0)];
    const uint16_t *begins = np_begins(s, slot);
    uint16_t *lacking = np_lacking(s, slot, member, 0), after = 0;
    for (int k = c->stages; k-- > 0; after = lacking[k]) {
        int first = begins[k], end = begins[k + 1];
        int tasks = first < end ? 2 * (s->unit_of[end - 1] - s->unit_of[first] + 1) : 0;
        for (int p = first; p < end; p++)
            tasks += use[p].learns;
        lacking[k] = (uint16_t)(tasks + (after > 0));
    }
    for (uint32_t m = 1; m < (uint32_t)c->micro_batches; m++)
        memcpy(np_lacking(s, slot, member, m), lacking, (size_t)c->stages * sizeof *lacking);
}

/* The stages of a step whose uses are entered: home, or as balances its costs. */
static void cut(struct np_sched *s, uint32_t slot)
{
    const struct np_sched_config *c = &s->config;
    const struct np_balance balance = np_balance_of(c);
    uint16_t *begins = np_begins(s, slot), *stages = np_stages(s, slot);
    for (int p = 0; c->reach && p < c->positions; p++) {
        s->load[p] = 0;
        for (int i = 0; i < c->members; i++) {
            const struct np_use *use = &s->use[np_node(s, slot, (uint32_t)i, (uint32_t)p)];
            s->load[p] += use->cost.f + use->cost.b + (use->learns ? use->cost.w : 0);
        }
    }
    if (c->reach)
        np_balance_cut(&balance, begins, s->load, s->balance);
    for (int k = 0; !c->reach && k <= c->stages; k++)
        begins[k] = (uint16_t)c->stage_first[k];
    for (int k = 0; k < c->stages; k++)
        for (int p = begins[k]; p < begins[k + 1]; p++)
            stages[p] = (uint16_t)k;
}

void np_sched_enter(struct np_sched *s, const uint16_t *choices)
{
    const struct np_sched_config *c = &s->config;
    uint32_t slot = np_slot(s, s->known);
    size_t flights = (size_t)c->members * (size_t)s->units, micros = (size_t)c->micro_batches;
    s->step[slot] = (struct np_step){.number = s->known};
    memset(&s->blocked[np_flight(s, slot, 0, 0)], 0, flights * sizeof *s->blocked);
    memset(&s->flags[np_flight(s, slot, 0, 0) * micros], 0, flights * micros);
    for (int i = 0; i < c->members; i++)
        for (int p = 0; p < c->positions; p++)
            enter(s, slot, (uint32_t)i, (uint32_t)p, *choices++);
    cut(s, slot);
    for (int i = 0; i < c->members; i++)
        enter_flights(s, slot, (uint32_t)i);
    s->known++;
}
