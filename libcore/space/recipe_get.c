#include <string.h>

#include "space/recipe_internal.h"

enum np_status np_recipe_get_int(const struct np_yaml_node *node, int *out, int min, int max,
                                 struct np_error *err)
{
    int64_t value = *out;
    enum np_status status = np_yaml_get_int(node, &value, min, max, err);
    if (status == NP_OK)
        *out = (int)value;
    return status;
}

enum np_status np_recipe_get_double(const struct np_yaml_node *node, double *out, double min,
                                    double max, enum np_yaml_ends ends, struct np_error *err)
{
    enum np_status status = np_yaml_get_double(node, out, min, max, ends, err);
    if (status == NP_OK && *out == 0.0)
        *out = 0.0; /* -0 is the same recipe */
    return status;
}

enum np_status np_recipe_get_fraction(const struct np_yaml_node *node, double *out,
                                      struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_recipe_get_double(node, out, 0.0, 1.0, NP_YAML_OPEN_MAX, err));
    if ((float)*out >= 1.0f)
        NP_TRY(np_yaml_fail(node, err, "'%s' is 1 in single precision", node->key));
out:
    return status;
}

enum np_status np_recipe_get_word(const struct np_yaml_node *node, const char **word, size_t max,
                                  struct np_error *err)
{
    enum np_status status;
    *word = "";
    NP_TRY(np_yaml_get_string(node, word, err));
    if (node->kind != NP_YAML_ABSENT && (**word == '\0' || strlen(*word) > max))
        NP_TRY(np_yaml_fail(node, err, "'%s' must have 1 to %zu bytes", node->key, max));
out:
    return status;
}

enum np_status np_recipe_get_name(const struct np_yaml_node *node, int *out,
                                  const struct np_names *names, struct np_error *err)
{
    return np_yaml_get_word(node, out, names->name, names->count, err);
}
