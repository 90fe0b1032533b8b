/* Data files that a test writes into a directory of its own, and np_data opened on them. */
#ifndef NP_TEST_DATA_FILES_H
#define NP_TEST_DATA_FILES_H

#include <check.h>
#include <limits.h>

#include "data/data.h"

/* suite_run_in a directory for such files. */
int data_files_run(Suite *suite);

/* The path of a real file under $NP_TEST_DATA (../shared/data); false if it is not there. */
bool data_files_shared(char out[PATH_MAX], const char *name);

/* A recipe that only names where files are; a spec of files "a", "b", "c", ... in order. */
struct np_recipe data_files_recipe(enum np_input_kind input, int vocab, int length);
struct np_data_spec data_files_spec(enum np_data_kind kind, int file_count);

/* Opens, or fails the test. */
struct np_data *data_files_open(const struct np_recipe *recipe, const struct np_data_spec *spec);

/* Opening fails with this status and message (written without the directory). */
void data_files_refused(const struct np_recipe *recipe, const struct np_data_spec *spec,
                        enum np_status status, const char *message);

#endif
