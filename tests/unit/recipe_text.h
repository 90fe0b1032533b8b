/* Recipes that a test writes into a file and reads back. */
#ifndef NP_TEST_RECIPE_TEXT_H
#define NP_TEST_RECIPE_TEXT_H

#include <check.h>

#include "space/recipe.h"

/* The file. */
extern char recipe_path[];

/* suite_run, with such a file. */
int recipe_text_run(Suite *suite);

void recipe_text_write(const char *text, size_t count);
void recipe_text_read(struct np_recipe *recipe, const char *text);

/* The canonical text has this in it. */
void recipe_text_holds(const struct np_recipe *recipe, const char *text);

/* The canonical text is a recipe, and its own canonical text. */
void recipe_text_stable(const struct np_recipe *recipe);

#endif
