/* Priorities: the longest remaining path over the oldest steps of the window.
 *
 * A task's path runs through its step (F up, B down, then W) and, through the update of a layer, on
 * into the next step that activates the layer. Three things keep it honest:
 * - A step's end precedes the next one's by half of the time that a step ideally takes; otherwise
 *   a late step's F would always beat an early step's, and the pipeline run forwards too eagerly.
 * - Paths are computed per member and block, as for its last piece (member, micro-batch). A piece
 *   with r more behind it on its replica counts r/2 times its time on a stage on top: that makes a
 *   stage finish one piece before it takes the next, and costs no path per micro-batch. Factors
 *   from 1/3 to 1 do about the same.
 * - An update waits for all pieces, so a path that crosses into the next user of a layer counts
 *   the time of the other pieces too (worth 2.5 % on the published stream, 8 stages, 8
 *   micro-batches).
 * W of a layer that no known step waits for is filler: it has no path. A single stage has nothing
 * to fill: there W goes first, while what its B has read and written is still in the caches. So it
 * does with `weights_first`, where that would have to be computed again.
 */
#include <float.h>
#include <string.h>

#include "sched/sched_state.h"

static float greater(float a, float b)
{
    return a > b ? a : b;
}

/* The longest path that starts once the layer that `owner` has is updated; 0 if no step below `end`
 * waits for it. */
static float path_after_update(const struct np_sched *s, const struct np_use *owner, uint64_t step,
                               uint32_t position, uint64_t end)
{
    uint32_t first = s->unit[s->unit_of[position]].first, slot, node = owner->next;
    float path = 0;
    if (s->config.kind[position] == NP_SHARED_DELAY) {
        uint64_t reader = step + (uint64_t)s->config.delay;
        node = reader < end ? np_node(s, np_slot(s, reader), 0, position) : NP_NO_NODE;
    }
    if (node == NP_NO_NODE)
        return 0;
    slot = np_slot_of_node(s, node);
    if (s->step[slot].number >= end)
        return 0;
    for (;;) {
        path = greater(path, s->tail[node - position + first].f);
        if (s->use[node].same == NP_NO_MEMBER)
            return path;
        node = np_node(s, slot, s->use[node].same, position);
    }
}

/* The path from W on; the members that share a layer share its path. */
static float weight_path(const struct np_sched *s, uint64_t step, uint32_t member,
                         uint32_t position, uint64_t end)
{
    uint32_t slot = np_slot(s, step), node = np_node(s, slot, member, position);
    const struct np_use *use = &s->use[node];
    float after;
    if (!use->learns)
        return 0;
    if (use->owner != member)
        return s->tail[np_node(s, slot, use->owner, position)].w;
    after = path_after_update(s, use, step, position, end);
    if (after <= 0)
        return 0;
    return use->cost.w + s->step[slot].piece * (float)(np_pieces(s) - 1) + after;
}

/* W and B, upwards from the first block; then F, downwards from the last. */
static void member_paths(struct np_sched *s, uint64_t step, uint32_t member, uint64_t end,
                         float after_step)
{
    uint32_t slot = np_slot(s, step), base = np_node(s, slot, member, 0);
    float path = after_step;
    for (int u = 0; u < s->units; u++) {
        const struct np_unit *unit = &s->unit[u];
        float own = 0;
        for (uint32_t p = unit->first; p < (uint32_t)unit->first + unit->count; p++) {
            s->tail[base + p].w = weight_path(s, step, member, p, end);
            path = greater(path, s->tail[base + p].w);
            own += s->use[base + p].cost.b;
        }
        path += own;
        s->tail[base + unit->first].b = path;
    }
    for (int u = s->units; u-- > 0;) {
        const struct np_unit *unit = &s->unit[u];
        for (uint32_t p = unit->first; p < (uint32_t)unit->first + unit->count; p++)
            path += s->use[base + p].cost.f;
        s->tail[base + unit->first].f = path;
    }
}

/* Steps that may not begin yet are left out: they would draw W forward too early (a window of 4, 16
 * stages, 48 x 72, 8 micro-batches: 15.07 without them, 14.56 with). */
static uint64_t horizon_end(const struct np_sched *s)
{
    return s->open - s->base < NP_HORIZON ? s->open : s->base + NP_HORIZON;
}

void np_priority_refresh(struct np_sched *s)
{
    uint64_t end = horizon_end(s);
    float after_step = 0;
    for (uint64_t step = end; step-- > s->base;) {
        for (int i = 0; i < s->config.members; i++)
            member_paths(s, step, (uint32_t)i, end, after_step);
        after_step += s->step[np_slot(s, step)].piece * (float)np_pieces(s) / 2;
    }
    s->stale = false;
    for (int d = 0; d < np_sched_devices(&s->config); d++) {
        struct np_ready *ready = &s->ready[d];
        for (uint32_t e = 0; e < ready->count; e++)
            ready->entry[e].key = np_priority_key(s, &ready->entry[e]);
        np_ready_rebuild(ready);
    }
}

/* Beyond the horizon a path counts as 0: there the oldest step goes first. */
static float path_of(const struct np_sched *s, const struct np_ready_entry *entry, int behind)
{
    const struct np_step *step = &s->step[entry->slot];
    const struct np_tail *tail = &s->tail[np_node(s, entry->slot, entry->member, 0)];
    float pieces_behind = step->piece * (float)behind / 2;
    if (step->number >= horizon_end(s))
        return 0;
    switch ((enum np_task_kind)entry->kind) {
    case NP_TASK_F:
        return tail[s->unit[entry->place].first].f + pieces_behind;
    case NP_TASK_B:
        return tail[s->unit[entry->place].first].b + pieces_behind;
    default:
        return s->config.stages == 1 || s->config.weights_first ? FLT_MAX : tail[entry->place].w;
    }
}

uint64_t np_priority_key(const struct np_sched *s, const struct np_ready_entry *entry)
{
    static const uint32_t rank[] = {[NP_TASK_F] = 0, [NP_TASK_B] = 2, [NP_TASK_W] = 1};
    uint32_t age = (uint32_t)(s->step[entry->slot].number - s->base);
    int order = (int)np_sched_flight_of(&s->share, 0, entry->member, entry->micro);
    uint32_t bits, tie = (0xffff - age) << 16 | rank[entry->kind] << 14 |
                         (uint32_t)(0x3fff - (order < 0x3fff ? order : 0x3fff));
    float path = s->stale ? 0 : path_of(s, entry, np_pieces(s) - 1 - order);
    memcpy(&bits, &path, sizeof bits); /* ordered as the paths, which are not negative */
    return (uint64_t)bits << 32 | tie;
}
