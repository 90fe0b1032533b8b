#include "space/op_fields.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define F(name) NP_BIT(NP_FIELD_##name)
#define N(name) NP_BIT(NP_NORM_##name)
#define OP(name) .op = NP_OP_##name, .role = NP_ROLE_CHOICE
#define STEM(name) .op = NP_OP_##name, .role = NP_ROLE_STEM
#define HEAD(name) .op = NP_OP_##name, .role = NP_ROLE_HEAD

enum {
    PAIRS = NP_BIT(NP_INPUT_PAIRS),
    IMAGES = NP_BIT(NP_INPUT_IMAGES),
    SEQUENCES = NP_BIT(NP_INPUT_TOKENS) | PAIRS,
    ANY = SEQUENCES | IMAGES,
    DROPS = F(DROPOUT) | F(DROP_PATH),
    BRANCH = F(NORM) | DROPS,
    POOLED = N(NONE) | N(OF_BATCH),
    STEMS = POOLED | N(OF_GROUPS),
    ROWS = N(OF_LAYER) | N(OF_RMS),
    NORMS = STEMS | ROWS
};

#define SHAPE .keeps = NP_KEEPS_SHAPE
#define CHANNELS .keeps = NP_KEEPS_CHANNELS
#define EQUAL .keeps = NP_KEEPS_EQUAL
/* Defaults stand after the keys; batch norm and kernel 3 are what most have. */
#define BATCH .norm = NP_NORM_OF_BATCH
#define LAYER .norms = ROWS, .norm = NP_NORM_OF_LAYER
#define RELU .act = NP_ACT_RELU
#define SIZE .kernel = 3

/* clang-format off */
static const struct np_op_fields rows[] = {
    {STEM(EMBEDDING), "embedding", SEQUENCES, F(POSITIONS)},
    {STEM(CONV2D), "conv2d", IMAGES, F(KERNEL) | F(STRIDE) | F(NORM) | F(ACT), STEMS,
     SIZE, .dilation = 1, BATCH, RELU},
    {STEM(PATCH), "patch", IMAGES, F(KERNEL) | F(POSITIONS), .kernel = 16},

    {OP(IDENTITY), "identity", ANY, 0, EQUAL},
    {OP(MHA), "mha", ANY,
     F(HEADS) | F(KV_HEADS) | F(HIDDEN) | F(MASK) | F(MEMORY) | F(POSITIONS) | F(BASE) | F(BIAS) |
         BRANCH, LAYER, SHAPE},
    {OP(FFN), "ffn", ANY, F(RATIO) | F(HIDDEN) | F(ACT) | F(BIAS) | BRANCH, LAYER, SHAPE,
     .act = NP_ACT_GELU},
    {OP(GATED_FFN), "gated_ffn", ANY, F(RATIO) | F(HIDDEN) | F(ACT) | F(BIAS) | BRANCH, LAYER,
     SHAPE, .act = NP_ACT_SWISH},
    {OP(GLU), "glu", SEQUENCES, BRANCH, LAYER, SHAPE},
    {OP(CONV1D), "conv1d", SEQUENCES, F(KERNEL) | BRANCH, LAYER, SHAPE, SIZE},
    {OP(SEPCONV1D), "sepconv1d", SEQUENCES, F(KERNEL) | BRANCH, LAYER, SHAPE, SIZE},
    {OP(LIGHTCONV), "lightconv", SEQUENCES, F(KERNEL) | F(HEADS) | BRANCH, LAYER, SHAPE, SIZE},
    {OP(EMBEDDING), "embedding", PAIRS, F(POSITIONS)},

    {OP(CONV2D), "conv2d", IMAGES, F(KERNEL) | F(DILATION) | F(GROUPS) | F(NORM) | F(ACT), NORMS,
     SIZE, .dilation = 1, BATCH, RELU},
    {OP(DWCONV2D), "dwconv2d", IMAGES, F(KERNEL) | F(DILATION) | F(NORM) | F(ACT), NORMS,
     CHANNELS, SIZE, .dilation = 1, BATCH, RELU},
    {OP(RELU_CONV_BN), "relu_conv_bn", IMAGES, F(KERNEL) | F(DILATION), SIZE, .dilation = 1},
    {OP(SEPCONV), "sepconv", IMAGES, F(KERNEL), SIZE},
    {OP(DILCONV), "dilconv", IMAGES, F(KERNEL) | F(DILATION), SIZE, .dilation = 2},
    {OP(RESNET_BASIC), "resnet_basic", IMAGES, F(KERNEL) | F(HIDDEN) | F(ACT) | DROPS, SIZE, RELU},
    {OP(BOTTLENECK), "bottleneck", IMAGES,
     F(KERNEL) | F(GROUPS) | F(HIDDEN) | F(SE) | F(ACT) | DROPS, SIZE, RELU},
    {OP(MBCONV), "mbconv", IMAGES, F(KERNEL) | F(HIDDEN) | F(EXPAND) | F(SE) | F(ACT) | DROPS,
     SIZE, .act = NP_ACT_RELU6},
    {OP(SHUFFLE), "shuffle", IMAGES, F(KERNEL) | F(XCEPTION), EQUAL, SIZE},
    {OP(MAX_POOL), "max_pool", IMAGES, F(KERNEL) | F(NORM), POOLED, CHANNELS, SIZE},
    {OP(AVG_POOL), "avg_pool", IMAGES, F(KERNEL) | F(NORM), POOLED, CHANNELS, SIZE},
    {OP(CONCAT), "concat", IMAGES, F(MEMORY)},
    {OP(ZERO), "zero", IMAGES, 0},
    {OP(NORM), "norm", ANY, F(NORM) | F(ACT), NORMS & ~N(NONE), SHAPE,
     .norm = NP_NORM_OF_LAYER},

    {HEAD(LM), "lm", SEQUENCES, F(NORM), LAYER},
    {HEAD(CLASSIFIER), "classifier", IMAGES,
     F(HIDDEN) | F(FEATURES) | F(NORM) | F(ACT) | F(DROPOUT), POOLED | ROWS, BATCH, RELU},
};
/* clang-format on */

static const char *const field_names[NP_FIELD_COUNT] = {
    [NP_FIELD_KERNEL] = "kernel",       [NP_FIELD_STRIDE] = "stride",
    [NP_FIELD_DILATION] = "dilation",   [NP_FIELD_GROUPS] = "groups",
    [NP_FIELD_HEADS] = "heads",         [NP_FIELD_KV_HEADS] = "kv_heads",
    [NP_FIELD_MEMORY] = "memory",       [NP_FIELD_MASK] = "mask",
    [NP_FIELD_RATIO] = "ratio",         [NP_FIELD_HIDDEN] = "hidden",
    [NP_FIELD_EXPAND] = "expand",       [NP_FIELD_SE] = "se",
    [NP_FIELD_XCEPTION] = "xception",   [NP_FIELD_FEATURES] = "features",
    [NP_FIELD_NORM] = "norm",           [NP_FIELD_ACT] = "act",
    [NP_FIELD_BIAS] = "bias",           [NP_FIELD_POSITIONS] = "positions",
    [NP_FIELD_BASE] = "base",           [NP_FIELD_DROPOUT] = "dropout",
    [NP_FIELD_DROP_PATH] = "drop_path",
};

const struct np_op_fields *np_op_row(size_t i)
{
    return i < sizeof rows / sizeof *rows ? &rows[i] : NULL;
}

const struct np_op_fields *np_op_fields(enum np_op op, enum np_op_role role)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].op == op && rows[i].role == role)
            return &rows[i];
    return NULL;
}

const char *np_act_name(enum np_act act)
{
    static const char *const names[NP_ACT_COUNT] = {"none",  "relu",   "relu6",   "gelu",
                                                    "swish", "hswish", "sigmoid", "hsigmoid"};
    assert((int)act >= 0 && act < NP_ACT_COUNT);
    return names[act];
}

const char *np_norm_name(enum np_norm norm)
{
    static const char *const names[NP_NORM_COUNT] = {"none", "batch", "group", "layer", "rms"};
    assert((int)norm >= 0 && norm < NP_NORM_COUNT);
    return names[norm];
}

const char *np_positions_name(enum np_positions positions)
{
    static const char *const names[NP_POSITIONS_COUNT] = {"none", "learned", "rotary", "relative"};
    assert((int)positions >= 0 && positions < NP_POSITIONS_COUNT);
    return names[positions];
}

const char *np_field_name(enum np_field field)
{
    return field_names[field];
}

static void kernel_text(char *out, const int kernel[2], bool single, bool plain)
{
    if (single || kernel[0] == kernel[1])
        snprintf(out, NP_FIELD_TEXT, "%d", kernel[1]);
    else
        snprintf(out, NP_FIELD_TEXT, plain ? "%dx%d" : "[%d, %d]", kernel[0], kernel[1]);
}

int *np_field_int(struct np_layer_spec *spec, enum np_field field)
{
    switch (field) {
    case NP_FIELD_STRIDE:
        return &spec->stride;
    case NP_FIELD_DILATION:
        return &spec->dilation;
    case NP_FIELD_GROUPS:
        return &spec->groups;
    case NP_FIELD_HEADS:
        return &spec->heads;
    case NP_FIELD_KV_HEADS:
        return &spec->kv_heads;
    case NP_FIELD_BASE:
        return &spec->base;
    case NP_FIELD_HIDDEN:
        return &spec->hidden;
    case NP_FIELD_EXPAND:
        return &spec->expand;
    case NP_FIELD_SE:
        return &spec->se;
    case NP_FIELD_FEATURES:
        return &spec->features;
    default:
        return NULL;
    }
}

/* Layer norm where nothing but norms of rows may be. */
static bool is_silent_norm(const struct np_op_fields *op, const struct np_layer_spec *spec)
{
    return op->norms == ROWS && spec->norm == NP_NORM_OF_LAYER;
}

bool np_field_is_absent(const struct np_op_fields *op, const struct np_layer_spec *spec,
                        enum np_field field)
{
    return (field == NP_FIELD_NORM && is_silent_norm(op, spec)) ||
           (field == NP_FIELD_BIAS && !spec->unbiased) ||
           (field == NP_FIELD_KV_HEADS && !spec->kv_heads) ||
           (field == NP_FIELD_BASE && !spec->base) ||
           (field == NP_FIELD_POSITIONS && op->op == NP_OP_MHA && !spec->positions) ||
           (field == NP_FIELD_HIDDEN && !spec->hidden) ||
           (field == NP_FIELD_DROPOUT && op->role == NP_ROLE_HEAD && spec->dropout == 0.0f) ||
           (field == NP_FIELD_RATIO && spec->ratio == 0.0f) ||
           (field == NP_FIELD_EXPAND && !spec->expand);
}

int np_hidden_of(const struct np_layer_spec *spec, int out)
{
    if (spec->hidden)
        return spec->hidden;
    if (spec->op == NP_OP_BOTTLENECK)
        return out < 4 ? 1 : out / 4;
    return out;
}

static bool int_text(char *out, const struct np_layer_spec *spec, enum np_field field)
{
    const int quiet =
        field == NP_FIELD_STRIDE || field == NP_FIELD_DILATION || field == NP_FIELD_GROUPS;
    struct np_layer_spec copy = *spec;
    int value = *np_field_int(&copy, field);
    snprintf(out, NP_FIELD_TEXT, "%d", value);
    return value > quiet;
}

static bool fraction_text(char *out, float value)
{
    snprintf(out, NP_FIELD_TEXT, "%s", np_text_float(value).s);
    return value > 0.0f;
}

static bool word_text(char *out, const char *word, bool loud)
{
    snprintf(out, NP_FIELD_TEXT, "%s", word);
    return loud;
}

bool np_field_text(char *out, const struct np_op_fields *op, const struct np_layer_spec *spec,
                   enum np_field field, bool plain)
{
    switch (field) {
    case NP_FIELD_KERNEL:
        kernel_text(out, spec->kernel, np_op_of_sequences(op), plain);
        return true;
    case NP_FIELD_MASK:
        return word_text(out, spec->causal ? "causal" : "none", !spec->causal);
    case NP_FIELD_XCEPTION:
        return word_text(out, spec->xception ? "true" : "false", spec->xception);
    case NP_FIELD_NORM:
        return word_text(out, np_norm_name(spec->norm),
                         spec->norm != NP_NORM_NONE && !is_silent_norm(op, spec));
    case NP_FIELD_ACT:
        return word_text(out, np_act_name(spec->act), spec->act != NP_ACT_NONE);
    case NP_FIELD_BIAS:
        return word_text(out, spec->unbiased ? "false" : "true", spec->unbiased);
    case NP_FIELD_POSITIONS:
        return word_text(out, np_positions_name(spec->positions),
                         op->op == NP_OP_MHA ? spec->positions : !spec->positions);
    case NP_FIELD_RATIO:
        return fraction_text(out, spec->ratio);
    case NP_FIELD_DROPOUT:
        return fraction_text(out, spec->dropout);
    case NP_FIELD_DROP_PATH:
        return fraction_text(out, spec->drop_path);
    default:
        return int_text(out, spec, field);
    }
}
