/* Checks of whole vectors: nothing within a block is reported, a byte beyond it is. */
#include <check.h>
#include <fcntl.h>
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

static uintptr_t new_block(void)
{
    const uintptr_t block = (uintptr_t)malloc(BLOCK);
    ck_assert_uint_ne(block, 0);
    return block;
}

START_TEST(within_a_block)
{
    const uintptr_t block = new_block();
    for (size_t at = 0; at + checks[_i].size <= BLOCK; at++)
        checks[_i].check(block + at, checks[_i].size);
    free((void *)block);
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
    checks[_i].check(new_block() + BLOCK + 1 - checks[_i].size, checks[_i].size);
}
END_TEST

START_TEST(a_byte_before)
{
    silence();
    checks[_i].check(new_block() - 1, checks[_i].size);
}
END_TEST

START_TEST(a_block_no_more)
{
    silence();
    const uintptr_t block = new_block();
    free((void *)block);
    checks[_i].check(block + 64, checks[_i].size);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wide");
    TCase *all = suite_case(suite, "all");
    tcase_add_loop_test(all, within_a_block, 0, CHECKS);
    tcase_add_loop_exit_test(all, a_byte_beyond, REPORTED, 0, CHECKS);
    tcase_add_loop_exit_test(all, a_byte_before, REPORTED, 0, CHECKS);
    tcase_add_loop_exit_test(all, a_block_no_more, REPORTED, 0, CHECKS);
    return suite_run_apart(suite);
}
