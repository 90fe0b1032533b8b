/* What may be used: the processors of the thread, and what control groups leave of them and of
 * memory. */
#define _GNU_SOURCE /* sched_setaffinity */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "io/file.h"
#include "suite.h"

static const char *root; /* a folder for each test */

static void write_text(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *at = path; (at = strchr(at, '/')); at++) {
        *at = '\0';
        ck_assert_int_eq(np_file_ensure_dir(path, NULL), NP_OK);
        *at = '/';
    }
    ck_assert_int_eq(np_file_write(path, text, strlen(text), NULL), NP_OK);
}

START_TEST(no_groups_leave_all)
{
    root = "no_groups_leave_all";
    ck_assert_uint_eq(np_group_processors(root), 0);
    write_text("proc/self/cgroup", "0::/job\n");
    ck_assert_uint_eq(np_group_processors(root), 0);
    write_text("sys/fs/cgroup/job/cpu.max", "max 100000\n");
    ck_assert_uint_eq(np_group_processors(root), 0);
}
END_TEST

/* Whole processors; what is left of a last one would hold up those who wait for it. */
START_TEST(whole_processors)
{
    static const struct {
        const char *max;
        uint64_t quota;
    } cases[] = {{"400000 100000\n", 4},
                 {"399999 100000\n", 3},
                 {"50000 100000\n", 1},
                 {"1000 1000", 1},
                 {"0 100000\n", 0},
                 {"800000\n", 0},
                 {"", 0},
                 {"none\n", 0},
                 {"-5 100000\n", 0}};
    root = "whole_processors";
    write_text("proc/self/cgroup", "0::/job\n");
    write_text("sys/fs/cgroup/job/cpu.max", cases[_i].max);
    ck_assert_uint_eq(np_group_processors(root), cases[_i].quota);
}
END_TEST

/* A group has no more than those it is in; a container may see its own alone. */
START_TEST(groups_in_groups)
{
    root = "groups_in_groups";
    write_text("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
    write_text("sys/fs/cgroup/slurm/job_7/step_0/cpu.max", "800000 100000\n");
    write_text("sys/fs/cgroup/slurm/job_7/cpu.max", "300000 100000\n");
    write_text("sys/fs/cgroup/slurm/cpu.max", "3200000 100000\n");
    ck_assert_uint_eq(np_group_processors(root), 3);
    write_text("sys/fs/cgroup/cpu.max", "200000 100000\n");
    ck_assert_uint_eq(np_group_processors(root), 2);
    write_text("proc/self/cgroup", "0::/of/the/host\n");
    ck_assert_uint_eq(np_group_processors(root), 2);
    write_text("proc/self/cgroup", "0::/\n");
    ck_assert_uint_eq(np_group_processors(root), 2);
}
END_TEST

START_TEST(version_1)
{
    root = "version_1";
    write_text("proc/self/cgroup", "12:cpuset:/a\n9:memory,cpuset:/b\n4:cpuacct,cpu:/job\n0::/\n");
    write_text("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "100000\n");
    write_text("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    write_text("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
    write_text("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    ck_assert_uint_eq(np_group_processors(root), 0);
    write_text("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");
    ck_assert_uint_eq(np_group_processors(root), 0);
    write_text("sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n");
    ck_assert_uint_eq(np_group_processors(root), 5);
}
END_TEST

/* A file's limit, of either version; the machine has no more than there is. */
START_TEST(memory)
{
    root = "memory";
    write_text("proc/self/cgroup", "5:memory:/job\n3:cpu,cpuacct:/\n0::/job/step\n");
    ck_assert_uint_eq(np_group_memory(root), 0);
    write_text("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    ck_assert_uint_eq(np_group_memory(root), 0); /* what it says where there is no limit */
    write_text("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "8589934592\n");
    ck_assert_uint_eq(np_group_memory(root), (uint64_t)8 << 30);
    write_text("sys/fs/cgroup/job/step/memory.max", "max\n");
    ck_assert_uint_eq(np_group_memory(root), (uint64_t)8 << 30);
    write_text("sys/fs/cgroup/job/memory.max", "1073741824\n");
    ck_assert_uint_eq(np_group_memory(root), 1 << 30);
    ck_assert_uint_eq(np_group_processors(root), 0);
    ck_assert_uint_gt(np_memory_usable(), 1 << 20);
    ck_assert_uint_le(np_memory_usable(),
                      (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
}
END_TEST

/* Lines that are none, and a path longer than any, of which the beginning is seen. */
START_TEST(damaged)
{
    static char line[8192];
    root = "damaged";
    write_text("sys/fs/cgroup/cpu.max", "200000 100000\n");
    write_text("proc/self/cgroup", "\n:\n0:\n0::\n0::job\n7\n");
    ck_assert_uint_eq(np_group_processors(root), 0);
    snprintf(line, sizeof line, "0::/%08000d\n", 7);
    write_text("proc/self/cgroup", line);
    ck_assert_uint_eq(np_group_processors(root), 2);
}
END_TEST

/* Of the processors that the thread is bound to, and no others. */
START_TEST(bound_ones)
{
    cpu_set_t before, one;
    struct np_processors all = np_processors_bound(), bound;
    int usable = np_processors_usable(&all), count = 0;
    ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
    ck_assert_int_le(usable, CPU_COUNT(&before));
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &before))
            continue;
        CPU_ZERO(&one);
        CPU_SET(i, &one);
        ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
        bound = np_processors_bound();
        ck_assert_int_eq(np_processors_usable(&bound), 1);
        for (int j = 0; j < CPU_SETSIZE; j++)
            ck_assert_int_eq(bound.set[j / 8] >> j % 8 & 1, i == j);
        count++;
    }
    ck_assert_int_eq(sched_setaffinity(0, sizeof before, &before), 0);
    ck_assert_int_ge(count, usable);
    ck_assert_int_eq(np_processors_usable(&(struct np_processors){{0}}), 1);
}
END_TEST

int main(void)
{
    char directory[] = "/tmp/np-limits-XXXXXX";
    Suite *suite = suite_create("limits");
    TCase *tests = suite_case(suite, "limits");
    tcase_add_test(tests, no_groups_leave_all);
    tcase_add_loop_test(tests, whole_processors, 0, 9);
    tcase_add_test(tests, groups_in_groups);
    tcase_add_test(tests, version_1);
    tcase_add_test(tests, memory);
    tcase_add_test(tests, damaged);
    tcase_add_test(tests, bound_ones);
    return suite_run_in(suite, directory);
}
