/* Items of several files as one sequence: which file holds an item.
 *
 * Ownership: np_joined_clear takes any zeroed or initialised struct.
 */
#ifndef NP_DATA_JOINED_H
#define NP_DATA_JOINED_H

#include <stdint.h>

#include "base/error.h"

struct np_joined {
    int file_count;
    uint64_t *starts; /* [file_count + 1] the first item of each file, and all items */
};

/* starts are all 0: the caller fills in starts[i + 1] = starts[i] + items of file i. */
enum np_status np_joined_init(struct np_joined *joined, int file_count, struct np_error *err);
void np_joined_clear(struct np_joined *joined);

/* The file that holds an item (the last that begins at or before it): binary search. */
int np_joined_find(const struct np_joined *joined, uint64_t item);

#endif
