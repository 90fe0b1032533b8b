/* The programs of every operator: each value written once and before it is read, shapes that agree,
 * tensors that nodes account for, and known weights, products and tables. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program_check.h"
#include "space/supernet.h"

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
    "                {op: ffn, drop_path: 0.5}, {op: identity}]\n"
    "    - {cell: 3, choices: [{op: conv1d, kernel: 4}, {op: sepconv1d, dropout: 0.1},\n"
    "                          {op: lightconv, heads: 6}, {op: identity}]}\n";

static char path[] = "/tmp/np-program-XXXXXX";
static char *const examples[] = {"cv-c1",
                                 "cv-c2",
                                 "cv-c3",
                                 "mbconv",
                                 "mbconv-small",
                                 "nasbench201",
                                 "nasbench201-small",
                                 "nlp-c0",
                                 "nlp-c1",
                                 "nlp-c2",
                                 "nlp-c3",
                                 "spos",
                                 "spos-small",
                                 "text-small",
                                 "translation",
                                 "translation-small",
                                 "vit",
                                 "vit-small",
                                 "widths",
                                 "widths-small"};

struct space {
    struct np_recipe recipe;
    struct np_supernet net;
};

static void open_file(struct space *s, const char *name)
{
    struct np_error err = {.msg = ""};
    ck_assert_msg(np_recipe_read(&s->recipe, name, NULL, 0, &err) == NP_OK, "%s", err.msg);
    ck_assert_msg(np_supernet_init(&s->net, &s->recipe, &err) == NP_OK, "%s", err.msg);
}

static void open_text(struct space *s, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    open_file(s, path);
}

static void close_space(struct space *s)
{
    np_supernet_clear(&s->net);
    np_recipe_clear(&s->recipe);
}

/* Kinds are in order, told apart by name, and a space has calibration if it has a batch norm. */
static void check_space(const struct space *s)
{
    char(*names)[NP_KIND_NAME] = calloc((size_t)s->net.kind_count, sizeof *names);
    for (int k = 0; k < s->net.kind_count; k++) {
        check_kind(&s->net.kinds[k]);
        np_kind_name(&s->net.kinds[k], names[k]);
        for (int i = 0; i < k; i++)
            ck_assert_str_ne(names[i], names[k]);
    }
    ck_assert_int_eq(s->net.whole_batch, s->recipe.calibration > 0);
    free(names);
}

START_TEST(test_images)
{
    struct space s;
    open_text(&s, images);
    check_space(&s);
    close_space(&s);
}
END_TEST

START_TEST(test_pairs)
{
    struct space s;
    open_text(&s, pairs);
    check_space(&s);
    close_space(&s);
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
    open_file(&s, name);
    check_space(&s);
    close_space(&s);
}
END_TEST

static const struct np_kind *kind_at(const struct space *s, int position, int choice)
{
    return np_supernet_kind(&s->net, s->net.layer_first[position] + (uint32_t)choice);
}

/* The nodes of a kind, written out. */
static void assert_nodes(const struct np_kind *kind, const char *expected)
{
    static const char *const names[NP_NODE_OP_COUNT] = {
        "conv",  "dwconv",    "layer_norm", "batch_norm", "group_norm", "act",
        "glu",   "attention", "lightconv",  "max_pool",   "avg_pool",   "global_pool",
        "scale", "slice",     "merge",      "add",        "dropout",    "drop_path",
        "zero",  "positions", "image",      "embed",      "xent"};
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
    open_text(&s, images);
    assert_nodes(kind_at(&s, 0, 0), "image conv group_norm");
    assert_nodes(kind_at(&s, 1, 0), "conv batch_norm");
    assert_nodes(kind_at(&s, 1, 1), "conv layer_norm act");
    assert_nodes(kind_at(&s, 1, 2), "conv");
    assert_nodes(kind_at(&s, 1, 5), "act dwconv conv batch_norm dwconv conv batch_norm");
    assert_nodes(kind_at(&s, 1, 6), "act dwconv conv batch_norm");
    assert_nodes(kind_at(&s, 1, 7), "conv batch_norm conv batch_norm conv batch_norm dropout "
                                    "drop_path add");
    assert_nodes(kind_at(&s, 2, 7), "conv batch_norm conv batch_norm dropout drop_path add");
    assert_nodes(kind_at(&s, 1, 8), "dwconv batch_norm conv batch_norm");
    assert_nodes(kind_at(&s, 2, 9), "conv batch_norm dwconv batch_norm global_pool conv conv scale "
                                    "conv batch_norm drop_path add");
    assert_nodes(kind_at(&s, 1, 11), "dwconv batch_norm conv batch_norm conv batch_norm dwconv "
                                     "batch_norm conv batch_norm merge");
    assert_nodes(kind_at(&s, 2, 11),
                 "slice slice conv batch_norm dwconv batch_norm conv batch_norm "
                 "merge");
    assert_nodes(kind_at(&s, 1, 13), "act conv conv merge batch_norm");
    assert_nodes(kind_at(&s, 2, 13), "");
    assert_nodes(kind_at(&s, 1, 14), "zero");
    assert_nodes(kind_at(&s, 3, 1), "dwconv act");
    assert_nodes(kind_at(&s, 3, 4), "avg_pool batch_norm");
    assert_nodes(kind_at(&s, 4, 0), "act conv batch_norm");
    assert_nodes(kind_at(&s, 5, 0), "layer_norm conv layer_norm conv attention conv add");
    assert_nodes(kind_at(&s, s.net.positions - 1, 0), "conv layer_norm act global_pool conv xent");
    close_space(&s);
}
END_TEST

/* In a cell of 4 nodes the edges are 01 02 12 03 13 23; the second of a node adds to the first. */
START_TEST(test_cells)
{
    const int from[] = {5, 5, 6, 5, 6, 8}, sum[] = {-1, -1, 7, -1, 9, 10};
    struct space s;
    open_text(&s, images);
    ck_assert_int_eq(s.recipe.block_count, 5 + 12);
    for (int i = 0; i < 12; i++) {
        const struct np_block *block = &s.recipe.blocks[5 + i];
        ck_assert_int_eq(block->from, from[i % 6] + i / 6 * 6);
        ck_assert_int_eq(block->sum, sum[i % 6] < 0 ? -1 : sum[i % 6] + i / 6 * 6);
        ck_assert_int_eq(block->stride, i < 6 && block->from == 5 ? 2 : 1);
        ck_assert_int_eq(block->cell, 4);
        ck_assert_int_eq(s.net.shapes[6 + i].channels, 7);
        ck_assert_int_eq(s.net.shapes[6 + i].height, 2);
    }
    assert_nodes(kind_at(&s, 6, 0), "zero");
    assert_nodes(kind_at(&s, 8, 0), "");
    ck_assert_int_eq(kind_at(&s, 8, 0)->program.output, NP_VALUE_SUM);
    assert_nodes(kind_at(&s, 8, 1), "add");
    assert_nodes(kind_at(&s, 8, 2), "act conv batch_norm add");
    ck_assert_int_eq(kind_at(&s, 8, 1)->program.nodes[0].in[0], NP_VALUE_SUM);
    ck_assert_int_eq(kind_at(&s, 8, 1)->program.nodes[0].in[1], NP_VALUE_X);
    close_space(&s);
}
END_TEST

/* Every value's readers, found the slow way. */
START_TEST(test_readers)
{
    struct space s;
    open_text(&s, _i ? images : pairs);
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
    close_space(&s);
}
END_TEST

START_TEST(test_pairs_in_detail)
{
    const struct np_kind *kind;
    struct space s;
    open_text(&s, pairs);
    ck_assert(kind_at(&s, 0, 0)->program.nodes[0].source);
    ck_assert(!kind_at(&s, 0, 0)->program.nodes[0].bias);
    ck_assert(!kind_at(&s, 3, 0)->program.nodes[0].source);
    ck_assert_int_eq(kind_at(&s, 3, 0)->in.channels, 0);
    ck_assert_int_eq(s.net.shapes[2].width, 9);
    ck_assert_int_eq(s.net.shapes[3].width, 6);
    ck_assert_int_eq(s.recipe.blocks[3].memory, 2);
    kind = kind_at(&s, 4, 1);
    ck_assert_int_eq(kind->memory.width, 9);
    ck_assert_str_eq(kind->tensors[2].name, "q.weight");
    ck_assert_str_eq(kind->tensors[4].name, "memory.gamma");
    ck_assert_str_eq(kind->tensors[6].name, "kv.weight");
    ck_assert_int_eq(kind_at(&s, 4, 0)->memory.channels, 0);
    close_space(&s);
}
END_TEST

/* Windows of a kernel of odd sizes, of the shifted half of a reduction, and of patches. */
START_TEST(test_windows)
{
    const struct np_window *w;
    struct space s;
    open_text(&s, images);
    w = &kind_at(&s, 0, 0)->program.nodes[1].window;
    ck_assert_int_eq(w->pad_top, 1);
    ck_assert_int_eq(w->pad_left, 2);
    w = &kind_at(&s, 1, 1)->program.nodes[0].window;
    ck_assert_int_eq(w->pad_top, 0);
    ck_assert_int_eq(w->pad_left, 6);
    w = &kind_at(&s, 1, 13)->program.nodes[2].window;
    ck_assert_int_eq(w->pad_top, -1);
    ck_assert_int_eq(w->pad_left, -1);
    ck_assert_int_eq(s.net.shapes[0].height, 8);
    ck_assert_int_eq(s.net.shapes[0].width, 6);
    close_space(&s);
}
END_TEST

/* He's spread of a convolution, a linear layer's of the classifier and of the squeeze. */
START_TEST(test_initial_values)
{
    const struct np_kind *kind;
    struct space s;
    open_text(&s, images);
    kind = kind_at(&s, 1, 1);
    ck_assert(kind->tensors[0].std == (float)sqrt(2.0 / 14.0));
    kind = kind_at(&s, 3, 0);
    ck_assert(kind->tensors[0].std == (float)sqrt(2.0 / 25.0));
    kind = kind_at(&s, 2, 9);
    ck_assert_str_eq(kind->tensors[6].name, "squeeze.weight");
    ck_assert_uint_eq(kind->tensors[6].shape[1], 12);
    ck_assert(kind->tensors[6].std == (float)(1.0 / sqrt(3.0 * 48.0)));
    kind = kind_at(&s, 1, 10);
    ck_assert_str_eq(kind->tensors[6].name, "squeeze.weight");
    ck_assert_uint_eq(kind->tensors[6].shape[1], 1);
    kind = kind_at(&s, s.net.positions - 1, 0);
    ck_assert_str_eq(kind->tensors[3].name, "out.weight");
    ck_assert(kind->tensors[3].std == (float)(1.0 / sqrt(3.0 * 12.0)));
    close_space(&s);
}
END_TEST

/* Of one position, the strides alone tell the first of two repeats from the second. */
START_TEST(test_one_position)
{
    struct space s;
    open_text(&s, HEAD_OF_RECIPE
              "data: {train: {kind: idx, files: [i, l]}}\n"
              "space:\n"
              "  input: {kind: images, height: 1, width: 1, channels: 1, classes: 2}\n"
              "  width: 8\n"
              "  blocks: [{repeat: 3, stride: 2, choices: [{op: shuffle}, {op: identity}]}]\n");
    check_space(&s);
    assert_nodes(kind_at(&s, 1, 1), "act conv conv merge batch_norm");
    assert_nodes(kind_at(&s, 2, 1), "");
    ck_assert_ptr_ne(kind_at(&s, 1, 0), kind_at(&s, 2, 0));
    ck_assert_ptr_eq(kind_at(&s, 2, 0), kind_at(&s, 3, 0));
    close_space(&s);
}
END_TEST

/* Multiplications of all products, counted from the nodes. */
static double products_of(const struct np_kind *kind)
{
    double sum = 0.0;
    for (int i = 0; i < kind->program.node_count; i++) {
        const struct np_node *node = &kind->program.nodes[i];
        if (node->op == NP_NODE_CONV || node->op == NP_NODE_DWCONV)
            sum += (double)np_shape_rows(kind->program.values[node->out]) *
                   (double)kind->tensors[node->tensor].count;
    }
    return sum;
}

/* The network that takes the first candidate everywhere, or `fifth` where there are five. */
static void count(const struct space *s, int fifth, double *weights, double *products)
{
    *weights = *products = 0.0;
    for (int p = 0; p < s->net.positions; p++) {
        bool five = s->net.layer_first[p + 1] - s->net.layer_first[p] == 5;
        const struct np_kind *kind = kind_at(s, p, five ? fifth : 0);
        *weights += (double)kind->floats;
        *products += products_of(kind);
    }
}

#define IMAGENET                                                                                   \
    HEAD_OF_RECIPE                                                                                 \
    "data: {train: {kind: idx, files: [i, l]}}\n"                                                  \
    "space:\n"                                                                                     \
    "  input: {kind: images, height: 224, width: 224, channels: 3, classes: 1000}\n"

/* Networks whose weights and multiplications (in thousands of millions) PyTorch's documentation gives. */
START_TEST(test_known_networks)
{
    static const struct {
        const char *name, *text;
        double weights, products;
    } known[] = {{"mobilenet_v2",
                  IMAGENET "  width: 32\n"
                           "  stem: {stride: 2, act: relu6}\n"
                           "  blocks:\n"
                           "    - {out: 16, choices: [{op: mbconv, expand: 1}]}\n"
                           "    - {repeat: 2, out: 24, stride: 2, choices: [{op: mbconv}]}\n"
                           "    - {repeat: 3, out: 32, stride: 2, choices: [{op: mbconv}]}\n"
                           "    - {repeat: 4, out: 64, stride: 2, choices: [{op: mbconv}]}\n"
                           "    - {repeat: 3, out: 96, choices: [{op: mbconv}]}\n"
                           "    - {repeat: 3, out: 160, stride: 2, choices: [{op: mbconv}]}\n"
                           "    - {out: 320, choices: [{op: mbconv}]}\n"
                           "  head: {features: 1280, act: relu6}\n",
                  3504872, 0.301},
                 {"shufflenet_v2_x1_0",
                  IMAGENET "  width: 24\n"
                           "  stem: {stride: 2}\n"
                           "  blocks:\n"
                           "    - {stride: 2, choices: [{op: max_pool}]}\n"
                           "    - {repeat: 4, out: 116, stride: 2, choices: [{op: shuffle}]}\n"
                           "    - {repeat: 8, out: 232, stride: 2, choices: [{op: shuffle}]}\n"
                           "    - {repeat: 4, out: 464, stride: 2, choices: [{op: shuffle}]}\n"
                           "  head: {features: 1024}\n",
                  2278604, 0.145},
                 {"resnet18",
                  IMAGENET
                  "  width: 64\n"
                  "  stem: {kernel: 7, stride: 2}\n"
                  "  blocks:\n"
                  "    - {stride: 2, choices: [{op: max_pool}]}\n"
                  "    - {repeat: 2, choices: [{op: resnet_basic}]}\n"
                  "    - {repeat: 2, out: 128, stride: 2, choices: [{op: resnet_basic}]}\n"
                  "    - {repeat: 2, out: 256, stride: 2, choices: [{op: resnet_basic}]}\n"
                  "    - {repeat: 2, out: 512, stride: 2, choices: [{op: resnet_basic}]}\n",
                  11689512, 1.814}};
    double weights, products;
    struct space s;
    open_text(&s, known[_i].text);
    check_space(&s);
    count(&s, 0, &weights, &products);
    ck_assert_msg(weights == known[_i].weights, "%s: %.0f weights", known[_i].name, weights);
    ck_assert_msg(fabs(products * 1e-9 - known[_i].products) < 0.0006, "%s: %.0f multiplications",
                  known[_i].name, products);
    close_space(&s);
}
END_TEST

/* The largest network of NAS-Bench-201 has 1.531 million weights and takes 220.12 million
 * multiplications; subnets of SPOS have up to 330 million. */
START_TEST(test_published_sizes)
{
    double products, weights;
    struct space s;
    if (access("examples/nasbench201.yaml", R_OK) != 0) {
        fprintf(stderr, "test_program: SKIPPED test_published_sizes: no examples/ here\n");
        return;
    }
    open_file(&s, "examples/nasbench201.yaml");
    count(&s, 3, &weights, &products);
    ck_assert_msg(fabs(products - 220.12e6) < 0.01e6, "%.0f", products);
    ck_assert_msg(fabs(weights - 1.531e6) < 0.001e6, "%.0f", weights);
    close_space(&s);
    open_file(&s, "examples/spos.yaml");
    count(&s, 0, &weights, &products);
    ck_assert_msg(products > 250e6 && products < 330e6, "%.0f", products);
    close_space(&s);
}
END_TEST

/* Costs are at least their products, and not much more where products dominate. */
START_TEST(test_flops)
{
    struct space s;
    if (access("examples/cv-c3.yaml", R_OK) != 0) {
        fprintf(stderr, "test_program: SKIPPED test_flops: no examples/ here\n");
        return;
    }
    open_file(&s, "examples/cv-c3.yaml");
    for (int k = 0; k < s.net.kind_count; k++) {
        double products = 2.0 * products_of(&s.net.kinds[k]);
        struct np_flops flops = np_kind_flops(&s.net.kinds[k]);
        ck_assert(flops.forward >= products && flops.weight >= products);
        if (s.net.kinds[k].in.channels)
            ck_assert(flops.backward >= products);
        if (s.net.kinds[k].spec.op == NP_OP_RESNET_BASIC)
            ck_assert(flops.forward < 1.05 * products && flops.backward < 1.05 * products);
    }
    ck_assert(np_kind_flops(&s.net.kinds[0]).backward <
              0.1 * np_kind_flops(&s.net.kinds[0]).forward);
    close_space(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("program");
    TCase *tcase = tcase_create("all");
    int fd = mkstemp(path), failed;
    SRunner *runner;
    if (fd < 0 || close(fd) != 0)
        return 1;
    tcase_set_timeout(tcase, 900);
    tcase_add_test(tcase, test_images);
    tcase_add_test(tcase, test_pairs);
    tcase_add_loop_test(tcase, test_examples, 0, (int)(sizeof examples / sizeof *examples));
    tcase_add_test(tcase, test_nodes);
    tcase_add_test(tcase, test_cells);
    tcase_add_loop_test(tcase, test_readers, 0, 2);
    tcase_add_test(tcase, test_pairs_in_detail);
    tcase_add_test(tcase, test_windows);
    tcase_add_test(tcase, test_initial_values);
    tcase_add_test(tcase, test_one_position);
    tcase_add_loop_test(tcase, test_known_networks, 0, 3);
    tcase_add_test(tcase, test_published_sizes);
    tcase_add_test(tcase, test_flops);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    unlink(path);
    return failed ? 1 : 0;
}
