#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/format.h"
#include "data/joined.h"
#include "data/token_file.h"

struct corpus {
    struct np_token_file *files;
    struct np_joined joined;
    size_t length; /* positions of a sample */
    int vocab;
};

/* Tokens begin .. of the concatenation, across files. */
static void read_tokens(const struct corpus *corpus, int32_t *out, uint64_t begin, size_t count)
{
    int file = np_joined_find(&corpus->joined, begin);
    while (count > 0) {
        uint64_t left = corpus->joined.starts[file + 1] - begin;
        size_t now = left < count ? (size_t)left : count;
        np_token_file_read(&corpus->files[file], out, begin - corpus->joined.starts[file], now);
        out += now;
        begin += now;
        count -= now;
        file++;
    }
}

static enum np_status open_corpus(void **out, uint64_t *count, char *const *paths,
                                  const struct np_recipe *recipe, const struct np_data_spec *spec,
                                  struct np_error *err)
{
    struct corpus *corpus;
    enum np_status status;
    NP_TRY(np_zalloc(&corpus, 1, sizeof *corpus, err));
    *out = corpus;
    corpus->length = (size_t)recipe->length;
    corpus->vocab = recipe->vocab;
    NP_TRY(np_zalloc(&corpus->files, (size_t)spec->file_count, sizeof *corpus->files, err));
    NP_TRY(np_joined_init(&corpus->joined, spec->file_count, err));
    for (int i = 0; i < spec->file_count; i++) {
        uint64_t *starts = &corpus->joined.starts[i];
        NP_TRY(np_token_file_init(&corpus->files[i], paths[i], spec->kind, err));
        starts[1] = starts[0] + corpus->files[i].count;
    }
    *count = corpus->joined.starts[spec->file_count];
out:
    return status;
}

static void close_corpus(void *reader)
{
    struct corpus *corpus = reader;
    for (int i = 0; i < corpus->joined.file_count; i++)
        np_token_file_clear(&corpus->files[i]);
    free(corpus->files);
    np_joined_clear(&corpus->joined);
    free(corpus);
}

static enum np_status refuse_token(const struct corpus *corpus, uint64_t place, uint32_t token,
                                   struct np_error *err)
{
    int file = np_joined_find(&corpus->joined, place);
    return np_fail(err, NP_EINPUT, "'%s': token %u at %llu is not below the vocabulary of %d",
                   np_text_safe(corpus->files[file].path).s, token,
                   (unsigned long long)(place - corpus->joined.starts[file]), corpus->vocab);
}

static enum np_status digest_corpus(const void *reader, struct np_sha256 *sha, uint64_t begin,
                                    uint64_t count, struct np_error *err)
{
    enum { CHUNK = 1 << 14 };
    const struct corpus *corpus = reader;
    int32_t *tokens = NULL;
    enum np_status status;
    NP_TRY(np_alloc(&tokens, CHUNK, sizeof *tokens, err));
    while (count > 0) {
        size_t now = count < CHUNK ? (size_t)count : CHUNK;
        read_tokens(corpus, tokens, begin, now);
        for (size_t i = 0; i < now; i++) {
            uint32_t token = (uint32_t)tokens[i];
            if (token >= (uint32_t)corpus->vocab)
                NP_TRY(refuse_token(corpus, begin + i, token, err));
            tokens[i] = (int32_t)htole32(token);
        }
        NP_TRY(np_sha256_add(sha, tokens, now * sizeof *tokens, err));
        begin += now;
        count -= now;
    }
out:
    free(tokens);
    return status;
}

static void read_window(const void *reader, const struct np_batch *sample, uint64_t item,
                        const struct np_philox augment[NP_AUGMENT_DRAWS])
{
    const struct corpus *corpus = reader;
    (void)augment;
    if (sample->tokens)
        read_tokens(corpus, sample->tokens, item, corpus->length);
    if (sample->targets)
        read_tokens(corpus, sample->targets, item + 1, corpus->length);
}

const struct np_format np_format_corpus = {
    .items = "tokens",
    .open = open_corpus,
    .close = close_corpus,
    .digest = digest_corpus,
    .read = read_window,
};
