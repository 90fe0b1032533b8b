#include "run/run_recipe.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "io/file.h"
#include "io/yaml.h"

/* A line without what it is indented by, for a message. */
struct line {
    char s[96];
};

static struct line first_line(const char *text)
{
    struct line line;
    size_t length;
    text += strspn(text, " ");
    length = strcspn(text, "\n");
    np_text_escape(line.s, sizeof line.s, text, length);
    return line;
}

/* Where the line begins in which two texts differ first. */
static size_t difference(const char *a, const char *b)
{
    size_t line = 0;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        if (a[i] == '\n')
            line = i + 1;
    return line;
}

static enum np_status read_text(char **text, const char *run, struct np_error *err)
{
    char *path = NULL;
    size_t bytes;
    enum np_status status;
    NP_TRY(np_file_join(&path, run, "recipe.yaml", err));
    NP_TRY(np_file_read_regular(text, &bytes, path, NP_YAML_MAX_BYTES, err));
out:
    free(path);
    return status;
}

enum np_status np_run_recipe_read(struct np_recipe *recipe, const char *run, struct np_error *err)
{
    char *path = NULL, *text = NULL;
    enum np_status status;
    *recipe = (struct np_recipe){.path = NULL};
    NP_TRY(np_file_join(&path, run, "recipe.yaml", err));
    NP_TRY(read_text(&text, run, err)); /* what is no file is not waited for */
    NP_TRY(np_recipe_read(recipe, path, NULL, 0, err));
out:
    free(path);
    free(text);
    return status;
}

enum np_status np_run_recipe_differs(const char *path, const char *run,
                                     const struct np_recipe *recipe, struct np_error *err)
{
    struct np_error no;
    char *text = NULL;
    struct line theirs = {""}, ours = {""};
    if (read_text(&text, run, &no) == NP_OK) {
        size_t at = difference(text, recipe->canonical);
        theirs = first_line(text + at);
        ours = first_line(recipe->canonical + at);
    }
    if (theirs.s[0] && ours.s[0])
        np_fail(err, NP_EINPUT, "%s: the run was made with another recipe: it has '%s', not '%s'",
                np_text_safe(path).s, theirs.s, ours.s);
    else if (theirs.s[0] || ours.s[0])
        np_fail(err, NP_EINPUT, "%s: the run was made with another recipe: it has %s '%s'",
                np_text_safe(path).s, theirs.s[0] ? "also" : "no", theirs.s[0] ? theirs.s : ours.s);
    else
        np_fail(err, NP_EINPUT, "%s: the run was made with another recipe", np_text_safe(path).s);
    free(text);
    return NP_EINPUT;
}

/* The run's recipe, if it is there and is one; if not, who looks for its digest says so. */
static enum np_status peek(struct np_recipe *recipe, bool *there, const char *run,
                           struct np_error *err)
{
    struct np_error why;
    char *path = NULL;
    enum np_status status;
    *recipe = (struct np_recipe){.path = NULL};
    *there = false;
    NP_TRY(np_file_join(&path, run, "recipe.yaml", err));
    NP_TRY(np_file_exists(there, path, err));
    if (!*there)
        goto out;
    status = np_run_recipe_read(recipe, run, &why);
    *there = status == NP_OK;
    status = status == NP_EINPUT ? NP_OK : status;
    if (status != NP_OK)
        np_fail(err, status, "%s", why.msg);
out:
    free(path);
    return status;
}

enum np_status np_run_recipe_adopt_init(struct np_recipe *recipe, const char *run,
                                        struct np_error *err)
{
    struct np_recipe trained;
    bool there;
    enum np_status status = peek(&trained, &there, run, err);
    if (there && trained.has_init && !recipe->has_init &&
        np_digest_equal(&trained.planned, &recipe->planned))
        status = np_recipe_set_init(recipe, &trained.init, err);
    np_recipe_clear(&trained);
    return status;
}

enum np_status np_run_recipe_digest(struct np_digest *digest, const char *run,
                                    const struct np_recipe *recipe, struct np_error *err)
{
    struct np_recipe trained;
    struct np_digest ours, theirs;
    bool there;
    enum np_status status;
    *digest = recipe->digest;
    NP_TRY(peek(&trained, &there, run, err));
    if (!there)
        goto out;
    NP_TRY(np_recipe_training(&ours, recipe, err));
    NP_TRY(np_recipe_training(&theirs, &trained, err));
    if (np_digest_equal(&ours, &theirs))
        *digest = trained.digest;
out:
    np_recipe_clear(&trained);
    return status;
}
