#include "exec/solo.h"

#include <stdlib.h>

#include "base/memory.h"
#include "exec/place.h"

enum np_status np_solo_init(struct np_solo *solo, const struct np_train_config *config,
                            bool evaluates, struct np_error *err)
{
    const struct np_supernet *net = config->net;
    const struct np_device *device = np_train_device(config, 0);
    const int stage_first[] = {0, net->positions}, in_flight[] = {1};
    struct np_flight_shape shape = {.stages = 1,
                                    .stage_first = stage_first,
                                    .in_flight = in_flight,
                                    .window = 1,
                                    .micro_batches = 1,
                                    .threads = config->plan->threads,
                                    .scratch = config->plan->scratch,
                                    .late_updates = true,
                                    .forward_only = evaluates};
    enum np_status status;
    *solo = (struct np_solo){NULL};
    NP_TRY(np_flight_layout_init(&solo->layout, net, &shape, err));
    NP_TRY(np_device_arena(&solo->arena, device, 0, err));
    NP_TRY(np_flights_take(&solo->flights, solo->arena, &solo->layout.stage[0], NULL, err));
    NP_TRY(np_place_crew(&solo->crew, device, &shape, net, &solo->layout.stage[0], &solo->flights,
                         err));
    NP_TRY(np_zalloc(&solo->cells, (size_t)net->positions, sizeof *solo->cells, err));
    NP_TRY(np_zalloc(&solo->stages, (size_t)net->positions, sizeof *solo->stages, err));
out:
    return status;
}

void np_solo_clear(struct np_solo *solo)
{
    np_crew_free(solo->crew);
    np_arena_free(solo->arena);
    np_flights_clear(&solo->flights);
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
