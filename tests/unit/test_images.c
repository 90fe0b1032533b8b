#include <check.h>
#include <stdio.h>
#include <string.h>

#include "image_files.h"
#include "suite.h"

/* SHA-256 of 7 0 0 0, then pixels 0 to 5, from sha256sum; it holds whatever the values become, and
 * of whatever middle. */
START_TEST(test_known_digest)
{
    struct np_recipe recipe = image_files_recipe(2, 3, 1);
    struct np_data_spec spec = data_files_spec(NP_DATA_IDX, 2);
    struct np_data *data;
    suite_write_bytes("a", "\0\0\10\3\0\0\0\1\0\0\0\2\0\0\0\3\0\1\2\3\4\5", 22);
    suite_write_bytes("b", "\0\0\10\1\0\0\0\1\7", 9);
    for (int i = 0; i < 3; i++) {
        data = data_files_open(&recipe, &spec);
        ck_assert_str_eq(np_digest_hex(np_data_digest(data)).s,
                         "c228edfe7cd6ba1ad8fab4d97f2c44d9c5d6667cad7bd793bbe9d1185f9bf0fe");
        np_data_close(data);
        spec.mean[0] = 0.5;
        spec.flip = true;
        if (i == 1) {
            recipe = image_files_recipe(1, 2, 1);
            memcpy(spec.stored, (int[]){2, 3}, sizeof spec.stored);
        }
    }
}
END_TEST

START_TEST(test_part)
{
    const struct np_recipe recipe = image_files_recipe(32, 32, 3);
    struct np_data_spec spec = data_files_spec(NP_DATA_CIFAR10, 1);
    int32_t labels[3];
    const struct np_batch batch = {.targets = labels};
    struct np_data *data;
    image_files_cifar("a", 1, 0, 10);
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
    struct np_recipe recipe = image_files_recipe(4, 5, 1);
    struct np_data_spec spec = data_files_spec(NP_DATA_IDX, 2);
    const uint32_t header[] = {0x803, 0xFFFFFFFF, 4, 5}, none[] = {0x803, 0, 4, 5};
    image_files_idx("a", "b", 0, (struct idx_file){3, 4, 5, 0, 1, 0});
    np_data_close(data_files_open(&recipe, &spec));
    spec.file_count = 1;
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a' has no file of labels after it");
    spec.file_count = 2;
    recipe.vocab = 7;
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b': label 7 of image 1 is not one of 0 to 6");
    recipe = image_files_recipe(5, 4, 1);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a' holds images of 4 x 5 x 1, not 5 x 4 x 1");
    recipe = image_files_recipe(4, 5, 3);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a' holds images of 4 x 5 x 1, not 4 x 5 x 3");
    recipe = image_files_recipe(4, 5, 1);
    image_files_idx("a", "b", 0, (struct idx_file){3, 4, 5, 0, 1, -1});
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'a': the header counts 3 times 20 bytes, 59 follow it");
    image_files_idx("a", "b", 0, (struct idx_file){3, 4, 5, 0, 1, 1});
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'a': the header counts 3 times 20 bytes, 61 follow it");
    suite_write_bytes("a", file_bytes, image_files_words(0, header, 4));
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'a': the header counts 4294967295 times 20 bytes, 0 follow it");
    suite_write_bytes("a", file_bytes, image_files_words(0, none, 4));
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a' is empty");
    suite_write_bytes("a", file_bytes, 15);
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
    const struct np_recipe recipe = image_files_recipe(4, 5, 1);
    const struct np_data_spec spec = data_files_spec(NP_DATA_IDX, 2);
    image_files_idx("a", "b", 0, (struct idx_file){3, 4, 5, 0, 1, 0});
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
    struct np_recipe recipe = image_files_recipe(32, 32, 3);
    struct np_data_spec spec = data_files_spec(NP_DATA_CIFAR10, 2);
    image_files_cifar("a", 1, 0, 2);
    image_files_cifar("b", 1, 0, 2);
    suite_write_bytes("b", file_bytes, 2 * RECORD - 1);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b': 6145 bytes are not whole records of 3073");
    suite_write_bytes("b", "", 0);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b' is empty");
    image_files_cifar("b", 1, 0, 2);
    recipe.vocab = 5;
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a': label 7 of image 1 is not one of 0 to 4");
    spec.part[0] = 0.5;
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b': label 7 of image 1 is not one of 0 to 4");
    recipe = image_files_recipe(28, 28, 1);
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'a' holds images of 32 x 32 x 3, not 28 x 28 x 1");
    recipe = image_files_recipe(32, 32, 3);
    spec = data_files_spec(NP_DATA_CIFAR100, 2);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a': 6146 bytes are not whole records of 3074");
    image_files_cifar("a", 2, 0, 3);
    image_files_cifar("b", 2, 0, 3);
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
    struct np_recipe recipe = image_files_recipe(32, 32, 3);
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
    recipe = image_files_recipe(28, 28, 1);
    spec = data_files_spec(NP_DATA_IDX, 2);
    spec.files = mnist_files;
    check_classes(&recipe, &spec, mnist);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("images");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, test_known_digest);
    tcase_add_test(tests, test_part);
    tcase_add_test(tests, test_bad_idx);
    tcase_add_test(tests, test_bad_labels);
    tcase_add_test(tests, test_bad_cifar);
    tcase_add_test(tests, test_real_files);
    return data_files_run(suite);
}
