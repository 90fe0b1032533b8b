#include <check.h>
#include <stdint.h>
#include <string.h>

#include "data/shuffle.h"
#include "data_files.h"
#include "num/philox.h"
#include "suite.h"

enum { FORMATS = 7, SAMPLES = 6, MAX_BYTES = 4 * 3074, SLAB = SAMPLES * 4096 };

/* A small file set of every format. */
struct subject {
    struct np_recipe recipe;
    struct np_data_spec spec;
    size_t bytes[2]; /* of files "a" and "b" */
};

static uint8_t content[2][MAX_BYTES];

static size_t fill_tokens(void)
{
    static const uint32_t header[] = {20240520, 1, 40};
    for (size_t i = 0; i < 12; i++)
        content[0][i] = (uint8_t)(header[i / 4] >> 8 * (i % 4));
    for (size_t i = 0; i < 40; i++)
        content[0][1024 + 2 * i] = (uint8_t)(i * 5);
    return 1024 + 80;
}

static size_t fill_idx(uint8_t *out, uint8_t rank, size_t count)
{
    static const uint8_t dims[] = {10, 4, 3};
    out[2] = 8;
    out[3] = rank;
    for (size_t i = 0; i < rank; i++)
        out[7 + 4 * i] = dims[i];
    for (size_t i = 0; i < count; i++)
        out[4 + 4 * rank + i] = (uint8_t)(i % 10);
    return 4 + 4 * (size_t)rank + count;
}

static struct subject subject_of(enum np_data_kind kind)
{
    static const enum np_input_kind inputs[] = {NP_INPUT_TOKENS, NP_INPUT_TOKENS, NP_INPUT_PAIRS,
                                                NP_INPUT_PAIRS,  NP_INPUT_IMAGES, NP_INPUT_IMAGES,
                                                NP_INPUT_IMAGES};
    struct subject subject = {.recipe = data_files_recipe(inputs[kind], 256, 5),
                              .spec = data_files_spec(kind, kind == NP_DATA_IDX ? 2 : 1)};
    struct np_recipe *recipe = &subject.recipe;
    memset(content, 0, sizeof content);
    recipe->source_length = 3;
    recipe->height = kind == NP_DATA_IDX ? 4 : 32;
    recipe->image_width = kind == NP_DATA_IDX ? 3 : 32;
    recipe->channels = kind == NP_DATA_IDX ? 1 : 3;
    subject.spec.crop = 2;
    subject.spec.flip = true;
    if (kind == NP_DATA_BYTES) {
        subject.bytes[0] = 50;
        for (size_t i = 0; i < 50; i++)
            content[0][i] = (uint8_t)(i * 5);
    } else if (kind == NP_DATA_TOKENS) {
        subject.bytes[0] = fill_tokens();
    } else if (kind == NP_DATA_PAIRS) {
        recipe->masked = true;
        subject.bytes[0] = 28;
        memcpy(content[0], "ab\tcde\nf\tg\nhijk\tlmnopqrst\nu\t", 28);
    } else if (kind == NP_DATA_TOKEN_PAIRS) {
        recipe->masked = true;
        subject.bytes[0] = 40;
        memcpy(content[0], "1 2\t99 4 5\n6\t103\n7 8 9\t108 10 11 12\n13 \t", 40);
    } else if (kind == NP_DATA_IDX) {
        subject.bytes[0] = fill_idx(content[0], 3, 120);
        subject.bytes[1] = fill_idx(content[1], 1, 10);
    } else {
        size_t labels = kind == NP_DATA_CIFAR100 ? 2 : 1, record = labels + 3072;
        subject.bytes[0] = 4 * record;
        for (size_t i = 0; i < 4 * record; i++)
            content[0][i] = (uint8_t)(i % record >= labels ? i * 7 : i / record);
    }
    return subject;
}

static void write_files(const struct subject *subject)
{
    suite_write_bytes("a", content[0], subject->bytes[0]);
    suite_write_bytes("b", content[1], subject->bytes[1]);
}

static bool inside(const void *at, size_t words, const float *slab, size_t used)
{
    const float *from = at;
    return !at || (from >= slab && from + words <= slab + used &&
                   (size_t)(from - slab) * sizeof(float) % 64 == 0);
}

/* Every input has its arrays, apart from each other. */
START_TEST(test_lay)
{
    static float slab[SLAB];
    struct subject subject = subject_of((enum np_data_kind)_i);
    const struct np_recipe *recipe = &subject.recipe;
    size_t pixels = (size_t)recipe->height * (size_t)recipe->image_width * (size_t)recipe->channels;
    bool images = recipe->input == NP_INPUT_IMAGES, pairs = recipe->input == NP_INPUT_PAIRS;
    size_t words = np_batch_targets(recipe), used;
    struct np_batch batch;
    ck_assert_uint_eq(words, images ? 1 : 5);
    for (unsigned reads = 0; reads < 16; reads++) {
        bool inputs = reads & NP_READS_INPUTS, targets = reads & NP_READS_TARGETS;
        bool source_lengths = pairs && (reads & NP_READS_SOURCE);
        bool target_lengths = pairs && (reads & NP_READS_TARGET);
        used = np_batch_lay(&batch, recipe, SAMPLES, reads, NULL);
        ck_assert(!batch.images && !batch.tokens && !batch.source && !batch.targets);
        ck_assert(!batch.source_lengths && !batch.target_lengths);
        ck_assert_uint_le(used, SLAB);
        ck_assert_uint_eq(np_batch_lay(&batch, recipe, SAMPLES, reads, slab), used);
        ck_assert(!batch.images == !(images && inputs));
        ck_assert(!batch.tokens == !(!images && inputs));
        ck_assert(!batch.source == !(pairs && inputs));
        ck_assert(!batch.targets == !targets);
        ck_assert(!batch.source_lengths == !source_lengths);
        ck_assert(!batch.target_lengths == !target_lengths);
        ck_assert(inside(batch.images, SAMPLES * pixels, slab, used));
        ck_assert(inside(batch.tokens, SAMPLES * words, slab, used));
        ck_assert(inside(batch.source, SAMPLES * 3, slab, used));
        ck_assert(inside(batch.targets, SAMPLES * words, slab, used));
        ck_assert(inside(batch.source_lengths, SAMPLES, slab, used));
        ck_assert(inside(batch.target_lengths, SAMPLES, slab, used));
        ck_assert(!pairs || !inputs || batch.source >= batch.tokens + SAMPLES * words);
        ck_assert(!inputs || !targets || images || batch.targets >= batch.tokens + SAMPLES * words);
        ck_assert(!targets || !source_lengths ||
                  batch.source_lengths >= batch.targets + SAMPLES * words);
        ck_assert(!source_lengths || !target_lengths ||
                  batch.target_lengths >= batch.source_lengths + SAMPLES);
    }
}
END_TEST

/* The whole batch, and its samples one at a time, inputs and targets apart: the same words. */
START_TEST(test_cuts)
{
    static float whole[SLAB], cut[SLAB], one[SLAB];
    struct subject subject = subject_of((enum np_data_kind)_i);
    struct np_batch all, alone, copy;
    struct np_data *data;
    size_t used = np_batch_lay(&all, &subject.recipe, SAMPLES, ~0u, whole);
    size_t differ = 0;
    memset(whole, 0, sizeof whole); /* between tensors, too */
    memset(cut, 0, sizeof cut);
    write_files(&subject);
    data = data_files_open(&subject.recipe, &subject.spec);
    np_data_batch(data, &all, 3, 4, 1, 0, SAMPLES);
    np_batch_lay(&copy, &subject.recipe, SAMPLES, ~0u, cut);
    for (size_t i = 0; i < SAMPLES; i++) {
        size_t targets = np_batch_targets(&subject.recipe), length = targets;
        size_t pixels = (size_t)subject.recipe.height * (size_t)subject.recipe.image_width *
                        (size_t)subject.recipe.channels;
        np_batch_lay(&alone, &subject.recipe, 1, NP_READS_INPUTS, one);
        np_data_batch(data, &alone, 3, 4, 1, i, 1);
        if (copy.images)
            memcpy(copy.images + i * pixels, alone.images, pixels * sizeof(float));
        if (copy.tokens)
            memcpy(copy.tokens + i * length, alone.tokens, length * sizeof(int32_t));
        if (copy.source)
            memcpy(copy.source + i * 3, alone.source, 3 * sizeof(int32_t));
        np_batch_lay(&alone, &subject.recipe, 1, NP_READS_TARGETS, one);
        np_data_batch(data, &alone, 3, 4, 1, i, 1);
        memcpy(copy.targets + i * targets, alone.targets, targets * sizeof(int32_t));
        np_batch_lay(&alone, &subject.recipe, 1, NP_READS_SOURCE | NP_READS_TARGET, one);
        np_data_batch(data, &alone, 3, 4, 1, i, 1);
        if (copy.source_lengths) {
            copy.source_lengths[i] = *alone.source_lengths;
            copy.target_lengths[i] = *alone.target_lengths;
        }
    }
    ck_assert_mem_eq(cut, whole, used * sizeof(float));
    for (int other = 0; other < 3; other++) {
        np_data_batch(data, &copy, 3 + (other == 0), 4 + (other == 1), 1 + (other == 2), 0,
                      SAMPLES);
        differ += memcmp(cut, whole, used * sizeof(float)) != 0;
    }
    ck_assert_uint_eq(differ, 3);
    np_data_close(data);
}
END_TEST

/* Which item a sample is, by its first target. */
static int item_of(enum np_data_kind kind, int target)
{
    static const int pairs[] = {'c', 'g', 'l', 0};
    int item = 0;
    switch (kind) {
    case NP_DATA_PAIRS:
    case NP_DATA_TOKEN_PAIRS:
        while (pairs[item] != target)
            item++;
        return item;
    case NP_DATA_IDX:
    case NP_DATA_CIFAR10:
    case NP_DATA_CIFAR100:
        return target;
    default: /* token i is 5 * i, and windows of 5 lie end to end */
        ck_assert_int_eq(target % 25, 5);
        return target / 25;
    }
}

/* Shuffled, the samples of every epoch are all items once, in the order that the header says: of
 * members that have batches of their own one after the other, of those that share them of one. */
START_TEST(test_epochs)
{
    enum { BATCH = 3, MEMBERS = 2, EPOCHS = 4 };
    static const uint64_t items[FORMATS] = {9, 7, 3, 3, 9, 3, 3}; /* of the part */
    struct subject subject = subject_of((enum np_data_kind)_i);
    const struct np_draw_key key = np_draw_key(8, NP_DRAW_ORDER, 0, 0, 0);
    const uint64_t count = items[_i], targets = np_batch_targets(&subject.recipe);
    int32_t target[BATCH * 5];
    const struct np_batch batch = {.targets = target};
    write_files(&subject);
    subject.recipe.batch = BATCH;
    subject.recipe.members = MEMBERS;
    subject.spec.shuffled = true;
    subject.spec.part[1] = 0.96;
    for (int same = 0; same < 2; same++) {
        int seen[EPOCHS][10] = {{0}};
        uint32_t members = same ? 1 : MEMBERS;
        struct np_data *data;
        subject.recipe.same_batch = same;
        data = data_files_open(&subject.recipe, &subject.spec);
        for (uint64_t number = 0; number < EPOCHS * count; number++) {
            uint64_t sample = number % BATCH, batches = number / BATCH;
            int item;
            if (sample == 0) /* cut after the first sample */
                for (size_t cut = 0; cut < 2; cut++)
                    np_data_batch(data, &(struct np_batch){.targets = target + cut * targets}, 8,
                                  batches / members, (uint32_t)(batches % members), cut,
                                  cut ? BATCH - 1 : 1);
            item = item_of(subject.spec.kind, target[sample * targets]);
            ck_assert_uint_eq((uint64_t)item,
                              np_shuffle(key, number / count, number % count, count));
            seen[number / count][item]++;
        }
        for (int epoch = 0; epoch < EPOCHS; epoch++)
            for (uint64_t item = 0; item < count; item++)
                ck_assert_int_eq(seen[epoch][item], 1);
        np_data_batch(data, &batch, 8, UINT64_MAX >> 1, members - 1, 0, BATCH);
        np_data_close(data);
    }
}
END_TEST

/* Damaged files are refused or read, but never read beyond their end (a sanitizer watches). */
START_TEST(test_damage)
{
    static float slab[SLAB];
    const struct subject sound = subject_of((enum np_data_kind)_i);
    const struct np_draw_key key = np_draw_key(1, NP_DRAW_BATCH, 0, 0, 0);
    struct np_batch batch;
    size_t refused = 0;
    np_batch_lay(&batch, &sound.recipe, SAMPLES, ~0u, slab);
    for (uint64_t round = 0; round < 300; round++) {
        struct np_philox drawn = np_draw(key, (uint64_t)_i, round);
        struct subject subject = subject_of((enum np_data_kind)_i);
        size_t file = subject.bytes[1] ? drawn.w[0] % 2 : 0;
        size_t header = subject.bytes[file] < 40 ? subject.bytes[file] : 40;
        struct np_data *data = NULL;
        struct np_error err = {.msg = ""};
        if (drawn.w[1] % 4 == 0)
            subject.bytes[file] = drawn.w[2] % (subject.bytes[file] + 1);
        else
            content[file][drawn.w[2] % header] = (uint8_t)(drawn.w[3] >> drawn.w[1] % 25);
        write_files(&subject);
        if (np_data_open(&data, &subject.recipe, &subject.spec, NULL, &err) != NP_OK) {
            ck_assert_int_eq(err.code, NP_EINPUT);
            ck_assert_ptr_nonnull(strstr(err.msg, file ? "/b'" : "/"));
            refused++;
            continue;
        }
        np_data_batch(data, &batch, 1, round, 0, 0, SAMPLES);
        np_data_eval_batch(data, &batch, 0, SAMPLES, SAMPLES);
        np_data_close(data);
    }
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_lt(refused, 300);
}
END_TEST

enum { LARGE = (3 << 20) + 5 };

struct telling {
    uint64_t done[8];
    size_t told, stop_at;
};

static void tell(void *context, uint64_t done, uint64_t count)
{
    struct telling *telling = context;
    ck_assert_uint_eq(count, LARGE - 3);
    ck_assert_uint_lt(telling->told, 8);
    telling->done[telling->told++] = done;
}

static bool shall_stop(void *context)
{
    struct telling *telling = context;
    return telling->told == telling->stop_at;
}

/* What is read for the digest is read piece by piece, told before each, and the digest is that of
 * the whole; a stop is heeded before each. */
START_TEST(test_hooks)
{
    static uint8_t bytes[LARGE];
    static int32_t tokens[LARGE];
    const struct np_recipe recipe = data_files_recipe(NP_INPUT_TOKENS, 256, 5);
    struct np_data_spec spec = data_files_spec(NP_DATA_BYTES, 1);
    struct telling telling = {.stop_at = 8};
    struct np_data_hooks hooks = {&telling, tell, shall_stop};
    struct np_data *data = NULL;
    struct np_digest digest;
    struct np_error err;
    for (size_t i = 0; i < LARGE; i++)
        tokens[i] = bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    suite_write_bytes("a", bytes, LARGE);
    spec.part[0] = 3.5 / LARGE; /* of which the first three are not */
    ck_assert_int_eq(np_data_open(&data, &recipe, &spec, &hooks, &err), NP_OK);
    ck_assert_uint_ge(telling.told, 3);
    ck_assert_uint_eq(telling.done[0], 0);
    for (size_t i = 1; i < telling.told; i++)
        ck_assert_uint_gt(telling.done[i], telling.done[i - 1]);
    ck_assert_uint_lt(telling.done[telling.told - 1], LARGE - 3);
    ck_assert_int_eq(np_digest_compute(&digest, tokens + 3, (LARGE - 3) * 4ull, &err), NP_OK);
    ck_assert(np_digest_equal(&digest, np_data_digest(data)));
    np_data_close(data);
    for (size_t at = 1; at <= 3; at++) {
        telling = (struct telling){.stop_at = at};
        ck_assert_int_eq(np_data_open(&data, &recipe, &spec, &hooks, &err), NP_ESTOP);
        ck_assert_uint_eq(telling.told, at);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data");
    TCase *tests = suite_case(suite, "all");
    tcase_add_loop_test(tests, test_lay, 0, FORMATS);
    tcase_add_loop_test(tests, test_cuts, 0, FORMATS);
    tcase_add_loop_test(tests, test_epochs, 0, FORMATS);
    tcase_add_loop_test(tests, test_damage, 0, FORMATS);
    tcase_add_test(tests, test_hooks);
    return data_files_run(suite);
}
