/* Every recipe in examples/, as it is and damaged. */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "num/philox.h"
#include "recipe_text.h"
#include "space/supernet.h"
#include "suite.h"

/* A text of a file that must be there. */
static void slurp(struct np_buf *buf, const char *name)
{
    char block[4096];
    FILE *file = fopen(name, "r");
    size_t n;
    ck_assert_ptr_nonnull(file);
    while ((n = fread(block, 1, sizeof block, file)) > 0)
        ck_assert_int_eq(np_buf_append(buf, block, n, NULL), NP_OK);
    ck_assert_int_eq(fclose(file), 0);
}

/* Calls `with` for every example. */
static void for_examples(void (*with)(const char *name))
{
    DIR *directory = opendir("examples");
    struct dirent *entry;
    int count = 0;
    if (!directory) {
        fprintf(stderr, "test_examples: SKIPPED: no examples/ here\n");
        return;
    }
    while ((entry = readdir(directory))) {
        char name[300];
        size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 5, ".yaml") != 0)
            continue;
        snprintf(name, sizeof name, "examples/%s", entry->d_name);
        with(name);
        count++;
    }
    closedir(directory);
    ck_assert_int_ge(count, 28);
}

static void round_trip(const char *name)
{
    struct np_recipe recipe;
    struct np_error err = {.msg = ""};
    ck_assert_msg(np_recipe_read(&recipe, name, NULL, 0, &err) == NP_OK, "%s", err.msg);
    recipe_text_stable(&recipe);
    np_recipe_clear(&recipe);
}

START_TEST(every_example_is_its_own_canonical_text)
{
    for_examples(round_trip);
}
END_TEST

/* Reads what became of a recipe: it is one, or is refused with a message. */
static void read_damaged(const struct np_buf *buf)
{
    struct np_recipe recipe;
    struct np_supernet net;
    struct np_error err = {.msg = ""};
    enum np_status status;
    recipe_text_write(buf->text, buf->used);
    status = np_recipe_read(&recipe, recipe_path, NULL, 0, &err);
    if (status == NP_OK) {
        status = np_supernet_init(&net, &recipe, &err);
        if (status == NP_OK)
            recipe_text_stable(&recipe);
        np_supernet_clear(&net);
        np_recipe_clear(&recipe);
    }
    ck_assert(status == NP_OK || (status == NP_EINPUT && err.msg[0]));
}

/* One of many small changes: another byte or digit, a piece left out or said again elsewhere. */
static void damage(struct np_buf *buf, uint64_t i)
{
    static const char bytes[] = "0192 -:,{}[]'\"#\nacost";
    struct np_philox draw = np_draw(np_draw_key(17, NP_DRAW_DELAY, 0, 0, 0), 0, i);
    size_t at = draw.w[0] % buf->used, length = draw.w[1] % 40;
    if (length > buf->used - at)
        length = buf->used - at;
    switch (draw.w[2] % 4) {
    case 0:
        buf->text[at] = bytes[draw.w[3] % (sizeof bytes - 1)];
        break;
    case 1:
        memmove(buf->text + at, buf->text + at + length, buf->used - at - length);
        buf->used -= length;
        break;
    case 2:
        memmove(buf->text + draw.w[3] % (buf->used - length + 1), buf->text + at, length);
        break;
    default:
        while (at < buf->used && (buf->text[at] < '0' || buf->text[at] > '9'))
            at++;
        if (at < buf->used)
            buf->text[at] = (char)('0' + draw.w[3] % 10);
    }
}

static void mutate(const char *name)
{
    struct np_buf original = {0};
    slurp(&original, name);
    if (original.used < 8000) /* the long ones say nothing new */
        for (uint64_t i = 0; i < 150; i++) {
            struct np_buf buf = {0};
            ck_assert_int_eq(np_buf_append(&buf, original.text, original.used, NULL), NP_OK);
            for (uint64_t k = 0; k <= i % 3; k++)
                damage(&buf, 3 * i + k);
            read_damaged(&buf);
            np_buf_clear(&buf);
        }
    np_buf_clear(&original);
}

START_TEST(damaged_examples_are_read_or_refused)
{
    for_examples(mutate);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("examples");
    TCase *tests = suite_case(suite, "examples");
    tcase_add_test(tests, every_example_is_its_own_canonical_text);
    tcase_add_test(tests, damaged_examples_are_read_or_refused);
    return recipe_text_run(suite);
}
