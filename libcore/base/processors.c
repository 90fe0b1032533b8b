#include "base/processors.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_PATH 4096

/* How many numbers a file of a group begins with, of two. */
static int read_numbers(const char *group, const char *name, long *first, long *second)
{
    char path[MOST_PATH + 32];
    snprintf(path, sizeof path, "%s/%s", group, name);
    FILE *file = fopen(path, "re");
    int count = file ? fscanf(file, "%ld %ld", first, second) : 0;
    if (file)
        fclose(file);
    return count;
}

static int fewer(int a, int b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* What one group leaves; 0: all. Both of its numbers are microseconds; a limit that is not there is
 * "max", or in version 1 -1. */
static int group_quota(const char *group)
{
    long limit, period, none, whole;
    if (read_numbers(group, "cpu.max", &limit, &period) != 2 &&
        (read_numbers(group, "cpu.cfs_quota_us", &limit, &none) != 1 ||
         read_numbers(group, "cpu.cfs_period_us", &period, &none) != 1))
        return 0;
    if (limit <= 0 || period <= 0)
        return 0;
    whole = limit / period;
    return whole < 1 ? 1 : whole < INT_MAX ? (int)whole : 0;
}

/* What a group and those that it is in leave. In a container, the path may be the host's, of which
 * only the last, the container's own, is there. */
static int hierarchy_quota(const char *root, const char *mount, const char *path)
{
    char group[MOST_PATH];
    size_t top = strlen(root) + strlen(mount);
    int least = 0;
    if (top + strlen(path) >= sizeof group)
        return 0;
    snprintf(group, sizeof group, "%s%s%s", root, mount, path);
    for (char *end = group + strlen(group);; end = strrchr(group, '/')) {
        *end = '\0';
        least = fewer(least, group_quota(group));
        if (end <= group + top)
            return least;
    }
}

/* Whether "cpu" is one of the controllers, with commas between them. */
static bool has_cpu(const char *controllers)
{
    for (const char *at = controllers; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == 3 && strncmp(at, "cpu", 3) == 0)
            return true;
    return false;
}

int np_processors_quota(const char *root)
{
    char line[MOST_PATH], name[MOST_PATH];
    int least = 0;
    snprintf(name, sizeof name, "%s/proc/self/cgroup", root);
    FILE *file = fopen(name, "re");
    while (file && fgets(line, sizeof line, file)) { /* number:controllers:path */
        char *controllers = strchr(line, ':'), *path;
        path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path || path[1] != '/')
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        if (controllers[1] == '\0')
            least = fewer(least, hierarchy_quota(root, "/sys/fs/cgroup", path));
        else if (has_cpu(controllers + 1))
            least = fewer(least, hierarchy_quota(root, "/sys/fs/cgroup/cpu", path));
    }
    if (file)
        fclose(file);
    return least;
}

/* Not by glibc's cpu_set_t, which has 1024. */
struct np_processors np_processors_bound(void)
{
    struct np_processors bound = {{0}};
    syscall(SYS_sched_getaffinity, 0, sizeof bound.set, bound.set);
    return bound;
}

int np_processors_usable(const struct np_processors *processors)
{
    int usable = 0;
    for (size_t i = 0; i < sizeof processors->set; i++)
        usable += __builtin_popcount(processors->set[i]);
    return fewer(usable < 1 ? 1 : usable, np_processors_quota(""));
}
