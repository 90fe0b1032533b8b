#include "space/kinds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "space/op_fields.h"

enum dim { NONE, C, C2, C3, RC, KERNEL, HEADS, VOCAB, LENGTH };
enum fill { ONE, ZERO, LINEAR, TENTH };

struct row {
    enum np_op op;
    const char *name;
    enum dim dims[3];
    enum fill fill;
};

/* In slab order; LINEAR's fan-in is the product of all dimensions but the last. */
static const struct row rows[] = {
    {NP_OP_MHA, "norm.gamma", {C}, ONE},
    {NP_OP_MHA, "norm.beta", {C}, ZERO},
    {NP_OP_MHA, "qkv.weight", {C, C3}, LINEAR},
    {NP_OP_MHA, "qkv.bias", {C3}, ZERO},
    {NP_OP_MHA, "out.weight", {C, C}, LINEAR},
    {NP_OP_MHA, "out.bias", {C}, ZERO},

    {NP_OP_FFN, "norm.gamma", {C}, ONE},
    {NP_OP_FFN, "norm.beta", {C}, ZERO},
    {NP_OP_FFN, "up.weight", {C, RC}, LINEAR},
    {NP_OP_FFN, "up.bias", {RC}, ZERO},
    {NP_OP_FFN, "down.weight", {RC, C}, LINEAR},
    {NP_OP_FFN, "down.bias", {C}, ZERO},

    {NP_OP_GLU, "norm.gamma", {C}, ONE},
    {NP_OP_GLU, "norm.beta", {C}, ZERO},
    {NP_OP_GLU, "gate.weight", {C, C2}, LINEAR},
    {NP_OP_GLU, "gate.bias", {C2}, ZERO},

    {NP_OP_CONV1D, "norm.gamma", {C}, ONE},
    {NP_OP_CONV1D, "norm.beta", {C}, ZERO},
    {NP_OP_CONV1D, "conv.weight", {KERNEL, C, C}, LINEAR},
    {NP_OP_CONV1D, "conv.bias", {C}, ZERO},

    {NP_OP_SEPCONV1D, "norm.gamma", {C}, ONE},
    {NP_OP_SEPCONV1D, "norm.beta", {C}, ZERO},
    {NP_OP_SEPCONV1D, "depth.weight", {KERNEL, C}, LINEAR},
    {NP_OP_SEPCONV1D, "depth.bias", {C}, ZERO},
    {NP_OP_SEPCONV1D, "point.weight", {C, C}, LINEAR},
    {NP_OP_SEPCONV1D, "point.bias", {C}, ZERO},

    {NP_OP_LIGHTCONV, "norm.gamma", {C}, ONE},
    {NP_OP_LIGHTCONV, "norm.beta", {C}, ZERO},
    {NP_OP_LIGHTCONV, "kernel.logits", {HEADS, KERNEL}, TENTH},

    {NP_OP_EMBEDDING, "token.table", {VOCAB, C}, TENTH},
    {NP_OP_EMBEDDING, "position.table", {LENGTH, C}, TENTH},

    {NP_OP_LM, "norm.gamma", {C}, ONE},
    {NP_OP_LM, "norm.beta", {C}, ZERO},
    {NP_OP_LM, "out.weight", {C, VOCAB}, LINEAR},
};

static size_t dim_size(const struct np_kind *kind, enum dim dim)
{
    switch (dim) {
    case C:
        return kind->width;
    case C2:
        return 2 * kind->width;
    case C3:
        return 3 * kind->width;
    case RC:
        return (size_t)kind->spec.ratio * kind->width;
    case KERNEL:
        return (size_t)kind->spec.kernel;
    case HEADS:
        return (size_t)kind->spec.heads;
    case VOCAB:
        return kind->vocab;
    case LENGTH:
        return kind->length;
    case NONE:
        break;
    }
    return 1;
}

static void set_init(struct np_tensor *tensor, enum fill fill)
{
    size_t fan_in = tensor->count / tensor->shape[tensor->rank - 1];
    tensor->decay = tensor->rank > 1;
    tensor->init = fill == ONE ? NP_INIT_ONE : fill == ZERO ? NP_INIT_ZERO : NP_INIT_NORMAL;
    if (fill == LINEAR)
        tensor->std = (float)(1.0 / sqrt(3.0 * (double)fan_in));
    else if (fill == TENTH)
        tensor->std = 0.1f;
}

/* Appends the row's tensor to the slab; false if the slab grows too large. */
static bool add_tensor(struct np_kind *kind, const struct row *row)
{
    struct np_tensor *tensor = &kind->tensors[kind->tensor_count++];
    tensor->name = row->name;
    tensor->offset = kind->floats;
    tensor->count = 1;
    for (int i = 0; i < 3 && row->dims[i] != NONE; i++) {
        tensor->shape[tensor->rank++] = dim_size(kind, row->dims[i]);
        if (!np_mul_size(&tensor->count, tensor->count, tensor->shape[i]))
            return false;
    }
    set_init(tensor, row->fill);
    return np_add_size(&kind->floats, kind->floats, tensor->count) &&
           kind->floats <= NP_MAX_LAYER_FLOATS;
}

bool np_kind_init(struct np_kind *kind, const struct np_layer_spec *spec, size_t width,
                  size_t length, size_t vocab)
{
    memset(kind, 0, sizeof *kind);
    kind->spec = *spec;
    kind->width = width;
    kind->length = length;
    kind->vocab = vocab;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].op == spec->op && !add_tensor(kind, &rows[i]))
            return false;
    return true;
}

static void add_text(char *out, const char *key, const char *value)
{
    size_t used = strlen(out);
    snprintf(out + used, NP_KIND_NAME - used, "%s%s=%s", strchr(out, '(') ? "," : "(", key, value);
}

static void add_number(char *out, const char *key, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    add_text(out, key, text);
}

void np_kind_name(const struct np_kind *kind, char *out)
{
    const struct np_layer_spec *spec = &kind->spec;
    const struct np_op_fields *has = np_op_fields(spec->op);
    snprintf(out, NP_KIND_NAME, "%s", has->name);
    if (has->kernel)
        add_number(out, "kernel", spec->kernel);
    if (has->heads)
        add_number(out, "heads", spec->heads);
    if (has->ratio)
        add_number(out, "ratio", spec->ratio);
    if (has->act)
        add_text(out, "act", np_act_name(spec->act));
    if (spec->dropout > 0.0f)
        add_text(out, "dropout", np_text_float(spec->dropout).s);
    if (strchr(out, '('))
        strcat(out, ")");
}
