#include "exec/flights.h"

#include <stdlib.h>

#include "base/memory.h"

enum np_status np_flights_take(struct np_flights *flights, struct np_arena *arena,
                               const struct np_flight_stage *stage, const struct np_flights *sums,
                               struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int b = 0; b < NP_FLIGHT_BLOCKS; b++) {
        flights->block[b] = b == NP_BLOCK_SUMS && sums ? sums->block[b] : NULL;
        if (!flights->block[b] && stage->block_bytes[b])
            NP_TRY(np_arena_take(arena, &flights->block[b], stage->block_bytes[b], err));
    }
    if (stage->entries)
        NP_TRY(np_zalloc(&flights->held, stage->entries, sizeof *flights->held, err));
out:
    return status;
}

void np_flights_clear(struct np_flights *flights)
{
    free(flights->held);
    flights->held = NULL;
}
