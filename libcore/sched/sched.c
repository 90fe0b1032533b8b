/* The events of the causal scheduler. Each costs O(1) per task that it makes ready, plus the heap.
 *
 * What makes a task ready is counted, never searched: F waits for its input, for the layers of its
 * unit that an earlier step still has to update and, where its flight enters a stage, until the
 * stage's flights before it have made room; B for its gradient alone, because that
 * gradient exists only after F; W for its B and for its turn among the contributions to its layer.
 */
#include "sched/sched.h"

#include <assert.h>

#include "sched/sched_state.h"

static void wake(struct np_sched *s, int device)
{
    if (device < s->woken_first)
        s->woken_first = device;
    if (device > s->woken_last)
        s->woken_last = device;
}

static void make_ready(struct np_sched *s, enum np_task_kind kind, uint32_t slot, uint32_t member,
                       uint32_t micro, uint32_t place)
{
    struct np_ready_entry entry = {.slot = (uint16_t)slot,
                                   .member = (uint16_t)member,
                                   .micro = (uint16_t)micro,
                                   .place = place & 0x3fff,
                                   .kind = kind};
    uint32_t position = kind == NP_TASK_W ? place : s->unit[place].first;
    int device = np_device(s, member, micro, np_stages(s, slot)[position]);
    if (s->step[slot].number > s->last)
        return;
    entry.key = np_priority_key(s, &entry);
    np_ready_push(&s->ready[device], entry);
    wake(s, device);
}

/* F of this member's unit waits for the first member's. */
static bool is_led(const struct np_sched *s, uint32_t member, uint32_t unit)
{
    return s->config.leads && member > 0 && unit + 1 == (uint32_t)s->units;
}

/* Makes F ready if nothing is left that it waits for. */
static void offer_forward(struct np_sched *s, uint32_t slot, uint32_t member, uint32_t micro,
                          uint32_t unit)
{
    size_t flight = np_flight(s, slot, member, unit);
    uint8_t flags = s->flags[flight * (size_t)s->config.micro_batches + micro];
    uint32_t first = s->unit[unit].first;
    int stage = np_stages(s, slot)[first];
    const struct np_lane *lane = &s->lane[np_device(s, member, micro, stage)];
    bool enters = first == np_begins(s, slot)[stage];
    if (s->blocked[flight] > 0 || !(flags & NP_HAS_INPUT) ||
        (is_led(s, member, unit) && !(flags & NP_LED)) ||
        (enters && np_flight_number(s, slot, member, micro) >= lane->retired + lane->in_flight))
        return;
    make_ready(s, NP_TASK_F, slot, member, micro, unit);
}

static void input_arrived(struct np_sched *s, uint32_t slot, uint32_t member, uint32_t micro,
                          uint32_t unit)
{
    size_t flight = np_flight(s, slot, member, unit);
    uint8_t *flags = &s->flags[flight * (size_t)s->config.micro_batches + micro];
    assert(!(*flags & NP_HAS_INPUT));
    *flags |= NP_HAS_INPUT;
    offer_forward(s, slot, member, micro, unit);
}

/* One layer fewer to wait for, for every member of the chain that starts at `owner`. */
static void unblock(struct np_sched *s, uint32_t slot, uint32_t owner, uint32_t position)
{
    uint32_t unit = s->unit_of[position];
    for (uint32_t i = owner; i != NP_NO_MEMBER; i = s->use[np_node(s, slot, i, position)].same) {
        if (--s->blocked[np_flight(s, slot, i, unit)] > 0)
            continue;
        for (uint32_t m = 0; m < (uint32_t)s->config.micro_batches; m++)
            offer_forward(s, slot, i, m, unit);
    }
}

/* Lets steps begin up to the window's end. The bound counts from the oldest step that is not
 * complete, so a step in flight never waits for one that may not begin. */
static void open_window(struct np_sched *s)
{
    uint64_t end = s->base + (uint64_t)s->config.window;
    while (s->open < s->known && s->open < end) {
        for (int i = 0; i < s->config.members; i++)
            for (int m = 0; m < s->config.micro_batches; m++)
                input_arrived(s, np_slot(s, s->open), (uint32_t)i, (uint32_t)m, 0);
        s->open++;
        s->stale = true;
    }
}

bool np_sched_wants(const struct np_sched *s)
{
    return s->known <= s->last &&
           s->known - s->base < (uint64_t)s->config.window + (uint64_t)s->config.lookahead;
}

void np_sched_push(struct np_sched *s, const uint16_t *choices)
{
    assert(np_sched_wants(s));
    np_sched_enter(s, choices);
    open_window(s);
}

static bool is_beyond(const struct np_ready_entry *entry, const struct np_sched *s)
{
    return s->step[entry->slot].number > s->last;
}

void np_sched_stop_after(struct np_sched *s, uint64_t last)
{
    if (last >= s->last)
        return;
    s->last = last;
    for (int d = 0; d < np_sched_devices(&s->config); d++) {
        struct np_ready *ready = &s->ready[d];
        uint32_t kept = 0;
        for (uint32_t e = 0; e < ready->count; e++)
            if (!is_beyond(&ready->entry[e], s))
                ready->entry[kept++] = ready->entry[e];
        ready->count = kept;
        np_ready_rebuild(ready);
    }
}

bool np_sched_next(struct np_sched *s, int device, struct np_task *task)
{
    struct np_ready_entry entry;
    const struct np_use *use;
    assert(device >= 0 && device < np_sched_devices(&s->config));
    if (s->stale)
        np_priority_refresh(s);
    if (!np_ready_pop(&s->ready[device], &entry))
        return false;
    *task = (struct np_task){.kind = (enum np_task_kind)entry.kind,
                             .stage = device % s->config.stages,
                             .device = device,
                             .step = s->step[entry.slot].number,
                             .member = entry.member,
                             .micro = entry.micro,
                             .first = entry.place,
                             .count = 1};
    if (task->step >= s->started)
        s->started = task->step + 1;
    if (task->kind != NP_TASK_W) {
        task->first = s->unit[entry.place].first;
        task->count = s->unit[entry.place].count;
        return true;
    }
    use = &s->use[np_node(s, entry.slot, entry.member, entry.place)];
    task->opens = use->owner == entry.member && entry.micro == 0;
    task->updates = use->same == NP_NO_MEMBER && entry.micro + 1 == s->config.micro_batches;
    return true;
}

/* Makes the contribution ready whose turn it is, if its B has ended and, where it would carry the
 * update of a shared position, the step before has updated. */
static void offer_turn(struct np_sched *s, uint32_t slot, uint32_t owner, uint32_t position)
{
    const struct np_use *use = &s->use[np_node(s, slot, owner, position)];
    uint32_t i = use->turn_member, m = use->turn_micro, micros = (uint32_t)s->config.micro_batches;
    size_t flight = np_flight(s, slot, i, s->unit_of[position]);
    if (!(s->flags[flight * micros + m] & NP_B_ENDED))
        return;
    if (s->config.kind[position] == NP_SHARED_DELAY && m + 1 == micros &&
        s->use[np_node(s, slot, i, position)].same == NP_NO_MEMBER &&
        s->shared_updates[position] < s->step[slot].number)
        return;
    make_ready(s, NP_TASK_W, slot, i, m, position);
}

static void update_shared(struct np_sched *s, uint64_t step, uint32_t position)
{
    uint64_t reader = step + (uint64_t)s->config.delay;
    s->shared_updates[position]++;
    assert(s->shared_updates[position] == step + 1);
    if (reader < s->known) {
        s->use[np_node(s, np_slot(s, reader), 0, position)].waits = false;
        unblock(s, np_slot(s, reader), 0, position);
    }
    if (step + 1 < s->known) {
        uint32_t slot = np_slot(s, step + 1);
        const struct np_use *use = &s->use[np_node(s, slot, 0, position)];
        if (use->turn_member + 1 == s->config.members &&
            use->turn_micro + 1 == s->config.micro_batches)
            offer_turn(s, slot, 0, position);
    }
}

static void update_choice(struct np_sched *s, const struct np_use *owner, uint32_t position)
{
    struct np_use *next;
    if (owner->next == NP_NO_NODE) {
        s->last_user[owner->layer] = NP_NO_NODE;
        return;
    }
    next = &s->use[owner->next];
    next->waits = false;
    unblock(s, np_slot_of_node(s, owner->next), next->owner, position);
}

static void weight_done(struct np_sched *s, const struct np_task *task)
{
    uint32_t slot = np_slot(s, task->step), position = (uint32_t)task->first;
    const struct np_use *use = &s->use[np_node(s, slot, (uint32_t)task->member, position)];
    struct np_use *owner = &s->use[np_node(s, slot, use->owner, position)];
    assert(owner->turn_member == task->member && owner->turn_micro == task->micro);
    if (task->updates) {
        owner->turn_member = NP_NO_MEMBER;
        if (s->config.kind[position] == NP_SHARED_DELAY)
            update_shared(s, task->step, position);
        else
            update_choice(s, owner, position);
        return;
    }
    if (++owner->turn_micro == s->config.micro_batches) {
        owner->turn_micro = 0;
        owner->turn_member = use->same;
    }
    offer_turn(s, slot, use->owner, position);
}

static void backward_done(struct np_sched *s, const struct np_task *task, uint32_t unit)
{
    uint32_t slot = np_slot(s, task->step), i = (uint32_t)task->member;
    size_t flight = np_flight(s, slot, i, unit);
    s->flags[flight * (size_t)s->config.micro_batches + (size_t)task->micro] |= NP_B_ENDED;
    for (uint32_t p = (uint32_t)task->first; p < (uint32_t)(task->first + task->count); p++) {
        const struct np_use *use = &s->use[np_node(s, slot, i, p)];
        const struct np_use *owner = &s->use[np_node(s, slot, use->owner, p)];
        if (use->learns && owner->turn_member == i && owner->turn_micro == task->micro)
            offer_turn(s, slot, use->owner, p);
    }
}

/* The first member's F of the last unit has ended: the others' may begin. */
static void lead(struct np_sched *s, const struct np_task *task, uint32_t unit)
{
    uint32_t slot = np_slot(s, task->step), micro = (uint32_t)task->micro;
    for (uint32_t i = 1; s->config.leads && i < (uint32_t)s->config.members; i++) {
        size_t flight = np_flight(s, slot, i, unit);
        s->flags[flight * (size_t)s->config.micro_batches + micro] |= NP_LED;
        offer_forward(s, slot, i, micro, unit);
    }
}

/* A flight by its number on a replica. */
struct flight {
    uint32_t slot, member, micro;
};

static struct flight flight_at(const struct np_sched *s, int replica, uint64_t number)
{
    uint64_t members = (uint64_t)s->share.members, micros = (uint64_t)s->share.micros;
    uint64_t group = (uint64_t)(replica / s->share.beside);
    uint64_t part = (uint64_t)(replica % s->share.beside);
    return (struct flight){np_slot(s, number / micros / members),
                           (uint32_t)(group * members + number / micros % members),
                           (uint32_t)(part * micros + number % micros)};
}

static bool is_retired(const struct np_sched *s, int device, uint64_t number)
{
    struct flight f = flight_at(s, device / s->config.stages, number);
    return np_lacking(s, f.slot, f.member, f.micro)[device % s->config.stages] == 0;
}

/* The oldest flights may have become retired at the device: others begin in their place. Flights of
 * steps that have not begun have no input yet. */
static void slide(struct np_sched *s, int device)
{
    struct np_lane *lane = &s->lane[device];
    uint64_t begun = s->open * (uint64_t)np_pieces(s), before = lane->retired, end;
    while (lane->retired < begun && is_retired(s, device, lane->retired))
        lane->retired++;
    if (lane->retired == before)
        return;
    end = lane->retired + lane->in_flight < begun ? lane->retired + lane->in_flight : begun;
    for (uint64_t q = before + lane->in_flight; q < end; q++) {
        struct flight f = flight_at(s, device / s->config.stages, q);
        const uint16_t *begins = np_begins(s, f.slot) + device % s->config.stages;
        if (begins[0] < begins[1])
            offer_forward(s, f.slot, f.member, f.micro, s->unit_of[begins[0]]);
    }
}

/* All steps below this number have no flight left on any replica. */
static uint64_t oldest_step(const struct np_sched *s)
{
    uint64_t oldest = UINT64_MAX;
    for (int r = 0; r < s->config.replicas; r++) {
        uint64_t retired = s->lane[r * s->config.stages].retired;
        oldest = retired < oldest ? retired : oldest;
    }
    return oldest / (uint64_t)np_pieces(s);
}

/* One task fewer for its flight, which may be retired at the stage, and at those before it. Steps
 * whose flights are all retired at stage 0 are complete: newer ones may begin in their place. */
static void retire(struct np_sched *s, const struct np_task *task)
{
    uint16_t *lacking =
        np_lacking(s, np_slot(s, task->step), (uint32_t)task->member, (uint32_t)task->micro);
    uint64_t base = s->base;
    for (int k = task->stage; k >= 0 && --lacking[k] == 0; k--)
        slide(s, task->device - task->stage + k);
    s->base = oldest_step(s);
    if (s->base == base)
        return;
    s->stale = true;
    open_window(s);
}

/* Hands the output of an F or B on: to `to`, within its stage at once. */
static bool hand_on(struct np_sched *s, const struct np_task *task, enum np_task_kind kind,
                    uint32_t unit, struct np_task *delivery)
{
    const struct np_unit *to = &s->unit[unit];
    *delivery = *task;
    delivery->kind = kind;
    delivery->stage = np_stages(s, np_slot(s, task->step))[to->first];
    delivery->device = task->device - task->stage + delivery->stage;
    delivery->first = to->first;
    delivery->count = to->count;
    if (delivery->stage != task->stage)
        return true;
    np_sched_arrived(s, delivery);
    return false;
}

bool np_sched_done(struct np_sched *s, const struct np_task *task, struct np_task *delivery)
{
    uint32_t unit = s->unit_of[task->first];
    bool leaves = false;
    assert(s->step[np_slot(s, task->step)].number == task->step);
    s->woken_first = s->woken_last = task->device;
    if (task->kind == NP_TASK_W)
        weight_done(s, task);
    else if (task->kind == NP_TASK_F && unit + 1 < (uint32_t)s->units)
        leaves = hand_on(s, task, NP_TASK_F, unit + 1, delivery);
    else if (task->kind == NP_TASK_F) {
        leaves = hand_on(s, task, NP_TASK_B, unit, delivery);
        if (task->member == 0)
            lead(s, task, unit);
    } else {
        backward_done(s, task, unit);
        if (unit > 0)
            leaves = hand_on(s, task, NP_TASK_B, unit - 1, delivery);
    }
    retire(s, task);
    return leaves;
}

void np_sched_woken(const struct np_sched *s, int *first, int *last)
{
    *first = s->woken_first;
    *last = s->woken_last;
}

const uint16_t *np_sched_stages(const struct np_sched *s, uint64_t step)
{
    uint32_t slot = np_slot(s, step);
    assert(s->step[slot].number == step);
    return np_stages(s, slot);
}

void np_sched_arrived(struct np_sched *s, const struct np_task *delivery)
{
    uint32_t slot = np_slot(s, delivery->step), member = (uint32_t)delivery->member;
    uint32_t micro = (uint32_t)delivery->micro, unit = s->unit_of[delivery->first];
    assert(s->step[slot].number == delivery->step);
    if (delivery->kind == NP_TASK_F)
        input_arrived(s, slot, member, micro, unit);
    else
        make_ready(s, NP_TASK_B, slot, member, micro, unit);
}

double np_sched_cost(const struct np_sched *s, const struct np_task *task)
{
    const struct np_use *use =
        &s->use[np_node(s, np_slot(s, task->step), (uint32_t)task->member, (uint32_t)task->first)];
    double sum = 0;
    for (int p = 0; p < task->count; p++) {
        struct np_layer_cost cost = use[p].cost;
        sum += (double)(task->kind == NP_TASK_F   ? cost.f
                        : task->kind == NP_TASK_B ? cost.b
                                                  : cost.w);
    }
    return sum;
}

uint32_t np_sched_layer(const struct np_sched *s, const struct np_task *task, int position)
{
    uint32_t slot = np_slot(s, task->step);
    return s->use[np_node(s, slot, (uint32_t)task->member, (uint32_t)position)].layer;
}

int np_sched_default_window(int stages, int micro_batches)
{
    int fill = (4 * stages + micro_batches - 1) / micro_batches, most = 2 * stages;
    fill = fill > 4 ? fill : 4;
    return fill < most ? fill : most;
}

uint64_t np_sched_completed(const struct np_sched *s)
{
    return s->base;
}

uint64_t np_sched_known(const struct np_sched *s)
{
    return s->known;
}

uint64_t np_sched_started(const struct np_sched *s)
{
    return s->started;
}
