/* The run directory as a whole: made at once or not at all, and held by one process at a time.
 *
 * Errors    NP_EINPUT: it exists (create), another process holds it (create, open), it belongs to
 *           another recipe (check); NP_EIO.
 * Ownership the lock ends with np_run_dir_close, or with the process however that ends.
 */
#ifndef NP_RUN_DIRECTORY_H
#define NP_RUN_DIRECTORY_H

#include <stdbool.h>

#include "num/products.h"
#include "space/recipe.h"

struct np_run_dir {
    bool open, locked; /* not where the file system knows no locks */
    int fd, file;      /* its run.json; -1: there is none, or it may not be written */
};

/* A new run directory that holds recipe, provenance and, unless NULL, the list of products as it
 * is; nothing is left of one that fails. */
enum np_status np_run_dir_create(struct np_run_dir *dir, const char *run,
                                 const struct np_recipe *recipe, const char *provenance,
                                 const struct np_products *products, struct np_error *err);
/* One that exists. */
enum np_status np_run_dir_open(struct np_run_dir *dir, const char *run, struct np_error *err);
void np_run_dir_close(struct np_run_dir *dir);
/* Removes what processes that were killed had begun to write aside, if no other can be writing. */
void np_run_dir_sweep(const struct np_run_dir *dir, const char *run);

/* Whether a run keeps, or may come to keep, something of that name. */
bool np_run_dir_names(const char *name);
/* Whether a path is, or would be, one of the files that a run keeps, or lies among its objects or
 * checkpoints; links are followed. */
bool np_run_dir_keeps(const char *run, const char *path);

/* A run that was ended before its first checkpoint may begin again, if it has this recipe. */
enum np_status np_run_dir_check_recipe(const char *run, const struct np_recipe *recipe,
                                       struct np_error *err);
/* The recipe.yaml of a run that has this recipe is made again if it is lost or damaged. */
enum np_status np_run_dir_mend_recipe(const char *run, const struct np_recipe *recipe,
                                      struct np_error *err);

/* Makes what is missing of one whose making was cut short: of one without a run.json, which comes
 * last, without anything that a run adds to it, and without another recipe. */
enum np_status np_run_dir_finish(struct np_run_dir *dir, const char *run,
                                 const struct np_recipe *recipe, const char *provenance,
                                 const struct np_products *products, struct np_error *err);

#endif
