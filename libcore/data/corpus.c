#include "data/corpus.h"

#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/token_file.h"
#include "num/philox.h"

struct np_corpus {
    struct np_token_file *files;
    uint64_t *starts; /* [file_count + 1] token of the concatenation a file begins at */
    int file_count;
    uint64_t from, tokens; /* the part */
    size_t length;         /* positions of a sample */
    struct np_digest digest;
};

/* Tokens begin .. of the part, across files. */
static void read_tokens(const struct np_corpus *corpus, int32_t *out, uint64_t begin, size_t count)
{
    int file = 0, beyond = corpus->file_count;
    begin += corpus->from;
    while (beyond - file > 1) {
        int middle = file + (beyond - file) / 2;
        if (corpus->starts[middle] <= begin)
            file = middle;
        else
            beyond = middle;
    }
    while (count > 0) {
        uint64_t left = corpus->starts[file + 1] - begin;
        size_t now = left < count ? (size_t)left : count;
        np_token_file_read(&corpus->files[file], out, begin - corpus->starts[file], now);
        out += now;
        begin += now;
        count -= now;
        file++;
    }
}

static enum np_status locate(char **out, const char *directory, const char *name,
                             struct np_error *err)
{
    size_t size = strlen(directory) + strlen(name) + 2;
    enum np_status status;
    if (name[0] == '/')
        return np_strdup(out, name, err);
    NP_TRY(np_alloc(out, size, 1, err));
    snprintf(*out, size, "%s/%s", directory, name);
out:
    return status;
}

static enum np_status open_files(struct np_corpus *corpus, const struct np_recipe *recipe,
                                 const struct np_data_spec *spec, struct np_error *err)
{
    size_t count = (size_t)spec->file_count;
    enum np_status status;
    NP_TRY(np_zalloc(&corpus->files, count, sizeof *corpus->files, err));
    NP_TRY(np_zalloc(&corpus->starts, count + 1, sizeof *corpus->starts, err));
    for (int i = 0; i < spec->file_count; i++) {
        struct np_token_file *file = &corpus->files[corpus->file_count];
        char *path;
        NP_TRY(locate(&path, recipe->directory, spec->files[i], err));
        corpus->file_count++;
        NP_TRY(np_token_file_init(file, path, spec->kind, err));
        corpus->starts[i + 1] = corpus->starts[i] + file->count;
    }
out:
    return status;
}

static enum np_status cut_part(struct np_corpus *corpus, const struct np_data_spec *spec,
                               struct np_error *err)
{
    uint64_t all = corpus->starts[corpus->file_count];
    corpus->from = (uint64_t)(spec->part[0] * (double)all);
    corpus->tokens = (uint64_t)(spec->part[1] * (double)all) - corpus->from;
    if (corpus->tokens > corpus->length)
        return NP_OK;
    return np_fail(err, NP_EINPUT, "'%s'%s: %llu tokens in the part, a sample needs %zu",
                   np_text_safe(corpus->files[0].path).s,
                   corpus->file_count > 1 ? " and the files after it" : "",
                   (unsigned long long)corpus->tokens, corpus->length + 1);
}

static enum np_status refuse_token(const struct np_corpus *corpus, uint64_t place, uint32_t token,
                                   int vocab, struct np_error *err)
{
    int file = 0;
    place += corpus->from;
    while (corpus->starts[file + 1] <= place)
        file++;
    return np_fail(err, NP_EINPUT, "'%s': token %u at %llu is not below the vocabulary of %d",
                   np_text_safe(corpus->files[file].path).s, token,
                   (unsigned long long)(place - corpus->starts[file]), vocab);
}

/* One pass over the part: every token is below the vocabulary, and their digest. */
static enum np_status digest_part(struct np_corpus *corpus, int vocab, struct np_error *err)
{
    enum { CHUNK = 1 << 14 };
    struct np_sha256 sha = {0};
    int32_t *tokens = NULL;
    enum np_status status;
    NP_TRY(np_alloc(&tokens, CHUNK, sizeof *tokens, err));
    NP_TRY(np_sha256_begin(&sha, err));
    for (uint64_t begin = 0; begin < corpus->tokens; begin += CHUNK) {
        uint64_t left = corpus->tokens - begin;
        size_t count = left < CHUNK ? (size_t)left : CHUNK;
        read_tokens(corpus, tokens, begin, count);
        for (size_t i = 0; i < count; i++) {
            uint32_t token = (uint32_t)tokens[i];
            if (token >= (uint32_t)vocab)
                NP_TRY(refuse_token(corpus, begin + i, token, vocab, err));
            tokens[i] = (int32_t)htole32(token);
        }
        NP_TRY(np_sha256_add(&sha, tokens, count * sizeof *tokens, err));
    }
    NP_TRY(np_sha256_end(&sha, &corpus->digest, err));
out:
    np_sha256_clear(&sha);
    free(tokens);
    return status;
}

enum np_status np_corpus_open(struct np_corpus **out, const struct np_recipe *recipe,
                              const struct np_data_spec *spec, struct np_error *err)
{
    struct np_corpus *corpus = NULL;
    enum np_status status;
    assert(spec->given);
    NP_TRY(np_zalloc(&corpus, 1, sizeof *corpus, err));
    corpus->length = (size_t)recipe->length;
    NP_TRY(open_files(corpus, recipe, spec, err));
    NP_TRY(cut_part(corpus, spec, err));
    NP_TRY(digest_part(corpus, recipe->vocab, err));
    *out = corpus;
    return NP_OK;
out:
    np_corpus_close(corpus);
    return status;
}

void np_corpus_close(struct np_corpus *corpus)
{
    if (!corpus)
        return;
    for (int i = 0; i < corpus->file_count; i++)
        np_token_file_clear(&corpus->files[i]);
    free(corpus->files);
    free(corpus->starts);
    free(corpus);
}

const struct np_digest *np_corpus_digest(const struct np_corpus *corpus)
{
    return &corpus->digest;
}

uint64_t np_corpus_tokens(const struct np_corpus *corpus)
{
    return corpus->tokens;
}

/* The sample at `begin`: length tokens, and the same window one further. */
static void read_sample(const struct np_corpus *corpus, int32_t *tokens, int32_t *targets,
                        uint64_t begin)
{
    read_tokens(corpus, tokens, begin, corpus->length);
    memcpy(targets, tokens + 1, (corpus->length - 1) * sizeof *targets);
    read_tokens(corpus, targets + corpus->length - 1, begin + corpus->length, 1);
}

void np_corpus_batch(const struct np_corpus *corpus, int32_t *tokens, int32_t *targets,
                     uint64_t seed, uint64_t step, uint32_t member, size_t first, size_t samples)
{
    struct np_draw_key key = np_draw_key(seed, NP_DRAW_BATCH, member, 0, 0);
    for (size_t i = 0; i < samples; i++)
        read_sample(
            corpus, tokens + i * corpus->length, targets + i * corpus->length,
            np_philox_below(np_draw(key, step, first + i), corpus->tokens - corpus->length));
}

void np_corpus_eval_batch(const struct np_corpus *corpus, int32_t *tokens, int32_t *targets,
                          uint64_t index, size_t samples, uint64_t total)
{
    unsigned __int128 windows = corpus->tokens - corpus->length;
    for (size_t i = 0; i < samples; i++) {
        uint64_t window = index * samples + i;
        assert(window < total);
        read_sample(corpus, tokens + i * corpus->length, targets + i * corpus->length,
                    (uint64_t)(windows * window / total));
    }
}
