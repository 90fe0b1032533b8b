/* Checks of whole vectors: nothing within a block is reported, a byte beyond it is. */
#include <check.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "suite.h"

enum { BLOCK = 203, REPORTED = 1 };

void __asan_loadN(uintptr_t address, size_t size);
void __asan_storeN(uintptr_t address, size_t size);

static const struct {
    void (*check)(uintptr_t address, size_t size);
    size_t size;
} checks[] = {
    {__asan_loadN, 1},  {__asan_loadN, 8},  {__asan_loadN, 32},  {__asan_loadN, 36},
    {__asan_loadN, 64}, {__asan_loadN, 72}, {__asan_storeN, 32}, {__asan_storeN, 64},
};

#define CHECKS ((int)(sizeof checks / sizeof *checks))

/* Of a test's own process, and never lost: a leak would be reported, too. */
static uintptr_t block;

static void new_block(void)
{
    block = (uintptr_t)malloc(BLOCK);
    ck_assert_uint_ne(block, 0);
}

/* The check of the bytes from `at` on of the block. */
static void check(int number, ptrdiff_t at)
{
    checks[number].check(block + (uintptr_t)at, checks[number].size);
}

START_TEST(within_a_block)
{
    for (size_t at = 0; at + checks[_i].size <= BLOCK; at++)
        check(_i, (ptrdiff_t)at);
}
END_TEST

static void silence(void)
{
    const int null = open("/dev/null", O_WRONLY);
    ck_assert_int_ge(dup2(null, STDERR_FILENO), 0);
}

START_TEST(a_byte_beyond)
{
    silence();
    check(_i, BLOCK + 1 - (ptrdiff_t)checks[_i].size);
}
END_TEST

START_TEST(a_byte_before)
{
    silence();
    check(_i, -1);
}
END_TEST

START_TEST(a_block_no_more)
{
    silence();
    free((void *)block);
    check(_i, 64);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wide");
    TCase *all = suite_case(suite, "all");
    tcase_add_checked_fixture(all, new_block, NULL);
    tcase_add_loop_test(all, within_a_block, 0, CHECKS);
    tcase_add_loop_exit_test(all, a_byte_beyond, REPORTED, 0, CHECKS);
    tcase_add_loop_exit_test(all, a_byte_before, REPORTED, 0, CHECKS);
    tcase_add_loop_exit_test(all, a_block_no_more, REPORTED, 0, CHECKS);
    return suite_run_apart(suite);
}
