#include "suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Stands in for Check's own, by the linker's --wrap: that one writes the place of every assertion
 * that holds to a file, which takes more time than most of the tests themselves. Failed assertions
 * say where they are; a test that crashes is not followed any closer than its name. */
void __wrap__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line)
{
    (void)file;
    (void)line;
}

TCase *suite_case(Suite *suite, const char *name)
{
    TCase *tests = tcase_create(name);
    tcase_set_timeout(tests, 900);
    suite_add_tcase(suite, tests);
    return tests;
}

static int run(Suite *suite, enum fork_status apart)
{
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, apart);
    srunner_run_all(runner, CK_NORMAL);
    bool passed = srunner_ntests_failed(runner) == 0 && srunner_ntests_run(runner) > 0;
    srunner_free(runner);
    return passed ? EXIT_SUCCESS : EXIT_FAILURE;
}

int suite_run(Suite *suite)
{
    return run(suite, CK_FORK_GETENV);
}

int suite_run_apart(Suite *suite)
{
    return run(suite, CK_FORK);
}

static bool enter(char *directory)
{
    return mkdtemp(directory) && chdir(directory) == 0;
}

static bool leave(const char *directory)
{
    char remove[96];
    snprintf(remove, sizeof remove, "rm -rf '%s'", directory);
    return chdir("/") == 0 && system(remove) == 0;
}

int suite_run_in(Suite *suite, char *directory)
{
    if (!enter(directory))
        return EXIT_FAILURE;
    int result = suite_run(suite);
    return leave(directory) ? result : EXIT_FAILURE;
}

static char fresh[32];

void suite_enter(void)
{
    strcpy(fresh, "/tmp/np-test-XXXXXX");
    ck_assert(enter(fresh));
}

void suite_leave(void)
{
    ck_assert(leave(fresh));
}

const char *suite_directory(void)
{
    return fresh;
}

void suite_write_bytes(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, count, file), count);
    ck_assert_int_eq(fclose(file), 0);
}

void suite_write(const char *path, const char *text)
{
    suite_write_bytes(path, text, strlen(text));
}
