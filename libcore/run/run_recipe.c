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

enum np_status np_run_recipe_differs(const char *path, const char *run,
                                     const struct np_recipe *recipe, struct np_error *err)
{
    struct np_error no;
    char *text = NULL;
    size_t at;
    if (read_text(&text, run, &no) != NP_OK || strcmp(text, recipe->canonical) == 0) {
        np_fail(err, NP_EINPUT, "%s: the run was made with another recipe", np_text_safe(path).s);
    } else {
        at = difference(text, recipe->canonical);
        np_fail(err, NP_EINPUT, "%s: the run was made with another recipe: it has '%s', not '%s'",
                np_text_safe(path).s, first_line(text + at).s,
                first_line(recipe->canonical + at).s);
    }
    free(text);
    return NP_EINPUT;
}

enum np_status np_run_recipe_digest(struct np_digest *digest, const char *run,
                                    const struct np_recipe *recipe, struct np_error *err)
{
    struct np_recipe trained = {.path = NULL};
    struct np_digest ours, theirs;
    struct np_error no;
    char *path = NULL;
    enum np_status status;
    *digest = recipe->digest;
    NP_TRY(np_file_join(&path, run, "recipe.yaml", err));
    if (np_recipe_read(&trained, path, NULL, 0, &no) != NP_OK)
        goto out; /* who looks for that digest says what is wrong */
    NP_TRY(np_recipe_training(&ours, recipe, err));
    NP_TRY(np_recipe_training(&theirs, &trained, err));
    if (np_digest_equal(&ours, &theirs))
        *digest = trained.digest;
out:
    np_recipe_clear(&trained);
    free(path);
    return status;
}
