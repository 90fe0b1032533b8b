/* Stages in several memories: what crosses is what they need, in one order of sums, and the bits
 * are those of one memory. Here the memories are the host's, and a link copies between them. */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "exec/step.h"
#include "exec/transport.h"
#include "plan/stage_memory.h"
#include "suite.h"
#include "team_run.h"
#include "tiny.h"

enum { MOST = 4, SUBNETS = 3 };

/* Carries by copying; the `fails`th time it cannot. */
struct copier {
    struct np_link base;
    atomic_int carried;
    int fails;
};

static enum np_status carry(struct np_link *link, struct np_crew *crew, int from, int to,
                            const struct np_link_part *parts, int count, struct np_error *err)
{
    struct copier *copier = (struct copier *)link;
    (void)crew;
    ck_assert_int_ne(from, to);
    if (atomic_fetch_add(&copier->carried, 1) + 1 == copier->fails)
        return np_fail(err, NP_EIO, "the link from %d to %d is cut", from, to);
    for (int i = 0; i < count; i++)
        memcpy(parts[i].to, parts[i].from, parts[i].bytes);
    return NP_OK;
}

static const struct np_link_ops copying = {.name = "copies", .carry = carry};

/* A run in several memories. */
struct trial {
    struct tiny t;
    struct np_device devices[MOST];
    struct copier copier;
    struct np_plan plan;
    uint64_t cap; /* of the plan, 0: none */
    struct np_train_config config;
    struct tiny_outcome outcome;
    struct np_engine *engine;
};

static enum np_status trial_run(struct trial *r, const struct tiny_shape *shape, int memories)
{
    struct np_stream *stream = tiny_stream(&r->t, 0);
    enum np_status status;
    uint64_t next;
    for (int i = 0; i < MOST; i++)
        r->devices[i] = np_device_host;
    r->copier.base.ops = &copying;
    tiny_plan(&r->t, &r->plan, shape);
    r->plan.memories = memories;
    r->plan.device_bytes = r->cap;
    r->config = (struct np_train_config){.net = &r->t.net,
                                         .data = r->t.data,
                                         .kernels = np_kernels_get(shape->isa),
                                         .devices = memories ? r->devices : NULL,
                                         .device_count = memories,
                                         .link = &r->copier.base,
                                         .plan = &r->plan,
                                         .delay_seed = shape->delay_seed,
                                         .hooks = {.context = &r->outcome, .step = tiny_on_step}};
    r->outcome = (struct tiny_outcome){.steps = 0};
    tiny_must(np_state_new(&r->outcome.state, &r->t.net, &r->t.err), &r->t.err);
    tiny_must(np_train_place(&r->config, r->outcome.state, &r->t.err), &r->t.err);
    if (memories) {
        tiny_must(np_engine_new(&r->engine, &r->config, r->outcome.state, &r->t.err), &r->t.err);
        status = np_engine_train(r->engine, stream, 0, TINY_STEPS, &next, &r->t.err);
    } else {
        status = np_train_sequential(&r->config, r->outcome.state, stream, 0, TINY_STEPS, &next,
                                     &r->t.err);
    }
    np_stream_close(stream);
    return status;
}

static void trial_end(struct trial *r)
{
    np_engine_free(r->engine);
    r->engine = NULL;
    np_state_free(r->outcome.state);
    np_plan_clear(&r->plan);
}

static void evaluate(struct trial *r, struct np_score *scores)
{
    uint16_t choices[SUBNETS * TINY_BLOCKS];
    const struct np_evaluation evaluation = {r->t.data, choices, SUBNETS, 2};
    for (uint64_t i = 0; i < SUBNETS; i++)
        np_stream_eval_subnet(&r->t.shape, r->t.recipe.seed, i,
                              choices + i * (size_t)r->t.recipe.block_count);
    tiny_must(
        tiny_evaluate(scores, &r->config, r->outcome.state, r->engine, &evaluation, &r->t.err),
        &r->t.err);
}

/* The memory model counts the room for what is received, to the byte, and what a replica has of
 * layers that are at home elsewhere. */
static void assert_memory(struct trial *r)
{
    struct np_stage_memory memory[8];
    ck_assert_int_le(r->plan.stages, 8);
    tiny_must(np_memory_stages(memory, &r->plan, &r->t.net, &r->t.err), &r->t.err);
    for (int d = 0; d < np_plan_devices(&r->plan); d++) {
        const struct np_stage_memory *m = &memory[d % r->plan.stages];
        bool home = d >= np_plan_home(&r->plan, 0);
        uint64_t peak = np_engine_memory(r->engine, d).peak;
        if (r->cap)
            ck_assert_uint_le(peak,
                              home ? m->flights + m->shared + m->layers + m->copies : m->replica);
        else
            ck_assert_uint_eq(peak, m->flights);
    }
    for (int k = 0; k < r->plan.stages && np_plan_apart(&r->plan); k++) {
        uint64_t copies = 0;
        for (int p = r->plan.stage_first[k]; p < r->plan.stage_first[k + 1]; p++)
            for (uint32_t l = r->t.net.layer_first[p]; l < r->t.net.layer_first[p + 1]; l++)
                copies += np_memory_copies(&r->t.net, l);
        if (memory[k].copies)
            copies += memory[k].layers;
        ck_assert_uint_eq(memory[k].replica, memory[k].flights + copies);
    }
}

/* How often a step carries a layer that `member` is the first to use: its weights to replicas that
 * use it away from where it is at home, its gradient's sum from contributor to contributor, and
 * moments to the last of them, which has it then. */
static int carries_of(const struct trial *r, const uint16_t *choices, int member, int position,
                      uint64_t step, int *where)
{
    const struct np_supernet *net = &r->t.net;
    const struct np_sched_share share = np_plan_share(&r->plan, net);
    uint32_t layer = np_step_layer(net, choices + member * net->positions, position);
    bool old = net->recipe->shared_frozen || step < (uint64_t)net->recipe->delay;
    bool known = np_supernet_is_end(net, position) && old && step > 0;
    bool trains = np_step_trains(net, position, layer), uses[MOST] = {false};
    int count = 0, last = -1;
    if (np_step_owner(net, choices, member, position) != member ||
        np_supernet_kind(net, layer)->floats == 0)
        return 0;
    for (int k = 0; k < net->recipe->members * r->plan.micro_batches; k++) {
        int i = k / r->plan.micro_batches;
        int replica = np_sched_replica_of(&share, i, k % r->plan.micro_batches);
        if (np_step_layer(net, choices + i * net->positions, position) != layer)
            continue;
        count += !uses[replica] && !known && replica != where[layer];
        count += trains && last >= 0 && last != replica;
        uses[replica] = true;
        last = replica;
    }
    count += trains && net->moments > 0 && last != where[layer];
    if (trains)
        where[layer] = last;
    return count;
}

/* Where every replica has one memory, nothing else is carried. */
static void assert_carries(struct trial *r)
{
    const struct np_supernet *net = &r->t.net;
    uint16_t choices[TINY_MEMBERS * (TINY_BLOCKS + 2)], blocks[TINY_MEMBERS * TINY_BLOCKS];
    struct np_stream *stream = tiny_stream(&r->t, 0);
    int carries = 0, *where;
    bool more;
    tiny_must(np_alloc(&where, net->layers, sizeof *where, &r->t.err), &r->t.err);
    for (uint32_t layer = 0; layer < net->layers; layer++)
        where[layer] = np_plan_replicas(&r->plan) - 1;
    for (uint64_t step = 0; step < TINY_STEPS; step++) {
        tiny_must(np_step_read(net, stream, choices, blocks, &more, &r->t.err), &r->t.err);
        for (int i = 0; i < net->recipe->members; i++)
            for (int p = 0; p < net->positions; p++)
                carries += carries_of(r, choices, i, p, step, where);
    }
    np_stream_close(stream);
    free(where);
    if (np_plan_replica_memories(&r->plan) == 1)
        ck_assert_int_eq(atomic_load(&r->copier.carried), carries);
}

static const struct {
    int memories;
    struct tiny_shape shape;
} cases[] = {{2, {2, 1, 2, 1, 1, NP_ISA_SCALAR, 0, 0, 0, 0, false}},
             {2, {4, 4, 4, 1, 1, NP_ISA_SCALAR, 0, 1, 0, 0, false}},
             {3, {3, 2, 4, 2, 2, NP_ISA_SCALAR, 3, -1, 0, 0, false}},
             {4, {4, 2, 2, 1, 1, NP_ISA_SCALAR, 0, 0, 2, 0, false}},
             {3, {5, 1, 8, 1, 1, NP_ISA_SCALAR, 4, 2, 3, 0, false}},
             {2, {1, 2, 2, 1, 1, NP_ISA_SCALAR, 5, 0, 0, 2, false}},
             {4, {2, 4, 4, 1, 2, NP_ISA_SCALAR, 6, 2, 0, 2, false}},
             {4, {3, 4, 3, 2, 1, NP_ISA_SCALAR, 7, -1, 0, 4, true}},
             {2, {3, 1, 4, 1, 1, NP_ISA_SCALAR, 8, 0, 0, 2, false}},
             {4, {2, 1, 3, 1, 2, NP_ISA_SCALAR, 9, 2, 0, 2, true}},
             {4, {1, 2, 2, 1, 1, NP_ISA_SCALAR, 10, 0, 0, 4, false}}};

/* A case of the recipe that the trials have opened, beside the reference and its scores; replicas
 * also where the layers are in the arenas of their stages. */
static void compare(struct trial *r, size_t i, const struct trial *reference,
                    const struct np_score *scores)
{
    struct tiny_shape shape = cases[i].shape;
    struct np_score again[SUBNETS];
    shape.isa = tiny_best_isa();
    if (r->t.net.whole_batch)
        shape.micro_batches = 1;
    if (!tiny_may_share(&r->t, &shape))
        return;
    for (int capped = 0; capped < (shape.replicas > 1 ? 2 : 1); capped++) {
        atomic_store(&r->copier.carried, 0);
        r->cap = capped ? 1 << 28 : 0;
        tiny_must(trial_run(r, &shape, cases[i].memories), &r->t.err);
        ck_assert_mem_eq(r->outcome.fingerprints, reference->outcome.fingerprints,
                         sizeof r->outcome.fingerprints);
        ck_assert_mem_eq(r->outcome.losses, reference->outcome.losses, sizeof r->outcome.losses);
        ck_assert_int_ge(atomic_load(&r->copier.carried), TINY_STEPS * (cases[i].memories - 1));
        assert_carries(r);
        assert_memory(r);
        evaluate(r, again);
        ck_assert_mem_eq(scores, again, sizeof again);
        trial_end(r);
    }
}

/* Every third case, of a short run every sixth; the next kind or variant has others. Fewer would
 * leave out the last ones, which most recipes cannot share. */
static void compare_all(enum tiny_kind kind, const char *const *sets, size_t first)
{
    const struct tiny_shape alone = {0, 1, 1, 1, 1, tiny_best_isa(), 0, 0, 0, 0, false};
    struct np_score scores[SUBNETS];
    struct trial r = {.engine = NULL}, reference = {.engine = NULL};
    size_t count = 0;
    while (sets && sets[count])
        count++;
    tiny_open(&reference.t, kind, sets, count);
    tiny_open(&r.t, kind, sets, count);
    tiny_must(trial_run(&reference, &alone, 0), &reference.t.err);
    evaluate(&reference, scores);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if ((i + first) % (tests_are_full() ? 3 : 6) == 0)
            compare(&r, i, &reference, scores);
    trial_end(&reference);
    tiny_close(&r.t);
    tiny_close(&reference.t);
}

START_TEST(the_bits_are_those_of_one_memory)
{
    if (tiny_is_tried(_i))
        compare_all((enum tiny_kind)_i, NULL, (size_t)_i);
}
END_TEST

/* What replicas have of the stem and the head, and subnets that they share. */
static const char *const variants[][4] = {
    {"shared={policy: frozen}", NULL},
    {"shared={policy: frozen}", "sampler={members: 4}", NULL},
    {"shared={policy: delay, steps: 3}", "sampler={members: 2}", NULL},
    {"shared={policy: delay, steps: 4}", "train.optimizer={kind: sgd, lr: 0.1, momentum: 0}", NULL},
    {"sampler={kind: fair, members: 8}", "train.optimizer={kind: sgd, lr: 0.1, momentum: 0}", NULL},
    {"sampler={members: 4, batch: same}", "train.loss={distill: 0.5}", NULL}};
#define VARIANTS ((int)(sizeof variants / sizeof *variants))

START_TEST(the_bits_of_variants)
{
    if (tiny_varies(_i))
        compare_all(TINY_TEXT, variants[_i], (size_t)_i + 1);
}
END_TEST

START_TEST(a_link_that_fails_ends_the_run)
{
    const struct tiny_shape shape = {3, 2, 2, 1, 1, tiny_best_isa(), 0, 0, 1, 0, false};
    struct trial r = {.copier.fails = 1 + 7 * _i};
    tiny_open(&r.t, TINY_TEXT, NULL, 0);
    ck_assert_int_eq(trial_run(&r, &shape, 3), NP_EIO);
    ck_assert_ptr_nonnull(strstr(r.t.err.msg, "is cut"));
    trial_end(&r);
    tiny_close(&r.t);
}
END_TEST

/* What comes in another order than the scheduler's is said, and not waited for. */
START_TEST(sides_that_do_not_meet)
{
    struct copier copier = {.base = {&copying}};
    const struct np_transport_config config = {&copier.base, 2, 4, 1, 2};
    const struct np_message message = {NP_CARGO_VALUES, 0, 1, 5, 3};
    struct np_message other = message;
    const struct np_carrier nobody = {NULL, NULL};
    struct np_transport *t;
    struct np_error err;
    float made[2] = {1, 2}, room[2] = {0, 0};
    struct np_cargo_part sent[2] = {{made, sizeof made}, {made, sizeof *made}};
    struct np_cargo_part received[2] = {{room, sizeof room}, {room, 2}};
    tiny_must(np_transport_new(&t, &config, &err), &err);
    ck_assert_int_eq(np_transport_carry(t, NP_RECEIVES, &message, received, 1, nobody, &err),
                     NP_EIO);
    np_transport_post(t, NP_SENDS, &message, sent, 1);
    ck_assert_int_eq(np_transport_await(t, &message, NULL, &err), NP_EIO);
    ck_assert_int_eq(np_transport_carry(t, NP_SENDS, &message, sent, 1, nobody, &err), NP_EIO);
    ck_assert_int_eq(np_transport_carry(t, NP_RECEIVES, &message, received, 2, nobody, &err),
                     NP_EIO);
    ck_assert_int_eq(np_transport_carry(t, NP_RECEIVES, &message, received + 1, 1, nobody, &err),
                     NP_EIO);
    other.flight += 4;
    ck_assert_int_eq(np_transport_carry(t, NP_RECEIVES, &other, received, 1, nobody, &err), NP_EIO);
    ck_assert_str_eq(err.msg, "the values 9.3 from memory 0 to 1: the other side has not come (a "
                              "bug in naspipe)");
    tiny_must(np_transport_carry(t, NP_RECEIVES, &message, received, 1, nobody, &err), &err);
    ck_assert_mem_eq(room, made, sizeof made);
    tiny_must(np_transport_await(t, &message, NULL, &err), &err);
    ck_assert_int_eq(np_transport_carry(t, NP_RECEIVES, &message, received, 1, nobody, &err),
                     NP_EIO);
    np_transport_free(t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport");
    TCase *tests = suite_case(suite, "transport");
    tcase_add_unchecked_fixture(tests, tiny_make_files, tiny_remove_files);
    tcase_add_loop_test(tests, the_bits_are_those_of_one_memory, 0, TINY_KINDS);
    tcase_add_loop_test(tests, the_bits_of_variants, 0, VARIANTS);
    tcase_add_loop_test(tests, a_link_that_fails_ends_the_run, 0, 4);
    tcase_add_test(tests, sides_that_do_not_meet);
    return suite_run(suite);
}
