#include "space/subnet_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static const uint16_t *subnet_at(const struct np_subnet_set *set, size_t number)
{
    return set->choices + number * set->blocks;
}

/* Where a subnet is, or the place that it gets. */
static size_t *find(size_t *place, size_t room, const struct np_subnet_set *set,
                    const uint16_t *choices)
{
    uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
    for (size_t b = 0; b < set->blocks; b++)
        hash = (hash ^ choices[b]) * 0x100000001B3u;
    for (size_t i = (hash ^ hash >> 32) % room;; i = (i + 1) % room)
        if (!place[i] ||
            memcmp(subnet_at(set, place[i] - 1), choices, set->blocks * sizeof *choices) == 0)
            return &place[i];
}

/* At most half of the places are taken. */
static enum np_status make_room(struct np_subnet_set *set, struct np_error *err)
{
    size_t room = set->room ? 2 * set->room : 64, *place;
    enum np_status status = NP_OK;
    if (2 * (set->count + 1) <= set->room)
        goto out;
    NP_TRY(np_zalloc(&place, room, sizeof *place, err));
    for (size_t i = 0; i < set->count; i++)
        *find(place, room, set, subnet_at(set, i)) = i + 1;
    free(set->place);
    set->place = place;
    set->room = room;
out:
    return status;
}

enum np_status np_subnet_set_add(struct np_subnet_set *set, size_t *which, const uint16_t *choices,
                                 struct np_error *err)
{
    size_t bytes = set->blocks * sizeof *choices, *place;
    enum np_status status;
    NP_TRY(make_room(set, err));
    place = find(set->place, set->room, set, choices);
    if (!*place) {
        NP_TRY(np_grow(&set->choices, &set->capacity, set->count, bytes, err));
        memcpy(set->choices + set->count * set->blocks, choices, bytes);
        *place = ++set->count;
    }
    *which = *place - 1;
out:
    return status;
}

void np_subnet_set_clear(struct np_subnet_set *set)
{
    free(set->choices);
    free(set->place);
    *set = (struct np_subnet_set){.blocks = set->blocks};
}
