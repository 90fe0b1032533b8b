/* The disk on a virtual clock: alone, shared, and with both directions under way. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "sched/disk.h"
#include "suite.h"

enum { MOST = 8 };

static struct np_disk_entry entries[MOST];

static struct np_disk new_disk(void)
{
    return (struct np_disk){.speed = {.read_per_byte = 2, .write_per_byte = 3, .both_per_byte = 5},
                            .entry = entries};
}

/* The next copy that has its bytes is `what`, at that time. */
static void expect(struct np_disk *disk, double time, uint32_t what)
{
    ck_assert_double_eq_tol(np_disk_next(disk), time, 1e-9 * time);
    ck_assert_uint_eq(np_disk_take(disk), what);
}

START_TEST(alone)
{
    struct np_disk disk = new_disk();
    ck_assert(isinf(np_disk_next(&disk)));
    np_disk_add(&disk, 100, 7, 10, false);
    expect(&disk, 120, 7);
    np_disk_add(&disk, 200, 8, 10, true);
    expect(&disk, 230, 8);
    ck_assert(isinf(np_disk_next(&disk)));
}
END_TEST

/* Two reads share from 10 on: the first has 5 bytes left then, 4 bytes a copy take 16. */
START_TEST(shared)
{
    struct np_disk disk = new_disk();
    np_disk_add(&disk, 0, 1, 10, false);
    np_disk_add(&disk, 10, 2, 4, false);
    expect(&disk, 26, 2);
    expect(&disk, 28, 1);
}
END_TEST

/* A write comes beside a read that has 5 bytes left: 5 a byte for each of two; then it is alone. */
START_TEST(both_directions)
{
    struct np_disk disk = new_disk();
    np_disk_add(&disk, 0, 1, 10, false);
    np_disk_add(&disk, 10, 2, 6, true);
    expect(&disk, 60, 1);
    expect(&disk, 63, 2);
}
END_TEST

/* What is equal ends in order of number, and all of it takes as long as the bytes do. */
START_TEST(equals)
{
    struct np_disk disk = new_disk();
    for (uint32_t i = MOST; i-- > 0;)
        np_disk_add(&disk, 0, i, 3, true);
    for (uint32_t i = 0; i < MOST; i++)
        expect(&disk, MOST * 3 * 3, i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("disk");
    TCase *tests = suite_case(suite, "disk");
    tcase_add_test(tests, alone);
    tcase_add_test(tests, shared);
    tcase_add_test(tests, both_directions);
    tcase_add_test(tests, equals);
    return suite_run(suite);
}
