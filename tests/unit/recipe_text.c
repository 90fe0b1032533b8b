#include "recipe_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "suite.h"

char recipe_path[] = "/tmp/np-recipe-XXXXXX"; /* made once, before any test runs */

int recipe_text_run(Suite *suite)
{
    int fd = mkstemp(recipe_path);
    if (fd < 0 || close(fd) != 0)
        return EXIT_FAILURE;
    int result = suite_run(suite);
    unlink(recipe_path);
    return result;
}

void recipe_text_write(const char *text, size_t count)
{
    suite_write_bytes(recipe_path, text, count);
}

void recipe_text_read(struct np_recipe *recipe, const char *text)
{
    struct np_error err = {.msg = ""};
    recipe_text_write(text, strlen(text));
    ck_assert_msg(np_recipe_read(recipe, recipe_path, NULL, 0, &err) == NP_OK, "%s", err.msg);
}

void recipe_text_holds(const struct np_recipe *recipe, const char *text)
{
    ck_assert_msg(strstr(recipe->canonical, text) != NULL, "no\n%s\nin\n%s", text,
                  recipe->canonical);
}

void recipe_text_stable(const struct np_recipe *recipe)
{
    struct np_recipe again;
    recipe_text_read(&again, recipe->canonical);
    ck_assert_str_eq(again.canonical, recipe->canonical);
    ck_assert(np_digest_equal(&again.digest, &recipe->digest));
    np_recipe_clear(&again);
}
