/* tests/recipes, which the hash matrix trains, leave nothing out that a recipe can name: every
 * operator on every input, two values at least of each of its keys, its norms and shapes, every
 * activation of every node that has one. What no step reaches does not count. No candidate is left
 * out by tests/portable, which other machines train, and no operator by the cases that operators'
 * tests run over. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "layer_cases.h"
#include "program_check.h"
#include "space/kinds.h"
#include "space/op_fields.h"
#include "suite.h"
#include "tiny.h"

enum { ROWS = 40, SHAPES = 3 };

/* What layers that steps reached have, bit by bit. */
struct seen {
    unsigned inputs[ROWS], norms[ROWS], shapes[ROWS];
    char value[ROWS][NP_FIELD_COUNT][NP_FIELD_TEXT];
    unsigned several[ROWS]; /* fields of two values */
    unsigned nodes, acts[NP_NODE_OP_COUNT], kernels[NP_NODE_OP_COUNT], windows[NP_NODE_OP_COUNT];
};

enum shape_bit { SAME, OTHER_CHANNELS, HALVED };
enum window_bit { OBLONG, STRIDE, DILATION, GROUPS };

static struct seen seen;

static size_t row_of(const struct np_layer_spec *spec, enum np_op_role role)
{
    const struct np_op_fields *row = np_op_fields(spec->op, role);
    size_t i = 0;
    ck_assert_ptr_nonnull(row);
    while (np_op_row(i) != row)
        i++;
    ck_assert_uint_lt(i, ROWS);
    return i;
}

static void see_fields(size_t i, const struct np_layer_spec *spec)
{
    const struct np_op_fields *row = np_op_row(i);
    for (int f = 0; f < NP_FIELD_COUNT; f++) {
        char text[NP_FIELD_TEXT];
        if (!np_op_has(row, (enum np_field)f))
            continue;
        if (f == NP_FIELD_MEMORY)
            strcpy(text, spec->cross ? "some" : "none");
        else
            np_field_text(text, row, spec, (enum np_field)f, true);
        if (seen.value[i][f][0] && strcmp(seen.value[i][f], text) != 0)
            seen.several[i] |= NP_BIT(f);
        strcpy(seen.value[i][f], text);
    }
    seen.norms[i] |= NP_BIT(spec->norm);
}

static void see_nodes(const struct np_program *program)
{
    for (int i = 0; i < program->node_count; i++) {
        const struct np_node *node = &program->nodes[i];
        const struct np_window *w = &node->window;
        unsigned *windows = &seen.windows[node->op];
        seen.nodes |= NP_BIT(node->op);
        seen.acts[node->op] |= NP_BIT(node->act);
        if (w->kernel_height == w->kernel_width && w->kernel_width < 32)
            seen.kernels[node->op] |= NP_BIT(w->kernel_width);
        *windows |=
            w->kernel_height > 1 && w->kernel_height != w->kernel_width ? NP_BIT(OBLONG) : 0;
        *windows |= w->stride_height > 1 ? NP_BIT(STRIDE) : 0;
        *windows |= w->dilation > 1 ? NP_BIT(DILATION) : 0;
        *windows |= node->groups > 1 ? NP_BIT(GROUPS) : 0;
    }
}

static void see(const struct np_kind *kind, enum np_op_role role, enum np_input_kind input)
{
    size_t i = row_of(&kind->spec, role);
    bool same = kind->in.channels == kind->out.channels;
    seen.inputs[i] |= NP_BIT(input);
    if (role == NP_ROLE_CHOICE && input == NP_INPUT_IMAGES)
        seen.shapes[i] |= NP_BIT(kind->spec.stride == 2 ? HALVED : same ? SAME : OTHER_CHANNELS);
    see_fields(i, &kind->spec);
    see_nodes(&kind->program);
}

/* Which kinds the steps of a recipe reach. */
static void walk(struct tiny *t, bool *reached)
{
    const struct np_supernet *net = &t->net;
    struct np_stream *stream = tiny_stream(t, 0);
    uint16_t choices[TINY_MEMBERS * TINY_BLOCKS];
    int blocks = t->recipe.block_count;
    for (uint64_t step = 0; step < TINY_STEPS; step++) {
        bool more;
        tiny_must(np_stream_next(stream, choices, &more, &t->err), &t->err);
        for (int i = 0; i < t->recipe.members * blocks; i++)
            reached[net->layer_kind[net->layer_first[1 + i % blocks] + choices[i]]] = true;
    }
    np_stream_close(stream);
}

static void see_recipe(enum tiny_kind kind)
{
    struct tiny t;
    bool *reached;
    tiny_open(&t, kind, NULL, 0);
    ck_assert_uint_eq(t.recipe.steps, TINY_STEPS);
    reached = calloc((size_t)t.net.kind_count, sizeof *reached);
    ck_assert_ptr_nonnull(reached);
    walk(&t, reached);
    see(np_supernet_kind(&t.net, 0), NP_ROLE_STEM, t.recipe.input);
    see(np_supernet_kind(&t.net, t.net.layers - 1), NP_ROLE_HEAD, t.recipe.input);
    for (int k = 0; k < t.net.kind_count; k++)
        if (reached[k])
            see(&t.net.kinds[k], NP_ROLE_CHOICE, t.recipe.input);
    free(reached);
    tiny_close(&t);
}

static void see_all(void)
{
    for (int kind = 0; kind < TINY_KINDS; kind++)
        see_recipe((enum tiny_kind)kind);
}

/* What of `all` is not in `some`, as a bit number; -1 nothing. */
static int missing(unsigned all, unsigned some)
{
    for (int bit = 0; bit < 32; bit++)
        if ((all & ~some) >> bit & 1)
            return bit;
    return -1;
}

/* Where an operator of images may stand. */
static unsigned shapes_of(const struct np_op_fields *row)
{
    if (row->role != NP_ROLE_CHOICE || !(row->inputs & NP_BIT(NP_INPUT_IMAGES)))
        return 0;
    switch (row->op) {
    case NP_OP_MHA:
    case NP_OP_FFN:
    case NP_OP_GATED_FFN:
    case NP_OP_NORM:
        return NP_BIT(SAME);
    case NP_OP_DWCONV2D:
    case NP_OP_MAX_POOL:
    case NP_OP_AVG_POOL:
    case NP_OP_SHUFFLE:
        return NP_BIT(SAME) | NP_BIT(HALVED);
    case NP_OP_CONCAT:
        return NP_BIT(OTHER_CHANNELS);
    default:
        return NP_BIT(SAME) | NP_BIT(OTHER_CHANNELS) | NP_BIT(HALVED);
    }
}

/* Keys with more than one value: what concat puts first must be said. */
static unsigned keys_of(const struct np_op_fields *row)
{
    return row->op == NP_OP_CONCAT ? 0 : row->fields;
}

START_TEST(every_operator)
{
    static const char *const inputs[] = {"tokens", "pairs", "images"};
    static const char *const roles[] = {"stem", "choice", "head"};
    static const char *const shapes[SHAPES] = {"as it is", "of other channels", "halved"};
    const struct np_op_fields *row;
    see_all();
    for (size_t i = 0; (row = np_op_row(i)); i++) {
        const char *role = roles[row->role];
        int bit = missing(row->inputs, seen.inputs[i]);
        ck_assert_msg(bit < 0, "no %s '%s' of %s", role, row->name, inputs[bit]);
        bit = missing(keys_of(row), seen.several[i]);
        ck_assert_msg(bit < 0, "%s '%s' has one '%s' only: %s", role, row->name,
                      np_field_name((enum np_field)bit), seen.value[i][bit]);
        bit = missing(row->norms, seen.norms[i]);
        ck_assert_msg(bit < 0, "no %s '%s' with norm %s", role, row->name,
                      np_norm_name((enum np_norm)bit));
        bit = missing(shapes_of(row), seen.shapes[i]);
        ck_assert_msg(bit < 0, "no '%s' whose input leaves %s", row->name, shapes[bit]);
    }
}
END_TEST

START_TEST(every_node)
{
    const unsigned acts = NP_BIT(NP_ACT_COUNT) - 1;
    const enum np_node_op with_act[] = {NP_NODE_CONV, NP_NODE_BATCH_NORM, NP_NODE_GROUP_NORM,
                                        NP_NODE_ACT, NP_NODE_ADD};
    const struct {
        enum np_node_op op;
        unsigned kernels, windows;
    } windows[] = {
        {NP_NODE_CONV, NP_BIT(1) | NP_BIT(3) | NP_BIT(5) | NP_BIT(7),
         NP_BIT(OBLONG) | NP_BIT(STRIDE) | NP_BIT(DILATION) | NP_BIT(GROUPS)},
        {NP_NODE_DWCONV, NP_BIT(3) | NP_BIT(5) | NP_BIT(7),
         NP_BIT(OBLONG) | NP_BIT(STRIDE) | NP_BIT(DILATION)},
        {NP_NODE_MAX_POOL, NP_BIT(3) | NP_BIT(5), NP_BIT(OBLONG) | NP_BIT(STRIDE)},
        {NP_NODE_AVG_POOL, NP_BIT(3) | NP_BIT(5), NP_BIT(OBLONG) | NP_BIT(STRIDE)},
    };
    see_all();
    ck_assert_int_eq(missing(NP_BIT(NP_NODE_OP_COUNT) - 1, seen.nodes), -1);
    for (size_t i = 0; i < sizeof with_act / sizeof *with_act; i++) {
        enum np_node_op op = with_act[i];
        int bit = missing(op == NP_NODE_ACT ? acts & ~NP_BIT(NP_ACT_NONE) : acts, seen.acts[op]);
        ck_assert_msg(bit < 0, "no node %d with act %s", (int)op, np_act_name((enum np_act)bit));
    }
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        enum np_node_op op = windows[i].op;
        int bit = missing(windows[i].kernels, seen.kernels[op]);
        ck_assert_msg(bit < 0, "no node %d with a kernel of %d", (int)op, bit);
        bit = missing(windows[i].windows, seen.windows[op]);
        ck_assert_msg(bit < 0, "no node %d with window %d", (int)op, bit);
    }
}
END_TEST

/* Tokens and pairs are sequences to an operator. */
static bool has_images(unsigned inputs)
{
    return inputs & NP_BIT(NP_INPUT_IMAGES);
}
static bool has_sequences(unsigned inputs)
{
    return inputs & (NP_BIT(NP_INPUT_TOKENS) | NP_BIT(NP_INPUT_PAIRS));
}

START_TEST(every_portable_operator)
{
    static const char *const paths[] = {"tests/portable/text.yaml", "tests/portable/pairs.yaml",
                                        "tests/portable/images.yaml"};
    unsigned portable[ROWS] = {0};
    const struct np_op_fields *row;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct space s;
        space_open(&s, paths[i]);
        for (uint32_t l = 1; l + 1 < s.net.layers; l++) {
            const struct np_layer_spec *spec = &np_supernet_kind(&s.net, l)->spec;
            portable[row_of(spec, NP_ROLE_CHOICE)] |= NP_BIT(s.recipe.input);
        }
        space_close(&s);
    }
    for (size_t i = 0; (row = np_op_row(i)); i++) {
        if (row->role != NP_ROLE_CHOICE)
            continue;
        ck_assert_msg(has_images(portable[i]) || !has_images(row->inputs),
                      "tests/portable/images.yaml has no '%s'", row->name);
        ck_assert_msg(has_sequences(portable[i]) || !has_sequences(row->inputs),
                      "tests/portable/text.yaml has no '%s', nor has pairs.yaml", row->name);
    }
}
END_TEST

START_TEST(every_layer_case)
{
    bool cases[NP_OP_COUNT] = {false};
    const struct np_op_fields *row;
    for (int i = 0; i < layer_cases; i++) {
        struct np_kind kind;
        layer_case_init(&kind, i);
        cases[kind.spec.op] = true;
        np_kind_clear(&kind);
    }
    for (size_t i = 0; (row = np_op_row(i)); i++)
        ck_assert_msg(cases[row->op], "layer_cases.c has no '%s'", row->name);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coverage");
    TCase *tests = suite_case(suite, "recipes");
    tcase_add_unchecked_fixture(tests, tiny_make_files, tiny_remove_files);
    tcase_add_test(tests, every_operator);
    tcase_add_test(tests, every_node);
    tcase_add_test(tests, every_portable_operator);
    tcase_add_test(tests, every_layer_case);
    return suite_run(suite);
}
