/* --sweep: the combinations of values that something is to be tabulated for.
 *
 *   sweep   key=values[,key=values...]
 *   values  value[,value...], each a whole number or a range such as 1..8; of device-memory a size,
 *           of cut static or balanced (their enum np_cut_choice)
 *
 * Errors    NP_EINPUT says what is wrong with the text; NP_EMEM.
 */
#ifndef NP_CMD_SWEEP_LIST_H
#define NP_CMD_SWEEP_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum sweep_key {
    SWEEP_REPLICAS,
    SWEEP_STAGES,
    SWEEP_MICRO_BATCHES,
    SWEEP_WINDOW,
    SWEEP_LOOKAHEAD,
    SWEEP_CUT,
    SWEEP_REACH,
    SWEEP_DEVICE_MEMORY,
    SWEEP_CAPACITY,
    SWEEP_KEYS
};

struct sweep_axis {
    enum sweep_key key;
    uint64_t *values;
    size_t count, capacity;
    size_t at; /* in this combination */
};

struct sweep {
    struct sweep_axis axes[SWEEP_KEYS];
    int count;             /* of axes */
    uint64_t combinations; /* 0: nothing was parsed */
};

/* A key as it is written: that of the option that has one value. */
const char *sweep_name(enum sweep_key key);

/* Into an empty (zeroed) sweep; sweep_clear takes any. */
enum np_status sweep_parse(struct sweep *sweep, const char *text, struct np_error *err);
void sweep_clear(struct sweep *sweep);
/* The key's value in this combination; 0: it has none. */
uint64_t sweep_value(const struct sweep *sweep, enum sweep_key key);
/* On to the next combination; false after the last. The axis named last changes first. */
bool sweep_next(struct sweep *sweep);

#endif
