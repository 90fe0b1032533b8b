/* What each operator is called and which fields of struct np_layer_spec it has: the one table that
 * reading, canonical text and kind names share.
 */
#ifndef NP_SPACE_OP_FIELDS_H
#define NP_SPACE_OP_FIELDS_H

#include "space/recipe.h"

enum np_op_role { NP_ROLE_STEM, NP_ROLE_CHOICE, NP_ROLE_HEAD };

struct np_op_fields {
    const char *name;
    enum np_op_role role;
    bool heads, ratio, act, kernel, dropout;
};

#define NP_OP_COUNT (NP_OP_LM + 1)
#define NP_ACT_COUNT (NP_ACT_SWISH + 1)

const struct np_op_fields *np_op_fields(enum np_op op);

#endif
