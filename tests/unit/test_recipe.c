#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "space/recipe.h"
#include "suite.h"

static const char *const file_name = "r.yaml";

static const char minimal[] = "naspipe: recipe/1\n"
                              "space:\n"
                              "  input: {vocab: 256, length: 8}\n"
                              "  width: 12\n"
                              "  blocks:\n"
                              "    - repeat: 2\n"
                              "      choices:\n"
                              "        - {op: ffn}\n"
                              "        - {op: mha, heads: 4}\n"
                              "data:\n"
                              "  train: {kind: bytes, files: [a.txt]}\n"
                              "train:\n"
                              "  steps: 10\n";

static const char spelled_out[] =
    "# everything in another order\n"
    "train:\n"
    "  checkpoint_every: 0\n"
    "  clip: {kind: none}\n"
    "  loss: {label_smoothing: -0.0, kind: cross_entropy}\n"
    "  schedule: {warmup: 0, kind: constant}\n"
    "  optimizer: {weight_decay: 1e-2, eps: 1.0e-8, beta2: 0.999, beta1: 0.90, lr: 0.001,\n"
    "              kind: adamw}\n"
    "  grain: 2\n"
    "  batch: 16\n"
    "  steps: 10\n"
    "sampler: {members: 1, kind: uniform}\n"
    "shared: {steps: 1, policy: delay}\n"
    "space:\n"
    "  head: {op: lm}\n"
    "  blocks:\n"
    "    - choices:\n"
    "      - {act: gelu, op: ffn, ratio: 4, dropout: 0.0}\n"
    "      - {dropout: 0, op: mha, heads: 4}\n"
    "    - choices:\n"
    "      - {ratio: 4, op: ffn, dropout: 0e3}\n"
    "      - op: mha # the same again\n"
    "        heads: 4\n"
    "  stem: {positions: learned, op: embedding}\n"
    "  width: 12\n"
    "  input: {length: 8, vocab: 256, kind: tokens}\n"
    "data:\n"
    "  train: {part: [0, 1.0], files: ['a.txt'], kind: bytes}\n"
    "numerics: portable/1\n"
    "seed: 0\n"
    "naspipe: recipe/1\n";

static const char canonical[] =
    "naspipe: recipe/1\n"
    "seed: 0\n"
    "numerics: portable/1\n"
    "data:\n"
    "  train: {kind: bytes, files: [a.txt], part: [0, 1]}\n"
    "space:\n"
    "  input: {kind: tokens, vocab: 256, length: 8}\n"
    "  width: 12\n"
    "  stem: {op: embedding, positions: learned}\n"
    "  blocks:\n"
    "    - repeat: 2\n"
    "      choices:\n"
    "        - {op: ffn, ratio: 4, act: gelu, dropout: 0, drop_path: 0}\n"
    "        - {op: mha, heads: 4, mask: causal, dropout: 0, drop_path: 0}\n"
    "  head: {op: lm}\n"
    "shared: {policy: delay, steps: 1}\n"
    "sampler: {kind: uniform, members: 1}\n"
    "train:\n"
    "  steps: 10\n"
    "  batch: 16\n"
    "  grain: 2\n"
    "  optimizer: {kind: adamw, lr: 0.001, beta1: 0.9, beta2: 0.999, eps: 1e-08, "
    "weight_decay: 0.01}\n"
    "  schedule: {kind: constant, warmup: 0}\n"
    "  loss: {kind: cross_entropy, label_smoothing: 0}\n"
    "  clip: {kind: none}\n"
    "  checkpoint_every: 0\n";

/* Reads a text with up to three overrides. */
static void read_recipe(struct np_recipe *recipe, const char *text, const char *const *sets,
                        size_t count)
{
    struct np_error err = {.msg = ""};
    enum np_status status;
    suite_write(file_name, text);
    status = np_recipe_read(recipe, file_name, sets, count, &err);
    ck_assert_msg(status == NP_OK, "%s", err.msg);
}

START_TEST(test_canonical_form)
{
    struct np_recipe recipe, other, again;
    read_recipe(&recipe, minimal, NULL, 0);
    ck_assert_str_eq(recipe.canonical, canonical);
    ck_assert_uint_eq(recipe.canonical_bytes, strlen(canonical));
    read_recipe(&other, spelled_out, NULL, 0);
    ck_assert_str_eq(other.canonical, canonical);
    ck_assert(np_digest_equal(&recipe.digest, &other.digest));
    read_recipe(&again, recipe.canonical, NULL, 0);
    ck_assert_str_eq(again.canonical, canonical);
    ck_assert(np_digest_equal(&recipe.digest, &again.digest));
    np_recipe_clear(&recipe);
    np_recipe_clear(&other);
    np_recipe_clear(&again);
    np_recipe_clear(&again);
}
END_TEST

START_TEST(test_fields)
{
    struct np_recipe recipe;
    read_recipe(&recipe, spelled_out, NULL, 0);
    ck_assert_str_eq(recipe.path, "r.yaml");
    ck_assert_str_eq(recipe.directory, ".");
    ck_assert(recipe.train_data.given && !recipe.valid_data.given);
    ck_assert_int_eq(recipe.train_data.file_count, 1);
    ck_assert_str_eq(recipe.train_data.files[0], "a.txt");
    ck_assert_int_eq(recipe.vocab, 256);
    ck_assert_int_eq(recipe.length, 8);
    ck_assert_int_eq(recipe.width, 12);
    ck_assert_int_eq(recipe.block_count, 2);
    ck_assert_int_eq(recipe.blocks[1].count, 2);
    ck_assert_int_eq(recipe.blocks[1].choices[1].op, NP_OP_MHA);
    ck_assert_int_eq(recipe.blocks[1].choices[1].heads, 4);
    ck_assert_mem_eq(recipe.blocks[0].choices, recipe.blocks[1].choices,
                     2 * sizeof(struct np_layer_spec));
    ck_assert_int_eq(recipe.delay, 1);
    ck_assert_int_eq(recipe.members, 1);
    ck_assert_int_eq(recipe.grain, 2);
    np_recipe_clear(&recipe);
}
END_TEST

/* What may be said beyond the defaults comes back in the canonical text. */
START_TEST(test_overrides)
{
    const struct {
        const char *set, *line;
    } cases[] = {
        {"seed=18446744073709551615", "seed: 18446744073709551615\n"},
        {"shared.policy=frozen", "shared: {policy: frozen}\n"},
        {"shared.steps=8", "shared: {policy: delay, steps: 8}\n"},
        {"sampler={kind: fair}", "sampler: {kind: fair, members: 2}\n"},
        {"sampler={kind: spread}", "sampler: {kind: spread, members: 1, spread: 64}\n"},
        {"sampler={kind: sandwich}", "sampler: {kind: sandwich, members: 4}\n"},
        {"sampler={kind: sandwich, batch: own}",
         "sampler: {kind: sandwich, members: 4, batch: own}\n"},
        {"sampler={batch: own}", "sampler: {kind: uniform, members: 1}\n"},
        {"sampler={batch: same}", "sampler: {kind: uniform, members: 1, batch: same}\n"},
        {"train.optimizer={kind: sgd, nesterov: true}",
         "  optimizer: {kind: sgd, lr: 0.01, momentum: 0.9, nesterov: true, weight_decay: 0}\n"},
        {"train.schedule={kind: cosine, warmup: 10}", "  schedule: {kind: cosine, warmup: 10}\n"},
        {"train.schedule={kind: cosine, final: 0.04}",
         "  schedule: {kind: cosine, warmup: 0, final: 0.04}\n"},
        {"train.schedule={kind: linear, final: 0}", "  schedule: {kind: linear, warmup: 0}\n"},
        {"train.clip={kind: layer, limit: 0.1}", "  clip: {kind: layer, limit: 0.1}\n"},
        {"train.loss={label_smoothing: 0.5}",
         "  loss: {kind: cross_entropy, label_smoothing: 0.5}\n  clip"},
        {"train.loss={distill: 0}", "  loss: {kind: cross_entropy, label_smoothing: 0}\n  clip"},
        {"train.batch=1", "  batch: 1\n  grain: 1\n"},
        {"train.batch=40", "  batch: 40\n  grain: 5\n"},
        {"train.batch=44", "  batch: 44\n  grain: 4\n"},
        {"train.batch=31", "  batch: 31\n  grain: 1\n"},
        {"space.blocks.0.choices.0={op: lightconv, heads: 3, kernel: 256, dropout: 0.1}",
         "        - {op: lightconv, kernel: 256, heads: 3, dropout: 0.1, drop_path: 0}\n"},
        {"space.blocks.0.choices.1={op: mha, heads: 6, norm: rms, bias: false, positions: rotary}",
         "        - {op: mha, heads: 6, mask: causal, norm: rms, bias: false, positions: rotary, "
         "dropout: 0, drop_path: 0}\n"},
        {"space.blocks.0.choices.1={op: mha, heads: 6, positions: rotary, base: 500000}",
         "        - {op: mha, heads: 6, mask: causal, positions: rotary, base: 500000, "
         "dropout: 0, drop_path: 0}\n"},
        {"space.blocks.0.choices.1={op: mha, heads: 6, positions: rotary, base: 10000}",
         "        - {op: mha, heads: 6, mask: causal, positions: rotary, dropout: 0, "
         "drop_path: 0}\n"},
        {"space.blocks.0.choices.1={op: mha, heads: 4, positions: relative}",
         "        - {op: mha, heads: 4, mask: causal, positions: relative, dropout: 0, "
         "drop_path: 0}\n"},
        {"space.blocks.0.choices.1={op: mha, heads: 4, norm: layer, bias: true, positions: none}",
         "        - {op: mha, heads: 4, mask: causal, dropout: 0, drop_path: 0}\n"},
        {"space.blocks.0.choices.1={op: mha, heads: 6, kv_heads: 2}",
         "        - {op: mha, heads: 6, kv_heads: 2, mask: causal, dropout: 0, drop_path: 0}\n"},
        {"space.blocks.0.choices.1={op: mha, heads: 6, kv_heads: 6}",
         "        - {op: mha, heads: 6, mask: causal, dropout: 0, drop_path: 0}\n"},
        {"space.head={op: lm, norm: rms}", "  head: {op: lm, norm: rms}\n"},
        {"space.blocks.0.choices.1={op: mha, heads: 4, mask: none, drop_path: 0.5}",
         "        - {op: mha, heads: 4, mask: none, dropout: 0, drop_path: 0.5}\n"},
        {"space.stem={positions: none}", "  stem: {op: embedding, positions: none}\n"},
        {"space.blocks.0.cell=3", "    - repeat: 2\n      cell: 3\n      choices:\n"},
        {"space.blocks.0.choices.0={op: identity}", "        - {op: identity}\n"},
        {"data.valid={kind: tokens, files: ['a: b', \"c\\td\"], part: [0.25, 0.5]}",
         "  valid: {kind: tokens, files: ["},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[sizeof minimal + 64];
        struct np_recipe recipe, again;
        snprintf(text, sizeof text, "%sshared: {}\nsampler: {}\n", minimal);
        read_recipe(&recipe, text, &cases[i].set, 1);
        ck_assert_msg(strstr(recipe.canonical, cases[i].line) != NULL, "%s gives\n%s", cases[i].set,
                      recipe.canonical);
        read_recipe(&again, recipe.canonical, NULL, 0);
        ck_assert_str_eq(again.canonical, recipe.canonical);
        np_recipe_clear(&again);
        np_recipe_clear(&recipe);
    }
}
END_TEST

/* Every name is in the canonical form, and makes the recipe another one. */
START_TEST(test_numerics)
{
    struct np_digest before = {{0}};
    for (int i = 0; i < NP_NUMERICS_COUNT; i++) {
        struct np_recipe recipe;
        char set[64];
        const char *sets[] = {set};
        snprintf(set, sizeof set, "numerics=%s", np_numerics_list[i].name);
        read_recipe(&recipe, minimal, sets, 1);
        ck_assert_ptr_eq(recipe.numerics, &np_numerics_list[i]);
        ck_assert_int_eq(recipe.numerics->capability == 0, i == 0);
        snprintf(set, sizeof set, "\nnumerics: %s\n", np_numerics_list[i].name);
        ck_assert_ptr_nonnull(strstr(recipe.canonical, set));
        snprintf(set, sizeof set, "--set numerics=%s", np_numerics_list[i].name);
        ck_assert_str_eq(recipe.numerics_place, set);
        ck_assert(!np_digest_equal(&recipe.digest, &before));
        before = recipe.digest;
        np_recipe_clear(&recipe);
    }
}
END_TEST

/* The digest of the weights that come first is the recipe's, and no plan's, however it came. */
START_TEST(test_init)
{
    const char *const digits = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    char set[96], line[96];
    const char *sets[] = {set};
    struct np_recipe plain, said, given;
    struct np_digest init, seen[2];
    struct np_error err;
    snprintf(set, sizeof set, "train.init=%s", digits);
    snprintf(line, sizeof line, "\n  init: %s\n", digits);
    ck_assert(np_digest_parse(&init, digits, strlen(digits)));
    read_recipe(&plain, minimal, NULL, 0);
    read_recipe(&given, minimal, NULL, 0);
    read_recipe(&said, minimal, sets, 1);
    ck_assert(!plain.has_init && np_digest_equal(&plain.planned, &plain.digest));
    ck_assert(said.has_init && np_digest_equal(&said.init, &init));
    ck_assert_ptr_nonnull(strstr(said.canonical, line));
    ck_assert(!np_digest_equal(&said.digest, &plain.digest));
    ck_assert(np_digest_equal(&said.planned, &plain.planned));
    ck_assert_int_eq(np_recipe_set_init(&given, &init, &err), NP_OK);
    ck_assert_str_eq(given.canonical, said.canonical);
    ck_assert_uint_eq(given.canonical_bytes, said.canonical_bytes);
    ck_assert(np_digest_equal(&given.digest, &said.digest));
    ck_assert(np_digest_equal(&given.planned, &said.planned));
    ck_assert_int_eq(np_recipe_training(&seen[0], &said, &err), NP_OK);
    ck_assert_int_eq(np_recipe_training(&seen[1], &plain, &err), NP_OK);
    ck_assert(np_digest_equal(&seen[0], &seen[1]));
    np_recipe_clear(&plain);
    np_recipe_clear(&said);
    np_recipe_clear(&given);
}
END_TEST

/* Each of these is refused with one line: the place, and what is wrong. */
START_TEST(test_bad_values)
{
    const struct {
        const char *set, *message;
    } bad[] = {
        {"naspipe=plan/1", "this is 'plan/1', not 'recipe/1'"},
        {"numerics=fast/sm_90",
         "unknown numerics 'fast/sm_90' (known: portable/1, fast/sm_80-tf32, fast/sm_80-bf16, "
         "fast/sm_86-tf32, fast/sm_86-bf16, fast/sm_89-tf32, fast/sm_89-bf16, fast/sm_90-tf32, "
         "fast/sm_90-bf16, fast/sm_100-tf32, fast/sm_100-bf16, fast/sm_120-tf32, "
         "fast/sm_120-bf16)"},
        {"numerics=fast/sm_90-tf23",
         "unknown numerics 'fast/sm_90-tf23' (did you mean 'fast/sm_90-tf32'?)"},
        {"seed=-1", "'seed' must be a whole number from 0 to 2^64-1, not '-1'"},
        {"sedd=1", "unknown key 'sedd' (did you mean 'seed'?)"},
        {"space.input.kind=image", "unknown kind 'image' (did you mean 'images'?)"},
        {"space.input.vocab=1", "'vocab' must be a whole number from 2 to 16777216, not '1'"},
        {"space.input.length=65537",
         "'length' must be a whole number from 1 to 65536, not '65537'"},
        {"space.width=0", "'width' must be a whole number from 1 to 65536, not '0'"},
        {"space.stem={op: embeding}", "unknown op 'embeding' (did you mean 'embedding'?)"},
        {"space.stem={op: mha}", "unknown op 'mha' (known: embedding)"},
        {"space.stem={op: patch}", "'patch' is an operator of images, not of tokens"},
        {"space.stem={positions: sine}", "unknown positions 'sine' (known: none, learned)"},
        {"space.head={op: ln}", "unknown op 'ln' (did you mean 'lm'?)"},
        {"space.blocks=[]", "'blocks' must have at least 1 item, not 0"},
        {"space.blocks.0.repeat=0", "'repeat' must be a whole number from 1 to 4096, not '0'"},
        {"space.blocks.0.choices=[]", "'choices' must have at least 1 item, not 0"},
        {"space.blocks=[{repeat: 4096, choices: [{op: glu}]}, {choices: [{op: glu}]}]",
         "more than 4096 choice blocks"},
        {"space.blocks.0.choices.0={op: mah}", "unknown op 'mah' (did you mean 'mha'?)"},
        {"space.blocks.0.choices.0={op: lm}",
         "unknown op 'lm' (known: identity, mha, ffn, gated_ffn, glu, conv1d, sepconv1d, "
         "lightconv, norm)"},
        {"space.blocks.0.choices.0={heads: 4}", "missing key 'op' in 'choices.0'"},
        {"space.blocks.0.choices.0={op: mha}", "missing key 'heads' in 'choices.0'"},
        {"space.blocks.0.choices.0={op: mha, heads: 5}",
         "'heads' must divide the width of 12, not 5"},
        {"space.blocks.0.choices.0={op: lightconv, heads: 13}",
         "'heads' must be a whole number from 1 to 12, not '13'"},
        {"space.blocks.0.choices.0={op: mha, heads: 4, ratio: 2}",
         "unknown key 'ratio' (known: op, hidden, heads, kv_heads, memory, mask, norm, bias, "
         "positions, base, dropout, drop_path)"},
        {"space.blocks.0.choices.0={op: mha, heads: 6, kv_heads: 4}",
         "'kv_heads' must divide the 6 heads, not 4"},
        {"space.blocks.0.choices.0={op: mha, heads: 6, kv_heads: 12}",
         "'kv_heads' must be a whole number from 1 to 6, not '12'"},
        {"space.blocks.0.choices.0={op: mha, heads: 4, positions: rotary}",
         "rotary positions turn pairs, a head has 3 channels here"},
        {"space.blocks.0.choices.0={op: mha, heads: 6, positions: rotary, base: 1}",
         "'base' must be a whole number from 2 to 1073741824, not '1'"},
        {"space.blocks.0.choices.0={op: mha, heads: 6, base: 500000}",
         "'base' is of rotary positions"},
        {"space.blocks.0.choices.0={op: mha, heads: 6, positions: relative, base: 10}",
         "'base' is of rotary positions"},
        {"space.blocks.0.choices.0={op: mha, heads: 4, positions: learned}",
         "unknown positions 'learned' (known: none, rotary, relative)"},
        {"space.blocks.0.choices.0={op: ffn, bias: none}",
         "'bias' must be true or false, not 'none'"},
        {"space.blocks.0.choices.0={op: conv1d, norm: none}",
         "unknown norm 'none' (known: layer, rms)"},
        {"space.head={op: lm, norm: batch}", "unknown norm 'batch' (known: layer, rms)"},
        {"space.blocks.0.choices.0={op: ffn, ratio: 65}",
         "'ratio' must be a number in [1, 64], not '65'"},
        {"space.blocks.0.choices.0={op: ffn, ratio: 2.7}",
         "'ratio' must be a multiple of 0.125, not '2.7'"},
        {"space.blocks.0.choices.0={op: ffn, act: gleu}",
         "unknown act 'gleu' (did you mean 'gelu'?)"},
        {"space.blocks.0.choices.0={op: conv1d, kernel: 0}",
         "'kernel' must be a whole number from 1 to 256, not '0'"},
        {"space.blocks.0.choices.0={op: conv1d, kernel: 257}",
         "'kernel' must be a whole number from 1 to 256, not '257'"},
        {"space.blocks.0.choices.0={op: glu, dropout: 1}",
         "'dropout' must be a number in [0, 1), not '1'"},
        {"space.blocks.0.choices.0={op: glu, dropout: 0.99999999999}",
         "'dropout' is 1 in single precision"},
        {"space.blocks.0.choices.0={op: identity, dropout: 0.1}",
         "unknown key 'dropout' (known: op)"},
        {"space.blocks.0.choices.0={op: conv2d}",
         "'conv2d' is an operator of images, not of tokens"},
        {"space.blocks.0.choices.0={op: embedding}",
         "'embedding' is an operator of pairs, not of tokens"},
        {"space.blocks.0.choices.0={op: mha, heads: 4, mask: full}",
         "unknown mask 'full' (known: none, causal)"},
        {"space.blocks.0.choices.0={op: mha, heads: 4, memory: first}",
         "no block before this one has a name"},
        {"space.blocks.0.out=24",
         "unknown key 'out' (known: blocks, depth, repeat, cell, from, add, tie, "
         "tie_widths, name, widths, weights, origin, choices)"},
        {"space.blocks.0.cell=17", "'cell' must be a whole number from 2 to 16, not '17'"},
        {"space.blocks.0.name=''", "'name' must have 1 to 64 bytes"},
        {"space.blocks=[{cell: 16, repeat: 35, choices: [{op: glu}]}]",
         "more than 4096 choice blocks"},
        {"train.init=0",
         "'init' is the digest of a run, 64 lower-case hexadecimal digits, not '0'"},
        {"train.calibration=4", "'calibration' is of spaces with batch norm"},
        {"data.train.kind=idx", "data of kind 'idx' are images, the space's input are tokens"},
        {"data.train.mean=[0]", "unknown key 'mean' (known: kind, files, part, order)"},
        {"data.train.kind=byte", "unknown kind 'byte' (did you mean 'bytes'?)"},
        {"data.train.files=[]", "'files' must have at least 1 item, not 0"},
        {"data.train.files=['']", "a file name is empty"},
        {"data.train.part=[0.5]", "'part' must have exactly 2 items, not 1"},
        {"data.train.part=[0.5, 0.5]", "'part.1' must be a number in (0.5, 1], not '0.5'"},
        {"data.train.part=[0.5, 1.5]", "'part.1' must be a number in (0.5, 1], not '1.5'"},
        {"space.input.vocab=255", "r.yaml:11:17: bytes need a vocabulary of at least 256, not 255"},
        {"shared={policy: frozne}", "unknown policy 'frozne' (did you mean 'frozen'?)"},
        {"shared={steps: 0}", "'steps' must be a whole number from 1 to 1024, not '0'"},
        {"shared={policy: frozen, steps: 1}", "unknown key 'steps' (known: policy)"},
        {"sampler={kind: far}", "unknown kind 'far' (did you mean 'fair'?)"},
        {"sampler={members: 0}", "'members' must be a whole number from 1 to 1024, not '0'"},
        {"sampler={kind: fair, members: 3}",
         "fair needs a multiple of the 2 candidates of block 0, not 3 members"},
        {"sampler={kind: sandwich, members: 1}",
         "sandwich needs 2 members or more: the largest subnet, the smallest, and what is drawn"},
        {"train.loss={distill: 1.5}", "'distill' must be a number in [0, 1], not '1.5'"},
        {"train.loss={distill: -0.5}", "'distill' must be a number in [0, 1], not '-0.5'"},
        {"train.loss={distill: 0.5}", "'distill' is of steps whose members have the same batch: "
                                      "'members' and 'batch' of 'sampler'"},
        {"sampler={batch: mine}", "unknown batch 'mine' (known: own, same)"},
        {"sampler={spread: 64}", "unknown key 'spread' (known: kind, members, batch)"},
        {"sampler={kind: spread, spread: 0}",
         "'spread' must be a whole number from 1 to 1024, not '0'"},
        {"train.steps=0", "'steps' must be a whole number from 1 to 2^63-1, not '0'"},
        {"train.stpes=4", "unknown key 'stpes' (did you mean 'steps'?)"},
        {"train.batch=0", "'batch' must be a whole number from 1 to 1048576, not '0'"},
        {"train.grain=3", "'grain' must divide the batch of 16, not 3"},
        {"train.grain=17", "'grain' must be a whole number from 1 to 16, not '17'"},
        {"train.optimizer={kind: adam}", "unknown kind 'adam' (did you mean 'adamw'?)"},
        {"train.optimizer={lr: 0}", "'lr' must be a number in [1e-30, 1e+30], not '0'"},
        {"train.optimizer={lr: nan}", "'lr' must be a number in [1e-30, 1e+30], not 'nan'"},
        {"train.optimizer={beta2: 1}", "'beta2' must be a number in [0, 1), not '1'"},
        {"train.optimizer={momentum: 0.9}",
         "unknown key 'momentum' (known: kind, beta1, beta2, eps, lr, weight_decay)"},
        {"train.optimizer={kind: sgd, momentum: 0, nesterov: true}",
         "'nesterov' needs a momentum above 0"},
        {"train.schedule={warmup: -1}",
         "'warmup' must be a whole number from 0 to 2^63-1, not '-1'"},
        {"train.schedule={kind: cosine, final: 1}", "'final' must be a number in [0, 1), not '1'"},
        {"train.schedule={kind: constant, final: 0.5}",
         "unknown key 'final' (known: kind, warmup)"},
        {"train.schedule={kind: inverse_sqrt, warmup: 0}",
         "'warmup' must be a whole number from 1 to 2^63-1, not '0'"},
        {"train.loss={kind: mse}", "unknown kind 'mse' (known: cross_entropy)"},
        {"train.clip={kind: layer}", "missing key 'limit' in 'clip'"},
        {"train.clip={kind: norm, limit: 1}", "unknown kind 'norm' (known: none, value, layer)"},
        {"train.checkpoint_every=1.5",
         "'checkpoint_every' must be a whole number from 0 to 2^63-1, not '1.5'"},
    };
    suite_write(file_name, minimal);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char expected[512];
        struct np_recipe recipe;
        struct np_error err = {.msg = ""};
        if (strncmp(bad[i].message, "r.yaml", 6) == 0)
            snprintf(expected, sizeof expected, "%s", bad[i].message);
        else
            snprintf(expected, sizeof expected, "--set %s: %s", bad[i].set, bad[i].message);
        ck_assert_msg(np_recipe_read(&recipe, file_name, &bad[i].set, 1, &err) == NP_EINPUT, "%s",
                      bad[i].set);
        ck_assert_str_eq(err.msg, expected);
    }
}
END_TEST

/* Replaces the first `from` in the minimal recipe. */
static void edit(char *out, size_t size, const char *from, const char *to)
{
    const char *at = strstr(minimal, from);
    ck_assert_ptr_nonnull(at);
    snprintf(out, size, "%.*s%s%s", (int)(at - minimal), minimal, to, at + strlen(from));
}

START_TEST(test_bad_places)
{
    const struct {
        const char *from, *to, *message;
    } bad[] = {
        {"naspipe: recipe/1\n", "", "r.yaml:1:1: missing key 'naspipe'"},
        {"recipe/1", "recipe/2", "r.yaml:1:10: this is 'recipe/2', not 'recipe/1'"},
        {"{op: ffn}", "{op: fnn}", "r.yaml:8:16: unknown op 'fnn' (did you mean 'ffn'?)"},
        {"heads: 4", "heads: 5", "r.yaml:9:28: 'heads' must divide the width of 12, not 5"},
        {"heads: 4", "haeds: 4",
         "r.yaml:9:11: missing key 'heads' in 'choices.1' (there is a key 'haeds')"},
        {"256", "100", "r.yaml:11:17: bytes need a vocabulary of at least 256, not 100"},
        {"  width: 12\n", "", "r.yaml:3:3: missing key 'width' in 'space'"},
        {"  steps: 10\n", "  batch: 8\n", "r.yaml:13:3: missing key 'steps' in 'train'"},
        {"  steps: 10\n", "  steps: ten\n",
         "r.yaml:13:10: 'steps' must be a whole number from 1 to 2^63-1, not 'ten'"},
        {"space:\n", "space: &a\n", NULL},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[sizeof minimal + 64];
        struct np_recipe recipe;
        struct np_error err = {.msg = ""};
        edit(text, sizeof text, bad[i].from, bad[i].to);
        suite_write(file_name, text);
        ck_assert_int_eq(np_recipe_read(&recipe, file_name, NULL, 0, &err), NP_EINPUT);
        if (bad[i].message)
            ck_assert_str_eq(err.msg, bad[i].message);
        ck_assert_ptr_null(recipe.blocks);
    }
}
END_TEST

/* 4000 blocks of 2 candidates are allowed, of 600 they are not. */
START_TEST(test_too_many_layers)
{
    enum { CHOICES = 600 };
    static char text[sizeof minimal + 32 * CHOICES], choices[32 * CHOICES];
    struct np_recipe recipe;
    struct np_error err = {.msg = ""};
    const char *repeat = "space.blocks.0.repeat=4000";
    size_t used = 0;
    edit(text, sizeof text, "repeat: 2", "repeat: 4000");
    suite_write(file_name, text);
    ck_assert_int_eq(np_recipe_read(&recipe, file_name, NULL, 0, NULL), NP_OK);
    ck_assert_int_eq(recipe.block_count, 4000);
    np_recipe_clear(&recipe);
    for (int i = 0; i < CHOICES; i++)
        used += (size_t)snprintf(choices + used, sizeof choices - used, "- {op: ffn}\n        ");
    snprintf(choices + used, sizeof choices - used, "- {op: ffn}\n");
    edit(text, sizeof text, "- {op: ffn}\n", choices);
    suite_write(file_name, text);
    ck_assert_int_eq(np_recipe_read(&recipe, file_name, &repeat, 1, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "r.yaml:6:7: more than 1048576 layers");
}
END_TEST

START_TEST(test_bad_files)
{
    struct np_recipe recipe;
    struct np_error err;
    ck_assert_int_eq(np_recipe_read(&recipe, "no/such.yaml", NULL, 0, &err), NP_EIO);
    ck_assert_str_eq(err.msg, "cannot open 'no/such.yaml': No such file or directory");
    ck_assert_int_eq(np_recipe_read(&recipe, "/", NULL, 0, &err), NP_EIO);
}
END_TEST

START_TEST(test_directories)
{
    char cwd[256], path[300];
    struct np_recipe recipe;
    suite_write(file_name, minimal);
    ck_assert_ptr_nonnull(getcwd(cwd, sizeof cwd));
    snprintf(path, sizeof path, "%s/%s", cwd, file_name);
    ck_assert_int_eq(np_recipe_read(&recipe, path, NULL, 0, NULL), NP_OK);
    ck_assert_str_eq(recipe.directory, cwd);
    np_recipe_clear(&recipe);
    ck_assert_int_eq(np_recipe_read(&recipe, "./r.yaml", NULL, 0, NULL), NP_OK);
    ck_assert_str_eq(recipe.directory, ".");
    np_recipe_clear(&recipe);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recipe");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, test_canonical_form);
    tcase_add_test(tests, test_fields);
    tcase_add_test(tests, test_overrides);
    tcase_add_test(tests, test_numerics);
    tcase_add_test(tests, test_init);
    tcase_add_test(tests, test_bad_values);
    tcase_add_test(tests, test_bad_places);
    tcase_add_test(tests, test_too_many_layers);
    tcase_add_test(tests, test_bad_files);
    tcase_add_test(tests, test_directories);
    return suite_run_in(suite, (char[]){"/tmp/np-recipe-XXXXXX"});
}
