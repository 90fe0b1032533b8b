#include "tiny.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

/* Every candidate kind, dropout on, trained stem and head. */
static const char recipe_text[] = "naspipe: recipe/1\n"
                                  "seed: 11\n"
                                  "data:\n"
                                  "  train: {kind: bytes, files: [corpus.txt]}\n"
                                  "space:\n"
                                  "  input: {kind: tokens, vocab: 256, length: 12}\n"
                                  "  width: 16\n"
                                  "  blocks:\n"
                                  "    - repeat: 6\n"
                                  "      choices:\n"
                                  "        - {op: mha, heads: 2, dropout: 0.1}\n"
                                  "        - {op: ffn, ratio: 2, act: gelu, dropout: 0.1}\n"
                                  "        - {op: ffn, ratio: 3, act: relu}\n"
                                  "        - {op: glu, dropout: 0.2}\n"
                                  "        - {op: conv1d, kernel: 3, dropout: 0.1}\n"
                                  "        - {op: sepconv1d, kernel: 5, dropout: 0.1}\n"
                                  "        - {op: lightconv, kernel: 4, heads: 4, dropout: 0.1}\n"
                                  "        - {op: identity}\n"
                                  "train:\n"
                                  "  steps: 10\n"
                                  "  batch: 8\n"
                                  "  grain: 2\n"
                                  "  optimizer: {kind: adamw, lr: 1.0e-2}\n"
                                  "  loss: {kind: cross_entropy, label_smoothing: 0.1}\n";

char tiny_directory[] = "/tmp/np-tiny-XXXXXX";
char tiny_recipe[64];

void tiny_must(enum np_status status, const struct np_error *err)
{
    ck_assert_msg(status == NP_OK, "%s", status == NP_OK ? "" : err->msg);
}

void tiny_write(const char *path, const void *bytes, size_t count)
{
    FILE *out = fopen(path, "w");
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(bytes, 1, count, out), count);
    ck_assert_int_eq(fclose(out), 0);
}

void tiny_make_files(void)
{
    char path[64], text[4000];
    ck_assert_ptr_nonnull(mkdtemp(tiny_directory));
    snprintf(tiny_recipe, sizeof tiny_recipe, "%s/recipe.yaml", tiny_directory);
    tiny_write(tiny_recipe, recipe_text, strlen(recipe_text));
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + (i * i / 7 + i) % 26);
    snprintf(path, sizeof path, "%s/corpus.txt", tiny_directory);
    tiny_write(path, text, sizeof text);
}

void tiny_remove_files(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", tiny_directory);
    ck_assert_int_eq(system(command), 0);
}

void tiny_open(struct tiny *t, const char *const *sets, size_t count)
{
    memset(t, 0, sizeof *t);
    tiny_must(np_recipe_read(&t->recipe, tiny_recipe, sets, count, &t->err), &t->err);
    tiny_must(np_supernet_init(&t->net, &t->recipe, &t->err), &t->err);
    tiny_must(np_corpus_open(&t->corpus, &t->recipe, &t->recipe.train_data, &t->err), &t->err);
    tiny_must(np_alloc(&t->candidates, (size_t)t->recipe.block_count, sizeof(int), &t->err),
              &t->err);
    for (int b = 0; b < t->recipe.block_count; b++)
        t->candidates[b] = t->recipe.blocks[b].count;
}

void tiny_close(struct tiny *t)
{
    free(t->candidates);
    np_corpus_close(t->corpus);
    np_supernet_clear(&t->net);
    np_recipe_clear(&t->recipe);
}

void tiny_plan(struct tiny *t, struct np_plan *plan, const struct tiny_shape *shape)
{
    struct np_partition_request request = {.stages = shape->stages ? shape->stages : 1,
                                           .micro_batches = shape->micro_batches,
                                           .window = shape->window,
                                           .unit = shape->unit,
                                           .threads = shape->threads,
                                           .model = true,
                                           .kernels = np_kernels_get(shape->isa),
                                           .processors = 2};
    tiny_must(np_partition(plan, &t->net, &request, &t->err), &t->err);
}

struct np_stream *tiny_stream(struct tiny *t, uint64_t first)
{
    struct np_stream_shape space = {t->recipe.block_count, t->recipe.members, t->candidates};
    struct np_stream *stream;
    tiny_must(np_stream_draw(&stream, &space, t->recipe.sampler, t->recipe.spread, t->recipe.seed,
                             first, &t->err),
              &t->err);
    return stream;
}
