#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data_files.h"
#include "num/elementary.h"
#include "num/philox.h"
#include "suite.h"

enum { RECORD = 3073, PLANE = 1024, MAX_PIXELS = 32 * 32 * 3 };

static uint8_t bytes[64 * RECORD];

static struct np_recipe recipe_of(int height, int width, int channels)
{
    struct np_recipe recipe = data_files_recipe(NP_INPUT_IMAGES, 10, 0);
    recipe.height = height;
    recipe.image_width = width;
    recipe.channels = channels;
    return recipe;
}

static size_t put_words(size_t at, const uint32_t *words, size_t count)
{
    for (size_t i = 0; i < 4 * count; i++)
        bytes[at + i] = (uint8_t)(words[i / 4] >> (24 - 8 * (i % 4)));
    return at + 4 * count;
}

/* A byte for (image, channel, row, column) that tells them apart. */
static uint8_t pixel_of(size_t image, size_t c, size_t h, size_t w)
{
    return (uint8_t)(image * 37 + c * 101 + h * 11 + w * 3 + h * w);
}

struct idx {
    uint32_t count, height, width, channels; /* channels 0: three dimensions */
    int label_width, extra; /* bytes more (less) of pixels than the header counts */
};

/* Images from number `first` on, labels (image * 7) % 10. */
static void write_idx(const char *images, const char *labels, size_t first, struct idx idx)
{
    static const uint32_t types[] = {0, 0x801, 0xB01, 0, 0xC01};
    const uint32_t header[] = {idx.channels ? 0x804 : 0x803, idx.count, idx.height, idx.width,
                               idx.channels};
    const uint32_t label_header[] = {types[idx.label_width], idx.count};
    size_t at = put_words(0, header, idx.channels ? 5 : 4);
    for (size_t i = first; i < first + idx.count; i++)
        for (size_t h = 0; h < idx.height; h++)
            for (size_t w = 0; w < idx.width; w++)
                for (size_t c = 0; c < (idx.channels ? idx.channels : 1); c++)
                    bytes[at++] = pixel_of(i, c, h, w);
    suite_write_bytes(images, bytes, (size_t)((long)at + idx.extra));
    at = put_words(0, label_header, 2);
    for (size_t i = first; i < first + idx.count; i++) {
        for (int j = 1; j < idx.label_width; j++)
            bytes[at++] = 0;
        bytes[at++] = (uint8_t)(i * 7 % 10);
    }
    suite_write_bytes(labels, bytes, at);
}

/* The last of the labels counts. */
static void write_cifar(const char *name, size_t labels, size_t first, size_t count)
{
    size_t at = 0;
    for (size_t i = first; i < first + count; i++) {
        if (labels == 2)
            bytes[at++] = (uint8_t)(i * 3 % 7);
        bytes[at++] = (uint8_t)(i * 7 % 10);
        for (size_t c = 0; c < 3; c++)
            for (size_t j = 0; j < PLANE; j++)
                bytes[at++] = pixel_of(i, c, j / 32, j % 32);
    }
    suite_write_bytes(name, bytes, at);
}

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
static double resized(double part, double unit, int n, int i)
{
    double size = fmin(part, 1) * n;
    return fmin(fmax(unit * (n - size) + (i + 0.5) * (size / n) - 0.5, 0), n - 1);
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
    double y = resized(sqrt(share / ratio), u[2], recipe->height, h);
    double x = resized(sqrt(share * ratio), u[3], recipe->image_width, w), rows[2];
    for (size_t i = 0; i < 2; i++) {
        size_t row = (size_t)fmin(floor(y) + (double)i, recipe->height - 1), left = (size_t)x;
        size_t right = left + 1 < (size_t)recipe->image_width ? left + 1 : left;
        double a = (double)value_of(spec, pixel_of(image, c, row, left), (int)c);
        double b = (double)value_of(spec, pixel_of(image, c, row, right), (int)c);
        rows[i] = a + (x - floor(x)) * (b - a);
    }
    return rows[0] + (y - floor(y)) * (rows[1] - rows[0]);
}

static float expected_pixel(const struct np_recipe *recipe, const struct np_data_spec *spec,
                            size_t image, const struct np_philox draws[2], bool augment, int h,
                            int w, int c)
{
    const struct np_philox drawn = draws[0];
    int column = w, crop = augment ? spec->crop : 0;
    bool cut = augment && inside_cutout(spec->cutout, drawn.w[3] / 65536, recipe->height, h) &&
               inside_cutout(spec->cutout, drawn.w[3] % 65536, recipe->image_width, w);
    if (augment && spec->flip && (drawn.w[2] & 0x80000000u))
        column = recipe->image_width - 1 - w;
    if (augment && spec->scale[0] > 0 && !cut)
        return (float)between(recipe, spec, image, draws[1], h, column, (size_t)c);
    if (augment) {
        h += (int)((double)drawn.w[0] / 4294967296.0 * (2 * crop + 1)) - crop;
        column += (int)((double)drawn.w[1] / 4294967296.0 * (2 * crop + 1)) - crop;
    }
    if (h < 0 || h >= recipe->height || column < 0 || column >= recipe->image_width || cut)
        return 0.0f;
    return value_of(spec, pixel_of(image, (size_t)c, (size_t)h, (size_t)column), c);
}

static void check_image(const struct np_recipe *recipe, const struct np_data_spec *spec,
                        size_t image, const struct np_philox drawn[2], bool augment, const float *x,
                        int label)
{
    for (int h = 0; h < recipe->height; h++)
        for (int w = 0; w < recipe->image_width; w++)
            for (int c = 0; c < recipe->channels; c++) {
                float want = expected_pixel(recipe, spec, image, drawn, augment, h, w, c);
                ck_assert_msg(memcmp(x, &want, sizeof want) == 0,
                              "image %zu (%d, %d, %d): %g, not %g", image, h, w, c, (double)*x,
                              (double)want);
                x++;
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
            struct np_philox drawn[2];
            for (uint32_t k = 0; k < 2; k++)
                drawn[k] = np_draw(np_draw_key(9, NP_DRAW_AUGMENT, member, 0, k), 6, 2 + i);
            check_image(recipe, spec, np_philox_below(np_draw(key, 6, 2 + i), count), drawn, true,
                        x + i * each, labels[i]);
        }
    }
    np_data_eval_batch(data, &batch, 1, 4, 9);
    for (size_t i = 0; i < 4; i++)
        check_image(recipe, spec, count * (4 + i) / 9, (struct np_philox[2]){{{0}}}, false,
                    x + i * each, labels[i]);
    np_data_close(data);
}

static const struct {
    int crop;
    bool flip;
    int cutout;
    double scale[2];
} augments[] = {{0, false, 0, {0}},       {4, false, 0, {0}},  {0, true, 0, {0}},
                {4, true, 0, {0}},        {64, true, 0, {0}},  {0, false, 3, {0}},
                {4, true, 16, {0}},       {0, true, 1, {0}},   {0, false, 0, {0.08, 1}},
                {0, true, 2, {0.3, 0.3}}, {0, true, 0, {1, 1}}};

static void augment(struct np_data_spec *spec, int i)
{
    spec->crop = augments[i].crop;
    spec->flip = augments[i].flip;
    spec->cutout = augments[i].cutout;
    memcpy(spec->scale, augments[i].scale, sizeof spec->scale);
}

START_TEST(test_cifar)
{
    const struct np_recipe recipe = recipe_of(32, 32, 3);
    struct np_data_spec spec = data_files_spec(NP_DATA_CIFAR10, 3);
    const double mean[] = {0.4914, 0.4822, 0.4465}, std[] = {0.2470, 0.2435, 0.2616};
    memcpy(spec.mean, mean, sizeof mean);
    memcpy(spec.std, std, sizeof std);
    augment(&spec, _i);
    for (size_t labels = 1; labels <= 2; labels++) {
        spec.kind = labels == 2 ? NP_DATA_CIFAR100 : NP_DATA_CIFAR10;
        write_cifar("a", labels, 0, 5);
        write_cifar("b", labels, 5, 4);
        write_cifar("c", labels, 9, 2);
        check_batches(&recipe, &spec, 11);
    }
}
END_TEST

/* Odd sizes, also smaller than the crop; channels last; wider labels. */
START_TEST(test_idx)
{
    static const struct idx sizes[] = {
        {9, 28, 28, 0, 1, 0}, {9, 1, 1, 0, 1, 0}, {9, 3, 7, 2, 2, 0}, {9, 9, 2, 5, 4, 0}};
    struct np_data_spec spec = data_files_spec(NP_DATA_IDX, 4);
    for (int c = 0; c < 5; c++) {
        spec.mean[c] = 0.25 + 0.1 * c;
        spec.std[c] = 0.5 + 0.1 * c;
    }
    augment(&spec, _i);
    for (size_t i = 0; i < 4; i++) {
        int channels = sizes[i].channels ? (int)sizes[i].channels : 1;
        const struct np_recipe recipe =
            recipe_of((int)sizes[i].height, (int)sizes[i].width, channels);
        struct idx one = sizes[i];
        one.count = 1;
        write_idx("a", "b", 0, sizes[i]);
        write_idx("c", "d", 9, one);
        check_batches(&recipe, &spec, 10);
    }
}
END_TEST

/* Parts of the area from one end of the scale to the other come up, everywhere; of an image that
 * grows evenly along a row, a row grows evenly too: by as much as the part is wide. */
START_TEST(test_scales_are_spread)
{
    enum { SAMPLES = 500, SIDE = 32 };
    const struct np_recipe recipe = recipe_of(SIDE, SIDE, 1);
    struct np_data_spec spec = data_files_spec(NP_DATA_IDX, 2);
    const uint32_t header[] = {0x803, 1, SIDE, SIDE};
    static float x[SAMPLES][SIDE * SIDE];
    const struct np_batch batch = {.images = x[0]};
    double least = INFINITY, most = 0, first = INFINITY, last = 0;
    struct np_data *data;
    write_idx("a", "b", 0, (struct idx){1, SIDE, SIDE, 0, 1, 0});
    put_words(0, header, 4);
    for (size_t i = 0; i < SIDE * SIDE; i++)
        bytes[16 + i] = (uint8_t)(8 * (i % SIDE));
    suite_write_bytes("a", bytes, 16 + SIDE * SIDE);
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
    const struct np_recipe recipe = recipe_of(3, 3, 1);
    struct np_data_spec spec = data_files_spec(NP_DATA_IDX, 2);
    const uint32_t header[] = {0x803, 1, 3, 3};
    static float x[SAMPLES][9];
    const struct np_batch batch = {.images = x[0]};
    int seen[9] = {0};
    struct np_data *data;
    write_idx("a", "b", 0, (struct idx){1, 3, 3, 0, 1, 0});
    memset(bytes, 0, sizeof bytes);
    put_words(0, header, 4);
    bytes[16 + 4] = 255; /* the middle */
    suite_write_bytes("a", bytes, 16 + 9);
    spec.crop = 1;
    data = data_files_open(&recipe, &spec);
    np_data_batch(data, &batch, 1, 0, 0, 0, SAMPLES);
    for (int i = 0; i < SAMPLES; i++)
        for (int j = 0; j < 9; j++)
            seen[j] += x[i][j] > 0.0f;
    np_data_close(data);
    for (int j = 0; j < 9; j++)
        ck_assert_int_gt(seen[j], SAMPLES / 18);
    bytes[16 + 4] = 0;
    bytes[16 + 3] = 255; /* left of it */
    suite_write_bytes("a", bytes, 16 + 9);
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

/* SHA-256 of 7 0 0 0, then pixels 0 to 5, from sha256sum; it holds whatever the values become. */
START_TEST(test_known_digest)
{
    const struct np_recipe recipe = recipe_of(2, 3, 1);
    struct np_data_spec spec = data_files_spec(NP_DATA_IDX, 2);
    struct np_data *data;
    suite_write_bytes("a", "\0\0\10\3\0\0\0\1\0\0\0\2\0\0\0\3\0\1\2\3\4\5", 22);
    suite_write_bytes("b", "\0\0\10\1\0\0\0\1\7", 9);
    for (int i = 0; i < 2; i++) {
        data = data_files_open(&recipe, &spec);
        ck_assert_str_eq(np_digest_hex(np_data_digest(data)).s,
                         "c228edfe7cd6ba1ad8fab4d97f2c44d9c5d6667cad7bd793bbe9d1185f9bf0fe");
        np_data_close(data);
        spec.mean[0] = 0.5;
        spec.flip = true;
    }
}
END_TEST

START_TEST(test_part)
{
    const struct np_recipe recipe = recipe_of(32, 32, 3);
    struct np_data_spec spec = data_files_spec(NP_DATA_CIFAR10, 1);
    int32_t labels[3];
    const struct np_batch batch = {.targets = labels};
    struct np_data *data;
    write_cifar("a", 1, 0, 10);
    spec.part[0] = 0.7;
    data = data_files_open(&recipe, &spec);
    ck_assert_uint_eq(np_data_count(data), 3);
    np_data_eval_batch(data, &batch, 0, 3, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(labels[i], (7 + i) * 7 % 10);
    np_data_close(data);
    spec.part[0] = 0.01;
    spec.part[1] = 0.02;
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a': 0 images in the part, a sample needs 1");
}
END_TEST

START_TEST(test_bad_idx)
{
    struct np_recipe recipe = recipe_of(4, 5, 1);
    struct np_data_spec spec = data_files_spec(NP_DATA_IDX, 2);
    const uint32_t header[] = {0x803, 0xFFFFFFFF, 4, 5}, none[] = {0x803, 0, 4, 5};
    write_idx("a", "b", 0, (struct idx){3, 4, 5, 0, 1, 0});
    np_data_close(data_files_open(&recipe, &spec));
    spec.file_count = 1;
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a' has no file of labels after it");
    spec.file_count = 2;
    recipe.vocab = 7;
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b': label 7 of image 1 is not one of 0 to 6");
    recipe = recipe_of(5, 4, 1);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a' holds images of 4 x 5 x 1, not 5 x 4 x 1");
    recipe = recipe_of(4, 5, 3);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a' holds images of 4 x 5 x 1, not 4 x 5 x 3");
    recipe = recipe_of(4, 5, 1);
    write_idx("a", "b", 0, (struct idx){3, 4, 5, 0, 1, -1});
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'a': the header counts 3 times 20 bytes, 59 follow it");
    write_idx("a", "b", 0, (struct idx){3, 4, 5, 0, 1, 1});
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'a': the header counts 3 times 20 bytes, 61 follow it");
    suite_write_bytes("a", bytes, put_words(0, header, 4));
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'a': the header counts 4294967295 times 20 bytes, 0 follow it");
    suite_write_bytes("a", bytes, put_words(0, none, 4));
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a' is empty");
    suite_write_bytes("a", bytes, 15);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a' ends in its header");
    suite_write_bytes("a", "", 0);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a' is not an IDX file of images or labels");
    suite_write_bytes("a", "\037\213\10\1aaaaaaaaaaaa", 16);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a' is not an IDX file of images or labels");
    suite_write_bytes("a", "\0\0\10\5aaaaaaaaaaaaaaaaaaaa", 24);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a' is not an IDX file of images or labels");
    suite_write_bytes("a", "\0\0\14\3aaaaaaaaaaaa", 16);
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'a' is not an IDX file of images: type 12, 3 dimensions");
    suite_write_bytes("a", "\0\0\10\2aaaaaaaaaaaa", 16);
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'a' is not an IDX file of images: type 8, 2 dimensions");
}
END_TEST

START_TEST(test_bad_labels)
{
    const struct np_recipe recipe = recipe_of(4, 5, 1);
    const struct np_data_spec spec = data_files_spec(NP_DATA_IDX, 2);
    write_idx("a", "b", 0, (struct idx){3, 4, 5, 0, 1, 0});
    suite_write_bytes("b", "\0\0\10\1\0\0\0\2\0\0", 10);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b' has 2 labels for 3 images");
    suite_write_bytes("b", "\0\0\10\1\0\0\0\3\0\0", 10);
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'b': the header counts 3 times 1 bytes, 2 follow it");
    suite_write_bytes("b", "\0\0\14\1\0\0\0\3\0\0\0", 11);
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'b': the header counts 3 times 4 bytes, 3 follow it");
    suite_write_bytes("b", "\0\0\14\1\0\0\0\3\0\0\0\1\377\377\377\376\0\0\0\2", 20);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b': label -2 of image 1 is not one of 0 to 9");
    suite_write_bytes("b", "\0\0\13\1\0\0\0\3\0\1\0\2\1\0", 14);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b': label 256 of image 2 is not one of 0 to 9");
    suite_write_bytes("b", "\0\0\13\1\0\0\0\3\0\1\377\377\1\0", 14);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b': label -1 of image 1 is not one of 0 to 9");
    suite_write_bytes("b", "\0\0\10\2\0\0\0\3\0\0\0\1\0\0\0", 15);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b' is not an IDX file of labels: 2 dimensions");
    suite_write_bytes("b", "\0\0\10", 3);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b' is not an IDX file of images or labels");
}
END_TEST

START_TEST(test_bad_cifar)
{
    struct np_recipe recipe = recipe_of(32, 32, 3);
    struct np_data_spec spec = data_files_spec(NP_DATA_CIFAR10, 2);
    write_cifar("a", 1, 0, 2);
    write_cifar("b", 1, 0, 2);
    suite_write_bytes("b", bytes, 2 * RECORD - 1);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b': 6145 bytes are not whole records of 3073");
    suite_write_bytes("b", "", 0);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b' is empty");
    write_cifar("b", 1, 0, 2);
    recipe.vocab = 5;
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a': label 7 of image 1 is not one of 0 to 4");
    spec.part[0] = 0.5;
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b': label 7 of image 1 is not one of 0 to 4");
    recipe = recipe_of(28, 28, 1);
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'a' holds images of 32 x 32 x 3, not 28 x 28 x 1");
    recipe = recipe_of(32, 32, 3);
    spec = data_files_spec(NP_DATA_CIFAR100, 2);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a': 6146 bytes are not whole records of 3074");
    write_cifar("a", 2, 0, 3);
    write_cifar("b", 2, 0, 3);
    recipe.vocab = 4;
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a': label 7 of image 1 is not one of 0 to 3");
}
END_TEST

/* The classes of real files come in the numbers that their description says. */
static void check_classes(const struct np_recipe *recipe, const struct np_data_spec *spec,
                          const int *counts)
{
    int seen[10] = {0};
    int32_t label;
    const struct np_batch batch = {.targets = &label};
    struct np_data *data = data_files_open(recipe, spec);
    for (uint64_t i = 0; i < np_data_count(data); i++) {
        np_data_eval_batch(data, &batch, i, 1, np_data_count(data));
        seen[label]++;
    }
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(seen[i], counts[i]);
    np_data_close(data);
}

START_TEST(test_real_files)
{
    static const int cifar[10] = {100, 100, 100, 100, 100, 100, 100, 100, 100, 100};
    static const int mnist[10] = {207, 230, 198, 207, 194, 169, 202, 215, 187, 191};
    static char cifar_path[PATH_MAX], images[PATH_MAX], labels[PATH_MAX];
    char *cifar_files[] = {cifar_path}, *mnist_files[] = {images, labels};
    struct np_recipe recipe = recipe_of(32, 32, 3);
    struct np_data_spec spec = data_files_spec(NP_DATA_CIFAR10, 1);
    if (!data_files_shared(cifar_path, "cifar10/test_batch.bin") ||
        !data_files_shared(images, "mnist/t10k-images-idx3-ubyte") ||
        !data_files_shared(labels, "mnist/t10k-labels-idx1-ubyte")) {
        fprintf(stderr,
                "test_images: SKIPPED test_real_files: no cifar10/, mnist/ in $NP_TEST_DATA\n");
        return;
    }
    spec.files = cifar_files;
    check_classes(&recipe, &spec, cifar);
    recipe = recipe_of(28, 28, 1);
    spec = data_files_spec(NP_DATA_IDX, 2);
    spec.files = mnist_files;
    check_classes(&recipe, &spec, mnist);
}
END_TEST

int main(void)
{
    enum { AUGMENTS = sizeof augments / sizeof *augments };
    Suite *suite = suite_create("images");
    TCase *tests = suite_case(suite, "all");
    tcase_add_loop_test(tests, test_cifar, 0, AUGMENTS);
    tcase_add_loop_test(tests, test_idx, 0, AUGMENTS);
    tcase_add_test(tests, test_augmentation_is_spread);
    tcase_add_test(tests, test_scales_are_spread);
    tcase_add_test(tests, test_known_digest);
    tcase_add_test(tests, test_part);
    tcase_add_test(tests, test_bad_idx);
    tcase_add_test(tests, test_bad_labels);
    tcase_add_test(tests, test_bad_cifar);
    tcase_add_test(tests, test_real_files);
    return data_files_run(suite);
}
