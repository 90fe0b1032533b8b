/* The balanced cut against all cuts that the rule allows. */
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "num/philox.h"
#include "sched/balance.h"
#include "suite.h"

enum { MOST_POSITIONS = 10, MOST_STAGES = 5 };

/* A random pipeline, the loads of a step, and what its best cut comes to. */
struct trial {
    uint64_t seed, drawn;
    int home[MOST_STAGES + 1];
    float load[MOST_POSITIONS];
    struct np_balance balance;
    int cut[MOST_STAGES + 1];
    float best;
    int moves;
};

static uint32_t draw(struct trial *t, uint32_t below)
{
    struct np_draw_key key = np_draw_key(t->seed, NP_DRAW_DELAY, 0, 0, 0);
    return (uint32_t)np_philox_below(np_draw(key, 0, t->drawn++), below);
}

static void open_trial(struct trial *t, uint64_t seed)
{
    memset(t, 0, sizeof *t);
    t->seed = seed;
    t->balance = (struct np_balance){.positions = 1 + (int)draw(t, MOST_POSITIONS),
                                     .stages = 1 + (int)draw(t, MOST_STAGES),
                                     .stage_first = t->home,
                                     .unit = 1 + (int)draw(t, 3)};
    t->balance.reach = (int)draw(t, 1 + (uint32_t)t->balance.positions);
    for (int k = 1; k < t->balance.stages; k++) { /* some homes may be empty */
        int left = t->balance.positions - t->home[k - 1];
        t->home[k] = t->home[k - 1] + (int)draw(t, 1 + (uint32_t)left);
    }
    t->home[t->balance.stages] = t->balance.positions;
    for (int p = 0; p < t->balance.positions; p++)
        t->load[p] = (float)draw(t, 6);
}

static int stage_of(const int *begins, int position)
{
    int stage = 0;
    while (begins[stage + 1] <= position)
        stage++;
    return stage;
}

/* The rule, position by position. */
static bool is_allowed(const struct trial *t, const int *begins)
{
    const struct np_balance *b = &t->balance;
    int last = b->positions - 1;
    for (int k = 0; k <= b->stages; k++)
        if (abs(begins[k] - t->home[k]) > b->reach)
            return false;
    for (int p = 0; p <= last; p++) {
        int home = stage_of(t->home, p), stage = stage_of(begins, p);
        int unit = p - (p - t->home[home]) % b->unit;
        if (abs(stage - home) > 1 || stage != stage_of(begins, unit))
            return false;
    }
    return stage_of(begins, 0) == stage_of(t->home, 0) &&
           stage_of(begins, last) == stage_of(t->home, last);
}

static float largest_load(const struct trial *t, const int *begins)
{
    float largest = 0;
    for (int k = 0; k < t->balance.stages; k++) {
        float load = 0;
        for (int p = begins[k]; p < begins[k + 1]; p++)
            load += t->load[p];
        largest = load > largest ? load : largest;
    }
    return largest;
}

static int moves_of(const struct trial *t, const int *begins)
{
    int moves = 0;
    for (int k = 0; k < t->balance.stages; k++)
        moves += abs(begins[k] - t->home[k]);
    return moves;
}

/* Tries all cuts that begin with boundaries 0 .. stage-1. */
static void try_all(struct trial *t, int stage)
{
    float largest;
    if (stage < t->balance.stages) {
        for (t->cut[stage] = t->cut[stage - 1]; t->cut[stage] <= t->balance.positions;
             t->cut[stage]++)
            try_all(t, stage + 1);
        return;
    }
    t->cut[stage] = t->balance.positions;
    if (!is_allowed(t, t->cut))
        return;
    largest = largest_load(t, t->cut);
    if (t->best < 0 || largest < t->best ||
        (largest <= t->best && moves_of(t, t->cut) < t->moves)) {
        t->best = largest;
        t->moves = moves_of(t, t->cut);
    }
}

START_TEST(no_cut_near_home_is_better)
{
    struct trial t;
    for (uint64_t seed = 0; seed < 60; seed++) {
        uint16_t begins[MOST_STAGES + 1];
        int cut[MOST_STAGES + 1];
        void *scratch;
        open_trial(&t, 60 * (uint64_t)_i + seed);
        t.best = -1;
        try_all(&t, 1);
        scratch = malloc(np_balance_scratch(&t.balance));
        np_balance_cut(&t.balance, begins, t.load, scratch);
        free(scratch);
        for (int k = 0; k <= t.balance.stages; k++)
            cut[k] = begins[k];
        ck_assert_msg(is_allowed(&t, cut), "seed %llu", (unsigned long long)t.seed);
        ck_assert_msg(largest_load(&t, cut) <= t.best && moves_of(&t, cut) == t.moves,
                      "seed %llu: %g with %d moves, not %g with %d", (unsigned long long)t.seed,
                      (double)largest_load(&t, cut), moves_of(&t, cut), (double)t.best, t.moves);
    }
}
END_TEST

START_TEST(the_range_of_a_stage_is_what_its_cuts_reach)
{
    static const int home[] = {0, 4, 6, 12};
    struct np_balance balance = {12, 3, home, 1, 3};
    int first, end;
    np_balance_range(&balance, 0, &first, &end);
    ck_assert_int_eq(first, 0);
    ck_assert_int_eq(end, 6); /* no further than the home of stage 1 */
    np_balance_range(&balance, 1, &first, &end);
    ck_assert_int_eq(first, 1);
    ck_assert_int_eq(end, 9);
    balance.reach = 9;
    np_balance_range(&balance, 1, &first, &end);
    ck_assert_int_eq(first, 1); /* position 0 stays, and so does 11 */
    ck_assert_int_eq(end, 11);
    balance.reach = 3;
    balance.unit = 2;
    np_balance_range(&balance, 1, &first, &end);
    ck_assert_int_eq(first, 2);
    ck_assert_int_eq(end, 8);
    balance.reach = 0;
    np_balance_range(&balance, 1, &first, &end);
    ck_assert_int_eq(first, 4);
    ck_assert_int_eq(end, 6);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("balance");
    TCase *tests = suite_case(suite, "cut");
    tcase_add_loop_test(tests, no_cut_near_home_is_better, 0, 10);
    tcase_add_test(tests, the_range_of_a_stage_is_what_its_cuts_reach);
    return suite_run(suite);
}
