#include "sched/events.h"

static bool before(struct np_event a, struct np_event b)
{
    return a.time < b.time || (a.time == b.time && a.what < b.what);
}

void np_events_add(struct np_events *events, double time, uint32_t what)
{
    struct np_event event = {time, what};
    uint32_t at = events->count++;
    while (at > 0 && before(event, events->entry[(at - 1) / 2])) {
        events->entry[at] = events->entry[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    events->entry[at] = event;
}

bool np_events_take(struct np_events *events, struct np_event *event)
{
    struct np_event last;
    uint32_t at = 0;
    if (events->count == 0)
        return false;
    *event = events->entry[0];
    last = events->entry[--events->count];
    for (uint32_t child = 1; child < events->count; child = 2 * at + 1) {
        if (child + 1 < events->count && before(events->entry[child + 1], events->entry[child]))
            child++;
        if (!before(events->entry[child], last))
            break;
        events->entry[at] = events->entry[child];
        at = child;
    }
    events->entry[at] = last;
    return true;
}
