#include "data_files.h"

#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "suite.h"

/* Written once, before any test runs. */
static char directory[] = "/tmp/np-data-XXXXXX";
static char shared[PATH_MAX];
static char *names[] = {"a", "b", "c", "d"};

int data_files_run(Suite *suite)
{
    const char *path = getenv("NP_TEST_DATA");
    if (!realpath(path ? path : "../shared/data", shared))
        shared[0] = '\0';
    return suite_run_in(suite, directory);
}

bool data_files_shared(char out[PATH_MAX], const char *name)
{
    int length = snprintf(out, PATH_MAX, "%s/%s", shared, name);
    return shared[0] && length < PATH_MAX && access(out, R_OK) == 0;
}

struct np_recipe data_files_recipe(enum np_input_kind input, int vocab, int length)
{
    return (struct np_recipe){
        .directory = directory, .input = input, .vocab = vocab, .length = length};
}

struct np_data_spec data_files_spec(enum np_data_kind kind, int file_count)
{
    struct np_data_spec spec = {
        .given = true, .kind = kind, .file_count = file_count, .files = names, .part = {0.0, 1.0}};
    for (int c = 0; c < NP_MAX_IMAGE_CHANNELS; c++)
        spec.std[c] = 1.0;
    return spec;
}

struct np_data *data_files_open(const struct np_recipe *recipe, const struct np_data_spec *spec)
{
    struct np_data *data = NULL;
    struct np_error err = {.msg = ""};
    enum np_status status = np_data_open(&data, recipe, spec, NULL, &err);
    ck_assert_msg(status == NP_OK, "%s", err.msg);
    return data;
}

void data_files_refused(const struct np_recipe *recipe, const struct np_data_spec *spec,
                        enum np_status status, const char *message)
{
    struct np_data *data = NULL;
    struct np_error err = {.msg = ""};
    char plain[sizeof err.msg], *at;
    size_t prefix = strlen(directory) + 1;
    ck_assert_int_eq(np_data_open(&data, recipe, spec, NULL, &err), status);
    ck_assert_ptr_null(data);
    memcpy(plain, err.msg, sizeof plain);
    while ((at = strstr(plain, directory)))
        memmove(at, at + prefix, strlen(at + prefix) + 1);
    ck_assert_str_eq(plain, message);
}
