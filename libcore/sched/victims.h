/* What may be put off the device, in the order in which it goes: an indexed heap, greatest first.
 *
 * An item goes before another if it is needed later, or as late and was used longer ago.
 *
 * Ownership: the arrays belong to the caller; there is room for as many items as there are.
 */
#ifndef NP_SCHED_VICTIMS_H
#define NP_SCHED_VICTIMS_H

#include <stdint.h>

struct np_victim {
    uint64_t next; /* when it is needed */
    uint64_t used; /* when it was used last */
    uint32_t item;
};

struct np_victims {
    struct np_victim *entry; /* [items] */
    uint32_t *place;         /* [items]: 1 + index in entry, 0: not here */
    uint32_t count;
};

/* Enters the item, or moves it to where it belongs now. */
void np_victims_put(struct np_victims *victims, struct np_victim victim);
void np_victims_remove(struct np_victims *victims, uint32_t item);

#endif
