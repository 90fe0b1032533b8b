/* A virtual clock's agenda: events in order of time, then of number.
 *
 * Ownership: the entries belong to the caller, who makes room for all that can be pending.
 */
#ifndef NP_SCHED_EVENTS_H
#define NP_SCHED_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct np_event {
    double time;
    uint32_t what; /* the caller's number for it */
};

struct np_events {
    struct np_event *entry;
    uint32_t count;
};

void np_events_add(struct np_events *events, double time, uint32_t what);
/* The earliest event; false if none is pending. */
bool np_events_take(struct np_events *events, struct np_event *event);

#endif
