#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/format.h"
#include "data/image_reader.h"
#include "data/joined.h"

struct images {
    struct np_image_file *files;
    struct np_joined joined;
    int classes;
    struct np_image_reader reader;
};

static enum np_status open_files(struct images *images, char *const *paths,
                                 const struct np_data_spec *spec, struct np_error *err)
{
    int each = spec->kind == NP_DATA_IDX ? 2 : 1; /* files of a set of images */
    int count = spec->file_count / each;
    enum np_status status;
    if (spec->file_count % each != 0)
        NP_TRY(np_fail(err, NP_EINPUT, "'%s' has no file of labels after it",
                       np_text_safe(paths[spec->file_count - 1]).s));
    NP_TRY(np_zalloc(&images->files, (size_t)count, sizeof *images->files, err));
    NP_TRY(np_joined_init(&images->joined, count, err));
    for (int i = 0; i < count; i++) {
        struct np_image_file *file = &images->files[i];
        uint64_t *starts = &images->joined.starts[i];
        if (spec->kind == NP_DATA_IDX)
            NP_TRY(
                np_idx_file_init(file, paths[2 * i], paths[2 * i + 1], images->reader.stored, err));
        else
            NP_TRY(np_cifar_file_init(file, paths[i], spec->kind == NP_DATA_CIFAR100 ? 2 : 1,
                                      images->reader.stored, err));
        starts[1] = starts[0] + file->count;
    }
out:
    return status;
}

static enum np_status open_images(void **out, uint64_t *count, char *const *paths,
                                  const struct np_recipe *recipe, const struct np_data_spec *spec,
                                  struct np_error *err)
{
    struct images *images;
    enum np_status status;
    NP_TRY(np_zalloc(&images, 1, sizeof *images, err));
    *out = images;
    images->classes = recipe->vocab;
    NP_TRY(np_image_reader_init(&images->reader, recipe, spec, err));
    NP_TRY(open_files(images, paths, spec, err));
    *count = images->joined.starts[images->joined.file_count];
out:
    return status;
}

static void close_images(void *reader)
{
    struct images *images = reader;
    for (int i = 0; i < images->joined.file_count; i++)
        np_image_file_clear(&images->files[i]);
    free(images->files);
    np_joined_clear(&images->joined);
    np_image_reader_clear(&images->reader);
    free(images);
}

struct image {
    const struct np_image_file *file;
    const uint8_t *pixels;
    int32_t label;
};

static struct image image_at(const struct images *images, uint64_t item)
{
    int i = np_joined_find(&images->joined, item);
    const struct np_image_file *file = &images->files[i];
    size_t index = (size_t)(item - images->joined.starts[i]);
    return (struct image){file, file->pixels + index * file->image_bytes,
                          np_image_file_label(file, index)};
}

static enum np_status refuse_label(const struct images *images, uint64_t item, int32_t label,
                                   struct np_error *err)
{
    int file = np_joined_find(&images->joined, item);
    return np_fail(err, NP_EINPUT, "'%s': label %d of image %llu is not one of 0 to %d",
                   np_text_safe(images->files[file].path).s, label,
                   (unsigned long long)(item - images->joined.starts[file]), images->classes - 1);
}

static enum np_status digest_images(const void *reader, struct np_sha256 *sha, uint64_t begin,
                                    uint64_t count, struct np_error *err)
{
    const struct images *images = reader;
    const struct np_image_size *size = &images->reader.stored;
    size_t plane = (size_t)size->height * (size_t)size->width, channels = (size_t)size->channels;
    uint8_t *pixels = NULL;
    enum np_status status;
    NP_TRY(np_alloc(&pixels, plane, channels, err));
    for (uint64_t item = begin; item < begin + count; item++) {
        struct image image = image_at(images, item);
        uint32_t label = htole32((uint32_t)image.label);
        if (image.label < 0 || image.label >= images->classes)
            NP_TRY(refuse_label(images, item, image.label, err));
        for (size_t c = 0; c < channels; c++)
            for (size_t i = 0; i < plane; i++)
                pixels[i * channels + c] =
                    image.pixels[c * image.file->plane + i * image.file->step];
        NP_TRY(np_sha256_add(sha, &label, sizeof label, err));
        NP_TRY(np_sha256_add(sha, pixels, plane * channels, err));
    }
out:
    free(pixels);
    return status;
}

static void read_image(const void *reader, const struct np_batch *sample, uint64_t item,
                       const struct np_philox augment[NP_AUGMENT_DRAWS])
{
    const struct images *images = reader;
    struct image image = image_at(images, item);
    if (sample->images)
        np_image_read(&images->reader, sample->images, image.file, image.pixels, augment);
    if (sample->targets)
        *sample->targets = image.label;
}

const struct np_format np_format_images = {
    .items = "images",
    .open = open_images,
    .close = close_images,
    .digest = digest_images,
    .read = read_image,
};
