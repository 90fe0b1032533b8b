/* Forward passes without training: what drops does not, batch norm's statistics, hits, sizes. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "layer_cases.h"
#include "ops/op.h"
#include "reference.h"
#include "space/kinds.h"
#include "suite.h"
#include "team_run.h"

enum { SAMPLES = 4, X = 40, MEMORY, SUM, IMAGES };

struct layer {
    struct np_kind kind;
    struct np_op_call call;
    struct np_op_forward io;
    size_t outputs;
    float *w, *x, *memory, *sum, *images, *y, *stats;
    int32_t *tokens, *targets, *lengths, *hits;
};

static size_t size_of(struct np_shape shape)
{
    return SAMPLES * np_shape_floats(shape);
}

static void draw_all(struct layer *l)
{
    const struct np_kind *kind = &l->kind;
    l->w = case_weights(kind);
    l->x = case_drawn(size_of(kind->in), X);
    l->memory = case_drawn(size_of(kind->memory), MEMORY);
    l->sum = case_drawn(size_of(kind->out), SUM);
    l->images = case_drawn(size_of(kind->image), IMAGES);
    l->tokens = calloc(l->outputs, sizeof *l->tokens);
    l->targets = case_targets(l->outputs);
    l->lengths = case_lengths(kind, SAMPLES);
    l->hits = calloc(l->outputs, sizeof *l->hits);
    for (size_t i = 0; i < l->outputs; i++)
        l->tokens[i] = (int32_t)(i * 5 % CASE_VOCAB);
}

static void layer_init(struct layer *l, int index)
{
    struct np_op_sizes sizes;
    memset(l, 0, sizeof *l);
    layer_case_init(&l->kind, index);
    sizes = np_op_sizes(&l->kind, SAMPLES);
    l->outputs = size_of(l->kind.out);
    draw_all(l);
    l->y = case_floats(l->outputs);
    l->stats = calloc(l->kind.norm_floats + 1, sizeof *l->stats);
    l->io = (struct np_op_forward){l->x, l->memory, l->kind.summed ? l->sum : NULL, l->y};
    l->call = (struct np_op_call){.kernels = np_kernels_best(),
                                  .kind = &l->kind,
                                  .w = l->w,
                                  .samples = SAMPLES,
                                  .grain = 1,
                                  .norm_stats = l->stats,
                                  .images = l->images,
                                  .tokens = l->tokens,
                                  .source = l->tokens,
                                  .targets = l->targets,
                                  .lengths = l->lengths,
                                  .loss = l->y,
                                  .saved = case_floats(sizes.saved),
                                  .work = case_floats(sizes.work)};
}

static void layer_clear(struct layer *l)
{
    float *all[] = {l->w, l->x,     l->memory,     l->sum,      l->images,
                    l->y, l->stats, l->call.saved, l->call.work};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(l->tokens);
    free(l->targets);
    free(l->lengths);
    free(l->hits);
    np_kind_clear(&l->kind);
}

static void forward(struct np_team *team, void *context)
{
    const struct layer *l = context;
    struct np_op_call call = l->call;
    call.team = team;
    ck_assert(np_op_forward(&call, &l->io));
}

static void run(struct layer *l, int threads)
{
    team_run(threads, np_kernels_scratch_bytes(64, 64), forward, l);
}

/* The whole mini-batch one sample after the other. */
static void run_in_pieces(struct layer *l)
{
    struct layer piece = *l;
    const struct np_kind *kind = &l->kind;
    piece.call.samples = 1;
    for (size_t i = 0; i < SAMPLES; i++) {
        piece.call.first = i;
        piece.call.images = l->images + i * np_shape_floats(kind->image);
        piece.call.tokens = piece.call.source = l->tokens + i * np_shape_rows(kind->out);
        piece.call.targets = l->targets + i * kind->length;
        piece.call.lengths = l->lengths + i;
        piece.call.loss = l->y + i * kind->length;
        piece.io.x = l->x + i * np_shape_floats(kind->in);
        piece.io.memory = l->memory + i * np_shape_floats(kind->memory);
        piece.io.sum = l->io.sum ? l->sum + i * np_shape_floats(kind->out) : NULL;
        piece.io.y = l->y + i * np_shape_floats(kind->out);
        run(&piece, 1);
    }
}

/* Nothing drops, whatever the seed; and the values are the reference's without training, which
 * tests/unit/test_ops.c bounds when there is training: 8 n eps, n below 2000 for all of these. */
START_TEST(evaluation_drops_nothing)
{
    struct layer l;
    struct reference_call call = {.samples = SAMPLES};
    struct reference_inputs in;
    double *w, *x[3], *want, largest = 1.0;
    layer_init(&l, _i);
    call.source_lengths = call.target_lengths = l.lengths;
    run(&l, 2);
    w = reference_zeros(l.kind.floats);
    want = reference_zeros(l.outputs);
    x[0] = reference_zeros(size_of(l.kind.in));
    x[1] = reference_zeros(size_of(l.kind.memory));
    x[2] = reference_zeros(l.outputs);
    for (size_t i = 0; i < l.kind.floats; i++)
        w[i] = (double)l.w[i];
    for (size_t i = 0; i < size_of(l.kind.in); i++)
        x[0][i] = (double)l.x[i];
    for (size_t i = 0; i < size_of(l.kind.memory); i++)
        x[1][i] = (double)l.memory[i];
    for (size_t i = 0; i < l.outputs; i++)
        x[2][i] = (double)l.sum[i];
    call.kind = &l.kind;
    call.w = w;
    call.images = l.images;
    call.tokens = call.source = l.tokens;
    call.targets = l.targets;
    in = (struct reference_inputs){x[0], x[1], l.io.sum ? x[2] : NULL};
    reference_forward(&call, want, &in);
    for (size_t i = 0; i < l.outputs; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < l.outputs; i++)
        ck_assert(fabs((double)l.y[i] - want[i]) <= 16000.0 * 0x1p-24 * largest);
    for (int k = 0; k < 3; k++)
        free(x[k]);
    free(w);
    free(want);
    layer_clear(&l);
}
END_TEST

/* A batch's own statistics, then the same ones given; then nothing of the batch shows. */
START_TEST(batch_norm_takes_its_statistics_from_where_it_is_told)
{
    struct layer l;
    float *own, *once;
    layer_init(&l, _i);
    own = case_floats(l.outputs);
    once = case_floats(l.kind.norm_floats);
    run(&l, 1);
    memcpy(own, l.y, l.outputs * sizeof *own);
    l.call.norm = NP_NORM_SUM;
    run(&l, 3);
    ck_assert_mem_eq(l.y, own, l.outputs * sizeof *own);
    memcpy(once, l.stats, l.kind.norm_floats * sizeof *once);
    run(&l, 2);
    for (size_t i = 0; i < l.kind.norm_floats; i++)
        ck_assert(l.stats[i] == 2.0f * once[i]);
    memcpy(l.stats, once, l.kind.norm_floats * sizeof *once);
    l.call.norm = NP_NORM_FIXED;
    memset(l.y, 0xff, l.outputs * sizeof *l.y);
    run(&l, 2);
    ck_assert_mem_eq(l.y, own, l.outputs * sizeof *own);
    ck_assert_mem_eq(l.stats, once, l.kind.norm_floats * sizeof *once);
    memset(l.y, 0xff, l.outputs * sizeof *l.y);
    run_in_pieces(&l);
    ck_assert_mem_eq(l.y, own, l.outputs * sizeof *own);
    free(own);
    free(once);
    layer_clear(&l);
}
END_TEST

/* A row is a hit if no other class has a smaller loss; of equal ones the first counts. */
START_TEST(hits_are_rows_whose_target_is_likeliest)
{
    struct layer l;
    size_t rows, wrong = 0, hits = 0;
    layer_init(&l, _i);
    rows = SAMPLES * l.kind.length;
    if (l.kind.program.output < 0) {
        float *loss = case_floats(rows * CASE_VOCAB);
        for (int32_t v = 0; v < CASE_VOCAB; v++) {
            for (size_t r = 0; r < rows; r++)
                l.targets[r] = v;
            run(&l, 1);
            memcpy(loss + (size_t)v * rows, l.y, rows * sizeof *loss);
        }
        for (size_t r = 0; r < rows; r++)
            l.targets[r] = (int32_t)(r % CASE_VOCAB);
        l.call.hits = l.hits;
        run(&l, 3);
        for (size_t r = 0; r < rows; r++) {
            bool best = true;
            for (size_t v = 0; v < CASE_VOCAB; v++)
                best = best && loss[v * rows + r] >= loss[r % CASE_VOCAB * rows + r];
            wrong += best != (l.hits[r] == 1);
            hits += l.hits[r] == 1;
        }
        ck_assert_uint_eq(wrong, 0);
        ck_assert(rows < 30 || (hits > 0 && hits < rows));
        memset(l.w, 0, l.kind.floats * sizeof *l.w);
        run(&l, 2);
        for (size_t r = 0; r < rows; r++)
            ck_assert_int_eq(l.hits[r], l.targets[r] == 0);
        free(loss);
    }
    layer_clear(&l);
}
END_TEST

/* Values and gradients grow with the samples; parts that do not, and lines begun, are no more than
 * what one sample takes. */
START_TEST(sizes_grow_with_samples)
{
    struct layer l;
    layer_init(&l, _i);
    for (size_t n = 1; n < 40; n += 13) {
        struct np_op_sizes one = np_op_sizes(&l.kind, n), two = np_op_sizes(&l.kind, 2 * n);
        ck_assert_uint_ge(two.saved, one.saved);
        ck_assert_uint_le(two.saved, 2 * one.saved);
        ck_assert_uint_le(two.delta, 2 * one.delta);
        ck_assert_uint_le(two.work, 2 * one.work);
        ck_assert_uint_eq(one.saved % 16 + one.delta % 16 + one.work % 16, 0);
    }
    layer_clear(&l);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops_forward");
    TCase *tests = suite_case(suite, "ops_forward");
    tcase_add_loop_test(tests, evaluation_drops_nothing, 0, layer_cases);
    tcase_add_loop_test(tests, batch_norm_takes_its_statistics_from_where_it_is_told, 0,
                        layer_cases);
    tcase_add_loop_test(tests, hits_are_rows_whose_target_is_likeliest, 0, layer_cases);
    tcase_add_loop_test(tests, sizes_grow_with_samples, 0, layer_cases);
    return suite_run(suite);
}
