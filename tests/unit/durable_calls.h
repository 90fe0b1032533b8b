/* fsync, rename and unlink of the test program that includes this: they note what they are called
 * for, and do it. The library is linked statically, so it calls these. */
#ifndef NP_TEST_DURABLE_CALLS_H
#define NP_TEST_DURABLE_CALLS_H

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static char durable_calls[1 << 16]; /* "sync PATH; rename PATH; unlink PATH; " */

static void durable_note(const char *what, const char *path)
{
    size_t used = strlen(durable_calls);
    snprintf(durable_calls + used, sizeof durable_calls - used, "%s %s; ", what, path);
}

int fsync(int fd)
{
    char link[64], path[256];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n < 0 ? 0 : n] = '\0';
    durable_note("sync", path);
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    durable_note("rename", to);
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int unlink(const char *path)
{
    durable_note("unlink", path);
    return unlinkat(AT_FDCWD, path, 0);
}

#endif
