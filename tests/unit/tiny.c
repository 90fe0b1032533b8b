#include "tiny.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "suite.h"
#include "team_run.h"

#define TEMPLATE "/tmp/np-tiny-XXXXXX"

char tiny_directory[] = TEMPLATE;

static const char *const recipes[TINY_KINDS] = {[TINY_TEXT] = "text.yaml",
                                                [TINY_IMAGES] = "images.yaml",
                                                [TINY_NORMS] = "norms.yaml",
                                                [TINY_CELLS] = "cells.yaml",
                                                [TINY_PAIRS] = "pairs.yaml",
                                                [TINY_LONG] = "long.yaml",
                                                [TINY_TRANSLATE] = "translate.yaml",
                                                [TINY_STAGES] = "stages.yaml",
                                                [TINY_ACTS] = "acts.yaml",
                                                [TINY_BETWEEN] = "between.yaml",
                                                [TINY_GRAPH] = "graph.yaml",
                                                [TINY_JOINS] = "joins.yaml",
                                                [TINY_ENTANGLED] = "entangled.yaml",
                                                [TINY_SLICES] = "slices.yaml",
                                                [TINY_WIDTHS] = "widths.yaml",
                                                [TINY_NARROW] = "narrow.yaml",
                                                [TINY_SIZES] = "sizes.yaml",
                                                [TINY_ROTARY] = "rotary.yaml",
                                                [TINY_RMS] = "rms.yaml"};

enum np_status tiny_on_step(void *context, const struct np_step_record *record,
                            struct np_error *err)
{
    struct tiny_outcome *o = context;
    (void)err;
    ck_assert_uint_eq(record->step, o->steps);
    ck_assert_uint_lt(o->steps, TINY_STEPS);
    o->fingerprints[o->steps] = record->fingerprint;
    memcpy(o->losses[o->steps], record->losses, (size_t)record->members * sizeof(float));
    o->steps++;
    return NP_OK;
}

void tiny_must(enum np_status status, const struct np_error *err)
{
    ck_assert_msg(status == NP_OK, "%s", status == NP_OK ? "" : err->msg);
}

enum np_status tiny_evaluate(struct np_score *scores, const struct np_train_config *config,
                             struct np_state *state, const struct np_engine *engine,
                             const struct np_evaluation *evaluation, struct np_error *err)
{
    struct np_evaluator *evaluator;
    enum np_status status = np_evaluator_new(&evaluator, config, state, engine, err);
    if (status != NP_OK)
        return status;
    status = np_evaluate(scores, evaluator, evaluation, err);
    np_evaluator_free(evaluator);
    return status;
}

static const char *path_of(const char *name)
{
    static char path[96];
    snprintf(path, sizeof path, "%s/%s", tiny_directory, name);
    return path;
}

/* Images in which the class is to be seen: a bright row, in noise. */
static void make_images(void)
{
    enum { COUNT = 60, HEIGHT = 9, WIDTH = 6, CLASSES = 5 };
    unsigned char images[16 + COUNT * HEIGHT * WIDTH] = {0, 0, 8, 3,      0, 0, 0, COUNT,
                                                         0, 0, 0, HEIGHT, 0, 0, 0, WIDTH};
    unsigned char labels[8 + COUNT] = {0, 0, 8, 1, 0, 0, 0, COUNT};
    for (int i = 0; i < COUNT; i++) {
        labels[8 + i] = (unsigned char)(i * 3 % CLASSES);
        for (int p = 0; p < HEIGHT * WIDTH; p++)
            images[16 + i * HEIGHT * WIDTH + p] =
                (unsigned char)((i * 31 + p * p * 7) % 120 +
                                (p / WIDTH == 2 + labels[8 + i] ? 120 : 0));
    }
    suite_write_bytes(path_of("images.idx"), images, sizeof images);
    suite_write_bytes(path_of("labels.idx"), labels, sizeof labels);
}

/* Targets are their sources backwards. */
static void make_pairs(void)
{
    char text[2000];
    size_t used = 0;
    for (int i = 0; i < 60; i++) {
        int length = 3 + i % 6;
        for (int c = 0; c < length; c++)
            text[used++] = (char)('a' + (i * 5 + c * c) % 26);
        text[used++] = '\t';
        for (int c = length - 1; c >= 0; c--)
            text[used++] = (char)('a' + (i * 5 + c * c) % 26);
        text[used++] = '\n';
    }
    suite_write_bytes(path_of("pairs.tsv"), text, used);
}

void tiny_make_files(void)
{
    char text[4000], command[96];
    memcpy(tiny_directory, TEMPLATE, sizeof TEMPLATE); /* every test case makes its own */
    ck_assert_ptr_nonnull(mkdtemp(tiny_directory));
    snprintf(command, sizeof command, "cp tests/recipes/*.yaml '%s'", tiny_directory);
    ck_assert_msg(system(command) == 0, "not run in the root of the tree");
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + (i * i / 7 + i) % 26);
    suite_write_bytes(path_of("corpus.txt"), text, sizeof text);
    make_images();
    make_pairs();
}

void tiny_remove_files(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", tiny_directory);
    ck_assert_int_eq(system(command), 0);
}

void tiny_open(struct tiny *t, enum tiny_kind kind, const char *const *sets, size_t count)
{
    memset(t, 0, sizeof *t);
    tiny_must(np_recipe_read(&t->recipe, path_of(recipes[kind]), sets, count, &t->err), &t->err);
    ck_assert_int_le(t->recipe.block_count, TINY_BLOCKS);
    tiny_must(np_supernet_init(&t->net, &t->recipe, &t->err), &t->err);
    tiny_must(np_data_open(&t->data, &t->recipe, &t->recipe.train_data, NULL, &t->err), &t->err);
    tiny_must(np_stream_shape_init(&t->shape, &t->each, &t->recipe, &t->err), &t->err);
}

void tiny_close(struct tiny *t)
{
    free(t->each);
    np_data_close(t->data);
    np_supernet_clear(&t->net);
    np_recipe_clear(&t->recipe);
}

bool tiny_is_tried(int kind)
{
    return !tests_watch_threads() || kind % 4 == 0;
}

bool tiny_varies(int variant)
{
    return !tests_watch_threads() || variant % 2 == 1;
}

/* Balanced cuts of an even home, with a head that costs nothing: next to these blocks' costs it
 * would be what no cut can mend, and all of them home. */
static void balance(struct tiny *t, struct np_plan *plan, int reach)
{
    plan->reach = reach;
    plan->kind_cost[t->net.layer_kind[t->net.layers - 1]] = (struct np_layer_cost){0, 0, 0};
    for (int k = 0; k < plan->stages; k++)
        plan->stage_first[k] = t->net.positions * k / plan->stages;
}

enum np_isa tiny_best_isa(void)
{
    int isa = NP_ISA_COUNT - 1;
    while (!np_kernels_get((enum np_isa)isa))
        isa--;
    return (enum np_isa)isa;
}

const struct np_kernels *tiny_kernels(enum np_isa isa)
{
    const struct np_kernels *kernels = np_kernels_get(isa);
    return kernels ? kernels : np_kernels_get(tiny_best_isa());
}

bool tiny_may_share(const struct tiny *t, const struct tiny_shape *shape)
{
    int replicas = shape->replicas ? shape->replicas : 1;
    return np_sched_may_share(replicas, t->recipe.members, shape->micro_batches) &&
           (t->recipe.distill <= 0 || shape->micro_batches % replicas == 0);
}

void tiny_plan(struct tiny *t, struct np_plan *plan, const struct tiny_shape *shape)
{
    struct np_partition_request request = {.replicas = shape->replicas ? shape->replicas : 1,
                                           .stages = shape->stages ? shape->stages : 1,
                                           .micro_batches = shape->micro_batches,
                                           .window = shape->window,
                                           .unit = shape->unit,
                                           .threads = shape->threads,
                                           .cut = NP_CUT_STATIC,
                                           .recompute = shape->recompute ? NP_RECOMPUTE_ALWAYS
                                                                         : NP_RECOMPUTE_NEVER,
                                           .model = true,
                                           .kernels = np_kernels_get(shape->isa),
                                           .processors = 2};
    struct np_alternatives tried;
    tiny_must(np_partition(plan, &tried, &t->net, &request, &t->err), &t->err);
    np_alternatives_clear(&tried);
    for (int k = 0; shape->in_flight && k < plan->stages; k++)
        plan->in_flight[k] = shape->in_flight > 0 ? shape->in_flight : 0;
    if (shape->reach)
        balance(t, plan, shape->reach);
}

struct np_stream *tiny_stream(struct tiny *t, uint64_t first)
{
    struct np_stream *stream;
    tiny_must(np_stream_draw(&stream, &t->shape, t->recipe.sampler, t->recipe.spread,
                             t->recipe.seed, first, &t->err),
              &t->err);
    return stream;
}
