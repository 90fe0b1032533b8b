#include "data/token_file.h"

#include <string.h>

#include "base/text.h"

/* llm.c's header: 256 words of 32 bits: magic, version, number of tokens, the rest unused. */
enum { HEADER_BYTES = 1024 };
static const struct {
    uint32_t magic, version;
    int width;
} formats[] = {
    {20240520, 1, 2},
    {20240801, 7, 4},
};

static uint32_t word_at(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static enum np_status read_header(struct np_token_file *file, struct np_error *err)
{
    const uint8_t *bytes = file->map.bytes;
    const char *name = file->path;
    uint32_t magic, version;
    size_t i = 0;
    if (file->map.size < HEADER_BYTES)
        return np_fail(err, NP_EINPUT, "'%s' is too short for a token file: %zu bytes",
                       np_text_safe(name).s, file->map.size);
    magic = word_at(bytes);
    version = word_at(bytes + 4);
    while (i < 2 && formats[i].magic != magic)
        i++;
    if (i == 2)
        return np_fail(err, NP_EINPUT,
                       "'%s' is not a token file: magic %u, not 20240520 or 20240801",
                       np_text_safe(name).s, magic);
    if (version != formats[i].version)
        return np_fail(err, NP_EINPUT, "'%s': token file version %u, not %u", np_text_safe(name).s,
                       version, formats[i].version);
    file->width = formats[i].width;
    file->first = bytes + HEADER_BYTES;
    file->count = word_at(bytes + 8);
    if (file->map.size - HEADER_BYTES != file->count * (uint64_t)file->width)
        return np_fail(err, NP_EINPUT, "'%s': the header counts %llu tokens, %zu bytes follow it",
                       np_text_safe(name).s, (unsigned long long)file->count,
                       file->map.size - HEADER_BYTES);
    return NP_OK;
}

enum np_status np_token_file_init(struct np_token_file *file, const char *path,
                                  enum np_data_kind kind, struct np_error *err)
{
    enum np_status status;
    memset(file, 0, sizeof *file);
    file->path = path;
    NP_TRY(np_file_map_init(&file->map, file->path, err));
    file->width = 1;
    file->first = file->map.bytes;
    file->count = file->map.size;
    if (kind == NP_DATA_TOKENS)
        NP_TRY(read_header(file, err));
    if (file->count == 0)
        NP_TRY(np_fail(err, NP_EINPUT, "'%s' has no tokens", np_text_safe(file->path).s));
out:
    return status;
}

void np_token_file_clear(struct np_token_file *file)
{
    np_file_map_clear(&file->map);
    memset(file, 0, sizeof *file);
}

void np_token_file_read(const struct np_token_file *file, int32_t *out, uint64_t begin,
                        size_t count)
{
    const uint8_t *from = file->first + begin * (uint64_t)file->width;
    if (file->width == 1)
        for (size_t i = 0; i < count; i++)
            out[i] = from[i];
    else if (file->width == 2)
        for (size_t i = 0; i < count; i++)
            out[i] = from[2 * i] | from[2 * i + 1] << 8;
    else
        for (size_t i = 0; i < count; i++)
            out[i] = (int32_t)word_at(from + 4 * i);
}
