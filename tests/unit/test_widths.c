/* Blocks whose channels are a choice: what their candidates read and make, how they are written,
 * and what is refused. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "recipe_text.h"
#include "space/supernet.h"
#include "suite.h"

#define HEAD_OF_RECIPE "naspipe: recipe/1\ntrain: {steps: 10}\n"

static const char images[] =
    HEAD_OF_RECIPE "data: {train: {kind: idx, files: [i, l]}}\n"
                   "space:\n"
                   "  input: {kind: images, height: 9, width: 6, channels: 1, classes: 5}\n"
                   "  width: 8\n"
                   "  blocks: [{choices: [{op: zero}]}]\n";

static const char pairs[] =
    HEAD_OF_RECIPE "data: {train: {kind: pairs, files: [p]}}\n"
                   "space:\n"
                   "  input: {kind: pairs, vocab: 256, source_length: 9, length: 6}\n"
                   "  width: 12\n"
                   "  blocks: [{choices: [{op: embedding}]}]\n";

static enum np_status try_blocks(struct np_recipe *recipe, const char *text, const char *blocks,
                                 struct np_error *err)
{
    char set[1000];
    const char *sets[] = {set};
    snprintf(set, sizeof set, "space.blocks=%s", blocks);
    recipe_text_write(text, strlen(text));
    return np_recipe_read(recipe, recipe_path, sets, 1, err);
}

/* A space of the blocks. */
struct widths {
    struct np_recipe recipe;
    struct np_supernet net;
};

static void open_blocks(struct widths *w, const char *text, const char *blocks)
{
    struct np_error err = {.msg = ""};
    ck_assert_msg(try_blocks(&w->recipe, text, blocks, &err) == NP_OK, "%s", err.msg);
    recipe_text_stable(&w->recipe);
    ck_assert_int_eq(np_supernet_init(&w->net, &w->recipe, NULL), NP_OK);
}

static void close_blocks(struct widths *w)
{
    np_supernet_clear(&w->net);
    np_recipe_clear(&w->recipe);
}

/* What the candidates of a block read and make, [count][2]; 0: all. */
static void assert_channels(const struct widths *w, int block, int count, const int (*channels)[2])
{
    ck_assert_int_eq(w->recipe.blocks[block].count, count);
    for (int i = 0; i < count; i++) {
        uint32_t layer = w->net.layer_first[block + 1] + (uint32_t)i;
        const struct np_kind *kind = np_supernet_kind(&w->net, layer);
        ck_assert_msg(kind->reads == channels[i][0] && kind->makes == channels[i][1],
                      "block %d: candidate %d reads %d, makes %d", block, i, kind->reads,
                      kind->makes);
    }
}

#define CHANNELS(block, ...)                                                                       \
    assert_channels(&w, block, (int)(sizeof((int[][2]){__VA_ARGS__}) / sizeof(int[2])),            \
                    (const int[][2]){__VA_ARGS__})

/* As many as the width where the operator keeps the channels, of what has no width. */
START_TEST(behind_what_has_no_width)
{
    struct widths w;
    open_blocks(&w, images,
                "[{widths: [2, 4, 8], choices: [{op: ffn}, {op: conv2d}, {op: identity}, {op: "
                "zero}]}, {choices: [{op: ffn}]}, {widths: [4, 6], choices: [{op: conv2d}, {op: "
                "mbconv}]}]");
    CHANNELS(0, {2, 2}, {0, 2}, {2, 2}, {0, 0}, {4, 4}, {0, 4}, {4, 4}, {0, 0}, {0, 0}, {0, 0},
             {0, 0}, {0, 0});
    CHANNELS(1, {0, 0});
    CHANNELS(2, {0, 4}, {0, 4}, {0, 0}, {0, 0});
    ck_assert_int_eq(w.net.shapes[1].channels, 8);
    ck_assert_int_eq(w.net.shapes[3].channels, 6);
    close_blocks(&w);
}
END_TEST

/* As many as the tied block makes; an identity of the same width has nothing to do. */
START_TEST(behind_what_is_tied)
{
    struct widths w;
    open_blocks(&w, images,
                "[{widths: [2, 4, 8], tie_widths: t, repeat: 2, choices: [{op: mbconv}, {op: "
                "identity}]}, {widths: [5, 10, 20], tie_widths: t, stride: 2, choices: [{op: "
                "identity}]}, {widths: [5, 15, 20], tie_widths: t, choices: [{op: identity}]}]");
    CHANNELS(0, {0, 2}, {2, 2}, {0, 4}, {4, 4}, {0, 0}, {0, 0});
    CHANNELS(1, {2, 2}, {0, 0}, {4, 4}, {0, 0}, {0, 0}, {0, 0});
    CHANNELS(2, {2, 5}, {4, 10}, {0, 0});
    CHANNELS(3, {0, 0}, {10, 15}, {0, 0});
    close_blocks(&w);
}
END_TEST

/* What was added may have more channels. */
START_TEST(behind_a_sum)
{
    struct widths w;
    open_blocks(&w, images,
                "[{name: all, choices: [{op: norm}]}, {widths: [2, 8], tie_widths: t, add: all, "
                "choices: [{op: norm}]}, {widths: [2, 8], tie_widths: t, choices: [{op: identity}]"
                "}, {widths: [2, 8], tie_widths: t, choices: [{op: identity}]}]");
    CHANNELS(1, {2, 2}, {0, 0});
    CHANNELS(2, {2, 2}, {0, 0});
    CHANNELS(3, {0, 0}, {0, 0});
    close_blocks(&w);
}
END_TEST

/* All, zeros included, of a width that another draw decides. */
START_TEST(behind_other_widths)
{
    struct widths w;
    open_blocks(&w, images,
                "[{widths: [2, 8], tie_widths: a, choices: [{op: conv2d}]}, {widths: [2, 8], "
                "tie_widths: b, choices: [{op: conv2d}]}, {widths: [2, 8], repeat: 2, choices: "
                "[{op: conv2d}]}]");
    for (int b = 0; b < 4; b++)
        CHANNELS(b, {0, 2}, {0, 0});
    close_blocks(&w);
}
END_TEST

START_TEST(of_sequences)
{
    struct widths w;
    open_blocks(
        &w, pairs,
        "[{name: m, widths: [6, 12], tie_widths: e, choices: [{op: mha, heads: 2}, {op: "
        "glu}]}, {choices: [{op: embedding}]}, {widths: [4, 12], tie_widths: d, choices: "
        "[{op: mha, heads: 4, memory: m}]}, {widths: [4, 12], tie_widths: d, choices: [{op"
        ": lightconv, heads: 2}, {op: norm, act: relu}]}, {choices: [{op: ffn}]}, {widths: [5, 7]"
        ", choices: [{op: glu}]}]");
    CHANNELS(0, {6, 6}, {6, 6}, {0, 0}, {0, 0});
    CHANNELS(2, {4, 4}, {0, 0});
    CHANNELS(3, {4, 4}, {4, 4}, {0, 0}, {0, 0});
    CHANNELS(5, {5, 5}, {7, 7});
    close_blocks(&w);
}
END_TEST

/* What follows a width: hidden, where it is not given. */
START_TEST(defaults_follow_the_width)
{
    static const size_t hidden[] = {4, 3, 1, 3, 8, 3, 2, 3};
    struct widths w;
    open_blocks(&w, images,
                "[{widths: [4, 8], choices: [{op: resnet_basic}, {op: resnet_basic, hidden: 3}, "
                "{op: bottleneck}, {op: bottleneck, hidden: 3}]}]");
    for (uint32_t i = 0; i < 8; i++) {
        const struct np_kind *kind = np_supernet_kind(&w.net, w.net.layer_first[1] + i);
        int t = 0;
        while (strcmp(kind->tensors[t].name, i % 4 < 2 ? "conv1.weight" : "reduce.weight") != 0)
            t++;
        ck_assert_uint_eq(kind->tensors[t].shape[3], hidden[i]);
    }
    close_blocks(&w);
}
END_TEST

START_TEST(ratios_are_rounded_down)
{
    struct widths w;
    open_blocks(&w, pairs,
                "[{choices: [{op: embedding}]}, {widths: [4, 7, 12], choices: [{op: ffn, ratio: "
                "1.125}, {op: ffn, ratio: 3.5}]}]");
    recipe_text_holds(&w.recipe, "- {op: ffn, ratio: 1.125, act: gelu,");
    recipe_text_holds(&w.recipe, "- {op: ffn, ratio: 3.5, act: gelu,");
    for (uint32_t i = 0; i < 6; i++) {
        const struct np_kind *kind = np_supernet_kind(&w.net, w.net.layer_first[2] + i);
        size_t expected = i % 2 ? (size_t[]){14, 24, 42}[i / 2] : (size_t[]){4, 7, 13}[i / 2];
        ck_assert_str_eq(kind->tensors[2].name, "up.weight");
        ck_assert_uint_eq(kind->tensors[2].shape[1], expected);
    }
    close_blocks(&w);
}
END_TEST

START_TEST(how_they_are_written)
{
    struct widths w;
    open_blocks(&w, images,
                "[{widths: [2, 8], tie_widths: t, repeat: 2, stride: 2, choices: [{op: "
                "resnet_basic}, {op: bottleneck, hidden: 3}]}, {widths: [8], choices: [{op: "
                "zero}]}, {widths: [1, 8], out: 10, choices: [{op: conv2d}]}]");
    recipe_text_holds(&w.recipe,
                      "    - repeat: 2\n"
                      "      widths: [2, 8]\n"
                      "      tie_widths: t\n"
                      "      stride: 2\n"
                      "      choices:\n"
                      "        - {op: resnet_basic, kernel: 3, act: relu, dropout: 0, drop_path: "
                      "0}\n"
                      "        - {op: bottleneck, kernel: 3, groups: 1, hidden: 3, se: 0, act: relu"
                      ", dropout: 0, drop_path: 0}\n"
                      "    - repeat: 1\n");
    recipe_text_holds(&w.recipe, "      widths: [8]\n      stride: 1\n      choices:\n"
                                 "        - {op: zero}\n    - repeat: 1\n"
                                 "      widths: [1, 8]\n      out: 10\n      stride: 1\n");
    ck_assert_int_eq(w.net.shapes[4].channels, 10);
    CHANNELS(3, {0, 1}, {0, 8});
    close_blocks(&w);
}
END_TEST

/* What is measured of one is not taken for the other's. */
START_TEST(kinds_have_names_of_their_own)
{
    struct widths w;
    char name[NP_KIND_NAME], other[NP_KIND_NAME];
    open_blocks(&w, images,
                "[{out: 8, weights: entangled, widths: [2, 4, 8], choices: [{op: conv2d}]}, {out: "
                "8, weights: entangled, widths: [2, 4, 6], choices: [{op: conv2d}]}, {out: 8, "
                "weights: entangled, widths: [2, 4], choices: [{op: conv2d}]}]");
    for (int k = 0; k < w.net.kind_count; k++)
        for (int i = 0; i < k; i++) {
            np_kind_name(&w.net.kinds[k], name);
            np_kind_name(&w.net.kinds[i], other);
            ck_assert_str_ne(name, other);
        }
    close_blocks(&w);
}
END_TEST

/* Neighbours that are not alike do not fold: the digest would forget which widths are tied. */
START_TEST(how_they_fold)
{
    struct widths w;
    open_blocks(&w, images,
                "[{widths: [4, 8], tie_widths: t, choices: [{op: conv2d}]}, {widths: [4, 8], "
                "tie_widths: t, choices: [{op: conv2d}]}, {widths: [4, 8], tie_widths: u, choices: "
                "[{op: conv2d}]}]");
    recipe_text_holds(&w.recipe, "    - repeat: 2\n      widths: [4, 8]\n      tie_widths: t\n");
    recipe_text_holds(&w.recipe, "    - repeat: 1\n      widths: [4, 8]\n      tie_widths: u\n");
    close_blocks(&w);
}
END_TEST

START_TEST(whose_draws_are_whose)
{
    static const int drawn[] = {0, 1, 2, 3, 4, 4}, width_drawn[] = {0, 0, 2, 0, 4, 4};
    struct widths w;
    open_blocks(&w, images,
                "[{widths: [2, 8], tie_widths: t, repeat: 2, choices: [{op: norm}, {op: "
                "identity}]}, {widths: [2, 8], choices: [{op: conv2d}]}, {widths: [3, 8], "
                "tie_widths: t, choices: [{op: conv2d}]}, {widths: [5, 8], tie: t, repeat: 2, "
                "choices: [{op: conv2d}]}]");
    for (int b = 0; b < w.recipe.block_count; b++) {
        ck_assert_int_eq(w.recipe.blocks[b].drawn, drawn[b]);
        ck_assert_int_eq(w.recipe.blocks[b].width_drawn, width_drawn[b]);
    }
    close_blocks(&w);
}
END_TEST

START_TEST(what_is_refused)
{
    static const struct {
        const char *text, *blocks, *message;
    } bad[] = {
        {images, "[{widths: [4, 4], choices: [{op: zero}]}]", "'widths' ascend: 4 is not above 4"},
        {images, "[{widths: [], choices: [{op: zero}]}]",
         "'widths' must have at least 1 item, not 0"},
        {images, "[{widths: 8, choices: [{op: zero}]}]", "'widths' must be a list"},
        {images, "[{widths: [4, 8], out: 7, choices: [{op: zero}]}]",
         "'out' must be a whole number from 8 to 65536, not '7'"},
        {images, "[{widths: [4, 8], cell: 3, choices: [{op: zero}]}]", "a 'cell' has no widths"},
        {images, "[{tie_widths: t, choices: [{op: zero}]}]", "there are no 'widths' to tie"},
        {images, "[{widths: [4, 8], tie: t, tie_widths: t, choices: [{op: zero}]}]",
         "what is tied has the same widths: 'tie' or 'tie_widths'"},
        {images,
         "[{widths: [4, 8], tie_widths: t, choices: [{op: zero}]}, {widths: [2, 4, 8], tie_widths: "
         "t, choices: [{op: zero}]}]",
         "what is tied to 't' has 2 widths, not 3"},
        {images,
         "[{widths: [8], tie: t, choices: [{op: zero}, {op: norm}]}, {tie: t, choices: [{op: zero},"
         " {op: norm}]}]",
         "what is tied to 't' has 1 width, not 0"},
        {images,
         "[{name: m, choices: [{op: zero}]}, {widths: [8, 16], choices: [{op: concat, "
         "memory: m}]}]",
         "'concat' is no candidate of a block with widths"},
        {images,
         "[{widths: [4, 8], choices: [{op: norm}]}, {widths: [4, 8], choices: [{op: ffn}]"
         "}]",
         "'ffn' keeps the shape, its block makes 9x6x4 of 9x6x8"},
        {images,
         "[{widths: [4, 8], choices: [{op: norm}]}, {widths: [4, 8], choices: [{op: norm}]"
         "}]",
         "'norm' keeps the shape, its block makes 9x6x4 of 9x6x8"},
        {images, "[{widths: [5, 8], choices: [{op: mha, heads: 4}]}]",
         "'heads' must divide the width of 5, not 4"},
        {images, "[{widths: [5, 8], choices: [{op: shuffle}]}]",
         "'shuffle' makes an even number of channels, not 5"},
        {images, "[{weights: entangled, widths: [4, 8], choices: [{op: resnet_basic}]}]",
         "entangled weights: candidate 1, the largest like this one, has no 'shortcut.weight'"},
        {images, "[{widths: [4, 8], choices: [{op: conv2d, groups: 3}]}]",
         "'groups' must divide the 8 channels it reads and the 4 it makes, not 3"},
        {pairs, "[{choices: [{op: embedding}]}, {widths: [4, 13], choices: [{op: ffn}]}]",
         "'widths' go up to the width of 12, not to 13"},
        {pairs, "[{widths: [4, 12], choices: [{op: embedding}]}]",
         "'embedding' is no candidate of a block with widths"},
        {pairs, "[{choices: [{op: embedding}]}, {choices: [{op: norm, norm: batch}]}]",
         "unknown norm 'batch' (known: layer, rms)"},
        {pairs,
         "[{choices: [{op: embedding}]}, {widths: [4, 12], tie_widths: a, choices: [{op: ffn}]}, "
         "{widths: [4, 12], choices: [{op: glu}]}]",
         "'glu' keeps the shape, its block makes 1x6x4 of 1x6x12"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct np_recipe recipe;
        struct np_error err = {.msg = ""};
        ck_assert_msg(try_blocks(&recipe, bad[i].text, bad[i].blocks, &err) == NP_EINPUT, "%s",
                      bad[i].blocks);
        ck_assert_msg(strstr(err.msg, bad[i].message) != NULL, "%s, not %s", err.msg,
                      bad[i].message);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("widths");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, behind_what_has_no_width);
    tcase_add_test(tests, behind_what_is_tied);
    tcase_add_test(tests, behind_a_sum);
    tcase_add_test(tests, behind_other_widths);
    tcase_add_test(tests, of_sequences);
    tcase_add_test(tests, defaults_follow_the_width);
    tcase_add_test(tests, ratios_are_rounded_down);
    tcase_add_test(tests, how_they_are_written);
    tcase_add_test(tests, kinds_have_names_of_their_own);
    tcase_add_test(tests, how_they_fold);
    tcase_add_test(tests, whose_draws_are_whose);
    tcase_add_test(tests, what_is_refused);
    return recipe_text_run(suite);
}
