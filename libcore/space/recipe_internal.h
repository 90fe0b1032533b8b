/* Between the files that make a recipe: one reader a section, then the canonical text.
 *
 * Sections are read in the order of this list; later ones may look at what earlier ones filled in.
 * Errors:    NP_EINPUT with file:line:column; NP_EMEM.
 * Ownership: what is filled in belongs to the recipe, also after a failure.
 */
#ifndef NP_SPACE_RECIPE_INTERNAL_H
#define NP_SPACE_RECIPE_INTERNAL_H

#include "base/buf.h"
#include "io/yaml.h"
#include "space/recipe.h"

enum np_status np_recipe_read_space(struct np_recipe *recipe, const struct np_yaml_node *node,
                                    struct np_error *err);
/* Of the space: its blocks; *batch_norm is set if some layer has one. */
enum np_status np_recipe_read_blocks(struct np_recipe *recipe, const struct np_yaml_node *node,
                                     const char *stem_name, bool *batch_norm, struct np_error *err);
enum np_status np_recipe_read_data(struct np_recipe *recipe, const struct np_yaml_node *node,
                                   struct np_error *err);
enum np_status np_recipe_read_policies(struct np_recipe *recipe, struct np_yaml_map *root,
                                       struct np_error *err);
enum np_status np_recipe_read_train(struct np_recipe *recipe, const struct np_yaml_node *node,
                                    struct np_error *err);

/* For the sampler sandwich, once all else of the space is known. */
enum np_status np_recipe_find_ends(struct np_recipe *recipe, struct np_error *err);

/* Appends the canonical text of a checked recipe; of its space. */
enum np_status np_recipe_write_space(struct np_buf *buf, const struct np_recipe *recipe,
                                     struct np_error *err);
enum np_status np_recipe_write(const struct np_recipe *recipe, struct np_buf *buf,
                               struct np_error *err);

/* np_yaml_get_int for an int, np_yaml_get_double without -0. */
enum np_status np_recipe_get_int(const struct np_yaml_node *node, int *out, int min, int max,
                                 struct np_error *err);
enum np_status np_recipe_get_double(const struct np_yaml_node *node, double *out, double min,
                                    double max, enum np_yaml_ends ends, struct np_error *err);
/* A number in [0, 1), as a float below 1, too. */
enum np_status np_recipe_get_fraction(const struct np_yaml_node *node, double *out,
                                      struct np_error *err);

/* The words of enumerations, in their order: one list for reading and writing. */
#define NP_NAMES_MAX 7
struct np_names {
    const char *name[NP_NAMES_MAX];
    size_t count;
};
extern const struct np_names np_names_input, np_names_padding, np_names_data, np_names_sampler,
    np_names_optimizer, np_names_schedule, np_names_clip, np_names_order, np_names_jitter;

/* A name that the recipe gives, of 1 to max bytes; "" if the key is absent. */
#define NP_MAX_NAME 64
enum np_status np_recipe_get_word(const struct np_yaml_node *node, const char **word, size_t max,
                                  struct np_error *err);

/* np_yaml_get_word from such a list. */
enum np_status np_recipe_get_name(const struct np_yaml_node *node, int *out,
                                  const struct np_names *names, struct np_error *err);

#endif
