/* The scheduler under random interleavings, watched by the rule checker. */
#include <check.h>
#include <string.h>

#include "num/philox.h"
#include "sched/rule.h"
#include "sched/sched.h"
#include "suite.h"
#include "team_run.h"

enum {
    MOST_STAGES = 6,
    MOST_DEVICES = 18,
    MOST_POSITIONS = 14,
    MOST_LAYERS = 64,
    MOST_MEMBERS = 4,
    STEPS = 40
};

/* A random pipeline, and one run of it. */
struct trial {
    uint64_t seed, drawn;
    uint32_t layer_first[MOST_POSITIONS + 1];
    enum np_shared_kind kind[MOST_POSITIONS];
    struct np_layer_cost cost[MOST_LAYERS];
    bool weightless[MOST_LAYERS];
    uint32_t whole[MOST_LAYERS];
    int stage_first[MOST_STAGES + 1], in_flight[MOST_STAGES];
    struct np_sched_config config;
    struct np_sched *sched;
    struct np_rule *rule;
    struct np_task running[2 * MOST_DEVICES], travelling[1024];
    int running_count, travelling_count, busy[MOST_DEVICES];
};

static uint32_t draw(struct trial *t, uint32_t below)
{
    struct np_draw_key key = np_draw_key(t->seed, NP_DRAW_DELAY, 0, 0, 0);
    return (uint32_t)np_philox_below(np_draw(key, 0, t->drawn++), below);
}

static void draw_space(struct trial *t)
{
    struct np_sched_config *c = &t->config;
    c->positions = 1 + (int)draw(t, MOST_POSITIONS);
    c->reach = draw(t, 2) ? 0 : (int)draw(t, 1 + (uint32_t)c->positions);
    for (int p = 0; p < c->positions; p++) {
        bool may_be_shared = !c->reach || p == 0 || p == c->positions - 1;
        t->kind[p] =
            (enum np_shared_kind)(may_be_shared && draw(t, 4) == 0 ? draw(t, 3) : NP_CHOICE);
        t->layer_first[p + 1] = t->layer_first[p] + (t->kind[p] == NP_CHOICE ? 1 + draw(t, 4) : 1);
    }
    for (uint32_t layer = 0; layer < t->layer_first[c->positions]; layer++) {
        t->cost[layer] = (struct np_layer_cost){(float)draw(t, 5), (float)draw(t, 5), 1};
        t->weightless[layer] = draw(t, 8) == 0;
        t->whole[layer] = layer;
    }
    for (int p = 0; p < c->positions; p++) /* candidates with the first one's weights, or more */
        for (uint32_t l = t->layer_first[p]; l < t->layer_first[p + 1]; l++)
            if (draw(t, 3) == 0)
                t->whole[l] = t->whole[t->layer_first[p] + draw(t, l + 1 - t->layer_first[p])];
}

static void draw_pipeline(struct trial *t)
{
    struct np_sched_config *c = &t->config;
    c->stages = 1 + (int)draw(t, MOST_STAGES);
    for (int k = 1; k < c->stages; k++) { /* some stages may be empty */
        int left = c->positions - t->stage_first[k - 1];
        t->stage_first[k] = t->stage_first[k - 1] + (int)draw(t, (uint32_t)left + 1);
    }
    t->stage_first[c->stages] = c->positions;
    c->unit = 1 + (int)draw(t, 3);
    c->delay = 1 + (int)draw(t, 4);
    c->members = draw(t, 2) ? 1 : 1 + (int)draw(t, MOST_MEMBERS);
    c->replicas = draw(t, 2) ? 0 : 1 + (int)draw(t, MOST_DEVICES / MOST_STAGES);
    c->micro_batches = draw(t, 2) ? 1 : 1 + (int)draw(t, 4);
    if (draw(t, 3) || !np_sched_may_share(np_sched_replicas(c), c->members, c->micro_batches))
        c->micro_batches *= np_sched_replicas(c);
    c->window = 1 + (int)draw(t, 6);
    c->lookahead = draw(t, 2) ? 0 : (int)draw(t, 20);
    c->weights_first = draw(t, 2);
    c->leads = draw(t, 2) && c->micro_batches % np_sched_replicas(c) == 0;
    c->layer_first = t->layer_first;
    c->kind = t->kind;
    c->cost = t->cost;
    c->weightless = t->weightless;
    c->whole = draw(t, 2) ? t->whole : NULL;
    c->stage_first = t->stage_first;
    c->in_flight = draw(t, 4) ? t->in_flight : NULL;
    for (int k = 0; k < c->stages; k++)
        t->in_flight[k] = (int)draw(t, 2 + (uint32_t)(c->members * c->micro_batches));
}

/* Cheaper than ck_assert, which reports every success. */
static void require(bool condition, uint64_t seed, const char *what)
{
    if (!condition)
        ck_abort_msg("seed %llu: %s", (unsigned long long)seed, what);
}

static void must(enum np_status status, const struct np_error *err, uint64_t seed)
{
    require(status == NP_OK, seed, err->msg);
}

static void push(struct trial *t)
{
    uint16_t choices[MOST_MEMBERS * MOST_POSITIONS];
    const struct np_sched_config *c = &t->config;
    struct np_error err;
    for (int i = 0; i < c->members; i++)
        for (int p = 0; p < c->positions; p++)
            choices[i * c->positions + p] =
                (uint16_t)draw(t, t->layer_first[p + 1] - t->layer_first[p]);
    np_sched_push(t->sched, choices);
    for (int i = 0; i < c->members * c->positions && c->whole; i++) { /* the rule knows layers */
        uint32_t first = t->layer_first[i % c->positions];
        choices[i] = (uint16_t)(t->whole[first + choices[i]] - first);
    }
    must(np_rule_push(t->rule, choices, np_sched_stages(t->sched, np_sched_known(t->sched) - 1),
                      &err),
         &err, t->seed);
}

/* Up to two tasks of a device may be out: one runs, one is committed ahead. */
static bool start(struct trial *t, int device)
{
    struct np_task *task = &t->running[t->running_count];
    struct np_error err;
    if (t->busy[device] == 2 || !np_sched_next(t->sched, device, task))
        return false;
    require(task->device == device, t->seed, "a task of another device");
    require(task->step < np_sched_started(t->sched), t->seed, "it has not started");
    must(np_rule_start(t->rule, task, &err), &err, t->seed);
    t->busy[device]++;
    t->running_count++;
    return true;
}

static void end_one(struct trial *t)
{
    int at = (int)draw(t, (uint32_t)t->running_count);
    struct np_task task = t->running[at], delivery;
    struct np_error err;
    t->running[at] = t->running[--t->running_count];
    t->busy[task.device]--;
    must(np_rule_end(t->rule, &task, &err), &err, t->seed);
    if (!np_sched_done(t->sched, &task, &delivery))
        return;
    require(delivery.device != task.device, t->seed, "an output leaves that should stay");
    require(t->travelling_count < 1024, t->seed, "too many outputs travel");
    t->travelling[t->travelling_count++] = delivery;
}

static void deliver_one(struct trial *t)
{
    int at = (int)draw(t, (uint32_t)t->travelling_count);
    struct np_task task = t->travelling[at];
    struct np_error err;
    t->travelling[at] = t->travelling[--t->travelling_count];
    must(np_rule_arrived(t->rule, &task, &err), &err, t->seed);
    np_sched_arrived(t->sched, &task);
}

static bool start_any(struct trial *t)
{
    for (int d = 0; d < np_sched_devices(&t->config); d++)
        if (start(t, d))
            return true;
    return false;
}

/* Random events until nothing can happen any more. */
static void run_events(struct trial *t, uint64_t steps)
{
    for (;;) {
        uint32_t what = draw(t, 8);
        bool more = np_sched_known(t->sched) < steps && np_sched_wants(t->sched);
        if (what == 0 && more)
            push(t);
        else if (what < 4)
            start(t, (int)draw(t, (uint32_t)np_sched_devices(&t->config)));
        else if (what < 6 && t->running_count)
            end_one(t);
        else if (what < 8 && t->travelling_count)
            deliver_one(t);
        else if (!more && !t->running_count && !t->travelling_count && !start_any(t))
            return;
    }
}

static void open_trial(struct trial *t, uint64_t seed)
{
    struct np_error err;
    memset(t, 0, sizeof *t);
    t->seed = seed;
    draw_space(t);
    draw_pipeline(t);
    must(np_sched_new(&t->sched, &t->config, &err), &err, seed);
    struct np_sched_config layers = t->config;
    layers.whole = NULL;
    must(np_rule_new(&t->rule, &layers, &err), &err, seed);
}

static void close_trial(struct trial *t)
{
    np_sched_free(t->sched);
    np_rule_free(t->rule);
}

START_TEST(every_interleaving_keeps_the_rule)
{
    static struct trial t;
    struct np_error err;
    for (uint64_t seed = 0; seed < 100; seed++) {
        open_trial(&t, 100 * (uint64_t)_i + seed);
        run_events(&t, STEPS);
        ck_assert_msg(np_sched_completed(t.sched) == STEPS, "seed %llu: stuck",
                      (unsigned long long)t.seed);
        must(np_rule_finish(t.rule, STEPS, &err), &err, t.seed);
        close_trial(&t);
    }
}
END_TEST

/* A stop at any moment: nothing later starts, everything up to it completes. */
START_TEST(stop_after_completes_and_no_more)
{
    static struct trial t;
    struct np_error err;
    for (uint64_t seed = 0; seed < 50; seed++) {
        uint64_t last, events;
        open_trial(&t, 5000 + 50 * (uint64_t)_i + seed);
        events = draw(&t, 300);
        for (uint64_t e = 0; e < events; e++) {
            if (np_sched_wants(t.sched) && np_sched_known(t.sched) < STEPS)
                push(&t);
            start(&t, (int)draw(&t, (uint32_t)np_sched_devices(&t.config)));
            if (t.running_count)
                end_one(&t);
            if (t.travelling_count)
                deliver_one(&t);
        }
        last = np_sched_started(t.sched) ? np_sched_started(t.sched) - 1 + draw(&t, 3) : 2;
        np_sched_stop_after(t.sched, last);
        np_rule_stop_after(t.rule, last);
        run_events(&t, STEPS);
        last = last < STEPS ? last + 1 : STEPS;
        must(np_rule_finish(t.rule, last, &err), &err, t.seed);
        ck_assert_uint_eq(np_sched_completed(t.sched), last);
        ck_assert_uint_le(np_sched_started(t.sched), last);
        close_trial(&t);
    }
}
END_TEST

/* A stop below steps that have begun: they stay half done, the older ones complete. */
START_TEST(early_stop_leaves_later_steps)
{
    static struct trial t;
    for (uint64_t seed = 9000; seed < 9100; seed++) {
        open_trial(&t, seed);
        while (np_sched_wants(t.sched))
            push(&t);
        for (int e = 0; e < 30; e++) {
            start(&t, (int)draw(&t, (uint32_t)np_sched_devices(&t.config)));
            if (t.running_count && draw(&t, 2))
                end_one(&t);
        }
        np_sched_stop_after(t.sched, 0);
        np_rule_stop_after(t.rule, 0);
        run_events(&t, np_sched_known(t.sched));
        ck_assert_uint_ge(np_sched_completed(t.sched), 1);
        close_trial(&t);
    }
}
END_TEST

/* One stage has all positions, a step is one micro-batch. The caller sets layer_first. */
static void plain_trial(struct trial *t, int positions, int window)
{
    memset(t, 0, sizeof *t);
    t->config = (struct np_sched_config){.positions = positions,
                                         .stages = 1,
                                         .unit = 1,
                                         .members = 1,
                                         .micro_batches = 1,
                                         .window = window,
                                         .delay = 1,
                                         .layer_first = t->layer_first,
                                         .kind = t->kind,
                                         .cost = t->cost,
                                         .weightless = t->weightless,
                                         .stage_first = t->stage_first};
    t->stage_first[1] = positions;
}

/* Steps 0 and 1 have the first layer in common, step 2 has not. */
START_TEST(a_conflict_waits_for_the_update)
{
    static struct trial t;
    static const uint16_t same[] = {0, 0}, other[] = {1, 0};
    struct np_task first, second;
    plain_trial(&t, 2, 3);
    t.layer_first[1] = 2;
    t.layer_first[2] = 3;
    ck_assert_int_eq(np_sched_new(&t.sched, &t.config, NULL), NP_OK);
    np_sched_push(t.sched, same);
    np_sched_push(t.sched, same);
    ck_assert(np_sched_next(t.sched, 0, &first));
    ck_assert_uint_eq(first.step, 0);
    ck_assert_msg(!np_sched_next(t.sched, 0, &second), "a step overtakes the version it needs");
    np_sched_push(t.sched, other);
    ck_assert(np_sched_next(t.sched, 0, &second));
    ck_assert_uint_eq(second.step, 2);
    ck_assert_msg(!np_sched_wants(t.sched), "more steps are known than window + lookahead");
    np_sched_free(t.sched);
}
END_TEST

/* Two replicas, a step of two micro-batches: the second one's W waits for the first one's on the
 * other replica, the next step everywhere for the update. */
START_TEST(replicas_keep_one_order)
{
    static struct trial t;
    static const uint16_t only[] = {0};
    struct np_task task, late, ignored;
    int first, last;
    plain_trial(&t, 1, 2);
    t.config.micro_batches = t.config.replicas = 2;
    t.layer_first[1] = 1;
    ck_assert_int_eq(np_sched_new(&t.sched, &t.config, NULL), NP_OK);
    np_sched_push(t.sched, only);
    np_sched_push(t.sched, only);
    for (int device = 1; device >= 0; device--)
        for (int pass = 0; pass < 2; pass++) { /* F, B */
            ck_assert(np_sched_next(t.sched, device, &task));
            ck_assert(task.kind == (pass ? NP_TASK_B : NP_TASK_F) && task.micro == device);
            ck_assert(!np_sched_done(t.sched, &task, &ignored));
        }
    ck_assert_msg(!np_sched_next(t.sched, 1, &late), "a contribution overtakes another");
    ck_assert(np_sched_next(t.sched, 0, &task));
    ck_assert(task.kind == NP_TASK_W && task.opens && !task.updates);
    np_sched_done(t.sched, &task, &ignored);
    np_sched_woken(t.sched, &first, &last);
    ck_assert(first == 0 && last == 1);
    ck_assert_msg(!np_sched_next(t.sched, 0, &ignored), "a step overtakes the version it needs");
    ck_assert(np_sched_next(t.sched, 1, &late));
    ck_assert(late.kind == NP_TASK_W && !late.opens && late.updates);
    np_sched_done(t.sched, &late, &ignored);
    ck_assert_uint_eq(np_sched_completed(t.sched), 1);
    ck_assert(np_sched_next(t.sched, 0, &task) && np_sched_next(t.sched, 1, &late));
    ck_assert(task.step == 1 && late.step == 1);
    np_sched_free(t.sched);
}
END_TEST

/* What replicas have of a step: micro-batches of all members, as far as there are enough, else
 * members; every flight is somebody's, and numbers are dense. */
START_TEST(replicas_share_steps)
{
    static const struct {
        int replicas, members, micros, share_members, share_micros, beside;
    } shares[] = {{1, 3, 5, 3, 5, 1}, {2, 3, 4, 3, 2, 2}, {4, 3, 4, 3, 1, 4}, {3, 6, 1, 2, 1, 1},
                  {4, 2, 2, 1, 1, 2}, {6, 4, 3, 2, 1, 3}, {6, 4, 9, 2, 3, 3}, {2, 2, 3, 1, 3, 1}};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        const struct np_sched_share wanted = {shares[i].share_members, shares[i].share_micros,
                                              shares[i].beside};
        int r = shares[i].replicas, members = shares[i].members, micros = shares[i].micros;
        struct np_sched_share share;
        uint64_t next[8] = {0};
        ck_assert(np_sched_may_share(r, members, micros));
        share = np_sched_share(r, members, micros);
        ck_assert_mem_eq(&share, &wanted, sizeof share);
        ck_assert_int_eq(np_sched_flights_of(&share) * r, members * micros);
        for (int step = 0; step < 2; step++)
            for (int k = 0; k < members * micros; k++) {
                int replica = np_sched_replica_of(&share, k / micros, k % micros);
                ck_assert(replica >= 0 && replica < r);
                ck_assert_uint_eq(
                    np_sched_flight_of(&share, (uint64_t)step, k / micros, k % micros),
                    next[replica]++);
            }
    }
    ck_assert(!np_sched_may_share(2, 1, 1) && !np_sched_may_share(2, 3, 1));
    ck_assert(!np_sched_may_share(4, 3, 2) && !np_sched_may_share(3, 2, 4));
}
END_TEST

/* A member for each of two replicas: what they share is written in the members' order. */
START_TEST(replicas_by_members)
{
    static struct trial t;
    static const uint16_t same[] = {0, 0};
    struct np_task task, late, ignored;
    plain_trial(&t, 1, 2);
    t.config.members = t.config.replicas = 2;
    t.layer_first[1] = 1;
    ck_assert_int_eq(np_sched_new(&t.sched, &t.config, NULL), NP_OK);
    np_sched_push(t.sched, same);
    for (int device = 1; device >= 0; device--)
        for (int pass = 0; pass < 2; pass++) { /* F, B */
            ck_assert(np_sched_next(t.sched, device, &task));
            ck_assert(task.member == device && task.micro == 0);
            np_sched_done(t.sched, &task, &ignored);
        }
    ck_assert_msg(!np_sched_next(t.sched, 1, &late), "a contribution overtakes another");
    ck_assert(np_sched_next(t.sched, 0, &task) && task.opens && !task.updates);
    np_sched_done(t.sched, &task, &ignored);
    ck_assert(np_sched_next(t.sched, 1, &late) && !late.opens && late.updates);
    np_sched_done(t.sched, &late, &ignored);
    ck_assert_uint_eq(np_sched_completed(t.sched), 1);
    np_sched_free(t.sched);
}
END_TEST

START_TEST(too_many_steps_are_refused)
{
    static struct trial t;
    struct np_error err;
    open_trial(&t, 1);
    close_trial(&t);
    t.config.lookahead = 1 << 20;
    ck_assert_int_eq(np_sched_new(&t.sched, &t.config, &err), NP_EMEM);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sched");
    TCase *tests = suite_case(suite, "rule");
    tcase_add_loop_test(tests, every_interleaving_keeps_the_rule, 0, tests_are_full() ? 20 : 5);
    tcase_add_loop_test(tests, stop_after_completes_and_no_more, 0, 10);
    tcase_add_test(tests, early_stop_leaves_later_steps);
    tcase_add_test(tests, a_conflict_waits_for_the_update);
    tcase_add_test(tests, replicas_keep_one_order);
    tcase_add_test(tests, replicas_share_steps);
    tcase_add_test(tests, replicas_by_members);
    tcase_add_test(tests, too_many_steps_are_refused);
    return suite_run(suite);
}
