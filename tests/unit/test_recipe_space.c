/* The grammar of images, pairs and cells: canonical text, defaults, and what is refused, with its
 * place. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "recipe_text.h"
#include "space/supernet.h"
#include "suite.h"

static const char images[] =
    "naspipe: recipe/1\n"
    "data:\n"
    "  train: {kind: idx, files: [i, l]}\n"
    "space:\n"
    "  input: {kind: images, height: 28, width: 20, channels: 3, classes: 10}\n"
    "  width: 8\n"
    "  blocks:\n"
    "    - repeat: 2\n"
    "      out: 16\n"
    "      stride: 2\n"
    "      choices:\n"
    "        - {op: conv2d}\n"
    "        - {op: identity}\n"
    "    - choices:\n"
    "        - {op: mha, heads: 4}\n"
    "    - cell: 3\n"
    "      choices:\n"
    "        - {op: zero}\n"
    "        - {op: avg_pool}\n"
    "train: {steps: 10}\n";

/* The same, with the blocks of a `repeat` apart and every default said. */
static const char images_spelled_out[] =
    "naspipe: recipe/1\n"
    "data:\n"
    "  train: {kind: idx, files: [i, l], mean: [0, 0.0, -0.0], std: [1, 1, 1.0], flip: false, "
    "crop: 0}\n"
    "space:\n"
    "  input: {kind: images, height: 28, width: 20, channels: 3, classes: 10}\n"
    "  width: 8\n"
    "  stem: {op: conv2d, kernel: [3, 3], stride: 1, norm: batch, act: relu}\n"
    "  blocks:\n"
    "    - {out: 16, stride: 2, choices: [{op: conv2d, groups: 1}, {op: identity}]}\n"
    "    - {out: 16, stride: 1, choices: [{op: conv2d, kernel: [3, 3]}, {op: identity}]}\n"
    "    - choices: [{op: mha, heads: 4, mask: none}]\n"
    "    - {cell: 3, choices: [{op: zero}, {op: avg_pool, norm: none}]}\n"
    "  head: {op: classifier, features: 0, norm: none, act: none}\n"
    "train: {steps: 10, calibration: 8}\n";

static const char images_canonical[] =
    "data:\n"
    "  train: {kind: idx, files: [i, l], part: [0, 1], mean: [0, 0, 0], std: [1, 1, 1], crop: 0, "
    "flip: false}\n"
    "space:\n"
    "  input: {kind: images, height: 28, width: 20, channels: 3, classes: 10}\n"
    "  width: 8\n"
    "  stem: {op: conv2d, kernel: 3, stride: 1, norm: batch, act: relu}\n"
    "  blocks:\n"
    "    - repeat: 2\n"
    "      out: 16\n"
    "      stride: 2\n"
    "      choices:\n"
    "        - {op: conv2d, kernel: 3, dilation: 1, groups: 1, norm: batch, act: relu}\n"
    "        - {op: identity}\n"
    "    - repeat: 1\n"
    "      out: 16\n"
    "      stride: 1\n"
    "      choices:\n"
    "        - {op: mha, heads: 4, mask: none, dropout: 0, drop_path: 0}\n"
    "    - repeat: 1\n"
    "      cell: 3\n"
    "      out: 16\n"
    "      stride: 1\n"
    "      choices:\n"
    "        - {op: zero}\n"
    "        - {op: avg_pool, kernel: 3, norm: none}\n"
    "  head: {op: classifier, features: 0, norm: none, act: none}\n";

static const char pairs[] = "naspipe: recipe/1\n"
                            "data:\n"
                            "  train: {kind: pairs, files: [p]}\n"
                            "space:\n"
                            "  input: {kind: pairs, vocab: 256, source_length: 9, length: 6}\n"
                            "  width: 12\n"
                            "  blocks:\n"
                            "    - name: first\n"
                            "      choices: [{op: mha, heads: 3, mask: none}]\n"
                            "    - name: \"the encoder's: last\"\n"
                            "      repeat: 2\n"
                            "      choices: [{op: ffn}, {op: glu}]\n"
                            "    - choices: [{op: embedding}]\n"
                            "    - choices:\n"
                            "        - {op: mha, heads: 4, memory: \"the encoder's: last\"}\n"
                            "        - {op: identity}\n"
                            "train: {steps: 10}\n";

static const char pairs_canonical[] =
    "  input: {kind: pairs, vocab: 256, source_length: 9, length: 6}\n"
    "  width: 12\n"
    "  stem: {op: embedding, positions: learned}\n"
    "  blocks:\n"
    "    - repeat: 1\n"
    "      name: first\n"
    "      choices:\n"
    "        - {op: mha, heads: 3, mask: none, dropout: 0, drop_path: 0}\n"
    "    - repeat: 2\n"
    "      name: \"the encoder's: last\"\n"
    "      choices:\n"
    "        - {op: ffn, ratio: 4, act: gelu, dropout: 0, drop_path: 0}\n"
    "        - {op: glu, dropout: 0, drop_path: 0}\n"
    "    - repeat: 1\n"
    "      choices:\n"
    "        - {op: embedding, positions: learned}\n"
    "    - repeat: 1\n"
    "      choices:\n"
    "        - {op: mha, heads: 4, memory: \"the encoder's: last\", mask: none, dropout: 0, "
    "drop_path: 0}\n"
    "        - {op: identity}\n"
    "  head: {op: lm}\n";

START_TEST(test_images)
{
    struct np_recipe recipe, other;
    recipe_text_read(&recipe, images);
    recipe_text_holds(&recipe, images_canonical);
    recipe_text_holds(&recipe, "  checkpoint_every: 0\n  calibration: 8\n");
    recipe_text_stable(&recipe);
    recipe_text_read(&other, images_spelled_out);
    ck_assert_str_eq(other.canonical, recipe.canonical);
    np_recipe_clear(&other);
    np_recipe_clear(&recipe);
}
END_TEST

START_TEST(test_pairs)
{
    struct np_recipe recipe;
    recipe_text_read(&recipe, pairs);
    recipe_text_holds(&recipe, pairs_canonical);
    ck_assert(!recipe.masked);
    ck_assert_ptr_null(strstr(recipe.canonical, "calibration"));
    recipe_text_stable(&recipe);
    ck_assert_int_eq(recipe.blocks[4].memory, 3);
    ck_assert_int_eq(recipe.blocks[0].memory, -1);
    np_recipe_clear(&recipe);
}
END_TEST

/* What is seen is not said. */
START_TEST(test_padding)
{
    static const char *const words[] = {"seen", "masked"};
    for (int masked = 0; masked < 2; masked++) {
        struct np_recipe recipe;
        char set[64];
        snprintf(set, sizeof set, "space.input.padding=%s", words[masked]);
        recipe_text_read(&recipe, pairs);
        np_recipe_clear(&recipe);
        ck_assert_int_eq(np_recipe_read(&recipe, recipe_path, &(const char *){set}, 1, NULL),
                         NP_OK);
        ck_assert_int_eq(recipe.masked, masked);
        recipe_text_holds(&recipe, masked ? "source_length: 9, length: 6, padding: masked}\n"
                                          : "source_length: 9, length: 6}\n");
        recipe_text_stable(&recipe);
        np_recipe_clear(&recipe);
    }
}
END_TEST

/* The channels that attention has by default are not said, other ones are. */
START_TEST(test_default_hidden)
{
    struct np_recipe plain, said;
    recipe_text_read(&plain, pairs);
    for (int i = 0; i < 2; i++) {
        const char *set =
            i ? "space.blocks.0.choices.0.hidden=9" : "space.blocks.0.choices.0.hidden=12";
        ck_assert_int_eq(np_recipe_read(&said, recipe_path, &set, 1, NULL), NP_OK);
        ck_assert_int_eq(np_digest_equal(&said.digest, &plain.digest), i == 0);
        recipe_text_stable(&said);
        np_recipe_clear(&said);
    }
    np_recipe_clear(&plain);
}
END_TEST

/* One block as it is written back. */
START_TEST(test_choices)
{
    const struct {
        const char *choice, *line;
    } cases[] = {
        {"{op: conv2d, kernel: [1, 7], dilation: 2, groups: 4, norm: layer, act: hsigmoid}",
         "{op: conv2d, kernel: [1, 7], dilation: 2, groups: 4, norm: layer, act: hsigmoid}"},
        {"{op: dwconv2d, norm: group}",
         "{op: dwconv2d, kernel: 3, dilation: 1, norm: group, act: relu}"},
        {"{op: relu_conv_bn, kernel: 1}", "{op: relu_conv_bn, kernel: 1, dilation: 1}"},
        {"{op: sepconv, kernel: 16}", "{op: sepconv, kernel: 16}"},
        {"{op: dilconv}", "{op: dilconv, kernel: 3, dilation: 2}"},
        {"{op: resnet_basic}",
         "{op: resnet_basic, kernel: 3, hidden: 16, act: relu, dropout: 0, drop_path: 0}"},
        {"{op: bottleneck}", "{op: bottleneck, kernel: 3, groups: 1, hidden: 4, se: 0, act: relu, "
                             "dropout: 0, drop_path: 0}"},
        {"{op: bottleneck, hidden: 12, groups: 3, se: 4}",
         "{op: bottleneck, kernel: 3, groups: 3, hidden: 12, se: 4, act: relu, dropout: 0, "
         "drop_path: 0}"},
        {"{op: mbconv, hidden: 20}",
         "{op: mbconv, kernel: 3, hidden: 20, se: 0, act: relu6, dropout: 0, drop_path: 0}"},
        {"{op: ffn, hidden: 56}", "{op: ffn, hidden: 56, act: gelu, dropout: 0, drop_path: 0}"},
        {"{op: mbconv, se: 4}",
         "{op: mbconv, kernel: 3, expand: 6, se: 4, act: relu6, dropout: 0, drop_path: 0}"},
        {"{op: shuffle, xception: true}", "{op: shuffle, kernel: 3, xception: true}"},
        {"{op: max_pool, kernel: 5, norm: batch}", "{op: max_pool, kernel: 5, norm: batch}"},
        {"{op: ffn, drop_path: 0.25}",
         "{op: ffn, ratio: 4, act: gelu, dropout: 0, drop_path: 0.25}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char set[160];
        const char *sets[] = {set};
        struct np_recipe recipe;
        struct np_error err = {.msg = ""};
        snprintf(set, sizeof set, "space.blocks.1.choices.0=%s", cases[i].choice);
        recipe_text_write(images, strlen(images));
        ck_assert_msg(np_recipe_read(&recipe, recipe_path, sets, 1, &err) == NP_OK, "%s", err.msg);
        recipe_text_holds(&recipe, cases[i].line);
        recipe_text_stable(&recipe);
        np_recipe_clear(&recipe);
    }
}
END_TEST

START_TEST(test_ends)
{
    const struct {
        const char *set, *line;
    } cases[] = {
        {"space.stem={stride: 2, norm: none}",
         "  stem: {op: conv2d, kernel: 3, stride: 2, norm: none, act: relu}\n"},
        {"space.stem={op: patch, kernel: 4}",
         "  stem: {op: patch, kernel: 4, positions: learned}\n"},
        {"space.stem={op: patch, kernel: [7, 5], positions: none}",
         "  stem: {op: patch, kernel: [7, 5], positions: none}\n"},
        {"space.head={features: 32}",
         "  head: {op: classifier, features: 32, norm: batch, act: relu}\n"},
        {"space.head={features: 32, hidden: 48, act: hswish, dropout: 0.2}",
         "  head: {op: classifier, hidden: 48, features: 32, norm: batch, act: hswish, dropout: "
         "0.2}\n"},
        {"space.head={hidden: 48}",
         "  head: {op: classifier, hidden: 48, features: 0, norm: none, act: relu}\n"},
        {"space.head={hidden: 0, dropout: 0}",
         "  head: {op: classifier, features: 0, norm: none, act: none}\n"},
        {"space.head={norm: layer, act: gelu}",
         "  head: {op: classifier, features: 0, norm: layer, act: gelu}\n"},
        {"data.train={kind: idx, files: [a, b, c, d], mean: [0.5, 0.25, 0.125], std: [1, 2, 4], "
         "crop: 19, flip: true}",
         "files: [a, b, c, d], part: [0, 1], mean: [0.5, 0.25, 0.125], std: [1, 2, 4], crop: 19, "
         "flip: true}\n"},
        {"data.valid={kind: idx, files: [a, b]}",
         "  valid: {kind: idx, files: [a, b], part: [0, 1], mean: [0, 0, 0], std: [1, 1, 1]}\n"},
        {"train={steps: 1, calibration: 4096}", "  calibration: 4096\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct np_recipe recipe;
        struct np_error err = {.msg = ""};
        recipe_text_write(images, strlen(images));
        ck_assert_msg(np_recipe_read(&recipe, recipe_path, &cases[i].set, 1, &err) == NP_OK, "%s",
                      err.msg);
        recipe_text_holds(&recipe, cases[i].line);
        recipe_text_stable(&recipe);
        np_recipe_clear(&recipe);
    }
}
END_TEST

struct bad {
    const char *set, *message;
};

static void assert_refused(const char *text, const struct bad *bad)
{
    struct np_recipe recipe;
    struct np_error err = {.msg = ""};
    const char *message;
    recipe_text_write(text, strlen(text));
    ck_assert_msg(np_recipe_read(&recipe, recipe_path, &bad->set, 1, &err) == NP_EINPUT, "%s",
                  bad->set);
    message = strstr(err.msg, ": ");
    if (strncmp(err.msg, "--set ", 6) == 0 && message)
        message = err.msg + 6 + strlen(bad->set);
    ck_assert_ptr_nonnull(message);
    ck_assert_str_eq(message + 2, bad->message);
}

START_TEST(test_bad_images)
{
    static const struct bad bad[] = {
        {"space.input.height=4097", "'height' must be a whole number from 1 to 4096, not '4097'"},
        {"space.input.channels=65", "'channels' must be a whole number from 1 to 64, not '65'"},
        {"space.input.classes=1", "'classes' must be a whole number from 2 to 1048576, not '1'"},
        {"space.input.vocab=7",
         "unknown key 'vocab' (known: kind, height, width, channels, classes)"},
        {"space.stem={op: embedding}", "'embedding' is an operator of sequences, not of images"},
        {"space.stem={kernel: [0, 2]}", "'kernel.0' must be a whole number from 1 to 256, not '0'"},
        {"space.stem={kernel: [16, 17]}", "a kernel of 16 x 17 has more than 256 taps"},
        {"space.stem={kernel: 17}", "a kernel of 17 x 17 has more than 256 taps"},
        {"space.stem={kernel: [3]}", "'kernel' must have exactly 2 items, not 1"},
        {"space.stem={stride: 3}", "'stride' must be a whole number from 1 to 2, not '3'"},
        {"space.stem={norm: layer}", "unknown norm 'layer' (known: none, batch, group)"},
        {"space.stem={dilation: 2}",
         "unknown key 'dilation' (known: op, kernel, stride, norm, act, name)"},
        {"space.stem={op: patch}", "'kernel' must divide the image of 28 x 20, not 16 x 16"},
        {"space.stem={op: patch, kernel: [7, 3]}",
         "'kernel' must divide the image of 28 x 20, not 7 x 3"},
        {"space.head={op: lm}", "'lm' is an operator of sequences, not of images"},
        {"space.head={norm: group}", "unknown norm 'group' (known: none, batch, layer, rms)"},
        {"space.head={features: -1}",
         "'features' must be a whole number from 0 to 65536, not '-1'"},
        {"space.blocks.0.out=0", "'out' must be a whole number from 1 to 65536, not '0'"},
        {"space.blocks.0.stride=3", "'stride' must be a whole number from 1 to 2, not '3'"},
        {"space.blocks.0.cell=1", "'cell' must be a whole number from 2 to 16, not '1'"},
        {"space.blocks.0.choices.0={op: conv1d}",
         "'conv1d' is an operator of sequences, not of images"},
        {"space.blocks.0.choices.0={op: embedding}",
         "'embedding' is an operator of pairs, not of images"},
        {"space.blocks.0.choices.0={op: conv3d}", "unknown op 'conv3d' (did you mean 'conv2d'?)"},
        {"space.blocks.0.choices.0={op: classifier}",
         "unknown op 'classifier' (known: identity, mha, ffn, gated_ffn, conv2d, dwconv2d, "
         "relu_conv_bn, "
         "sepconv, dilconv, resnet_basic, bottleneck, mbconv, shuffle, max_pool, avg_pool, concat, "
         "zero, norm)"},
        {"space.blocks.0.choices.0={op: mha, heads: 4}",
         "'mha' keeps the shape, its block makes 14x10x16 of 28x20x8"},
        {"space.blocks.0.choices.0={op: ffn}",
         "'ffn' keeps the shape, its block makes 14x10x16 of 28x20x8"},
        {"space.blocks.1.choices.0={op: mha, heads: 5}",
         "'heads' must divide the width of 16, not 5"},
        {"space.blocks.1.choices.0={op: mha, heads: 4, mask: causal}", "images have no mask"},
        {"space.blocks.1.choices.0={op: mha, heads: 4, positions: rotary}",
         "images have no rotary positions"},
        {"space.blocks.0.choices.0={op: dwconv2d}",
         "'dwconv2d' keeps the channels, its block makes 16 of 8"},
        {"space.blocks.0.choices.0={op: max_pool}",
         "'max_pool' keeps the channels, its block makes 16 of 8"},
        {"space.blocks.0.choices.0={op: avg_pool, norm: group}",
         "unknown norm 'group' (known: none, batch)"},
        {"space.blocks.0.choices.0={op: conv2d, groups: 16}",
         "'groups' must divide the 8 channels it reads and the 16 it makes, not 16"},
        {"space.blocks.0.choices.0={op: conv2d, dilation: 3}",
         "'dilation' must be a whole number from 1 to 2, not '3'"},
        {"space.blocks.0.choices.0={op: conv2d, dropout: 0.1}",
         "unknown key 'dropout' (known: op, kernel, dilation, groups, norm, act)"},
        {"space.blocks.0.choices.0={op: mbconv, expand: 17}",
         "'expand' must be a whole number from 1 to 16, not '17'"},
        {"space.blocks.0.choices.0={op: mbconv, se: 65}",
         "'se' must be a whole number from 0 to 64, not '65'"},
        {"space.blocks.0.choices.0={op: resnet_basic, hidden: 0}",
         "'hidden' must be a whole number from 1 to 65536, not '0'"},
        {"space.blocks.0.choices.0={op: bottleneck, hidden: 12, groups: 8}",
         "'groups' must divide the 12 channels between, not 8"},
        {"space.blocks.0.choices.0={op: mbconv, hidden: 20, expand: 2}",
         "'expand' and 'hidden' say the same: one of them"},
        {"space.blocks.1.choices.0={op: ffn, ratio: 4, hidden: 20}",
         "'ratio' and 'hidden' say the same: one of them"},
        {"space.blocks.0.choices.0={op: shuffle, xception: 1}",
         "'xception' must be true or false, not '1'"},
        {"space.blocks=[{out: 7, stride: 2, choices: [{op: shuffle}]}]",
         "'shuffle' makes an even number of channels, not 7"},
        {"space.blocks=[{out: 16, choices: [{op: shuffle}]}]",
         "'shuffle' keeps the channels at stride 1, its block makes 16 of 8"},
        {"space.blocks=[{out: 1, stride: 2, choices: [{op: identity}]}]",
         "'identity' makes 2 channels or more at stride 2"},
        {"space.blocks=[{out: 16, cell: 3, choices: [{op: ffn}]}]",
         "'ffn' keeps the shape, its block makes 28x20x16 of 28x20x8"},
        {"data.train={kind: bytes, files: [a]}",
         "data of kind 'bytes' are tokens, the space's input are images"},
        {"data.train={kind: cifar10, files: [a]}",
         "cifar10 holds images of 32 x 32 x 3, not 28 x 20 x 3"},
        {"data.train={kind: cifar100, files: [a]}",
         "cifar100 holds images of 32 x 32 x 3, not 28 x 20 x 3"},
        {"data.train.files=[a, b, c]", "idx files come in twos, images and labels, not 3"},
        {"data.train.mean=[0]", "'mean' must have exactly 3 items, not 1"},
        {"data.train.mean=0.5", "'mean' must be a list, not '0.5'"},
        {"data.train.std=[1, 0, 1]", "'std.1' must be a number in [1e-30, 1e+30], not '0'"},
        {"space.blocks.0.origin=4096",
         "'origin' must be a whole number from 0 to 4095, not '4096'"},
        {"space.blocks.0={cell: 2, origin: 1, choices: [{op: zero}]}", "a cell has no 'origin'"},
        {"data.train.crop=20", "'crop' must be a whole number from 0 to 19, not '20'"},
        {"data.train.flip=yes", "'flip' must be true or false, not 'yes'"},
        {"data.valid={kind: idx, files: [a, b], crop: 2}",
         "unknown key 'crop' (known: kind, files, part, mean, std, stored)"},
        {"train={steps: 1, calibration: 0}",
         "'calibration' must be a whole number from 1 to 4096, not '0'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(images, &bad[i]);
}
END_TEST

START_TEST(test_bad_pairs)
{
    static const struct bad bad[] = {
        {"space.input={kind: pairs, vocab: 256, length: 6}",
         "missing key 'source_length' in 'input'"},
        {"space.input.vocab=255", "pairs need a vocabulary of at least 256, not 255"},
        {"data.train.kind=token_pair", "unknown kind 'token_pair' (did you mean 'token_pairs'?)"},
        {"space.input.padding=hidden", "unknown padding 'hidden' (known: seen, masked)"},
        {"space.input={vocab: 256, length: 6, padding: masked}",
         "unknown key 'padding' (known: kind, vocab, length)"},
        {"space.blocks.1.name=first", "the name 'first' is given already"},
        {"space.blocks.3.choices.0.memory=frist", "unknown memory 'frist' (did you mean 'first'?)"},
        {"space.blocks.3.choices.0.mask=causal", "layers with a memory have no mask"},
        {"space.blocks.3.choices.0.positions=rotary",
         "layers with a memory have no rotary positions"},
        {"space.blocks.3.choices.0.positions=relative",
         "layers with a memory have no relative positions"},
        {"space.blocks.3.choices.1={op: mha, heads: 2, memory: first}",
         "the candidates of a block have one memory: 'the encoder's: last'"},
        {"space.blocks.0.choices.0={op: mha, heads: 2, memory: first}",
         "no block before this one has a name"},
        {"space.blocks.2.choices=[{op: embedding}, {op: embedding}]",
         "the target's embedding must be a block of its own"},
        {"space.blocks.2.repeat=2", "the target's embedding must be a block of its own"},
        {"space.blocks.2.cell=3", "the target's embedding must be a block of its own"},
        {"space.blocks.3.choices=[{op: embedding}]", "the target's embedding is there already"},
        {"space.blocks.2.choices=[{op: glu}]",
         "pairs need a block of {op: embedding}: the target's"},
        {"data.train.kind=tokens", "data of kind 'tokens' are tokens, the space's input are pairs"},
        {"train={steps: 1, calibration: 8}", "'calibration' is of spaces with batch norm"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(pairs, &bad[i]);
}
END_TEST

/* The place is that of the key to blame. */
START_TEST(test_places)
{
    const struct {
        const char *from, *to, *message;
    } bad[] = {
        {"{op: identity}", "{op: ffn}",
         ":13:16: 'ffn' keeps the shape, its block makes 14x10x16 of 28x20x8"},
        {"heads: 4", "heads: 7", ":15:28: 'heads' must divide the width of 16, not 7"},
        {"avg_pool", "avg_poll", ":19:16: unknown op 'avg_poll' (did you mean 'avg_pool'?)"},
        {"cell: 3", "cell: 0", ":16:13: 'cell' must be a whole number from 2 to 16, not '0'"},
        {"[i, l]", "[i]", ":3:29: idx files come in twos, images and labels, not 1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *at = strstr(images, bad[i].from);
        char text[sizeof images + 64];
        struct np_recipe recipe;
        struct np_error err = {.msg = ""};
        ck_assert_ptr_nonnull(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - images), images, bad[i].to,
                 at + strlen(bad[i].from));
        recipe_text_write(text, strlen(text));
        ck_assert_int_eq(np_recipe_read(&recipe, recipe_path, NULL, 0, &err), NP_EINPUT);
        ck_assert_str_eq(err.msg + strlen(recipe_path), bad[i].message);
        ck_assert_ptr_null(recipe.blocks);
        ck_assert_ptr_null(recipe.names);
    }
}
END_TEST

/* Cells fold like blocks, whichever way they were written. */
START_TEST(test_cells_fold)
{
    static const char *const ways[] = {
        "space.blocks=[{cell: 3, repeat: 3, out: 16, stride: 2, choices: [{op: sepconv}]}]",
        "space.blocks=[{cell: 3, out: 16, stride: 2, choices: [{op: sepconv}]}, {cell: 3, repeat: "
        "2, "
        "choices: [{op: sepconv}]}]",
        "space.blocks=[{cell: 3, repeat: 2, out: 16, stride: 2, choices: [{op: sepconv}]}, {cell: "
        "3, "
        "choices: [{op: sepconv, kernel: 3}]}]"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct np_recipe recipe;
        recipe_text_write(images, strlen(images));
        ck_assert_int_eq(np_recipe_read(&recipe, recipe_path, &ways[i], 1, NULL), NP_OK);
        recipe_text_holds(&recipe,
                          "  blocks:\n    - repeat: 3\n      cell: 3\n      out: 16\n"
                          "      stride: 2\n      choices:\n        - {op: sepconv, kernel: 3}\n"
                          "  head");
        ck_assert_int_eq(recipe.block_count, 9);
        recipe_text_stable(&recipe);
        np_recipe_clear(&recipe);
    }
}
END_TEST

/* A second block of stride 2 is an item of its own. */
START_TEST(test_strides_do_not_fold)
{
    const char *set = "space.blocks=[{out: 16, stride: 2, choices: [{op: zero}]}, {stride: 2, "
                      "choices: [{op: zero}]}, {choices: [{op: zero}]}]";
    struct np_recipe recipe;
    recipe_text_write(images, strlen(images));
    ck_assert_int_eq(np_recipe_read(&recipe, recipe_path, &set, 1, NULL), NP_OK);
    recipe_text_holds(&recipe, "    - repeat: 1\n      out: 16\n      stride: 2\n"
                               "      choices:\n        - {op: zero}\n"
                               "    - repeat: 2\n      out: 16\n      stride: 2\n");
    recipe_text_stable(&recipe);
    np_recipe_clear(&recipe);
}
END_TEST

/* There is something to calibrate if any layer has a batch norm, also an identity of another
 * shape. */
START_TEST(test_calibration)
{
    const struct {
        const char *blocks;
        int calibration;
    } cases[] = {{"space.blocks=[{choices: [{op: identity}, {op: avg_pool}]}]", 0},
                 {"space.blocks=[{choices: [{op: identity}, {op: avg_pool, norm: batch}]}]", 8},
                 {"space.blocks=[{out: 9, choices: [{op: identity}]}]", 8},
                 {"space.blocks=[{out: 9, choices: [{op: zero}]}]", 0},
                 {"space.blocks=[{cell: 3, stride: 2, choices: [{op: identity}]}]", 8},
                 {"space.blocks=[{choices: [{op: mbconv}]}]", 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *sets[] = {"space.stem={norm: none}", cases[i].blocks};
        struct np_supernet net;
        struct np_recipe recipe;
        recipe_text_write(images, strlen(images));
        ck_assert_int_eq(np_recipe_read(&recipe, recipe_path, sets, 2, NULL), NP_OK);
        ck_assert_int_eq(recipe.calibration, cases[i].calibration);
        ck_assert_int_eq(np_supernet_init(&net, &recipe, NULL), NP_OK);
        ck_assert_int_eq(net.whole_batch, cases[i].calibration > 0);
        np_supernet_clear(&net);
        np_recipe_clear(&recipe);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recipe_space");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, test_images);
    tcase_add_test(tests, test_pairs);
    tcase_add_test(tests, test_padding);
    tcase_add_test(tests, test_default_hidden);
    tcase_add_test(tests, test_choices);
    tcase_add_test(tests, test_ends);
    tcase_add_test(tests, test_bad_images);
    tcase_add_test(tests, test_bad_pairs);
    tcase_add_test(tests, test_places);
    tcase_add_test(tests, test_cells_fold);
    tcase_add_test(tests, test_strides_do_not_fold);
    tcase_add_test(tests, test_calibration);
    return recipe_text_run(suite);
}
