#include "sched/ready.h"

static bool goes_before(const struct np_ready_entry *a, const struct np_ready_entry *b)
{
    if (a->key != b->key)
        return a->key > b->key;
    if (a->place != b->place)
        return a->place < b->place;
    return a->member != b->member ? a->member < b->member : a->micro < b->micro;
}

/* Moves the hole at `at` down until `entry` fits in it. */
static void sift_down(struct np_ready *ready, uint32_t at, struct np_ready_entry entry)
{
    for (uint32_t child = 2 * at + 1; child < ready->count; child = 2 * at + 1) {
        if (child + 1 < ready->count && goes_before(&ready->entry[child + 1], &ready->entry[child]))
            child++;
        if (!goes_before(&ready->entry[child], &entry))
            break;
        ready->entry[at] = ready->entry[child];
        at = child;
    }
    ready->entry[at] = entry;
}

void np_ready_push(struct np_ready *ready, struct np_ready_entry entry)
{
    uint32_t at = ready->count++;
    while (at > 0 && goes_before(&entry, &ready->entry[(at - 1) / 2])) {
        ready->entry[at] = ready->entry[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    ready->entry[at] = entry;
}

bool np_ready_pop(struct np_ready *ready, struct np_ready_entry *entry)
{
    if (ready->count == 0)
        return false;
    *entry = ready->entry[0];
    ready->count--;
    if (ready->count > 0)
        sift_down(ready, 0, ready->entry[ready->count]);
    return true;
}

void np_ready_rebuild(struct np_ready *ready)
{
    for (uint32_t at = ready->count / 2; at-- > 0;)
        sift_down(ready, at, ready->entry[at]);
}
