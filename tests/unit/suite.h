/* What test programs have in common: their main, and files to read. */
#ifndef NP_TEST_SUITE_H
#define NP_TEST_SUITE_H

#include <check.h>
#include <stddef.h>

/* A new case of the suite, with time enough for a slow machine under a sanitizer. */
TCase *suite_case(Suite *suite, const char *name);

/* Runs the suite and frees it. Returns what main returns: 0 if every test passed. */
int suite_run(Suite *suite);

/* The same with every test in a process of its own, also where CK_FORK is no: for tests that end
 * their process, or leave it with another environment or directory. */
int suite_run_apart(Suite *suite);

/* suite_run in a new directory, named after a template of mkdtemp, which is removed afterwards with
 * everything in it. */
int suite_run_in(Suite *suite, char *directory);

/* A fixture: a new directory, to run in, and its removal with everything in it. */
void suite_enter(void);
void suite_leave(void);
/* Its name, whole. */
const char *suite_directory(void);

/* Writes a file, of `count` bytes or of a text. */
void suite_write_bytes(const char *path, const void *bytes, size_t count);
void suite_write(const char *path, const char *text);

#endif
