/* What a recipe says of data and training. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "recipe_text.h"
#include "suite.h"

static const char minimal[] = "naspipe: recipe/1\n"
                              "space:\n"
                              "  input: {kind: images, height: 20, width: 24, channels: 1, "
                              "classes: 10}\n"
                              "  width: 4\n"
                              "  blocks:\n"
                              "    - choices: [{op: conv2d}, {op: identity}]\n"
                              "data:\n"
                              "  train: {kind: idx, files: [i, l]}\n"
                              "train:\n"
                              "  steps: 10\n";

static enum np_status read_with(struct np_recipe *recipe, const char *set, struct np_error *err)
{
    recipe_text_write(minimal, strlen(minimal));
    return np_recipe_read(recipe, recipe_path, &set, 1, err);
}

/* What is said comes back in the canonical form, which is a recipe with the same one. */
START_TEST(test_said)
{
    const struct {
        const char *set, *text;
    } cases[] = {
        {"data.train.order=shuffled", "part: [0, 1], order: shuffled, mean"},
        {"data.train.order=drawn", "part: [0, 1], mean"},
        {"data.train.cutout=20", "crop: 0, flip: false, cutout: 20}\n"},
        {"data.train.cutout=0", "crop: 0, flip: false}\n"},
        {"data.train.stored=[21, 25]", "std: [1], stored: [21, 25], crop: 0, flip: false}\n"},
        {"data.train.stored=[20, 24]", "std: [1], crop: 0"},
        {"data.valid={kind: idx, files: [i, l], stored: [24, 30]}", "stored: [24, 30]}\n"},
        {"data.train.scale=[0.08, 1]", "crop: 0, flip: false, scale: [0.08, 1]}\n"},
        {"data.train.jitter={contrast: 0.5, brightness: 0}",
         "flip: false, jitter: {contrast: 0.5}}\n"},
        {"data.train.jitter={brightness: 1, contrast: 0.5}",
         "flip: false, jitter: {brightness: 1, contrast: 0.5}}\n"},
        {"data.train.jitter={}", "crop: 0, flip: false}\n"},
        {"data.train.scale=[1, 1.0]", "flip: false, scale: [1, 1]}\n"},
        {"train.schedule={kind: multistep, milestones: [1, 7]}",
         "  schedule: {kind: multistep, warmup: 0, milestones: [1, 7], gamma: 0.1}\n"},
        {"train.schedule={kind: step, every: 3}",
         "  schedule: {kind: step, warmup: 0, every: 3, gamma: 0.1}\n"},
        {"train.schedule={kind: step, every: 1, gamma: 0.97, warmup: 4}",
         "  schedule: {kind: step, warmup: 4, every: 1, gamma: 0.97}\n"},
        {"train.schedule={kind: multistep, milestones: [5], warmup: 5, gamma: 1}",
         "  schedule: {kind: multistep, warmup: 5, milestones: [5], gamma: 1}\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct np_error err = {.msg = ""};
        struct np_recipe recipe;
        ck_assert_msg(read_with(&recipe, cases[i].set, &err) == NP_OK, "%s", err.msg);
        recipe_text_holds(&recipe, cases[i].text);
        recipe_text_stable(&recipe);
        np_recipe_clear(&recipe);
    }
}
END_TEST

START_TEST(test_refused)
{
    const struct {
        const char *set, *message;
    } bad[] = {
        {"data.train.order=shufled", "unknown order 'shufled' (did you mean 'shuffled'?)"},
        {"data.valid={kind: idx, files: [i, l], order: shuffled}",
         "unknown key 'order' (known: kind, files, part, mean, std, stored)"},
        {"data.valid={kind: idx, files: [i, l], cutout: 2}",
         "unknown key 'cutout' (known: kind, files, part, mean, std, stored)"},
        {"data.train.stored=[19, 20]",
         "'stored.0' must be a whole number from 20 to 4096, not '19'"},
        {"data.train.stored=[20, 4097]",
         "'stored.1' must be a whole number from 24 to 4096, not '4097'"},
        {"data.train.stored=[24]", "'stored' must have exactly 2 items, not 1"},
        {"data.train.cutout=21", "'cutout' must be a whole number from 0 to 20, not '21'"},
        {"data.valid={kind: idx, files: [i, l], scale: [0.5, 1]}",
         "unknown key 'scale' (known: kind, files, part, mean, std, stored)"},
        {"data.train.scale=[0, 1]", "'scale.0' must be a number in (0, 1], not '0'"},
        {"data.train.scale=[0.5, 0.25]", "'scale.1' must be a number in [0.5, 1], not '0.25'"},
        {"data.train.scale=[0.5, 2]", "'scale.1' must be a number in [0.5, 1], not '2'"},
        {"data.valid={kind: idx, files: [i, l], jitter: {}}",
         "unknown key 'jitter' (known: kind, files, part, mean, std, stored)"},
        {"data.train.jitter={brightness: 1.5}",
         "'brightness' must be a number in [0, 1], not '1.5'"},
        {"data.train.jitter={contrast: -1}", "'contrast' must be a number in [0, 1], not '-1'"},
        {"data.train.jitter={hue: 0.1}", "unknown key 'hue' (known: brightness, contrast)"},
        {"data.train.jitter=0.4", "'jitter' must be a map, not '0.4'"},
        {"data.train.scale=0.5", "'scale' must be a list, not '0.5'"},
        {"data.train={kind: idx, files: [i, l], crop: 1, scale: [0.5, 1]}",
         "images with a 'scale' have no 'crop'"},
        {"train.schedule={kind: step}", "missing key 'every' in 'schedule'"},
        {"train.schedule={kind: step, every: 0}",
         "'every' must be a whole number from 1 to 2^63-1, not '0'"},
        {"train.schedule={kind: step, every: 2, milestones: [3]}",
         "unknown key 'milestones' (known: kind, warmup, every, gamma)"},
        {"train.schedule={kind: multistep}", "missing key 'milestones' in 'schedule'"},
        {"train.schedule={kind: multistep, milestones: []}",
         "'milestones' must have at least 1 item, not 0"},
        {"train.schedule={kind: multistep, milestones: [0]}",
         "'milestones.0' must be a whole number from 1 to 2^63-1, not '0'"},
        {"train.schedule={kind: multistep, milestones: [3, 3]}",
         "'milestones' ascend: 3 is not above 3"},
        {"train.schedule={kind: multistep, milestones: [9223372036854775807, 9]}",
         "'milestones' ascend: 9 is not above 9223372036854775807"},
        {"train.schedule={kind: multistep, milestones: [9], warmup: 10}",
         "'milestones.0' must be a whole number from 10 to 2^63-1, not '9'"},
        {"train.schedule={kind: multistep, milestones: [9], gamma: 0}",
         "'gamma' must be a number in (0, 1], not '0'"},
        {"train.schedule={kind: cosine, gamma: 0.5}",
         "unknown key 'gamma' (known: kind, warmup, final)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct np_error err = {.msg = ""};
        struct np_recipe recipe;
        ck_assert_int_eq(read_with(&recipe, bad[i].set, &err), NP_EINPUT);
        ck_assert_msg(strstr(err.msg, bad[i].message) != NULL, "%s: %s", bad[i].set, err.msg);
    }
}
END_TEST

START_TEST(test_learning_rate)
{
    struct np_recipe recipe = {.steps = 110, .warmup = 10, .optimizer.lr = 0.5};
    ck_assert(np_recipe_lr(&recipe, 0) == 0.05f);
    ck_assert(np_recipe_lr(&recipe, 9) == 0.5f);
    ck_assert(np_recipe_lr(&recipe, 10) == 0.5f && np_recipe_lr(&recipe, 1000) == 0.5f);
    recipe.schedule = NP_LR_LINEAR;
    ck_assert(np_recipe_lr(&recipe, 4) == 0.25f && np_recipe_lr(&recipe, 10) == 0.5f);
    ck_assert(np_recipe_lr(&recipe, 60) == 0.25f && np_recipe_lr(&recipe, 110) == 0.0f);
    recipe.schedule = NP_LR_COSINE;
    ck_assert(np_recipe_lr(&recipe, 10) == 0.5f && np_recipe_lr(&recipe, 110) == 0.0f);
    for (uint64_t step = 10; step <= 110; step++) { /* np_cos2pif is good to an ulp of 1 */
        double exact = 0.25 * (1.0 + cos(M_PI * ((double)step - 10.0) / 100.0));
        ck_assert(fabs((double)np_recipe_lr(&recipe, step) - exact) < 0x1p-23);
    }
    recipe.final = 0.5;
    ck_assert(np_recipe_lr(&recipe, 10) == 0.5f && np_recipe_lr(&recipe, 60) == 0.375f);
    ck_assert(np_recipe_lr(&recipe, 4) == 0.25f && np_recipe_lr(&recipe, 110) == 0.25f);
    recipe.schedule = NP_LR_LINEAR;
    ck_assert(np_recipe_lr(&recipe, 35) == 0.4375f && np_recipe_lr(&recipe, 110) == 0.25f);
    recipe.final = 0;
    recipe.schedule = NP_LR_INVERSE_SQRT;
    ck_assert(np_recipe_lr(&recipe, 9) == 0.5f && np_recipe_lr(&recipe, 39) == 0.25f);
    recipe.schedule = NP_LR_MULTISTEP;
    recipe.milestones = (uint64_t[]){10, 60, 61};
    recipe.milestone_count = 3;
    recipe.gamma = 0.5;
    ck_assert(np_recipe_lr(&recipe, 4) == 0.25f && np_recipe_lr(&recipe, 9) == 0.5f);
    ck_assert(np_recipe_lr(&recipe, 10) == 0.25f && np_recipe_lr(&recipe, 59) == 0.25f);
    ck_assert(np_recipe_lr(&recipe, 60) == 0.125f && np_recipe_lr(&recipe, 61) == 0.0625f);
    ck_assert(np_recipe_lr(&recipe, 1000) == 0.0625f);
    recipe.schedule = NP_LR_STEP;
    recipe.every = 4;
    ck_assert(np_recipe_lr(&recipe, 4) == 0.25f && np_recipe_lr(&recipe, 9) == 0.5f);
    ck_assert(np_recipe_lr(&recipe, 10) == 0.125f && np_recipe_lr(&recipe, 11) == 0.125f);
    ck_assert(np_recipe_lr(&recipe, 12) == 0.0625f && np_recipe_lr(&recipe, 15) == 0.0625f);
    recipe.gamma = 0.97;
    for (uint64_t step = 10; step < 2000; step++) {
        double exact = 0.5 * pow(0.97, (double)(step / 4));
        ck_assert(fabs((double)np_recipe_lr(&recipe, step) - exact) <= exact * 0x1p-23);
    }
    ck_assert(np_recipe_lr(&recipe, UINT64_MAX) == 0.0f);
}
END_TEST

/* Colours are of three channels; a jitter of another number is none. */
START_TEST(test_jitter_of_channels)
{
    const char *sets[] = {"space.input.channels=3",
                          "data.train.jitter={hue: 0.5, saturation: 0.4, contrast: 0}"};
    struct np_error err = {.msg = ""};
    struct np_recipe recipe;
    recipe_text_write(minimal, strlen(minimal));
    ck_assert_int_eq(np_recipe_read(&recipe, recipe_path, sets, 2, &err), NP_OK);
    recipe_text_holds(&recipe, "flip: false, jitter: {saturation: 0.4, hue: 0.5}}\n");
    recipe_text_stable(&recipe);
    np_recipe_clear(&recipe);
    recipe_text_write(minimal, strlen(minimal));
    sets[1] = "data.train.jitter={hue: 0.6}";
    ck_assert_int_eq(np_recipe_read(&recipe, recipe_path, sets, 2, &err), NP_EINPUT);
    ck_assert_ptr_nonnull(strstr(err.msg, "'hue' must be a number in [0, 0.5], not '0.6'"));
    np_recipe_clear(&recipe);
    sets[0] = "space.input.channels=2";
    ck_assert_int_eq(np_recipe_read(&recipe, recipe_path, sets, 2, &err), NP_EINPUT);
    ck_assert_ptr_nonnull(strstr(err.msg, "a 'jitter' is of images of 1 or 3 channels, not 2"));
    np_recipe_clear(&recipe);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recipe_train");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, test_said);
    tcase_add_test(tests, test_refused);
    tcase_add_test(tests, test_learning_rate);
    tcase_add_test(tests, test_jitter_of_channels);
    return recipe_text_run(suite);
}
