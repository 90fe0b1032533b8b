/* The scheduler in every order in which anything can happen: of small pipelines, all streams of
 * subnets, and all interleavings of steps that become known, tasks that devices take, tasks that
 * end, and outputs that arrive. The rule checker follows each; each comes to an end with all steps
 * complete; and what a device is given depends on what has happened, not on its order.
 *
 * States are told apart by what has happened. Those that were there before are not gone on from;
 * the scheduler cannot be copied, so others are reached by all events that lead there again. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sched/rule.h"
#include "sched/sched.h"
#include "suite.h"
#include "team_run.h"

enum { DEVICES = 4, POSITIONS = 4, TASKS = 128, EVENTS = 5 * TASKS, WORDS = TASKS / 64 };

enum event_kind { KNOWN, TAKEN, ENDED, ARRIVED, EVENT_KINDS };

/* Which step's push, device, running task or travelling output, by number. */
struct event {
    enum event_kind kind;
    int which;
};

/* What has happened, task by task; an output is the task that waits for it. */
struct state {
    uint64_t known, taken[WORDS], ended[WORDS], arrived[WORDS];
};

/* Of a state: for each device the task that it was given, 0: none, with 1 added. */
struct place {
    struct state state;
    uint8_t offers[DEVICES];
    bool used;
};

/* What a task's end has let begin, and what was offered before it. */
struct woken {
    int first, last;
    uint64_t completed;
    const uint8_t *before;
};

struct pipeline {
    const char *name;
    struct np_sched_config config;
    int steps, ahead; /* tasks that a device may have taken */
};

struct search {
    const struct pipeline *p;
    struct np_sched_config config;
    struct np_sched *sched;
    struct np_rule *rule;
    uint16_t choices[8][2 * POSITIONS]; /* of each step */
    struct state state;
    struct np_task running[2 * DEVICES], travelling[TASKS];
    int running_count, travelling_count, busy[DEVICES];
    struct event path[EVENTS];
    int depth;
    struct place *places; /* by open addressing */
    size_t room, count, ends;
};

static const uint32_t layer_first[] = {0, 1, 3, 5, 6};
static const enum np_shared_kind kind[] = {NP_SHARED_DELAY, NP_CHOICE, NP_CHOICE, NP_SHARED_DELAY};
static const enum np_shared_kind frozen[] = {NP_SHARED_FROZEN, NP_CHOICE, NP_CHOICE,
                                             NP_SHARED_FROZEN};
static const struct np_layer_cost cost[] = {{1, 1, 1}, {1, 2, 1}, {5, 5, 2},
                                            {2, 1, 1}, {1, 1, 4}, {1, 1, 1}};
static const bool weightless[6], identity[6] = {[2] = true};
static const uint32_t whole[] = {0, 1, 1, 3, 3, 5};
static const int halves[] = {0, 2, 4}, thirds[] = {0, 1, 3, 4}, all[] = {0, 4};
static const int one_flight[] = {1, 1, 1};

/* What is not given is 1, of weights as they are, with a window of 3. */
#define PIPELINE(...)                                                                              \
    {                                                                                              \
        .positions = POSITIONS, .layer_first = layer_first, .cost = cost, __VA_ARGS__              \
    }
#define HALVES .kind = kind, .stages = 2, .stage_first = halves

static const struct pipeline pipelines[] = {
    {"two stages", PIPELINE(HALVES), 3, 2},
    {"read two steps late", PIPELINE(HALVES, .delay = 2), 3, 1},
    {"frozen", PIPELINE(.kind = frozen, .stages = 2, .stage_first = halves), 3, 1},
    {"an identity", PIPELINE(HALVES, .weightless = identity), 3, 1},
    {"parts of a whole", PIPELINE(HALVES, .whole = whole), 3, 1},
    {"three stages, one flight",
     PIPELINE(.kind = kind, .stages = 3, .stage_first = thirds, .in_flight = one_flight), 3, 1},
    {"units of two", PIPELINE(HALVES, .unit = 2, .lookahead = 1, .window = 2), 3, 2},
    {"balanced cuts", PIPELINE(HALVES, .reach = 1), 3, 1},
    {"two micro-batches", PIPELINE(HALVES, .micro_batches = 2, .unit = 2), 2, 1},
    {"two members", PIPELINE(HALVES, .members = 2, .unit = 2), 2, 1},
    {"two members that follow the first",
     PIPELINE(HALVES, .members = 2, .unit = 2, .leads = true, .weights_first = true), 2, 1},
    {"two replicas",
     PIPELINE(.kind = kind, .stages = 1, .stage_first = all, .unit = 4, .replicas = 2,
              .micro_batches = 2),
     2, 1},
    {"two replicas by members",
     PIPELINE(.kind = kind, .stages = 1, .stage_first = all, .unit = 4, .replicas = 2,
              .members = 2),
     2, 2},
};

static void require(const struct search *s, bool condition, const char *what)
{
    if (!condition)
        ck_abort_msg("%s, after %d events: %s", s->p->name, s->depth, what);
}

static void must(const struct search *s, enum np_status status, const struct np_error *err)
{
    require(s, status == NP_OK, err->msg);
}

static int number_of(const struct search *s, const struct np_task *task)
{
    const struct np_sched_config *c = &s->config;
    int flight = ((int)task->step * c->members + task->member) * c->micro_batches + task->micro;
    int number = (flight * 3 + (int)task->kind) * POSITIONS + task->first;
    require(s, number >= 0 && number < TASKS, "too many tasks");
    return number;
}

static void note(uint64_t *words, int task)
{
    words[task / 64] |= (uint64_t)1 << task % 64;
}

static bool push(struct search *s)
{
    const struct np_sched_config *c = &s->config;
    uint64_t step = np_sched_known(s->sched);
    uint16_t layers[2 * POSITIONS];
    struct np_error err;
    if (step == (uint64_t)s->p->steps || !np_sched_wants(s->sched))
        return false;
    np_sched_push(s->sched, s->choices[step]);
    for (int i = 0; i < c->members * POSITIONS; i++) { /* the rule knows layers */
        uint32_t first = layer_first[i % POSITIONS];
        layers[i] = (uint16_t)(np_sched_whole(c, first + s->choices[step][i]) - first);
    }
    must(s, np_rule_push(s->rule, layers, np_sched_stages(s->sched, step), &err), &err);
    s->state.known++;
    return true;
}

static bool take(struct search *s, int device)
{
    struct np_task *task = &s->running[s->running_count];
    struct np_error err;
    if (s->busy[device] == s->p->ahead || !np_sched_next(s->sched, device, task))
        return false;
    require(s, task->device == device, "a task of another device");
    must(s, np_rule_start(s->rule, task, &err), &err);
    note(s->state.taken, number_of(s, task));
    s->busy[device]++;
    s->running_count++;
    return true;
}

static bool end(struct search *s, int which)
{
    struct np_task task = s->running[which], delivery;
    struct np_error err;
    s->running[which] = s->running[--s->running_count];
    s->busy[task.device]--;
    must(s, np_rule_end(s->rule, &task, &err), &err);
    note(s->state.ended, number_of(s, &task));
    if (np_sched_done(s->sched, &task, &delivery))
        s->travelling[s->travelling_count++] = delivery;
    return true;
}

static bool arrive(struct search *s, int which)
{
    struct np_task task = s->travelling[which];
    struct np_error err;
    s->travelling[which] = s->travelling[--s->travelling_count];
    must(s, np_rule_arrived(s->rule, &task, &err), &err);
    note(s->state.arrived, number_of(s, &task));
    np_sched_arrived(s->sched, &task);
    return true;
}

/* False, and nothing has happened, if it cannot. */
static bool happen(struct search *s, const struct event *event)
{
    switch (event->kind) {
    case KNOWN:
        return push(s);
    case TAKEN:
        return take(s, event->which);
    case ENDED:
        return end(s, event->which);
    case ARRIVED:
        return arrive(s, event->which);
    case EVENT_KINDS:
        break;
    }
    return false;
}

static void leave(struct search *s)
{
    np_sched_free(s->sched);
    np_rule_free(s->rule);
}

/* Where the path leads. */
static void follow(struct search *s)
{
    struct np_sched_config layers = s->config;
    struct np_error err;
    layers.whole = NULL;
    leave(s);
    s->state = (struct state){0};
    s->running_count = s->travelling_count = 0;
    memset(s->busy, 0, sizeof s->busy);
    must(s, np_sched_new(&s->sched, &s->config, &err), &err);
    must(s, np_rule_new(&s->rule, &layers, &err), &err);
    for (int i = 0; i < s->depth; i++)
        require(s, happen(s, &s->path[i]), "what happened before cannot again");
}

static size_t hash(const struct state *state)
{
    const uint64_t *words = (const uint64_t *)state;
    uint64_t h = 0;
    for (size_t i = 0; i < sizeof *state / sizeof *words; i++)
        h = (h ^ words[i]) * 0x9E3779B97F4A7C15u ^ h >> 29;
    return (size_t)(h ^ h >> 32);
}

static struct place *find(struct search *s, const struct state *state)
{
    size_t at = hash(state) % s->room;
    while (s->places[at].used && memcmp(&s->places[at].state, state, sizeof *state) != 0)
        at = (at + 1) % s->room;
    return &s->places[at];
}

static void grow(struct search *s)
{
    struct place *old = s->places;
    size_t room = s->room;
    s->room = room ? 2 * room : 1024;
    s->places = calloc(s->room, sizeof *s->places);
    ck_assert_ptr_nonnull(s->places);
    for (size_t i = 0; i < room; i++)
        if (old[i].used)
            *find(s, &old[i].state) = old[i];
    free(old);
}

/* What each device would be given here; leads back here. */
static void see_offers(struct search *s, uint8_t *offers)
{
    for (int d = 0; d < np_sched_devices(&s->config); d++) {
        offers[d] = 0;
        if (!take(s, d))
            continue;
        offers[d] = (uint8_t)(1 + number_of(s, &s->running[s->running_count - 1]));
        follow(s);
    }
}

/* After a task has ended only those that are said to be woken may have something new, and those of
 * position 0, which is on the first stage, if a step is complete. */
static void check_woken(const struct search *s, const struct woken *woken, const uint8_t *offers)
{
    bool complete = np_sched_completed(s->sched) != woken->completed;
    for (int d = 0; d < np_sched_devices(&s->config); d++) {
        bool is =
            (d >= woken->first && d <= woken->last) || (complete && d % s->config.stages == 0);
        require(s, is || !offers[d] || woken->before[d], "a device has work and is not woken");
    }
}

/* True where nobody was before. */
static bool arrive_at(struct search *s, uint8_t *offers, const struct woken *woken)
{
    struct place *place;
    if (2 * s->count >= s->room)
        grow(s);
    see_offers(s, offers);
    if (woken)
        check_woken(s, woken, offers);
    place = find(s, &s->state);
    if (place->used) {
        require(s, memcmp(place->offers, offers, DEVICES) == 0,
                "what is given depends on the order of what has happened");
        return false;
    }
    *place = (struct place){.state = s->state, .used = true};
    memcpy(place->offers, offers, DEVICES);
    s->count++;
    return true;
}

static void finish(struct search *s)
{
    struct np_error err;
    must(s, np_rule_finish(s->rule, (uint64_t)s->p->steps, &err), &err);
    require(s, np_sched_completed(s->sched) == (uint64_t)s->p->steps, "it has come to a stop");
    s->ends++;
}

/* Everything that can happen from here on; `woken` if a task has ended. */
static void explore(struct search *s, const struct woken *woken)
{
    uint8_t offers[DEVICES] = {0};
    const int count[EVENT_KINDS] = {[KNOWN] = 1,
                                    [TAKEN] = np_sched_devices(&s->config),
                                    [ENDED] = s->running_count,
                                    [ARRIVED] = s->travelling_count};
    bool here = true, any = false;
    if (!arrive_at(s, offers, woken))
        return;
    require(s, s->depth < EVENTS, "it does not end");
    for (int k = 0; k < EVENT_KINDS; k++)
        for (int i = 0; i < count[k]; i++) {
            struct event event = {(enum event_kind)k, i};
            struct woken by = {.before = offers};
            if (!here)
                follow(s);
            by.completed = np_sched_completed(s->sched);
            here = !happen(s, &event);
            if (here)
                continue;
            any = true;
            s->path[s->depth++] = event;
            np_sched_woken(s->sched, &by.first, &by.last);
            explore(s, k == ENDED ? &by : NULL);
            s->depth--;
        }
    if (!any)
        finish(s);
}

/* Stream `number` of all there are; false: of fewer. Where candidates differ by their costs alone,
 * the first step has the first ones. */
static bool choose(struct search *s, unsigned number)
{
    const struct np_sched_config *c = &s->config;
    bool alike = !c->whole && c->weightless == weightless;
    memset(s->choices, 0, sizeof s->choices);
    for (int step = 0; step < s->p->steps; step++)
        for (int i = 0; i < c->members * POSITIONS; i++)
            if (kind[i % POSITIONS] == NP_CHOICE && (step > 0 || i >= POSITIONS || !alike)) {
                s->choices[step][i] = number & 1;
                number >>= 1;
            }
    return number == 0;
}

static void set_if_absent(int *field, int value)
{
    *field = *field ? *field : value;
}

static struct np_sched_config config_of(const struct pipeline *p)
{
    struct np_sched_config c = p->config;
    set_if_absent(&c.unit, 1);
    set_if_absent(&c.members, 1);
    set_if_absent(&c.micro_batches, 1);
    set_if_absent(&c.delay, 1);
    set_if_absent(&c.window, 3);
    c.weightless = c.weightless ? c.weightless : weightless;
    return c;
}

START_TEST(every_interleaving)
{
    const struct pipeline *p = &pipelines[_i];
    unsigned apart = tests_are_full() ? 1 : 17;
    size_t states = 0;
    for (unsigned number = 0;; number += apart) {
        struct search s = {.p = p, .config = config_of(p)};
        if (!choose(&s, number))
            break;
        follow(&s);
        explore(&s, NULL);
        leave(&s);
        free(s.places);
        states += s.count;
        ck_assert_msg(s.ends == 1, "%s: %zu ends", p->name, s.ends);
    }
    ck_assert_msg(states > 200, "%s: %zu states", p->name, states);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("interleavings");
    TCase *tests = suite_case(suite, "small pipelines");
    tcase_add_loop_test(tests, every_interleaving, 0, (int)(sizeof pipelines / sizeof *pipelines));
    return suite_run(suite);
}
