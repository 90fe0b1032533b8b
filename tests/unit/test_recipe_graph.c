/* Which value a block reads, joins or adds to, cells of two inputs, ties, and weights that
 * candidates share. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "recipe_text.h"
#include "space/supernet.h"
#include "suite.h"

static const char graph[] =
    "naspipe: recipe/1\n"
    "data:\n"
    "  train: {kind: idx, files: [i, l]}\n"
    "space:\n"
    "  input: {kind: images, height: 9, width: 6, channels: 1, classes: 5}\n"
    "  width: 8\n"
    "  blocks:\n"
    "    - {name: \"a: b\", choices: [{op: ffn}, {op: identity}]}\n"
    "    - {name: left, out: 6, choices: [{op: conv2d}]}\n"
    "    - {from: \"a: b\", out: 10, repeat: 2, choices: [{op: conv2d}]}\n"
    "    - {name: both, out: 16, choices: [{op: concat, memory: left}]}\n"
    "    - {add: both, choices: [{op: ffn}, {op: zero}]}\n"
    "    - {add: both, choices: [{op: ffn}, {op: zero}]}\n"
    "train: {steps: 10}\n";

static const char canonical[] =
    "  blocks:\n"
    "    - repeat: 1\n"
    "      name: \"a: b\"\n"
    "      out: 8\n"
    "      stride: 1\n"
    "      choices:\n"
    "        - {op: ffn, ratio: 4, act: gelu, dropout: 0, drop_path: 0}\n"
    "        - {op: identity}\n"
    "    - repeat: 1\n"
    "      name: left\n"
    "      out: 6\n"
    "      stride: 1\n"
    "      choices:\n"
    "        - {op: conv2d, kernel: 3, dilation: 1, groups: 1, norm: batch, act: relu}\n"
    "    - repeat: 2\n"
    "      from: \"a: b\"\n"
    "      out: 10\n"
    "      stride: 1\n"
    "      choices:\n"
    "        - {op: conv2d, kernel: 3, dilation: 1, groups: 1, norm: batch, act: relu}\n"
    "    - repeat: 1\n"
    "      name: both\n"
    "      out: 16\n"
    "      stride: 1\n"
    "      choices:\n"
    "        - {op: concat, memory: left}\n"
    "    - repeat: 1\n"
    "      add: both\n"
    "      out: 16\n"
    "      stride: 1\n"
    "      choices:\n"
    "        - {op: ffn, ratio: 4, act: gelu, dropout: 0, drop_path: 0}\n"
    "        - {op: zero}\n"
    "    - repeat: 1\n"
    "      add: both\n"
    "      out: 16\n"
    "      stride: 1\n"
    "      choices:\n"
    "        - {op: ffn, ratio: 4, act: gelu, dropout: 0, drop_path: 0}\n"
    "        - {op: zero}\n"
    "  head";

/* The recipe with other blocks. */
static enum np_status try_blocks(struct np_recipe *recipe, const char *blocks, struct np_error *err)
{
    char set[1000];
    const char *sets[] = {set};
    snprintf(set, sizeof set, "space.blocks=%s", blocks);
    recipe_text_write(graph, strlen(graph));
    return np_recipe_read(recipe, recipe_path, sets, 1, err);
}

static void read_blocks(struct np_recipe *recipe, const char *blocks)
{
    struct np_error err = {.msg = ""};
    ck_assert_msg(try_blocks(recipe, blocks, &err) == NP_OK, "%s", err.msg);
    recipe_text_stable(recipe);
}

/* What block i reads. */
static void assert_reads(const struct np_recipe *recipe, int i, int from, int memory, int sum)
{
    const struct np_block *block = &recipe->blocks[i];
    ck_assert_msg(block->from == from && block->memory == memory && block->sum == sum,
                  "block %d reads %d, %d, %d", i, block->from, block->memory, block->sum);
}

START_TEST(blocks_read_what_they_say)
{
    struct np_recipe recipe;
    recipe_text_read(&recipe, graph);
    recipe_text_holds(&recipe, canonical);
    recipe_text_stable(&recipe);
    ck_assert_int_eq(recipe.block_count, 7);
    assert_reads(&recipe, 0, 0, -1, -1);
    assert_reads(&recipe, 1, 1, -1, -1);
    assert_reads(&recipe, 2, 1, -1, -1);
    assert_reads(&recipe, 3, 3, -1, -1);
    assert_reads(&recipe, 4, 4, 2, -1);
    assert_reads(&recipe, 5, 5, -1, 5);
    assert_reads(&recipe, 6, 6, -1, 5);
    np_recipe_clear(&recipe);
}
END_TEST

/* A name before the block's neighbour says nothing new, and folds. */
START_TEST(what_goes_without_saying)
{
    struct np_recipe recipe;
    read_blocks(&recipe, "[{name: x, choices: [{op: ffn}]}, {from: x, choices: [{op: zero}]}, "
                         "{choices: [{op: zero}]}]");
    recipe_text_holds(&recipe, "    - repeat: 2\n      out: 8\n      stride: 1\n      choices:\n"
                               "        - {op: zero}\n  head");
    np_recipe_clear(&recipe);
}
END_TEST

/* Blocks of a cell: two fits, edges by their ends, one join less than nodes of its own. */
START_TEST(cells_of_two_inputs)
{
    struct np_recipe recipe;
    struct np_supernet net;
    const struct np_shape shapes[] = {{9, 6, 8}, {9, 6, 8}, {9, 6, 4}, {9, 6, 4},
                                      {5, 3, 4}, {5, 3, 4}, {5, 3, 4}, {5, 3, 4},
                                      {5, 3, 4}, {5, 3, 8}, {5, 3, 4}, {5, 3, 4}};
    read_blocks(&recipe,
                "[{choices: [{op: ffn}]}, {cell: 4, inputs: 2, repeat: 2, stride: 2, out: 4, "
                "choices: [{op: max_pool}, {op: zero}]}]");
    recipe_text_holds(&recipe, "    - repeat: 2\n      cell: 4\n      inputs: 2\n      out: 4\n"
                               "      stride: 2\n      choices:\n"
                               "        - {op: max_pool, kernel: 3, norm: none}\n"
                               "        - {op: zero}\n  head");
    ck_assert_int_eq(recipe.block_count, 17);
    ck_assert_int_eq(recipe.calibration, 8);
    assert_reads(&recipe, 1, 0, -1, -1); /* the fits, of positions 2 and 3 */
    assert_reads(&recipe, 2, 1, -1, -1);
    assert_reads(&recipe, 3, 2, -1, -1); /* node 2 */
    assert_reads(&recipe, 4, 3, -1, 4);
    assert_reads(&recipe, 5, 2, -1, -1); /* node 3 */
    assert_reads(&recipe, 6, 3, -1, 6);
    assert_reads(&recipe, 7, 5, -1, 7);
    assert_reads(&recipe, 8, 8, 5, -1); /* both */
    assert_reads(&recipe, 9, 1, -1, -1);
    assert_reads(&recipe, 10, 9, -1, -1);
    ck_assert_int_eq(recipe.blocks[3].stride, 2);
    ck_assert_int_eq(recipe.blocks[7].stride, 1);
    ck_assert_int_eq(recipe.blocks[9].choices[0].op, NP_OP_IDENTITY);
    ck_assert_int_eq(recipe.blocks[9].stride, 2);
    ck_assert_int_eq(recipe.blocks[10].choices[0].op, NP_OP_RELU_CONV_BN);
    ck_assert_int_eq(np_supernet_init(&net, &recipe, NULL), NP_OK);
    for (size_t p = 0; p < sizeof shapes / sizeof *shapes; p++)
        ck_assert_msg(np_shape_equal(net.shapes[p], shapes[p]), "position %zu", p);
    np_supernet_clear(&net);
    np_recipe_clear(&recipe);
}
END_TEST

/* Directly behind the stem, that is both inputs. */
START_TEST(the_first_cell_reads_the_stem_twice)
{
    struct np_recipe recipe;
    read_blocks(&recipe, "[{cell: 3, inputs: 2, choices: [{op: zero}]}]");
    ck_assert_int_eq(recipe.block_count, 4);
    assert_reads(&recipe, 0, 0, -1, -1);
    assert_reads(&recipe, 1, 0, -1, -1);
    np_recipe_clear(&recipe);
}
END_TEST

static void assert_drawn(const struct np_recipe *recipe, const int *drawn)
{
    for (int b = 0; b < recipe->block_count; b++)
        ck_assert_msg(recipe->blocks[b].drawn == drawn[b], "block %d draws as %d", b,
                      recipe->blocks[b].drawn);
}

/* Repeats draw like the first with their tie, block by block. */
START_TEST(ties)
{
    struct np_recipe recipe;
    read_blocks(&recipe, "[{cell: 3, repeat: 2, tie: t, choices: [{op: ffn}, {op: zero}]}, "
                         "{choices: [{op: ffn}, {op: zero}]}, {repeat: 2, choices: [{op: ffn}]}, "
                         "{cell: 3, tie: t, choices: [{op: zero}, {op: identity}]}]");
    recipe_text_holds(&recipe, "    - repeat: 2\n      tie: t\n      cell: 3\n");
    recipe_text_holds(&recipe, "    - repeat: 1\n      tie: t\n      cell: 3\n");
    assert_drawn(&recipe, (int[]){0, 1, 2, 0, 1, 2, 6, 7, 8, 0, 1, 2});
    np_recipe_clear(&recipe);
    read_blocks(&recipe, "[{repeat: 2, tie: a, choices: [{op: ffn}, {op: zero}]}, "
                         "{tie: b, choices: [{op: ffn}, {op: zero}]}, "
                         "{tie: a, choices: [{op: ffn}, {op: zero}]}]");
    assert_drawn(&recipe, (int[]){0, 0, 2, 0});
    np_recipe_clear(&recipe);
}
END_TEST

/* Lists within the list: the names of a repeat are known there alone, and the first has strides. */
START_TEST(lists_are_repeated_as_a_whole)
{
    static const char *const names[] = {"x",   "y/0", "z/1", "", "",    "z/2", "", "", "",
                                        "y/3", "z/4", "",    "", "z/5", "",    "", "", "z"};
    struct np_recipe recipe;
    read_blocks(&recipe,
                "[{name: x, choices: [{op: ffn}]}, {repeat: 2, blocks: [{name: y, stride: 2, "
                "choices: [{op: zero}]}, {repeat: 2, blocks: [{name: z, choices: [{op: identity}]}"
                ", {choices: [{op: ffn}]}, {add: z, tie: t, choices: [{op: conv2d}, {op: zero}]}]}"
                ", {add: y, choices: [{op: mha, heads: 2}]}]}, {name: z, choices: [{op: zero}]}]");
    ck_assert_int_eq(recipe.block_count, 18);
    for (int i = 0; i < 18; i++) {
        const struct np_block *block = &recipe.blocks[i];
        ck_assert_str_eq(block->name, names[i]);
        ck_assert_int_eq(block->stride, i == 1 ? 2 : 1);
        ck_assert_int_eq(block->from, i);
        ck_assert_int_eq(block->drawn, block->tie[0] ? 4 : i);
    }
    assert_reads(&recipe, 4, 4, -1, 3);
    assert_reads(&recipe, 7, 7, -1, 6);
    assert_reads(&recipe, 8, 8, -1, 2);
    assert_reads(&recipe, 12, 12, -1, 11);
    assert_reads(&recipe, 15, 15, -1, 14);
    assert_reads(&recipe, 16, 16, -1, 10);
    np_recipe_clear(&recipe);
}
END_TEST

/* Those of lists take what is left, whoever comes first. */
START_TEST(names_of_lists_meet_no_others)
{
    struct np_recipe recipe;
    read_blocks(&recipe, "[{name: x/1, choices: [{op: ffn}]}, {repeat: 2, blocks: [{name: x, "
                         "choices: [{op: ffn}]}, {add: x, choices: [{op: ffn}]}]}, {blocks: [{name"
                         ": x, choices: [{op: ffn}]}]}, {name: x/0, choices: [{op: ffn}]}, {add: "
                         "x/1, choices: [{op: ffn}]}]");
    ck_assert_str_eq(recipe.blocks[0].name, "x/1");
    ck_assert_str_eq(recipe.blocks[1].name, "x/2");
    ck_assert_str_eq(recipe.blocks[3].name, "x/3");
    ck_assert_str_eq(recipe.blocks[5].name, "x/4");
    ck_assert_str_eq(recipe.blocks[6].name, "x/0");
    assert_reads(&recipe, 4, 4, -1, 4);
    assert_reads(&recipe, 7, 7, -1, 1);
    np_recipe_clear(&recipe);
}
END_TEST

static void assert_wholes(const struct np_recipe *recipe, const uint32_t *wholes)
{
    struct np_supernet net;
    ck_assert_int_eq(np_supernet_init(&net, recipe, NULL), NP_OK);
    for (uint32_t l = 0; l < net.layers; l++)
        ck_assert_msg(net.layer_whole[l] == wholes[l], "layer %u is of %u", l, net.layer_whole[l]);
    np_supernet_clear(&net);
}

/* The largest of an operator, the first of such, has the weights of all; what has none has none. */
START_TEST(entangled_candidates)
{
    static const uint32_t wholes[] = {0, 2, 2, 3, 4, 2, 4, 8, 8, 9, 10, 8, 10, 13, 14, 15};
    struct np_recipe recipe;
    read_blocks(&recipe,
                "[{repeat: 2, weights: entangled, choices: [{op: ffn, ratio: 1}, {op: ffn, hidden: "
                "32, act: relu}, {op: identity}, {op: mha, heads: 2}, {op: ffn}, {op: mha, heads: "
                "1, hidden: 5}]}, {weights: own, choices: [{op: ffn}, {op: ffn, ratio: 1}]}]");
    recipe_text_holds(&recipe, "      stride: 1\n      weights: entangled\n      choices:\n");
    recipe_text_holds(&recipe, "    - repeat: 1\n      out: 8\n      stride: 1\n      choices:\n");
    recipe_text_holds(&recipe, "- {op: mha, hidden: 5, heads: 1, mask: none, dropout: 0, ");
    assert_wholes(&recipe, wholes);
    np_recipe_clear(&recipe);
    read_blocks(&recipe, "[{choices: [{op: ffn}, {op: ffn, ratio: 1}]}, {weights: entangled, "
                         "choices: [{op: ffn}, {op: ffn, ratio: 1}]}]");
    assert_wholes(&recipe, (uint32_t[]){0, 1, 2, 3, 3, 5});
    np_recipe_clear(&recipe);
}
END_TEST

static void assert_blocks_end(const char *blocks, const int (*ends)[2], int count)
{
    struct np_recipe recipe;
    struct np_error err = {.msg = ""};
    char set[1000];
    const char *sets[] = {set, "sampler={kind: sandwich}"};
    snprintf(set, sizeof set, "space.blocks=%s", blocks);
    recipe_text_write(graph, strlen(graph));
    ck_assert_msg(np_recipe_read(&recipe, recipe_path, sets, 2, &err) == NP_OK, "%s", err.msg);
    ck_assert_int_eq(recipe.block_count, count);
    for (int b = 0; b < count; b++) {
        ck_assert_int_eq(recipe.blocks[b].largest, ends[b][0]);
        ck_assert_int_eq(recipe.blocks[b].smallest, ends[b][1]);
    }
    np_recipe_clear(&recipe);
}

/* Weights count, then the order, at a block's own largest and smallest width; tied blocks have the
 * first one's. */
START_TEST(largest_and_smallest_candidates)
{
    assert_blocks_end("[{choices: [{op: identity}, {op: mha, heads: 1}, {op: ffn}, {op: ffn}]},"
                      "{weights: entangled, choices: [{op: ffn, ratio: 2}, {op: ffn, ratio: 1},"
                      "{op: ffn}]}, {choices: [{op: avg_pool}, {op: identity}]},"
                      "{choices: [{op: ffn}, {op: mha, heads: 1}, {op: mha, heads: 2}]}]",
                      (const int[][2]){{2, 0}, {2, 1}, {0, 0}, {0, 1}}, 4);
    assert_blocks_end("[{widths: [4, 6, 8], tie_widths: w, choices: [{op: conv2d},"
                      "{op: conv2d, kernel: 1}]}, {repeat: 2, widths: [4, 6, 8], tie_widths: w,"
                      "choices: [{op: avg_pool}, {op: identity}, {op: ffn}]}]",
                      (const int[][2]){{4, 1}, {6 + 2, 0}, {6 + 2, 0}}, 3);
    /* which of the two is larger depends on the channels */
#define EITHER "choices: [{op: conv2d, kernel: 5}, {op: mbconv, expand: 6}]"
    assert_blocks_end("[{out: 2, choices: [{op: conv2d}]}, {tie: t, " EITHER "},"
                      "{out: 8, choices: [{op: conv2d}]}, {tie: t, " EITHER "}, {" EITHER "}]",
                      (const int[][2]){{0, 0}, {1, 0}, {0, 0}, {1, 0}, {0, 1}}, 5);
    assert_blocks_end("[{widths: [2, 8], " EITHER "}]", (const int[][2]){{2, 0}}, 1);
    assert_blocks_end("[{repeat: 2, tie: t, widths: [2, 8], " EITHER "}]",
                      (const int[][2]){{2, 0}, {2, 0}}, 2);
#undef EITHER
}
END_TEST

/* A message is the place, which may be cut, and this. */
static void assert_ends(const char *message, const char *end)
{
    size_t all = strlen(message), count = strlen(end);
    ck_assert_uint_gt(all, count + 2);
    ck_assert_str_eq(message + all - count, end);
    ck_assert_mem_eq(message + all - count - 2, ": ", 2);
}

START_TEST(what_does_not_fit)
{
    static const struct {
        const char *blocks, *message;
    } bad[] = {
        {"[{from: x, choices: [{op: ffn}]}]", "no block before this one has the name 'x'"},
        {"[{name: x, from: x, choices: [{op: ffn}]}]", "no block before this one has the name 'x'"},
        {"[{name: first, choices: [{op: ffn}]}, {from: frist, choices: [{op: ffn}]}]",
         "unknown from 'frist' (did you mean 'first'?)"},
        {"[{name: x, choices: [{op: ffn}]}, {add: x, repeat: 2, choices: [{op: ffn}]}]",
         "'add' is for a block that is not repeated"},
        {"[{name: x, choices: [{op: ffn}]}, {add: x, cell: 3, choices: [{op: ffn}]}]",
         "a cell has no 'add'"},
        {"[{name: x, choices: [{op: ffn}]}, {add: x, out: 4, choices: [{op: zero}]}]",
         "what it adds to is 9x6x8, the block makes 9x6x4"},
        {"[{name: x, choices: [{op: ffn}]}, {choices: [{op: ffn}]}, {from: x, choices: [{op: ffn}]"
         "}]",
         "no block reads what this one makes"},
        {"[{name: x, choices: [{op: ffn}]}, {choices: [{op: concat}]}]",
         "missing key 'memory' in 'choices.0'"},
        {"[{name: x, choices: [{op: ffn}]}, {out: 17, choices: [{op: concat, memory: x}]}]",
         "'concat' puts 8 channels before 8, its block makes 17"},
        {"[{name: x, choices: [{op: ffn}]}, {stride: 2, choices: [{op: zero}]}, {out: 16, choices: "
         "[{op: concat, memory: x}]}]",
         "'concat' keeps the size: of 5x3 and its memory's 9x6, its block makes 5x3"},
        {"[{inputs: 2, choices: [{op: ffn}]}]", "a 'cell' alone has two inputs"},
        {"[{inputs: 3, cell: 4, choices: [{op: ffn}]}]",
         "'inputs' must be a whole number from 1 to 2, not '3'"},
        {"[{inputs: 2, cell: 2, choices: [{op: ffn}]}]",
         "'cell' must be a whole number from 3 to 16, not '2'"},
        {"[{name: x, choices: [{op: ffn}]}, {from: x, inputs: 2, cell: 3, choices: [{op: ffn}]}]",
         "a cell of two inputs reads what is before it"},
        {"[{stride: 2, choices: [{op: zero}]}, {stride: 2, choices: [{op: zero}]}, {choices: [{op: "
         "zero}]}, {inputs: 2, cell: 3, out: 1, choices: [{op: zero}]}, {stride: 2, choices: [{op: "
         "zero}]}, {inputs: 2, cell: 3, out: 1, choices: [{op: zero}]}]",
         "2 channels or more are made of an input of twice the size"},
        {"[{repeat: 2, inputs: 2, cell: 3, out: 1, stride: 2, choices: [{op: zero}]}]",
         "2 channels or more are made of an input of twice the size"},
        {"[{repeat: 2, blocks: [{inputs: 2, cell: 3, out: 1, stride: 2, choices: [{op: zero}]}]}]",
         "2 channels or more are made of an input of twice the size"},
        {"[{inputs: 2, cell: 3, out: 16, stride: 2, choices: [{op: conv2d}, {op: ffn}]}]",
         "'ffn' keeps the shape, its block makes 5x3x16 of 9x6x16"},
        {"[{tie: t, choices: [{op: ffn}]}, {tie: t, choices: [{op: ffn}, {op: zero}]}]",
         "what is tied to 't' has 1 candidate, not 2"},
        {"[{tie: t, cell: 3, choices: [{op: ffn}]}, {tie: t, cell: 4, choices: [{op: ffn}]}]",
         "what is tied to 't' is a cell of 3 nodes, not of 4"},
        {"[{repeat: 2, blocks: [{name: x, choices: [{op: ffn}]}]}, {from: x, choices: [{op: "
         "ffn}]}]",
         "the name 'x' is known in its list alone"},
        {"[{name: x, choices: [{op: ffn}]}, {blocks: [{name: x, choices: [{op: ffn}]}]}]",
         "the name 'x' is given already"},
        {"[{blocks: [{name: x123456789012345678901234567890123456789012345678901234567890, "
         "choices: [{op: ffn}]}]}]",
         "'name' must have 1 to 59 bytes"},
        {"[{inputs: 2, cell: 6, out: 16385, choices: [{op: zero}]}]",
         "the cell makes 65540 channels, more than 65536"},
        {"[{repeat: 2, blocks: [{choices: [{op: ffn}]}], stride: 2}]",
         "unknown key 'stride' (known: blocks, repeat, depth)"},
        {"[{blocks: []}]", "'blocks' must have at least 1 item, not 0"},
        {"[{repeat: 64, blocks: [{repeat: 64, blocks: [{choices: [{op: ffn}]}, {choices: [{op: "
         "zero}]}]}]}]",
         "more than 4096 choice blocks"},
        {"[{tie: t, cell: 3, choices: [{op: ffn}]}, {tie: t, choices: [{op: ffn}]}]",
         "what is tied to 't' is a cell"},
        {"[{tie: t, choices: [{op: ffn}]}, {tie: t, cell: 3, choices: [{op: ffn}]}]",
         "what is tied to 't' is no cell"},
        {"[{tie: t, inputs: 2, cell: 3, choices: [{op: ffn}]}, {tie: t, cell: 3, choices: [{op: "
         "ffn}]}]",
         "what is tied to 't' is a cell of 2 inputs, not of 1"},
        {"[{weights: shared, choices: [{op: ffn}]}]",
         "unknown weights 'shared' (known: own, entangled)"},
        {"[{weights: entangled, choices: [{op: conv2d, kernel: 3}, {op: conv2d, kernel: [1, 5]}]}]",
         "entangled weights: 'conv.weight' of 1x5x8x8 is no part of that of candidate 0, the "
         "largest like this one, of 3x3x8x8"},
        {"[{weights: entangled, choices: [{op: conv2d, norm: none, kernel: 1}, {op: conv2d}]}]",
         "entangled weights: candidate 1, the largest like this one, has no 'conv.bias'"},
        {"[{choices: [{op: mha, heads: 3, hidden: 10}]}]",
         "'heads' must divide the hidden width of 10, not 3"},
        {"[{tie: '', choices: [{op: ffn}]}]", "'tie' must have 1 to 64 bytes"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct np_recipe recipe;
        struct np_error err = {.msg = ""};
        ck_assert_msg(try_blocks(&recipe, bad[i].blocks, &err) == NP_EINPUT, "%s", bad[i].blocks);
        assert_ends(err.msg, bad[i].message);
        ck_assert_ptr_null(recipe.lists);
        ck_assert_ptr_null(recipe.ties);
    }
}
END_TEST

/* Sizes that are neither equal nor halves. */
START_TEST(inputs_of_other_sizes)
{
    struct np_recipe recipe;
    struct np_error err = {.msg = ""};
    const char *blocks = "[{choices: [{op: identity}]}, {stride: 2, name: x, choices: [{op: zero}]}"
                         ", {stride: 2, choices: [{op: zero}]}, {from: x, choices: [{op: zero}]}, "
                         "{inputs: 2, cell: 3, choices: [{op: zero}]}]";
    ck_assert_int_eq(try_blocks(&recipe, blocks, &err), NP_EINPUT);
    assert_ends(err.msg,
                "a cell of two inputs reads one size, or its double first: not 3x2 and 5x3");
}
END_TEST

/* The head of pairs cannot read the source. */
START_TEST(pairs_end_with_the_target)
{
    static const char pairs[] = "naspipe: recipe/1\n"
                                "data: {train: {kind: pairs, files: [p]}}\n"
                                "space:\n"
                                "  input: {kind: pairs, vocab: 256, source_length: 9, length: 6}\n"
                                "  width: 12\n"
                                "  blocks:\n"
                                "    - {name: source, choices: [{op: ffn}]}\n"
                                "    - {choices: [{op: embedding}]}\n"
                                "    - {from: source, choices: [{op: ffn}]}\n"
                                "train: {steps: 10}\n";
    struct np_recipe recipe;
    struct np_error err = {.msg = ""};
    recipe_text_write(pairs, strlen(pairs));
    ck_assert_int_eq(np_recipe_read(&recipe, recipe_path, NULL, 0, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg + strlen(recipe_path),
                     ":9:7: the last block reads the source, and the head the target");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recipe_graph");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, blocks_read_what_they_say);
    tcase_add_test(tests, what_goes_without_saying);
    tcase_add_test(tests, cells_of_two_inputs);
    tcase_add_test(tests, the_first_cell_reads_the_stem_twice);
    tcase_add_test(tests, ties);
    tcase_add_test(tests, lists_are_repeated_as_a_whole);
    tcase_add_test(tests, names_of_lists_meet_no_others);
    tcase_add_test(tests, entangled_candidates);
    tcase_add_test(tests, largest_and_smallest_candidates);
    tcase_add_test(tests, what_does_not_fit);
    tcase_add_test(tests, inputs_of_other_sizes);
    tcase_add_test(tests, pairs_end_with_the_target);
    return recipe_text_run(suite);
}
