/* A set of subnets: each once, found by what it chooses.
 *
 * Errors    NP_EMEM; the set is as it was.
 * Ownership np_subnet_set_clear releases what the set holds; it begins as {.blocks = blocks}.
 * Threads   one at a time.
 */
#ifndef NP_SPACE_SUBNET_SET_H
#define NP_SPACE_SUBNET_SET_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct np_subnet_set {
    size_t blocks, count;
    uint16_t *choices; /* [count][blocks], in the order in which they came */
    size_t capacity;
    size_t *place, room; /* [room], a power of two: 1 + the number of one, or 0 */
};

/* *which: the number of choices[blocks], which is count - 1 if it is new. */
enum np_status np_subnet_set_add(struct np_subnet_set *set, size_t *which, const uint16_t *choices,
                                 struct np_error *err);
void np_subnet_set_clear(struct np_subnet_set *set);

#endif
