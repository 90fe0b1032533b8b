/* Scores of a run's subnets: those of its state when it ended, in order, whoever is at work. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "run/scoring.h"
#include "run/session.h"
#include "suite.h"
#include "tiny.h"

enum { SUBNETS = 40, BATCHES = 2 };

static char run[256];

/* Trains the run, and makes the supernet that it trained. */
static void train(struct tiny *t)
{
    static const struct tiny_shape shape = {2, 1, 2, 1, 1, NP_ISA_SCALAR, 0, 0, 0, 0, false};
    struct np_plan plan;
    struct np_session_result result;
    struct np_session_config config = {.run = run,
                                       .net = &t->net,
                                       .train_data = t->data,
                                       .kernels = np_kernels_best(),
                                       .plan = &plan,
                                       .stop_after = 4,
                                       .provenance = "{}\n"};
    snprintf(run, sizeof run, "%s/run", tiny_directory);
    tiny_plan(t, &plan, &shape);
    tiny_must(np_session_run(&result, &config, &t->err), &t->err);
    np_plan_clear(&plan);
}

static void remove_run(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", run);
    ck_assert_int_eq(system(command), 0);
}

static struct np_trained *asked_of[2]; /* the same, as if on two devices */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Who asks, and what is told. */
struct asker {
    struct tiny *t;
    uint64_t asked, refuse, fail, stop, wait; /* from such a number on */
    uint64_t limit;                           /* of the weights in memory */
    uint64_t most, left; /* bytes of them while somebody asks, and in the end */
    _Atomic uint64_t told;
    struct np_score scores[SUBNETS];
};

static void draw(const struct tiny *t, uint64_t subnet, uint16_t *choices)
{
    np_stream_eval_subnet(&t->shape, t->recipe.seed, subnet, choices);
}

static enum np_status next(void *context, uint16_t *choices, bool *more, bool (*give_up)(void *),
                           void *scoring, struct np_error *err)
{
    const struct timespec moment = {0, 1000000};
    struct asker *a = context;
    while (a->asked == a->wait) { /* for somebody who waits for a score */
        if (give_up(scoring))
            return np_fail(err, NP_ESTOP, "given up");
        nanosleep(&moment, NULL);
    }
    if (a->asked == a->refuse)
        return np_fail(err, NP_EINPUT, "a bad subnet");
    for (int i = 0; i < 2; i++)
        a->most = larger(a->most, np_trained_bytes(asked_of[i]));
    *more = a->asked < SUBNETS;
    if (*more)
        draw(a->t, a->asked++, choices);
    return NP_OK;
}

static enum np_status scored(void *context, const uint16_t *choices, struct np_score score,
                             struct np_error *err)
{
    struct asker *a = context;
    uint16_t expected[TINY_BLOCKS];
    draw(a->t, a->told, expected);
    ck_assert_mem_eq(choices, expected, (size_t)a->t->recipe.block_count * sizeof *expected);
    if (a->told == a->fail)
        return np_fail(err, NP_EIO, "nobody listens");
    a->scores[a->told++] = score;
    return NP_OK;
}

static bool stop(void *context)
{
    const struct asker *a = context;
    return a->told >= a->stop;
}

static struct asker asker_of(struct tiny *t)
{
    return (struct asker){
        .t = t, .refuse = UINT64_MAX, .fail = UINT64_MAX, .stop = UINT64_MAX, .wait = UINT64_MAX};
}

/* By workers on this machine, as two devices. */
static enum np_status ask(struct asker *a, int jobs, int threads)
{
    struct tiny *t = a->t;
    const struct np_device devices[] = {np_device_host, np_device_host};
    struct np_trained **trained = asked_of;
    struct np_scoring_config config = {.net = &t->net,
                                       .train_data = t->data,
                                       .data = t->data,
                                       .batches = BATCHES,
                                       .devices = devices,
                                       .trained = trained,
                                       .count = 2,
                                       .kernels = np_kernels_best(),
                                       .jobs = jobs,
                                       .threads = threads,
                                       .hooks = {a, next, scored, stop}};
    enum np_status status;
    for (int i = 0; i < 2; i++) {
        tiny_must(np_trained_open(&trained[i], run, NP_LATEST, &t->net, np_data_digest(t->data),
                                  &devices[i], &t->err),
                  &t->err);
        ck_assert_uint_eq(np_trained_step(trained[i]), 4);
        np_trained_limit(trained[i], a->limit);
    }
    status = np_scoring_run(&config, &t->err);
    for (int i = 0; i < 2; i++) {
        a->left = larger(a->left, np_trained_bytes(trained[i]));
        np_trained_free(trained[i]);
    }
    return status;
}

/* Weights that have no room are read again: the scores are the same. With one worker nobody uses
 * any while it asks for the next subnet. */
static void check_limits(struct tiny *t, const struct asker *free)
{
    const uint64_t limits[] = {1, free->most / 2, free->most};
    ck_assert_uint_eq(free->left, free->most);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (int jobs = 1; jobs <= 4; jobs += 3) {
            struct asker a = asker_of(t);
            a.limit = limits[i];
            tiny_must(ask(&a, jobs, 1), &t->err);
            ck_assert_mem_eq(a.scores, free->scores, sizeof a.scores);
            ck_assert_uint_le(a.left, a.limit);
            ck_assert(jobs > 1 || a.most <= a.limit);
            ck_assert(jobs > 1 || i == 0 || a.left > 0);
        }
}

/* Beside the state that training by another way leaves, moments and old versions included. */
START_TEST(the_scores_of_the_trained_state)
{
    static const char *const sets[] = {"shared={policy: delay, steps: 3}"};
    struct tiny t;
    struct np_plan plan = {.threads = 1};
    struct np_state *state;
    struct np_score one[1];
    struct asker a, b;
    uint64_t reached;
    tiny_open(&t, (enum tiny_kind)_i, sets, _i == TINY_TEXT ? 1 : 0);
    struct np_train_config config = {
        .net = &t.net, .data = t.data, .kernels = np_kernels_get(NP_ISA_SCALAR), .plan = &plan};
    struct np_stream *stream = tiny_stream(&t, 0);
    struct tiny_outcome outcome = {NULL};
    config.hooks = (struct np_train_hooks){.context = &outcome, .step = tiny_on_step};
    train(&t);
    tiny_must(np_state_new(&state, &t.net, &t.err), &t.err);
    tiny_must(np_train_sequential(&config, state, stream, 0, 4, &reached, &t.err), &t.err);
    a = asker_of(&t);
    tiny_must(ask(&a, 3, 1), &t.err);
    ck_assert_uint_eq(a.told, SUBNETS);
    for (uint64_t i = 0; i < SUBNETS; i += 7) {
        uint16_t choices[TINY_BLOCKS];
        struct np_evaluation evaluation = {t.data, choices, 1, BATCHES};
        draw(&t, i, choices);
        tiny_must(tiny_evaluate(one, &config, state, NULL, &evaluation, &t.err), &t.err);
        ck_assert_mem_eq(one, &a.scores[i], sizeof *one);
    }
    b = asker_of(&t);
    tiny_must(ask(&b, 1, 2), &t.err);
    ck_assert_mem_eq(a.scores, b.scores, sizeof a.scores);
    check_limits(&t, &b);
    np_stream_close(stream);
    np_state_free(state);
    remove_run();
    tiny_close(&t);
}
END_TEST

/* The candidate of block 0 with the most weights, or the fewest of those that have some. */
static uint16_t extreme(const struct np_supernet *net, bool most)
{
    uint32_t first = net->layer_first[1], best = first;
    for (uint32_t layer = first; layer < net->layer_first[2]; layer++) {
        size_t floats = np_supernet_kind(net, layer)->floats;
        size_t so_far = np_supernet_kind(net, best)->floats;
        if (floats > 0 && (so_far == 0 || (most ? floats > so_far : floats < so_far)))
            best = layer;
    }
    return (uint16_t)(best - first);
}

static bool is_there(struct np_trained *trained, const struct tiny *t, uint16_t choice)
{
    return np_trained_state(trained)->layers[t->net.layer_first[1] + choice].made;
}

static void use(struct np_trained *trained, struct tiny *t, uint16_t choice)
{
    const uint16_t choices[TINY_BLOCKS] = {choice};
    tiny_must(np_trained_bring(trained, choices, &t->err), &t->err);
    ck_assert(is_there(trained, t, choice));
    np_trained_leave(trained, choices);
}

static void open_trained(struct tiny *t, struct np_trained **trained)
{
    tiny_open(t, TINY_TEXT, NULL, 0);
    train(t);
    tiny_must(np_trained_open(trained, run, NP_LATEST, &t->net, NULL, &np_device_host, &t->err),
              &t->err);
}

static bool stops_at_last(void *context)
{
    return --*(int *)context == 0;
}

/* Stopped before the last layer, and none is in use then: it can be brought, and all can go. */
START_TEST(a_stop_while_layers_are_read)
{
    struct tiny t;
    struct np_trained *trained;
    open_trained(&t, &trained);
    const uint16_t choices[TINY_BLOCKS] = {extreme(&t.net, true)};
    int left = t.net.positions;
    np_trained_give_up(trained, stops_at_last, &left);
    ck_assert_int_eq(np_trained_bring(trained, choices, &t.err), NP_ESTOP);
    ck_assert_int_eq(left, 0);
    ck_assert(is_there(trained, &t, choices[0]));
    ck_assert(!np_trained_state(trained)->layers[t.net.layers - 1].made);
    np_trained_give_up(trained, NULL, NULL);
    use(trained, &t, choices[0]);
    ck_assert(np_trained_state(trained)->layers[t.net.layers - 1].made);
    np_trained_limit(trained, 1);
    use(trained, &t, choices[0]);
    ck_assert_uint_eq(np_trained_bytes(trained), 0);
    np_trained_free(trained);
    remove_run();
    tiny_close(&t);
}
END_TEST

/* There is room for two of three; in use, all are there. */
START_TEST(what_was_used_longest_ago_goes)
{
    struct tiny t;
    struct np_trained *trained;
    open_trained(&t, &trained);
    uint16_t large = extreme(&t.net, true), small = extreme(&t.net, false), other = 0;
    while (other == large || other == small ||
           !np_supernet_kind(&t.net, t.net.layer_first[1] + other)->floats)
        other++;
    use(trained, &t, large);
    use(trained, &t, other);
    np_trained_limit(trained, np_trained_bytes(trained));
    ck_assert(is_there(trained, &t, large));
    use(trained, &t, small);
    ck_assert(!is_there(trained, &t, large) && is_there(trained, &t, other));
    np_trained_limit(trained, 1);
    use(trained, &t, other);
    ck_assert(!is_there(trained, &t, small) && !is_there(trained, &t, other));
    ck_assert_uint_eq(np_trained_bytes(trained), 0);
    np_trained_free(trained);
    remove_run();
    tiny_close(&t);
}
END_TEST

/* Those before it are told, and none after it. */
START_TEST(an_end_in_the_middle)
{
    struct tiny t;
    struct asker whole, a;
    tiny_open(&t, TINY_TEXT, NULL, 0);
    train(&t);
    whole = asker_of(&t);
    tiny_must(ask(&whole, 2, 1), &t.err);
    for (int jobs = 1; jobs <= 4; jobs += 3) {
        a = asker_of(&t);
        a.refuse = 29;
        ck_assert_int_eq(ask(&a, jobs, 1), NP_EINPUT);
        ck_assert_str_eq(t.err.msg, "a bad subnet");
        ck_assert_uint_eq(a.told, 29);
        ck_assert_mem_eq(a.scores, whole.scores, 29 * sizeof *a.scores);
        a = asker_of(&t);
        a.refuse = 0;
        ck_assert_int_eq(ask(&a, jobs, 1), NP_EINPUT);
        ck_assert_uint_eq(a.told, 0);
        a = asker_of(&t);
        a.fail = 17;
        ck_assert_int_eq(ask(&a, jobs, 1), NP_EIO);
        ck_assert_uint_eq(a.told, 17);
        ck_assert_mem_eq(a.scores, whole.scores, 17 * sizeof *a.scores);
    }
    remove_run();
    tiny_close(&t);
}
END_TEST

/* Whoever waits for a subnet hears of another's failure, without which nobody would write one. */
START_TEST(a_failure_while_another_waits)
{
    struct tiny t;
    struct asker a;
    tiny_open(&t, TINY_TEXT, NULL, 0);
    train(&t);
    for (int jobs = 2; jobs <= 3; jobs++) {
        a = asker_of(&t);
        a.fail = 0;
        a.wait = 1;
        ck_assert_int_eq(ask(&a, jobs, 1), NP_EIO);
        ck_assert_str_eq(t.err.msg, "nobody listens");
    }
    remove_run();
    tiny_close(&t);
}
END_TEST

START_TEST(stopped)
{
    struct tiny t;
    struct asker a;
    tiny_open(&t, TINY_TEXT, NULL, 0);
    train(&t);
    a = asker_of(&t);
    a.stop = 9;
    ck_assert_int_eq(ask(&a, 1, 1), NP_ESTOP);
    ck_assert_uint_eq(a.told, 9);
    remove_run();
    tiny_close(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scoring");
    TCase *tests = suite_case(suite, "scoring");
    tcase_add_unchecked_fixture(tests, tiny_make_files, tiny_remove_files);
    tcase_add_loop_test(tests, the_scores_of_the_trained_state, 0, TINY_IMAGES + 1);
    tcase_add_test(tests, a_stop_while_layers_are_read);
    tcase_add_test(tests, what_was_used_longest_ago_goes);
    tcase_add_test(tests, an_end_in_the_middle);
    tcase_add_test(tests, a_failure_while_another_waits);
    tcase_add_test(tests, stopped);
    return suite_run(suite);
}
