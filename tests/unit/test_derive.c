/* Subnets as recipes of their own: of the spaces of tests/recipes, and of names that meet. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "recipe_text.h"
#include "space/derive.h"
#include "suite.h"
#include "tiny.h"

static enum np_status try_derive(struct np_buf *text, const struct np_recipe *recipe,
                                 const uint16_t *choices, struct np_error *err)
{
    struct np_supernet net;
    enum np_status status;
    ck_assert_int_eq(np_supernet_init(&net, recipe, NULL), NP_OK);
    status = np_derive(text, &net, choices, err);
    np_supernet_clear(&net);
    return status;
}

static void derive(struct np_recipe *own, const struct np_recipe *recipe, const uint16_t *choices)
{
    struct np_buf text = {0};
    struct np_error err = {.msg = ""};
    enum np_status status = try_derive(&text, recipe, choices, &err);
    ck_assert_msg(status == NP_OK, "%s", err.msg);
    recipe_text_read(own, text.text);
    ck_assert_str_eq(own->canonical, text.text);
    np_buf_clear(&text);
}

/* The chosen layer in its place. */
static void assert_block(const struct tiny *t, const struct np_recipe *own, int b, int choice)
{
    const struct np_block *block = &own->blocks[b], *of = &t->recipe.blocks[b];
    const struct np_layer_spec *spec = &of->choices[choice];
    ck_assert_int_eq(block->count, 1);
    ck_assert_mem_eq(block->choices, spec, sizeof *spec);
    ck_assert_int_eq(block->out, of->out);
    ck_assert_int_eq(block->stride, of->stride);
    ck_assert_int_eq(block->from, of->from);
    ck_assert_int_eq(block->sum, of->sum);
    ck_assert_int_eq(block->memory, spec->cross ? of->memory : -1);
    ck_assert_int_eq(block->widths, of->widths ? 1 : 0);
    ck_assert_int_eq(block->cell, 0);
    ck_assert_int_eq(block->drawn, b);
    ck_assert(!block->entangled);
}

/* What it computes with are the candidate's tensors; those of an entangled one are its own. */
static void assert_layer(const struct tiny *t, const struct np_supernet *own, int b, int choice)
{
    const struct np_kind *kind = np_supernet_kind(own, own->layer_first[b + 1]);
    const struct np_kind *of =
        np_supernet_kind(&t->net, t->net.layer_first[b + 1] + (uint32_t)choice);
    ck_assert_ptr_null(kind->whole);
    ck_assert_int_eq(kind->reads, of->reads);
    ck_assert_int_eq(kind->makes, of->makes);
    ck_assert_uint_eq(kind->floats, of->whole ? of->part_floats : of->floats);
}

START_TEST(of_every_space)
{
    struct tiny t;
    int refused = 0;
    tiny_open(&t, (enum tiny_kind)_i, NULL, 0);
    for (uint64_t subnet = 0; subnet < 8; subnet++) {
        uint16_t choices[TINY_BLOCKS];
        struct np_recipe own;
        struct np_supernet net;
        struct np_buf text = {0};
        np_stream_eval_subnet(&t.shape, 7, subnet, choices);
        if (np_derive(&text, &t.net, choices, &t.err) != NP_OK) {
            ck_assert_ptr_nonnull(strstr(t.err.msg, "in this subnet no block reads what block"));
            refused++;
            np_buf_clear(&text);
            continue;
        }
        np_buf_clear(&text);
        derive(&own, &t.recipe, choices);
        ck_assert_int_eq(own.block_count, t.recipe.block_count);
        ck_assert_int_eq(np_supernet_init(&net, &own, NULL), NP_OK);
        for (int b = 0; b < own.block_count; b++) {
            assert_block(&t, &own, b, choices[b]);
            assert_layer(&t, &net, b, choices[b]);
        }
        ck_assert_int_eq(own.members, 1);
        ck_assert_int_eq(own.sampler, NP_SAMPLER_UNIFORM);
        ck_assert_int_eq(own.steps, t.recipe.steps);
        ck_assert(np_digest_equal(&own.digest, &own.planned));
        np_supernet_clear(&net);
        np_recipe_clear(&own);
    }
    ck_assert_int_lt(refused, 8);
    tiny_close(&t);
}
END_TEST

static const char head[] = "naspipe: recipe/1\n"
                           "train: {steps: 10, loss: {distill: 0.5}}\n"
                           "sampler: {kind: sandwich}\n"
                           "data: {train: {kind: idx, files: [i, l]}}\n"
                           "space:\n"
                           "  input: {kind: images, height: 8, width: 8, channels: 1, classes: 4}\n"
                           "  width: 4\n";

/* Reads the rest of a space behind the head. */
static void read_space(struct np_recipe *recipe, const char *rest)
{
    struct np_buf text = {0};
    ck_assert_int_eq(np_buf_printf(&text, NULL, "%s%s", head, rest), NP_OK);
    recipe_text_read(recipe, text.text);
    np_buf_clear(&text);
}

/* Values get names that nothing has, and keep those that they have. */
START_TEST(what_values_are_called)
{
    static const char *const names[] = {"value1.1", "block1", "", "stem", "", "block0", "", ""};
    const uint16_t choices[8] = {1, 0, 1, 0, 0, 1, 0, 0};
    struct np_recipe recipe, own;
    read_space(&recipe, "  blocks:\n"
                        "    - {name: c, cell: 3, choices: [{op: zero}, {op: identity}]}\n"
                        "    - {name: stem, choices: [{op: conv2d}]}\n"
                        "    - {name: block0, repeat: 2, choices: [{op: conv2d}, {op: zero}]}\n"
                        "    - {add: stem, choices: [{op: conv2d}]}\n"
                        "    - {add: block0, choices: [{op: conv2d}]}\n");
    derive(&own, &recipe, choices);
    ck_assert_str_eq(own.stem_name, "value0.1");
    for (int b = 0; b < 8; b++)
        ck_assert_str_eq(own.blocks[b].name, names[b]);
    ck_assert_double_eq(own.distill, 0);
    ck_assert(!own.same_batch);
    np_recipe_clear(&own);
    np_recipe_clear(&recipe);
}
END_TEST

/* A stem's own name stays where it is needed. */
START_TEST(name_of_the_stem)
{
    struct np_recipe recipe, own;
    read_space(&recipe, "  stem: {op: conv2d, name: s}\n"
                        "  blocks:\n"
                        "    - choices: [{op: conv2d}, {op: identity}]\n"
                        "    - {add: s, choices: [{op: conv2d}, {op: zero}]}\n");
    recipe.has_init = true;
    derive(&own, &recipe, (uint16_t[]){1, 1});
    ck_assert(!own.has_init);
    ck_assert_str_eq(own.stem_name, "s");
    ck_assert_int_eq(own.blocks[1].sum, 0);
    np_recipe_clear(&own);
    np_recipe_clear(&recipe);
}
END_TEST

/* Only where an earlier candidate might be taken for it: of the same operator on the same tensors,
 * whatever is dropped. It counts the recipe's own candidates, wherever those are from; a lone one's
 * is left, so that a subnet of what was derived is the same. */
START_TEST(origins)
{
    struct np_recipe recipe, own, again;
    read_space(&recipe,
               "  blocks:\n"
               "    - choices: [{op: norm}, {op: conv2d}, {op: ffn}, {op: ffn, dropout: 0.1}]\n"
               "    - choices: [{op: norm}, {op: conv2d}, {op: ffn}, {op: ffn, dropout: 0.1}]\n"
               "    - {origin: 4095, choices: [{op: norm}, {op: conv2d}, {op: conv2d}]}\n"
               "    - {origin: 5, choices: [{op: norm}, {op: conv2d}]}\n"
               "    - {origin: 5, choices: [{op: norm}]}\n");
    derive(&own, &recipe, (uint16_t[]){3, 2, 2, 1, 0});
    ck_assert_int_eq(own.blocks[0].origin, 3);
    ck_assert_int_eq(own.blocks[1].origin, 0);
    ck_assert_int_eq(own.blocks[2].origin, 2);
    ck_assert_int_eq(own.blocks[3].origin, 0);
    ck_assert_int_eq(own.blocks[4].origin, 5);
    derive(&again, &own, (uint16_t[]){0, 0, 0, 0, 0});
    ck_assert_str_eq(again.canonical, own.canonical);
    np_recipe_clear(&again);
    np_recipe_clear(&own);
    np_recipe_clear(&recipe);
}
END_TEST

/* What batch norms want of a recipe goes with the last of them. */
START_TEST(calibration)
{
    struct np_recipe recipe, own;
    read_space(&recipe, "  stem: {op: conv2d, norm: none}\n"
                        "  blocks:\n"
                        "    - choices: [{op: conv2d}, {op: ffn}]\n");
    ck_assert_int_eq(recipe.calibration, 8);
    for (uint16_t choice = 0; choice < 2; choice++) {
        derive(&own, &recipe, &choice);
        ck_assert_int_eq(own.calibration, choice ? 0 : 8);
        np_recipe_clear(&own);
    }
    np_recipe_clear(&recipe);
}
END_TEST

/* What nobody reads any more is no network. */
START_TEST(unread)
{
    struct np_recipe recipe;
    struct np_buf text = {0};
    struct np_error err = {.msg = ""};
    read_space(&recipe, "  blocks:\n"
                        "    - {name: a, choices: [{op: conv2d}, {op: identity}]}\n"
                        "    - {name: b, choices: [{op: conv2d}]}\n"
                        "    - {from: a, out: 8, choices: [{op: conv2d}, {op: concat, memory: b}]}"
                        "\n");
    ck_assert_int_eq(try_derive(&text, &recipe, (uint16_t[]){0, 0, 0}, &err), NP_EINPUT);
    ck_assert_ptr_nonnull(strstr(err.msg, "': in this subnet no block reads what block 1 makes"));
    ck_assert_int_eq(try_derive(&text, &recipe, (uint16_t[]){0, 0, 1}, &err), NP_OK);
    np_buf_clear(&text);
    np_recipe_clear(&recipe);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("derive");
    TCase *tests = suite_case(suite, "all");
    tcase_add_unchecked_fixture(tests, tiny_make_files, tiny_remove_files);
    tcase_add_loop_test(tests, of_every_space, 0, TINY_KINDS);
    tcase_add_test(tests, what_values_are_called);
    tcase_add_test(tests, name_of_the_stem);
    tcase_add_test(tests, origins);
    tcase_add_test(tests, calibration);
    tcase_add_test(tests, unread);
    return recipe_text_run(suite);
}
