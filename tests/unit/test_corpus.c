#include <check.h>
#include <string.h>
#include <unistd.h>

#include "data_files.h"
#include "num/philox.h"
#include "suite.h"

enum { LENGTH = 5 };

/* llm.c's format: the header, then the tokens, least significant byte first. */
static void write_tokens(const char *name, uint32_t magic, uint32_t version, uint32_t counted,
                         const uint32_t *tokens, size_t n, int width)
{
    static unsigned char bytes[1024 + 4 * 100];
    const uint32_t header[] = {magic, version, counted};
    memset(bytes, 0, sizeof bytes);
    for (size_t i = 0; i < 12; i++)
        bytes[i] = (unsigned char)(header[i / 4] >> 8 * (i % 4));
    for (size_t i = 0; i < n; i++)
        for (int j = 0; j < width; j++)
            bytes[1024 + i * (size_t)width + (size_t)j] = (unsigned char)(tokens[i] >> 8 * j);
    suite_write_bytes(name, bytes, 1024 + n * (size_t)width);
}

static struct np_recipe recipe_of(int vocab)
{
    return data_files_recipe(NP_INPUT_TOKENS, vocab, LENGTH);
}

static void read_batch(const struct np_data *data, int32_t *tokens, int32_t *targets, uint64_t seed,
                       uint64_t step, uint32_t member, size_t first, size_t samples)
{
    const struct np_batch batch = {.tokens = tokens, .targets = targets};
    np_data_batch(data, &batch, seed, step, member, first, samples);
}

static void read_eval(const struct np_data *data, int32_t *tokens, int32_t *targets, uint64_t index,
                      uint64_t total)
{
    const struct np_batch batch = {.tokens = tokens, .targets = targets};
    np_data_eval_batch(data, &batch, index, 1, total);
}

/* Bytes of three files are one sequence: every window of it, also across borders. */
START_TEST(test_windows_across_files)
{
    const struct np_recipe recipe = recipe_of(256);
    const struct np_data_spec spec = data_files_spec(NP_DATA_BYTES, 3);
    int32_t tokens[LENGTH], targets[LENGTH];
    struct np_data *corpus;
    suite_write_bytes("a", "\0\1\2\3", 4);
    suite_write_bytes("b", "\4\5", 2);
    suite_write_bytes("c", "\6\7\10\11\12\13\14\15\16\377", 10);
    corpus = data_files_open(&recipe, &spec);
    ck_assert_uint_eq(np_data_count(corpus), 16);
    for (uint64_t begin = 0; begin < 11; begin++) {
        read_eval(corpus, tokens, targets, begin, 11);
        for (int t = 0; t < LENGTH; t++) {
            ck_assert_int_eq(tokens[t], (int)begin + t);
            ck_assert_int_eq(targets[t], begin + t + 1 == 15 ? 255 : (int)begin + t + 1);
        }
    }
    np_data_close(corpus);
}
END_TEST

/* A training batch is what the header says, however it is cut. */
START_TEST(test_batches)
{
    const struct np_recipe recipe = recipe_of(256);
    const struct np_data_spec spec = data_files_spec(NP_DATA_BYTES, 1);
    unsigned char bytes[251];
    int32_t tokens[8][LENGTH], targets[8][LENGTH], part[8][LENGTH], part_targets[8][LENGTH];
    struct np_data *corpus;
    int differ = 0;
    for (int i = 0; i < 251; i++)
        bytes[i] = (unsigned char)i;
    suite_write_bytes("a", bytes, sizeof bytes);
    corpus = data_files_open(&recipe, &spec);
    read_batch(corpus, tokens[0], targets[0], 7, 3, 1, 0, 8);
    for (uint64_t i = 0; i < 8; i++) {
        struct np_draw_key key = np_draw_key(7, NP_DRAW_BATCH, 1, 0, 0);
        int begin = (int)np_philox_below(np_draw(key, 3, i), 251 - LENGTH);
        for (int t = 0; t < LENGTH; t++) {
            ck_assert_int_eq(tokens[i][t], begin + t);
            ck_assert_int_eq(targets[i][t], begin + t + 1);
        }
    }
    read_batch(corpus, part[0], part_targets[0], 7, 3, 1, 0, 3);
    read_batch(corpus, part[3], part_targets[3], 7, 3, 1, 3, 5);
    ck_assert_mem_eq(part, tokens, sizeof part);
    ck_assert_mem_eq(part_targets, targets, sizeof part);
    read_batch(corpus, part[0], part_targets[0], 7, 4, 1, 0, 8);
    differ += memcmp(part, tokens, sizeof part) != 0;
    read_batch(corpus, part[0], part_targets[0], 7, 3, 0, 0, 8);
    differ += memcmp(part, tokens, sizeof part) != 0;
    read_batch(corpus, part[0], part_targets[0], 8, 3, 1, 0, 8);
    differ += memcmp(part, tokens, sizeof part) != 0;
    ck_assert_int_eq(differ, 3);
    np_data_close(corpus);
}
END_TEST

/* The same tokens from bytes, 16-bit and 32-bit files are the same corpus. */
START_TEST(test_formats_agree)
{
    const struct np_recipe recipe = recipe_of(300);
    const struct np_data_spec text = data_files_spec(NP_DATA_BYTES, 1),
                              bin = data_files_spec(NP_DATA_TOKENS, 1);
    uint32_t values[40];
    unsigned char bytes[40];
    struct np_digest digest;
    struct np_data *corpus;
    for (int i = 0; i < 40; i++)
        bytes[i] = (unsigned char)(values[i] = (uint32_t)(i * 37 % 256));
    suite_write_bytes("a", bytes, sizeof bytes);
    corpus = data_files_open(&recipe, &text);
    digest = *np_data_digest(corpus);
    np_data_close(corpus);
    write_tokens("a", 20240520, 1, 40, values, 40, 2);
    corpus = data_files_open(&recipe, &bin);
    ck_assert(np_digest_equal(np_data_digest(corpus), &digest));
    np_data_close(corpus);
    write_tokens("a", 20240801, 7, 40, values, 40, 4);
    corpus = data_files_open(&recipe, &bin);
    ck_assert(np_digest_equal(np_data_digest(corpus), &digest));
    np_data_close(corpus);
    values[39]++;
    write_tokens("a", 20240801, 7, 40, values, 40, 4);
    corpus = data_files_open(&recipe, &bin);
    ck_assert(!np_digest_equal(np_data_digest(corpus), &digest));
    np_data_close(corpus);
}
END_TEST

/* SHA-256 of 1 0 0 0, 2 0 0 0, ... 6 0 0 0, from sha256sum. */
START_TEST(test_known_digest)
{
    const struct np_recipe recipe = recipe_of(256);
    const struct np_data_spec spec = data_files_spec(NP_DATA_BYTES, 1);
    struct np_data *corpus;
    suite_write_bytes("a", "\1\2\3\4\5\6", 6);
    corpus = data_files_open(&recipe, &spec);
    ck_assert_str_eq(np_digest_hex(np_data_digest(corpus)).s,
                     "90d856b7ecac90c26898af8a46404297aa0ef65768f62fdf8c3f08294bcbee49");
    np_data_close(corpus);
}
END_TEST

START_TEST(test_parts)
{
    const struct np_recipe recipe = recipe_of(256);
    struct np_data_spec spec = data_files_spec(NP_DATA_BYTES, 1);
    int32_t tokens[LENGTH], targets[LENGTH];
    struct np_data *corpus;
    unsigned char bytes[101];
    for (int i = 0; i < 101; i++)
        bytes[i] = (unsigned char)i;
    suite_write_bytes("a", bytes, sizeof bytes);
    spec.part[1] = 0.9;
    corpus = data_files_open(&recipe, &spec);
    ck_assert_uint_eq(np_data_count(corpus), 90);
    np_data_close(corpus);
    spec.part[0] = 0.9;
    spec.part[1] = 1.0;
    corpus = data_files_open(&recipe, &spec);
    ck_assert_uint_eq(np_data_count(corpus), 11);
    read_eval(corpus, tokens, targets, 0, 2);
    ck_assert_int_eq(tokens[0], 90);
    read_eval(corpus, tokens, targets, 1, 2);
    ck_assert_int_eq(tokens[0], 93);
    np_data_close(corpus);
}
END_TEST

START_TEST(test_bad_bytes)
{
    const struct np_recipe recipe = recipe_of(256);
    struct np_data_spec spec = data_files_spec(NP_DATA_BYTES, 2);
    unlink("a");
    data_files_refused(&recipe, &spec, NP_EIO, "cannot open 'a': No such file or directory");
    suite_write_bytes("a", "123", 3);
    suite_write_bytes("b", "", 0);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b' has no tokens");
    suite_write_bytes("b", "45", 2);
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'a' and the files after it: 5 tokens in the part, a sample needs 6");
    suite_write_bytes("b", "456", 3);
    np_data_close(data_files_open(&recipe, &spec));
    spec.part[0] = 0.1;
    np_data_close(data_files_open(&recipe, &spec));
    spec.part[0] = 0.2;
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'a' and the files after it: 5 tokens in the part, a sample needs 6");
    spec.file_count = 1;
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a': 3 tokens in the part, a sample needs 6");
}
END_TEST

START_TEST(test_bad_tokens)
{
    const struct np_recipe recipe = recipe_of(50);
    const struct np_data_spec spec = data_files_spec(NP_DATA_TOKENS, 2);
    const uint32_t good[8] = {0, 49, 1, 2, 3, 4, 5, 6};
    const uint32_t bad[8] = {0, 49, 1, 50, 3, 4, 5, 6}, huge[8] = {0, 0xFFFFFFFF, 1};
    write_tokens("a", 20240520, 1, 8, good, 8, 2);
    suite_write_bytes("b", "short", 5);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b' is too short for a token file: 5 bytes");
    write_tokens("b", 20240521, 1, 8, good, 8, 2);
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'b' is not a token file: magic 20240521, not 20240520 or 20240801");
    write_tokens("b", 20240520, 7, 8, good, 8, 2);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b': token file version 7, not 1");
    write_tokens("b", 20240801, 7, 0xFFFFFFFF, good, 8, 4);
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'b': the header counts 4294967295 tokens, 32 bytes follow it");
    write_tokens("b", 20240520, 1, 0, good, 0, 2);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'b' has no tokens");
    write_tokens("b", 20240520, 1, 8, bad, 8, 2);
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'b': token 50 at 3 is not below the vocabulary of 50");
    write_tokens("b", 20240801, 7, 8, huge, 8, 4);
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'b': token 4294967295 at 1 is not below the vocabulary of 50");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("corpus");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, test_windows_across_files);
    tcase_add_test(tests, test_batches);
    tcase_add_test(tests, test_formats_agree);
    tcase_add_test(tests, test_known_digest);
    tcase_add_test(tests, test_parts);
    tcase_add_test(tests, test_bad_bytes);
    tcase_add_test(tests, test_bad_tokens);
    return data_files_run(suite);
}
