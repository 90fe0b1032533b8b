#include "data/data.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/format.h"
#include "data/shuffle.h"

/* 4-byte words of a sample in each array of a batch. */
struct sizes {
    size_t images, tokens, source, targets, lengths;
};

/* How samples of an epoch follow each other. */
struct order {
    uint64_t items, step; /* of an epoch; items lie `step` apart */
    uint64_t batch, members;
};

struct np_data {
    const struct np_format *format;
    void *reader;
    int path_count;
    char **paths;
    struct sizes sizes;
    bool masked;
    uint64_t from, count; /* the part */
    uint64_t places;      /* where in it a sample may begin */
    bool shuffled;
    struct order order;
    struct np_digest digest;
};

static struct sizes sample_sizes(const struct np_recipe *recipe)
{
    size_t length = (size_t)recipe->length, source_length = (size_t)recipe->source_length;
    struct sizes sizes = {.tokens = length, .targets = length};
    if (recipe->input == NP_INPUT_IMAGES)
        sizes = (struct sizes){.images = (size_t)recipe->height * (size_t)recipe->image_width *
                                         (size_t)recipe->channels,
                               .targets = 1};
    else if (recipe->input == NP_INPUT_PAIRS)
        sizes.source = source_length;
    sizes.lengths = recipe->masked;
    return sizes;
}

size_t np_batch_targets(const struct np_recipe *recipe)
{
    return sample_sizes(recipe).targets;
}

/* The next array of `words` words, if any; each begins on a cache line if the slab does. */
static void *carve(size_t *used, size_t words, float *slab)
{
    void *at = slab && words ? slab + *used : NULL;
    *used += np_lines(words);
    return at;
}

size_t np_batch_lay(struct np_batch *batch, const struct np_recipe *recipe, size_t samples,
                    unsigned reads, float *slab)
{
    struct sizes sizes = sample_sizes(recipe);
    size_t used = 0;
    *batch = (struct np_batch){0};
    if (reads & NP_READS_INPUTS) {
        batch->images = carve(&used, samples * sizes.images, slab);
        batch->tokens = carve(&used, samples * sizes.tokens, slab);
        batch->source = carve(&used, samples * sizes.source, slab);
    }
    if (reads & NP_READS_TARGETS)
        batch->targets = carve(&used, samples * sizes.targets, slab);
    if (reads & NP_READS_SOURCE)
        batch->source_lengths = carve(&used, samples * sizes.lengths, slab);
    if (reads & NP_READS_TARGET)
        batch->target_lengths = carve(&used, samples * sizes.lengths, slab);
    return used;
}

static struct np_batch batch_from(const struct np_batch *batch, const struct sizes *sizes, size_t i)
{
    return (struct np_batch){
        .images = batch->images ? batch->images + i * sizes->images : NULL,
        .tokens = batch->tokens ? batch->tokens + i * sizes->tokens : NULL,
        .source = batch->source ? batch->source + i * sizes->source : NULL,
        .targets = batch->targets ? batch->targets + i * sizes->targets : NULL,
        .source_lengths = batch->source_lengths ? batch->source_lengths + i : NULL,
        .target_lengths = batch->target_lengths ? batch->target_lengths + i : NULL,
    };
}

struct np_batch np_batch_from(const struct np_batch *batch, const struct np_recipe *recipe,
                              size_t i)
{
    const struct sizes sizes = sample_sizes(recipe);
    return batch_from(batch, &sizes, i);
}

static const struct np_format *format_of(enum np_data_kind kind)
{
    switch (kind) {
    case NP_DATA_PAIRS:
    case NP_DATA_TOKEN_PAIRS:
        return &np_format_pairs;
    case NP_DATA_IDX:
    case NP_DATA_CIFAR10:
    case NP_DATA_CIFAR100:
        return &np_format_images;
    default:
        return &np_format_corpus;
    }
}

enum np_status np_data_path(char **out, const struct np_recipe *recipe, const char *name,
                            struct np_error *err)
{
    size_t size = strlen(recipe->directory) + strlen(name) + 2;
    enum np_status status;
    if (name[0] == '/')
        return np_strdup(out, name, err);
    NP_TRY(np_alloc(out, size, 1, err));
    snprintf(*out, size, "%s/%s", recipe->directory, name);
out:
    return status;
}

static enum np_status locate_files(struct np_data *data, const struct np_recipe *recipe,
                                   const struct np_data_spec *spec, struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_zalloc(&data->paths, (size_t)spec->file_count, sizeof *data->paths, err));
    for (int i = 0; i < spec->file_count; i++) {
        NP_TRY(np_data_path(&data->paths[i], recipe, spec->files[i], err));
        data->path_count++;
    }
out:
    return status;
}

/* A sample of tokens is a window of T + 1 of them; others are items by themselves. */
static enum np_status cut_part(struct np_data *data, const struct np_recipe *recipe,
                               const struct np_data_spec *spec, uint64_t all, struct np_error *err)
{
    uint64_t beyond = recipe->input == NP_INPUT_TOKENS ? (uint64_t)recipe->length : 0;
    data->from = (uint64_t)(spec->part[0] * (double)all);
    data->count = (uint64_t)(spec->part[1] * (double)all) - data->from;
    if (data->count > beyond) {
        data->places = data->count - beyond;
        return NP_OK;
    }
    return np_fail(
        err, NP_EINPUT, "'%s'%s: %llu %s in the part, a sample needs %llu",
        np_text_safe(data->paths[0]).s, data->path_count > 1 ? " and the files after it" : "",
        (unsigned long long)data->count, data->format->items, (unsigned long long)beyond + 1);
}

static struct order order_of(const struct np_data *data, const struct np_recipe *recipe)
{
    uint64_t step = recipe->input == NP_INPUT_TOKENS ? (uint64_t)recipe->length : 1;
    return (struct order){.items = (data->places + step - 1) / step,
                          .step = step,
                          .batch = (uint64_t)recipe->batch,
                          .members = recipe->same_batch ? 1 : (uint64_t)recipe->members};
}

/* Items that are read between two looks at the hooks: some megabytes of them, some milliseconds. */
static uint64_t items_at_once(const struct np_recipe *recipe, const struct np_data_spec *spec)
{
    const struct sizes sizes = sample_sizes(recipe);
    uint64_t bytes = sizes.images + sizeof(int32_t);
    if (spec->stored[0] > 0)
        bytes = (uint64_t)spec->stored[0] * (uint64_t)spec->stored[1] * (uint64_t)recipe->channels;
    else if (recipe->input == NP_INPUT_PAIRS)
        bytes = (sizes.source + sizes.targets) * sizeof(int32_t);
    return 1 + (4u << 20) / bytes;
}

/* Checks all items of the part, `most` at once. */
static enum np_status digest_part(struct np_data *data, uint64_t most,
                                  const struct np_data_hooks *hooks, struct np_error *err)
{
    struct np_sha256 sha = {0};
    enum np_status status;
    NP_TRY(np_sha256_begin(&sha, err));
    for (uint64_t done = 0, now; done < data->count; done += now) {
        now = data->count - done < most ? data->count - done : most;
        if (hooks && hooks->progress)
            hooks->progress(hooks->context, done, data->count);
        if (hooks && hooks->stop && hooks->stop(hooks->context))
            NP_TRY(np_fail(err, NP_ESTOP, "stopped while '%s' was read",
                           np_text_safe(data->paths[0]).s));
        NP_TRY(data->format->digest(data->reader, &sha, data->from + done, now, err));
    }
    NP_TRY(np_sha256_end(&sha, &data->digest, err));
out:
    np_sha256_clear(&sha);
    return status;
}

enum np_status np_data_open(struct np_data **out, const struct np_recipe *recipe,
                            const struct np_data_spec *spec, const struct np_data_hooks *hooks,
                            struct np_error *err)
{
    struct np_data *data = NULL;
    uint64_t all = 0;
    enum np_status status;
    assert(spec->given);
    NP_TRY(np_zalloc(&data, 1, sizeof *data, err));
    data->format = format_of(spec->kind);
    data->sizes = sample_sizes(recipe);
    data->masked = recipe->masked;
    data->shuffled = spec->shuffled;
    NP_TRY(locate_files(data, recipe, spec, err));
    NP_TRY(data->format->open(&data->reader, &all, data->paths, recipe, spec, err));
    NP_TRY(cut_part(data, recipe, spec, all, err));
    data->order = order_of(data, recipe);
    NP_TRY(digest_part(data, items_at_once(recipe, spec), hooks, err));
    *out = data;
    data = NULL;
out:
    np_data_close(data);
    return status;
}

void np_data_close(struct np_data *data)
{
    if (!data)
        return;
    if (data->reader)
        data->format->close(data->reader);
    for (int i = 0; i < data->path_count; i++)
        free(data->paths[i]);
    free(data->paths);
    free(data);
}

const struct np_digest *np_data_digest(const struct np_data *data)
{
    return &data->digest;
}

uint64_t np_data_count(const struct np_data *data)
{
    return data->count;
}

/* Sample `place` of the part as sample i of the batch. */
static void read_sample(const struct np_data *data, const struct np_batch *batch, size_t i,
                        uint64_t place, const struct np_philox augment[NP_AUGMENT_DRAWS])
{
    const struct np_batch sample = batch_from(batch, &data->sizes, i);
    data->format->read(data->reader, &sample, data->from + place, augment);
}

/* Where sample i of a member of a step begins if samples come in epochs. */
static uint64_t shuffled_place(const struct order *order, struct np_draw_key key, uint64_t step,
                               uint32_t member, uint64_t i)
{
    unsigned __int128 number = step;
    number = (number * order->members + member) * order->batch + i;
    return order->step * np_shuffle(key, (uint64_t)(number / order->items),
                                    (uint64_t)(number % order->items), order->items);
}

/* Which place sample i of a mini-batch is. */
static uint64_t place_of(const struct np_data *data, uint64_t seed, uint64_t step, uint32_t member,
                         uint64_t i)
{
    if (data->shuffled)
        return shuffled_place(&data->order, np_draw_key(seed, NP_DRAW_ORDER, 0, 0, 0), step, member,
                              i);
    return np_philox_below(np_draw(np_draw_key(seed, NP_DRAW_BATCH, member, 0, 0), step, i),
                           data->places);
}

static uint64_t eval_place(const struct np_data *data, uint64_t number, uint64_t total)
{
    assert(number < total);
    return (uint64_t)((unsigned __int128)data->places * number / total);
}

void np_data_batch(const struct np_data *data, const struct np_batch *batch, uint64_t seed,
                   uint64_t step, uint32_t member, size_t first, size_t samples)
{
    struct np_draw_key keys[NP_AUGMENT_DRAWS];
    struct np_philox augment[NP_AUGMENT_DRAWS];
    for (uint32_t k = 0; k < NP_AUGMENT_DRAWS; k++)
        keys[k] = np_draw_key(seed, NP_DRAW_AUGMENT, member, 0, k);
    for (size_t i = 0; i < samples; i++) {
        uint64_t place = place_of(data, seed, step, member, first + i);
        for (int k = 0; k < NP_AUGMENT_DRAWS; k++)
            augment[k] = np_draw(keys[k], step, first + i);
        read_sample(data, batch, i, place, augment);
    }
}

void np_data_eval_batch(const struct np_data *data, const struct np_batch *batch, uint64_t first,
                        size_t samples, uint64_t total)
{
    for (size_t i = 0; i < samples; i++)
        read_sample(data, batch, i, eval_place(data, first + i, total), NULL);
}

/* Of the sample at a place: what is filled is behind the rest. */
static uint64_t targets_at(const struct np_data *data, uint64_t place)
{
    int32_t length;
    read_sample(data, &(struct np_batch){.target_lengths = &length}, 0, place, NULL);
    return (uint64_t)length;
}

uint64_t np_data_targets(const struct np_data *data, uint64_t seed, uint64_t step, uint32_t member)
{
    uint64_t sum = data->order.batch * data->sizes.targets;
    if (!data->masked)
        return sum;
    sum = 0;
    for (uint64_t i = 0; i < data->order.batch; i++)
        sum += targets_at(data, place_of(data, seed, step, member, i));
    return sum;
}

uint64_t np_data_eval_targets(const struct np_data *data, uint64_t first, size_t samples,
                              uint64_t total)
{
    uint64_t sum = samples * data->sizes.targets;
    if (!data->masked)
        return sum;
    sum = 0;
    for (size_t i = 0; i < samples; i++)
        sum += targets_at(data, eval_place(data, first + i, total));
    return sum;
}
