/* The scheduler's memory: one block, laid out by one list that is walked twice, first for the size.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sched/sched_state.h"

struct carver {
    char *block; /* NULL while measuring */
    size_t used;
    bool overflow;
};

static void *carve(struct carver *c, size_t count, size_t size)
{
    size_t bytes = 0, start = c->used;
    if (!np_mul_size(&bytes, count, size) || !np_add_size(&bytes, bytes, NP_ALIGN - 1) ||
        !np_add_size(&c->used, start, bytes / NP_ALIGN * NP_ALIGN))
        c->overflow = true;
    return c->block && !c->overflow ? c->block + start : NULL;
}

/* At most this many tasks of a device are ready at once: every micro-batch waits for one F or B,
 * and of every chain of contributions one has its turn. */
static size_t most_ready(const struct np_sched *s, size_t units, size_t positions)
{
    const struct np_sched_config *c = &s->config;
    return (size_t)c->window * (size_t)c->members * ((size_t)s->share.micros * units + positions);
}

static size_t units_of_home(const struct np_sched_config *c, int stage)
{
    int positions = c->stage_first[stage + 1] - c->stage_first[stage];
    return (size_t)(positions + c->unit - 1) / (size_t)c->unit;
}

static size_t ready_room(const struct np_sched *s, const struct np_sched_config *c, int stage)
{
    const struct np_balance balance = np_balance_of(c);
    int first, end;
    np_balance_range(&balance, stage, &first, &end);
    if (!c->reach)
        return most_ready(s, units_of_home(c, stage), (size_t)(end - first));
    return most_ready(s, (size_t)(end - first), (size_t)(end - first));
}

static void lay_out(struct np_sched *s, const struct np_sched_config *c, struct carver *carver)
{
    size_t positions = (size_t)c->positions, stages = (size_t)c->stages;
    size_t layers = c->layer_first[c->positions], devices = (size_t)np_sched_devices(c);
    size_t slots = (size_t)s->slot_mask + 1, members = (size_t)c->members * slots;
    const struct np_balance balance = np_balance_of(c);
    s->config.layer_first = carve(carver, positions + 1, sizeof *c->layer_first);
    s->config.kind = carve(carver, positions, sizeof *c->kind);
    s->config.cost = carve(carver, layers, sizeof *c->cost);
    s->config.weightless = carve(carver, layers, sizeof *c->weightless);
    if (c->whole)
        s->config.whole = carve(carver, layers, sizeof *c->whole);
    s->config.stage_first = carve(carver, stages + 1, sizeof *c->stage_first);
    s->step = carve(carver, slots, sizeof *s->step);
    s->begins = carve(carver, slots, (stages + 1) * sizeof *s->begins);
    s->stage = carve(carver, slots, positions * sizeof *s->stage);
    s->use = carve(carver, members * positions, sizeof *s->use);
    s->tail = carve(carver, members * positions, sizeof *s->tail);
    s->blocked = carve(carver, members * (size_t)s->units, sizeof *s->blocked);
    s->flags = carve(carver, members * (size_t)s->units, (size_t)c->micro_batches);
    s->lacking = carve(carver, members * (size_t)c->micro_batches, stages * sizeof *s->lacking);
    s->last_user = carve(carver, layers, sizeof *s->last_user);
    s->shared_updates = carve(carver, positions, sizeof *s->shared_updates);
    s->unit = carve(carver, (size_t)s->units, sizeof *s->unit);
    s->unit_of = carve(carver, positions, sizeof *s->unit_of);
    s->ready = carve(carver, devices, sizeof *s->ready);
    s->lane = carve(carver, devices, sizeof *s->lane);
    s->load = carve(carver, positions, sizeof *s->load);
    s->balance = carve(carver, np_balance_scratch(&balance), 1);
    for (size_t d = 0; d < devices; d++) {
        size_t room = ready_room(s, c, (int)(d % stages));
        void *entries = carve(carver, room, sizeof *s->ready[d].entry);
        if (carver->block)
            s->ready[d].entry = entries;
    }
}

/* The copies that lay_out made room for; their pointers in s->config are read-only to all others.
 */
static void copy_config(struct np_sched *s, const struct np_sched_config *c)
{
    size_t positions = (size_t)c->positions, stages = (size_t)c->stages;
    size_t layers = c->layer_first[c->positions];
    memcpy((void *)s->config.layer_first, c->layer_first, (positions + 1) * sizeof *c->layer_first);
    memcpy((void *)s->config.kind, c->kind, positions * sizeof *c->kind);
    memcpy((void *)s->config.cost, c->cost, layers * sizeof *c->cost);
    memcpy((void *)s->config.weightless, c->weightless, layers * sizeof *c->weightless);
    if (c->whole)
        memcpy((void *)s->config.whole, c->whole, layers * sizeof *c->whole);
    memcpy((void *)s->config.stage_first, c->stage_first, (stages + 1) * sizeof *c->stage_first);
}

static void cut_units(struct np_sched *s)
{
    const struct np_sched_config *c = &s->config;
    int unit = 0;
    for (int k = 0; k < c->stages; k++)
        for (int p = c->stage_first[k]; p < c->stage_first[k + 1]; p += c->unit, unit++) {
            int left = c->stage_first[k + 1] - p, count = left < c->unit ? left : c->unit;
            s->unit[unit] = (struct np_unit){(uint16_t)p, (uint16_t)count};
            for (int q = p; q < p + count; q++)
                s->unit_of[q] = (uint16_t)unit;
        }
    assert(unit == s->units);
}

static void open_lanes(struct np_sched *s, const int *in_flight)
{
    for (int d = 0; d < np_sched_devices(&s->config); d++) {
        int asked = in_flight ? in_flight[d % s->config.stages] : 0;
        assert(asked >= 0);
        s->lane[d].in_flight =
            asked ? (uint64_t)asked : (uint64_t)s->config.window * (uint64_t)np_pieces(s);
    }
}

static bool fits(const struct np_sched_config *c, size_t slots)
{
    size_t nodes;
    return c->positions < 1 << 14 && c->stages <= UINT16_MAX && c->members < NP_NO_MEMBER &&
           c->micro_batches <= UINT16_MAX && slots <= 1u << 16 &&
           np_mul_size(&nodes, slots * (size_t)c->members, (size_t)c->positions) &&
           nodes < NP_NO_NODE;
}

static void check(const struct np_sched_config *c)
{
    assert(c->positions > 0 && c->stages > 0 && c->unit > 0 && c->members > 0);
    assert(c->micro_batches > 0 && c->window > 0 && c->lookahead >= 0);
    assert(c->replicas >= 0);
    assert(np_sched_may_share(np_sched_replicas(c), c->members, c->micro_batches));
    assert(!c->leads || c->micro_batches % np_sched_replicas(c) == 0);
    assert(c->reach >= 0 && c->reach <= c->positions);
    assert(c->stage_first[0] == 0 && c->stage_first[c->stages] == c->positions);
    for (int k = 0; k < c->stages; k++)
        assert(c->stage_first[k] <= c->stage_first[k + 1]);
    for (int p = 0; p < c->positions; p++) {
        assert(c->layer_first[p] < c->layer_first[p + 1]);
        assert(!c->reach || c->kind[p] == NP_CHOICE || p == 0 || p == c->positions - 1);
        assert(c->kind[p] != NP_SHARED_DELAY ||
               (c->delay > 0 && c->layer_first[p + 1] - c->layer_first[p] == 1));
    }
}

enum np_status np_sched_new(struct np_sched **out, const struct np_sched_config *config,
                            struct np_error *err)
{
    struct np_sched *s, shape = {.config = *config, .last = UINT64_MAX};
    const size_t head = np_round_up(sizeof shape, NP_ALIGN);
    struct carver carver = {.used = head};
    size_t slots = 1, steps = (size_t)config->window + (size_t)config->lookahead;
    enum np_status status;
    check(config);
    shape.config.replicas = np_sched_replicas(config);
    shape.share = np_sched_share(shape.config.replicas, config->members, config->micro_batches);
    while (slots < steps)
        slots *= 2;
    if (!fits(config, slots))
        return np_fail(err, NP_EMEM,
                       "cannot schedule %d positions, %d members, %zu known steps: too many",
                       config->positions, config->members, steps);
    shape.slot_mask = (uint32_t)(slots - 1);
    for (int k = 0; k < config->stages; k++)
        shape.units += (int)units_of_home(config, k);
    lay_out(&shape, config, &carver);
    if (carver.overflow)
        return np_fail(err, NP_EMEM, "cannot schedule %zu known steps: too many", steps);
    status = np_alloc(&s, carver.used, 1, err);
    if (status != NP_OK)
        return status;
    memset(s, 0, carver.used);
    *s = shape;
    carver = (struct carver){.block = (char *)s, .used = head};
    lay_out(s, config, &carver);
    copy_config(s, config);
    cut_units(s);
    open_lanes(s, config->in_flight);
    s->config.in_flight = NULL; /* the caller's; lanes know */
    for (uint32_t layer = 0; layer < config->layer_first[config->positions]; layer++)
        s->last_user[layer] = NP_NO_NODE;
    *out = s;
    return NP_OK;
}

void np_sched_free(struct np_sched *sched)
{
    free(sched);
}
