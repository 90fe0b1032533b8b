#include "space/recipe.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "space/recipe_internal.h"

/* Whether something can be had that computes it is found out later. */
static enum np_status read_numerics(struct np_recipe *recipe, const struct np_yaml_node *node,
                                    struct np_error *err)
{
    const char *names[NP_NUMERICS_COUNT];
    struct np_buf place = {NULL, 0, 0};
    enum np_status status;
    int which = 0;
    for (int i = 0; i < NP_NUMERICS_COUNT; i++)
        names[i] = np_numerics_list[i].name;
    NP_TRY(np_yaml_get_word(node, &which, names, NP_NUMERICS_COUNT, err));
    recipe->numerics = &np_numerics_list[which];
    NP_TRY(np_buf_printf(&place, err, "%s", node->place));
    if (node->line)
        NP_TRY(np_buf_printf(&place, err, ":%u:%u", node->line, node->column));
    recipe->numerics_place = place.text;
    return NP_OK;
out:
    np_buf_clear(&place);
    return status;
}

static enum np_status read_heading(struct np_recipe *recipe, struct np_yaml_map *root,
                                   struct np_error *err)
{
    const struct np_yaml_node *format = np_yaml_need(root, "naspipe");
    const char *name;
    enum np_status status;
    NP_TRY(np_yaml_get_string(format, &name, err));
    if (strcmp(name, "recipe/1") != 0)
        NP_TRY(np_yaml_fail(format, err, "this is '%s', not 'recipe/1'", np_text_safe(name).s));
    NP_TRY(np_yaml_get_uint(np_yaml_find(root, "seed"), &recipe->seed, 0, UINT64_MAX, err));
    NP_TRY(read_numerics(recipe, np_yaml_find(root, "numerics"), err));
out:
    return status;
}

static enum np_status read_sections(struct np_recipe *recipe, const struct np_yaml_node *node,
                                    struct np_error *err)
{
    struct np_yaml_map root;
    enum np_status status;
    NP_TRY(np_yaml_get_map(node, &root, err));
    NP_TRY(read_heading(recipe, &root, err));
    NP_TRY(np_recipe_read_space(recipe, np_yaml_need(&root, "space"), err));
    NP_TRY(np_recipe_read_data(recipe, np_yaml_need(&root, "data"), err));
    NP_TRY(np_recipe_read_policies(recipe, &root, err));
    NP_TRY(np_recipe_read_train(recipe, np_yaml_need(&root, "train"), err));
    NP_TRY(np_yaml_map_finish(&root, err));
    if (recipe->sampler == NP_SAMPLER_SANDWICH)
        NP_TRY(np_recipe_find_ends(recipe, err));
out:
    return status;
}

/* "." for standard input and names without a slash. */
static enum np_status keep_path(struct np_recipe *recipe, const char *path, struct np_error *err)
{
    const char *slash = strrchr(path, '/');
    enum np_status status;
    NP_TRY(np_strdup(&recipe->path, path, err));
    NP_TRY(np_strdup(&recipe->directory, slash ? path : ".", err));
    if (slash)
        recipe->directory[slash == path ? 1 : slash - path] = '\0';
out:
    return status;
}

static enum np_status digest_text(struct np_digest *digest, const struct np_recipe *recipe,
                                  struct np_error *err)
{
    struct np_buf buf = {0};
    enum np_status status;
    NP_TRY(np_recipe_write(recipe, &buf, err));
    NP_TRY(np_digest_compute(digest, buf.text, buf.used, err));
out:
    np_buf_clear(&buf);
    return status;
}

/* What a run keeps of the recipe must be read again, and can be far longer than what was written
 * by hand. A value is three bytes of it or more. */
static enum np_status check_size(const struct np_buf *canonical, const char *path,
                                 struct np_error *err)
{
    struct np_yaml doc = {0};
    struct np_error why;
    enum np_status status;
    if (canonical->used < 2 * (size_t)NP_YAML_MAX_NODES)
        return NP_OK;
    status = np_yaml_read_memory(&doc, canonical->text, canonical->used, "recipe.yaml", &why);
    np_yaml_clear(&doc);
    if (status != NP_OK)
        return np_fail(err, status, "%s: too large, with every default written out: %s", path,
                       why.msg);
    return NP_OK;
}

static enum np_status make_canonical(struct np_recipe *recipe, struct np_error *err)
{
    struct np_recipe bare = *recipe;
    struct np_buf buf = {0};
    enum np_status status;
    bare.has_init = false;
    NP_TRY(np_recipe_write(recipe, &buf, err));
    NP_TRY(check_size(&buf, recipe->path, err));
    NP_TRY(np_digest_compute(&recipe->digest, buf.text, buf.used, err));
    NP_TRY(digest_text(&recipe->planned, &bare, err));
    recipe->canonical = buf.text;
    recipe->canonical_bytes = buf.used;
    return NP_OK;
out:
    np_buf_clear(&buf);
    return status;
}

enum np_status np_recipe_set_init(struct np_recipe *recipe, const struct np_digest *init,
                                  struct np_error *err)
{
    struct np_recipe other = *recipe;
    enum np_status status;
    other.has_init = true;
    other.init = *init;
    NP_TRY(make_canonical(&other, err));
    free(recipe->canonical);
    *recipe = other;
out:
    return status;
}

enum np_status np_recipe_training(struct np_digest *digest, const struct np_recipe *recipe,
                                  struct np_error *err)
{
    struct np_recipe copy = *recipe; /* its valid_data.files are not looked at */
    copy.valid_data.given = false;
    copy.calibration = 0;
    copy.has_init = false;
    return digest_text(digest, &copy, err);
}

enum np_status np_recipe_read(struct np_recipe *recipe, const char *path, const char *const *sets,
                              size_t set_count, struct np_error *err)
{
    bool standard = strcmp(path, "-") == 0;
    struct np_yaml doc = {0};
    enum np_status status;
    memset(recipe, 0, sizeof *recipe);
    NP_TRY(keep_path(recipe, standard ? "<stdin>" : path, err));
    NP_TRY(standard ? np_yaml_read_fd(&doc, STDIN_FILENO, recipe->path, err)
                    : np_yaml_read(&doc, path, err));
    for (size_t i = 0; i < set_count; i++)
        NP_TRY(np_yaml_set(&doc, sets[i], err));
    NP_TRY(read_sections(recipe, doc.root, err));
    NP_TRY(make_canonical(recipe, err));
out:
    np_yaml_clear(&doc);
    if (status != NP_OK)
        np_recipe_clear(recipe);
    return status;
}

static void clear_data(struct np_data_spec *data)
{
    for (int i = 0; i < data->file_count; i++)
        free(data->files[i]);
    free(data->files);
}

static void clear_words(char **words, int count)
{
    for (int i = 0; i < count; i++)
        free(words[i]);
    free(words);
}

void np_recipe_clear(struct np_recipe *recipe)
{
    if (!recipe)
        return;
    free(recipe->path);
    free(recipe->directory);
    clear_data(&recipe->train_data);
    clear_data(&recipe->valid_data);
    for (int i = 0; i < recipe->list_count; i++)
        free(recipe->lists[i]);
    free(recipe->lists);
    free(recipe->depths);
    free(recipe->blocks);
    clear_words(recipe->names, recipe->name_count);
    clear_words(recipe->ties, recipe->tie_count);
    free(recipe->numerics_place);
    free(recipe->milestones);
    free(recipe->canonical);
    memset(recipe, 0, sizeof *recipe);
}
