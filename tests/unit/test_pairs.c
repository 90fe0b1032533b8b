#include <check.h>
#include <string.h>

#include "data_files.h"
#include "num/philox.h"
#include "suite.h"

enum { SOURCE = 5, LENGTH = 4, VOCAB = 256 };

static struct np_recipe recipe_of(void)
{
    struct np_recipe recipe = data_files_recipe(NP_INPUT_PAIRS, VOCAB, LENGTH);
    recipe.source_length = SOURCE;
    return recipe;
}

static void write_text(const char *name, const char *text)
{
    suite_write_bytes(name, text, strlen(text));
}

/* Sample `index` of an evaluation over all `count` pairs. */
static void check_pair(const struct np_data *data, uint64_t index, uint64_t count,
                       const char source[SOURCE + 1], const char tokens[LENGTH + 1],
                       const char targets[LENGTH + 1])
{
    int32_t s[SOURCE], t[LENGTH], want[LENGTH];
    const struct np_batch batch = {.source = s, .tokens = t, .targets = want};
    np_data_eval_batch(data, &batch, index, 1, count);
    for (int i = 0; i < SOURCE; i++)
        ck_assert_int_eq(s[i], (unsigned char)source[i]);
    for (int i = 0; i < LENGTH; i++) {
        ck_assert_int_eq(t[i], (unsigned char)tokens[i]);
        ck_assert_int_eq(want[i], (unsigned char)targets[i]);
    }
}

/* Filled and cut; bytes above 127; empty sides; the last line without a newline; two files. */
START_TEST(test_rows)
{
    const struct np_recipe recipe = recipe_of();
    const struct np_data_spec spec = data_files_spec(NP_DATA_PAIRS, 2);
    struct np_data *data;
    write_text("a", "ab\tx\nabcde\txyz\nabcdefgh\tvwxyz\n");
    write_text("b", "\t\n\377\t\376\r\nq\tr");
    data = data_files_open(&recipe, &spec);
    ck_assert_uint_eq(np_data_count(data), 6);
    check_pair(data, 0, 6, "ab\0\0\0", "\1x\0\0", "x\0\0\0");
    check_pair(data, 1, 6, "abcde", "\1xyz", "xyz\0");
    check_pair(data, 2, 6, "abcde", "\1vwx", "vwx\0");
    check_pair(data, 3, 6, "\0\0\0\0\0", "\1\0\0\0", "\0\0\0\0");
    check_pair(data, 4, 6, "\377\0\0\0\0", "\1\376\r\0", "\376\r\0\0");
    check_pair(data, 5, 6, "q\0\0\0\0", "\1r\0\0", "r\0\0\0");
    np_data_close(data);
}
END_TEST

/* Masked: nothing is to be predicted behind the end, and lengths are what is not filled. */
START_TEST(test_masked)
{
    static const int32_t counted[] = {2, 4, 4, 1, 3, 2}, sources[] = {2, 5, 5, 1, 1, 1};
    struct np_recipe recipe = recipe_of();
    struct np_data_spec spec = data_files_spec(NP_DATA_PAIRS, 2);
    int32_t targets[LENGTH], source[SOURCE], lengths[2];
    const struct np_batch batch = {.targets = targets,
                                   .source = source,
                                   .source_lengths = &lengths[0],
                                   .target_lengths = &lengths[1]};
    struct np_data *data;
    uint64_t sum = 0;
    write_text("a", "ab\tx\nabcde\txyz\nabcdefgh\tvwxyz\n");
    write_text("b", "\t\n\377\t\376\r\nq\tr");
    recipe.masked = true;
    recipe.batch = 5;
    data = data_files_open(&recipe, &spec);
    for (uint64_t i = 0; i < 6; i++) {
        np_data_eval_batch(data, &batch, i, 1, 6);
        ck_assert_int_eq(lengths[0], sources[i]);
        ck_assert_int_eq(lengths[1], counted[i]);
        for (int t = 0; t < LENGTH; t++)
            ck_assert(t < counted[i] ? targets[t] >= 0 : targets[t] == NP_NO_TARGET);
        ck_assert_int_eq(targets[counted[i] - 1], 0);
        ck_assert_uint_eq(np_data_eval_targets(data, i, 1, 6), (uint64_t)counted[i]);
    }
    ck_assert_uint_eq(np_data_eval_targets(data, 0, 6, 6), 16);
    ck_assert_uint_eq(np_data_eval_targets(data, 3, 3, 6), 6);
    for (size_t i = 0; i < 5; i++) {
        np_data_batch(data, &batch, 3, 9, 1, i, 1);
        sum += (uint64_t)lengths[1];
    }
    ck_assert_uint_eq(np_data_targets(data, 3, 9, 1), sum);
    np_data_close(data);
    recipe.masked = false;
    data = data_files_open(&recipe, &spec);
    ck_assert_uint_eq(np_data_targets(data, 3, 9, 1), 5 * LENGTH);
    ck_assert_uint_eq(np_data_eval_targets(data, 3, 3, 6), 3 * LENGTH);
    np_data_close(data);
}
END_TEST

/* A sample is the drawn line, and arrays that are not wanted are left out. */
START_TEST(test_batches)
{
    const struct np_recipe recipe = recipe_of();
    struct np_data_spec spec = data_files_spec(NP_DATA_PAIRS, 1);
    int32_t source[8][SOURCE], tokens[8][LENGTH], targets[8][LENGTH];
    const struct np_batch inputs = {.source = source[0], .tokens = tokens[0]};
    const struct np_batch outputs = {.targets = targets[0]};
    struct np_data *data;
    char text[26 * 4];
    for (int i = 0; i < 26; i++) {
        char line[] = {(char)('a' + i), '\t', (char)('A' + i), '\n'};
        memcpy(text + (size_t)i * 4, line, 4);
    }
    suite_write_bytes("a", text, sizeof text);
    spec.part[0] = 0.5;
    data = data_files_open(&recipe, &spec);
    ck_assert_uint_eq(np_data_count(data), 13);
    np_data_batch(data, &inputs, 5, 2, 1, 3, 8);
    np_data_batch(data, &outputs, 5, 2, 1, 3, 8);
    for (uint64_t i = 0; i < 8; i++) {
        struct np_draw_key key = np_draw_key(5, NP_DRAW_BATCH, 1, 0, 0);
        int line = 13 + (int)np_philox_below(np_draw(key, 2, 3 + i), 13);
        ck_assert_int_eq(source[i][0], 'a' + line);
        ck_assert_int_eq(tokens[i][1], 'A' + line);
        ck_assert_int_eq(targets[i][0], 'A' + line);
    }
    np_data_close(data);
}
END_TEST

/* Numbers: spaces wherever they are, cut and filled, of either side none. */
START_TEST(test_numbers)
{
    struct np_recipe recipe = recipe_of();
    struct np_data_spec spec = data_files_spec(NP_DATA_TOKEN_PAIRS, 1);
    const struct {
        int32_t source[SOURCE], tokens[LENGTH], targets[LENGTH], lengths[2];
    } want[] = {{{12, 7, 299}, {1, 5, 16}, {5, 16, 0, -1}, {3, 3}},
                {{1, 2, 3, 4, 5}, {1, 9, 8, 7}, {9, 8, 7, 0}, {5, 4}},
                {{0}, {1}, {0, -1, -1, -1}, {1, 1}},
                {{42}, {1, 42}, {42, 0, -1, -1}, {1, 2}}};
    struct np_data *data;
    recipe.vocab = 300;
    recipe.masked = true;
    write_text("a", "12 7 299\t5 16\n1 2 3 4 5 6 7\t9 8 7 6\n \t\n  042  \t42 ");
    data = data_files_open(&recipe, &spec);
    ck_assert_uint_eq(np_data_count(data), 4);
    for (uint64_t i = 0; i < 4; i++) {
        int32_t source[SOURCE], tokens[LENGTH], targets[LENGTH], lengths[2];
        const struct np_batch batch = {.source = source,
                                       .tokens = tokens,
                                       .targets = targets,
                                       .source_lengths = &lengths[0],
                                       .target_lengths = &lengths[1]};
        np_data_eval_batch(data, &batch, i, 1, 4);
        ck_assert_mem_eq(source, want[i].source, sizeof source);
        ck_assert_mem_eq(tokens, want[i].tokens, sizeof tokens);
        ck_assert_mem_eq(targets, want[i].targets, sizeof targets);
        ck_assert_mem_eq(lengths, want[i].lengths, sizeof lengths);
    }
    np_data_close(data);
}
END_TEST

/* What a line says of itself: as many tokens as are cut off are looked at. */
START_TEST(test_refused_numbers)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"1 2\t3\n1 x7\t3\n", "'a': line 2 has 'x7', which is no token"},
        {"1 2\t3\r\n", "'a': line 1 has '3\\x0d', which is no token"},
        {"1\t2\n-1\t3\n", "'a': line 2 has '-1', which is no token"},
        {"1\t0\n", "'a': line 1 has token 0, which is what ends and fills"},
        {"1\t2 300\n", "'a': line 1 has token 300, not below the vocabulary of 300"},
        {"1 2 3 4 5 6 99999999999999999999\t2\n",
         "'a': line 1 has token 99999999999999999999, not below the vocabulary of 300"},
        {"1 2 3\n", "'a': line 1 has no tab between source and target"},
    };
    const struct np_data_spec spec = data_files_spec(NP_DATA_TOKEN_PAIRS, 1);
    struct np_recipe recipe = recipe_of();
    recipe.vocab = 300;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text("a", bad[i].text);
        data_files_refused(&recipe, &spec, NP_EINPUT, bad[i].message);
    }
}
END_TEST

/* SHA-256 of the words a 0 0 0 0, 1 b 0 0, from sha256sum. */
START_TEST(test_known_digest)
{
    const struct np_recipe recipe = recipe_of();
    const struct np_data_spec spec = data_files_spec(NP_DATA_PAIRS, 1);
    struct np_data *data;
    write_text("a", "a\tb\n");
    data = data_files_open(&recipe, &spec);
    ck_assert_str_eq(np_digest_hex(np_data_digest(data)).s,
                     "816eaad31ea83eec803a53eb0e785bdef2b2f5ddf608a33100210e19dffd111d");
    np_data_close(data);
}
END_TEST

START_TEST(test_refused)
{
    struct np_recipe recipe = recipe_of();
    struct np_data_spec spec = data_files_spec(NP_DATA_PAIRS, 1);
    write_text("a", "");
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a' has no pairs");
    write_text("a", "one\ttwo\nthree four\n");
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'a': line 2 has no tab between source and target");
    write_text("a", "one\ttwo\n\n");
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'a': line 2 has no tab between source and target");
    write_text("a", "one\ttwo\tthree\n");
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a': line 1 has more than one tab");
    suite_write_bytes("a", "one\ttw\0o\n", 9);
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a': line 1 has a byte 0");
    write_text("a", "one\ttwo\nthree\tfour");
    spec.part[0] = 0.25;
    spec.part[1] = 0.375;
    data_files_refused(&recipe, &spec, NP_EINPUT, "'a': 0 pairs in the part, a sample needs 1");
    spec.part[1] = 1.0;
    recipe.vocab = 'w';
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'a': line 1 has token 119, not below the vocabulary of 119");
    spec.file_count = 2;
    write_text("b", "x\tabc\n");
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'a': line 1 has token 119, not below the vocabulary of 119");
    spec.part[0] = 0.7;
    data_files_refused(&recipe, &spec, NP_EINPUT,
                       "'b': line 1 has token 120, not below the vocabulary of 119");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pairs");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, test_rows);
    tcase_add_test(tests, test_masked);
    tcase_add_test(tests, test_batches);
    tcase_add_test(tests, test_numbers);
    tcase_add_test(tests, test_refused_numbers);
    tcase_add_test(tests, test_known_digest);
    tcase_add_test(tests, test_refused);
    return data_files_run(suite);
}
