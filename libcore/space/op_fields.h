/* What each operator is called, where it may stand, and which keys it has: the one table that
 * reading, canonical text and kind names share.
 */
#ifndef NP_SPACE_OP_FIELDS_H
#define NP_SPACE_OP_FIELDS_H

#include "space/recipe.h"

enum np_op_role { NP_ROLE_STEM, NP_ROLE_CHOICE, NP_ROLE_HEAD };

/* Keys of a layer, in the order in which texts give them. */
enum np_field {
    NP_FIELD_KERNEL,
    NP_FIELD_STRIDE,
    NP_FIELD_DILATION,
    NP_FIELD_GROUPS,
    NP_FIELD_HIDDEN, /* which heads divide */
    NP_FIELD_HEADS,
    NP_FIELD_KV_HEADS, /* which divide heads */
    NP_FIELD_MEMORY,
    NP_FIELD_MASK,
    NP_FIELD_RATIO,
    NP_FIELD_EXPAND,
    NP_FIELD_SE,
    NP_FIELD_XCEPTION,
    NP_FIELD_FEATURES,
    NP_FIELD_NORM,
    NP_FIELD_ACT,
    NP_FIELD_BIAS,
    NP_FIELD_POSITIONS,
    NP_FIELD_BASE,
    NP_FIELD_DROPOUT,
    NP_FIELD_DROP_PATH,
    NP_FIELD_COUNT
};

/* Whether the channels of an operator's output are those of its input, each by itself as wide. */
enum np_keeps {
    NP_KEEPS_NOTHING,
    NP_KEEPS_EQUAL, /* where its block makes as many; else it makes others of them */
    NP_KEEPS_CHANNELS,
    NP_KEEPS_SHAPE
};

#define NP_BIT(i) (1u << (i))

struct np_op_fields {
    enum np_op op;
    enum np_op_role role;
    const char *name;
    unsigned inputs; /* bits of enum np_input_kind: where it may stand */
    unsigned fields; /* bits of enum np_field */
    unsigned norms;  /* bits of enum np_norm: those it may have */
    enum np_keeps keeps;
    int kernel; /* the defaults */
    int dilation;
    enum np_norm norm;
    enum np_act act;
};

#define NP_OP_COUNT (NP_OP_CLASSIFIER + 1)
#define NP_ACT_COUNT (NP_ACT_HSIGMOID + 1)
#define NP_NORM_COUNT (NP_NORM_OF_RMS + 1)

/* The i-th row, in the order in which messages list operators; NULL past the last. */
const struct np_op_fields *np_op_row(size_t i);
/* NULL: the operator has no such role. */
const struct np_op_fields *np_op_fields(enum np_op op, enum np_op_role role);

static inline bool np_op_has(const struct np_op_fields *op, enum np_field field)
{
    return (op->fields & NP_BIT(field)) != 0;
}

/* Has one number as its kernel, of any size. */
static inline bool np_op_of_sequences(const struct np_op_fields *op)
{
    return !(op->inputs & NP_BIT(NP_INPUT_IMAGES));
}

const char *np_field_name(enum np_field field);
const char *np_norm_name(enum np_norm norm);
const char *np_positions_name(enum np_positions positions);

/* Where a key's value stands if it is a whole number; else NULL. */
int *np_field_int(struct np_layer_spec *spec, enum np_field field);
/* Canonical text leaves the key out: another one stands for it (hidden for ratio and expand, or
 * they for hidden), or there was none when texts without it got their digests. */
bool np_field_is_absent(const struct np_op_fields *op, const struct np_layer_spec *spec,
                        enum np_field field);

/* The channels between convolutions, of a layer that makes `out`, where they are no multiple. */
int np_hidden_of(const struct np_layer_spec *spec, int out);

/* The value of a key as text, a kernel of [3, 5] as 3x5 if `plain`; the memory's name is not here.
 * False if it is the value that goes without saying in a name. */
#define NP_FIELD_TEXT 48
bool np_field_text(char *out, const struct np_op_fields *op, const struct np_layer_spec *spec,
                   enum np_field field, bool plain);

#endif
