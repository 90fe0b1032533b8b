#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/format.h"
#include "data/image_file.h"
#include "data/joined.h"
#include "data/resize.h"

struct images {
    struct np_image_file *files;
    struct np_joined joined;
    struct np_image_size size;
    int classes, crop, cutout;
    double scale[2];
    bool flip;
    float (*value)[256]; /* [channels] what each byte becomes */
};

static enum np_status fill_table(struct images *images, const struct np_data_spec *spec,
                                 struct np_error *err)
{
    enum np_status status;
    size_t channels = (size_t)images->size.channels;
    assert(channels <= NP_MAX_IMAGE_CHANNELS);
    NP_TRY(np_alloc(&images->value, channels, sizeof *images->value, err));
    for (size_t c = 0; c < channels; c++)
        for (int p = 0; p < 256; p++)
            images->value[c][p] = (float)((p / 255.0 - spec->mean[c]) / spec->std[c]);
out:
    return status;
}

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
            NP_TRY(np_idx_file_init(file, paths[2 * i], paths[2 * i + 1], images->size, err));
        else
            NP_TRY(np_cifar_file_init(file, paths[i], spec->kind == NP_DATA_CIFAR100 ? 2 : 1,
                                      images->size, err));
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
    images->size = (struct np_image_size){recipe->height, recipe->image_width, recipe->channels};
    images->classes = recipe->vocab;
    images->crop = spec->crop;
    images->cutout = spec->cutout;
    images->flip = spec->flip;
    memcpy(images->scale, spec->scale, sizeof images->scale);
    NP_TRY(fill_table(images, spec, err));
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
    free(images->value);
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
    size_t plane = (size_t)images->size.height * (size_t)images->size.width;
    size_t channels = (size_t)images->size.channels;
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

/* Where an output image's position (0, 0) lies in the image of the file, and which way it runs. */
struct view {
    int top, left;
    bool flip;
};

static int clamp(int x, int low, int high)
{
    return x < low ? low : x > high ? high : x;
}

/* One row of one channel, x and y at its column 0: y[w * channels] for every column w, +0 outside
 * of the image. */
static void read_row(float *y, const uint8_t *x, size_t x_step, const float *value, int width,
                     int channels, struct view view)
{
    int first = clamp(-view.left, 0, width); /* columns first .. last - 1 of the crop exist */
    int last = clamp(width - view.left, first, width);
    ptrdiff_t step = view.flip ? -channels : channels;
    float *to = view.flip ? y + (ptrdiff_t)(width - 1) * channels : y;
    for (int w = 0; w < first; w++)
        to[w * step] = 0.0f;
    for (int w = first; w < last; w++)
        to[w * step] = value[x[(size_t)(view.left + w) * x_step]];
    for (int w = last; w < width; w++)
        to[w * step] = 0.0f;
}

static void read_pixels(const struct images *images, float *out, const struct image *image,
                        struct view view)
{
    int height = images->size.height, width = images->size.width, channels = images->size.channels;
    size_t row = (size_t)width * (size_t)channels, step = image->file->step;
    for (int h = 0; h < height; h++, out += row) {
        int from = view.top + h;
        const uint8_t *line;
        if (from < 0 || from >= height) {
            memset(out, 0, row * sizeof *out);
            continue;
        }
        line = image->pixels + (size_t)from * (size_t)width * step;
        for (int c = 0; c < channels; c++)
            read_row(out + c, line + (size_t)c * image->file->plane, step, images->value[c], width,
                     channels, view);
    }
}

static double between(double a, double b, double by)
{
    return a + by * (b - a);
}

/* The part of the image that the words draw, by bilinear interpolation, left and right changed if
 * `flip`: first along a row, then between rows. */
static void read_resized(const struct images *images, float *out, const struct image *image,
                         struct np_philox drawn, bool flip)
{
    int height = images->size.height, width = images->size.width, channels = images->size.channels;
    size_t x_step = image->file->step, y_step = (size_t)width * x_step;
    struct np_resize side[2];
    np_resize_draw(side, images->scale, drawn, height, width);
    for (int h = 0; h < height; h++) {
        const struct np_resized y = np_resize_at(&side[0], h);
        for (int w = 0; w < width; w++) {
            const struct np_resized x = np_resize_at(&side[1], flip ? width - 1 - w : w);
            for (int c = 0; c < channels; c++) {
                const float *value = images->value[c];
                const uint8_t *plane = image->pixels + (size_t)c * image->file->plane;
                const uint8_t *above = plane + (size_t)y.first * y_step;
                const uint8_t *below = plane + (size_t)y.next * y_step;
                size_t left = (size_t)x.first * x_step, right = (size_t)x.next * x_step;
                double top = between(value[above[left]], value[above[right]], x.by);
                double bottom = between(value[below[left]], value[below[right]], x.by);
                *out++ = (float)between(top, bottom, y.by);
            }
        }
    }
}

/* +0 in a square around the drawn position, as much of it as is inside. */
static void cut_out(const struct images *images, float *out, uint32_t drawn)
{
    int height = images->size.height, width = images->size.width, side = images->cutout;
    size_t channels = (size_t)images->size.channels;
    int top = (int)((drawn >> 16) * (uint32_t)height >> 16) - side / 2;
    int left = (int)((drawn & 0xFFFF) * (uint32_t)width >> 16) - side / 2;
    int first = clamp(left, 0, width), last = clamp(left + side, 0, width);
    for (int h = clamp(top, 0, height); h < clamp(top + side, 0, height); h++)
        memset(out + (size_t)(h * width + first) * channels, 0,
               (size_t)(last - first) * channels * sizeof *out);
}

static void read_image(const void *reader, const struct np_batch *sample, uint64_t item,
                       const struct np_philox augment[2])
{
    const struct images *images = reader;
    struct image image = image_at(images, item);
    struct view view = {0};
    if (augment) {
        uint64_t places = 2 * (uint64_t)images->crop + 1;
        view.top = (int)(augment[0].w[0] * places >> 32) - images->crop;
        view.left = (int)(augment[0].w[1] * places >> 32) - images->crop;
        view.flip = images->flip && augment[0].w[2] >> 31;
    }
    if (sample->images && augment && images->scale[0] > 0.0)
        read_resized(images, sample->images, &image, augment[1], view.flip);
    else if (sample->images)
        read_pixels(images, sample->images, &image, view);
    if (sample->images && augment && images->cutout > 0)
        cut_out(images, sample->images, augment[0].w[3]);
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
