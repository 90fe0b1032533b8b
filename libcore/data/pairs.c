#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/format.h"
#include "data/joined.h"
#include "data/pairs_file.h"

enum { BEGIN = 1 }; /* what a target's input begins with */

struct pairs {
    struct np_pairs_file *files;
    struct np_joined joined;
    size_t length, source_length;
    int vocab;
    bool masked;
};

static enum np_status open_pairs(void **out, uint64_t *count, char *const *paths,
                                 const struct np_recipe *recipe, const struct np_data_spec *spec,
                                 struct np_error *err)
{
    struct pairs *pairs;
    enum np_status status;
    NP_TRY(np_zalloc(&pairs, 1, sizeof *pairs, err));
    *out = pairs;
    pairs->length = (size_t)recipe->length;
    pairs->source_length = (size_t)recipe->source_length;
    pairs->vocab = recipe->vocab;
    pairs->masked = recipe->masked;
    NP_TRY(np_zalloc(&pairs->files, (size_t)spec->file_count, sizeof *pairs->files, err));
    NP_TRY(np_joined_init(&pairs->joined, spec->file_count, err));
    for (int i = 0; i < spec->file_count; i++) {
        uint64_t *starts = &pairs->joined.starts[i];
        NP_TRY(np_pairs_file_init(&pairs->files[i], paths[i], err));
        starts[1] = starts[0] + pairs->files[i].count;
    }
    *count = pairs->joined.starts[spec->file_count];
out:
    return status;
}

static void close_pairs(void *reader)
{
    struct pairs *pairs = reader;
    for (int i = 0; i < pairs->joined.file_count; i++)
        np_pairs_file_clear(&pairs->files[i]);
    free(pairs->files);
    np_joined_clear(&pairs->joined);
    free(pairs);
}

/* out[0 .. size-1]: bytes, then zeros. */
static void fill_row(int32_t *out, size_t size, const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = bytes[i];
    memset(out + count, 0, (size - count) * sizeof *out);
}

/* The target and the end, which the input's begin stands for. */
static void fill_targets(int32_t *out, const struct pairs *pairs, const uint8_t *bytes,
                         size_t count)
{
    fill_row(out, pairs->length, bytes, count);
    for (size_t i = count + 1; pairs->masked && i < pairs->length; i++)
        out[i] = NP_NO_TARGET;
}

static void read_pair(const void *reader, const struct np_batch *sample, uint64_t item,
                      const struct np_philox *augment)
{
    const struct pairs *pairs = reader;
    int file = np_joined_find(&pairs->joined, item);
    struct np_pair pair = np_pairs_file_get(&pairs->files[file], item - pairs->joined.starts[file]);
    size_t most = pairs->length - 1, from = pairs->source_length;
    size_t count = pair.target_count < most ? pair.target_count : most;
    size_t source_count = pair.source_count < from ? pair.source_count : from;
    (void)augment;
    if (sample->source)
        fill_row(sample->source, from, pair.source, source_count);
    if (sample->tokens) {
        sample->tokens[0] = BEGIN;
        fill_row(sample->tokens + 1, most, pair.target, count);
    }
    if (sample->targets)
        fill_targets(sample->targets, pairs, pair.target, count);
    if (sample->source_lengths)
        *sample->source_lengths = (int32_t)(source_count ? source_count : 1);
    if (sample->target_lengths)
        *sample->target_lengths = (int32_t)count + 1;
}

static enum np_status check_row(const struct pairs *pairs, uint64_t item, const int32_t *row,
                                size_t count, struct np_error *err)
{
    size_t i = 0;
    int file;
    while (i < count && row[i] < pairs->vocab)
        i++;
    if (i == count)
        return NP_OK;
    file = np_joined_find(&pairs->joined, item);
    return np_fail(err, NP_EINPUT, "'%s': line %llu has token %d, not below the vocabulary of %d",
                   np_text_safe(pairs->files[file].path).s,
                   (unsigned long long)(item - pairs->joined.starts[file]) + 1, row[i],
                   pairs->vocab);
}

static enum np_status digest_pairs(const void *reader, struct np_sha256 *sha, uint64_t begin,
                                   uint64_t count, struct np_error *err)
{
    const struct pairs *pairs = reader;
    size_t size = pairs->source_length + pairs->length;
    struct np_batch sample = {0};
    int32_t *row = NULL;
    enum np_status status;
    NP_TRY(np_alloc(&row, size, sizeof *row, err));
    sample.source = row;
    sample.tokens = row + pairs->source_length;
    for (uint64_t item = begin; item < begin + count; item++) {
        read_pair(pairs, &sample, item, NULL);
        NP_TRY(check_row(pairs, item, row, size, err));
        for (size_t i = 0; i < size; i++)
            row[i] = (int32_t)htole32((uint32_t)row[i]);
        NP_TRY(np_sha256_add(sha, row, size * sizeof *row, err));
    }
out:
    free(row);
    return status;
}

const struct np_format np_format_pairs = {
    .items = "pairs",
    .open = open_pairs,
    .close = close_pairs,
    .digest = digest_pairs,
    .read = read_pair,
};
