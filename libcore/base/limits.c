#include "base/limits.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINE = 4096, PATH = 2 * LINE }; /* bytes at most */

/* What one group leaves; 0: all. */
typedef uint64_t group_limit(const char *group);

/* How many numbers a file of a group begins with, of two; in the place of one that is no limit
 * there is "max", or in version 1 -1. */
static int read_numbers(const char *group, const char *name, int64_t *first, int64_t *second)
{
    char path[PATH + 32];
    snprintf(path, sizeof path, "%s/%s", group, name);
    FILE *file = fopen(path, "re");
    int count = file ? fscanf(file, "%" SCNd64 " %" SCNd64, first, second) : 0;
    if (file)
        fclose(file);
    return count;
}

/* Version 1 says so much, in whole pages, where it has no limit. */
#define NO_LIMIT (INT64_C(1) << 62)

/* What is left of a last processor would hold up those who wait for who has it. */
static uint64_t processors_of(const char *group)
{
    int64_t limit, period, none;
    if (read_numbers(group, "cpu.max", &limit, &period) != 2 &&
        (read_numbers(group, "cpu.cfs_quota_us", &limit, &none) != 1 ||
         read_numbers(group, "cpu.cfs_period_us", &period, &none) != 1))
        return 0;
    if (limit <= 0 || period <= 0)
        return 0;
    return limit < period ? 1 : (uint64_t)(limit / period);
}

static uint64_t memory_of(const char *group)
{
    int64_t limit, none;
    if (read_numbers(group, "memory.max", &limit, &none) != 1 &&
        read_numbers(group, "memory.limit_in_bytes", &limit, &none) != 1)
        return 0;
    return limit > 0 && limit < NO_LIMIT ? (uint64_t)limit : 0;
}

static uint64_t smaller(uint64_t limit, uint64_t other)
{
    return limit == 0 || (other != 0 && other < limit) ? other : limit;
}

/* What a group and those that it is in leave. In a container, the path may be the host's, of which
 * only the last, the container's own, is there. */
static uint64_t hierarchy_limit(const char *mount, const char *path, group_limit *of)
{
    char group[PATH];
    size_t top = strlen(mount);
    uint64_t least = 0;
    snprintf(group, sizeof group, "%s%s", mount, path);
    for (char *end = group + strlen(group);; end = strrchr(group, '/')) {
        *end = '\0';
        least = smaller(least, of(group));
        if (end <= group + top)
            return least;
    }
}

/* Whether a list with commas has the controller. */
static bool lists(const char *controllers, const char *controller)
{
    size_t length = strlen(controller);
    for (const char *at = controllers; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, controller, length) == 0)
            return true;
    return false;
}

/* Version 2 has one hierarchy, version 1 one for each controller or a few of them. */
static uint64_t least_limit(const char *root, const char *controller, group_limit *of)
{
    char line[LINE], name[LINE];
    uint64_t least = 0;
    snprintf(name, sizeof name, "%s/proc/self/cgroup", root);
    FILE *file = fopen(name, "re");
    while (file && fgets(line, sizeof line, file)) { /* number:controllers:path */
        char *controllers = strchr(line, ':'), *path;
        path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path || path[1] != '/')
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        controllers++;
        if (*controllers && !lists(controllers, controller))
            continue;
        snprintf(name, sizeof name, "%s/sys/fs/cgroup%s%s", root, *controllers ? "/" : "",
                 *controllers ? controller : "");
        least = smaller(least, hierarchy_limit(name, path, of));
    }
    if (file)
        fclose(file);
    return least;
}

uint64_t np_group_processors(const char *root)
{
    return least_limit(root, "cpu", processors_of);
}

uint64_t np_group_memory(const char *root)
{
    return least_limit(root, "memory", memory_of);
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
    return (int)smaller((uint64_t)(usable < 1 ? 1 : usable), np_group_processors(""));
}

uint64_t np_memory_usable(void)
{
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return smaller(all, np_group_memory(""));
}
