/* The promise: every engine configuration gives the sequential reference's bits. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "engine_run.h"
#include "io/digest.h"
#include "sched/trace.h"
#include "sleep_calls.h"
#include "suite.h"
#include "team_run.h"

static void compare(struct tiny *f, const struct tiny_outcome *reference,
                    const struct tiny_shape *shape)
{
    struct tiny_outcome o = {.steps = 0};
    char what[160];
    snprintf(
        what, sizeof what,
        "%d replicas, %d stages, %d micro-batches, window %d, %d in flight, %d threads, unit %d, "
        "reach %d, %s%s",
        shape->replicas, shape->stages, shape->micro_batches, shape->window, shape->in_flight,
        shape->threads, shape->unit, shape->reach, np_isa_name(shape->isa),
        shape->recompute ? ", computed again" : "");
    engine_train(f, &o, shape, TINY_STEPS);
    engine_same(f, reference, &o, what);
    np_state_free(o.state);
}

/* Members of the matrix that are left out: of kinds but text five in six, others of every kind, and
 * of scalar code, which is slow, all windows but one as well. In a short run of each kind and
 * instruction set, but for scalar code, only one member with one thread and one with two. */
static bool left_out(const struct tiny *f, enum tiny_kind kind, int s, int m, int w, int t, int isa)
{
    int sum = s + 2 * m + w + t + isa, number = (int)kind;
    if (f->net.whole_batch && m > 0)
        return true;
    if (!tests_are_full())
        return isa == NP_ISA_SCALAR || s != (number + 2 * t) % 5 || w != (number / 3 + t) % 3 ||
               (!f->net.whole_batch && m != number % 3);
    if (isa == NP_ISA_SCALAR && w != number / 6 % 3)
        return true;
    return (isa == NP_ISA_SCALAR || kind != TINY_TEXT) && sum % 6 != number % 6;
}

/* SHA-256 over the weights and moments of all layers that were trained, by layer number. */
static struct np_digest_hex state_digest(const struct tiny *f, const struct np_state *state)
{
    struct np_sha256 sha = {NULL};
    struct np_digest digest;
    ck_assert_int_eq(np_sha256_begin(&sha, NULL), NP_OK);
    for (uint32_t layer = 0; layer < f->net.layers; layer++) {
        const struct np_layer_state *l = &state->layers[layer];
        const struct np_kind *kind = np_supernet_kind(&f->net, layer);
        size_t stride = np_state_stride(kind), parts = 1 + (size_t)f->net.moments;
        for (size_t part = 0; l->updates && part < parts; part++)
            ck_assert_int_eq(
                np_sha256_add(&sha, l->slab + part * stride, kind->floats * sizeof(float), NULL),
                NP_OK);
    }
    ck_assert_int_eq(np_sha256_end(&sha, &digest, NULL), NP_OK);
    np_sha256_clear(&sha);
    return np_digest_hex(&digest);
}

/* The bits of numerics portable/1, recorded once: every machine and compiler must give them. */
static const char *const recorded[TINY_KINDS] = {
    [TINY_TEXT] = "380b96aae491b2fcbbb426182ccaf22810d0c7df1fe06e48b2933410e54b7895",
    [TINY_IMAGES] = "3becfc76c13cb9a8a399253b8d53257aa50f0de095c67053b5f467e3c93d1d34",
    [TINY_NORMS] = "ac876ddc6d6aee7bb6ced42346da2cb554b11026696857d0d2938ceceb6b23bc",
    [TINY_CELLS] = "0fab28c43f6cbb47e86c74b40ae76e7992723c0512c735cc9579caf9b5f66d25",
    [TINY_PAIRS] = "030123a7a467a5baec8c515516d79ae7547eaa398c70b83ff1b30b15b1823af0",
    [TINY_LONG] = "7428f1e6de5aa7b41c5fa763117c8d4fbaf3eba55b7c95e73c2854c240a0760c",
    [TINY_TRANSLATE] = "2fcf711d82410953de27c794a5b24c9c316e2e66ab1ba5a493dcbbe3f9f1cef9",
    [TINY_STAGES] = "a19e29c56e50af2abb693eadebd560b817bb8115ba6ccbd44ce9eb117fc23db4",
    [TINY_ACTS] = "a71ad850e2c09938442adfb0791a82f49195df9947f422da9e27a2f48c571e66",
    [TINY_BETWEEN] = "0a0603411c89ade6ae43d4228bc5184f740d0f191d2c05b4a82b2e9797f068f0",
    [TINY_GRAPH] = "a325694dfa1d40d059dc79fa1791aa93bc0fda34bbb3f33cb9412b25e32906be",
    [TINY_JOINS] = "f3a149c4d2d08b35d6bab1c0df777bba95b942cd2d26ecb7eba1a06fde36a110",
    [TINY_ENTANGLED] = "7b241800b7d74802d1ef81a98bfb23f0a4d5f5d0e3af51faf379027c616a1285",
    [TINY_SLICES] = "dacb6ebe0574b3c71be1e9c18ba390c562221967e143f871622827ce921dc47d",
    [TINY_WIDTHS] = "47e34f11a8eb4963bd7da7fb98fc256de95b585f4973e85fe15917de3b95b631",
    [TINY_NARROW] = "17e55c866f420ad2fd6d7ccbaccf2f65dc47fa868ef1977bcf336741a4d6e944",
    [TINY_SIZES] = "f2400341aa11d6b93f3bcb002e8ed0d69341082dbfcbbd257eee25a100ee1ede",
    [TINY_ROTARY] = "dead7f5bfe5bd3ec07ec7dc38cd44cadd676a3cb7047895e06d1ed8844526192",
    [TINY_RMS] = "64b4a6e10a79961b51b5d7cb881b82532d165d6467c7a3ef72dca79c3b5ba4e6"};

START_TEST(recorded_bits)
{
    struct tiny f;
    struct tiny_outcome reference;
    if (tests_watch_threads())
        return;
    tiny_open(&f, (enum tiny_kind)_i, NULL, 0);
    engine_reference(&f, &reference);
    ck_assert_str_eq(state_digest(&f, reference.state).s, recorded[_i]);
    np_state_free(reference.state);
    tiny_close(&f);
}
END_TEST

START_TEST(hash_matrix)
{
    const int stages[] = {1, 2, 3, 4, 8}, micro[] = {1, 2, 4}, window[] = {1, 4, 16};
    const int in_flight[] = {0, 1, 3, -1};
    const int replicas[][3] = {{2, 1, 2}, {1, 2, 2}, {1, 2, 4}}; /* as far as they can share */
    struct tiny f;
    struct tiny_outcome reference;
    int count = 0;
    if (!tiny_is_tried(_i))
        return;
    tiny_open(&f, (enum tiny_kind)_i, NULL, 0);
    engine_reference(&f, &reference);
    for (int s = 0; s < 5; s++)
        for (int m = 0; m < 3; m++)
            for (int w = 0; w < 3; w++)
                for (int t = 0; t < 2; t++)
                    for (int isa = 0; isa < NP_ISA_COUNT; isa++) {
                        struct tiny_shape shape = {.stages = stages[s],
                                                   .micro_batches = micro[m],
                                                   .window = window[w],
                                                   .threads = t + 1,
                                                   .unit = 1 + s % 3,
                                                   .isa = (enum np_isa)isa,
                                                   .in_flight = in_flight[(s + m + t + isa) % 4],
                                                   .reach = (m + w + t) % 2 ? 1 + isa % 3 : 0,
                                                   .replicas = replicas[m][(s + t + isa) % 3],
                                                   .recompute = (s + w + t + isa) % 2};
                        if (!np_kernels_get(shape.isa) ||
                            left_out(&f, (enum tiny_kind)_i, s, m, w, t, isa))
                            continue;
                        if (!tiny_may_share(&f, &shape))
                            shape.replicas = 1;
                        compare(&f, &reference, &shape);
                        count++;
                    }
    ck_assert_int_gt(count, 0);
    np_state_free(reference.state);
    tiny_close(&f);
}
END_TEST

/* Recipes that differ in what the schedule has to respect. */
static const char *const variants[][6] = {
    {"shared={policy: delay, steps: 2}", NULL},
    {"shared={policy: delay, steps: 5}", NULL},
    {"shared={policy: frozen}", NULL},
    {"sampler={kind: uniform, members: 3}", NULL},
    {"sampler={kind: fair, members: 8}", NULL},
    {"sampler={kind: sandwich, members: 4}", NULL},
    {"sampler={kind: sandwich, members: 3}", "train.loss={distill: 0.5}", NULL},
    {"sampler={members: 5, batch: same}", "train.loss={distill: 1, label_smoothing: 0.1}",
     "shared={policy: delay, steps: 2}", NULL},
    {"sampler={kind: uniform, members: 2, batch: same}", "shared={policy: delay, steps: 2}", NULL},
    {"sampler={kind: uniform, members: 2}", "shared={policy: delay, steps: 3}", NULL},
    {"sampler={kind: spread, spread: 8}", "train.clip={kind: layer, limit: 0.1}", NULL},
    {"train.optimizer={kind: sgd, lr: 0.1, momentum: 0.9, nesterov: true}",
     "train.schedule={kind: cosine, warmup: 3}", "train.clip={kind: value, limit: 0.01}", NULL},
    {"train.optimizer={kind: sgd, lr: 0.1}", "train.schedule={kind: inverse_sqrt, warmup: 4}",
     "train.grain=1", NULL},
};

START_TEST(variant)
{
    const char *const *sets = variants[_i];
    const struct tiny_shape shapes[] = {{1, 1, 4, 1, 1, NP_ISA_AVX2, 0, -1, 0, 0, true},
                                        {2, 4, 4, 1, 2, NP_ISA_AVX512, 0, 2, 2, 0, false},
                                        {4, 2, 8, 1, 1, NP_ISA_AVX512, 0, 5, 1, 0, true},
                                        {8, 1, 16, 1, 1, NP_ISA_AVX2, 0, 0, 1, 0, false},
                                        {3, 2, 1, 2, 1, NP_ISA_AVX512, 0, 1, 0, 0, false},
                                        {1, 4, 8, 1, 1, NP_ISA_AVX2, 0, -1, 0, 4, false},
                                        {3, 4, 4, 1, 1, NP_ISA_AVX512, 3, 2, 1, 2, true},
                                        {2, 2, 4, 1, 1, NP_ISA_AVX512, 4, 2, 1, 4, true}};
    struct tiny f;
    struct tiny_outcome reference;
    size_t count = 0;
    if (!tiny_varies(_i))
        return;
    while (sets[count])
        count++;
    tiny_open(&f, TINY_TEXT, sets, count);
    engine_reference(&f, &reference);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if ((tests_are_full() || (i + (size_t)_i) % 4 == 0) && tiny_may_share(&f, &shapes[i]))
            compare(&f, &reference, &shapes[i]);
    np_state_free(reference.state);
    tiny_close(&f);
}
END_TEST

/* Members' batches have as many targets as they have, where what is filled is masked. */
START_TEST(members_count_their_own_targets)
{
    const char *const sets[] = {"sampler={members: 3}"};
    const struct tiny_shape shapes[] = {{1, 1, 2, 1, 1, NP_ISA_SCALAR, 0, -1, 0, 0, false},
                                        {3, 2, 4, 1, 2, tiny_best_isa(), 0, 2, 2, 0, true}};
    struct tiny f;
    struct tiny_outcome reference;
    tiny_open(&f, TINY_PAIRS, sets, 1);
    ck_assert(f.recipe.masked);
    engine_reference(&f, &reference);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        compare(&f, &reference, &shapes[i]);
    np_state_free(reference.state);
    tiny_close(&f);
}
END_TEST

/* Several steps' first members at once, where the head need not wait for the step before. */
START_TEST(taught_steps_overlap)
{
    const char *const sets[] = {"sampler={members: 2, batch: same}", "train.loss={distill: 0.5}",
                                _i ? "shared={policy: delay, steps: 4}"
                                   : "shared={policy: frozen}"};
    const struct tiny_shape shape = {4, 2, 4, 1, 1, tiny_best_isa(), 0, -1, 0, 1 + _i, _i == 1};
    struct tiny f;
    struct tiny_outcome reference;
    tiny_open(&f, TINY_TEXT, sets, 3);
    engine_reference(&f, &reference);
    compare(&f, &reference, &shape);
    np_state_free(reference.state);
    tiny_close(&f);
}
END_TEST

START_TEST(injected_delays)
{
    struct tiny f;
    struct tiny_outcome reference;
    tiny_open(&f, TINY_TEXT, NULL, 0);
    engine_reference(&f, &reference);
    for (uint64_t seed = 1; seed <= (tests_are_full() ? 16u : 2u); seed++) {
        struct tiny_shape shape = {(int)(seed % 4) + 2,
                                   2,
                                   4,
                                   1,
                                   1,
                                   NP_ISA_AVX2,
                                   seed,
                                   (int)(seed % 6) - 1,
                                   (int)(seed / 4 + seed) % 3,
                                   1 + (int)(seed % 2),
                                   seed % 3 == 0};
        unsigned slept = sleep_calls;
        compare(&f, &reference, &shape);
        ck_assert_uint_gt(sleep_calls - slept, TINY_STEPS);
    }
    np_state_free(reference.state);
    tiny_close(&f);
}
END_TEST

/* The state carries over from one engine to another, at any step. */
START_TEST(another_engine)
{
    const struct tiny_shape before = {3, 2, 4, 1, 1, NP_ISA_AVX2, 0, 0, 0, 0, false};
    const struct tiny_shape after = {3, 4, 8, 1, 1, NP_ISA_AVX512, 0, 0, 2, 0, true};
    struct tiny f;
    struct tiny_outcome reference, o = {.steps = 0};
    tiny_open(&f, TINY_TEXT, NULL, 0);
    engine_reference(&f, &reference);
    engine_train(&f, &o, &before, 4);
    engine_train(&f, &o, &after, TINY_STEPS);
    engine_same(&f, &reference, &o, "stopped after step 4");
    np_state_free(o.state);
    np_state_free(reference.state);
    tiny_close(&f);
}
END_TEST

/* Tasks that ran off home. */
static int strayed(const struct np_trace *trace, const struct np_plan *plan)
{
    int count = 0;
    for (size_t i = 0; i < trace->count; i++) {
        const struct np_task *task = &trace->spans[i].task;
        count += task->first < plan->stage_first[task->stage] ||
                 task->first >= plan->stage_first[task->stage + 1];
    }
    return count;
}

/* Layers do leave home, before and after it, and static cuts keep them there. */
START_TEST(balanced_cuts_move_layers)
{
    struct tiny f;
    tiny_open(&f, TINY_TEXT, NULL, 0);
    for (int reach = 0; reach < 3; reach++) {
        const struct tiny_shape shape = {3, 2, 4, 1, 1, NP_ISA_SCALAR, 0, 0, reach, 0, false};
        struct tiny_outcome o = {.steps = 0};
        struct np_trace trace = {.count = 0};
        struct np_plan plan;
        struct np_train_config config = engine_config(&f, &o, &plan, &shape);
        struct np_stream *stream = tiny_stream(&f, 0);
        struct np_engine *engine;
        uint64_t next;
        config.trace = &trace;
        tiny_must(np_state_new(&o.state, &f.net, &f.err), &f.err);
        tiny_must(np_engine_new(&engine, &config, o.state, &f.err), &f.err);
        tiny_must(np_engine_train(engine, stream, 0, TINY_STEPS, &next, &f.err), &f.err);
        ck_assert_int_eq(strayed(&trace, &plan) > 0, reach > 0);
        engine_took_its_memory(&f, &plan, engine);
        np_engine_free(engine);
        np_stream_close(stream);
        np_state_free(o.state);
        np_plan_clear(&plan);
        np_trace_clear(&trace);
    }
    tiny_close(&f);
}
END_TEST

/* A layer that no step activates has no memory, and one left out of a step keeps its bytes. */
START_TEST(untouched_layers)
{
    const struct tiny_shape shape = {2, 2, 4, 1, 1, NP_ISA_SCALAR, 0, 0, 0, 0, false};
    struct tiny f;
    struct tiny_outcome o = {.steps = 0};
    struct np_stream *stream;
    uint16_t choices[8];
    bool more;
    tiny_open(&f, TINY_TEXT, NULL, 0);
    engine_train(&f, &o, &shape, 1);
    stream = tiny_stream(&f, 0);
    tiny_must(np_stream_next(stream, choices, &more, &f.err), &f.err);
    for (int p = 1; p < f.net.positions - 1; p++)
        for (uint32_t layer = f.net.layer_first[p]; layer < f.net.layer_first[p + 1]; layer++) {
            bool active = layer == f.net.layer_first[p] + choices[p - 1] &&
                          np_supernet_kind(&f.net, layer)->floats;
            ck_assert_uint_eq(o.state->layers[layer].updates, active ? 1u : 0u);
            ck_assert_int_eq(o.state->layers[layer].slab != NULL, active);
        }
    np_stream_close(stream);
    np_state_free(o.state);
    tiny_close(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine");
    TCase *pinned = suite_case(suite, "recorded"), *tests = suite_case(suite, "engine");
    for (int isa = 0; isa < NP_ISA_COUNT; isa++)
        if (!np_kernels_get((enum np_isa)isa))
            fprintf(stderr, "test_engine: no %s here, SKIPPED\n", np_isa_name((enum np_isa)isa));
    tcase_add_unchecked_fixture(pinned, tiny_make_files, tiny_remove_files);
    tcase_add_loop_test(pinned, recorded_bits, 0, TINY_KINDS);
    tcase_add_unchecked_fixture(tests, tiny_make_files, tiny_remove_files);
    tcase_add_loop_test(tests, hash_matrix, 0, TINY_KINDS);
    tcase_add_loop_test(tests, variant, 0, (int)(sizeof variants / sizeof *variants));
    tcase_add_test(tests, members_count_their_own_targets);
    tcase_add_loop_test(tests, taught_steps_overlap, 0, 2);
    tcase_add_test(tests, injected_delays);
    tcase_add_test(tests, another_engine);
    tcase_add_test(tests, balanced_cuts_move_layers);
    tcase_add_test(tests, untouched_layers);
    return suite_run(suite);
}
