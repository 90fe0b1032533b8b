#include "plan/profile_stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "base/memory.h"
#include "ops/weights.h"

/* Small values around zero; what they are does not matter, only that none is subnormal. */
static void fill(float *x, size_t count, float scale, uint32_t seed)
{
    struct np_draw_key key = {{seed, 0}};
    for (size_t i = 0; i < count; i += 4) {
        struct np_philox drawn = np_draw(key, 0, i / 4);
        for (size_t j = 0; j < 4 && i + j < count; j++)
            x[i + j] = scale * (np_philox_unit(drawn.w[j]) - 0.5f);
    }
}

static void fill_ids(int32_t *ids, size_t count, int vocab)
{
    for (size_t i = 0; ids && i < count; i++)
        ids[i] = (int32_t)(i * 7 % (size_t)vocab);
}

/* Floats of the largest value of each role, and the most samples of a kind. */
struct room {
    size_t x, memory, y, work, samples;
};

static struct room largest(const struct np_supernet *net, const size_t *samples)
{
    struct room room = {0, 0, 0, 0, 0};
    for (int k = 0; k < net->kind_count; k++) {
        const struct np_kind *kind = &net->kinds[k];
        room.x = np_larger(room.x, samples[k] * np_shape_floats(kind->in));
        room.memory = np_larger(room.memory, samples[k] * np_shape_floats(kind->memory));
        room.y = np_larger(room.y, samples[k] * np_shape_floats(kind->out));
        room.work = np_larger(room.work, np_op_sizes(kind, samples[k]).work);
        room.samples = np_larger(room.samples, samples[k]);
    }
    return room;
}

/* A piece of the slab that starts on a cache line; only counted while the slab does not exist. */
static float *carve(float *slab, size_t *used, size_t floats)
{
    float *piece = slab ? slab + *used : NULL;
    *used += (floats + 15) / 16 * 16;
    return piece;
}

/* Called twice: to count, then to lay out. */
static size_t lay_out(struct np_bench_stage *stage, const size_t *samples, float *slab)
{
    const struct np_supernet *net = stage->net;
    struct room room = largest(net, samples);
    size_t used = 0, words;
    stage->x = carve(slab, &used, room.x);
    stage->dx = carve(slab, &used, room.x);
    stage->memory = carve(slab, &used, room.memory);
    stage->dmemory = carve(slab, &used, room.memory);
    stage->sum = carve(slab, &used, room.y);
    stage->y = carve(slab, &used, room.y);
    stage->dy = carve(slab, &used, room.y);
    stage->work = carve(slab, &used, room.work);
    stage->loss = carve(slab, &used, room.samples * np_batch_targets(net->recipe));
    stage->print = carve(slab, &used, 2);
    words = np_batch_lay(&stage->batch, net->recipe, room.samples, ~0u, NULL);
    np_batch_lay(&stage->batch, net->recipe, room.samples, ~0u, carve(slab, &used, words));
    for (int k = 0; k < net->kind_count; k++) {
        const struct np_kind *kind = &net->kinds[k];
        struct np_op_sizes sizes = np_op_sizes(kind, samples[k]);
        size_t floats = np_kind_whole(kind)->floats;
        stage->weights[k] = carve(slab, &used, floats);
        stage->gradient[k] = carve(slab, &used, floats);
        stage->moments[2 * k] = net->moments > 0 ? carve(slab, &used, floats) : NULL;
        stage->moments[2 * k + 1] = net->moments > 1 ? carve(slab, &used, floats) : NULL;
        stage->call[k].saved = carve(slab, &used, sizes.saved);
        stage->call[k].delta = carve(slab, &used, sizes.delta);
    }
    return used;
}

static void fill_values(const struct np_bench_stage *stage, const size_t *samples)
{
    const struct np_recipe *recipe = stage->net->recipe;
    struct room room = largest(stage->net, samples);
    size_t targets = room.samples * np_batch_targets(recipe);
    size_t pixels = room.samples * (size_t)recipe->height * (size_t)recipe->image_width *
                    (size_t)recipe->channels;
    fill(stage->x, room.x, 2.0f, 1);
    fill(stage->memory, room.memory, 2.0f, 1);
    fill(stage->sum, room.y, 2.0f, 1);
    fill(stage->dy, room.y, 0.01f, 2);
    fill_ids(stage->batch.tokens, targets, recipe->vocab);
    fill_ids(stage->batch.targets, targets, recipe->vocab);
    fill_ids(stage->batch.source, room.samples * (size_t)recipe->source_length, recipe->vocab);
    for (size_t i = 0; stage->batch.source_lengths && i < room.samples; i++) { /* nothing filled */
        stage->batch.source_lengths[i] = recipe->source_length;
        stage->batch.target_lengths[i] = recipe->length;
    }
    if (stage->batch.images)
        fill(stage->batch.images, pixels, 2.0f, 3);
}

static void prepare_calls(struct np_bench_stage *stage, const struct np_kernels *kernels,
                          const size_t *samples)
{
    const struct np_recipe *recipe = stage->net->recipe;
    for (int k = 0; k < stage->net->kind_count; k++) {
        struct np_op_call *call = &stage->call[k];
        call->kernels = kernels;
        call->kind = &stage->net->kinds[k];
        call->w = stage->weights[k];
        call->work = stage->work;
        call->samples = samples[k];
        call->grain = (size_t)recipe->grain;
        call->seed = recipe->seed;
        call->train = true;
        call->images = stage->batch.images;
        call->tokens = stage->batch.tokens;
        call->source = stage->batch.source;
        call->targets = stage->batch.targets;
        call->lengths = call->kind->padded == NP_PADDED_SOURCE ? stage->batch.source_lengths
                                                               : stage->batch.target_lengths;
        call->loss = stage->loss;
        call->smoothing = (float)recipe->label_smoothing;
        call->scale = 1.0f / (float)(samples[k] * np_batch_targets(recipe));
    }
}

/* The slab, as it is filled, to the memory of a device. */
static enum np_status move_to_device(struct np_bench_stage *stage, const struct np_device *device,
                                     const size_t *samples, size_t floats, struct np_error *err)
{
    float *host = stage->slab;
    enum np_status status;
    stage->slab = NULL;
    stage->device = device;
    NP_TRY(np_device_alloc(device, &stage->slab, floats * sizeof(float), err));
    NP_TRY(np_device_copy(device, stage->slab, host, floats * sizeof(float), err));
    lay_out(stage, samples, stage->slab);
out:
    free(host);
    return status;
}

enum np_status np_bench_stage_init(struct np_bench_stage *stage, const struct np_supernet *net,
                                   const struct np_profile_config *config, const size_t *samples,
                                   struct np_error *err)
{
    enum np_status status;
    size_t kinds = (size_t)net->kind_count, floats;
    *stage = (struct np_bench_stage){.net = net,
                                     .sums = net->recipe->members * config->micro_batches > 1};
    NP_TRY(np_zalloc(&stage->call, kinds, sizeof *stage->call, err));
    NP_TRY(np_zalloc(&stage->weights, kinds, sizeof *stage->weights, err));
    NP_TRY(np_zalloc(&stage->gradient, kinds, sizeof *stage->gradient, err));
    NP_TRY(np_zalloc(&stage->moments, 2 * kinds, sizeof *stage->moments, err));
    NP_TRY(np_zalloc(&stage->agreed, (size_t)config->threads, sizeof *stage->agreed, err));
    floats = lay_out(stage, samples, NULL);
    NP_TRY(np_alloc(&stage->slab, floats, sizeof(float), err));
    memset(stage->slab, 0, floats * sizeof(float));
    lay_out(stage, samples, stage->slab);
    fill_values(stage, samples);
    if (config->device)
        NP_TRY(move_to_device(stage, config->device, samples, floats, err));
    prepare_calls(stage, config->kernels, samples);
out:
    return status;
}

void np_bench_stage_clear(struct np_bench_stage *stage)
{
    free(stage->call);
    free(stage->weights);
    free(stage->gradient);
    free(stage->moments);
    free(stage->agreed);
    if (stage->device)
        np_device_release(stage->device, stage->slab);
    else
        free(stage->slab);
}

void np_bench_stage_begin(const struct np_bench_stage *stage, struct np_team *team)
{
    for (int k = 0; k < stage->net->kind_count; k++)
        np_weights_init(stage->call[k].kernels, team, stage->weights[k],
                        np_kind_whole(&stage->net->kinds[k]), 1, 0);
}

bool np_bench_stage_has(const struct np_bench_stage *stage, enum np_bench_op op, int kind)
{
    const struct np_kind *k = &stage->net->kinds[kind];
    if (np_program_passes_on(&k->program))
        return false;
    return np_kind_whole(k)->floats > 0 || op == NP_BENCH_F ||
           (op == NP_BENCH_B && (np_op_gives(k, NP_VALUE_X) || np_op_gives(k, NP_VALUE_MEMORY)));
}

static void update(const struct np_bench_stage *stage, const struct np_op_call *call, int kind)
{
    struct np_weights_update u = {.w = stage->weights[kind],
                                  .m = stage->moments[2 * kind],
                                  .v = stage->moments[2 * kind + 1],
                                  .g = stage->gradient[kind],
                                  .kind = np_kind_whole(call->kind),
                                  .agreed = stage->agreed,
                                  .square = np_team_scratch(call->team, 0)};
    uint64_t fingerprint = 0; /* of no interest */
    np_weights_update(call->kernels, call->team, stage->net->recipe, &u,
                      stage->device ? (uint64_t *)(void *)stage->print : &fingerprint);
}

void np_bench_stage_run(const struct np_bench_stage *stage, struct np_team *team,
                        enum np_bench_op op, int kind)
{
    const struct np_kind *k = &stage->net->kinds[kind];
    bool head = np_program_reads(&k->program) & NP_READS_TARGETS;
    struct np_op_call call = stage->call[kind];
    struct np_op_forward forward = {.x = k->in.channels ? stage->x : NULL,
                                    .memory = k->memory.channels ? stage->memory : NULL,
                                    .sum = k->summed ? stage->sum : NULL,
                                    .y = head ? NULL : stage->y};
    struct np_op_backward backward = {.x = forward.x,
                                      .memory = forward.memory,
                                      .dy = head ? NULL : stage->dy,
                                      .dx = np_op_gives(k, NP_VALUE_X) ? stage->dx : NULL,
                                      .dmemory =
                                          np_op_gives(k, NP_VALUE_MEMORY) ? stage->dmemory : NULL};
    call.team = team;
    if (op == NP_BENCH_F)
        np_op_forward(&call, &forward);
    else if (op == NP_BENCH_B)
        np_op_backward(&call, &backward);
    else if (op == NP_BENCH_W)
        np_op_weight(&call, stage->gradient[kind], &backward, stage->sums);
    else
        update(stage, &call, kind);
}
