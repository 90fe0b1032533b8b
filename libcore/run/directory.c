#include "run/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/text.h"
#include "io/file.h"
#include "io/yaml.h"
#include "run/products_file.h"

/* In the order in which they are made. */
static const char *const parts[] = {"objects", "checkpoints", "recipe.yaml", NP_PRODUCTS_FILE,
                                    "run.json"};
enum { PARTS = sizeof parts / sizeof *parts };

/* A lock of the directory itself leaves no file behind, and none that is stale. File systems that
 * know no locks are used without. */
enum np_status np_run_dir_open(struct np_run_dir *dir, const char *run, struct np_error *err)
{
    int fd = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return np_fail_errno(err, "cannot open '%s'", np_text_safe(run).s);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(fd);
        return np_fail(err, NP_EINPUT, "'%s' is in use by another process", np_text_safe(run).s);
    }
    *dir = (struct np_run_dir){.open = true, .fd = fd};
    return NP_OK;
}

void np_run_dir_close(struct np_run_dir *dir)
{
    if (dir->open)
        close(dir->fd);
    dir->open = false;
}

static enum np_status make_part(const char *run, int part, const char *text, size_t bytes,
                                struct np_error *err)
{
    char *path = NULL;
    enum np_status status;
    NP_TRY(np_file_join(&path, run, parts[part], err));
    status = text ? np_file_write(path, text, bytes, err) : np_file_make_dir(path, err);
out:
    free(path);
    return status;
}

static void unmake(const char *run)
{
    for (int part = 0; part < PARTS; part++) {
        char *path = NULL;
        if (np_file_join(&path, run, parts[part], NULL) == NP_OK)
            remove(path);
        free(path);
    }
    remove(run);
}

enum np_status np_run_dir_create(struct np_run_dir *dir, const char *run,
                                 const struct np_recipe *recipe, const char *provenance,
                                 const struct np_products *products, struct np_error *err)
{
    struct np_buf list = {NULL, 0, 0};
    enum np_status status;
    bool exists;
    NP_TRY(np_file_exists(&exists, run, err));
    if (exists)
        return np_fail(err, NP_EINPUT, "'%s' exists; --resume continues a run",
                       np_text_safe(run).s);
    if (products)
        NP_TRY(np_products_write(products, &list, err));
    NP_TRY(np_file_make_dir(run, err));
    status = np_run_dir_open(dir, run, err);
    if (status == NP_OK)
        status = make_part(run, 0, NULL, 0, err);
    if (status == NP_OK)
        status = make_part(run, 1, NULL, 0, err);
    if (status == NP_OK)
        status = make_part(run, 2, recipe->canonical, recipe->canonical_bytes, err);
    if (status == NP_OK && products)
        status = make_part(run, 3, list.text, list.used, err);
    if (status == NP_OK)
        status = make_part(run, 4, provenance, strlen(provenance), err);
    if (status != NP_OK)
        unmake(run);
out:
    np_buf_clear(&list);
    return status;
}

/* *same: whether the run's recipe.yaml is that of this recipe; *there: whether it is there. */
static enum np_status compare_recipe(const char *path, const struct np_recipe *recipe, bool *there,
                                     bool *same, struct np_error *err)
{
    char *text = NULL;
    size_t bytes;
    enum np_status status;
    *same = false;
    NP_TRY(np_file_exists(there, path, err));
    if (*there) {
        NP_TRY(np_file_read(&text, &bytes, path, NP_YAML_MAX_BYTES, err));
        *same = bytes == recipe->canonical_bytes && memcmp(text, recipe->canonical, bytes) == 0;
    }
out:
    free(text);
    return status;
}

enum np_status np_run_dir_check_recipe(const char *run, const struct np_recipe *recipe,
                                       struct np_error *err)
{
    char *path = NULL;
    bool there, same;
    enum np_status status;
    NP_TRY(np_file_join(&path, run, "recipe.yaml", err));
    NP_TRY(compare_recipe(path, recipe, &there, &same, err));
    if (!there)
        status =
            np_fail(err, NP_EINPUT, "'%s' holds no checkpoint to resume from", np_text_safe(run).s);
    else if (!same)
        status = np_fail(err, NP_EINPUT, "%s: the run was made with another recipe",
                         np_text_safe(path).s);
out:
    free(path);
    return status;
}

enum np_status np_run_dir_mend_recipe(const char *run, const struct np_recipe *recipe,
                                      struct np_error *err)
{
    char *path = NULL;
    bool there, same;
    enum np_status status;
    NP_TRY(np_file_join(&path, run, "recipe.yaml", err));
    NP_TRY(compare_recipe(path, recipe, &there, &same, err));
    if (!same)
        NP_TRY(np_file_write(path, recipe->canonical, recipe->canonical_bytes, err));
out:
    free(path);
    return status;
}
