#include "data/pairs_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

/* The end of the line that begins at `begin`: its newline, or the end of the file. */
static size_t line_end(const struct np_file_map *map, size_t begin)
{
    const uint8_t *newline = memchr(map->bytes + begin, '\n', map->size - begin);
    return newline ? (size_t)(newline - map->bytes) : map->size;
}

static enum np_status check_line(const struct np_pairs_file *file, uint64_t index,
                                 struct np_error *err)
{
    const uint8_t *line = file->map.bytes + file->lines[index];
    size_t size = file->lines[index + 1] - 1 - file->lines[index];
    const uint8_t *tab = size ? memchr(line, '\t', size) : NULL;
    const char *wrong = NULL;
    if (!tab)
        wrong = "no tab between source and target";
    else if (memchr(tab + 1, '\t', size - (size_t)(tab + 1 - line)))
        wrong = "more than one tab";
    else if (memchr(line, '\0', size))
        wrong = "a byte 0";
    if (!wrong)
        return NP_OK;
    return np_fail(err, NP_EINPUT, "'%s': line %llu has %s", np_text_safe(file->path).s,
                   (unsigned long long)index + 1, wrong);
}

enum np_status np_pairs_file_init(struct np_pairs_file *file, const char *path,
                                  struct np_error *err)
{
    enum np_status status;
    memset(file, 0, sizeof *file);
    file->path = path;
    NP_TRY(np_file_map_init(&file->map, path, err));
    if (file->map.size == 0)
        NP_TRY(np_fail(err, NP_EINPUT, "'%s' has no pairs", np_text_safe(path).s));
    for (size_t begin = 0; begin < file->map.size; begin = line_end(&file->map, begin) + 1)
        file->count++;
    NP_TRY(np_alloc(&file->lines, (size_t)file->count + 1, sizeof *file->lines, err));
    file->lines[0] = 0;
    for (uint64_t i = 0; i < file->count; i++) {
        file->lines[i + 1] = line_end(&file->map, file->lines[i]) + 1;
        NP_TRY(check_line(file, i, err));
    }
out:
    return status;
}

void np_pairs_file_clear(struct np_pairs_file *file)
{
    np_file_map_clear(&file->map);
    free(file->lines);
    memset(file, 0, sizeof *file);
}

struct np_pair np_pairs_file_get(const struct np_pairs_file *file, uint64_t index)
{
    const uint8_t *line = file->map.bytes + file->lines[index];
    size_t size = file->lines[index + 1] - 1 - file->lines[index];
    const uint8_t *tab = memchr(line, '\t', size);
    size_t source = (size_t)(tab - line);
    return (struct np_pair){line, tab + 1, source, size - source - 1};
}
