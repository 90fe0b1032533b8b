#include "run/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "io/file.h"
#include "io/yaml.h"
#include "run/products_file.h"
#include "run/run_recipe.h"
#include "run/subnets_file.h"

/* In the order in which they are made. */
static const char *const parts[] = {"objects", "checkpoints", "recipe.yaml", NP_PRODUCTS_FILE,
                                    "run.json"};
enum { PARTS = sizeof parts / sizeof *parts };

static enum np_status in_use(const char *run, struct np_error *err)
{
    return np_fail(err, NP_EINPUT, "'%s' is in use by another process", np_text_safe(run).s);
}

/* False, and errno, where another process has the lock, which is EACCES where locks are a server's
 * (CIFS) and here EWOULDBLOCK, or there are none. */
static bool lock(int fd)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    errno = errno == EACCES ? EWOULDBLOCK : errno;
    return false;
}

/* A network's file systems that know locks of directories on one machine only know a file's on all
 * of them. A run that cannot be locked so, as it has none yet or may not be written, is not. */
static enum np_status lock_file(struct np_run_dir *dir, const char *run, struct np_error *err)
{
    int fd = openat(dir->fd, parts[PARTS - 1], O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NP_OK;
    if (!lock(fd) && errno == EWOULDBLOCK) {
        close(fd);
        return in_use(run, err);
    }
    dir->file = fd;
    return NP_OK;
}

/* A lock of the directory itself is there from its making on, and leaves no file behind. File
 * systems that know no locks are used without. */
enum np_status np_run_dir_open(struct np_run_dir *dir, const char *run, struct np_error *err)
{
    int fd = np_file_fd(run, O_RDONLY | O_DIRECTORY);
    enum np_status status;
    if (fd < 0)
        return np_fail_errno(err, "cannot open '%s'", np_text_safe(run).s);
    *dir = (struct np_run_dir){.open = true, .locked = lock(fd), .fd = fd, .file = -1};
    if (!dir->locked && errno == EWOULDBLOCK)
        status = in_use(run, err);
    else
        status = lock_file(dir, run, err);
    if (status != NP_OK)
        np_run_dir_close(dir);
    return status;
}

void np_run_dir_close(struct np_run_dir *dir)
{
    if (dir->open && dir->file >= 0)
        close(dir->file);
    if (dir->open)
        close(dir->fd);
    dir->open = false;
}

void np_run_dir_sweep(const struct np_run_dir *dir, const char *run)
{
    if (!dir->locked)
        return;
    np_file_sweep(run);
    for (int part = 0; part < 2; part++) { /* objects, checkpoints */
        char *path = NULL;
        if (np_file_join(&path, run, parts[part], NULL) == NP_OK)
            np_file_sweep(path);
        free(path);
    }
}

/* One part, unless it is there. */
static enum np_status make_part(const char *run, int part, const char *text, size_t bytes,
                                struct np_error *err)
{
    char *path = NULL;
    bool exists;
    enum np_status status;
    NP_TRY(np_file_join(&path, run, parts[part], err));
    NP_TRY(np_file_exists(&exists, path, err));
    if (!exists)
        status = text ? np_file_write(path, text, bytes, err) : np_file_make_dir(path, err);
out:
    free(path);
    return status;
}

static enum np_status make_parts(const char *run, const struct np_recipe *recipe,
                                 const char *provenance, const struct np_products *products,
                                 struct np_error *err)
{
    struct np_buf list = {NULL, 0, 0};
    enum np_status status;
    if (products)
        NP_TRY(np_products_write(products, &list, err));
    NP_TRY(make_part(run, 0, NULL, 0, err));
    NP_TRY(make_part(run, 1, NULL, 0, err));
    NP_TRY(make_part(run, 2, recipe->canonical, recipe->canonical_bytes, err));
    if (products)
        NP_TRY(make_part(run, 3, list.text, list.used, err));
    NP_TRY(make_part(run, 4, provenance, strlen(provenance), err));
out:
    np_buf_clear(&list);
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
    enum np_status status;
    bool exists;
    NP_TRY(np_file_exists(&exists, run, err));
    if (exists)
        return np_fail(err, NP_EINPUT, "'%s' exists; --resume continues a run",
                       np_text_safe(run).s);
    NP_TRY(np_file_make_dir(run, err));
    status = np_run_dir_open(dir, run, err);
    if (status != NP_OK) {
        if (status != NP_EINPUT) /* or another has taken it up */
            rmdir(run);
        goto out;
    }
    status = make_parts(run, recipe, provenance, products, err);
    if (status != NP_OK)
        unmake(run);
    else
        status = lock_file(dir, run, err);
out:
    return status;
}

/* Whether `it` is the directory `name` of the run; NULL: the run's own. */
static bool is_directory(const char *run, const char *name, const struct stat *it)
{
    char *path = NULL;
    struct stat dir;
    bool is = (!name || np_file_join(&path, run, name, NULL) == NP_OK) &&
              stat(name ? path : run, &dir) == 0 && dir.st_dev == it->st_dev &&
              dir.st_ino == it->st_ino;
    free(path);
    return is;
}

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Objects lie in directories of their own; `directory` is of the file, and may change. */
static bool is_among_objects(const char *run, char *directory)
{
    struct stat above;
    return stat(dirname(directory), &above) == 0 && is_directory(run, parts[0], &above);
}

bool np_run_dir_names(const char *name)
{
    static const char *const added[] = {"ledger.tsv", "layers.tsv", "metrics.jsonl",
                                        NP_SUBNETS_FILE};
    return is_one_of(name, parts, PARTS) || is_one_of(name, added, sizeof added / sizeof *added);
}

bool np_run_dir_keeps(const char *run, const char *path)
{
    char *to = np_file_target(path);
    const char *name = to ? strrchr(to, '/') + 1 : "";
    bool its_name = np_run_dir_names(name);
    struct stat above;
    bool keeps = to && stat(dirname(to), &above) == 0 &&
                 (is_directory(run, parts[0], &above) || is_directory(run, parts[1], &above) ||
                  (its_name && is_directory(run, NULL, &above)) || is_among_objects(run, to));
    free(to);
    return keeps;
}

/* What a run's recipe.yaml is. */
enum recipe_there { RECIPE_LOST, RECIPE_OTHER, RECIPE_SAME };

/* *path is where it is, to be freed. */
static enum np_status look_at_recipe(enum recipe_there *is, char **path, const char *run,
                                     const struct np_recipe *recipe, struct np_error *err)
{
    char *text = NULL;
    size_t bytes;
    bool there;
    enum np_status status;
    *is = RECIPE_LOST;
    NP_TRY(np_file_join(path, run, "recipe.yaml", err));
    NP_TRY(np_file_exists(&there, *path, err));
    if (!there)
        return NP_OK;
    NP_TRY(np_file_read_regular(&text, &bytes, *path, NP_YAML_MAX_BYTES, err));
    *is = bytes == recipe->canonical_bytes && memcmp(text, recipe->canonical, bytes) == 0
              ? RECIPE_SAME
              : RECIPE_OTHER;
out:
    free(text);
    return status;
}

enum np_status np_run_dir_check_recipe(const char *run, const struct np_recipe *recipe,
                                       struct np_error *err)
{
    char *path = NULL;
    enum recipe_there is;
    enum np_status status = look_at_recipe(&is, &path, run, recipe, err);
    if (status == NP_OK && is == RECIPE_LOST)
        status =
            np_fail(err, NP_EINPUT, "'%s' holds no checkpoint to resume from", np_text_safe(run).s);
    else if (status == NP_OK && is == RECIPE_OTHER)
        status = np_run_recipe_differs(path, run, recipe, err);
    free(path);
    return status;
}

enum np_status np_run_dir_mend_recipe(const char *run, const struct np_recipe *recipe,
                                      struct np_error *err)
{
    char *path = NULL;
    enum recipe_there is;
    enum np_status status = look_at_recipe(&is, &path, run, recipe, err);
    if (status == NP_OK && is != RECIPE_SAME)
        status = np_file_write(path, recipe->canonical, recipe->canonical_bytes, err);
    free(path);
    return status;
}

/* Whether all that is in it may be there before the last part is. */
static enum np_status is_unfinished(bool *is, const char *run, struct np_error *err)
{
    struct np_file_names names = {0};
    enum np_status status = np_file_list(&names, run, err);
    *is = status == NP_OK;
    for (size_t i = 0; i < names.count; i++) {
        bool known = np_file_is_aside(names.name[i]);
        for (int part = 0; part + 1 < PARTS; part++)
            known = known || strcmp(names.name[i], parts[part]) == 0;
        *is = *is && known;
    }
    np_file_names_clear(&names);
    return status;
}

enum np_status np_run_dir_finish(struct np_run_dir *dir, const char *run,
                                 const struct np_recipe *recipe, const char *provenance,
                                 const struct np_products *products, struct np_error *err)
{
    char *path = NULL;
    enum recipe_there recipe_is;
    bool unfinished;
    enum np_status status;
    NP_TRY(is_unfinished(&unfinished, run, err));
    if (!unfinished)
        return NP_OK;
    NP_TRY(look_at_recipe(&recipe_is, &path, run, recipe, err));
    if (recipe_is == RECIPE_OTHER)
        goto out;
    NP_TRY(make_parts(run, recipe, provenance, products, err));
    status = lock_file(dir, run, err);
out:
    free(path);
    return status;
}
