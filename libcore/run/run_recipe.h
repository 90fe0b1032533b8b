/* The recipe.yaml of a run, and how another recipe differs.
 *
 * Errors    NP_EINPUT; NP_EIO; NP_EMEM.
 */
#ifndef NP_RUN_RUN_RECIPE_H
#define NP_RUN_RUN_RECIPE_H

#include "space/recipe.h"

/* Reads it. Zeroed after an error. */
enum np_status np_run_recipe_read(struct np_recipe *recipe, const char *run, struct np_error *err);

/* NP_EINPUT, of the file `path`: the run was made with another recipe than this. Says where they
 * differ first, if recipe.yaml is there. */
enum np_status np_run_recipe_differs(const char *path, const char *run,
                                     const struct np_recipe *recipe, struct np_error *err);

/* Gives a recipe that has none the train.init of the run's, if they differ in nothing else. */
enum np_status np_run_recipe_adopt_init(struct np_recipe *recipe, const char *run,
                                        struct np_error *err);

/* The digest that the run's recipe must have to have trained what `recipe` does: its own, or
 * recipe.yaml's, where the two differ in nothing but what evaluations look at, data.valid and
 * train.calibration, and the weights that the run has begun with, train.init. */
enum np_status np_run_recipe_digest(struct np_digest *digest, const char *run,
                                    const struct np_recipe *recipe, struct np_error *err);

#endif
