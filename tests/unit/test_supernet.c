#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "space/kinds.h"
#include "space/supernet.h"
#include "suite.h"

/* A hand-made recipe: blocks 0 and 1 share their choices, block 2 has its own. */
static struct np_layer_spec first[] = {
    {.op = NP_OP_MHA, .norm = NP_NORM_OF_LAYER, .heads = 4, .causal = true},
    {.op = NP_OP_FFN, .norm = NP_NORM_OF_LAYER, .ratio = 4, .act = NP_ACT_GELU},
    {.op = NP_OP_IDENTITY},
};
static struct np_layer_spec second[] = {
    {.op = NP_OP_GLU, .norm = NP_NORM_OF_LAYER},
    {.op = NP_OP_CONV1D, .norm = NP_NORM_OF_LAYER, .kernel = {1, 3}, .dropout = 0.1f},
    {.op = NP_OP_MHA, .norm = NP_NORM_OF_LAYER, .heads = 4, .causal = true},
    {.op = NP_OP_MHA, .norm = NP_NORM_OF_LAYER, .heads = 4, .causal = true, .dropout = 0.1f},
    {.op = NP_OP_SEPCONV1D, .norm = NP_NORM_OF_LAYER, .kernel = {1, 7}},
    {.op = NP_OP_LIGHTCONV, .norm = NP_NORM_OF_LAYER, .kernel = {1, 7}, .heads = 2},
};
static struct np_block blocks[] = {
    {.count = 3, .choices = first, .from = 0, .memory = -1, .sum = -1},
    {.count = 3, .choices = first, .from = 1, .memory = -1, .sum = -1},
    {.count = 6, .choices = second, .from = 2, .memory = -1, .sum = -1}};

static struct np_recipe small_recipe(void)
{
    struct np_recipe recipe = {.vocab = 50, .length = 16, .width = 8};
    recipe.path = "r.yaml";
    recipe.stem.op = NP_OP_EMBEDDING;
    recipe.stem.positions = NP_POSITIONS_LEARNED;
    recipe.head.op = NP_OP_LM;
    recipe.head.norm = NP_NORM_OF_LAYER;
    recipe.block_count = 3;
    recipe.blocks = blocks;
    recipe.optimizer.kind = NP_ADAMW;
    return recipe;
}

static const struct np_tensor *tensor_of(const struct np_kind *kind, const char *name)
{
    for (int i = 0; i < kind->tensor_count; i++)
        if (strcmp(kind->tensors[i].name, name) == 0)
            return &kind->tensors[i];
    ck_abort_msg("no tensor %s", name);
    return NULL;
}

START_TEST(test_layers_and_kinds)
{
    struct np_recipe recipe = small_recipe();
    struct np_supernet net;
    const uint32_t layer_first[] = {0, 1, 4, 7, 13, 14};
    const int position[] = {0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4};
    ck_assert_int_eq(np_supernet_init(&net, &recipe, NULL), NP_OK);
    ck_assert_int_eq(net.positions, 5);
    ck_assert_uint_eq(net.layers, 14);
    ck_assert_int_eq(net.moments, 2);
    for (int i = 0; i < 3; i++) { /* what is 0 in single precision is none */
        static const double momentum[] = {0.9, 0, 1e-50};
        struct np_recipe sgd = recipe;
        struct np_supernet other;
        sgd.optimizer.kind = NP_SGD;
        sgd.optimizer.momentum = momentum[i];
        ck_assert_int_eq(np_supernet_init(&other, &sgd, NULL), NP_OK);
        ck_assert_int_eq(other.moments, i == 0);
        np_supernet_clear(&other);
    }
    for (int i = 0; i < 6; i++)
        ck_assert_uint_eq(net.layer_first[i], layer_first[i]);
    for (uint32_t i = 0; i < net.layers; i++)
        ck_assert_int_eq(np_supernet_position(&net, i), position[i]);
    ck_assert_int_eq(net.kind_count, 10); /* 8 candidates, the stem, the head */
    ck_assert_int_eq(net.layer_kind[1], net.layer_kind[4]);
    ck_assert_int_eq(net.layer_kind[1], net.layer_kind[9]);
    ck_assert_int_ne(net.layer_kind[9], net.layer_kind[10]);
    ck_assert_int_eq(np_supernet_kind(&net, 0)->spec.op, NP_OP_EMBEDDING);
    ck_assert_int_eq(np_supernet_kind(&net, 13)->spec.op, NP_OP_LM);
    np_supernet_clear(&net);
    np_supernet_clear(&net);
}
END_TEST

START_TEST(test_layer_names)
{
    struct np_recipe recipe = small_recipe();
    struct np_supernet net;
    const char *const wrong[] = {"",
                                 "stem ",
                                 "block0.choice00",
                                 "block00.choice03",
                                 "block03.choice00",
                                 "block000.choice00",
                                 "block00.choice00x",
                                 "block-1.choice00",
                                 "block 0.choice00",
                                 "block00.choice99999999999"};
    char name[NP_LAYER_NAME];
    uint32_t found;
    ck_assert_int_eq(np_supernet_init(&net, &recipe, NULL), NP_OK);
    np_supernet_layer_name(&net, 8, name);
    ck_assert_str_eq(name, "block02.choice01");
    for (uint32_t i = 0; i < net.layers; i++) {
        np_supernet_layer_name(&net, i, name);
        ck_assert(np_supernet_find(&net, name, &found));
        ck_assert_uint_eq(found, i);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(!np_supernet_find(&net, wrong[i], &found), "found '%s'", wrong[i]);
    np_supernet_clear(&net);
}
END_TEST

START_TEST(test_name_digits)
{
    struct np_layer_spec *choices = calloc(1001, sizeof *choices);
    struct np_block block = {.count = 1001, .choices = choices, .memory = -1, .sum = -1};
    struct np_recipe recipe = small_recipe();
    struct np_supernet net;
    char name[NP_LAYER_NAME];
    recipe.block_count = 1;
    recipe.blocks = &block;
    ck_assert_int_eq(np_supernet_init(&net, &recipe, NULL), NP_OK);
    np_supernet_layer_name(&net, 1001, name);
    ck_assert_str_eq(name, "block00.choice1000");
    np_supernet_layer_name(&net, 1, name);
    ck_assert_str_eq(name, "block00.choice0000");
    np_supernet_clear(&net);
    free(choices);
}
END_TEST

/* The slab is the tensors one after the other, and sizes are the formulas a person would write. */
START_TEST(test_tensor_tables)
{
    struct np_recipe recipe = small_recipe();
    struct np_supernet net;
    const size_t c = 8, v = 50, t = 16;
    const struct {
        uint32_t layer;
        size_t floats;
    } expected[] = {
        {0, v * c + t * c},
        {1, 2 * c + 3 * c * c + 3 * c + c * c + c},
        {2, 2 * c + 4 * c * c + 4 * c + 4 * c * c + c},
        {3, 0},
        {7, 2 * c + 2 * c * c + 2 * c},
        {8, 2 * c + 3 * c * c + c},
        {11, 2 * c + 7 * c + c + c * c + c},
        {12, 2 * c + 2 * 7},
        {13, 2 * c + c * v},
    };
    ck_assert_int_eq(np_supernet_init(&net, &recipe, NULL), NP_OK);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        ck_assert_uint_eq(np_supernet_kind(&net, expected[i].layer)->floats, expected[i].floats);
    for (int k = 0; k < net.kind_count; k++) {
        const struct np_kind *kind = &net.kinds[k];
        size_t offset = 0;
        for (int i = 0; i < kind->tensor_count; i++) {
            const struct np_tensor *tensor = &kind->tensors[i];
            size_t count = 1;
            for (int d = 0; d < tensor->rank; d++)
                count *= tensor->shape[d];
            ck_assert_uint_eq(tensor->offset, offset);
            ck_assert_uint_eq(tensor->count, count);
            ck_assert_int_eq(tensor->decay, tensor->rank > 1);
            ck_assert_int_eq(tensor->std > 0.0f, tensor->init == NP_INIT_NORMAL);
            offset += count;
        }
        ck_assert_uint_eq(kind->floats, offset);
    }
    np_supernet_clear(&net);
}
END_TEST

START_TEST(test_initial_values)
{
    struct np_recipe recipe = small_recipe();
    struct np_supernet net;
    const struct np_tensor *tensor;
    ck_assert_int_eq(np_supernet_init(&net, &recipe, NULL), NP_OK);
    tensor = tensor_of(np_supernet_kind(&net, 2), "down.weight");
    ck_assert(tensor->std == (float)(1.0 / sqrt(3.0 * 32.0)));
    tensor = tensor_of(np_supernet_kind(&net, 8), "conv.weight");
    ck_assert_uint_eq(tensor->shape[1], 3);
    ck_assert(tensor->std == (float)(1.0 / sqrt(3.0 * 24.0)));
    tensor = tensor_of(np_supernet_kind(&net, 12), "kernel.logits");
    ck_assert_uint_eq(tensor->shape[0], 2);
    ck_assert(tensor->std == 0.1f);
    ck_assert_int_eq(tensor_of(np_supernet_kind(&net, 1), "norm.gamma")->init, NP_INIT_ONE);
    ck_assert_int_eq(tensor_of(np_supernet_kind(&net, 1), "qkv.bias")->init, NP_INIT_ZERO);
    np_supernet_clear(&net);
}
END_TEST

START_TEST(test_kind_names)
{
    struct np_recipe recipe = small_recipe();
    struct np_supernet net;
    const char *const names[] = {"embedding",
                                 "mha(heads=4)",
                                 "ffn(ratio=4,act=gelu)",
                                 "identity",
                                 "mha(heads=4)",
                                 "ffn(ratio=4,act=gelu)",
                                 "identity",
                                 "glu",
                                 "conv1d(kernel=3,dropout=0.1)",
                                 "mha(heads=4)",
                                 "mha(heads=4,dropout=0.1)",
                                 "sepconv1d(kernel=7)",
                                 "lightconv(kernel=7,heads=2)",
                                 "lm"};
    char name[NP_KIND_NAME];
    ck_assert_int_eq(np_supernet_init(&net, &recipe, NULL), NP_OK);
    for (uint32_t i = 0; i < net.layers; i++) {
        np_kind_name(np_supernet_kind(&net, i), name);
        ck_assert_str_eq(name, names[i]);
    }
    np_supernet_clear(&net);
}
END_TEST

/* Attention of a masked input's source and of its target are two kinds, also where these are
 * equally long and the blocks neighbours; to a memory it is that of the memory's. Causal, or with
 * what is filled seen, there is one. */
START_TEST(test_padded_kinds)
{
    static struct np_layer_spec both[] = {
        {.op = NP_OP_MHA, .norm = NP_NORM_OF_LAYER, .heads = 4},
        {.op = NP_OP_MHA, .norm = NP_NORM_OF_LAYER, .heads = 4, .causal = true}};
    static struct np_layer_spec begin[] = {{.op = NP_OP_EMBEDDING}};
    static struct np_layer_spec cross[] = {
        {.op = NP_OP_MHA, .norm = NP_NORM_OF_LAYER, .heads = 4, .cross = true}};
    static struct np_block list[] = {
        {.count = 2, .choices = both, .from = 0, .memory = -1, .sum = -1},
        {.count = 1, .choices = begin, .from = 1, .memory = -1, .sum = -1},
        {.count = 2, .choices = both, .from = 1, .memory = -1, .sum = -1},
        {.count = 2, .choices = both, .from = 2, .memory = -1, .sum = -1},
        {.count = 1, .choices = cross, .from = 4, .memory = 3, .sum = -1},
        {.count = 1, .choices = cross, .from = 5, .memory = 2, .sum = -1}};
    static const char *const names[] = {"mha(heads=4,mask=none,padded=source)",
                                        "mha(heads=4)",
                                        "embedding(positions=none)",
                                        "mha(heads=4,mask=none,padded=source)",
                                        "mha(heads=4)",
                                        "mha(heads=4,mask=none,padded=target)",
                                        "mha(heads=4)",
                                        "mha(heads=4,mask=none,memory=16,padded=source)",
                                        "mha(heads=4,mask=none,memory=16,padded=target)"};
    struct np_recipe recipe = small_recipe();
    char name[NP_KIND_NAME];
    recipe.input = NP_INPUT_PAIRS;
    recipe.source_length = recipe.length;
    recipe.blocks = list;
    recipe.block_count = sizeof list / sizeof *list;
    for (int masked = 0; masked < 2; masked++) {
        struct np_supernet net;
        recipe.masked = masked;
        ck_assert_int_eq(np_supernet_init(&net, &recipe, NULL), NP_OK);
        ck_assert_uint_eq(net.layers, 11);
        ck_assert_int_eq(net.kind_count, masked ? 8 : 6);
        for (uint32_t i = 1; masked && i < net.layers - 1; i++) {
            const struct np_kind *kind = np_supernet_kind(&net, i);
            unsigned reads = np_program_reads(&kind->program);
            np_kind_name(kind, name);
            ck_assert_str_eq(name, names[i - 1]);
            ck_assert_int_eq(!(reads & NP_READS_SOURCE), kind->padded != NP_PADDED_SOURCE);
            ck_assert_int_eq(!(reads & NP_READS_TARGET), kind->padded != NP_PADDED_TARGET);
        }
        np_supernet_clear(&net);
    }
}
END_TEST

/* A matrix product dominates at a width where the rest is small; B and W cost about what F does. */
START_TEST(test_flops)
{
    struct np_shape shape = {1, 64, 4096};
    struct np_kind kind = {
        .spec = {.op = NP_OP_FFN, .norm = NP_NORM_OF_LAYER, .ratio = 4, .act = NP_ACT_RELU},
        .in = shape,
        .out = shape,
        .vocab = 50,
        .length = 64};
    struct np_flops flops;
    double products = 2.0 * 2.0 * 64.0 * 4096.0 * 4.0 * 4096.0;
    ck_assert_int_eq(np_kind_build(&kind, "", NULL), NP_OK);
    flops = np_kind_flops(&kind);
    ck_assert(flops.forward >= products && flops.forward < 1.01 * products);
    ck_assert(flops.backward >= products && flops.backward < 1.01 * products);
    ck_assert(flops.weight >= products && flops.weight < 1.01 * products);
    ck_assert(np_kind_macs(&kind) == products / 2);
    np_kind_clear(&kind);
    kind = (struct np_kind){
        .spec = {.op = NP_OP_GATED_FFN, .norm = NP_NORM_OF_LAYER, .ratio = 4, .act = NP_ACT_SWISH},
        .in = shape,
        .out = shape,
        .length = 64};
    products *= 1.5; /* three of them */
    ck_assert_int_eq(np_kind_build(&kind, "", NULL), NP_OK);
    flops = np_kind_flops(&kind);
    ck_assert(flops.forward >= products && flops.forward < 1.01 * products);
    ck_assert(flops.backward >= products && flops.backward < 1.01 * products);
    ck_assert(flops.weight >= products && flops.weight < 1.01 * products);
    ck_assert(np_kind_macs(&kind) == products / 2);
    np_kind_clear(&kind);
    kind = (struct np_kind){
        .spec = {.op = NP_OP_MHA, .norm = NP_NORM_OF_LAYER, .heads = 8, .causal = true},
        .in = shape,
        .out = shape,
        .length = 64};
    ck_assert_int_eq(np_kind_build(&kind, "", NULL), NP_OK);
    /* queries, keys, values and what comes out; 64 x 65 / 2 pairs, their scores and their values */
    const double macs = 4.0 * 64.0 * 4096.0 * 4096.0 + 64.0 * 65.0 * 4096.0;
    ck_assert(np_kind_macs(&kind) == macs);
    flops = np_kind_flops(&kind);
    np_kind_clear(&kind);
    kind = (struct np_kind){.spec = {.op = NP_OP_MHA,
                                     .norm = NP_NORM_OF_LAYER,
                                     .heads = 8,
                                     .causal = true,
                                     .positions = NP_POSITIONS_RELATIVE},
                            .in = shape,
                            .out = shape,
                            .length = 64};
    ck_assert_int_eq(np_kind_build(&kind, "", NULL), NP_OK);
    /* a number of the table a pair and head: added, again in B, where its gradient is summed */
    ck_assert(np_kind_macs(&kind) == macs);
    flops.forward += 64 * 65 / 2 * 8;
    flops.backward += 2 * 64 * 65 / 2 * 8;
    flops.weight += 64 * 8;
    struct np_flops relative = np_kind_flops(&kind);
    ck_assert(relative.forward == flops.forward);
    ck_assert(relative.backward == flops.backward);
    ck_assert(relative.weight == flops.weight);
    np_kind_clear(&kind);
    kind =
        (struct np_kind){.spec = {.op = NP_OP_IDENTITY}, .in = shape, .out = shape, .length = 64};
    ck_assert_int_eq(np_kind_build(&kind, "", NULL), NP_OK);
    flops = np_kind_flops(&kind);
    ck_assert(flops.forward == 0.0 && flops.backward == 0.0 && flops.weight == 0.0);
    ck_assert(np_kind_macs(&kind) == 0.0);
    np_kind_clear(&kind);
}
END_TEST

START_TEST(test_too_large)
{
    struct np_layer_spec wide = {.op = NP_OP_CONV1D, .norm = NP_NORM_OF_LAYER, .kernel = {1, 256}};
    struct np_block block = {.count = 1, .choices = &wide, .memory = -1, .sum = -1};
    struct np_recipe recipe = small_recipe();
    struct np_supernet net;
    struct np_error err;
    recipe.block_count = 1;
    recipe.blocks = &block;
    recipe.width = 65536;
    ck_assert_int_eq(np_supernet_init(&net, &recipe, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "r.yaml: a layer conv1d(kernel=256) has more than 2^38 weights");
    ck_assert_ptr_null(net.kinds);
}
END_TEST

/* Many different layers: the table of kinds finds each. */
START_TEST(test_many_kinds)
{
    enum { COUNT = 4096, BLOCKS = 8 };
    struct np_layer_spec *specs = calloc((size_t)BLOCKS * COUNT, sizeof *specs);
    struct np_block many[BLOCKS];
    struct np_recipe recipe = small_recipe();
    struct np_supernet net;
    recipe.block_count = BLOCKS;
    recipe.blocks = many;
    for (int b = 0; b < BLOCKS; b++)
        many[b] = (struct np_block){
            .count = COUNT, .choices = specs + b * COUNT, .from = b, .memory = -1, .sum = -1};
    for (int i = 0; i < BLOCKS * COUNT; i++)
        specs[i] = (struct np_layer_spec){.op = NP_OP_MHA,
                                          .norm = NP_NORM_OF_LAYER,
                                          .heads = 1,
                                          .causal = true,
                                          .dropout = (float)i / 65536.0f};
    ck_assert_int_eq(np_supernet_init(&net, &recipe, NULL), NP_OK);
    ck_assert_int_eq(net.kind_count, BLOCKS * COUNT + 2);
    for (uint32_t i = 1; i < net.layers - 1; i++)
        ck_assert(np_supernet_kind(&net, i)->spec.dropout == (float)(i - 1) / 65536.0f);
    np_supernet_clear(&net);
    free(specs);
}
END_TEST

/* The examples, with the numbers of weights in their comments; run in the root of the tree. */
START_TEST(test_examples)
{
    const struct {
        const char *path;
        uint64_t weights;
    } examples[] = {
        {"examples/autoformer-small.yaml", 577282},
        {"examples/autoformer.yaml", 10450096},
        {"examples/cv-c1.yaml", 5580086888},
        {"examples/cv-c2.yaml", 1957839816},
        {"examples/cv-c3.yaml", 602279656},
        {"examples/darts-small.yaml", 254274},
        {"examples/darts.yaml", 2005114},
        {"examples/hat-small.yaml", 317264},
        {"examples/hat.yaml", 133989632},
        {"examples/llama-small.yaml", 1252992},
        {"examples/llama.yaml", 6738415616},
        {"examples/mbconv-small.yaml", 367362},
        {"examples/mbconv.yaml", 15992600},
        {"examples/nasbench201-small.yaml", 398650},
        {"examples/nasbench201.yaml", 1699642},
        {"examples/nlp-c0.yaml", 13385760512},
        {"examples/nlp-c1.yaml", 10056130880},
        {"examples/nlp-c2.yaml", 6726501248},
        {"examples/nlp-c3.yaml", 3396871616},
        {"examples/ofa-small.yaml", 151202},
        {"examples/ofa.yaml", 7659112},
        {"examples/resnet-small.yaml", 728362},
        {"examples/resnet.yaml", 96949608},
        {"examples/spos-small.yaml", 1280810},
        {"examples/spos.yaml", 8488600},
        {"examples/text-small.yaml", 3261184},
        {"examples/translation-small.yaml", 489128},
        {"examples/translation.yaml", 101615120},
        {"examples/vit-small.yaml", 1693930},
        {"examples/vit.yaml", 81230440},
        {"examples/widths-small.yaml", 155794},
        {"examples/widths.yaml", 1736970},
    };
    if (access(examples[0].path, R_OK) != 0) {
        fprintf(stderr, "test_supernet: SKIPPED test_examples: no examples/ here\n");
        return;
    }
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        struct np_recipe recipe;
        struct np_supernet net;
        struct np_error err = {.msg = ""};
        uint64_t weights = 0;
        ck_assert_msg(np_recipe_read(&recipe, examples[i].path, NULL, 0, &err) == NP_OK, "%s",
                      err.msg);
        ck_assert_int_eq(np_supernet_init(&net, &recipe, NULL), NP_OK);
        for (uint32_t layer = 0; layer < net.layers; layer++)
            weights += np_supernet_kind(&net, layer)->floats;
        ck_assert_uint_eq(weights, examples[i].weights);
        np_supernet_clear(&net);
        np_recipe_clear(&recipe);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("supernet");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, test_layers_and_kinds);
    tcase_add_test(tests, test_layer_names);
    tcase_add_test(tests, test_name_digits);
    tcase_add_test(tests, test_tensor_tables);
    tcase_add_test(tests, test_initial_values);
    tcase_add_test(tests, test_kind_names);
    tcase_add_test(tests, test_padded_kinds);
    tcase_add_test(tests, test_flops);
    tcase_add_test(tests, test_too_large);
    tcase_add_test(tests, test_many_kinds);
    tcase_add_test(tests, test_examples);
    return suite_run(suite);
}
