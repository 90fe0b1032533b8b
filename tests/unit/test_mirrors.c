/* Layers that several stages may run: whatever the copies take, a layer is on one device at a time,
 * and what comes to a device is what was last updated. */
#include <check.h>
#include <string.h>

#include "num/philox.h"
#include "sched/sim.h"
#include "suite.h"
#include "team_run.h"

enum { MOST_STAGES = 6, MOST_POSITIONS = 16, MOST_LAYERS = 64, MEMBERS = 2, NOWHERE = -1 };

struct layer {
    int stage; /* that has it, NOWHERE: none */
    bool stored, dirty;
    double until; /* a copy of it is under way */
};

struct trial {
    uint64_t seed, drawn, left;
    uint32_t layer_first[MOST_POSITIONS + 1];
    enum np_shared_kind kind[MOST_POSITIONS];
    struct np_layer_cost cost[MOST_LAYERS];
    bool weightless[MOST_LAYERS];
    uint32_t whole[MOST_LAYERS];
    int stage_first[MOST_STAGES + 1];
    uint64_t bytes[MOST_LAYERS], room[MOST_STAGES];
    struct np_sim_memory memory;
    struct np_sim_config config;
    struct layer layer[MOST_LAYERS];
    uint16_t choices[32][MEMBERS * MOST_POSITIONS]; /* of step number % 32 */
    int moves;                                      /* from one device to another */
    int last_stage[MOST_LAYERS];
};

static uint32_t draw(struct trial *t, uint32_t below)
{
    struct np_draw_key key = np_draw_key(t->seed, NP_DRAW_DELAY, 0, 0, 0);
    return (uint32_t)np_philox_below(np_draw(key, 0, t->drawn++), below);
}

static void require(const struct trial *t, bool condition, uint32_t layer, const char *what)
{
    if (!condition)
        ck_abort_msg("seed %llu, layer %u: %s", (unsigned long long)t->seed, layer, what);
}

static void on_copy(void *context, const struct np_copy_span *span)
{
    struct trial *t = context;
    uint32_t number = span->copy.layer;
    struct layer *l = &t->layer[number];
    require(t, l->until <= span->start, number, "two copies of it at once");
    if (span->copy.kind == NP_COPY_MAKE || span->copy.kind == NP_COPY_FETCH) {
        require(t, l->stage == NOWHERE, number, "it comes to a second device");
        require(t, l->stored == (span->copy.kind == NP_COPY_FETCH), number, "made or fetched?");
        t->moves += t->last_stage[number] != NOWHERE && t->last_stage[number] != span->stage;
        t->last_stage[number] = l->stage = span->stage;
    } else {
        require(t, l->stage == span->stage, number, "it leaves where it is not");
        require(t, l->dirty == (span->copy.kind == NP_COPY_WRITE), number, "written or dropped?");
        l->stored |= l->dirty;
        l->dirty = false;
        l->stage = NOWHERE;
    }
    l->until = span->end;
}

/* With units of one position a task ends where its layer is. */
static void on_task(void *context, const struct np_span *span)
{
    struct trial *t = context;
    const struct np_task *task = &span->task;
    uint32_t number = t->whole[t->layer_first[task->first] +
                               t->choices[task->step % 32]
                                         [task->member * t->config.sched.positions + task->first]];
    struct layer *l = &t->layer[number];
    if (!t->bytes[number])
        return;
    require(t, l->stage == task->stage && l->until <= span->end, number,
            "a task runs where it is not");
    l->dirty |= task->updates;
}

static bool next_step(void *context, uint16_t *choices)
{
    struct trial *t = context;
    const struct np_sched_config *c = &t->config.sched;
    uint64_t step = 60 - t->left;
    if (t->left == 0)
        return false;
    for (int i = 0; i < c->members; i++)
        for (int p = 0; p < c->positions; p++)
            choices[i * c->positions + p] =
                (uint16_t)draw(t, t->layer_first[p + 1] - t->layer_first[p]);
    memcpy(t->choices[step % 32], choices, (size_t)(c->members * c->positions) * sizeof *choices);
    t->left--;
    return true;
}

static void draw_space(struct trial *t)
{
    struct np_sched_config *c = &t->config.sched;
    c->positions = 6 + (int)draw(t, MOST_POSITIONS - 5);
    c->stages = 2 + (int)draw(t, MOST_STAGES - 1);
    for (int k = 0; k <= c->stages; k++)
        t->stage_first[k] = c->positions * k / c->stages;
    for (int p = 0; p < c->positions; p++)
        t->layer_first[p + 1] = t->layer_first[p] + 1 + draw(t, MOST_LAYERS / MOST_POSITIONS);
    for (uint32_t l = 0; l < t->layer_first[c->positions]; l++) {
        float cost = (float)(1 + draw(t, 6));
        t->cost[l] = (struct np_layer_cost){cost, cost, cost};
        t->weightless[l] = draw(t, 8) == 0;
        t->bytes[l] = t->weightless[l] ? 0 : 1 + draw(t, 3);
        t->layer[l].stage = t->last_stage[l] = NOWHERE;
        t->whole[l] = l;
    }
    for (int p = 0; p < c->positions; p++) /* the last candidate has the first one's weights */
        if (draw(t, 3) == 0)
            t->whole[t->layer_first[p + 1] - 1] = t->layer_first[p];
}

static void open_trial(struct trial *t, uint64_t seed)
{
    struct np_sched_config *c = &t->config.sched;
    memset(t, 0, sizeof *t);
    t->seed = seed;
    t->left = 60;
    draw_space(t);
    c->layer_first = t->layer_first;
    c->kind = t->kind;
    c->delay = 1;
    c->cost = t->cost;
    c->weightless = t->weightless;
    c->whole = t->whole;
    c->stage_first = t->stage_first;
    c->unit = 1;
    c->reach = 1 + (int)draw(t, 3);
    c->members = 1 + (int)draw(t, MEMBERS);
    c->micro_batches = 1 + (int)draw(t, 3);
    c->window = 1 + (int)draw(t, 5);
    c->lookahead = draw(t, 3) ? (int)draw(t, 20) : 0;
    for (int k = 0; k < c->stages; k++)
        t->room[k] = 3 + draw(t, draw(t, 2) ? 4 : 60);
    t->memory = (struct np_sim_memory){t->bytes,
                                       t->room,
                                       (enum np_context_policy)draw(t, 3),
                                       {.latency = (double)draw(t, 3),
                                        .read_per_byte = (double)draw(t, 4),
                                        .write_per_byte = (double)draw(t, 4),
                                        .both_per_byte = 1 + (double)draw(t, 4),
                                        .busy_per_byte = (double)draw(t, 2)}};
    t->config.memory = &t->memory;
    t->config.transfer = draw(t, 2);
    t->config.check = true;
    t->config.next_step = next_step;
    t->config.on_task = on_task;
    t->config.on_copy = on_copy;
    t->config.context = t;
}

START_TEST(a_layer_is_on_one_device)
{
    static struct trial t;
    int moves = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct np_sim_report report;
        struct np_error err = {.msg = ""};
        open_trial(&t, 40 * (uint64_t)_i + seed);
        ck_assert_msg(np_sim_run(&report, &t.config, &err) == NP_OK, "seed %llu: %s",
                      (unsigned long long)t.seed, err.msg);
        ck_assert_uint_eq(report.steps, 60);
        moves += t.moves;
    }
    ck_assert_int_gt(moves, 100);
}
END_TEST

static struct np_context *context_new(uint32_t first, struct np_context *before)
{
    static const uint64_t bytes[] = {1, 1, 1, 1};
    struct np_context_config config = {first, 4, bytes, 4, before, NP_CONTEXT_AHEAD, 8};
    struct np_context *c;
    ck_assert_int_eq(np_context_new(&c, &config, NULL), NP_OK);
    return c;
}

static void assert_copy(struct np_context *c, enum np_copy_kind kind, uint32_t layer)
{
    struct np_copy copy;
    ck_assert(np_context_next(c, &copy));
    ck_assert_int_eq(copy.kind, kind);
    ck_assert_uint_eq(copy.layer, layer);
    np_context_copied(c, &copy);
}

/* Stages 0 to 2 know layer 4; steps 0, 1 and 2 want it on 0, 2 and 0. */
START_TEST(a_layer_is_handed_over_at_once)
{
    static const int stages[] = {0, 2, 0};
    struct np_context *c[3];
    struct np_copy copy;
    for (uint32_t k = 0; k < 3; k++)
        c[k] = context_new(1 + k, k ? c[k - 1] : NULL);
    for (uint64_t step = 0; step < 3; step++)
        for (int pass = NP_CONTEXT_FORWARD; pass <= NP_CONTEXT_BACKWARD; pass++)
            ck_assert_int_eq(np_context_expect(c[stages[step]], 4, step, (enum np_context_pass)pass,
                                               1 + pass, NULL),
                             NP_OK);
    for (uint64_t step = 0; step < 3; step++) {
        struct np_context *here = c[stages[step]], *there = c[2 - stages[step]];
        assert_copy(here, step ? NP_COPY_FETCH : NP_COPY_MAKE, 4);
        ck_assert(!np_context_next(there, &copy));
        ck_assert(np_context_enter(here, 4, step, NP_CONTEXT_FORWARD));
        np_context_leave(here, 4, false);
        ck_assert_msg(!np_context_next(here, &copy), "it leaves in the middle of a step");
        ck_assert(np_context_enter(here, 4, step, NP_CONTEXT_BACKWARD));
        np_context_leave(here, 4, false);
        ck_assert(np_context_enter(here, 4, step, NP_CONTEXT_BACKWARD));
        np_context_leave(here, 4, true);
        ck_assert_int_eq(np_context_next(here, &copy), step < 2);
        if (step == 2)
            break;
        ck_assert_int_eq(copy.kind, NP_COPY_WRITE);
        ck_assert_msg(!np_context_next(there, &(struct np_copy){0}), "it is in two places");
        np_context_copied(here, &copy);
    }
    ck_assert_msg(!np_context_enter(c[1], 4, 3, NP_CONTEXT_FORWARD), "nobody has foretold it");
    ck_assert(np_context_may_wait(c[1], 4));
    assert_copy(c[0], NP_COPY_WRITE, 4);
    assert_copy(c[1], NP_COPY_FETCH, 4);
    ck_assert(np_context_enter(c[1], 4, 3, NP_CONTEXT_FORWARD));
    for (int k = 0; k < 3; k++)
        np_context_free(c[k]);
}
END_TEST

/* A task of stage 1 waits for a layer, foretold or not, which stage 0 will want one day: nobody
 * else brings it before, and who has it lets it go. */
START_TEST(whoever_waits_comes_first)
{
    struct np_context *c[2];
    struct np_copy copy;
    c[0] = context_new(1, NULL);
    c[1] = context_new(2, c[0]);
    ck_assert_int_eq(np_context_expect(c[0], 4, 7, NP_CONTEXT_FORWARD, 1, NULL), NP_OK);
    ck_assert(!np_context_enter(c[1], 4, 3, NP_CONTEXT_FORWARD));
    ck_assert_msg(!np_context_next(c[0], &copy), "it is fetched ahead, away from who waits");
    assert_copy(c[1], NP_COPY_MAKE, 4);
    ck_assert(np_context_enter(c[1], 4, 3, NP_CONTEXT_FORWARD));
    np_context_leave(c[1], 4, false);
    assert_copy(c[1], NP_COPY_DROP, 4);
    assert_copy(c[0], NP_COPY_MAKE, 4);
    ck_assert(!np_context_next(c[0], &copy));
    ck_assert(!np_context_enter(c[1], 4, 4, NP_CONTEXT_FORWARD));
    assert_copy(c[0], NP_COPY_DROP, 4);
    ck_assert(!np_context_next(c[0], &copy));
    assert_copy(c[1], NP_COPY_MAKE, 4);
    np_context_free(c[0]);
    np_context_free(c[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mirrors");
    TCase *tests = suite_case(suite, "mirrors");
    tcase_add_loop_test(tests, a_layer_is_on_one_device, 0, tests_are_full() ? 10 : 3);
    tcase_add_test(tests, a_layer_is_handed_over_at_once);
    tcase_add_test(tests, whoever_waits_comes_first);
    return suite_run(suite);
}
