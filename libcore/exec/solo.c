#include "exec/solo.h"

#include <stdlib.h>

#include "base/memory.h"

enum np_status np_solo_init(struct np_solo *solo, const struct np_supernet *net, int threads,
                            bool evaluates, struct np_error *err)
{
    const int stage_first[] = {0, net->positions}, in_flight[] = {1};
    const struct np_flight_shape shape = {.stages = 1,
                                          .stage_first = stage_first,
                                          .in_flight = in_flight,
                                          .window = 1,
                                          .micro_batches = 1,
                                          .threads = threads,
                                          .late_updates = true,
                                          .forward_only = evaluates};
    enum np_status status;
    *solo = (struct np_solo){NULL};
    NP_TRY(np_flight_layout_init(&solo->layout, net, &shape, err));
    NP_TRY(np_arena_new(&solo->arena, 0, err));
    NP_TRY(np_flights_take(&solo->flights, solo->arena, &solo->layout.stage[0], NULL, err));
    NP_TRY(np_crew_new(&solo->crew, threads, solo->flights.block[NP_BLOCK_SCRATCH],
                       solo->layout.stage[0].scratch_bytes, err));
    NP_TRY(np_zalloc(&solo->cells, (size_t)net->positions, sizeof *solo->cells, err));
    NP_TRY(np_zalloc(&solo->stages, (size_t)net->positions, sizeof *solo->stages, err));
out:
    return status;
}

void np_solo_clear(struct np_solo *solo)
{
    np_crew_free(solo->crew);
    np_arena_free(solo->arena);
    np_flight_layout_clear(&solo->layout);
    free(solo->cells);
    free(solo->stages);
}

struct np_sweep np_solo_sweep(const struct np_solo *solo, const struct np_train_config *config,
                              struct np_state *state)
{
    return (struct np_sweep){.config = config,
                             .state = state,
                             .crew = solo->crew,
                             .layout = &solo->layout,
                             .flights = &solo->flights,
                             .samples = (size_t)config->net->recipe->batch,
                             .stages = solo->stages,
                             .cells = solo->cells};
}
