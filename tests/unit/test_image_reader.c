#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/jitter.h"
#include "image_files.h"
#include "num/elementary.h"
#include "num/philox.h"
#include "suite.h"

enum { MAX_PIXELS = 32 * 32 * 3 };

static bool inside_cutout(int side, uint32_t half_word, int size, int at)
{
    int first = (int)(half_word / 65536.0 * size) - side / 2;
    return at >= first && at < first + side;
}

/* The header's words, one position after the other: images are `count` from number 0 on. */
static float value_of(const struct np_data_spec *spec, double p, int c)
{
    return (float)((p / 255.0 - spec->mean[c]) / spec->std[c]);
}

/* Where position i of n lies along a side of which the share `part` is taken. */
static double resized(double part, double unit, int side, int n, int i)
{
    double size = fmin(part, 1) * side;
    return fmin(fmax(unit * (side - size) + (i + 0.5) * (size / n) - 0.5, 0), side - 1);
}

static int stored(const struct np_recipe *recipe, const struct np_data_spec *spec, int side)
{
    return spec->stored[side] ? spec->stored[side] : (side ? recipe->image_width : recipe->height);
}

/* Of a resized part: between the four pixels around it. */
static double between(const struct np_recipe *recipe, const struct np_data_spec *spec, size_t image,
                      struct np_philox drawn, int h, int w, size_t c)
{
    double u[4];
    for (int k = 0; k < 4; k++)
        u[k] = drawn.w[k] / 4294967296.0;
    double share = spec->scale[0] + u[0] * (spec->scale[1] - spec->scale[0]);
    double ratio = (double)np_expf((float)((2 * u[1] - 1) * log(4 / 3.0)));
    int height = stored(recipe, spec, 0), width = stored(recipe, spec, 1);
    double y = resized(sqrt(share / ratio), u[2], height, recipe->height, h);
    double x = resized(sqrt(share * ratio), u[3], width, recipe->image_width, w), rows[2];
    for (size_t i = 0; i < 2; i++) {
        size_t row = (size_t)fmin(floor(y) + (double)i, height - 1), left = (size_t)x;
        size_t right = left + 1 < (size_t)width ? left + 1 : left;
        double a = (double)value_of(spec, image_files_pixel(image, c, row, left), (int)c);
        double b = (double)value_of(spec, image_files_pixel(image, c, row, right), (int)c);
        rows[i] = a + (x - floor(x)) * (b - a);
    }
    return rows[0] + (y - floor(y)) * (rows[1] - rows[0]);
}

static bool inside_any_cutout(const struct np_recipe *recipe, const struct np_data_spec *spec,
                              uint32_t word, int h, int w)
{
    return inside_cutout(spec->cutout, word / 65536, recipe->height, h) &&
           inside_cutout(spec->cutout, word % 65536, recipe->image_width, w);
}

/* Before a cutout; draws: NULL for none. */
static float expected_pixel(const struct np_recipe *recipe, const struct np_data_spec *spec,
                            float outside, size_t image, const struct np_philox *draws, int h,
                            int w, int c)
{
    int column = w, crop = spec->crop;
    int height = stored(recipe, spec, 0), width = stored(recipe, spec, 1);
    if (draws && spec->flip && (draws[0].w[2] & 0x80000000u))
        column = recipe->image_width - 1 - w;
    if (draws && spec->scale[0] > 0)
        return (float)between(recipe, spec, image, draws[1], h, column, (size_t)c);
    if (draws) {
        h += (int)((double)draws[0].w[0] / 4294967296.0 * (2 * crop + 1)) - crop;
        column += (int)((double)draws[0].w[1] / 4294967296.0 * (2 * crop + 1)) - crop;
    }
    h += (height - recipe->height) / 2;
    column += (width - recipe->image_width) / 2;
    if (h < 0 || h >= height || column < 0 || column >= width)
        return outside;
    return value_of(spec, image_files_pixel(image, (size_t)c, (size_t)h, (size_t)column), c);
}

/* What a jitter changes is not normalised yet, and a border has the mean. */
static void expect_jittered(const struct np_recipe *recipe, const struct np_data_spec *spec,
                            size_t image, const struct np_philox *draws, float *out)
{
    int channels = recipe->channels, width = recipe->image_width;
    int count = recipe->height * width * channels;
    struct np_data_spec plain = *spec;
    for (int c = 0; c < channels; c++) {
        plain.mean[c] = 0;
        plain.std[c] = 1;
    }
    for (int i = 0; i < count; i++)
        out[i] = expected_pixel(recipe, &plain, (float)spec->mean[i % channels], image, draws,
                                i / channels / width, i / channels % width, i % channels);
    np_jitter(out, (size_t)(count / channels), channels, spec->jitter, draws[2], draws[3]);
    for (int i = 0; i < count; i++)
        out[i] = (float)(((double)out[i] - spec->mean[i % channels]) / spec->std[i % channels]);
}

static void check_image(const struct np_recipe *recipe, const struct np_data_spec *spec,
                        size_t image, const struct np_philox *draws, const float *x, int label)
{
    static float jittered[MAX_PIXELS];
    bool jitter = draws && spec->jitter[NP_BRIGHTNESS] > 0;
    const float *next = jittered;
    if (jitter)
        expect_jittered(recipe, spec, image, draws, jittered);
    for (int h = 0; h < recipe->height; h++)
        for (int w = 0; w < recipe->image_width; w++)
            for (int c = 0; c < recipe->channels; c++, x++, next++) {
                float want =
                    jitter ? *next : expected_pixel(recipe, spec, 0, image, draws, h, w, c);
                if (draws && inside_any_cutout(recipe, spec, draws[0].w[3], h, w))
                    want = 0;
                ck_assert_msg(memcmp(x, &want, sizeof want) == 0,
                              "image %zu (%d, %d, %d): %g, not %g", image, h, w, c, (double)*x,
                              (double)want);
            }
    ck_assert_int_eq(label, (int)(image * 7 % 10));
}

/* Training batches against the contract, and evaluations, which are not augmented. */
static void check_batches(const struct np_recipe *recipe, const struct np_data_spec *spec,
                          size_t count)
{
    enum { SAMPLES = 40 };
    static float x[SAMPLES * MAX_PIXELS];
    const size_t each =
        (size_t)recipe->height * (size_t)recipe->image_width * (size_t)recipe->channels;
    int32_t labels[SAMPLES];
    const struct np_batch batch = {.images = x, .targets = labels};
    struct np_data *data = data_files_open(recipe, spec);
    ck_assert_uint_eq(np_data_count(data), count);
    for (uint32_t member = 0; member < 2; member++) {
        struct np_draw_key key = np_draw_key(9, NP_DRAW_BATCH, member, 0, 0);
        np_data_batch(data, &batch, 9, 6, member, 2, SAMPLES);
        for (size_t i = 0; i < SAMPLES; i++) {
            struct np_philox drawn[4];
            for (uint32_t k = 0; k < 4; k++)
                drawn[k] = np_draw(np_draw_key(9, NP_DRAW_AUGMENT, member, 0, k), 6, 2 + i);
            check_image(recipe, spec, np_philox_below(np_draw(key, 6, 2 + i), count), drawn,
                        x + i * each, labels[i]);
        }
    }
    np_data_eval_batch(data, &batch, 4, 4, 9);
    for (size_t i = 0; i < 4; i++)
        check_image(recipe, spec, count * (4 + i) / 9, NULL, x + i * each, labels[i]);
    np_data_close(data);
}

static const struct {
    int crop;
    bool flip;
    int cutout;
    double scale[2];
    bool jitter;
} augments[] = {
    {.flip = false},
    {.crop = 4},
    {.flip = true},
    {.crop = 4, .flip = true},
    {.crop = 64, .flip = true},
    {.cutout = 3},
    {.crop = 4, .flip = true, .cutout = 16},
    {.flip = true, .cutout = 1},
    {.scale = {0.08, 1}},
    {.flip = true, .cutout = 2, .scale = {0.3, 0.3}},
    {.flip = true, .scale = {1, 1}},
    {.jitter = true},
    {.crop = 4, .flip = true, .cutout = 3, .jitter = true},
    {.flip = true, .scale = {0.08, 1}, .jitter = true},
};

/* A jitter is of one channel (0: no dimension of them) or, of colours too, of three. */
static void augment(struct np_data_spec *spec, int channels, int i)
{
    spec->crop = augments[i].crop;
    spec->flip = augments[i].flip;
    spec->cutout = augments[i].cutout;
    memcpy(spec->scale, augments[i].scale, sizeof spec->scale);
    for (int k = 0; k < NP_JITTERS; k++) {
        bool has = channels == 3 || (channels == 0 && k < NP_SATURATION);
        spec->jitter[k] = augments[i].jitter && has ? 0.4 : 0;
    }
}

START_TEST(test_cifar)
{
    const struct np_recipe recipe = image_files_recipe(32, 32, 3);
    struct np_data_spec spec = data_files_spec(NP_DATA_CIFAR10, 3);
    const double mean[] = {0.4914, 0.4822, 0.4465}, std[] = {0.2470, 0.2435, 0.2616};
    memcpy(spec.mean, mean, sizeof mean);
    memcpy(spec.std, std, sizeof std);
    augment(&spec, 3, _i);
    for (size_t labels = 1; labels <= 2; labels++) {
        spec.kind = labels == 2 ? NP_DATA_CIFAR100 : NP_DATA_CIFAR10;
        image_files_cifar("a", labels, 0, 5);
        image_files_cifar("b", labels, 5, 4);
        image_files_cifar("c", labels, 9, 2);
        check_batches(&recipe, &spec, 11);
    }
}
END_TEST

/* An input of that much less than the images are, but of a position at least. */
static void check_idx(struct np_data_spec *spec, const struct idx_file *file, int less)
{
    int channels = file->channels ? (int)file->channels : 1;
    int height = (int)file->height - less, width = (int)file->width - 2 * less;
    const struct np_recipe recipe =
        image_files_recipe(height < 1 ? 1 : height, width < 1 ? 1 : width, channels);
    spec->stored[0] = less ? (int)file->height : 0;
    spec->stored[1] = less ? (int)file->width : 0;
    check_batches(&recipe, spec, 10);
}

/* Odd sizes, also smaller than the crop; channels last; wider labels; stored larger. */
START_TEST(test_idx)
{
    static const struct idx_file sizes[] = {{9, 28, 28, 0, 1, 0},
                                            {9, 1, 1, 0, 1, 0},
                                            {9, 3, 7, 3, 2, 0},
                                            {9, 9, 2, 5, 4, 0},
                                            {9, 5, 70, 3, 1, 0}};
    struct np_data_spec spec = data_files_spec(NP_DATA_IDX, 4);
    for (int c = 0; c < 5; c++) {
        spec.mean[c] = 0.25 + 0.1 * c;
        spec.std[c] = 0.5 + 0.1 * c;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct idx_file one = sizes[i];
        one.count = 1;
        augment(&spec, (int)sizes[i].channels, _i);
        image_files_idx("a", "b", 0, sizes[i]);
        image_files_idx("c", "d", 9, one);
        for (int less = 0; less < 4; less++)
            check_idx(&spec, &sizes[i], less);
    }
}
END_TEST

/* Parts of the area from one end of the scale to the other come up, everywhere; of an image that
 * grows evenly along a row, a row grows evenly too: by as much as the part is wide. */
START_TEST(test_scales_are_spread)
{
    enum { SAMPLES = 500, SIDE = 32 };
    const struct np_recipe recipe = image_files_recipe(SIDE, SIDE, 1);
    struct np_data_spec spec = data_files_spec(NP_DATA_IDX, 2);
    const uint32_t header[] = {0x803, 1, SIDE, SIDE};
    static float x[SAMPLES][SIDE * SIDE];
    const struct np_batch batch = {.images = x[0]};
    double least = INFINITY, most = 0, first = INFINITY, last = 0;
    struct np_data *data;
    image_files_idx("a", "b", 0, (struct idx_file){1, SIDE, SIDE, 0, 1, 0});
    image_files_words(0, header, 4);
    for (size_t i = 0; i < SIDE * SIDE; i++)
        file_bytes[16 + i] = (uint8_t)(8 * (i % SIDE));
    suite_write_bytes("a", file_bytes, 16 + SIDE * SIDE);
    spec.scale[0] = 0.25;
    spec.scale[1] = 0.5;
    data = data_files_open(&recipe, &spec);
    np_data_batch(data, &batch, 1, 0, 0, 0, SAMPLES);
    np_data_close(data);
    for (int i = 0; i < SAMPLES; i++) {
        const float *row = x[i] + SIDE * (SIDE / 2);
        double wide = (double)(row[SIDE / 2 + 1] - row[SIDE / 2]) * 255 / 8 * SIDE;
        double middle = (double)(row[SIDE / 2 - 1] + row[SIDE / 2]) / 2 * 255 / 8 + 0.5;
        least = fmin(least, wide);
        most = fmax(most, wide);
        first = fmin(first, middle - wide / 2);
        last = fmax(last, middle + wide / 2);
        ck_assert_double_ge(middle - wide / 2, -1e-3);
        ck_assert_double_le(middle + wide / 2, SIDE + 1e-3);
    }
    ck_assert_double_ge(least, SIDE * sqrt(0.25 * 0.75) - 1e-3);
    ck_assert_double_lt(least, SIDE * sqrt(0.25 * 0.9));
    ck_assert_double_le(most, SIDE * sqrt(0.5 / 0.75) + 1e-3);
    ck_assert_double_gt(most, SIDE * sqrt(0.5 / 0.9));
    ck_assert_double_lt(first, 0.5);
    ck_assert_double_gt(last, SIDE - 0.5);
}
END_TEST

/* Every crop and both directions come up. */
START_TEST(test_augmentation_is_spread)
{
    enum { SAMPLES = 500 };
    const struct np_recipe recipe = image_files_recipe(3, 3, 1);
    struct np_data_spec spec = data_files_spec(NP_DATA_IDX, 2);
    const uint32_t header[] = {0x803, 1, 3, 3};
    static float x[SAMPLES][9];
    const struct np_batch batch = {.images = x[0]};
    int seen[9] = {0};
    struct np_data *data;
    image_files_idx("a", "b", 0, (struct idx_file){1, 3, 3, 0, 1, 0});
    memset(file_bytes, 0, sizeof file_bytes);
    image_files_words(0, header, 4);
    file_bytes[16 + 4] = 255; /* the middle */
    suite_write_bytes("a", file_bytes, 16 + 9);
    spec.crop = 1;
    data = data_files_open(&recipe, &spec);
    np_data_batch(data, &batch, 1, 0, 0, 0, SAMPLES);
    for (int i = 0; i < SAMPLES; i++)
        for (int j = 0; j < 9; j++)
            seen[j] += x[i][j] > 0.0f;
    np_data_close(data);
    for (int j = 0; j < 9; j++)
        ck_assert_int_gt(seen[j], SAMPLES / 18);
    file_bytes[16 + 4] = 0;
    file_bytes[16 + 3] = 255; /* left of it */
    suite_write_bytes("a", file_bytes, 16 + 9);
    spec.crop = 0;
    spec.flip = true;
    data = data_files_open(&recipe, &spec);
    np_data_batch(data, &batch, 1, 0, 0, 0, SAMPLES);
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < SAMPLES; i++)
        for (int j = 0; j < 9; j++)
            seen[j] += x[i][j] > 0.0f;
    np_data_close(data);
    ck_assert_int_gt(seen[3], SAMPLES / 3);
    ck_assert_int_gt(seen[5], SAMPLES / 3);
    ck_assert_int_eq(seen[3] + seen[5], SAMPLES);
}
END_TEST

int main(void)
{
    enum { AUGMENTS = sizeof augments / sizeof *augments };
    Suite *suite = suite_create("image_reader");
    TCase *tests = suite_case(suite, "all");
    tcase_add_loop_test(tests, test_cifar, 0, AUGMENTS);
    tcase_add_loop_test(tests, test_idx, 0, AUGMENTS);
    tcase_add_test(tests, test_augmentation_is_spread);
    tcase_add_test(tests, test_scales_are_spread);
    return data_files_run(suite);
}
