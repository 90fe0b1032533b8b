/* The programs of every operator: each value written once and before it is read, shapes that agree,
 * tensors that nodes account for, and known tables. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "program_check.h"
#include "recipe_text.h"
#include "space/op_fields.h"
#include "space/supernet.h"
#include "suite.h"

#define HEAD_OF_RECIPE "naspipe: recipe/1\ntrain: {steps: 1}\n"

static const char images[] = HEAD_OF_RECIPE
    "data: {train: {kind: idx, files: [i, l]}}\n"
    "space:\n"
    "  input: {kind: images, height: 15, width: 12, channels: 2, classes: 5}\n"
    "  width: 8\n"
    "  stem: {op: conv2d, kernel: [3, 5], stride: 2, norm: group, act: swish}\n"
    "  blocks:\n"
    "    - repeat: 2\n"
    "      out: 16\n"
    "      stride: 2\n"
    "      choices:\n"
    "        - {op: conv2d}\n"
    "        - {op: conv2d, kernel: [1, 7], dilation: 2, groups: 4, norm: layer, act: gelu}\n"
    "        - {op: conv2d, norm: none, act: hswish}\n"
    "        - {op: conv2d, norm: group, act: none}\n"
    "        - {op: relu_conv_bn, kernel: 5, dilation: 2}\n"
    "        - {op: sepconv, kernel: 5}\n"
    "        - {op: dilconv}\n"
    "        - {op: resnet_basic, hidden: 5, act: relu6, dropout: 0.1, drop_path: 0.2}\n"
    "        - {op: mbconv, expand: 1}\n"
    "        - {op: mbconv, kernel: 5, expand: 3, se: 4, act: hswish, drop_path: 0.1}\n"
    "        - {op: mbconv, expand: 2, se: 64, dropout: 0.5}\n"
    "        - {op: shuffle}\n"
    "        - {op: shuffle, kernel: 5, xception: true}\n"
    "        - {op: identity}\n"
    "        - {op: zero}\n"
    "        - {op: bottleneck, se: 2, act: swish}\n"
    "        - {op: bottleneck, hidden: 15, groups: 5, dropout: 0.1, drop_path: 0.2}\n"
    "        - {op: mbconv, hidden: 11}\n"
    "    - name: fixed\n"
    "      out: 16\n"
    "      choices:\n"
    "        - {op: dwconv2d, kernel: 5, dilation: 2}\n"
    "        - {op: dwconv2d, norm: none, act: sigmoid}\n"
    "        - {op: dwconv2d, norm: layer, act: hsigmoid}\n"
    "        - {op: max_pool}\n"
    "        - {op: avg_pool, kernel: [3, 5], norm: batch}\n"
    "        - {op: mha, heads: 4, dropout: 0.1}\n"
    "        - {op: ffn, ratio: 3, act: none}\n"
    "        - {op: ffn, hidden: 19}\n"
    "        - {op: gated_ffn, hidden: 11, drop_path: 0.1}\n"
    "    - out: 20\n"
    "      choices: [{op: identity}, {op: zero}]\n"
    "    - choices: [{op: mha, heads: 5, memory: fixed}]\n"
    "    - repeat: 2\n"
    "      cell: 4\n"
    "      out: 7\n"
    "      stride: 2\n"
    "      choices:\n"
    "        - {op: zero}\n"
    "        - {op: identity}\n"
    "        - {op: relu_conv_bn, kernel: 1}\n"
    "    - repeat: 2\n"
    "      widths: [4, 6, 7]\n"
    "      tie_widths: tied\n"
    "      choices:\n"
    "        - {op: norm, norm: group, act: relu6}\n"
    "        - {op: identity}\n"
    "        - {op: zero}\n"
    "        - {op: resnet_basic}\n"
    "        - {op: bottleneck}\n"
    "        - {op: mbconv, se: 2}\n"
    "        - {op: ffn}\n"
    "    - widths: [2, 8]\n"
    "      stride: 2\n"
    "      choices: [{op: sepconv}, {op: dilconv}, {op: conv2d}, {op: identity}]\n"
    "    - {name: before, choices: [{op: identity}]}\n"
    "    - {out: 16, choices: [{op: concat, memory: before}]}\n"
    "  head: {op: classifier, features: 12, norm: layer, act: gelu}\n";

static const char pairs[] = HEAD_OF_RECIPE
    "data: {train: {kind: pairs, files: [p]}}\n"
    "space:\n"
    "  input: {kind: pairs, vocab: 300, source_length: 9, length: 6}\n"
    "  width: 12\n"
    "  stem: {positions: none}\n"
    "  blocks:\n"
    "    - {name: encoder, repeat: 2, choices: [{op: mha, heads: 3, mask: none}, {op: glu}]}\n"
    "    - choices: [{op: embedding}]\n"
    "    - choices: [{op: mha, heads: 2}, {op: mha, heads: 4, memory: encoder, dropout: 0.5},\n"
    "                {op: ffn, drop_path: 0.5}, {op: identity},\n"
    "                {op: gated_ffn, ratio: 2.5, act: gelu}]\n"
    "    - {cell: 3, choices: [{op: conv1d, kernel: 4}, {op: sepconv1d, dropout: 0.1},\n"
    "                          {op: lightconv, heads: 6}, {op: identity}]}\n"
    "    - {widths: [6, 12], choices: [{op: norm}, {op: conv1d}, {op: lightconv, heads: 3}]}\n";

static char *const examples[] = {"autoformer",
                                 "autoformer-small",
                                 "cv-c1",
                                 "cv-c2",
                                 "cv-c3",
                                 "darts",
                                 "darts-small",
                                 "hat",
                                 "hat-small",
                                 "llama",
                                 "llama-small",
                                 "mbconv",
                                 "mbconv-small",
                                 "nasbench201",
                                 "nasbench201-small",
                                 "nlp-c0",
                                 "nlp-c1",
                                 "nlp-c2",
                                 "nlp-c3",
                                 "ofa",
                                 "ofa-small",
                                 "resnet",
                                 "resnet-small",
                                 "spos",
                                 "spos-small",
                                 "text-small",
                                 "translation",
                                 "translation-small",
                                 "vit",
                                 "vit-small",
                                 "widths",
                                 "widths-small"};

START_TEST(test_images)
{
    struct space s;
    space_open_text(&s, images);
    check_space(&s);
    space_close(&s);
}
END_TEST

START_TEST(test_pairs)
{
    struct space s;
    space_open_text(&s, pairs);
    check_space(&s);
    space_close(&s);
}
END_TEST

/* Each in a space of its own, which has calibration only if this operator has a batch norm. */
START_TEST(test_each_of_images)
{
    const struct np_op_fields *row;
    for (size_t i = 0; (row = np_op_row(i)); i++) {
        const bool joins = row->op == NP_OP_CONCAT;
        const bool keeps = row->keeps == NP_KEEPS_CHANNELS || row->keeps == NP_KEEPS_SHAPE ||
                           row->op == NP_OP_SHUFFLE;
        if (row->role != NP_ROLE_CHOICE || !(row->inputs & NP_BIT(NP_INPUT_IMAGES)))
            continue;
        for (int wide = joins; wide <= !keeps; wide++) {
            struct space s;
            char text[1024];
            snprintf(text, sizeof text,
                     HEAD_OF_RECIPE
                     "data: {train: {kind: idx, files: [i, l]}}\n"
                     "space:\n"
                     "  input: {kind: images, height: 6, width: 6, channels: 2, classes: 5}\n"
                     "  width: 4\n"
                     "  stem: {op: conv2d, norm: group}\n"
                     "  blocks:\n"
                     "    - {name: first, choices: [{op: avg_pool}]}\n"
                     "    - {out: %d, choices: [{op: %s%s}]}\n"
                     "  head: {op: classifier, norm: layer}\n",
                     wide ? 8 : 4, row->name,
                     joins                  ? ", memory: first"
                     : row->op == NP_OP_MHA ? ", heads: 2"
                                            : "");
            space_open_text(&s, text);
            check_space(&s);
            space_close(&s);
        }
    }
}
END_TEST

START_TEST(test_every_operator)
{
    const char *const texts[] = {images, pairs};
    bool seen[NP_OP_COUNT] = {false};
    const struct np_op_fields *row;
    for (int i = 0; i < 2; i++) {
        struct space s;
        space_open_text(&s, texts[i]);
        for (int k = 0; k < s.net.kind_count; k++)
            seen[s.net.kinds[k].spec.op] = true;
        space_close(&s);
    }
    for (size_t i = 0; (row = np_op_row(i)); i++)
        ck_assert_msg(seen[row->op] || row->role != NP_ROLE_CHOICE, "no '%s' here", row->name);
}
END_TEST

START_TEST(test_examples)
{
    struct space s;
    char name[64];
    if (access("examples/spos.yaml", R_OK) != 0) {
        fprintf(stderr, "test_program: SKIPPED test_examples: no examples/ here\n");
        return;
    }
    snprintf(name, sizeof name, "examples/%s.yaml", examples[_i]);
    space_open(&s, name);
    check_space(&s);
    space_close(&s);
}
END_TEST

/* The nodes of a kind, written out. */
static void assert_nodes(const struct np_kind *kind, const char *expected)
{
    static const char *const names[NP_NODE_OP_COUNT] = {
        "conv",      "dwconv",   "layer_norm",  "rms_norm", "batch_norm", "group_norm",
        "act",       "glu",      "rotate",      "repeat",   "attention",  "lightconv",
        "max_pool",  "avg_pool", "global_pool", "scale",    "slice",      "cut",
        "widen",     "merge",    "add",         "dropout",  "drop_path",  "zero",
        "positions", "image",    "embed",       "xent"};
    char text[512] = "";
    for (int i = 0; i < kind->program.node_count; i++) {
        strcat(text, i ? " " : "");
        strcat(text, names[kind->program.nodes[i].op]);
    }
    ck_assert_str_eq(text, expected);
}

START_TEST(test_nodes)
{
    struct space s;
    space_open_text(&s, images);
    assert_nodes(space_kind(&s, 0, 0), "image conv group_norm");
    assert_nodes(space_kind(&s, 1, 0), "conv batch_norm");
    assert_nodes(space_kind(&s, 1, 1), "conv layer_norm act");
    assert_nodes(space_kind(&s, 1, 2), "conv");
    assert_nodes(space_kind(&s, 1, 5), "act dwconv conv batch_norm dwconv conv batch_norm");
    assert_nodes(space_kind(&s, 1, 6), "act dwconv conv batch_norm");
    assert_nodes(space_kind(&s, 1, 7), "conv batch_norm conv batch_norm conv batch_norm dropout "
                                       "drop_path add");
    assert_nodes(space_kind(&s, 2, 7), "conv batch_norm conv batch_norm dropout drop_path add");
    assert_nodes(space_kind(&s, 1, 8), "dwconv batch_norm conv batch_norm");
    assert_nodes(space_kind(&s, 2, 9),
                 "conv batch_norm dwconv batch_norm global_pool conv conv scale "
                 "conv batch_norm drop_path add");
    assert_nodes(space_kind(&s, 1, 11), "dwconv batch_norm conv batch_norm conv batch_norm dwconv "
                                        "batch_norm conv batch_norm merge");
    assert_nodes(space_kind(&s, 2, 11),
                 "slice slice conv batch_norm dwconv batch_norm conv batch_norm "
                 "merge");
    assert_nodes(space_kind(&s, 1, 13), "act conv conv merge batch_norm");
    assert_nodes(space_kind(&s, 2, 13), "");
    assert_nodes(space_kind(&s, 1, 14), "zero");
    assert_nodes(space_kind(&s, 3, 1), "dwconv act");
    assert_nodes(space_kind(&s, 3, 4), "avg_pool batch_norm");
    assert_nodes(space_kind(&s, 3, 8), "layer_norm conv conv scale conv drop_path add");
    assert_nodes(space_kind(&s, 4, 0), "act conv batch_norm");
    assert_nodes(space_kind(&s, 5, 0), "layer_norm conv layer_norm conv attention conv add");
    assert_nodes(space_kind(&s, s.net.positions - 1, 0),
                 "conv layer_norm act global_pool conv xent");
    space_close(&s);
}
END_TEST

/* In a cell of 4 nodes the edges are 01 02 12 03 13 23; the second of a node adds to the first. */
START_TEST(test_cells)
{
    const int from[] = {5, 5, 6, 5, 6, 8}, sum[] = {-1, -1, 7, -1, 9, 10};
    struct space s;
    space_open_text(&s, images);
    ck_assert_int_eq(s.recipe.block_count, 5 + 12 + 5);
    for (int i = 0; i < 12; i++) {
        const struct np_block *block = &s.recipe.blocks[5 + i];
        ck_assert_int_eq(block->from, from[i % 6] + i / 6 * 6);
        ck_assert_int_eq(block->sum, sum[i % 6] < 0 ? -1 : sum[i % 6] + i / 6 * 6);
        ck_assert_int_eq(block->stride, i < 6 && block->from == 5 ? 2 : 1);
        ck_assert_int_eq(block->cell, 4);
        ck_assert_int_eq(s.net.shapes[6 + i].channels, 7);
        ck_assert_int_eq(s.net.shapes[6 + i].height, 2);
    }
    assert_nodes(space_kind(&s, 6, 0), "zero");
    assert_nodes(space_kind(&s, 8, 0), "");
    ck_assert_int_eq(space_kind(&s, 8, 0)->program.output, NP_VALUE_SUM);
    assert_nodes(space_kind(&s, 8, 1), "add");
    assert_nodes(space_kind(&s, 8, 2), "act conv batch_norm add");
    ck_assert_int_eq(space_kind(&s, 8, 1)->program.nodes[0].in[0], NP_VALUE_SUM);
    ck_assert_int_eq(space_kind(&s, 8, 1)->program.nodes[0].in[1], NP_VALUE_X);
    space_close(&s);
}
END_TEST

/* Every value's readers, found the slow way. */
START_TEST(test_readers)
{
    struct space s;
    space_open_text(&s, _i ? images : pairs);
    for (int v = 0; v < s.net.positions; v++) {
        int at = s.net.reader_first[v];
        for (int p = v + 1; p < s.net.positions; p++) {
            bool head = p == s.net.positions - 1;
            const struct np_block *block = head ? NULL : &s.recipe.blocks[p - 1];
            const int reads[] = {head ? p - 1 : block->from, head ? -1 : block->memory,
                                 head ? -1 : block->sum};
            for (int i = 0; i < 3; i++)
                if (reads[i] == v) {
                    ck_assert_int_lt(at, s.net.reader_first[v + 1]);
                    ck_assert_int_eq(s.net.readers[at].position, p);
                    ck_assert_int_eq(s.net.readers[at].value, i);
                    at++;
                }
        }
        ck_assert_int_eq(at, s.net.reader_first[v + 1]);
    }
    space_close(&s);
}
END_TEST

START_TEST(test_pairs_in_detail)
{
    const struct np_kind *kind;
    struct space s;
    space_open_text(&s, pairs);
    ck_assert(space_kind(&s, 0, 0)->program.nodes[0].source);
    ck_assert(!space_kind(&s, 0, 0)->program.nodes[0].bias);
    ck_assert(!space_kind(&s, 3, 0)->program.nodes[0].source);
    ck_assert_int_eq(space_kind(&s, 3, 0)->in.channels, 0);
    ck_assert_int_eq(s.net.shapes[2].width, 9);
    ck_assert_int_eq(s.net.shapes[3].width, 6);
    ck_assert_int_eq(s.recipe.blocks[3].memory, 2);
    kind = space_kind(&s, 4, 1);
    ck_assert_int_eq(kind->memory.width, 9);
    ck_assert_str_eq(kind->tensors[2].name, "q.weight");
    ck_assert_str_eq(kind->tensors[4].name, "memory.gamma");
    ck_assert_str_eq(kind->tensors[6].name, "kv.weight");
    ck_assert_int_eq(space_kind(&s, 4, 0)->memory.channels, 0);
    space_close(&s);
}
END_TEST

/* Windows of kernels around their positions, of the shifted half of a reduction, and of patches. */
START_TEST(test_windows)
{
    const struct np_window *w;
    struct space s;
    space_open_text(&s, images);
    w = &space_kind(&s, 0, 0)->program.nodes[1].window;
    ck_assert_int_eq(w->pad_top, 1);
    ck_assert_int_eq(w->pad_left, 2);
    w = &space_kind(&s, 1, 1)->program.nodes[0].window;
    ck_assert_int_eq(w->pad_top, 0);
    ck_assert_int_eq(w->pad_left, 6);
    w = &space_kind(&s, 1, 13)->program.nodes[2].window;
    ck_assert_int_eq(w->pad_top, -1);
    ck_assert_int_eq(w->pad_left, -1);
    ck_assert_int_eq(s.net.shapes[0].height, 8);
    ck_assert_int_eq(s.net.shapes[0].width, 6);
    space_close(&s);
}
END_TEST

/* Even sizes have one tap more behind a position than before it, and none before it of two. */
START_TEST(test_even_windows)
{
    const struct np_window *w;
    struct space s;
    space_open_text(&s, HEAD_OF_RECIPE
                    "data: {train: {kind: idx, files: [i, l]}}\n"
                    "space:\n"
                    "  input: {kind: images, height: 5, width: 6, channels: 1, classes: 2}\n"
                    "  width: 8\n"
                    "  blocks:\n"
                    "    - {stride: 2, choices: [{op: avg_pool, kernel: 2}]}\n"
                    "    - choices: [{op: conv2d, kernel: [4, 2], dilation: 2}]\n");
    check_space(&s);
    w = &space_kind(&s, 1, 0)->program.nodes[0].window;
    ck_assert_int_eq(w->pad_top, 0);
    ck_assert_int_eq(w->pad_left, 0);
    ck_assert_int_eq(s.net.shapes[1].height, 3);
    ck_assert_int_eq(s.net.shapes[1].width, 3);
    w = &space_kind(&s, 2, 0)->program.nodes[0].window;
    ck_assert_int_eq(w->pad_top, 3);
    ck_assert_int_eq(w->pad_left, 1);
    space_close(&s);
}
END_TEST

/* He's spread of a convolution, a linear layer's of the classifier and of the squeeze. */
START_TEST(test_initial_values)
{
    const struct np_kind *kind;
    struct space s;
    space_open_text(&s, images);
    kind = space_kind(&s, 1, 1);
    ck_assert(kind->tensors[0].std == (float)sqrt(2.0 / 14.0));
    kind = space_kind(&s, 3, 0);
    ck_assert(kind->tensors[0].std == (float)sqrt(2.0 / 25.0));
    kind = space_kind(&s, 2, 9);
    ck_assert_str_eq(kind->tensors[6].name, "squeeze.weight");
    ck_assert_uint_eq(kind->tensors[6].shape[1], 12);
    ck_assert(kind->tensors[6].std == (float)(1.0 / sqrt(3.0 * 48.0)));
    kind = space_kind(&s, 1, 10);
    ck_assert_str_eq(kind->tensors[6].name, "squeeze.weight");
    ck_assert_uint_eq(kind->tensors[6].shape[1], 1);
    kind = space_kind(&s, s.net.positions - 1, 0);
    ck_assert_str_eq(kind->tensors[3].name, "out.weight");
    ck_assert(kind->tensors[3].std == (float)(1.0 / sqrt(3.0 * 12.0)));
    space_close(&s);
}
END_TEST

/* Of one position, the strides alone tell the first of two repeats from the second. */
START_TEST(test_one_position)
{
    struct space s;
    space_open_text(
        &s, HEAD_OF_RECIPE
        "data: {train: {kind: idx, files: [i, l]}}\n"
        "space:\n"
        "  input: {kind: images, height: 1, width: 1, channels: 1, classes: 2}\n"
        "  width: 8\n"
        "  blocks: [{repeat: 3, stride: 2, choices: [{op: shuffle}, {op: identity}]}]\n");
    check_space(&s);
    assert_nodes(space_kind(&s, 1, 1), "act conv conv merge batch_norm");
    assert_nodes(space_kind(&s, 2, 1), "");
    ck_assert_ptr_ne(space_kind(&s, 1, 0), space_kind(&s, 2, 0));
    ck_assert_ptr_eq(space_kind(&s, 2, 0), space_kind(&s, 3, 0));
    space_close(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("program");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, test_images);
    tcase_add_test(tests, test_pairs);
    tcase_add_test(tests, test_each_of_images);
    tcase_add_test(tests, test_every_operator);
    tcase_add_loop_test(tests, test_examples, 0, (int)(sizeof examples / sizeof *examples));
    tcase_add_test(tests, test_nodes);
    tcase_add_test(tests, test_cells);
    tcase_add_loop_test(tests, test_readers, 0, 2);
    tcase_add_test(tests, test_pairs_in_detail);
    tcase_add_test(tests, test_windows);
    tcase_add_test(tests, test_even_windows);
    tcase_add_test(tests, test_initial_values);
    tcase_add_test(tests, test_one_position);
    return recipe_text_run(suite);
}
