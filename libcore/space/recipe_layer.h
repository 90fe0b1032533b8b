/* One layer of a recipe: a candidate, the stem or the head.
 *
 * Its operator says which keys it has (space/op_fields.h); then it is checked against every place
 * where it stands, because the blocks of a `repeat` and of a cell share their candidates.
 */
#ifndef NP_SPACE_RECIPE_LAYER_H
#define NP_SPACE_RECIPE_LAYER_H

#include "space/op_fields.h"
#include "space/recipe_internal.h"
#include "space/shapes.h"

/* What a layer reads and makes; stride as in the recipe, 1 of sequences. */
struct np_place {
    struct np_shape in, out;
    int stride;
    const struct np_block *x; /* that makes `in`; NULL: the stem, or nothing */
};

struct np_layer_context {
    const struct np_recipe *recipe;
    enum np_op_role role;
    struct np_place places[2];
    int place_count;
    const struct np_block *block; /* that the layer is a candidate of, and which; NULL: of none */
    int candidate;
    const char *const *names;        /* of the blocks that may be a memory */
    const struct np_shape *memories; /* their values */
    size_t name_count;
    int memory;       /* out, index of a name, -1 none: of all candidates that are read */
    const char *name; /* out: the stem's, "" if it has none */
    bool batch_norm;  /* out: there is one somewhere */
};

/* A layer in one of its places; node and map are what a message blames. */
struct np_layer_fit {
    const struct np_recipe *recipe;
    const struct np_op_fields *op;
    const struct np_layer_spec *spec;
    const struct np_place *place;
    const struct np_shape *memory; /* NULL: none */
    struct np_yaml_map *map;
    const struct np_yaml_node *node;
};

/* Refuses what does not fit; *batch_norm is set if the layer has one there. */
enum np_status np_recipe_fit_layer(const struct np_layer_fit *fit, bool *batch_norm,
                                   struct np_error *err);

/* Fills in a zeroed spec. */
enum np_status np_recipe_read_layer(struct np_layer_spec *spec, const struct np_yaml_node *node,
                                    struct np_layer_context *context, struct np_error *err);

#endif
