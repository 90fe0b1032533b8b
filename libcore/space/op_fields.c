#include "space/op_fields.h"

#include <assert.h>

static const struct np_op_fields fields[NP_OP_COUNT] = {
    [NP_OP_IDENTITY] = {.name = "identity", .role = NP_ROLE_CHOICE},
    [NP_OP_MHA] = {.name = "mha", .role = NP_ROLE_CHOICE, .heads = true, .dropout = true},
    [NP_OP_FFN] =
        {.name = "ffn", .role = NP_ROLE_CHOICE, .ratio = true, .act = true, .dropout = true},
    [NP_OP_GLU] = {.name = "glu", .role = NP_ROLE_CHOICE, .dropout = true},
    [NP_OP_CONV1D] = {.name = "conv1d", .role = NP_ROLE_CHOICE, .kernel = true, .dropout = true},
    [NP_OP_SEPCONV1D] = {.name = "sepconv1d",
                         .role = NP_ROLE_CHOICE,
                         .kernel = true,
                         .dropout = true},
    [NP_OP_LIGHTCONV] = {.name = "lightconv",
                         .role = NP_ROLE_CHOICE,
                         .kernel = true,
                         .heads = true,
                         .dropout = true},
    [NP_OP_EMBEDDING] = {.name = "embedding", .role = NP_ROLE_STEM},
    [NP_OP_LM] = {.name = "lm", .role = NP_ROLE_HEAD},
};

const struct np_op_fields *np_op_fields(enum np_op op)
{
    assert((int)op >= 0 && op < NP_OP_COUNT);
    return &fields[op];
}

const char *np_op_name(enum np_op op)
{
    return np_op_fields(op)->name;
}

const char *np_act_name(enum np_act act)
{
    static const char *const names[NP_ACT_COUNT] = {"relu", "gelu", "swish"};
    assert((int)act >= 0 && act < NP_ACT_COUNT);
    return names[act];
}
