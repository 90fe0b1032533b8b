#include "sched/victims.h"

#include <stdbool.h>

static bool goes_before(const struct np_victim *a, const struct np_victim *b)
{
    if (a->next != b->next)
        return a->next > b->next;
    return a->used != b->used ? a->used < b->used : a->item < b->item;
}

static void set(struct np_victims *v, uint32_t at, struct np_victim victim)
{
    v->entry[at] = victim;
    v->place[victim.item] = at + 1;
}

/* Fills the hole at `at` with the victim, or with what has to move for it. */
static void settle(struct np_victims *v, uint32_t at, struct np_victim victim)
{
    for (; at > 0 && goes_before(&victim, &v->entry[(at - 1) / 2]); at = (at - 1) / 2)
        set(v, at, v->entry[(at - 1) / 2]);
    for (uint32_t child = 2 * at + 1; child < v->count; child = 2 * at + 1) {
        if (child + 1 < v->count && goes_before(&v->entry[child + 1], &v->entry[child]))
            child++;
        if (!goes_before(&v->entry[child], &victim))
            break;
        set(v, at, v->entry[child]);
        at = child;
    }
    set(v, at, victim);
}

void np_victims_put(struct np_victims *v, struct np_victim victim)
{
    uint32_t place = v->place[victim.item];
    settle(v, place ? place - 1 : v->count++, victim);
}

void np_victims_remove(struct np_victims *v, uint32_t item)
{
    uint32_t place = v->place[item];
    if (!place)
        return;
    v->place[item] = 0;
    v->count--;
    if (place - 1 < v->count)
        settle(v, place - 1, v->entry[v->count]);
}
