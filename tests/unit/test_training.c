/* Training the tiny supernets for some steps: the sequential reference, in float, against the
 * independent one in double. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "exec/train.h"
#include "reference.h"
#include "suite.h"
#include "tiny.h"

enum { STEPS = 20, ENDS = 4 };

/* What changes how a step's gradients become weights. Seeds are of runs that come near no kink of a
 * relu, where rounding decides. */
static const struct {
    enum tiny_kind kind;
    const char *sets[5];
} cases[] = {
    {TINY_TEXT, {"sampler={members: 2}"}},
    {TINY_TEXT,
     {"sampler={members: 2}", "train.optimizer={kind: sgd, lr: 0.1}",
      "train.clip={kind: value, limit: 0.05}"}},
    {TINY_TEXT, {"shared={policy: delay, steps: 4}", "train.optimizer.lr=0.003"}},
    {TINY_TEXT, {"shared={policy: frozen}", "train.clip={kind: layer, limit: 0.1}"}},
    {TINY_IMAGES, {"sampler={members: 2}"}},
    {TINY_NORMS, {"sampler={members: 2}"}},
    {TINY_CELLS, {"sampler={members: 2}", "train.optimizer.lr=0.01"}},
    {TINY_PAIRS, {"sampler={members: 2}"}},
    {TINY_PAIRS, {"shared={policy: delay, steps: 2}"}},
    {TINY_ENTANGLED, {NULL}},
    {TINY_ENTANGLED, {"sampler={kind: sandwich, members: 3}", "seed=61"}},
    {TINY_PAIRS, {"sampler={members: 2, batch: same}"}},
    {TINY_PAIRS,
     {"sampler={kind: sandwich, members: 3}", "train.loss={distill: 0.6, label_smoothing: 0.1}"}},
    {TINY_PAIRS, {"space.input.padding=seen"}},
    {TINY_TEXT,
     {"sampler={kind: sandwich, members: 3}", "train.loss={distill: 0.7, label_smoothing: 0.1}"}},
    {TINY_IMAGES, {"sampler={members: 2, batch: same}", "train.loss={distill: 1}"}},
    {TINY_SLICES, {NULL}},
    {TINY_WIDTHS, {NULL}},
    {TINY_NARROW, {NULL}},
    {TINY_SIZES, {NULL}},
    {TINY_ROTARY, {"sampler={members: 2}"}},
    {TINY_RMS, {NULL}},
};

/* Both trainings, side by side. */
struct both {
    struct tiny t;
    struct reference_net ref;
    struct np_stream *stream; /* the same as the trainer's */
    struct np_batch *batches; /* [members] */
    uint16_t *choices;
    double *want;
    double first, last; /* mean losses of the first and of the last few steps */
    double chain;
};

/* The bound. A step's loss, and each gradient, is reached through a chain of at most n roundings:
 * positions of some 10 widths of inner sums. Each errs by eps of a value of order 1, as often up as
 * down, so a loss errs by sqrt(n) eps. An update moves a weight by lr along a gradient that errs as
 * much, and lr times the gradients is what the loss falls in a step, below 1; so the steps so far
 * err by (steps + 1) sqrt(n) eps at most, even if all of them err the same way. */
static double bound(const struct both *b, uint64_t step)
{
    return (double)(step + 1) * b->chain * 0x1p-24;
}

static enum np_status on_step(void *context, const struct np_step_record *record,
                              struct np_error *err)
{
    struct both *b = context;
    const struct np_recipe *recipe = &b->t.recipe;
    struct reference_batch batches[TINY_MEMBERS];
    bool more;
    (void)err;
    tiny_must(np_stream_next(b->stream, b->choices, &more, &b->t.err), &b->t.err);
    for (int i = 0; i < recipe->members; i++) {
        const struct np_batch *batch = &b->batches[i];
        np_data_batch(b->t.data, batch, recipe->seed, record->step,
                      recipe->same_batch ? 0 : (uint32_t)i, 0, (size_t)recipe->batch);
        batches[i] =
            (struct reference_batch){batch->images,  batch->tokens,         batch->source,
                                     batch->targets, batch->source_lengths, batch->target_lengths};
    }
    reference_net_step(&b->ref, b->choices, batches, b->want);
    for (int i = 0; i < recipe->members; i++) {
        if (record->step < ENDS)
            b->first += b->want[i] / (ENDS * recipe->members);
        if (record->step >= STEPS - ENDS)
            b->last += b->want[i] / (ENDS * recipe->members);
        double error = fabs((double)record->losses[i] - b->want[i]);
        ck_assert_msg(error <= bound(b, record->step),
                      "step %d, member %d: %.9g, not %.9g (%.1f bounds)", (int)record->step, i,
                      (double)record->losses[i], b->want[i], error / bound(b, record->step));
    }
    return NP_OK;
}

static void both_init(struct both *b, enum tiny_kind kind, const char *const *sets, size_t count)
{
    *b = (struct both){.first = 0};
    tiny_open(&b->t, kind, sets, count);
    const struct np_recipe *recipe = &b->t.recipe;
    size_t members = (size_t)recipe->members, samples = (size_t)recipe->batch;
    reference_net_init(&b->ref, &b->t.net);
    b->stream = tiny_stream(&b->t, 0);
    b->chain = sqrt((double)b->t.net.positions * 10.0 * recipe->width);
    b->batches = calloc(members, sizeof *b->batches);
    b->choices = calloc(members * (size_t)recipe->block_count, sizeof *b->choices);
    b->want = calloc(members, sizeof *b->want);
    ck_assert(b->batches && b->choices && b->want);
    for (size_t i = 0; i < members; i++) {
        float *slab;
        size_t words = np_batch_lay(&b->batches[i], recipe, samples, ~0u, NULL);
        tiny_must(np_alloc(&slab, words, sizeof *slab, &b->t.err), &b->t.err);
        np_batch_lay(&b->batches[i], recipe, samples, ~0u, slab);
    }
}

static void both_clear(struct both *b)
{
    for (int i = 0; i < b->t.recipe.members; i++) /* the first array is the slab's beginning */
        free(b->batches[i].images ? (void *)b->batches[i].images : b->batches[i].tokens);
    free(b->batches);
    free(b->choices);
    free(b->want);
    np_stream_close(b->stream);
    reference_net_clear(&b->ref);
    tiny_close(&b->t);
}

START_TEST(losses_follow_the_double_reference)
{
    const struct tiny_shape shape = {0, 1, 1, 1, 1, NP_ISA_SCALAR, 0, 0, 0, 0, false};
    const char *sets[6] = {"train.steps=20"};
    size_t count = 1;
    struct both b;
    struct np_plan plan;
    struct np_state *state;
    uint64_t next;
    for (; cases[_i].sets[count - 1]; count++)
        sets[count] = cases[_i].sets[count - 1];
    both_init(&b, cases[_i].kind, sets, count);
    tiny_plan(&b.t, &plan, &shape);
    struct np_stream *stream = tiny_stream(&b.t, 0);
    struct np_train_config config = {.net = &b.t.net,
                                     .data = b.t.data,
                                     .kernels = np_kernels_best(),
                                     .plan = &plan,
                                     .hooks = {.context = &b, .step = on_step}};
    tiny_must(np_state_new(&state, &b.t.net, &b.t.err), &b.t.err);
    tiny_must(np_train_sequential(&config, state, stream, 0, STEPS, &next, &b.t.err), &b.t.err);
    ck_assert_uint_eq(next, STEPS);
    /* The updates moved the losses far more than the bound: the comparison means something. */
    ck_assert_double_gt(fabs(b.last - b.first), 50 * bound(&b, STEPS - 1));
    np_state_free(state);
    np_stream_close(stream);
    np_plan_clear(&plan);
    both_clear(&b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("training");
    TCase *tests = suite_case(suite, "training");
    tcase_add_unchecked_fixture(tests, tiny_make_files, tiny_remove_files);
    tcase_add_loop_test(tests, losses_follow_the_double_reference, 0,
                        (int)(sizeof cases / sizeof *cases));
    return suite_run(suite);
}
