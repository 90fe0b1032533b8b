/* The witness of the version rule says what is wrong: orders that it must not let pass. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "sched/rule.h"
#include "suite.h"

enum { POSITIONS = 3, STEPS = 2 };

/* A shared position, then two choice blocks of two candidates. */
static const uint32_t layer_first[] = {0, 1, 3, 5};
static const struct np_layer_cost cost[5];
static const bool weightless[5];
static const int one_stage[] = {0, 3}, two_stages[] = {0, 2, 3};

struct trial {
    const char *order; /* of tasks: F, B or W, step, position, micro-batch; a: its input arrives;
                        * + behind one: begins only; ! behind a W: updates if it must not, or not */
    const char *wrong; /* what is said of the last one; NULL: nothing */
    int stages, micro_batches, window, delay, in_flight;
    bool frozen;      /* the shared position */
    int last;         /* step that is run; 0: as many as there are */
    int other[STEPS]; /* candidate of the blocks, by step */
};

static const int *firsts(const struct trial *t)
{
    return t->stages == 2 ? two_stages : one_stage;
}

static struct np_rule *open_rule(const struct trial *t)
{
    const enum np_shared_kind kind[] = {t->frozen ? NP_SHARED_FROZEN : NP_SHARED_DELAY, NP_CHOICE,
                                        NP_CHOICE};
    const int in_flight[] = {t->in_flight, t->in_flight};
    const struct np_sched_config config = {.positions = POSITIONS,
                                           .layer_first = layer_first,
                                           .kind = kind,
                                           .delay = t->delay ? t->delay : 1,
                                           .cost = cost,
                                           .weightless = weightless,
                                           .stages = t->stages ? t->stages : 1,
                                           .stage_first = firsts(t),
                                           .unit = 1,
                                           .members = 1,
                                           .micro_batches = t->micro_batches ? t->micro_batches : 1,
                                           .window = t->window ? t->window : STEPS,
                                           .lookahead = STEPS,
                                           .in_flight = in_flight};
    struct np_rule *rule;
    ck_assert_int_eq(np_rule_new(&rule, &config, NULL), NP_OK);
    for (int s = 0; s < STEPS; s++) {
        const uint16_t choices[] = {0, (uint16_t)t->other[s], (uint16_t)t->other[s]};
        const uint16_t stages[] = {0, 0, t->stages == 2};
        ck_assert_int_eq(np_rule_push(rule, choices, stages, NULL), NP_OK);
    }
    if (t->last)
        np_rule_stop_after(rule, (uint64_t)t->last - 1);
    return rule;
}

/* One word of an order. */
static enum np_status follow(struct np_rule *rule, const struct trial *t, const char *word,
                             struct np_error *err)
{
    bool arrives = *word == 'a';
    const char *at = word + arrives;
    int micros = t->micro_batches ? t->micro_batches : 1, micro = at[3] - '0';
    struct np_task task = {.kind = (enum np_task_kind)(strchr("FBW", at[0]) - strchr("FBW", 'F')),
                           .step = (uint64_t)(at[1] - '0'),
                           .first = at[2] - '0',
                           .micro = micro,
                           .count = 1};
    enum np_status status;
    task.stage = task.device = t->stages == 2 && task.first == 2;
    task.opens = task.kind == NP_TASK_W && micro == 0;
    task.updates = task.kind == NP_TASK_W && (micro + 1 == micros) != (at[4] == '!');
    if (arrives)
        return np_rule_arrived(rule, &task, err);
    status = np_rule_start(rule, &task, err);
    return status == NP_OK && at[4] != '+' ? np_rule_end(rule, &task, err) : status;
}

#define FORWARD "F000 F010 F020 "
#define STEP_0 FORWARD "B020 W020 B010 W010 B000 W000 "

static const struct trial trials[] = {
    {.order = STEP_0 "F100 F110 F120 B120 W120 B110 W110 B100 W100"},
    {.order = "F010", .wrong = "its input has not arrived"},
    {.order = "F000 F010 B010", .wrong = "its input has not arrived"},
    {.order = "F000+ F000", .wrong = "it runs twice"},
    {.order = FORWARD "B020 F020", .wrong = "it runs twice"},
    {.order = FORWARD "W020", .wrong = "its backward has not ended"},
    {.order = FORWARD "B020 W020!", .wrong = "opens or updates wrongly"},
    {.order = STEP_0 "F200", .wrong = "the step is not known"},
    {.order = FORWARD "B020 W020 B010 W010 F100", .wrong = "the shared layer has no such version"},
    {.order = FORWARD "B020 W020 B010 F100 F110",
     .wrong = "the layer has another version",
     .delay = 2},
    {.order = FORWARD "B020 W020 B010 W010 F100 F110 F120", .delay = 2},
    {.order = FORWARD "F100 F110 F120", .delay = 2, .other = {0, 1}},
    {.order = FORWARD "F100 F110 F120 B120 B110 B100 B020 B010 B000 W100",
     .wrong = "the layer has another version",
     .delay = 2,
     .other = {0, 1}},
    {.order = FORWARD "F100", .wrong = "the window is full", .delay = 2, .window = 1},
    {.order = STEP_0 "F100", .window = 1},
    {.order = STEP_0 "F100", .wrong = "the step comes after the stop", .last = 1},
    {.order = FORWARD "F100",
     .wrong = "too many flights are at the stage",
     .delay = 2,
     .in_flight = 1},
    {.order = FORWARD "B020 W020 B010 W010 B000 F100",
     .wrong = "too many flights are at the stage",
     .delay = 2,
     .in_flight = 1},
    {.order = FORWARD "F100", .delay = 2, .in_flight = 2},
    {.order = FORWARD "B020 W020 B010 W010 B000 W000",
     .wrong = "there is nothing to learn",
     .frozen = true},
    {.order = "F000 F010 F020", .wrong = "its input has not arrived", .stages = 2},
    {.order = "F000 F010 aF020 F020 B020 B010", .wrong = "its input has not arrived", .stages = 2},
    {.order = "F000 F010 aF020 F020 B020 aB010 B010", .stages = 2},
    {.order = "F000 aF020", .wrong = "its input arrives before it was made", .stages = 2},
    {.order = "F000 F010 aF020 aF020", .wrong = "its input arrives twice", .stages = 2},
    {.order = FORWARD "F001 F011 F021 B021 B020 W021",
     .wrong = "it is not its turn",
     .micro_batches = 2},
    {.order = FORWARD "F001 F011 F021 B021 B020 W020 W021", .micro_batches = 2},
};

START_TEST(orders)
{
    const struct trial *t = &trials[_i];
    struct np_rule *rule = open_rule(t);
    struct np_error err = {.msg = ""};
    char text[256], *rest = text, *word;
    enum np_status status = NP_OK;
    snprintf(text, sizeof text, "%s", t->order);
    while ((word = strtok_r(rest, " ", &rest))) {
        ck_assert_msg(status == NP_OK, "before %s: %s", word, err.msg);
        status = follow(rule, t, word, &err);
    }
    ck_assert_msg(status == (t->wrong ? NP_ENO : NP_OK), "%s: '%s'", t->order, err.msg);
    if (t->wrong)
        ck_assert_msg(strstr(err.msg, t->wrong) != NULL, "%s", err.msg);
    np_rule_free(rule);
}
END_TEST

START_TEST(the_end)
{
    const struct trial t = {.delay = 2};
    struct np_rule *rule = open_rule(&t);
    struct np_error err;
    char order[] = STEP_0, *rest = order, *word;
    while ((word = strtok_r(rest, " ", &rest)))
        ck_assert_int_eq(follow(rule, &t, word, &err), NP_OK);
    ck_assert_int_eq(np_rule_finish(rule, 1, &err), NP_OK);
    ck_assert_int_eq(np_rule_finish(rule, 2, &err), NP_ENO);
    ck_assert_str_eq(err.msg, "step 1 is not complete");
    ck_assert_int_eq(np_rule_finish(rule, 3, &err), NP_ENO);
    ck_assert_int_eq(follow(rule, &t, "F100+", &err), NP_OK);
    ck_assert_int_eq(np_rule_finish(rule, 1, &err), NP_ENO);
    ck_assert_str_eq(err.msg, "1 tasks are still running");
    np_rule_free(rule);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rule");
    TCase *tests = suite_case(suite, "rule");
    tcase_add_loop_test(tests, orders, 0, (int)(sizeof trials / sizeof *trials));
    tcase_add_test(tests, the_end);
    return suite_run(suite);
}
