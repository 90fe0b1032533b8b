/* The barrier: what a member wrote before a meeting is seen by all after it. */
#include <check.h>

#include "suite.h"
#include "team_run.h"

enum {
    ROUNDS = 2000,
    MEMBERS = 6 /* more than the cores of a small machine: some of them sleep */
};

struct board {
    int written[2][8];
    int wrong[8];
};

/* Some milliseconds: whoever waits for them falls asleep. */
static void linger(void)
{
    for (volatile int i = 0; i < 5000000; i++)
        ;
}

/* Plain variables: under -fsanitize=thread a barrier that orders nothing is reported as a race. */
static void rounds(struct np_team *team, void *arg)
{
    struct board *b = arg;
    for (int round = 0; round < ROUNDS; round++) {
        int *row = b->written[round % 2];
        row[team->rank] = round + team->rank;
        if (round % 500 == 10 * team->rank)
            linger();
        np_team_wait(team);
        for (int i = 0; i < team->size; i++)
            b->wrong[team->rank] += row[i] != round + i;
    }
}

START_TEST(meetings)
{
    struct board board = {{{0}}, {0}};
    team_run(_i, 64, rounds, &board);
    for (int i = 0; i < _i; i++)
        ck_assert_int_eq(board.wrong[i], 0);
}
END_TEST

START_TEST(shares)
{
    for (int size = 1; size <= 5; size++)
        for (size_t count = 0; count < 70; count++) {
            size_t next = 0;
            for (int rank = 0; rank < size; rank++) {
                struct np_team team = {.rank = rank, .size = size};
                struct np_share s = np_team_share(&team, count, 8);
                ck_assert_uint_eq(s.begin, next);
                ck_assert(s.begin % 8 == 0 || s.begin == count);
                next = s.end;
            }
            ck_assert_uint_eq(next, count);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("team");
    TCase *tests = suite_case(suite, "team");
    tcase_add_loop_test(tests, meetings, 1, MEMBERS + 1);
    tcase_add_test(tests, shares);
    return suite_run(suite);
}
