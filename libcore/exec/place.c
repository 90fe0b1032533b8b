#include "exec/place.h"

#include "base/limits.h"
#include "base/memory.h"

#define MOST_HELPERS 16

const struct np_device *np_train_device(const struct np_train_config *config, int stage)
{
    if (!config->devices)
        return &np_device_host;
    return &config->devices[stage * config->device_count / np_plan_devices(config->plan)];
}

enum np_status np_train_place(const struct np_train_config *config, struct np_state *state,
                              struct np_error *err)
{
    const struct np_plan *plan = config->plan;
    enum np_status status;
    NP_TRY(np_zalloc(&state->homes, (size_t)config->net->positions, sizeof *state->homes, err));
    for (int k = 0; k < plan->stages; k++)
        for (int p = plan->stage_first[k]; p < plan->stage_first[k + 1]; p++)
            state->homes[p] = np_train_device(config, np_plan_home(plan, k));
out:
    return status;
}

/* Who reads images for a device apart: its share of the processors. */
static int helpers_of(const struct np_device *device, const struct np_flight_shape *shape,
                      const struct np_supernet *net, const struct np_flight_stage *stage)
{
    const struct np_processors bound = np_processors_bound();
    int devices = shape->stages * (shape->replicas > 1 ? shape->replicas : 1);
    int share = np_processors_usable(&bound) / devices;
    if (!device->ops->apart || stage->first > 0 || net->recipe->input != NP_INPUT_IMAGES)
        return 0;
    return share < MOST_HELPERS ? share : MOST_HELPERS;
}

enum np_status np_place_crew(struct np_crew **out, const struct np_device *device,
                             const struct np_flight_shape *shape, const struct np_supernet *net,
                             const struct np_flight_stage *stage, const struct np_flights *flights,
                             struct np_error *err)
{
    size_t samples = (size_t)(net->recipe->batch / shape->micro_batches);
    /* What a head says: grains' losses and a row's hit; or an update its report. */
    size_t reply = NP_UPDATE_REPORT_BYTES(shape->threads);
    size_t words = samples / (size_t)net->recipe->grain + samples * np_batch_targets(net->recipe);
    reply = words * sizeof(uint32_t) > reply ? words * sizeof(uint32_t) : reply;
    size_t positions = (size_t)(stage->end - stage->first), readers = 0;
    for (int p = stage->first; p < stage->end; p++)
        readers += np_flight_place(stage, p)->batch != NP_NO_STORAGE;
    struct np_crew_config config = {.size = shape->threads,
                                    .scratch = flights->block[NP_BLOCK_SCRATCH],
                                    .scratch_bytes = stage->scratch_bytes,
                                    .fill_bytes =
                                        readers * (stage->batch_floats * sizeof(float) + NP_ALIGN),
                                    .reply_bytes = reply,
                                    .watches = positions > 2 ? positions : 2,
                                    .replies = 2};
    int helpers = helpers_of(device, shape, net, stage);
    enum np_status status;
    NP_TRY(np_crew_new(out, device, &config, err));
    if (helpers > 1)
        NP_TRY(np_crew_add_helpers(*out, helpers, err));
out:
    return status;
}
