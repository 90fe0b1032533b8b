/* Layers that come and go change no bit: budgets from the least to all, both stashes, every policy,
 * late copies, and a run carried on under another budget. NP_TEST_FULL=1 tries all of it. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "exec/copies.h"
#include "exec/residence.h"
#include "exec/state_stream.h"
#include "exec/train.h"
#include "plan/stage_memory.h"
#include "plan/steps.h"
#include "sched/sim.h"
#include "sleep_calls.h"
#include "suite.h"
#include "team_run.h"
#include "tiny.h"

/* One way to train with a budget: `of` tenths between the least and what holds everything. */
struct way {
    struct tiny_shape shape;
    int tenths;
    enum np_context_policy policy;
    int lookahead;
    bool in_file;
};

enum {
    EVALUATED = 3, /* subnets */
    PIECE = 333    /* floats of a layer at a time */
};

struct run {
    struct tiny *t;
    struct np_plan plan;
    struct np_state *state;
    struct np_engine *engine;
    struct tiny_outcome outcome;
    _Alignas(NP_STASH_ALIGN) float window[NP_STASH_ALIGN / sizeof(float)];
};

static uint64_t slabs(const struct np_supernet *net, const struct np_state *state)
{
    uint64_t bytes = 0;
    for (uint32_t l = 0; l < net->layers; l++)
        bytes += np_arena_bytes(np_state_slab_bytes(state, l));
    return bytes;
}

static struct np_train_config config_of(struct run *r, const struct way *way, const char *file)
{
    return (struct np_train_config){.net = &r->t->net,
                                    .data = r->t->data,
                                    .kernels = tiny_kernels(way->shape.isa),
                                    .plan = &r->plan,
                                    .policy = way->policy,
                                    .stash = way->in_file ? file : NULL,
                                    .delay_seed = way->shape.delay_seed,
                                    .hooks = {.context = &r->outcome, .step = tiny_on_step}};
}

static void run_open(struct run *r, struct tiny *t, const struct way *way)
{
    struct np_train_config config;
    char file[256];
    *r = (struct run){.t = t};
    snprintf(file, sizeof file, "%s/stash", tiny_directory);
    tiny_plan(t, &r->plan, &way->shape);
    tiny_must(np_state_new(&r->state, &t->net, &t->err), &t->err);
    r->plan.lookahead = way->lookahead;
    tiny_must(np_memory_least(&r->plan.device_bytes, &r->plan, &t->net, &t->err), &t->err);
    r->plan.device_bytes += slabs(&t->net, r->state) * (uint64_t)way->tenths / 10;
    config = config_of(r, way, file);
    tiny_must(np_engine_new(&r->engine, &config, r->state, &t->err), &t->err);
}

static void run_close(struct run *r)
{
    np_engine_free(r->engine);
    np_state_free(r->state);
    np_plan_clear(&r->plan);
}

static void train(struct run *r, uint64_t end)
{
    struct np_stream *stream = tiny_stream(r->t, r->outcome.steps);
    struct np_error *err = &r->t->err;
    uint64_t next;
    tiny_must(np_engine_train(r->engine, stream, r->outcome.steps, end, &next, err), err);
    ck_assert_uint_eq(next, end);
    np_stream_close(stream);
}

static struct np_state_stream stream_of(struct run *r, uint32_t layer)
{
    return np_state_stream(r->state, layer, r->window, sizeof r->window);
}

/* The other run's layers into a fresh one, as a checkpoint would. */
static void carry_over(struct run *to, struct run *from)
{
    struct np_error *err = &to->t->err;
    for (uint32_t l = 0; l < to->t->net.layers; l++) {
        uint64_t updates = from->state->layers[l].updates;
        size_t rest = np_state_stream_floats(to->state, l), n;
        struct np_state_stream out = stream_of(from, l), in = stream_of(to, l);
        for (; updates && rest; rest -= n) {
            float piece[PIECE];
            n = rest < PIECE ? rest : PIECE;
            ck_assert_uint_eq(to->state->layers[l].updates, 0);
            tiny_must(np_state_read(&out, piece, n, err), err);
            tiny_must(np_state_write(&in, piece, n, updates, err), err);
        }
        ck_assert_uint_eq(to->state->layers[l].updates, updates);
    }
    to->outcome = from->outcome;
}

/* The reference: no budget, nothing is moved. */
static void reference_run(struct tiny *t, struct run *r)
{
    const struct tiny_shape shape = {1, 1, 1, 1, 1, tiny_best_isa(), 0, 0, 0, 0, false};
    struct np_train_config config;
    struct way way = {.shape = shape};
    *r = (struct run){.t = t};
    tiny_plan(t, &r->plan, &shape);
    tiny_must(np_state_new(&r->state, &t->net, &t->err), &t->err);
    config = config_of(r, &way, NULL);
    tiny_must(np_engine_new(&r->engine, &config, r->state, &t->err), &t->err);
    train(r, TINY_STEPS);
}

static void assert_same(struct run *r, struct run *reference, const struct way *way)
{
    char what[160];
    snprintf(what, sizeof what,
             "%d stages, reach %d, window %d, %d tenths, policy %d, lookahead %d%s",
             way->shape.stages, way->shape.reach, way->shape.window, way->tenths, way->policy,
             way->lookahead, way->in_file ? ", file" : "");
    ck_assert_msg(memcmp(&r->outcome, &reference->outcome, sizeof r->outcome) == 0,
                  "losses or fingerprints differ: %s", what);
    for (uint32_t l = 0; l < r->t->net.layers; l++) {
        const struct np_layer_state *x = &r->state->layers[l], *y = &reference->state->layers[l];
        struct np_state_stream xs = stream_of(r, l), ys = stream_of(reference, l);
        size_t rest = np_state_stream_floats(r->state, l), n;
        ck_assert_msg(x->updates == y->updates, "updates of layer %u: %s", l, what);
        if (!x->updates)
            continue;
        for (; rest; rest -= n) {
            float a[PIECE], b[PIECE];
            n = rest < PIECE ? rest : PIECE;
            tiny_must(np_state_read(&xs, a, n, &r->t->err), &r->t->err);
            tiny_must(np_state_read(&ys, b, n, &r->t->err), &r->t->err);
            ck_assert_msg(memcmp(a, b, n * sizeof *a) == 0, "layer %u differs: %s", l, what);
        }
    }
}

/* The arena held never more than the budget, and the context manager's sums fit the run. */
static void assert_sums(const struct run *r, const struct way *way)
{
    uint64_t visits = 0, out = 0;
    for (int k = 0; k < way->shape.stages; k++) {
        struct np_residence_sums sums;
        ck_assert(np_engine_residence(r->engine, k, &sums));
        ck_assert_uint_le(np_engine_memory(r->engine, k).peak, r->plan.device_bytes);
        visits += sums.context.hits + sums.context.late + sums.context.misses;
        out += sums.context.bytes_out;
    }
    ck_assert_uint_gt(visits, 0);
    ck_assert_msg(way->tenths < 10 || way->shape.reach || out == 0,
                  "everything fits, and something was put out");
    ck_assert_msg(way->tenths > 0 || out > 0, "nothing fits, and nothing was put out");
}

static void one_way(struct tiny *t, struct run *reference, const struct way *way)
{
    struct run r;
    run_open(&r, t, way);
    train(&r, TINY_STEPS);
    assert_same(&r, reference, way);
    assert_sums(&r, way);
    run_close(&r);
}

START_TEST(budgets)
{
    const int stages[] = {1, 2, 3}, tenths[] = {0, 1, 3, 10}, ahead[] = {1, 2, 16};
    struct tiny t;
    struct run reference;
    int count = 0;
    if (!tiny_is_tried(_i))
        return;
    tiny_open(&t, (enum tiny_kind)_i, NULL, 0);
    reference_run(&t, &reference);
    for (int s = 0; s < 3; s++)
        for (int b = 0; b < 4; b++)
            for (int policy = NP_CONTEXT_AHEAD; policy <= NP_CONTEXT_LRU; policy++, count++) {
                int micro = t.net.whole_batch ? 1 : 1 + count % 2;
                struct way way = {{stages[s], micro, 1 + 3 * (count % 2), 1 + b % 2, 1 + s % 2,
                                   NP_ISA_AVX2, count % 3 == 0 ? (uint64_t)count + 1 : 0, 0,
                                   (count + b) % 2 ? 1 + count % 3 : 0, 0, count / 2 % 2 == 0},
                                  tenths[b],
                                  (enum np_context_policy)policy,
                                  ahead[count % 3],
                                  count % 4 == 1};
                /* of four neighbouring kinds a quarter each */
                if (tests_are_full() ? (count / 2 + _i) % 4 == 0 : (count + _i) % TINY_KINDS == 0)
                    one_way(&t, &reference, &way);
            }
    run_close(&reference);
    tiny_close(&t);
}
END_TEST

/* Replicas share layers that stay: the cap holds them all, and what is used of it is known. */
START_TEST(replicas_within_a_cap)
{
    const struct way way = {
        {2, 4, 4, 1, 1, tiny_best_isa(), 0, 0, 0, 2, true}, 0, NP_CONTEXT_AHEAD, 4, false};
    struct tiny t;
    struct run reference, r;
    struct np_stage_memory memory[2];
    struct np_residence_sums sums;
    const char *const sets[] = {"sampler={kind: sandwich, members: 3}",
                                "train.loss={distill: 0.5}"};
    tiny_open(&t, TINY_TEXT, sets, 2);
    reference_run(&t, &reference);
    run_open(&r, &t, &way);
    ck_assert(!np_engine_residence(r.engine, 0, &sums));
    train(&r, TINY_STEPS);
    assert_same(&r, &reference, &way);
    tiny_must(np_memory_stages(memory, &r.plan, &t.net, &t.err), &t.err);
    for (int k = 0; k < 2; k++) {
        const int *first = &r.plan.stage_first[k];
        uint64_t used = memory[k].flights;
        for (uint32_t l = t.net.layer_first[first[0]]; l < t.net.layer_first[first[1]]; l++)
            used += r.state->layers[l].slab ? np_memory_layer(&t.net, l) : 0;
        ck_assert_uint_eq(np_engine_memory(r.engine, k).peak, used);
        ck_assert_uint_eq(np_engine_memory(r.engine, 2 + k).peak, memory[k].replica);
        ck_assert_uint_le(used, r.plan.device_bytes);
    }
    run_close(&r);
    run_close(&reference);
    tiny_close(&t);
}
END_TEST

START_TEST(late_copies)
{
    struct tiny t;
    struct run reference;
    tiny_open(&t, TINY_TEXT, NULL, 0);
    reference_run(&t, &reference);
    for (uint64_t seed = 1; seed <= (tests_are_full() ? 12u : 2u); seed++) {
        struct way way = {{1 + (int)(seed % 4), 2, 4, 1, 1, NP_ISA_AVX2, seed, 0,
                           (int)(seed / 2 % 3), 0, seed % 2 == 0},
                          (int)(seed % 3),
                          NP_CONTEXT_AHEAD,
                          1 + (int)(seed % 5),
                          seed % 2 == 0};
        unsigned slept = longer_sleep_calls;
        one_way(&t, &reference, &way);
        ck_assert_uint_gt(longer_sleep_calls - slept, TINY_STEPS);
    }
    run_close(&reference);
    tiny_close(&t);
}
END_TEST

START_TEST(resume_across_budgets)
{
    const struct way ways[] = {
        {{1, 1, 1, 1, 1, tiny_best_isa(), 0, 0, 0, 0, false}, 0, NP_CONTEXT_AHEAD, 16, false},
        {{3, 2, 4, 1, 1, tiny_best_isa(), 0, 0, 2, 0, false}, 2, NP_CONTEXT_AHEAD, 16, true},
        {{3, 1, 2, 1, 1, tiny_best_isa(), 0, 0, 0, 0, false}, 10, NP_CONTEXT_LRU, 4, false}};
    struct tiny t;
    struct run reference, before, after;
    tiny_open(&t, TINY_TEXT, NULL, 0);
    reference_run(&t, &reference);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            run_open(&before, &t, &ways[i]);
            train(&before, 4);
            run_open(&after, &t, &ways[j]);
            carry_over(&after, &before);
            run_close(&before);
            train(&after, 7); /* in two segments */
            train(&after, TINY_STEPS);
            assert_same(&after, &reference, &ways[j]);
            run_close(&after);
        }
    run_close(&reference);
    tiny_close(&t);
}
END_TEST

static bool after_two(void *context)
{
    return ((const struct tiny_outcome *)context)->steps >= 2;
}

/* When training is over no copy is under way, and one that failed on the way is not forgotten. */
START_TEST(the_end_of_copies)
{
    struct tiny t;
    tiny_open(&t, TINY_TEXT, NULL, 0);
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct way way = {
            {2, 1, 2, 1, 1, tiny_best_isa(), seed, 0, 0, 0, false}, 3, NP_CONTEXT_AHEAD, 3, true};
        struct run r;
        char file[256];
        uint64_t next;
        run_open(&r, &t, &way);
        np_engine_free(r.engine);
        snprintf(file, sizeof file, "%s/stash", tiny_directory);
        struct np_train_config config = config_of(&r, &way, file);
        config.hooks.stop = after_two;
        tiny_must(np_engine_new(&r.engine, &config, r.state, &t.err), &t.err);
        struct np_stream *stream = tiny_stream(&t, 0);
        ck_assert_int_eq(np_engine_train(r.engine, stream, 0, TINY_STEPS, &next, &t.err), NP_ESTOP);
        struct np_residence *residence = r.state->residence;
        pthread_mutex_lock(&residence->lock);
        ck_assert_int_eq(residence->busy, 0);
        pthread_mutex_unlock(&residence->lock);
        residence->status = np_fail(&residence->err, NP_EIO, "a copy failed");
        ck_assert_int_eq(np_residence_end(residence, NP_OK, &t.err), NP_EIO);
        ck_assert_str_eq(t.err.msg, "a copy failed");
        np_stream_close(stream);
        run_close(&r);
    }
    tiny_close(&t);
}
END_TEST

static void evaluate(struct run *r, const struct way *way, struct np_engine *engine,
                     const uint16_t *choices, struct np_score *scores)
{
    const struct np_evaluation evaluation = {r->t->data, choices, EVALUATED, 2};
    struct np_train_config config = config_of(r, way, NULL);
    tiny_must(tiny_evaluate(scores, &config, r->state, engine, &evaluation, &r->t->err),
              &r->t->err);
}

/* An evaluation brings the layers it wants and changes nothing. */
START_TEST(evaluation)
{
    const int reach = _i; /* balanced cuts leave layers off home; an evaluation wants them there */
    const struct way way = {
        {3, 1, 2, 1, 1, tiny_best_isa(), 0, 0, reach, 0, false}, 1, NP_CONTEXT_AHEAD, 4, false};
    struct tiny t;
    struct run reference, r;
    uint16_t choices[8 * EVALUATED];
    struct np_score expected[EVALUATED], got[EVALUATED];
    struct np_stream *stream;
    bool more;
    tiny_open(&t, TINY_TEXT, NULL, 0);
    reference_run(&t, &reference);
    stream = tiny_stream(&t, EVALUATED);
    for (int i = 0; i < EVALUATED; i++)
        tiny_must(np_stream_next(stream, choices + i * t.recipe.block_count, &more, &t.err),
                  &t.err);
    np_stream_close(stream);
    evaluate(&reference, &way, NULL, choices, expected);
    evaluate(&reference, &way, reference.engine, choices, got);
    ck_assert_mem_eq(got, expected, sizeof got);
    run_open(&r, &t, &way);
    train(&r, 5);
    evaluate(&r, &way, r.engine, choices, got);
    train(&r, TINY_STEPS);
    evaluate(&r, &way, r.engine, choices, got);
    ck_assert_mem_eq(got, expected, sizeof got);
    for (int k = 0; k < 3; k++)
        ck_assert_uint_le(np_engine_memory(r.engine, k).peak, r.plan.device_bytes);
    assert_same(&r, &reference, &way);
    run_close(&r);
    run_close(&reference);
    tiny_close(&t);
}
END_TEST

/* The same run on a virtual clock. */
static void simulate(const struct run *r, const struct way *way, struct np_sim_stage *stages,
                     uint64_t *fixed)
{
    struct np_error err;
    struct np_steps steps = {NULL};
    struct np_sim_report report;
    uint64_t room[4], bytes[128];
    struct np_sim_memory memory = {bytes, room, way->policy, {1000, 0.1, 0.2, 0.4, 0.1}};
    struct np_sim_config config = {.memory = &memory,
                                   .stages = stages,
                                   .check = true,
                                   .next_step = np_steps_next,
                                   .context = &steps};
    ck_assert_uint_le(r->t->net.layers, 128);
    tiny_must(np_memory_room(room, bytes, &r->plan, &r->t->net, &err), &err);
    tiny_must(np_plan_sched_config(&config.sched, &r->plan, &r->t->net, &err), &err);
    tiny_must(np_steps_of_recipe(&steps, &r->t->net, TINY_STEPS, &err), &err);
    tiny_must(np_sim_run(&report, &config, &err), &err);
    ck_assert_uint_eq(report.steps, TINY_STEPS);
    *fixed = r->plan.device_bytes - room[0];
    np_steps_clear(&steps);
    np_plan_sched_clear(&config.sched);
}

/* One stage and one step at a time: nothing is left to chance, unless layers are fetched ahead. */
START_TEST(simulation_counts_what_the_engine_counts)
{
    struct tiny t;
    if (!tiny_is_tried(_i))
        return;
    tiny_open(&t, (enum tiny_kind)_i, NULL, 0);
    for (int tenths = 0; tenths <= 10; tenths += tests_are_full() ? 1 : 5) {
        struct way way = {
            {1, 1, 1, 1, 1, tiny_best_isa(), 0, 0, 0, 0, false}, tenths, NP_CONTEXT_LRU, 4, false};
        struct np_sim_stage predicted;
        struct np_residence_sums sums;
        struct run r;
        uint64_t fixed;
        way.shape.unit = 1 + tenths % 3;
        run_open(&r, &t, &way);
        simulate(&r, &way, &predicted, &fixed);
        train(&r, TINY_STEPS);
        ck_assert(np_engine_residence(r.engine, 0, &sums));
        ck_assert_mem_eq(&sums.context, &predicted.sums, sizeof sums.context);
        ck_assert_uint_eq(np_engine_memory(r.engine, 0).peak, fixed + predicted.sums.peak_bytes);
        run_close(&r);
    }
    tiny_close(&t);
}
END_TEST

START_TEST(one_byte_less_is_refused)
{
    const struct way way = {{2, 2, 2, 1, 1, tiny_best_isa(), 0, 0, _i % 3, 1 + _i / 3, false},
                            0,
                            NP_CONTEXT_AHEAD,
                            4,
                            false};
    struct tiny t;
    struct run r;
    struct np_engine *engine = NULL;
    char least[32];
    tiny_open(&t, TINY_TEXT, NULL, 0);
    run_open(&r, &t, &way);
    struct np_train_config config = config_of(&r, &way, NULL);
    snprintf(least, sizeof least, "needs %llu", (unsigned long long)r.plan.device_bytes);
    np_engine_free(r.engine);
    r.engine = NULL;
    r.plan.device_bytes--;
    ck_assert_int_eq(np_engine_new(&engine, &config, r.state, &t.err), NP_EINPUT);
    ck_assert_ptr_nonnull(strstr(t.err.msg, least));
    ck_assert_ptr_null(engine);
    run_close(&r);
    tiny_close(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("residence");
    TCase *tests = suite_case(suite, "residence");
    tcase_add_unchecked_fixture(tests, tiny_make_files, tiny_remove_files);
    tcase_add_loop_test(tests, budgets, 0, TINY_KINDS);
    tcase_add_test(tests, replicas_within_a_cap);
    tcase_add_test(tests, late_copies);
    tcase_add_test(tests, resume_across_budgets);
    tcase_add_test(tests, the_end_of_copies);
    tcase_add_loop_test(tests, evaluation, 0, 3);
    tcase_add_loop_test(tests, simulation_counts_what_the_engine_counts, 0, TINY_KINDS);
    tcase_add_loop_test(tests, one_byte_less_is_refused, 0, 4);
    return suite_run(suite);
}
