/* What is made durable, and in which order. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "durable_calls.h"
#include "io/file.h"
#include "io/store.h"
#include "suite.h"

static struct np_error err;

/* What was called since the last time, paths by their last part, and what is written aside so. */
static const char *told(void)
{
    static char text[4096];
    char *rest = durable_calls, *call;
    size_t used = 0;
    text[0] = '\0';
    while ((call = strtok_r(rest, ";", &rest)) && call[1]) {
        const char *name = strrchr(call, '/'), *path = strrchr(call, ' ');
        name = name ? name + 1 : path + 1;
        used += (size_t)snprintf(text + used, sizeof text - used, "%.*s %s;", (int)(path - call),
                                 call, strncmp(name, ".np-", 4) == 0 ? "aside" : name);
    }
    durable_calls[0] = '\0';
    return text;
}

static void enter(void)
{
    suite_enter();
    ck_assert_int_eq(np_file_make_dir("objects", &err), NP_OK);
    told();
}

START_TEST(a_file_before_its_name_before_its_directory)
{
    char wanted[128];
    ck_assert_int_eq(np_file_write("objects/x", "x", 1, &err), NP_OK);
    ck_assert_str_eq(told(), "sync aside; rename x; sync objects;");
    ck_assert_int_eq(np_file_make_dir("made", &err), NP_OK);
    snprintf(wanted, sizeof wanted, "sync %s;", strrchr(suite_directory(), '/') + 1);
    ck_assert_str_eq(told(), wanted);
    ck_assert_int_eq(np_file_ensure_dir("ensured", &err), NP_OK);
    ck_assert_str_eq(told(), wanted);
}
END_TEST

START_TEST(objects_and_their_directories)
{
    struct np_store store;
    struct np_digest digest;
    struct np_digest_hex hex;
    char wanted[256];
    ck_assert_int_eq(np_store_init(&store, "objects", &err), NP_OK);
    ck_assert_int_eq(np_store_put(&store, &digest, "x", 1, &err), NP_OK);
    hex = np_digest_hex(&digest);
    snprintf(wanted, sizeof wanted, "sync aside; rename %s;", hex.s + 2);
    ck_assert_str_eq(told(), wanted);
    ck_assert_int_eq(np_store_sync(&store, &err), NP_OK);
    snprintf(wanted, sizeof wanted, "sync %.2s; sync objects;", hex.s);
    ck_assert_str_eq(told(), wanted);
    ck_assert_int_eq(np_store_sync(&store, &err), NP_OK);
    ck_assert_str_eq(told(), "");
    np_store_clear(&store);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("durable");
    TCase *tests = suite_case(suite, "durable");
    tcase_add_checked_fixture(tests, enter, suite_leave);
    tcase_add_test(tests, a_file_before_its_name_before_its_directory);
    tcase_add_test(tests, objects_and_their_directories);
    return suite_run_apart(suite);
}
