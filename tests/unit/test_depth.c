/* Repeats of which the last may be passed over: the blocks they stand for, how they are written and
 * drawn, and what is refused. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "recipe_text.h"
#include "space/depth.h"
#include "space/derive.h"
#include "space/sampler.h"
#include "suite.h"

#define HEAD_OF_RECIPE "naspipe: recipe/1\ntrain: {steps: 10}\n"

static const char images[] =
    HEAD_OF_RECIPE "data: {train: {kind: idx, files: [i, l]}}\n"
                   "space:\n"
                   "  input: {kind: images, height: 9, width: 6, channels: 1, classes: 5}\n"
                   "  width: 8\n"
                   "  blocks: [{choices: [{op: zero}]}]\n";

static const char tokens[] = HEAD_OF_RECIPE "data: {train: {kind: bytes, files: [t]}}\n"
                                            "space:\n"
                                            "  input: {vocab: 256, length: 9}\n"
                                            "  width: 12\n"
                                            "  blocks: [{choices: [{op: ffn}]}]\n";

static enum np_status try_blocks(struct np_recipe *recipe, const char *text, const char *blocks,
                                 const char *sampler, struct np_error *err)
{
    char set[1000], other[100];
    const char *sets[] = {set, other};
    snprintf(set, sizeof set, "space.blocks=%s", blocks);
    snprintf(other, sizeof other, "sampler=%s", sampler);
    recipe_text_write(text, strlen(text));
    return np_recipe_read(recipe, recipe_path, sets, 2, err);
}

static void read_blocks(struct np_recipe *recipe, const char *text, const char *blocks)
{
    struct np_error err = {.msg = ""};
    enum np_status status =
        try_blocks(recipe, text, blocks, "{kind: sandwich, members: 3, batch: own}", &err);
    ck_assert_msg(status == NP_OK, "%s", err.msg);
    recipe_text_stable(recipe);
}

/* A stage of four units, two of attention and of feed-forward layers, and a block behind them. */
static const char stages[] =
    "[{out: 12, stride: 2, depth: [2, 4], choices: [{op: conv2d}, {op: mbconv, expand: 2}, {op: "
    "identity}]}, {depth: [1, 2, 3], repeat: 3, blocks: [{repeat: 2, choices: [{op: mha, heads: "
    "2}]}, {weights: entangled, choices: [{op: ffn, ratio: 1}, {op: ffn, ratio: 2}]}]}, {choices: "
    "[{op: norm}]}]";

static const int stage_levels[] = {0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 0};
static const int stage_counts[] = {3, 3, 4, 4, 1, 1, 2, 2, 2, 3, 2, 2, 3, 1};
enum { STAGE_BLOCKS = sizeof stage_levels / sizeof *stage_levels };

START_TEST(what_they_stand_for)
{
    struct np_recipe recipe;
    read_blocks(&recipe, images, stages);
    ck_assert_int_eq(recipe.block_count, STAGE_BLOCKS);
    ck_assert_int_eq(recipe.depth_count, 2);
    ck_assert(recipe.depths[0].first == 0 && recipe.depths[0].each == 1);
    ck_assert(recipe.depths[1].first == 4 && recipe.depths[1].each == 3);
    for (int b = 0; b < STAGE_BLOCKS; b++) {
        const struct np_block *block = &recipe.blocks[b];
        ck_assert_int_eq(block->level, stage_levels[b]);
        ck_assert_int_eq(block->count, stage_counts[b]);
        ck_assert_int_eq(block->depth, b < 4 ? 0 : b < 13 ? 1 : -1);
        ck_assert_int_eq(block->stride, b == 0 ? 2 : 1);
        ck_assert_int_eq(block->from, b);
        for (int c = 0; c < block->count; c++)
            ck_assert_int_eq(np_depth_passes(block, c), block->level > 0 && c == block->count - 1);
        if (block->level > 0)
            ck_assert_int_eq(block->choices[block->count - 1].op, NP_OP_IDENTITY);
    }
    np_recipe_clear(&recipe);
}
END_TEST

/* The same in other words is the same recipe, and repeats without a depth are not. */
START_TEST(how_they_are_written)
{
    struct np_recipe recipe, list, plain;
    read_blocks(&recipe, images, stages);
    recipe_text_holds(&recipe, "    - repeat: 4\n      depth: [2, 4]\n      blocks:\n"
                               "        - repeat: 1\n          out: 12\n          stride: 2\n"
                               "          choices:\n            - {op: conv2d, ");
    recipe_text_holds(&recipe, "            - {op: identity}\n    - repeat: 3\n"
                               "      depth: [1, 2, 3]\n      blocks:\n        - repeat: 2\n");
    np_recipe_clear(&recipe);
    read_blocks(&recipe, tokens, "[{depth: [1, 3], choices: [{op: ffn}]}]");
    read_blocks(&list, tokens, "[{repeat: 3, depth: [1, 3], blocks: [{choices: [{op: ffn}]}]}]");
    read_blocks(&plain, tokens, "[{repeat: 3, choices: [{op: ffn}]}]");
    ck_assert_str_eq(recipe.canonical, list.canonical);
    ck_assert_str_ne(recipe.canonical, plain.canonical);
    np_recipe_clear(&recipe);
    np_recipe_clear(&list);
    np_recipe_clear(&plain);
}
END_TEST

/* Neighbours that are drawn apart stay apart, and lists repeat them. */
START_TEST(where_they_may_stand)
{
    static const int depths[] = {0, 0, 1, 1, -1, 2, 2, 3, 3, 3, 3};
    static const int levels[] = {1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1};
    struct np_recipe recipe;
    read_blocks(&recipe, tokens,
                "[{repeat: 2, blocks: [{depth: [0, 2], choices: [{op: ffn}]}]}, {choices: [{op: "
                "ffn}]}, {depth: [2], choices: [{op: ffn}]}, {depth: [1, 2], blocks: [{repeat: 2, "
                "blocks: [{choices: [{op: glu}]}]}]}]");
    recipe_text_holds(&recipe, "    - repeat: 2\n      depth: [2]\n");
    ck_assert_int_eq(recipe.block_count, 11);
    ck_assert_int_eq(recipe.depth_count, 4);
    for (int b = 0; b < 11; b++) {
        ck_assert_int_eq(recipe.blocks[b].depth, depths[b]);
        ck_assert_int_eq(recipe.blocks[b].level, levels[b]);
    }
    np_recipe_clear(&recipe);
}
END_TEST

/* Whether what is passed over are the last repeats, of as many as there may be. */
static int depth_of(const struct np_recipe *recipe, const uint16_t *choices, int which)
{
    const struct np_depth *depth = &recipe->depths[which];
    int most = depth->repeats[depth->count - 1], there = 0;
    for (int r = 0; r < most; r++)
        for (int i = 0; i < depth->each; i++) {
            int b = depth->first + r * depth->each + i;
            bool passed = np_depth_passes(&recipe->blocks[b], choices[b]);
            ck_assert(i == 0 || passed == (there <= r));
            ck_assert(passed || there >= r);
            if (i == 0 && !passed)
                there++;
        }
    for (int d = 0; d < depth->count; d++)
        if (depth->repeats[d] == there)
            return d;
    ck_abort_msg("%d repeats are none of the depths", there);
}

static double seen[STAGE_BLOCKS][4];

static void count(const struct np_recipe *recipe, const uint16_t *choices, int depths[2][3])
{
    for (int d = 0; d < 2; d++)
        depths[d][depth_of(recipe, choices, d)]++;
    for (int b = 0; b < STAGE_BLOCKS; b++)
        seen[b][choices[b]]++;
}

/* Depths equally often, and of a block that is there each candidate; as np_depth_odds says. */
START_TEST(how_they_are_drawn)
{
    enum { SUBNETS = 12000 };
    struct np_recipe recipe;
    struct np_stream_shape shape;
    struct np_stream_block *each;
    uint16_t choices[STAGE_BLOCKS];
    int depths[2][3] = {{0}}, both = 0;
    read_blocks(&recipe, images, stages);
    ck_assert_int_eq(np_stream_shape_init(&shape, &each, &recipe, NULL), NP_OK);
    for (uint64_t i = 0; i < SUBNETS; i++) {
        np_stream_eval_subnet(&shape, 7, i, choices);
        count(&recipe, choices, depths);
        both += depth_of(&recipe, choices, 0) == 1 && depth_of(&recipe, choices, 1) == 2;
    }
    for (int d = 0; d < 2; d++)
        ck_assert_int_lt(abs(depths[0][d] - SUBNETS / 2), 274); /* five deviations */
    for (int d = 0; d < 3; d++)
        ck_assert_int_lt(abs(depths[1][d] - SUBNETS / 3), 259);
    ck_assert_int_lt(abs(both - SUBNETS / 6), 205);
    for (int b = 0; b < STAGE_BLOCKS; b++) {
        const struct np_block *block = &recipe.blocks[b];
        double sum = 0;
        for (int c = 0; c < block->count; c++) {
            double odds = np_depth_odds(&recipe, block, c), mean = SUBNETS / (double)block->count;
            sum += odds;
            ck_assert_msg(fabs(seen[b][c] - odds * mean) < 274, "block %d, candidate %d: %g", b, c,
                          seen[b][c]);
        }
        ck_assert_double_eq_tol(sum, block->count, 1e-12);
    }
    free(each);
    np_recipe_clear(&recipe);
}
END_TEST

/* Blocks that are passed over cost nothing as often. */
START_TEST(what_a_plan_expects)
{
    static const double expected[] = {18, 12, 6, 6};
    struct np_recipe recipe;
    struct np_supernet net;
    struct np_plan plan;
    read_blocks(&recipe, images, stages);
    ck_assert_int_eq(np_supernet_init(&net, &recipe, NULL), NP_OK);
    ck_assert_int_eq(np_plan_init(&plan, &net, 1, NULL), NP_OK);
    for (int k = 0; k < net.kind_count; k++)
        plan.kind_cost[k] = (struct np_layer_cost){.f = net.kinds[k].floats ? 18 : 0};
    for (int b = 0; b < 4; b++) /* of all but the first, identities are free */
        ck_assert_double_eq_tol(np_plan_load(&plan, &net, b + 1), expected[b], 1e-9);
    np_plan_clear(&plan);
    np_supernet_clear(&net);
    np_recipe_clear(&recipe);
}
END_TEST

/* A block has the draw that it has without a depth, where it is there. */
START_TEST(they_draw_as_without)
{
    static const char blocks[] = "[{depth: [0, 1, 2], choices: [{op: ffn}, {op: glu}, {op: ffn, "
                                 "ratio: 2}]}]";
    struct np_recipe recipe, plain;
    struct np_stream_shape shape, bare;
    struct np_stream_block *each, *others;
    uint16_t a[2], b[2];
    int there = 0;
    read_blocks(&recipe, tokens, blocks);
    read_blocks(&plain, tokens,
                "[{repeat: 2, choices: [{op: ffn}, {op: glu}, {op: ffn, ratio: 2}]}"
                "]");
    ck_assert_int_eq(np_stream_shape_init(&shape, &each, &recipe, NULL), NP_OK);
    ck_assert_int_eq(np_stream_shape_init(&bare, &others, &plain, NULL), NP_OK);
    for (uint64_t i = 0; i < 100; i++) {
        np_stream_eval_subnet(&shape, 7, i, a);
        np_stream_eval_subnet(&bare, 7, i, b);
        for (int k = 0; k < 2; k++) {
            ck_assert(a[k] == 3 || a[k] == b[k]);
            there += a[k] < 3;
        }
    }
    ck_assert(there > 50 && there < 150);
    free(each);
    free(others);
    np_recipe_clear(&recipe);
    np_recipe_clear(&plain);
}
END_TEST

static void pin(const char *text, const char *blocks, enum np_sampler_kind sampler,
                const char *digest)
{
    static uint16_t choices[200][3 * STAGE_BLOCKS];
    struct np_recipe recipe;
    struct np_stream_shape shape;
    struct np_stream_block *each;
    struct np_stream *stream;
    struct np_digest found;
    bool more;
    read_blocks(&recipe, text, blocks);
    memset(choices, 0, sizeof choices);
    ck_assert_int_eq(np_stream_shape_init(&shape, &each, &recipe, NULL), NP_OK);
    ck_assert_int_eq(np_stream_draw(&stream, &shape, sampler, 8, 7, 0, NULL), NP_OK);
    for (int step = 0; step < 200; step++)
        ck_assert_int_eq(np_stream_next(stream, choices[step], &more, NULL), NP_OK);
    ck_assert_int_eq(np_digest_compute(&found, choices, sizeof choices, NULL), NP_OK);
    ck_assert_str_eq(np_digest_hex(&found).s, digest);
    np_stream_close(stream);
    free(each);
    np_recipe_clear(&recipe);
}

/* What is drawn is for ever. */
START_TEST(pinned)
{
    pin(images, stages, NP_SAMPLER_SANDWICH,
        "0a42cfae62460edeea6ab8b4ff53137101c29e09d989d1a66fede723a7713ee1");
    pin(tokens,
        "[{depth: [1, 5, 9], choices: [{op: ffn}, {op: glu}, {op: norm}, {op: mha, heads: 2}]}]",
        NP_SAMPLER_SPREAD, "5e910d6c966839b02b573c47dc05da7bc1b0282ab163b9b955f2e5207868777c");
    pin(tokens, "[{depth: [0, 1, 3], choices: [{op: ffn}, {op: glu}]}]", NP_SAMPLER_SANDWICH,
        "86cc41cd645796be74bd7165e8aab910628f3aba9892580d2b570dc21d8c4062");
}
END_TEST

static const char slim[] = "[{widths: [4, 6, 8], tie_widths: t, depth: [1, 2], weights: entangled, "
                           "choices: [{op: ffn, ratio: 1}, {op: ffn, ratio: 2}]}]";

/* The sandwich's first member has all of the repeats, and the second one as few as there may be. */
START_TEST(largest_and_smallest)
{
    static const int wide[] = {7, 7}, narrow[] = {0, 2};
    struct np_recipe recipe;
    read_blocks(&recipe, images, stages);
    for (int b = 0; b < STAGE_BLOCKS; b++) {
        const struct np_block *block = &recipe.blocks[b];
        ck_assert(!np_depth_passes(block, block->largest));
        ck_assert(block->level == 0 || np_depth_passes(block, block->smallest));
    }
    ck_assert_int_eq(recipe.blocks[12].largest, 1);
    ck_assert_int_eq(recipe.blocks[6].smallest, 0);
    np_recipe_clear(&recipe);
    read_blocks(&recipe, images, slim);
    for (int b = 0; b < 2; b++) { /* of block 1 numbers 2, 5 and 8 pass */
        ck_assert_int_eq(recipe.blocks[b].largest, wide[b] - 2 * (b == 0));
        ck_assert_int_eq(recipe.blocks[b].smallest, narrow[b]);
        ck_assert_int_eq(recipe.blocks[b].count, b == 0 ? 6 : 9);
    }
    np_recipe_clear(&recipe);
}
END_TEST

/* All widths of what is passed over stay as they are. */
START_TEST(with_widths)
{
    struct np_recipe recipe;
    struct np_stream_shape shape;
    struct np_stream_block *each;
    uint16_t choices[2];
    int passed[3] = {0};
    read_blocks(&recipe, images, slim);
    recipe_text_holds(&recipe, "          widths: [4, 6, 8]\n          tie_widths: t\n");
    ck_assert_int_eq(np_stream_shape_init(&shape, &each, &recipe, NULL), NP_OK);
    for (uint64_t i = 0; i < 600; i++) {
        np_stream_eval_subnet(&shape, 7, i, choices);
        ck_assert_int_eq(choices[0] / 2, choices[1] / 3);
        passed[choices[1] / 3] += np_depth_passes(&recipe.blocks[1], choices[1]);
    }
    for (int w = 0; w < 3; w++)
        ck_assert_int_lt(abs(passed[w] - 100), 46);
    free(each);
    np_recipe_clear(&recipe);
}
END_TEST

START_TEST(what_is_derived)
{
    static const uint16_t choices[STAGE_BLOCKS] = {0, 1, 3, 3, 0, 0, 1, 0, 0, 1, 1, 1, 2, 0};
    struct np_recipe recipe, own;
    struct np_supernet net;
    struct np_buf text = {0};
    read_blocks(&recipe, images, stages);
    ck_assert_int_eq(np_supernet_init(&net, &recipe, NULL), NP_OK);
    ck_assert_int_eq(np_derive(&text, &net, choices, NULL), NP_OK);
    recipe_text_read(&own, text.text);
    ck_assert_int_eq(own.block_count, STAGE_BLOCKS);
    ck_assert_int_eq(own.depth_count, 0);
    for (int b = 0; b < STAGE_BLOCKS; b++)
        ck_assert_int_eq(own.blocks[b].choices->op, recipe.blocks[b].choices[choices[b]].op);
    np_buf_clear(&text);
    np_recipe_clear(&own);
    np_supernet_clear(&net);
    np_recipe_clear(&recipe);
}
END_TEST

START_TEST(what_is_refused)
{
    static const struct {
        const char *text, *blocks, *message;
    } bad[] = {
        {tokens, "[{depth: [2, 2], choices: [{op: ffn}]}]", "'depth' ascends: 2 is not above 2"},
        {tokens, "[{depth: [], choices: [{op: ffn}]}]", "'depth' must have at least 1 item, not 0"},
        {tokens, "[{depth: 2, choices: [{op: ffn}]}]", "'depth' must be a list, not '2'"},
        {tokens, "[{depth: [0], choices: [{op: ffn}]}]", "the last 'depth' is 1 or more"},
        {tokens, "[{depth: [-1, 2], choices: [{op: ffn}]}]",
         "'depth.0' must be a whole number from 0 to 4096, not '-1'"},
        {tokens, "[{repeat: 3, depth: [1, 2], choices: [{op: ffn}]}]",
         "'repeat' is the last 'depth', 2, where there are some"},
        {tokens, "[{depth: [1, 2], name: a, choices: [{op: ffn}]}]",
         "there is no 'name' within a 'depth'"},
        {tokens, "[{depth: [1, 2], tie: a, choices: [{op: ffn}]}]",
         "there is no 'tie' within a 'depth'"},
        {tokens, "[{depth: [1, 2], blocks: [{cell: 3, choices: [{op: ffn}]}]}]",
         "there is no 'cell' within a 'depth'"},
        {tokens, "[{name: a, choices: [{op: ffn}]}, {depth: [1, 2], add: a, choices: [{op: ffn}]}]",
         "there is no 'add' within a 'depth'"},
        {tokens,
         "[{name: a, choices: [{op: ffn}]}, {depth: [1, 2], from: a, choices: [{op: ffn}]}]",
         "there is no 'from' within a 'depth'"},
        {tokens, "[{depth: [1, 2], blocks: [{depth: [1, 2], choices: [{op: ffn}]}]}]",
         "there is no 'depth' within a 'depth'"},
        {tokens, "[{depth: [1, 2], blocks: [{blocks: [{depth: [1, 2], choices: [{op: ffn}]}]}]}]",
         "there is no 'depth' within a 'depth'"},
        {tokens, "[{depth: [1, 2], choices: [{op: ffn}], outs: 1}]", "unknown key 'outs' (known: "},
        {tokens, "[{depth: [1, 4096], blocks: [{choices: [{op: ffn}]}, {choices: [{op: ffn}]}]}]",
         "more than 4096 choice blocks"},
        {images, "[{depth: [0, 2], out: 12, choices: [{op: conv2d}]}]",
         "a 'depth' passes over what keeps the shape, not from 9x6x8 to 9x6x12"},
        {images, "[{depth: [0, 2], stride: 2, choices: [{op: conv2d}]}]",
         "a 'depth' passes over what keeps the shape, not from 9x6x8 to 5x3x8 by a stride"},
        {images,
         "[{stride: 2, choices: [{op: zero}]}, {stride: 2, choices: [{op: zero}]}, {stride: 2, "
         "choices: [{op: zero}]}, {stride: 2, choices: [{op: zero}]}, {depth: [0, 2], stride: 2, "
         "choices: [{op: conv2d}]}]",
         "a 'depth' passes over what keeps the shape, not from 1x1x8 to 1x1x8 by a stride"},
        {images,
         "[{depth: [1, 2], blocks: [{out: 12, choices: [{op: conv2d}]}, {out: 8, choices: [{op: "
         "conv2d}]}]}]",
         "a 'depth' passes over what keeps the shape, not from 9x6x8 to 9x6x12"},
        {images, "[{depth: [1, 2], widths: [4, 8], choices: [{op: conv2d}]}]",
         "a 'depth' passes over what keeps the shape, its widths tied to those it reads, not from "
         "9x6x8 to 9x6x4"},
        {images,
         "[{depth: [1, 2], blocks: [{widths: [4, 8], tie_widths: t, choices: [{op: conv2d}]}, "
         "{choices: [{op: conv2d}]}]}]",
         "a 'depth' passes over what keeps the shape, its widths tied to those it reads, not from "
         "9x6x4 to 9x6x4"},
        {images, "[{depth: [0, 1], widths: [4, 8], choices: [{op: conv2d}]}]",
         "its widths tied to those it reads, not from 9x6x4 to 9x6x4"},
        {images,
         "[{name: a, choices: [{op: norm}]}, {widths: [4, 8], tie_widths: t, add: a, choices: "
         "[{op: norm}]}, {depth: [0, 1], widths: [4, 8], tie_widths: t, choices: [{op: norm}]}]",
         "its widths tied to those it reads, not from 9x6x4 to 9x6x4"},
        {images,
         "[{depth: [2], blocks: [{choices: [{op: conv2d}]}, {out: 12, choices: [{op: conv2d}]}]}]",
         "the repeats of a 'depth' are alike: 'out' must be said, as this block makes 8 channels "
         "in the first one and 12 in another"},
        {images,
         "[{depth: [2, 3], blocks: [{choices: [{op: bottleneck}, {op: resnet_basic}]}, {out: 12, "
         "choices: [{op: bottleneck}]}]}]",
         "the repeats of a 'depth' are alike"},
    };
    struct np_recipe recipe;
    struct np_error err = {.msg = ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        enum np_status status = try_blocks(&recipe, bad[i].text, bad[i].blocks, "{}", &err);
        ck_assert_msg(status == NP_EINPUT, "%s", bad[i].blocks);
        ck_assert_msg(strstr(err.msg, bad[i].message) != NULL, "%s, not %s", err.msg,
                      bad[i].message);
    }
    ck_assert_int_eq(try_blocks(&recipe, images, stages, "{kind: fair}", &err), NP_EINPUT);
    ck_assert_ptr_nonnull(
        strstr(err.msg, "fair takes every candidate equally often: it has no 'depth'"));
}
END_TEST

static void try_line(const struct np_recipe *recipe, const char *line, const char *message)
{
    struct np_error err = {.msg = ""};
    struct np_stream_shape shape;
    struct np_stream_block *each;
    struct np_stream *stream = NULL;
    enum np_status status;
    ck_assert_int_eq(np_stream_shape_init(&shape, &each, recipe, NULL), NP_OK);
    shape.members = 1;
    recipe_text_write(line, strlen(line));
    status = np_stream_open(&stream, &shape, recipe_path, 0, NULL, NULL, &err);
    ck_assert_msg((status == NP_OK) == !message, "%s: %s", line, err.msg);
    if (message)
        ck_assert_str_eq(strchr(err.msg, ':'), message);
    np_stream_close(stream);
    free(each);
}

/* Streams that are read have the depths that there are. */
START_TEST(streams)
{
    static const struct {
        const char *line, *message; /* NULL: it may be */
    } tries[] = {
        {"0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", NULL},
        {"0 0 3 3 0 0 0 1 1 2 1 1 2 0\n", NULL},
        {"0 0 0 0 0 0 0 0 0 1 1 1 2 0\n", NULL},
        {"0 0 3 0 0 0 0 0 0 0 0 0 0 0\n",
         ":1:7: candidate 0 of block 3 does not pass over it, candidate 3 of block 2 does: they "
         "are of one depth"},
        {"0 0 0 3 0 0 0 0 0 0 0 0 0 0\n",
         ":1:7: candidate 3 of block 3 passes over it, candidate 0 of block 2 does not: they are "
         "of one depth"},
        {"0 0 0 0 0 0 0 0 0 0 0 0 2 0\n",
         ":1:25: candidate 2 of block 12 passes over it, candidate 0 of block 11 does not: they "
         "are of one depth"},
        {"0 0 0 0 0 0 0 1 1 2 0 0 0 0\n",
         ":1:21: candidate 0 of block 10 does not pass over it, candidate 2 of block 9 does: they "
         "are of one depth"},
    };
    struct np_recipe recipe;
    read_blocks(&recipe, images, stages);
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++)
        try_line(&recipe, tries[i].line, tries[i].message);
    np_recipe_clear(&recipe);
    read_blocks(&recipe, tokens, "[{repeat: 2, blocks: [{depth: [0, 1], choices: [{op: ffn}]}]}]");
    try_line(&recipe, "1 0\n", NULL);
    try_line(&recipe, "0 1\n", NULL);
    np_recipe_clear(&recipe);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("depth");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, what_they_stand_for);
    tcase_add_test(tests, how_they_are_written);
    tcase_add_test(tests, where_they_may_stand);
    tcase_add_test(tests, how_they_are_drawn);
    tcase_add_test(tests, what_a_plan_expects);
    tcase_add_test(tests, they_draw_as_without);
    tcase_add_test(tests, pinned);
    tcase_add_test(tests, largest_and_smallest);
    tcase_add_test(tests, with_widths);
    tcase_add_test(tests, what_is_derived);
    tcase_add_test(tests, what_is_refused);
    tcase_add_test(tests, streams);
    return recipe_text_run(suite);
}
