#include "data/joined.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum np_status np_joined_init(struct np_joined *joined, int file_count, struct np_error *err)
{
    joined->file_count = file_count;
    return np_zalloc(&joined->starts, (size_t)file_count + 1, sizeof *joined->starts, err);
}

void np_joined_clear(struct np_joined *joined)
{
    free(joined->starts);
    memset(joined, 0, sizeof *joined);
}

int np_joined_find(const struct np_joined *joined, uint64_t item)
{
    int file = 0, beyond = joined->file_count;
    while (beyond - file > 1) {
        int middle = file + (beyond - file) / 2;
        if (joined->starts[middle] <= item)
            file = middle;
        else
            beyond = middle;
    }
    return file;
}
