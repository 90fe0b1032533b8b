#include "data/image_reader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/jitter.h"
#include "data/resize.h"

static float normalised(const struct np_image_reader *reader, size_t c, double v)
{
    return (float)((v - reader->mean[c]) / reader->std[c]);
}

static enum np_status fill_levels(struct np_image_reader *reader, struct np_error *err)
{
    enum np_status status;
    size_t channels = (size_t)reader->size.channels;
    assert(channels <= NP_MAX_IMAGE_CHANNELS);
    NP_TRY(np_alloc(&reader->normal, channels, sizeof *reader->normal, err));
    NP_TRY(np_alloc(&reader->plain, channels, sizeof *reader->plain, err));
    for (size_t c = 0; c < channels; c++) {
        for (int p = 0; p < 256; p++) {
            reader->normal[c].value[p] = normalised(reader, c, p / 255.0);
            reader->plain[c].value[p] = (float)(p / 255.0);
        }
        reader->normal[c].outside = 0.0f;
        reader->plain[c].outside = (float)reader->mean[c];
    }
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
    for (int i = 0; i < NP_JITTERS; i++) {
        reader->jitter[i] = spec->jitter[i];
        reader->jittered = reader->jittered || spec->jitter[i] > 0.0;
    }
    memcpy(reader->mean, spec->mean, sizeof reader->mean);
    memcpy(reader->std, spec->std, sizeof reader->std);
    return fill_levels(reader, err);
}

void np_image_reader_clear(struct np_image_reader *reader)
{
    free(reader->normal);
    free(reader->plain);
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

/* One row of one channel, x and y at its column 0: y[w * channels] for every column w, of an image
 * that is `stored` wide. */
static void read_row(float *y, const uint8_t *x, size_t x_step, const struct np_levels *levels,
                     int stored, int width, int channels, struct view view)
{
    int first = clamp(-view.left, 0, width); /* columns first .. last - 1 of the crop exist */
    int last = clamp(stored - view.left, first, width);
    ptrdiff_t step = view.flip ? -channels : channels;
    float *to = view.flip ? y + (ptrdiff_t)(width - 1) * channels : y;
    for (int w = 0; w < first; w++)
        to[w * step] = levels->outside;
    for (int w = first; w < last; w++)
        to[w * step] = levels->value[x[(size_t)(view.left + w) * x_step]];
    for (int w = last; w < width; w++)
        to[w * step] = levels->outside;
}

static void read_pixels(const struct np_image_reader *reader, const struct np_levels *levels,
                        float *out, const struct np_image_file *file, const uint8_t *pixels,
                        struct view view)
{
    int height = reader->size.height, width = reader->size.width, channels = reader->size.channels;
    size_t row = (size_t)width * (size_t)channels, step = file->step;
    for (int h = 0; h < height; h++, out += row) {
        int from = view.top + h; /* of a row outside nothing is stored */
        int stored = from < 0 || from >= reader->stored.height ? 0 : reader->stored.width;
        const uint8_t *line = pixels + (stored ? (size_t)from * (size_t)stored * step : 0);
        for (int c = 0; c < channels; c++)
            read_row(out + c, line + (size_t)c * file->plane, step, &levels[c], stored, width,
                     channels, view);
    }
}

static double between(double a, double b, double by)
{
    return a + by * (b - a);
}

/* Values of an output row that are made together. */
#define COLUMNS 192

/* What a value lies between in any row of the image, and how far behind the first of both. */
struct column {
    const float *value;
    size_t left, right;
    double by;
};

static void place_columns(struct column *columns, size_t begin, size_t count,
                          const struct np_image_reader *reader, const struct np_levels *levels,
                          const struct np_image_file *file, const struct np_resize *side, bool flip)
{
    size_t channels = (size_t)reader->size.channels;
    for (size_t j = begin; j < begin + count; j++, columns++) {
        size_t c = j % channels;
        int w = (int)(j / channels);
        struct np_resized at = np_resize_at(side, flip ? reader->size.width - 1 - w : w);
        columns->value = levels[c].value;
        columns->left = c * file->plane + (size_t)at.first * file->step;
        columns->right = c * file->plane + (size_t)at.next * file->step;
        columns->by = at.by;
    }
}

static void resize_row(double *out, const struct column *columns, size_t count, const uint8_t *row)
{
    for (size_t j = 0; j < count; j++) {
        const float *value = columns[j].value;
        out[j] = between(value[row[columns[j].left]], value[row[columns[j].right]], columns[j].by);
    }
}

/* All rows of some columns. A row of the image is resized once: output rows that follow each other
 * mostly lie between the same two, or begin with the second of them. */
static void resize_columns(const struct np_image_reader *reader, float *out,
                           const struct column *columns, size_t count,
                           const struct np_image_file *file, const uint8_t *pixels,
                           const struct np_resize *side)
{
    size_t to_row = (size_t)reader->size.width * (size_t)reader->size.channels;
    size_t from_row = (size_t)reader->stored.width * file->step;
    double resized[2][COLUMNS];
    int which[2] = {-1, -1};
    for (int h = 0; h < reader->size.height; h++, out += to_row) {
        const struct np_resized at = np_resize_at(side, h);
        for (int row = at.first; row <= at.next; row++)
            if (which[row % 2] != row) {
                resize_row(resized[row % 2], columns, count, pixels + (size_t)row * from_row);
                which[row % 2] = row;
            }
        for (size_t j = 0; j < count; j++)
            out[j] = (float)between(resized[at.first % 2][j], resized[at.next % 2][j], at.by);
    }
}

/* The part of the image that the words draw, by bilinear interpolation, left and right changed if
 * `flip`: first along a row, then between rows. */
static void read_resized(const struct np_image_reader *reader, const struct np_levels *levels,
                         float *out, const struct np_image_file *file, const uint8_t *pixels,
                         struct np_philox drawn, bool flip)
{
    size_t row = (size_t)reader->size.width * (size_t)reader->size.channels;
    struct column columns[COLUMNS];
    struct np_resize side[2];
    np_resize_draw(side, reader->scale, drawn, reader->stored, reader->size);
    for (size_t begin = 0; begin < row; begin += COLUMNS) {
        size_t count = row - begin < COLUMNS ? row - begin : COLUMNS;
        place_columns(columns, begin, count, reader, levels, file, &side[1], flip);
        resize_columns(reader, out + begin, columns, count, file, pixels, &side[0]);
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

/* Channels follow each other; some at once, a whole number of positions. */
static void normalise(const struct np_image_reader *reader, float *x, size_t count)
{
    size_t channels = (size_t)reader->size.channels, most = COLUMNS / channels * channels;
    double mean[COLUMNS], std[COLUMNS];
    for (size_t i = 0; i < most; i++) {
        mean[i] = reader->mean[i % channels];
        std[i] = reader->std[i % channels];
    }
    for (size_t begin = 0; begin < count; begin += most) {
        size_t end = count - begin < most ? count : begin + most;
        for (size_t i = begin; i < end; i++)
            x[i] = (float)(((double)x[i] - mean[i - begin]) / std[i - begin]);
    }
}

static void jitter(const struct np_image_reader *reader, float *out,
                   const struct np_philox augment[NP_AUGMENT_DRAWS])
{
    size_t positions = (size_t)reader->size.height * (size_t)reader->size.width;
    int channels = reader->size.channels;
    np_jitter(out, positions, channels, reader->jitter, augment[NP_AUGMENT_JITTER],
              augment[NP_AUGMENT_ORDER]);
    normalise(reader, out, positions * (size_t)channels);
}

void np_image_read(const struct np_image_reader *reader, float *out,
                   const struct np_image_file *file, const uint8_t *pixels,
                   const struct np_philox augment[NP_AUGMENT_DRAWS])
{
    const struct np_levels *levels = augment && reader->jittered ? reader->plain : reader->normal;
    struct view view = view_of(reader, augment);
    if (augment && reader->scale[0] > 0.0)
        read_resized(reader, levels, out, file, pixels, augment[NP_AUGMENT_SCALE], view.flip);
    else
        read_pixels(reader, levels, out, file, pixels, view);
    if (augment && reader->jittered)
        jitter(reader, out, augment);
    if (augment && reader->cutout > 0)
        cut_out(reader, out, augment[NP_AUGMENT_VIEW].w[3]);
}
