/* The recipe.yaml of a run, held against another recipe.
 *
 * Errors    NP_EINPUT; NP_EMEM.
 */
#ifndef NP_RUN_RUN_RECIPE_H
#define NP_RUN_RUN_RECIPE_H

#include "space/recipe.h"

/* NP_EINPUT, of the file `path`: the run was made with another recipe than this. Says where they
 * differ first, if recipe.yaml is there. */
enum np_status np_run_recipe_differs(const char *path, const char *run,
                                     const struct np_recipe *recipe, struct np_error *err);

/* The digest that the run's recipe must have to have trained what `recipe` does: its own, or
 * recipe.yaml's, where the two differ in nothing but what evaluations look at: data.valid and
 * train.calibration. */
enum np_status np_run_recipe_digest(struct np_digest *digest, const char *run,
                                    const struct np_recipe *recipe, struct np_error *err);

#endif
