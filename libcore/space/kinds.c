#include "space/kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "space/op_fields.h"
#include "space/programs.h"
#include "space/shapes.h"
#include "space/widths.h"

static int (*const operators[NP_OP_COUNT])(struct np_build *) = {
    [NP_OP_IDENTITY] = np_program_identity,
    [NP_OP_MHA] = np_program_mha,
    [NP_OP_FFN] = np_program_ffn,
    [NP_OP_GATED_FFN] = np_program_gated_ffn,
    [NP_OP_GLU] = np_program_glu,
    [NP_OP_CONV1D] = np_program_conv1d,
    [NP_OP_SEPCONV1D] = np_program_sepconv1d,
    [NP_OP_LIGHTCONV] = np_program_lightconv,
    [NP_OP_CONV2D] = np_program_conv2d,
    [NP_OP_DWCONV2D] = np_program_dwconv2d,
    [NP_OP_RELU_CONV_BN] = np_program_relu_conv_bn,
    [NP_OP_SEPCONV] = np_program_sepconv,
    [NP_OP_DILCONV] = np_program_dilconv,
    [NP_OP_RESNET_BASIC] = np_program_resnet_basic,
    [NP_OP_BOTTLENECK] = np_program_bottleneck,
    [NP_OP_MBCONV] = np_program_mbconv,
    [NP_OP_SHUFFLE] = np_program_shuffle,
    [NP_OP_MAX_POOL] = np_program_pool,
    [NP_OP_AVG_POOL] = np_program_pool,
    [NP_OP_CONCAT] = np_program_concat,
    [NP_OP_ZERO] = np_program_zero,
    [NP_OP_NORM] = np_program_norm,
    [NP_OP_EMBEDDING] = np_program_embedding,
    [NP_OP_PATCH] = np_program_patch,
    [NP_OP_LM] = np_program_lm,
    [NP_OP_CLASSIFIER] = np_program_classifier,
};

/* y = sum + value: one node, unless the operator passes the sum on. */
static void build_program(struct np_build *b)
{
    struct np_kind *kind = b->kind;
    struct np_shape none = {0, 0, 0};
    int value;
    b->x = NP_VALUE_X;
    b->in = kind->in;
    b->out = kind->out;
    np_build_value(b, kind->in, kind->in.channels > 0);
    np_build_value(b, kind->memory, kind->memory.channels > 0);
    np_build_value(b, kind->summed ? kind->out : none, kind->summed);
    if (kind->reads && b->status == NP_OK)
        b->x = np_build_cut(b, NP_VALUE_X, b->in.channels = kind->reads);
    if (kind->makes)
        b->out.channels = kind->makes;
    if (b->status != NP_OK)
        return;
    value = operators[kind->spec.op](b);
    if (kind->makes && b->status == NP_OK)
        value = np_build_widen(b, value, kind->out.channels);
    if (kind->summed && value != NP_VALUE_SUM && b->status == NP_OK)
        value = np_build_add(b, NP_VALUE_SUM, value, NP_ACT_NONE);
    kind->program.output = value;
}

void np_kind_set(struct np_kind *kind, const struct np_recipe *recipe,
                 const struct np_layer_spec *spec, const struct np_setting *setting)
{
    memset(kind, 0, sizeof *kind);
    kind->spec = *spec;
    if (spec->op != NP_OP_EMBEDDING) /* the target's, which begins another sequence */
        kind->in = setting->in;
    kind->out = setting->out;
    kind->summed = setting->summed;
    kind->distills = recipe->distill > 0 && (spec->op == NP_OP_LM || spec->op == NP_OP_CLASSIFIER);
    kind->image = np_shape_of_images(recipe);
    kind->vocab = (size_t)recipe->vocab;
    kind->length = (size_t)recipe->length;
    if (kind->image.channels && setting->stride)
        kind->spec.stride = setting->stride;
    if (spec->cross)
        kind->memory = setting->memory;
    if (spec->op == NP_OP_MHA && !spec->causal)
        kind->padded = spec->cross ? setting->memory_padded : setting->in_padded;
}

/* What passes everything on needs no channels of its own, nor does zero. (Beyond its width x has
 * zeros, unless its block adds to another value.) */
static bool is_narrow(const struct np_kind *kind, const struct np_block *x,
                      const struct np_block *block, const struct np_channels *channels)
{
    bool passes_on = kind->spec.op == NP_OP_IDENTITY && kind->spec.stride <= 1 && x &&
                     np_widths_tied(x, block) && x->sum < 0 &&
                     np_shape_equal(kind->in, kind->out) && channels->reads == channels->makes;
    return kind->spec.op != NP_OP_ZERO && !passes_on;
}

void np_kind_set_candidate(struct np_kind *kind, const struct np_recipe *recipe,
                           const struct np_block *block, int candidate,
                           const struct np_setting *setting)
{
    struct np_channels channels =
        np_width_channels(block, candidate, setting->x, setting->in, setting->out);
    np_kind_set(kind, recipe, &block->choices[candidate], setting);
    kind->spec.width = 0;
    if (!is_narrow(kind, setting->x, block, &channels))
        return;
    kind->reads = channels.reads < setting->in.channels ? channels.reads : 0;
    kind->makes = channels.makes < setting->out.channels ? channels.makes : 0;
}

enum np_status np_kind_build(struct np_kind *kind, const char *path, struct np_error *err)
{
    struct np_build b = {.kind = kind, .err = err};
    char name[NP_KIND_NAME];
    build_program(&b);
    if (b.status == NP_EINPUT) {
        np_kind_name(kind, name);
        np_fail(err, NP_EINPUT,
                b.excess == NP_MANY_WEIGHTS
                    ? "%s: a layer %s has more than 2^38 weights"
                    : "%s: a layer %s computes more than 2^38 values a sample",
                np_text_safe(path).s, name);
    }
    if (b.status != NP_OK)
        np_kind_clear(kind);
    return b.status;
}

void np_kind_clear(struct np_kind *kind)
{
    free(kind->program.values);
    free(kind->program.live);
    free(kind->program.nodes);
    free(kind->tensors);
    free(kind->pieces);
    memset(kind, 0, sizeof *kind);
}

#define KEY_BYTES offsetof(struct np_kind, program)

bool np_kind_equal(const struct np_kind *a, const struct np_kind *b)
{
    return memcmp(a, b, KEY_BYTES) == 0;
}

uint64_t np_kind_hash(const struct np_kind *kind)
{
    const unsigned char *bytes = (const unsigned char *)kind;
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < KEY_BYTES; i++)
        hash = (hash ^ bytes[i]) * 0x100000001B3u;
    return hash ^ hash >> 32;
}
