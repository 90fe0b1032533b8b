#include "data/image_reader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/resize.h"

static enum np_status fill_table(struct np_image_reader *reader, const struct np_data_spec *spec,
                                 struct np_error *err)
{
    enum np_status status;
    size_t channels = (size_t)reader->size.channels;
    assert(channels <= NP_MAX_IMAGE_CHANNELS);
    NP_TRY(np_alloc(&reader->value, channels, sizeof *reader->value, err));
    for (size_t c = 0; c < channels; c++)
        for (int p = 0; p < 256; p++)
            reader->value[c][p] = (float)((p / 255.0 - spec->mean[c]) / spec->std[c]);
out:
    return status;
}

enum np_status np_image_reader_init(struct np_image_reader *reader, const struct np_recipe *recipe,
                                    const struct np_data_spec *spec, struct np_error *err)
{
    struct np_image_size size = {recipe->height, recipe->image_width, recipe->channels};
    *reader = (struct np_image_reader){
        .stored = size,
        .size = size,
        .crop = spec->crop,
        .cutout = spec->cutout,
        .scale = {spec->scale[0], spec->scale[1]},
        .flip = spec->flip,
    };
    if (spec->stored[0] > 0) {
        reader->stored.height = spec->stored[0];
        reader->stored.width = spec->stored[1];
    }
    return fill_table(reader, spec, err);
}

void np_image_reader_clear(struct np_image_reader *reader)
{
    free(reader->value);
    *reader = (struct np_image_reader){0};
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
 * of the image, which is `stored` wide. */
static void read_row(float *y, const uint8_t *x, size_t x_step, const float *value, int stored,
                     int width, int channels, struct view view)
{
    int first = clamp(-view.left, 0, width); /* columns first .. last - 1 of the crop exist */
    int last = clamp(stored - view.left, first, width);
    ptrdiff_t step = view.flip ? -channels : channels;
    float *to = view.flip ? y + (ptrdiff_t)(width - 1) * channels : y;
    for (int w = 0; w < first; w++)
        to[w * step] = 0.0f;
    for (int w = first; w < last; w++)
        to[w * step] = value[x[(size_t)(view.left + w) * x_step]];
    for (int w = last; w < width; w++)
        to[w * step] = 0.0f;
}

static void read_pixels(const struct np_image_reader *reader, float *out,
                        const struct np_image_file *file, const uint8_t *pixels, struct view view)
{
    int height = reader->size.height, width = reader->size.width, channels = reader->size.channels;
    int stored = reader->stored.width;
    size_t row = (size_t)width * (size_t)channels, step = file->step;
    for (int h = 0; h < height; h++, out += row) {
        int from = view.top + h;
        const uint8_t *line;
        if (from < 0 || from >= reader->stored.height) {
            memset(out, 0, row * sizeof *out);
            continue;
        }
        line = pixels + (size_t)from * (size_t)stored * step;
        for (int c = 0; c < channels; c++)
            read_row(out + c, line + (size_t)c * file->plane, step, reader->value[c], stored, width,
                     channels, view);
    }
}

static double between(double a, double b, double by)
{
    return a + by * (b - a);
}

/* The part of the image that the words draw, by bilinear interpolation, left and right changed if
 * `flip`: first along a row, then between rows. */
static void read_resized(const struct np_image_reader *reader, float *out,
                         const struct np_image_file *file, const uint8_t *pixels,
                         struct np_philox drawn, bool flip)
{
    int height = reader->size.height, width = reader->size.width, channels = reader->size.channels;
    size_t x_step = file->step, y_step = (size_t)reader->stored.width * x_step;
    struct np_resize side[2];
    np_resize_draw(side, reader->scale, drawn, reader->stored, reader->size);
    for (int h = 0; h < height; h++) {
        const struct np_resized y = np_resize_at(&side[0], h);
        for (int w = 0; w < width; w++) {
            const struct np_resized x = np_resize_at(&side[1], flip ? width - 1 - w : w);
            for (int c = 0; c < channels; c++) {
                const float *value = reader->value[c];
                const uint8_t *plane = pixels + (size_t)c * file->plane;
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
static void cut_out(const struct np_image_reader *reader, float *out, uint32_t drawn)
{
    int height = reader->size.height, width = reader->size.width, side = reader->cutout;
    size_t channels = (size_t)reader->size.channels;
    int top = (int)((drawn >> 16) * (uint32_t)height >> 16) - side / 2;
    int left = (int)((drawn & 0xFFFF) * (uint32_t)width >> 16) - side / 2;
    int first = clamp(left, 0, width), last = clamp(left + side, 0, width);
    for (int h = clamp(top, 0, height); h < clamp(top + side, 0, height); h++)
        memset(out + (size_t)(h * width + first) * channels, 0,
               (size_t)(last - first) * channels * sizeof *out);
}

/* Of the middle of the image; the words move and turn it. */
static struct view view_of(const struct np_image_reader *reader, const struct np_philox *drawn)
{
    struct view view = {.top = (reader->stored.height - reader->size.height) / 2,
                        .left = (reader->stored.width - reader->size.width) / 2};
    uint64_t places = 2 * (uint64_t)reader->crop + 1;
    if (drawn) {
        view.top += (int)(drawn->w[0] * places >> 32) - reader->crop;
        view.left += (int)(drawn->w[1] * places >> 32) - reader->crop;
        view.flip = reader->flip && drawn->w[2] >> 31;
    }
    return view;
}

void np_image_read(const struct np_image_reader *reader, float *out,
                   const struct np_image_file *file, const uint8_t *pixels,
                   const struct np_philox augment[2])
{
    struct view view = view_of(reader, augment);
    if (augment && reader->scale[0] > 0.0)
        read_resized(reader, out, file, pixels, augment[1], view.flip);
    else
        read_pixels(reader, out, file, pixels, view);
    if (augment && reader->cutout > 0)
        cut_out(reader, out, augment[0].w[3]);
}
