#include "data/image_file.h"

#include <string.h>

#include "base/text.h"

/* An IDX file: two bytes 0, the type of its values, the number of dimensions; the dimensions, and
 * the values, all most significant byte first. */
enum { UINT8 = 0x08, INT16 = 0x0B, INT32 = 0x0C, MAX_RANK = 4 };

/* A record of CIFAR: the labels, then the planes. */
enum { SIDE = 32, CHANNELS = 3, PIXELS = CHANNELS * SIDE * SIDE };

struct idx {
    uint32_t type, rank, dims[MAX_RANK];
    const uint8_t *values;
    size_t bytes; /* of all values */
};

static uint32_t word_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static enum np_status open_idx(struct idx *idx, struct np_file_map *map, const char *path,
                               struct np_error *err)
{
    enum np_status status;
    uint32_t magic;
    NP_TRY(np_file_map_init(map, path, err));
    magic = map->size < 4 ? 0 : word_at(map->bytes);
    *idx = (struct idx){.type = magic >> 8, .rank = magic & 0xFF};
    if (idx->rank < 1 || idx->rank > MAX_RANK ||
        (idx->type != UINT8 && idx->type != INT16 && idx->type != INT32))
        NP_TRY(np_fail(err, NP_EINPUT, "'%s' is not an IDX file of images or labels",
                       np_text_safe(path).s));
    if (map->size < 4 + 4 * (size_t)idx->rank)
        NP_TRY(np_fail(err, NP_EINPUT, "'%s' ends in its header", np_text_safe(path).s));
    for (size_t i = 0; i < idx->rank; i++)
        idx->dims[i] = word_at(map->bytes + 4 + 4 * i);
    idx->bytes = map->size - (4 + 4 * (size_t)idx->rank);
    idx->values = map->bytes + (map->size - idx->bytes);
out:
    return status;
}

/* As many values follow the header as it says: `each` bytes an item. */
static enum np_status check_length(const struct idx *idx, const char *path, size_t each,
                                   struct np_error *err)
{
    if (idx->dims[0] == 0)
        return np_fail(err, NP_EINPUT, "'%s' is empty", np_text_safe(path).s);
    if (idx->bytes % each == 0 && idx->bytes / each == idx->dims[0])
        return NP_OK;
    return np_fail(err, NP_EINPUT, "'%s': the header counts %u times %zu bytes, %zu follow it",
                   np_text_safe(path).s, (unsigned)idx->dims[0], each, idx->bytes);
}

static enum np_status open_idx_images(struct np_image_file *file, const char *path,
                                      struct np_image_size size, struct np_error *err)
{
    size_t channels = (size_t)size.channels;
    enum np_status status;
    struct idx idx;
    NP_TRY(open_idx(&idx, &file->map, path, err));
    if (idx.type != UINT8 || idx.rank < 3)
        NP_TRY(np_fail(err, NP_EINPUT, "'%s' is not an IDX file of images: type %u, %u dimensions",
                       np_text_safe(path).s, (unsigned)idx.type, (unsigned)idx.rank));
    if (idx.rank == 3)
        idx.dims[3] = 1;
    if (idx.dims[1] != (uint32_t)size.height || idx.dims[2] != (uint32_t)size.width ||
        idx.dims[3] != (uint32_t)size.channels)
        NP_TRY(np_fail(err, NP_EINPUT, "'%s' holds images of %u x %u x %u, not %d x %d x %d",
                       np_text_safe(path).s, (unsigned)idx.dims[1], (unsigned)idx.dims[2],
                       (unsigned)idx.dims[3], size.height, size.width, size.channels));
    file->image_bytes = (size_t)size.height * (size_t)size.width * channels;
    NP_TRY(check_length(&idx, path, file->image_bytes, err));
    file->count = idx.dims[0];
    file->pixels = idx.values;
    file->step = channels;
    file->plane = 1;
out:
    return status;
}

static enum np_status open_idx_labels(struct np_image_file *file, const char *path,
                                      struct np_error *err)
{
    enum np_status status;
    struct idx idx;
    NP_TRY(open_idx(&idx, &file->label_map, path, err));
    if (idx.rank != 1)
        NP_TRY(np_fail(err, NP_EINPUT, "'%s' is not an IDX file of labels: %u dimensions",
                       np_text_safe(path).s, (unsigned)idx.rank));
    file->label_width = idx.type == UINT8 ? 1 : idx.type == INT16 ? 2 : 4;
    file->label_bytes = (size_t)file->label_width;
    NP_TRY(check_length(&idx, path, file->label_bytes, err));
    if (idx.dims[0] != file->count)
        NP_TRY(np_fail(err, NP_EINPUT, "'%s' has %u labels for %llu images", np_text_safe(path).s,
                       (unsigned)idx.dims[0], (unsigned long long)file->count));
    file->labels = idx.values;
out:
    return status;
}

enum np_status np_idx_file_init(struct np_image_file *file, const char *path,
                                const char *label_path, struct np_image_size size,
                                struct np_error *err)
{
    enum np_status status;
    memset(file, 0, sizeof *file);
    file->path = label_path;
    NP_TRY(open_idx_images(file, path, size, err));
    NP_TRY(open_idx_labels(file, label_path, err));
out:
    return status;
}

enum np_status np_cifar_file_init(struct np_image_file *file, const char *path, size_t labels,
                                  struct np_image_size size, struct np_error *err)
{
    size_t record = labels + PIXELS;
    enum np_status status;
    memset(file, 0, sizeof *file);
    file->path = path;
    if (size.height != SIDE || size.width != SIDE || size.channels != CHANNELS)
        NP_TRY(np_fail(err, NP_EINPUT, "'%s' holds images of 32 x 32 x 3, not %d x %d x %d",
                       np_text_safe(path).s, size.height, size.width, size.channels));
    NP_TRY(np_file_map_init(&file->map, path, err));
    if (file->map.size == 0)
        NP_TRY(np_fail(err, NP_EINPUT, "'%s' is empty", np_text_safe(path).s));
    if (file->map.size % record != 0)
        NP_TRY(np_fail(err, NP_EINPUT, "'%s': %zu bytes are not whole records of %zu",
                       np_text_safe(path).s, file->map.size, record));
    file->count = file->map.size / record;
    file->labels = file->map.bytes + labels - 1;
    file->pixels = file->map.bytes + labels;
    file->label_bytes = file->image_bytes = record;
    file->label_width = 1;
    file->plane = SIDE * SIDE;
    file->step = 1;
out:
    return status;
}

int32_t np_image_file_label(const struct np_image_file *file, size_t index)
{
    const uint8_t *at = file->labels + index * file->label_bytes;
    if (file->label_width == 1)
        return at[0];
    if (file->label_width == 2)
        return (int16_t)(at[0] << 8 | at[1]);
    return (int32_t)word_at(at);
}

void np_image_file_clear(struct np_image_file *file)
{
    np_file_map_clear(&file->map);
    np_file_map_clear(&file->label_map);
    memset(file, 0, sizeof *file);
}
