/* The context manager against a model of the device, under random steps, knowledge and completions.
 */
#include <check.h>
#include <string.h>

#include "num/philox.h"
#include "sched/context.h"
#include "suite.h"
#include "team_run.h"

enum { LAYERS = 24, FIRST = 100, STEPS = 60, PER_STEP = 5, VISITS = 2 * STEPS * PER_STEP };
enum { REACH = 3, UNDER_WAY = 3, MOST_TASKS = 3 };

/* A layer as the device and the stash hold it. */
struct held {
    bool here, in_use;
    uint64_t version;      /* updates so far */
    uint64_t there, saved; /* versions on the device, in the stash */
};

struct world {
    struct np_context *context;
    struct np_context_config config;
    uint64_t bytes[LAYERS];
    struct held held[LAYERS];
    struct np_copy under_way[UNDER_WAY];
    int copies;
    uint64_t used;
    uint32_t wanted; /* layer, or 0 */
    uint32_t subnet[STEPS][PER_STEP];
    uint32_t tasks;
    int at;        /* the visit that runs, where all are foretold; else -1 */
    bool more;     /* it has further tasks */
    int least_out; /* the earliest next visit of what was put out since a layer was fetched ahead */
    uint64_t seed, draws;
    struct np_error err;
};

static uint32_t draw(struct world *w, uint32_t below)
{
    struct np_draw_key key = np_draw_key(w->seed, NP_DRAW_SUBNET, 7, 7, 7);
    return (uint32_t)np_philox_below(np_draw(key, w->draws++, 0), below);
}

static void open_world(struct world *w, uint64_t seed, uint64_t capacity, uint64_t equal)
{
    uint64_t largest = 0, total = 0;
    *w = (struct world){.seed = seed, .at = -1, .least_out = VISITS};
    for (int l = 0; l < LAYERS; l++) {
        w->bytes[l] = equal ? equal : draw(w, 5) == 0 ? 0 : 1 + draw(w, 40);
        largest = w->bytes[l] > largest ? w->bytes[l] : largest;
        total += w->bytes[l];
    }
    w->config = (struct np_context_config){FIRST, LAYERS,           w->bytes, capacity,
                                           NULL,  NP_CONTEXT_AHEAD, REACH};
    if (!capacity)
        w->config.capacity = largest + draw(w, (uint32_t)(draw(w, 2) ? total : 2 * largest));
    w->config.policy = (enum np_context_policy)draw(w, 3);
    w->tasks = 1 + draw(w, MOST_TASKS);
    for (int s = 0; s < STEPS; s++) /* a layer once a step */
        for (int i = 0; i < PER_STEP; i++)
            w->subnet[s][i] =
                FIRST + (uint32_t)i * (LAYERS / PER_STEP) + draw(w, LAYERS / PER_STEP);
}

static void start(struct world *w)
{
    ck_assert_int_eq(np_context_new(&w->context, &w->config, &w->err), NP_OK);
}

static uint32_t visit_layer(const struct world *w, int visit)
{
    int i = visit % PER_STEP;
    return w->subnet[visit / (2 * PER_STEP)][visit / PER_STEP % 2 ? PER_STEP - 1 - i : i];
}

/* The first visit of the layer from this one on. */
static int next_visit(const struct world *w, uint32_t layer, int visit)
{
    while (visit < VISITS && visit_layer(w, visit) != layer)
        visit++;
    return visit;
}

/* What is fetched ahead is needed sooner than what it puts out. */
static void check_order(struct world *w, uint32_t layer, bool in)
{
    if (w->at < 0 || w->wanted)
        return;
    int next = next_visit(w, layer, w->more ? w->at : w->at + 1);
    if (in) {
        ck_assert_int_le(next, w->least_out);
        w->least_out = VISITS;
    } else if (next < w->least_out) {
        w->least_out = next;
    }
}

static void check_start(struct world *w, const struct np_copy *copy)
{
    struct held *h = &w->held[copy->layer - FIRST];
    bool in = copy->kind == NP_COPY_MAKE || copy->kind == NP_COPY_FETCH;
    ck_assert(!h->in_use);
    check_order(w, copy->layer, in);
    for (int i = 0; i < w->copies; i++)
        ck_assert_uint_ne(w->under_way[i].layer, copy->layer);
    ck_assert_uint_gt(w->bytes[copy->layer - FIRST], 0);
    ck_assert(h->here == !in);
    if (in) {
        w->used += w->bytes[copy->layer - FIRST];
        ck_assert_uint_le(w->used, w->config.capacity);
        ck_assert_uint_eq(h->saved, h->version);
        ck_assert_msg(w->config.policy == NP_CONTEXT_AHEAD || copy->layer == w->wanted,
                      "layer %u is fetched, nobody wants it", copy->layer);
    }
    if (copy->kind == NP_COPY_MAKE)
        ck_assert_uint_eq(h->version, 0);
    if (copy->kind == NP_COPY_FETCH)
        ck_assert_uint_gt(h->version, 0);
    if (copy->kind == NP_COPY_DROP)
        ck_assert_uint_eq(h->there, h->saved);
    if (copy->kind == NP_COPY_WRITE)
        ck_assert_uint_gt(h->there, h->saved);
}

static void finish_one(struct world *w, int i)
{
    struct np_copy copy = w->under_way[i];
    struct held *h = &w->held[copy.layer - FIRST];
    w->under_way[i] = w->under_way[--w->copies];
    switch (copy.kind) {
    case NP_COPY_MAKE:
    case NP_COPY_FETCH:
        h->here = true;
        h->there = h->saved;
        break;
    case NP_COPY_WRITE:
        h->saved = h->there;
        /* fall through */
    case NP_COPY_DROP:
        h->here = false;
        w->used -= w->bytes[copy.layer - FIRST];
    }
    np_context_copied(w->context, &copy);
}

/* One thing happens to the copy queue; false if there is nothing to do. */
static bool turn(struct world *w)
{
    bool may_start = w->copies < UNDER_WAY;
    struct np_copy copy;
    if (may_start && (w->copies == 0 || draw(w, 2)) && np_context_next(w->context, &copy)) {
        check_start(w, &copy);
        w->under_way[w->copies++] = copy;
        return true;
    }
    if (w->copies == 0)
        return false;
    finish_one(w, (int)draw(w, (uint32_t)w->copies));
    return true;
}

static void enter(struct world *w, uint32_t layer, uint64_t step, enum np_context_pass pass)
{
    struct held *h = &w->held[layer - FIRST];
    int turns = 0;
    while (!np_context_enter(w->context, layer, step, pass)) {
        w->wanted = layer;
        ck_assert_msg(turn(w), "layer %u of step %llu: nobody brings it", layer,
                      (unsigned long long)step);
        ck_assert_msg(++turns < 1000, "layer %u of step %llu never comes", layer,
                      (unsigned long long)step);
    }
    w->wanted = 0;
    ck_assert(w->bytes[layer - FIRST] == 0 || h->here);
    ck_assert(w->bytes[layer - FIRST] == 0 || h->there == h->version);
    h->in_use = w->bytes[layer - FIRST] > 0;
}

static void leave(struct world *w, uint32_t layer, bool updated)
{
    struct held *h = &w->held[layer - FIRST];
    h->in_use = false;
    if (updated && w->bytes[layer - FIRST])
        h->there = ++h->version;
    np_context_leave(w->context, layer, updated);
}

static void expect(struct world *w, uint64_t step)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < PER_STEP; i++)
            ck_assert_int_eq(np_context_expect(w->context,
                                               w->subnet[step][pass ? PER_STEP - 1 - i : i], step,
                                               (enum np_context_pass)pass,
                                               (1 + (uint32_t)pass) * w->tasks, &w->err),
                             NP_OK);
}

/* The tasks of a step: forward, then backward-input and backward-weight. */
static void run_step(struct world *w, uint64_t step, int idle)
{
    for (uint32_t t = 0; t < 3 * w->tasks * PER_STEP; t++) {
        uint32_t pass = t < w->tasks * PER_STEP ? 0 : 1;
        uint32_t in_pass = t - pass * w->tasks * PER_STEP, each = (1 + pass) * w->tasks;
        uint32_t i = in_pass / each;
        w->more = in_pass % each != each - 1;
        if (w->at >= 0)
            w->at = (int)(2 * PER_STEP * step + PER_STEP * pass + i);
        uint32_t layer = w->subnet[step][pass ? PER_STEP - 1 - i : i];
        enter(w, layer, step, (enum np_context_pass)pass);
        for (int k = 0; k < idle && turn(w); k++) /* copies while the task runs */
            ;
        leave(w, layer, pass == 1 && in_pass % each == each - 1);
        for (int k = 0; k < idle && turn(w); k++)
            ;
    }
}

static void close_world(struct world *w)
{
    np_context_free(w->context);
}

START_TEST(random_worlds)
{
    struct world w;
    uint64_t known = 0;
    open_world(&w, (uint64_t)_i + 1, 0, 0);
    start(&w);
    uint64_t ahead = draw(&w, 3) ? draw(&w, 12) : 0, surprise = draw(&w, 2);
    for (uint64_t s = 0; s < STEPS; s++) {
        for (; known < STEPS && known <= s + ahead; known++)
            if (known > s || !surprise)
                expect(&w, known);
        if (draw(&w, 10) == 0) { /* an evaluation */
            enter(&w, FIRST + draw(&w, LAYERS), NP_NO_STEP, NP_CONTEXT_FORWARD);
            for (uint32_t l = 0; l < LAYERS; l++)
                if (w.held[l].in_use)
                    leave(&w, FIRST + l, false);
        }
        run_step(&w, s, (int)draw(&w, 4));
    }
    close_world(&w);
}
END_TEST

/* With room for a few steps, time to copy and all steps known, nothing is ever missed. */
START_TEST(foretold_layers_are_there)
{
    struct world w;
    open_world(&w, (uint64_t)_i + 1, 4 * PER_STEP, 1);
    w.config.policy = NP_CONTEXT_AHEAD;
    start(&w);
    for (uint64_t s = 0; s < STEPS; s++)
        expect(&w, s);
    while (turn(&w))
        ;
    for (uint64_t s = 0; s < STEPS; s++)
        run_step(&w, s, 100);
    struct np_context_sums sums = np_context_sums(w.context);
    ck_assert_uint_eq(sums.hits, VISITS);
    ck_assert_uint_eq(sums.late + sums.misses, 0);
    close_world(&w);
}
END_TEST

/* Misses of Belady's rule over the same visits, with layers of one byte: by looking at the future
 * anew each time. */
static uint64_t least_misses(const struct world *w)
{
    bool here[LAYERS] = {false};
    uint64_t misses = 0, used = 0;
    for (int v = 0; v < VISITS; v++) {
        uint32_t layer = visit_layer(w, v) - FIRST;
        int furthest = -1, victim = -1;
        if (here[layer])
            continue;
        misses++;
        for (int l = 0; used == w->config.capacity && l < LAYERS; l++) {
            int next = here[l] ? next_visit(w, FIRST + (uint32_t)l, v + 1) : -1;
            if (next > furthest) {
                furthest = next;
                victim = l;
            }
        }
        if (victim >= 0)
            here[victim] = false;
        else
            used++;
        here[layer] = true;
    }
    return misses;
}

/* The same with the layer that was used longest ago. */
static uint64_t lru_misses(const struct world *w)
{
    int used_at[LAYERS] = {0};
    uint64_t misses = 0, used = 0;
    for (int v = 0; v < VISITS; v++) {
        uint32_t layer = visit_layer(w, v) - FIRST, victim = LAYERS;
        misses += used_at[layer] == 0;
        if (used_at[layer] == 0 && used++ == w->config.capacity) {
            for (uint32_t l = 0; l < LAYERS; l++)
                if (used_at[l] && (victim == LAYERS || used_at[l] < used_at[victim]))
                    victim = l;
            used_at[victim] = 0;
            used--;
        }
        used_at[layer] = v + 1;
    }
    return misses;
}

/* Layers brought, which are the misses where they are brought on demand. */
static uint64_t brought(struct world *w, enum np_context_policy policy)
{
    w->config.policy = policy;
    start(w);
    for (uint64_t s = 0; s < STEPS; s++)
        expect(w, s);
    w->at = 0;
    for (uint64_t s = 0; s < STEPS; s++)
        run_step(w, s, policy == NP_CONTEXT_AHEAD ? 100 : 0);
    struct np_context_sums sums = np_context_sums(w->context);
    ck_assert_uint_eq(sums.hits + sums.late + sums.misses, VISITS);
    close_world(w);
    ck_assert(policy == NP_CONTEXT_AHEAD || sums.misses == sums.made + sums.bytes_in);
    return sums.made + sums.bytes_in;
}

START_TEST(eviction_is_optimal)
{
    uint64_t capacity = 1 + (uint64_t)_i % 16;
    struct world w;
    for (int policy = NP_CONTEXT_AHEAD; policy <= NP_CONTEXT_LRU; policy++) {
        open_world(&w, (uint64_t)_i + 1, capacity, 1);
        w.tasks = 1;
        uint64_t expected = policy == NP_CONTEXT_LRU ? lru_misses(&w) : least_misses(&w);
        uint64_t got = brought(&w, (enum np_context_policy)policy);
        /* What is fetched ahead is chosen before the best choice can be known. */
        bool right = policy == NP_CONTEXT_AHEAD ? got <= expected + expected / 6 : got == expected;
        ck_assert_msg(right, "capacity %llu, policy %d: %llu layers brought, not %llu",
                      (unsigned long long)capacity, policy, (unsigned long long)got,
                      (unsigned long long)expected);
    }
}
END_TEST

/* What a checkpoint has put into the stash is fetched, not made. */
START_TEST(stored_layers_are_fetched)
{
    struct world w;
    struct np_copy copy;
    open_world(&w, 3, LAYERS, 1);
    start(&w);
    np_context_stored(w.context, FIRST + 2);
    ck_assert(!np_context_enter(w.context, FIRST + 2, 0, NP_CONTEXT_FORWARD));
    ck_assert(np_context_next(w.context, &copy));
    ck_assert_int_eq(copy.kind, NP_COPY_FETCH);
    ck_assert(!np_context_enter(w.context, FIRST + 2, 0, NP_CONTEXT_FORWARD));
    np_context_copied(w.context, &copy);
    ck_assert(np_context_may_wait(w.context, FIRST + 2));
    ck_assert(np_context_enter(w.context, FIRST + 2, 0, NP_CONTEXT_FORWARD));
    struct np_context_sums sums = np_context_sums(w.context);
    ck_assert_uint_eq(sums.misses, 1);
    ck_assert_uint_eq(sums.bytes_in, 1);
    close_world(&w);
}
END_TEST

/* A context of 8 equal layers, with room for some, that is told of the first `visits` of them, a
 * step each. */
static struct np_context *told_context(uint64_t room, uint32_t visits, struct np_error *err)
{
    static const uint64_t bytes[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const struct np_context_config config = {FIRST, 8, bytes, room, NULL, NP_CONTEXT_AHEAD, REACH};
    struct np_context *c;
    ck_assert_int_eq(np_context_new(&c, &config, err), NP_OK);
    for (uint32_t i = 0; i < visits; i++)
        ck_assert_int_eq(np_context_expect(c, FIRST + i, i, NP_CONTEXT_FORWARD, 1, err), NP_OK);
    return c;
}

static void expect_copy(struct np_context *c, enum np_copy_kind kind, uint32_t layer)
{
    struct np_copy copy;
    ck_assert(np_context_next(c, &copy));
    ck_assert_int_eq(copy.kind, kind);
    ck_assert_uint_eq(copy.layer, layer);
    np_context_copied(c, &copy);
}

static void expect_no_copy(struct np_context *c)
{
    struct np_copy copy;
    ck_assert(!np_context_next(c, &copy));
}

/* As many visits as the distance beyond the last that began, with room for more. */
START_TEST(fetched_no_further_than_the_distance)
{
    struct np_error err;
    struct np_context *c = told_context(8, 8, &err);
    for (uint32_t i = 0; i < REACH; i++)
        expect_copy(c, NP_COPY_MAKE, FIRST + i);
    expect_no_copy(c);
    for (uint32_t i = 0; i + REACH < 8; i++) {
        ck_assert(np_context_enter(c, FIRST + i, i, NP_CONTEXT_FORWARD));
        expect_copy(c, NP_COPY_MAKE, FIRST + i + REACH);
        expect_no_copy(c);
        np_context_leave(c, FIRST + i, false);
        expect_no_copy(c);
    }
    np_context_free(c);
}
END_TEST

/* What a task that was not foretold puts out, is fetched again before its visit. */
START_TEST(put_out_and_fetched_again)
{
    struct np_error err;
    struct np_context *c = told_context(REACH, REACH, &err);
    const uint32_t last = FIRST + REACH - 1, other = FIRST + REACH;
    for (uint32_t i = 0; i < REACH; i++)
        expect_copy(c, NP_COPY_MAKE, FIRST + i);
    expect_no_copy(c);
    ck_assert(!np_context_enter(c, other, NP_NO_STEP, NP_CONTEXT_FORWARD));
    expect_copy(c, NP_COPY_DROP, last);
    expect_copy(c, NP_COPY_MAKE, other);
    ck_assert(np_context_enter(c, other, NP_NO_STEP, NP_CONTEXT_FORWARD));
    expect_no_copy(c);
    np_context_leave(c, other, false);
    expect_copy(c, NP_COPY_DROP, other);
    expect_copy(c, NP_COPY_MAKE, last);
    expect_no_copy(c);
    np_context_free(c);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("context");
    TCase *tests = suite_case(suite, "context");
    tcase_add_loop_test(tests, random_worlds, 0, tests_are_full() ? 400 : 100);
    tcase_add_loop_test(tests, foretold_layers_are_there, 0, 8);
    tcase_add_loop_test(tests, eviction_is_optimal, 0, 32);
    tcase_add_test(tests, stored_layers_are_fetched);
    tcase_add_test(tests, fetched_no_further_than_the_distance);
    tcase_add_test(tests, put_out_and_fetched_again);
    return suite_run(suite);
}
