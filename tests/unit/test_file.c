#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "suite.h"

static void expect_names(const char *wanted)
{
    struct np_file_names names = {0};
    struct np_error err;
    char text[1000] = "";
    ck_assert_int_eq(np_file_list(&names, ".", &err), NP_OK);
    for (size_t i = 0; i < names.count; i++) {
        strcat(text, names.name[i]);
        strcat(text, " ");
    }
    ck_assert_str_eq(text, wanted);
    np_file_names_clear(&names);
}

START_TEST(test_write_read)
{
    struct np_error err;
    char *bytes;
    size_t size;
    ck_assert_int_eq(np_file_write("a", "one\0two", 7, &err), NP_OK);
    ck_assert_int_eq(np_file_read(&bytes, &size, "a", 7, &err), NP_OK);
    ck_assert(size == 7 && memcmp(bytes, "one\0two", 8) == 0);
    free(bytes);
    ck_assert_int_eq(np_file_read(&bytes, &size, "a", 6, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "'a' is larger than 6 B");
    ck_assert_int_eq(np_file_write("a", "", 0, &err), NP_OK);
    ck_assert_int_eq(np_file_read(&bytes, &size, "a", 0, &err), NP_OK);
    ck_assert(size == 0 && bytes[0] == '\0');
    free(bytes);
    expect_names("a ");
}
END_TEST

/* Who was let in is let in, and nobody else. */
START_TEST(test_modes)
{
    const mode_t modes[] = {0600, 0640, 0604, 0755};
    mode_t before = umask(022);
    struct np_error err;
    struct stat info;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        ck_assert_int_eq(np_file_write("a", "new", 3, &err), NP_OK);
        ck_assert(stat("a", &info) == 0 && (info.st_mode & 07777) == 0644);
        ck_assert(chmod("a", modes[i]) == 0 && link("a", "b") == 0);
        ck_assert_int_eq(np_file_own("a", &err), NP_OK);
        ck_assert(stat("a", &info) == 0 && (info.st_mode & 07777) == modes[i]);
        ck_assert_uint_eq(info.st_nlink, 1);
        ck_assert_int_eq(np_file_write("a", "old", 3, &err), NP_OK);
        ck_assert(stat("a", &info) == 0 && (info.st_mode & 07777) == modes[i]);
        ck_assert(unlink("a") == 0 && unlink("b") == 0);
    }
    umask(before);
}
END_TEST

START_TEST(test_read_large)
{
    static char text[100000];
    struct np_error err;
    char *bytes;
    size_t size;
    memset(text, 'x', sizeof text);
    ck_assert_int_eq(np_file_write("a", text, sizeof text, &err), NP_OK);
    ck_assert_int_eq(np_file_read(&bytes, &size, "a", sizeof text, &err), NP_OK);
    ck_assert(size == sizeof text && memcmp(bytes, text, size) == 0 && bytes[size] == '\0');
    free(bytes);
    ck_assert_int_eq(np_file_read(&bytes, &size, "a", sizeof text - 1, &err), NP_EINPUT);
    ck_assert_int_eq(np_file_read(&bytes, &size, "/dev/zero", 1 << 20, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "'/dev/zero' is larger than 1 MiB");
}
END_TEST

START_TEST(test_read_pipe)
{
    struct np_error err;
    char *bytes;
    size_t size;
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], "from a pipe", 11), 11);
    close(ends[1]);
    ck_assert_int_eq(np_file_read_fd(&bytes, &size, ends[0], "<stdin>", 100, &err), NP_OK);
    ck_assert_str_eq(bytes, "from a pipe");
    free(bytes);
    close(ends[0]);
    ck_assert_int_eq(np_file_read_fd(&bytes, &size, ends[0], "<stdin>", 100, &err), NP_EIO);
    ck_assert_str_eq(err.msg, "cannot read '<stdin>': Bad file descriptor");
}
END_TEST

START_TEST(test_refusals)
{
    struct np_file_names names = {0};
    struct np_error err;
    char *bytes;
    size_t size;
    bool there = true;
    ck_assert_int_eq(np_file_read(&bytes, &size, "no\nfile", 10, &err), NP_EIO);
    ck_assert_str_eq(err.msg, "cannot open 'no\\x0afile': No such file or directory");
    ck_assert_int_eq(np_file_read(&bytes, &size, ".", 10, &err), NP_EIO);
    ck_assert_str_eq(err.msg, "cannot read '.': Is a directory");
    ck_assert_int_eq(np_file_write("no/file", "x", 1, &err), NP_EIO);
    ck_assert_str_eq(err.msg, "cannot create 'no/file': No such file or directory");
    ck_assert_int_eq(np_file_list(&names, "no", &err), NP_EIO);
    ck_assert_str_eq(err.msg, "cannot list 'no': No such file or directory");
    ck_assert_int_eq(np_file_make_dir("sub", &err), NP_OK);
    ck_assert_int_eq(np_file_make_dir("sub", &err), NP_EIO);
    ck_assert_str_eq(err.msg, "cannot create 'sub': File exists");
    ck_assert_int_eq(np_file_ensure_dir("sub", &err), NP_OK);
    ck_assert_int_eq(np_file_make_dir("sub/deeper/", &err), NP_OK);
    ck_assert_int_eq(rmdir("sub/deeper"), 0);
    ck_assert_int_eq(np_file_write("sub", "x", 1, &err), NP_EIO);
    ck_assert_str_eq(err.msg, "cannot write 'sub': Is a directory");
    expect_names("sub ");
    ck_assert_int_eq(np_file_write("file", "x", 1, &err), NP_OK);
    ck_assert_int_eq(np_file_ensure_dir("file", &err), NP_EIO);
    ck_assert_str_eq(err.msg, "cannot create 'file': Not a directory");
    ck_assert_int_eq(np_file_exists(&there, "none", &err), NP_OK);
    ck_assert(!there);
    ck_assert_int_eq(np_file_exists(&there, "file", &err), NP_OK);
    ck_assert(there);
    ck_assert_int_eq(np_file_exists(&there, "file/below", &err), NP_OK);
    ck_assert(!there);
}
END_TEST

/* A write that fails part way leaves the old file as it was and nothing beside it. */
START_TEST(test_full_disk)
{
    static char text[100000];
    struct rlimit limit = {.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};
    struct np_error err;
    char *bytes;
    size_t size;
    ck_assert_int_eq(np_file_write("a", "old", 3, &err), NP_OK);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 4096;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(np_file_write("a", text, sizeof text, &err), NP_EIO);
    ck_assert_str_eq(err.msg, "cannot write 'a': File too large");
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    expect_names("a ");
    ck_assert_int_eq(np_file_read(&bytes, &size, "a", 10, &err), NP_OK);
    ck_assert_str_eq(bytes, "old");
    free(bytes);
}
END_TEST

START_TEST(test_out)
{
    struct np_file_out a = {0}, b = {0};
    struct np_error err;
    struct stat info;
    char *bytes;
    size_t size;
    ck_assert_int_eq(np_file_out_init(&a, "x", &err), NP_OK);
    ck_assert_int_eq(np_file_out_init(&b, "./x", &err), NP_OK);
    ck_assert_int_eq(np_file_out_write(&a, "first", 5, &err), NP_OK);
    ck_assert_int_eq(np_file_out_write(&b, "sec", 3, &err), NP_OK);
    ck_assert_int_eq(np_file_out_write(&b, "ond", 3, &err), NP_OK);
    ck_assert_int_ne(access("x", F_OK), 0);
    ck_assert_int_eq(np_file_out_commit(&a, &err), NP_OK);
    np_file_out_abort(&a);
    ck_assert_int_eq(np_file_out_rename(&b, b.path, &err), NP_OK);
    ck_assert_int_eq(np_file_sync_dir(".", &err), NP_OK);
    ck_assert_int_eq(np_file_read(&bytes, &size, "x", 10, &err), NP_OK);
    ck_assert_str_eq(bytes, "second");
    free(bytes);
    umask(022);
    ck_assert_int_eq(np_file_out_init(&a, "x", &err), NP_OK);
    np_file_out_abort(&a);
    np_file_out_abort(&a);
    np_file_out_abort(NULL);
    expect_names("x ");
    ck_assert_int_eq(np_file_write("x", "y", 1, &err), NP_OK);
    ck_assert_int_eq(stat("x", &info), 0);
    ck_assert_int_eq(info.st_mode & 0777, 0644);
}
END_TEST

START_TEST(test_map)
{
    struct np_file_map map = {0};
    struct np_error err;
    ck_assert_int_eq(np_file_write("a", "mapped", 6, &err), NP_OK);
    ck_assert_int_eq(np_file_map_init(&map, "a", &err), NP_OK);
    ck_assert(map.size == 6 && memcmp(map.bytes, "mapped", 6) == 0);
    np_file_map_clear(&map);
    np_file_map_clear(&map);
    np_file_map_clear(NULL);
    ck_assert_int_eq(np_file_write("a", "", 0, &err), NP_OK);
    ck_assert_int_eq(np_file_map_init(&map, "a", &err), NP_OK);
    ck_assert(map.size == 0 && !map.bytes);
    np_file_map_clear(&map);
    ck_assert_int_eq(np_file_map_init(&map, ".", &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "'.' is not a regular file");
    ck_assert_int_eq(mkfifo("fifo", 0600), 0);
    ck_assert_int_eq(np_file_map_init(&map, "fifo", &err), NP_EINPUT);
    ck_assert_int_eq(np_file_map_init(&map, "none", &err), NP_EIO);
}
END_TEST

START_TEST(test_list_sorted)
{
    static const char *const made[] = {"b", "a10", "a9", "B"};
    struct np_error err;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        ck_assert_int_eq(np_file_write(made[i], "", 0, &err), NP_OK);
    expect_names("B a10 a9 b ");
}
END_TEST

START_TEST(test_join)
{
    static const char *const bad[] = {"",       "/",     "/etc/passwd", "..",   "../x",
                                      "a/../b", "a/..",  "a//b",        "a/",   ".",
                                      "./a",    "a/./b", "a\nb",        "a\x7f"};
    struct np_error err;
    char *path;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(np_file_join(&path, "run", bad[i], &err) == NP_EINPUT, "'%s'", bad[i]);
    ck_assert_int_eq(np_file_join(&path, "run", "..", &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "'..' is not a name inside 'run'");
    ck_assert_int_eq(np_file_join(&path, "run", "objects/..a/b.c", &err), NP_OK);
    ck_assert_str_eq(path, "run/objects/..a/b.c");
    free(path);
}
END_TEST

START_TEST(test_lines)
{
    struct np_error err;
    FILE *file = NULL;
    char *line = NULL;
    size_t capacity = 0;
    ck_assert_int_eq(np_file_write("a", "one\n\0\nlast", 10, &err), NP_OK);
    ck_assert_int_eq(np_file_open(&file, "a", false, &err), NP_OK);
    ck_assert_int_eq(np_file_line(&line, &capacity, file), 4);
    ck_assert_str_eq(line, "one\n");
    ck_assert_int_eq(np_file_line(&line, &capacity, file), 2);
    ck_assert(memcmp(line, "\0\n", 3) == 0);
    ck_assert_int_eq(np_file_line(&line, &capacity, file), 4);
    ck_assert_str_eq(line, "last");
    ck_assert_int_eq(np_file_line(&line, &capacity, file), -1);
    fclose(file);
    ck_assert_int_eq(truncate("a", (off_t)(NP_FILE_LINE + 5)), 0); /* no newline after the second */
    ck_assert_int_eq(np_file_open(&file, "a", true, &err), NP_OK);
    ck_assert_int_eq(np_file_line(&line, &capacity, file), 4);
    ck_assert_int_eq(np_file_line(&line, &capacity, file), 2);
    ck_assert_int_eq(np_file_line(&line, &capacity, file), NP_FILE_LINE - 1);
    ck_assert_int_eq(np_file_line(&line, &capacity, file), -1);
    fclose(file);
    ck_assert_int_eq(truncate("a", (off_t)(NP_FILE_LINE + 7)), 0);
    ck_assert_int_eq(np_file_open(&file, "a", false, &err), NP_OK);
    ck_assert_int_eq(np_file_line(&line, &capacity, file), 4);
    ck_assert_int_eq(np_file_line(&line, &capacity, file), 2);
    ck_assert_int_eq(np_file_line(&line, &capacity, file), NP_FILE_LINE);
    ck_assert_int_eq(np_file_line(&line, &capacity, file), 1);
    fclose(file);
    free(line);
    ck_assert_int_eq(mkfifo("pipe", 0600), 0);
    ck_assert_int_eq(np_file_open(&file, "pipe", false, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "'pipe' is not a regular file");
    ck_assert_int_eq(np_file_open(&file, "none", true, &err), NP_EIO);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("file");
    TCase *tests = suite_case(suite, "file");
    tcase_add_checked_fixture(tests, suite_enter, suite_leave);
    tcase_add_test(tests, test_write_read);
    tcase_add_test(tests, test_modes);
    tcase_add_test(tests, test_read_large);
    tcase_add_test(tests, test_read_pipe);
    tcase_add_test(tests, test_refusals);
    tcase_add_test(tests, test_full_disk);
    tcase_add_test(tests, test_out);
    tcase_add_test(tests, test_map);
    tcase_add_test(tests, test_lines);
    tcase_add_test(tests, test_list_sorted);
    tcase_add_test(tests, test_join);
    return suite_run_apart(suite);
}
