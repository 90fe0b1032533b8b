/* Networks that others have measured: weights, multiplications, and planned costs. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "program_check.h"
#include "recipe_text.h"
#include "suite.h"

/* The network that takes the first candidate everywhere, or `fifth` where there are five. */
static void count(const struct space *s, int fifth, double *weights, double *products)
{
    *weights = *products = 0.0;
    for (int p = 0; p < s->net.positions; p++) {
        bool five = s->net.layer_first[p + 1] - s->net.layer_first[p] == 5;
        const struct np_kind *kind = space_kind(s, p, five ? fifth : 0);
        *weights += (double)kind->floats;
        *products += np_kind_macs(kind);
    }
}

enum { KNOWN = 5 };

#define IMAGENET                                                                                   \
    "naspipe: recipe/1\ntrain: {steps: 1}\n"                                                       \
    "data: {train: {kind: idx, files: [i, l]}}\n"                                                  \
    "space:\n"                                                                                     \
    "  input: {kind: images, height: 224, width: 224, channels: 3, classes: 1000}\n"

/* Weights and multiplications (in thousands of millions) as PyTorch's documentation gives them. */
START_TEST(test_known_networks)
{
    static const struct {
        const char *name, *text;
        double weights, products;
    } known[] = {
        {"mobilenet_v2",
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
         IMAGENET "  width: 64\n"
                  "  stem: {kernel: 7, stride: 2}\n"
                  "  blocks:\n"
                  "    - {stride: 2, choices: [{op: max_pool}]}\n"
                  "    - {repeat: 2, choices: [{op: resnet_basic}]}\n"
                  "    - {repeat: 2, out: 128, stride: 2, choices: [{op: resnet_basic}]}\n"
                  "    - {repeat: 2, out: 256, stride: 2, choices: [{op: resnet_basic}]}\n"
                  "    - {repeat: 2, out: 512, stride: 2, choices: [{op: resnet_basic}]}\n",
         11689512, 1.814},
        {"resnet50",
         IMAGENET "  width: 64\n"
                  "  stem: {kernel: 7, stride: 2}\n"
                  "  blocks:\n"
                  "    - {stride: 2, choices: [{op: max_pool}]}\n"
                  "    - {repeat: 3, out: 256, choices: [{op: bottleneck}]}\n"
                  "    - {repeat: 4, out: 512, stride: 2, choices: [{op: bottleneck}]}\n"
                  "    - {repeat: 6, out: 1024, stride: 2, choices: [{op: bottleneck}]}\n"
                  "    - {repeat: 3, out: 2048, stride: 2, choices: [{op: bottleneck}]}\n",
         25557032, 4.089},
        {"resnext50_32x4d",
         IMAGENET
         "  width: 64\n"
         "  stem: {kernel: 7, stride: 2}\n"
         "  blocks:\n"
         "    - {stride: 2, choices: [{op: max_pool}]}\n"
         "    - {repeat: 3, out: 256, choices: [{op: bottleneck, hidden: 128, groups: 32}]}\n"
         "    - {repeat: 4, out: 512, stride: 2,\n"
         "       choices: [{op: bottleneck, hidden: 256, groups: 32}]}\n"
         "    - {repeat: 6, out: 1024, stride: 2,\n"
         "       choices: [{op: bottleneck, hidden: 512, groups: 32}]}\n"
         "    - {repeat: 3, out: 2048, stride: 2,\n"
         "       choices: [{op: bottleneck, hidden: 1024, groups: 32}]}\n",
         25028904, 4.230}};
    double weights, products;
    struct space s;
    ck_assert_int_eq(sizeof known / sizeof *known, KNOWN);
    space_open_text(&s, known[_i].text);
    check_space(&s);
    count(&s, 0, &weights, &products);
    ck_assert_msg(weights == known[_i].weights, "%s: %.0f weights", known[_i].name, weights);
    ck_assert_msg(fabs(products * 1e-9 - known[_i].products) < 0.0006, "%s: %.0f multiplications",
                  known[_i].name, products);
    space_close(&s);
}
END_TEST

/* DARTS_V2, the cells that DARTS found, with 36 channels and 20 cells: its authors' program counts
 * 3.349342 million weights. */
START_TEST(test_darts)
{
#define CELL                                                                                       \
    "choices: [{op: zero}, {op: identity}, {op: sepconv}, {op: dilconv}, {op: max_pool}]}\n"
#define NORMAL(repeat, out)                                                                        \
    "    - {repeat: " repeat ", cell: 6, inputs: 2, tie: normal, out: " out ", " CELL
#define REDUCTION(out) "    - {cell: 6, inputs: 2, stride: 2, tie: reduction, out: " out ", " CELL
    static const char text[] =
        "naspipe: recipe/1\ntrain: {steps: 1}\ndata: {train: {kind: cifar10, files: [d]}}\n"
        "space:\n"
        "  input: {kind: images, height: 32, width: 32, channels: 3, classes: 10}\n"
        "  width: 108\n"
        "  stem: {act: none}\n"
        "  blocks:\n" NORMAL("6", "36") REDUCTION("72") NORMAL("6", "72") REDUCTION("144")
            NORMAL("6", "144");
    enum { NONE, SKIP, SEP, DIL, MAX, BLOCKS = 19 };
    static const int normal[BLOCKS] = {0,    0, /* what fits the inputs */
                                       SEP,  SEP,  SEP,  SEP,  NONE, SKIP, SEP,
                                       NONE, NONE, SKIP, NONE, DIL,  NONE, NONE},
                     reduction[BLOCKS] = {0,    0,    MAX,  MAX,  NONE, MAX,  SKIP, MAX,
                                          NONE, SKIP, NONE, NONE, MAX,  SKIP, NONE, NONE};
    double weights = 0.0;
    struct space s;
    space_open_text(&s, text);
    check_space(&s);
    ck_assert_int_eq(s.net.positions, 20 * BLOCKS + 2);
    for (int p = 0; p < s.net.positions; p++) {
        int cell = (p - 1) / BLOCKS, block = (p - 1) % BLOCKS;
        bool end = p == 0 || p == s.net.positions - 1;
        const int *chosen = cell == 6 || cell == 13 ? reduction : normal;
        weights += (double)space_kind(&s, p, end ? 0 : chosen[block])->floats;
    }
    ck_assert_msg(weights == 3349342.0, "%.0f weights", weights);
    space_close(&s);
#undef REDUCTION
#undef NORMAL
#undef CELL
}
END_TEST

/* The largest network of NAS-Bench-201 has 1.531 million weights and takes 220.12 million
 * multiplications; subnets of SPOS have up to 330 million. */
START_TEST(test_published_sizes)
{
    double products, weights;
    struct space s;
    if (access("examples/nasbench201.yaml", R_OK) != 0) {
        fprintf(stderr, "test_networks: SKIPPED test_published_sizes: no examples/ here\n");
        return;
    }
    space_open(&s, "examples/nasbench201.yaml");
    count(&s, 3, &weights, &products);
    ck_assert_msg(fabs(products - 220.12e6) < 0.01e6, "%.0f", products);
    ck_assert_msg(fabs(weights - 1.531e6) < 0.001e6, "%.0f", weights);
    space_close(&s);
    space_open(&s, "examples/spos.yaml");
    count(&s, 0, &weights, &products);
    ck_assert_msg(products > 250e6 && products < 330e6, "%.0f", products);
    space_close(&s);
}
END_TEST

/* Costs are at least their products, and not much more where products dominate. */
START_TEST(test_flops)
{
    struct space s;
    if (access("examples/cv-c3.yaml", R_OK) != 0) {
        fprintf(stderr, "test_networks: SKIPPED test_flops: no examples/ here\n");
        return;
    }
    space_open(&s, "examples/cv-c3.yaml");
    for (int k = 0; k < s.net.kind_count; k++) {
        double products = 2.0 * np_kind_macs(&s.net.kinds[k]);
        struct np_flops flops = np_kind_flops(&s.net.kinds[k]);
        ck_assert(flops.forward >= products && flops.weight >= products);
        if (s.net.kinds[k].in.channels)
            ck_assert(flops.backward >= products);
        if (s.net.kinds[k].spec.op == NP_OP_RESNET_BASIC)
            ck_assert(flops.forward < 1.05 * products && flops.backward < 1.05 * products);
    }
    ck_assert(np_kind_flops(&s.net.kinds[0]).backward <
              0.1 * np_kind_flops(&s.net.kinds[0]).forward);
    space_close(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("networks");
    TCase *tests = suite_case(suite, "networks");
    tcase_add_loop_test(tests, test_known_networks, 0, KNOWN);
    tcase_add_test(tests, test_darts);
    tcase_add_test(tests, test_published_sizes);
    tcase_add_test(tests, test_flops);
    return recipe_text_run(suite);
}
