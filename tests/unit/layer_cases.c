#include "layer_cases.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "layer_programs.h"
#include "space/kinds.h"
#include "space/op_fields.h"
#include "space/program_build.h"

struct layer_case {
    struct np_layer_spec spec;
    struct np_shape in, out, memory; /* out: in, unless given; in 0 channels: a stem */
    bool summed, distills;
    enum np_padded padded;
    int reads, makes;                   /* as in struct np_kind */
    int (*program)(struct np_build *b); /* instead of the spec's */
};

/* clang-format off */
#define TEXT(length, width) {1, length, width}
#define K(h, w) .kernel = {h, w}
#define ONE .stride = 1, .dilation = 1, .groups = 1
/* clang-format on */

static const struct layer_case cases[] = {
    {{.op = NP_OP_IDENTITY}, .in = TEXT(5, 8)},
    {{.op = NP_OP_IDENTITY}, .in = TEXT(5, 8), .summed = true},
    {{.op = NP_OP_MHA, .heads = 1, .causal = true}, .in = TEXT(1, 4)},
    {{.op = NP_OP_MHA, .heads = 2, .causal = true, .dropout = 0.25f}, .in = TEXT(5, 8)},
    {{.op = NP_OP_MHA, .heads = 4, .causal = true}, .in = TEXT(33, 24)},
    {{.op = NP_OP_MHA, .heads = 2}, .in = TEXT(9, 8)},
    {{.op = NP_OP_MHA,
      .heads = 2,
      .positions = NP_POSITIONS_ROTARY,
      .causal = true,
      .dropout = 0.25f},
     .in = TEXT(13, 24),
     .summed = true},
    {{.op = NP_OP_MHA,
      .heads = 6,
      .kv_heads = 2,
      .positions = NP_POSITIONS_ROTARY,
      .base = 500,
      .causal = true},
     .in = TEXT(9, 24)},
    {{.op = NP_OP_MHA, .heads = 4, .kv_heads = 1, .drop_path = 0.25f}, .in = {3, 3, 8}},
    {{.op = NP_OP_MHA, .heads = 2, .positions = NP_POSITIONS_RELATIVE, .causal = true},
     .in = TEXT(37, 12)},
    {{.op = NP_OP_MHA, .heads = 3, .positions = NP_POSITIONS_RELATIVE, .dropout = 0.25f},
     .in = TEXT(6, 12),
     .summed = true},
    {{.op = NP_OP_MHA, .heads = 4, .kv_heads = 2, .positions = NP_POSITIONS_RELATIVE},
     .in = {5, 3, 8}},
    {{.op = NP_OP_MHA, .heads = 1, .positions = NP_POSITIONS_RELATIVE}, .in = {1, 1, 8}},
    {{.op = NP_OP_MHA, .heads = 4, .kv_heads = 2, .cross = true},
     .in = TEXT(5, 12),
     .memory = TEXT(7, 12),
     .summed = true},
    {{.op = NP_OP_MHA, .heads = 2}, .in = TEXT(9, 8), .padded = NP_PADDED_SOURCE},
    {{.op = NP_OP_MHA, .heads = 2, .kv_heads = 1, .positions = NP_POSITIONS_RELATIVE},
     .in = TEXT(37, 12),
     .padded = NP_PADDED_TARGET},
    {{.op = NP_OP_MHA, .heads = 3, .cross = true},
     .in = TEXT(5, 12),
     .memory = TEXT(40, 12),
     .padded = NP_PADDED_SOURCE},
    {{.op = NP_OP_MHA, .heads = 1, .hidden = 6, .positions = NP_POSITIONS_ROTARY, .unbiased = true},
     .in = TEXT(5, 8)},
    {{.op = NP_OP_FFN, .ratio = 2, .act = NP_ACT_SWISH, .unbiased = true}, .in = TEXT(5, 8)},
    {{.op = NP_OP_MHA, .heads = 3, .norm = NP_NORM_OF_RMS, .causal = true}, .in = TEXT(5, 24)},
    {{.op = NP_OP_MHA, .heads = 2, .cross = true, .dropout = 0.1f},
     .in = TEXT(5, 8),
     .memory = TEXT(7, 8)},
    {{.op = NP_OP_MHA, .heads = 2, .drop_path = 0.25f}, .in = {3, 3, 8}, .summed = true},
    {{.op = NP_OP_FFN, .ratio = 1, .act = NP_ACT_RELU}, .in = TEXT(5, 4)},
    {{.op = NP_OP_FFN, .ratio = 4, .act = NP_ACT_GELU, .dropout = 0.1f}, .in = TEXT(33, 24)},
    {{.op = NP_OP_FFN, .ratio = 2, .act = NP_ACT_SWISH}, .in = TEXT(1, 8)},
    {{.op = NP_OP_GATED_FFN, .ratio = 1, .act = NP_ACT_RELU}, .in = TEXT(5, 4)},
    {{.op = NP_OP_GATED_FFN, .hidden = 33, .act = NP_ACT_SWISH, .dropout = 0.1f},
     .in = TEXT(33, 24)},
    {{.op = NP_OP_GATED_FFN, .ratio = 2, .act = NP_ACT_NONE}, .in = TEXT(1, 8)},
    {{.op = NP_OP_GATED_FFN,
      .ratio = 2,
      .norm = NP_NORM_OF_RMS,
      .act = NP_ACT_SWISH,
      .unbiased = true},
     .in = TEXT(5, 24),
     .reads = 9,
     .makes = 9},
    {{.op = NP_OP_GATED_FFN, .ratio = 2, .act = NP_ACT_GELU, .drop_path = 0.25f},
     .in = {3, 3, 8},
     .summed = true},
    {{.op = NP_OP_GLU}, .in = TEXT(33, 8)},
    {{.op = NP_OP_GLU, .dropout = 0.5f, .drop_path = 0.25f}, .in = TEXT(5, 24)},
    {{.op = NP_OP_CONV1D, K(1, 1)}, .in = TEXT(5, 8)},
    {{.op = NP_OP_CONV1D, K(1, 3)}, .in = TEXT(33, 24)},
    {{.op = NP_OP_CONV1D, K(1, 7), .dropout = 0.1f}, .in = TEXT(5, 4)},
    {{.op = NP_OP_CONV1D, K(1, 2)}, .in = TEXT(1, 8)},
    {{.op = NP_OP_SEPCONV1D, K(1, 1)}, .in = TEXT(1, 8)},
    {{.op = NP_OP_SEPCONV1D, K(1, 5)}, .in = TEXT(33, 24)},
    {{.op = NP_OP_SEPCONV1D, K(1, 6), .dropout = 0.3f}, .in = TEXT(5, 4)},
    {{.op = NP_OP_LIGHTCONV, K(1, 4), .heads = 4}, .in = TEXT(33, 24)},
    {{.op = NP_OP_LIGHTCONV, K(1, 7), .heads = 2, .dropout = 0.2f}, .in = TEXT(5, 8)},
    {{.op = NP_OP_LIGHTCONV, K(1, 1), .heads = 1}, .in = TEXT(1, 4)},
    {{.op = NP_OP_EMBEDDING, .positions = NP_POSITIONS_LEARNED}, .out = TEXT(33, 24)},
    {{.op = NP_OP_EMBEDDING}, .out = TEXT(1, 4)},
    {{.op = NP_OP_EMBEDDING, .positions = NP_POSITIONS_LEARNED, .source = true}, .out = TEXT(5, 8)},
    {{.op = NP_OP_LM}, .in = TEXT(33, 24)},
    {{.op = NP_OP_LM, .norm = NP_NORM_OF_RMS}, .in = TEXT(1, 4)},

    {{.op = NP_OP_CONV2D, K(3, 3), ONE, .act = NP_ACT_HSWISH}, .in = {7, 5, 3}, .out = {7, 5, 6}},
    {{.op = NP_OP_CONV2D, K(3, 3), ONE, .norm = NP_NORM_OF_BATCH, .act = NP_ACT_RELU},
     .in = {5, 6, 4},
     .out = {5, 6, 8}},
    {{.op = NP_OP_CONV2D,
      K(5, 3),
      .stride = 2,
      .dilation = 1,
      .groups = 2,
      .norm = NP_NORM_OF_GROUPS,
      .act = NP_ACT_SWISH},
     .in = {7, 6, 4},
     .out = {4, 3, 6}},
    {{.op = NP_OP_CONV2D,
      K(3, 3),
      .stride = 1,
      .dilation = 2,
      .groups = 1,
      .norm = NP_NORM_OF_LAYER,
      .act = NP_ACT_RELU6},
     .in = {6, 6, 5}},
    {{.op = NP_OP_CONV2D, K(1, 1), ONE, .act = NP_ACT_RELU}, .in = {4, 4, 6}, .out = {4, 4, 9}},
    {{.op = NP_OP_CONV2D, K(3, 3), ONE, .norm = NP_NORM_OF_BATCH}, .in = {4, 4, 3}, .summed = true},
    {{.op = NP_OP_DWCONV2D, K(3, 3), ONE, .act = NP_ACT_RELU}, .in = {5, 5, 7}},
    {{.op = NP_OP_DWCONV2D,
      K(5, 5),
      .stride = 2,
      .dilation = 1,
      .norm = NP_NORM_OF_BATCH,
      .act = NP_ACT_SIGMOID},
     .in = {7, 7, 5},
     .out = {4, 4, 5}},
    {{.op = NP_OP_RELU_CONV_BN, K(3, 3), ONE}, .in = {6, 6, 4}, .summed = true},
    {{.op = NP_OP_RELU_CONV_BN, K(1, 7), ONE}, .in = {6, 6, 4}},
    {{.op = NP_OP_SEPCONV, K(3, 3), .stride = 2}, .in = {7, 7, 4}, .out = {4, 4, 6}},
    {{.op = NP_OP_SEPCONV, K(5, 5), .stride = 1}, .in = {6, 6, 4}, .summed = true},
    {{.op = NP_OP_DILCONV, K(3, 3), .stride = 1, .dilation = 2}, .in = {6, 6, 4}},
    {{.op = NP_OP_DILCONV, K(5, 5), .stride = 2, .dilation = 2}, .in = {7, 7, 4}, .out = {4, 4, 4}},
    {{.op = NP_OP_RESNET_BASIC,
      K(3, 3),
      .stride = 1,
      .hidden = 6,
      .act = NP_ACT_RELU,
      .drop_path = 0.25f},
     .in = {5, 5, 4}},
    {{.op = NP_OP_RESNET_BASIC, K(3, 3), .stride = 2, .hidden = 6, .act = NP_ACT_HSWISH},
     .in = {5, 5, 4},
     .out = {3, 3, 6}},
    {{.op = NP_OP_BOTTLENECK,
      K(3, 3),
      .stride = 1,
      .groups = 3,
      .hidden = 6,
      .se = 2,
      .act = NP_ACT_RELU,
      .drop_path = 0.25f},
     .in = {5, 5, 4}},
    {{.op = NP_OP_BOTTLENECK, K(3, 5), .stride = 2, .groups = 1, .hidden = 3, .act = NP_ACT_SWISH},
     .in = {5, 5, 4},
     .out = {3, 3, 6}},
    {{.op = NP_OP_MBCONV, K(3, 3), .stride = 1, .hidden = 7, .act = NP_ACT_HSWISH},
     .in = {5, 5, 4}},
    {{.op = NP_OP_MBCONV, K(3, 3), .stride = 1, .hidden = 4}, .in = {5, 5, 4}, .out = {5, 5, 6}},
    {{.op = NP_OP_MBCONV, K(3, 3), .stride = 1, .expand = 6, .act = NP_ACT_RELU6, .dropout = 0.1f},
     .in = {5, 5, 4}},
    {{.op = NP_OP_MBCONV, K(5, 5), .stride = 2, .expand = 3, .se = 4, .act = NP_ACT_HSWISH},
     .in = {5, 5, 4},
     .out = {3, 3, 6}},
    {{.op = NP_OP_MBCONV, K(3, 3), .stride = 1, .expand = 1, .se = 2, .act = NP_ACT_SWISH},
     .in = {4, 4, 6}},
    {{.op = NP_OP_SHUFFLE, K(3, 3), .stride = 1}, .in = {5, 5, 8}},
    {{.op = NP_OP_SHUFFLE, K(5, 5), .stride = 2}, .in = {5, 5, 4}, .out = {3, 3, 8}},
    {{.op = NP_OP_SHUFFLE, K(3, 3), .stride = 1, .xception = true}, .in = {5, 5, 8}},
    {{.op = NP_OP_SHUFFLE, K(3, 3), .stride = 2, .xception = true},
     .in = {5, 5, 4},
     .out = {3, 3, 8}},
    {{.op = NP_OP_MAX_POOL, K(3, 3), .stride = 1}, .in = {5, 5, 7}},
    {{.op = NP_OP_MAX_POOL, K(3, 3), .stride = 2, .norm = NP_NORM_OF_BATCH},
     .in = {5, 6, 7},
     .out = {3, 3, 7}},
    {{.op = NP_OP_AVG_POOL, K(3, 3), .stride = 1}, .in = {5, 5, 7}, .summed = true},
    {{.op = NP_OP_AVG_POOL, K(5, 3), .stride = 2}, .in = {5, 6, 7}, .out = {3, 3, 7}},
    {{.op = NP_OP_IDENTITY, .stride = 2}, .in = {5, 5, 4}, .out = {3, 3, 6}},
    {{.op = NP_OP_IDENTITY, .stride = 1}, .in = {4, 4, 4}, .out = {4, 4, 6}},
    {{.op = NP_OP_MAX_POOL, K(2, 2), .stride = 2}, .in = {5, 6, 7}, .out = {3, 3, 7}},
    {{.op = NP_OP_AVG_POOL, K(2, 4), .stride = 1}, .in = {5, 6, 7}},
    {{.op = NP_OP_CONV2D, K(2, 2), .stride = 2, .dilation = 1, .groups = 1},
     .in = {5, 6, 4},
     .out = {3, 3, 6}},
    {{.op = NP_OP_CONV2D, K(4, 2), .stride = 1, .dilation = 2, .groups = 1}, .in = {6, 5, 4}},
    {{.op = NP_OP_DILCONV, K(2, 4), .stride = 2, .dilation = 2}, .in = {6, 5, 4}, .out = {3, 3, 6}},
    {{.op = NP_OP_SEPCONV, K(4, 4), .stride = 1}, .in = {6, 5, 4}},
    {{.op = NP_OP_CONCAT, .stride = 1, .cross = true},
     .in = {4, 3, 3},
     .memory = {4, 3, 5},
     .out = {4, 3, 8}},
    {{.op = NP_OP_CONCAT, .stride = 1, .cross = true},
     .in = {4, 3, 4},
     .memory = {4, 3, 4},
     .out = {4, 3, 8},
     .summed = true},
    {{.op = NP_OP_ZERO, .stride = 2}, .in = {4, 4, 4}, .out = {2, 2, 4}},
    {{.op = NP_OP_ZERO, .stride = 1}, .in = {4, 4, 4}, .summed = true},
    {{.op = NP_OP_NORM, .norm = NP_NORM_OF_LAYER, .act = NP_ACT_HSWISH}, .in = TEXT(5, 8)},
    {{.op = NP_OP_NORM, .norm = NP_NORM_OF_RMS}, .in = {4, 3, 7}, .summed = true},
    {{.op = NP_OP_NORM, .norm = NP_NORM_OF_BATCH}, .in = {4, 3, 5}, .summed = true},
    {{.op = NP_OP_NORM, .norm = NP_NORM_OF_GROUPS, .act = NP_ACT_RELU}, .in = {4, 3, 6}},

    {{.op = NP_OP_IDENTITY}, .in = TEXT(5, 8), .reads = 6, .makes = 6},
    {{.op = NP_OP_MHA, .heads = 3, .causal = true, .dropout = 0.25f},
     .in = TEXT(33, 24),
     .reads = 18,
     .makes = 18},
    {{.op = NP_OP_MHA, .heads = 1, .hidden = 8, .cross = true},
     .in = TEXT(5, 8),
     .memory = TEXT(7, 8),
     .summed = true,
     .reads = 5,
     .makes = 5},
    {{.op = NP_OP_FFN, .ratio = 2, .act = NP_ACT_GELU},
     .in = TEXT(9, 32),
     .reads = 16,
     .makes = 16},
    {{.op = NP_OP_GATED_FFN, .ratio = 2, .act = NP_ACT_SWISH},
     .in = TEXT(5, 24),
     .reads = 9,
     .makes = 9},
    {{.op = NP_OP_GLU}, .in = TEXT(5, 24), .reads = 7, .makes = 7},
    {{.op = NP_OP_NORM, .norm = NP_NORM_OF_LAYER}, .in = TEXT(5, 8), .reads = 5, .makes = 5},
    {{.op = NP_OP_MBCONV, K(3, 3), .stride = 1, .expand = 3, .se = 4, .act = NP_ACT_HSWISH},
     .in = {5, 5, 6},
     .reads = 4,
     .makes = 4},
    {{.op = NP_OP_MBCONV, K(3, 3), .stride = 2, .expand = 2},
     .in = {5, 5, 6},
     .out = {3, 3, 8},
     .makes = 5},
    {{.op = NP_OP_RESNET_BASIC, K(3, 3), .stride = 1, .act = NP_ACT_RELU},
     .in = {5, 5, 6},
     .reads = 5,
     .makes = 3},
    {{.op = NP_OP_BOTTLENECK, K(3, 3), .stride = 1, .groups = 1, .act = NP_ACT_RELU},
     .in = {5, 5, 9},
     .summed = true,
     .reads = 8,
     .makes = 8},
    {{.op = NP_OP_CONV2D, K(3, 3), ONE, .norm = NP_NORM_OF_BATCH, .act = NP_ACT_RELU},
     .in = {4, 4, 6},
     .out = {4, 4, 8},
     .makes = 7},
    {{.op = NP_OP_CONV2D, K(1, 1), ONE, .act = NP_ACT_RELU}, .in = {4, 4, 8}, .reads = 3},
    {{.op = NP_OP_SHUFFLE, K(3, 3), .stride = 1}, .in = {5, 5, 8}, .reads = 6, .makes = 6},
    {{.op = NP_OP_SHUFFLE, K(3, 3), .stride = 1, .xception = true},
     .in = {4, 4, 9},
     .summed = true,
     .reads = 4,
     .makes = 4},
    {{.op = NP_OP_MAX_POOL, K(3, 3), .stride = 2},
     .in = {5, 6, 7},
     .out = {3, 3, 7},
     .reads = 4,
     .makes = 4},
    {{.op = NP_OP_AVG_POOL, K(3, 3), .stride = 1}, .in = {5, 5, 7}, .reads = 6, .makes = 6},
    {{.op = NP_OP_DWCONV2D, K(3, 3), ONE, .act = NP_ACT_RELU},
     .in = {5, 5, 17},
     .reads = 16,
     .makes = 16},

    {{.op = NP_OP_CONV2D,
      K(3, 3),
      .stride = 2,
      .dilation = 1,
      .groups = 1,
      .norm = NP_NORM_OF_BATCH,
      .act = NP_ACT_RELU},
     .out = {4, 3, 8}},
    {{.op = NP_OP_PATCH, K(2, 2), .stride = 2, .positions = NP_POSITIONS_LEARNED},
     .out = {4, 3, 8}},
    {{.op = NP_OP_PATCH, K(4, 3), .stride = 4}, .out = {2, 2, 8}},
    {{.op = NP_OP_CLASSIFIER, .features = 10, .norm = NP_NORM_OF_BATCH, .act = NP_ACT_RELU6},
     .in = {3, 3, 6}},
    {{.op = NP_OP_CLASSIFIER, .norm = NP_NORM_OF_LAYER}, .in = {3, 3, 6}},
    {{.op = NP_OP_CLASSIFIER, .norm = NP_NORM_OF_LAYER}, .in = {3, 3, 6}, .distills = true},
    {{.op = NP_OP_LM}, .in = TEXT(5, 8), .distills = true},
    {{.op = NP_OP_CLASSIFIER, .features = 7, .act = NP_ACT_HSWISH}, .in = {1, 1, 6}},
    {{.op = NP_OP_CLASSIFIER,
      .features = 7,
      .hidden = 11,
      .norm = NP_NORM_OF_BATCH,
      .act = NP_ACT_HSWISH,
      .dropout = 0.25f},
     .in = {3, 3, 6}},
    {{.op = NP_OP_CLASSIFIER, .hidden = 5, .norm = NP_NORM_OF_RMS, .act = NP_ACT_GELU},
     .in = {3, 2, 6},
     .distills = true},
    {{.op = NP_OP_CLASSIFIER, .dropout = 0.5f}, .in = {3, 3, 6}},

    {.in = TEXT(3, 5), .program = layer_program_activations},
    {.in = TEXT(3, 5), .program = layer_program_lone_activations},
    {.in = TEXT(3, 5), .program = layer_program_readers},
    {.in = TEXT(3, 5), .program = layer_program_through},
    {.in = TEXT(3, 5), .memory = TEXT(3, 5), .program = layer_program_sums},
    {.in = TEXT(3, 5), .program = layer_program_drops},
    {.in = {4, 3, 5}, .out = {4, 3, 13}, .program = layer_program_slices},
    {.in = {4, 3, 5}, .program = layer_program_slices_of_x},
    {.in = TEXT(3, 5), .program = layer_program_cuts},
    {.in = {3, 3, 5}, .program = layer_program_squeeze},
    {.in = {5, 5, 5}, .out = {3, 3, 5}, .program = layer_program_pools},
    {.in = TEXT(6, 12), .out = TEXT(6, 4), .program = layer_program_bare_attention},
    {.in = TEXT(6, 12), .program = layer_program_rotations},
    {.in = TEXT(2, 4), .out = TEXT(2, 1200), .program = layer_program_repeats},
    {.in = {3, 3, 6}, .program = layer_program_norms},
    {.in = {3, 3, 6}, .program = layer_program_batch_norms},
    {.in = TEXT(3, 5), .program = layer_program_unread},
    {.in = TEXT(3, 5), .program = layer_program_half_read},
};

const int layer_cases = (int)(sizeof cases / sizeof *cases);

/* What np_kind_build does, of a program of ours. */
static void build(struct np_kind *kind, int (*program)(struct np_build *b))
{
    struct np_build b = {.kind = kind};
    np_build_value(&b, kind->in, true);
    np_build_value(&b, kind->memory, kind->memory.channels > 0);
    np_build_value(&b, (struct np_shape){0, 0, 0}, false);
    kind->program.output = program(&b);
    ck_assert_int_eq(b.status, NP_OK);
}

void layer_case_init(struct np_kind *kind, int index)
{
    const struct layer_case *c = &cases[index];
    bool head = c->spec.op == NP_OP_LM || c->spec.op == NP_OP_CLASSIFIER;
    const struct np_op_fields *op = np_op_fields(c->spec.op, head ? NP_ROLE_HEAD : NP_ROLE_CHOICE);
    *kind = (struct np_kind){.spec = c->spec,
                             .in = c->in,
                             .memory = c->memory,
                             .out = c->out.channels ? c->out : c->in,
                             .summed = c->summed,
                             .distills = c->distills,
                             .padded = c->padded,
                             .reads = c->reads,
                             .makes = c->makes,
                             .vocab = CASE_VOCAB,
                             .length = c->spec.op == NP_OP_LM ? (size_t)c->in.width : 1};
    /* what no recipe can leave out */
    if (op && op->norms && !(op->norms & NP_BIT(NP_NORM_NONE)) && !kind->spec.norm)
        kind->spec.norm = op->norm;
    if (head)
        kind->out = (struct np_shape){1, (int)kind->length, 1};
    if (!c->in.channels && c->spec.op != NP_OP_EMBEDDING)
        kind->image = (struct np_shape){8, 6, 3};
    if (c->program)
        build(kind, c->program);
    else
        ck_assert_int_eq(np_kind_build(kind, "case", NULL), NP_OK);
}

float *case_floats(size_t count)
{
    float *x;
    ck_assert_int_eq(np_alloc(&x, count + 1, sizeof *x, NULL), NP_OK);
    memset(x, 0xff, (count + 1) * sizeof *x);
    return x;
}

float *case_drawn(size_t count, uint32_t stream)
{
    float *x = case_floats(count);
    for (size_t i = 0; i < count; i++)
        x[i] = case_value(stream, i);
    return x;
}

float *case_weights(const struct np_kind *kind)
{
    float *w = case_floats(kind->floats);
    for (int k = 0; k < kind->tensor_count; k++)
        for (size_t i = 0; i < kind->tensors[k].count; i++)
            w[kind->tensors[k].offset + i] = case_weight(&kind->tensors[k], (uint32_t)k, i);
    return w;
}

int32_t *case_targets(size_t count)
{
    int32_t *x = calloc(count + 1, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = i % 6 == 4 ? -1 : (int32_t)(i * 5 % CASE_VOCAB);
    return x;
}

int32_t *case_lengths(const struct np_kind *kind, size_t samples)
{
    int keys = kind->memory.channels ? kind->memory.width : kind->in.width;
    int32_t *x = calloc(samples + 1, sizeof *x);
    for (size_t i = 0; i < samples && keys > 0; i++)
        x[i] = 1 + (int32_t)((i * 5 + (size_t)keys - 1) % (size_t)keys);
    return x;
}
