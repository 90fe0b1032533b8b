/* Teams: what a member wrote before a meeting is seen by all after it; what is dealt out is worked
 * on once. */
#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "num/device.h"
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

enum { DEALS = 400, ITEMS = 333, UNIT = 4, GROUP = 52 };

struct table {
    int deals[DEALS][ITEMS]; /* how often an item was worked on */
    int bad[8];              /* empty runs, of two groups, or that begin between units */
};

/* Item by item, group by group, or as it was taken. */
static int work(struct np_deal *deal, int *row, int way)
{
    struct np_share some;
    int bad = 0;
    if (way == 0)
        for (size_t i; np_deal_item(deal, &i);)
            row[i]++;
    while (way == 1 ? np_deal_run(deal, GROUP, &some) : np_deal_piece(deal, &some)) {
        bad += some.begin >= some.end || some.begin % UNIT != 0;
        bad += way == 1 && (some.end - 1) / GROUP != some.begin / GROUP;
        for (size_t i = some.begin; i < some.end; i++)
            row[i]++;
    }
    return bad;
}

/* Deal after deal, of all lengths, without a meeting in between. */
static void deals(struct np_team *team, void *arg)
{
    struct table *t = arg;
    for (int d = 0; d < DEALS; d++) {
        struct np_deal deal = np_team_deal(team, (size_t)(d < ITEMS ? d : ITEMS), UNIT);
        t->bad[team->rank] += work(&deal, t->deals[d], d % 3);
    }
}

START_TEST(all_items_once)
{
    struct table *t = calloc(1, sizeof *t);
    team_run(_i, 64, deals, t);
    for (int d = 0; d < DEALS; d++)
        for (int i = 0; i < ITEMS; i++)
            ck_assert_int_eq(t->deals[d][i], i < d);
    for (int i = 0; i < _i; i++)
        ck_assert_int_eq(t->bad[i], 0);
    free(t);
}
END_TEST

/* Member 0 stays at its first item until all that it has not taken is done: by the other. */
static void held(struct np_team *team, void *arg)
{
    atomic_int *done = arg;
    struct np_deal deal = np_team_deal(team, ITEMS, 1);
    np_team_wait(team);
    for (size_t i; np_deal_item(&deal, &i);) {
        int kept = (int)(deal.piece.end - deal.piece.begin);
        atomic_fetch_add(done, 1);
        while (team->rank == 0 && atomic_load(done) < ITEMS - kept)
            sched_yield();
    }
}

START_TEST(others_take_what_is_left)
{
    atomic_int done = 0;
    team_run(2, 64, held, &done);
    ck_assert_int_eq(done, ITEMS);
}
END_TEST

struct fronts {
    bool first[ITEMS]; /* items that the first member took from its own share */
    bool late;         /* at times the others have taken all before it does */
    int wrong[8];
};

/* What the first member takes of its own are the items before the front, in order. */
static void fronts(struct np_team *team, void *arg)
{
    struct fronts *f = arg;
    for (int d = 1; d < ITEMS; d++) {
        struct np_deal deal = np_team_deal(team, (size_t)d, 1);
        size_t next = 0;
        np_team_wait(team);
        if (f->late && team->rank == 0 && d % 32 == 0)
            linger();
        for (size_t i; np_deal_item(&deal, &i);) {
            if (team->rank > 0)
                continue;
            f->first[i] = deal.own;
            f->wrong[0] += deal.own && i != next++;
        }
        np_team_wait(team);
        for (size_t i = 0; i < (size_t)d; i++)
            f->wrong[team->rank] += f->first[i] != (i < np_deal_front(&deal));
        np_team_wait(team);
        for (size_t i = 0; team->rank == 0 && i < (size_t)d; i++)
            f->first[i] = false;
    }
}

START_TEST(front_of_the_first)
{
    for (int late = 0; late < 2; late++) {
        struct fronts f = {.late = late};
        team_run(_i, 64, fronts, &f);
        for (int i = 0; i < _i; i++)
            ck_assert_int_eq(f.wrong[i], 0);
    }
}
END_TEST

static int refused = INT_MAX; /* threads that start before one does not */

/* Stands in for the system's. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*begin)(void *),
                   void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (refused-- == 0)
        return EAGAIN;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, attributes, begin, argument);
}

/* Those that wait for it are not left. */
START_TEST(a_member_that_cannot_start)
{
    for (int size = 2; size <= 6; size++)
        for (int started = 0; started < size - 1; started++) {
            _Alignas(NP_ALIGN) char scratch[6 * NP_ALIGN];
            const struct np_crew_config config = {
                .size = size, .scratch = scratch, .scratch_bytes = NP_ALIGN};
            struct np_crew *crew;
            struct np_error err;
            char message[96];
            refused = started;
            ck_assert_int_eq(np_crew_new(&crew, &np_device_host, &config, &err), NP_EIO);
            snprintf(message, sizeof message, "cannot start thread %d of %d: %s", started + 2, size,
                     strerror(EAGAIN));
            ck_assert_str_eq(err.msg, message);
            refused = INT_MAX;
            ck_assert_int_eq(np_crew_new(&crew, &np_device_host, &config, &err), NP_OK);
            np_crew_free(crew);
        }
}
END_TEST

/* Who helps, and how often an item was worked on. */
struct help {
    int size;
    int items[ITEMS];
};

static void help_member(struct np_team *team, void *arg)
{
    struct help *help = arg;
    struct np_deal deal = np_team_deal(team, ITEMS, 1);
    for (size_t i; np_deal_item(&deal, &i);)
        help->items[i]++;
    if (team->rank == 0)
        help->size = team->size;
}

static void check_help(struct np_crew *crew, int size)
{
    for (int turn = 0; turn < 3; turn++) {
        struct help help = {0};
        np_crew_help(crew, help_member, &help);
        ck_assert_int_eq(help.size, size);
        for (int i = 0; i < ITEMS; i++)
            ck_assert_int_eq(help.items[i], 1);
    }
}

/* On the host the crew helps itself; apart from it, helpers do, or the caller alone. All is done
 * when the call returns. */
START_TEST(helpers_work_on_the_host)
{
    struct np_device_ops apart = *np_device_host.ops;
    const struct np_device device = {.ops = &apart};
    const struct np_crew_config config = {.size = _i};
    struct np_crew *crew;
    ck_assert_int_eq(np_crew_new(&crew, &np_device_host, &config, NULL), NP_OK);
    check_help(crew, _i);
    np_crew_free(crew);
    apart.apart = true;
    ck_assert_int_eq(np_crew_new(&crew, &device, &config, NULL), NP_OK);
    check_help(crew, 1);
    ck_assert_int_eq(np_crew_add_helpers(crew, _i + 1, NULL), NP_OK);
    check_help(crew, _i + 1);
    np_crew_free(crew);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("team");
    TCase *tests = suite_case(suite, "team");
    tcase_add_loop_test(tests, meetings, 1, MEMBERS + 1);
    tcase_add_test(tests, shares);
    tcase_add_loop_test(tests, all_items_once, 1, MEMBERS + 1);
    tcase_add_test(tests, others_take_what_is_left);
    tcase_add_loop_test(tests, front_of_the_first, 1, MEMBERS + 1);
    tcase_add_test(tests, a_member_that_cannot_start);
    tcase_add_loop_test(tests, helpers_work_on_the_host, 1, MEMBERS);
    return suite_run(suite);
}
