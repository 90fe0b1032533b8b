#include <endian.h>
#include <stdio.h>
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
    bool numbers; /* tokens are words, not bytes */
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
    pairs->numbers = spec->kind == NP_DATA_TOKEN_PAIRS;
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

/* What is left of a source's or a target's text. */
struct side {
    const uint8_t *at, *end;
};

/* The next word of numbers: behind spaces, to the next one; empty: there is none. */
static struct side next_word(struct side *side)
{
    struct side word;
    while (side->at < side->end && *side->at == ' ')
        side->at++;
    word.at = side->at;
    while (side->at < side->end && *side->at != ' ')
        side->at++;
    word.end = side->at;
    return word;
}

/* The number that a word is, or more than any token, if it is that large; -1: it is none. */
static int32_t number_of(struct side word)
{
    int32_t number = 0;
    for (; word.at < word.end; word.at++) {
        if (*word.at < '0' || *word.at > '9')
            return -1;
        if (number <= NP_MAX_VOCAB)
            number = 10 * number + (*word.at - '0');
    }
    return number;
}

/* The next token; false: there is none. */
static bool next_token(int32_t *token, struct side *side, bool numbers)
{
    if (numbers) {
        struct side word = next_word(side);
        *token = number_of(word);
        return word.at < word.end;
    }
    if (side->at == side->end)
        return false;
    *token = *side->at++;
    return true;
}

/* out[0 .. size-1], if not NULL: tokens, then zeros. Returns how many tokens. */
static size_t fill_row(int32_t *out, size_t size, struct side side, bool numbers)
{
    size_t count = 0;
    for (int32_t token; count < size && next_token(&token, &side, numbers); count++)
        if (out)
            out[count] = token;
    if (out)
        memset(out + count, 0, (size - count) * sizeof *out);
    return count;
}

static struct np_pair pair_at(const struct pairs *pairs, uint64_t item)
{
    int file = np_joined_find(&pairs->joined, item);
    return np_pairs_file_get(&pairs->files[file], item - pairs->joined.starts[file]);
}

static struct side source_of(const struct np_pair *pair)
{
    return (struct side){pair->source, pair->source + pair->source_count};
}

static struct side target_of(const struct np_pair *pair)
{
    return (struct side){pair->target, pair->target + pair->target_count};
}

static void read_pair(const void *reader, const struct np_batch *sample, uint64_t item,
                      const struct np_philox augment[NP_AUGMENT_DRAWS])
{
    const struct pairs *pairs = reader;
    struct np_pair pair = pair_at(pairs, item);
    struct side target = target_of(&pair);
    size_t most = pairs->length - 1, count;
    (void)augment;
    if (sample->source || sample->source_lengths) {
        count = fill_row(sample->source, pairs->source_length, source_of(&pair), pairs->numbers);
        if (sample->source_lengths)
            *sample->source_lengths = (int32_t)(count ? count : 1);
    }
    if (sample->tokens) {
        sample->tokens[0] = BEGIN;
        fill_row(sample->tokens + 1, most, target, pairs->numbers);
    }
    if (sample->targets) { /* to the end, which the input's begin stands for */
        count = fill_row(sample->targets, most, target, pairs->numbers);
        sample->targets[most] = 0;
        for (size_t i = count + 1; pairs->masked && i < pairs->length; i++)
            sample->targets[i] = NP_NO_TARGET;
    }
    if (sample->target_lengths)
        *sample->target_lengths = (int32_t)fill_row(NULL, most, target, pairs->numbers) + 1;
}

/* "'PATH': line N has WHAT" */
static enum np_status fail_line(const struct pairs *pairs, uint64_t item, const char *what,
                                struct np_error *err)
{
    int file = np_joined_find(&pairs->joined, item);
    return np_fail(err, NP_EINPUT, "'%s': line %llu has %s",
                   np_text_safe(pairs->files[file].path).s,
                   (unsigned long long)(item - pairs->joined.starts[file]) + 1, what);
}

static enum np_status check_numbers(const struct pairs *pairs, uint64_t item, struct side side,
                                    struct np_error *err)
{
    struct side word;
    for (;;) {
        char text[40], what[120];
        word = next_word(&side);
        if (word.at == word.end)
            return NP_OK;
        int32_t number = number_of(word);
        if (number > 0 && number < pairs->vocab)
            continue;
        np_text_escape(text, sizeof text, (const char *)word.at, (size_t)(word.end - word.at));
        if (number < 0)
            snprintf(what, sizeof what, "'%s', which is no token", text);
        else if (number == 0)
            snprintf(what, sizeof what, "token 0, which is what ends and fills");
        else
            snprintf(what, sizeof what, "token %s, not below the vocabulary of %d", text,
                     pairs->vocab);
        return fail_line(pairs, item, what, err);
    }
}

static enum np_status check_bytes(const struct pairs *pairs, uint64_t item, const int32_t *row,
                                  size_t count, struct np_error *err)
{
    char what[80];
    size_t i = 0;
    while (i < count && row[i] < pairs->vocab)
        i++;
    if (i == count)
        return NP_OK;
    snprintf(what, sizeof what, "token %d, not below the vocabulary of %d", row[i], pairs->vocab);
    return fail_line(pairs, item, what, err);
}

/* Of bytes those that are used, of numbers all. */
static enum np_status check_pair(const struct pairs *pairs, uint64_t item, const int32_t *row,
                                 size_t count, struct np_error *err)
{
    struct np_pair pair = pair_at(pairs, item);
    enum np_status status;
    if (!pairs->numbers)
        return check_bytes(pairs, item, row, count, err);
    NP_TRY(check_numbers(pairs, item, source_of(&pair), err));
    NP_TRY(check_numbers(pairs, item, target_of(&pair), err));
out:
    return status;
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
        NP_TRY(check_pair(pairs, item, row, size, err));
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
