/* The ready tasks of one stage: a binary heap, greatest key first, of equal ones the first place,
 * and what a key has no room for, the first member and micro-batch.
 *
 * Ownership: the entries belong to the caller, who makes room for as many as can ever be ready.
 */
#ifndef NP_SCHED_READY_H
#define NP_SCHED_READY_H

#include <stdbool.h>
#include <stdint.h>

struct np_ready_entry {
    uint64_t key;
    uint16_t slot, member, micro;
    uint16_t place : 14; /* F, B: the unit; W: the position */
    uint16_t kind : 2;   /* enum np_task_kind */
};

struct np_ready {
    struct np_ready_entry *entry;
    uint32_t count;
};

void np_ready_push(struct np_ready *ready, struct np_ready_entry entry);
/* The first entry; false if there is none. */
bool np_ready_pop(struct np_ready *ready, struct np_ready_entry *entry);
/* Restores the order after the keys, or the entries, were changed in place. */
void np_ready_rebuild(struct np_ready *ready);

#endif
