/* Evaluations: the forward pass alone, with batch norm's statistics from calibration. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends.h"
#include "base/memory.h"
#include "exec/solo.h"
#include "exec/step.h"
#include "suite.h"
#include "team_run.h"
#include "tiny.h"

enum { SUBNETS = 4 };

static void draw_subnets(const struct tiny *t, uint16_t *choices)
{
    for (uint64_t i = 0; i < SUBNETS; i++)
        np_stream_eval_subnet(&t->shape, t->recipe.seed, i,
                              choices + i * (size_t)t->recipe.block_count);
}

static void evaluate(struct tiny *t, struct np_state *state, struct np_score *scores,
                     enum np_isa isa, int threads, uint64_t batches)
{
    const struct np_plan plan = {.threads = threads};
    struct np_train_config config = {
        .net = &t->net, .data = t->data, .kernels = np_kernels_get(isa), .plan = &plan};
    uint16_t choices[SUBNETS * TINY_BLOCKS];
    const struct np_evaluation evaluation = {t->data, choices, SUBNETS, batches};
    draw_subnets(t, choices);
    tiny_must(tiny_evaluate(scores, &config, state, NULL, &evaluation, &t->err), &t->err);
}

/* Neither threads nor instruction sets change a score. */
START_TEST(scores_are_the_same_everywhere)
{
    struct tiny t;
    struct np_state *state;
    struct np_score scores[SUBNETS], again[SUBNETS];
    if (!tiny_is_tried(_i))
        return;
    tiny_open(&t, (enum tiny_kind)_i, NULL, 0);
    tiny_must(np_state_new(&state, &t.net, &t.err), &t.err);
    evaluate(&t, state, scores, NP_ISA_SCALAR, 1, 2);
    for (int i = 0; i < SUBNETS; i++) {
        ck_assert(scores[i].loss > 0 && scores[i].loss < 10);
        ck_assert(scores[i].accuracy >= 0 && scores[i].accuracy <= 1);
    }
    for (int isa = 0; isa < NP_ISA_COUNT; isa++)
        for (int threads = 1; threads <= 3 && np_kernels_get((enum np_isa)isa); threads++) {
            if (!team_is_tried(threads, isa))
                continue;
            evaluate(&t, state, again, (enum np_isa)isa, threads, 2);
            ck_assert_mem_eq(scores, again, sizeof scores);
        }
    np_state_free(state);
    tiny_close(&t);
}
END_TEST

/* Nor do the stages of an engine, micro-batches, flights in flight or balanced cuts. */
START_TEST(scores_are_the_same_on_stages)
{
    static const struct tiny_shape shapes[] = {{1, 2, 1, 2, 1, NP_ISA_SCALAR, 0, 0, 0, 0, false},
                                               {2, 1, 2, 1, 1, NP_ISA_SCALAR, 0, 1, 0, 0, false},
                                               {3, 2, 2, 1, 2, NP_ISA_SCALAR, 0, -1, 0, 0, false},
                                               {3, 4, 1, 2, 1, NP_ISA_SCALAR, 0, 2, 2, 0, false}};
    struct tiny t;
    struct np_state *state;
    struct np_score scores[SUBNETS], again[SUBNETS];
    uint16_t choices[SUBNETS * TINY_BLOCKS];
    if (!tiny_is_tried(_i))
        return;
    tiny_open(&t, (enum tiny_kind)_i, NULL, 0);
    tiny_must(np_state_new(&state, &t.net, &t.err), &t.err);
    evaluate(&t, state, scores, NP_ISA_SCALAR, 1, 3);
    draw_subnets(&t, choices);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct tiny_shape shape = shapes[i];
        const struct np_evaluation evaluation = {t.data, choices, SUBNETS, 3};
        struct np_engine *engine;
        struct np_plan plan;
        shape.isa = tiny_best_isa();
        if (t.net.whole_batch)
            shape.micro_batches = 1;
        tiny_plan(&t, &plan, &shape);
        struct np_train_config config = {
            .net = &t.net, .data = t.data, .kernels = np_kernels_get(shape.isa), .plan = &plan};
        tiny_must(np_engine_new(&engine, &config, state, &t.err), &t.err);
        tiny_must(tiny_evaluate(again, &config, state, engine, &evaluation, &t.err), &t.err);
        ck_assert_mem_eq(scores, again, sizeof scores);
        np_engine_free(engine);
        np_plan_clear(&plan);
    }
    np_state_free(state);
    tiny_close(&t);
}
END_TEST

/* A head without weights finds all classes equal: the first one counts, a fifth of the images. */
START_TEST(accuracy_of_a_head_that_knows_nothing)
{
    struct tiny t;
    struct np_state *state;
    struct np_score scores[SUBNETS];
    tiny_open(&t, TINY_CELLS, NULL, 0);
    tiny_must(np_state_new(&state, &t.net, &t.err), &t.err);
    uint32_t head = t.net.layers - 1;
    tiny_must(np_state_take(state, head, &t.err), &t.err);
    memset(state->layers[head].slab, 0, np_supernet_kind(&t.net, head)->floats * sizeof(float));
    state->layers[head].made = true;
    evaluate(&t, state, scores, NP_ISA_SCALAR, 1, 15); /* 120 of 60 images: each of them twice */
    for (int i = 0; i < SUBNETS; i++) {
        ck_assert_double_eq(scores[i].accuracy, 0.2);
        ck_assert_double_eq_tol(scores[i].loss, log(5), 1e-6);
    }
    np_state_free(state);
    tiny_close(&t);
}
END_TEST

/* The loss of one subnet on batch `index` of so many, normalised by its own statistics. */
static float loss_of_batch(struct tiny *t, struct np_state *state, const uint16_t *blocks,
                           uint64_t index, uint64_t batches)
{
    const struct np_recipe *recipe = &t->recipe;
    const struct np_plan plan = {.stages = 1, .threads = 1};
    struct np_train_config config = {
        .net = &t->net, .data = t->data, .kernels = np_kernels_get(NP_ISA_SCALAR), .plan = &plan};
    struct np_solo solo;
    struct np_sweep sweep;
    uint16_t choices[TINY_BLOCKS + 2] = {0};
    float grain_loss[64];
    bool finite = true;
    memcpy(choices + 1, blocks, (size_t)recipe->block_count * sizeof *blocks);
    tiny_must(np_solo_init(&solo, &config, true, &t->err), &t->err);
    sweep = np_solo_sweep(&solo, &config, state);
    sweep.choices = choices;
    sweep.grain_loss = grain_loss;
    sweep.evaluated = t->data;
    sweep.index = index;
    sweep.total = batches * (uint64_t)recipe->batch;
    for (int p = 0; p < t->net.positions; p++)
        tiny_must(np_sweep_forward(&sweep, p, &finite, &t->err), &t->err);
    ck_assert(finite);
    np_solo_clear(&solo);
    return np_step_loss(recipe, grain_loss,
                        np_data_eval_targets(t->data, index * (uint64_t)recipe->batch,
                                             (size_t)recipe->batch, sweep.total));
}

/* Where what is filled is masked a score is the mean over what is not: not of batches' means, nor
 * of all that there is. A head without weights finds all tokens equal, the first the likeliest. */
START_TEST(filled_positions_do_not_count)
{
    enum { BATCHES = 3 };
    struct tiny t;
    struct np_state *state;
    struct np_score scores[SUBNETS], one[SUBNETS], sum = {0};
    uint64_t all = 0, most = 0;
    tiny_open(&t, TINY_PAIRS, NULL, 0);
    ck_assert(t.recipe.masked);
    tiny_must(np_state_new(&state, &t.net, &t.err), &t.err);
    uint64_t samples = (uint64_t)t.recipe.batch, total = BATCHES * samples;
    uint16_t choices[TINY_BLOCKS];
    np_stream_eval_subnet(&t.shape, t.recipe.seed, 0, choices);
    evaluate(&t, state, scores, NP_ISA_SCALAR, 1, BATCHES);
    for (uint64_t i = 0; i < BATCHES; i++) {
        uint64_t targets = np_data_eval_targets(t.data, i * samples, samples, total);
        sum.loss += (double)loss_of_batch(&t, state, choices, i, BATCHES) * (double)targets;
        all += targets;
        most = targets > most ? targets : most;
    }
    ck_assert_uint_lt(all, most * BATCHES);
    ck_assert_uint_lt(most, samples * (uint64_t)t.recipe.length);
    ck_assert_double_eq_tol(scores[0].loss, sum.loss / (double)all, 1e-12);

    uint32_t head = t.net.layers - 1;
    tiny_must(np_state_take(state, head, &t.err), &t.err);
    memset(state->layers[head].slab, 0, np_supernet_kind(&t.net, head)->floats * sizeof(float));
    evaluate(&t, state, one, NP_ISA_SCALAR, 1, BATCHES);
    for (int i = 0; i < SUBNETS; i++) { /* it hits the ends, one a sample */
        ck_assert_double_eq(one[i].accuracy, (double)total / (double)all);
        ck_assert_double_eq_tol(one[i].loss, log(256), 1e-5);
    }
    np_state_free(state);
    tiny_close(&t);
}
END_TEST

/* Calibrated on the very batch that is evaluated, fixed statistics are the batch's own. */
START_TEST(calibration_takes_the_batch_statistics)
{
    const char *const sets[] = {"train.calibration=1"};
    struct tiny t;
    struct np_state *state;
    struct np_score scores[SUBNETS], others[SUBNETS];
    uint16_t choices[SUBNETS * TINY_BLOCKS];
    tiny_open(&t, TINY_IMAGES, sets, 1);
    tiny_must(np_state_new(&state, &t.net, &t.err), &t.err);
    evaluate(&t, state, scores, NP_ISA_SCALAR, 1, 1);
    draw_subnets(&t, choices);
    for (int i = 0; i < SUBNETS; i++)
        ck_assert(scores[i].loss ==
                  (double)loss_of_batch(&t, state, choices + i * t.recipe.block_count, 0, 1));
    tiny_close(&t);
    tiny_open(&t, TINY_IMAGES, NULL, 0); /* of three batches */
    evaluate(&t, state, others, NP_ISA_SCALAR, 1, 1);
    for (int i = 0; i < SUBNETS; i++)
        ck_assert(scores[i].loss != others[i].loss);
    np_state_free(state);
    tiny_close(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("evaluate");
    TCase *tests = suite_case(suite, "evaluate");
    tcase_add_unchecked_fixture(tests, tiny_make_files, tiny_remove_files);
    tcase_add_loop_test(tests, scores_are_the_same_everywhere, 0, TINY_KINDS);
    tcase_add_loop_test(tests, scores_are_the_same_on_stages, 0, TINY_KINDS);
    tcase_add_test(tests, accuracy_of_a_head_that_knows_nothing);
    tcase_add_test(tests, filled_positions_do_not_count);
    tcase_add_test(tests, calibration_takes_the_batch_statistics);
    return suite_run(suite);
}
