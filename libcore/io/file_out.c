#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"

#define ASIDE_PREFIX ".np-"
#define ASIDE_TRIES 1000

static enum np_status fail(struct np_error *err, const char *what, const char *path)
{
    return np_fail_errno(err, "cannot %s '%s'", what, np_text_safe(path).s);
}

/* Bytes of path up to and with the last slash; 0 if there is none. */
static size_t dir_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* What takes a file's place lets in whom that did. */
static void take_mode(int fd, const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && fchmod(fd, info.st_mode & 0777) != 0)
        return; /* no reason to lose what is written */
}

/* A name that no other process uses by accident; O_EXCL settles it between threads. mkstemp would
 * make files that only the owner may read, whatever the umask says. */
static enum np_status open_aside(struct np_file_out *out, struct np_error *err)
{
    size_t dir = dir_length(out->path), size = dir + 64;
    out->aside = malloc(size);
    if (!out->aside)
        return np_fail(err, NP_EMEM, "cannot allocate a path");
    memcpy(out->aside, out->path, dir);
    for (int i = 0; i < ASIDE_TRIES; i++) {
        snprintf(out->aside + dir, size - dir, ASIDE_PREFIX "%ld-%d", (long)getpid(), i);
        out->fd = open(out->aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (out->fd >= 0) {
            take_mode(out->fd, out->path);
            return NP_OK;
        }
        if (errno != EEXIST && errno != EINTR)
            break;
    }
    return fail(err, "create", out->path);
}

enum np_status np_file_out_init(struct np_file_out *out, const char *path, struct np_error *err)
{
    enum np_status status;
    *out = (struct np_file_out){.fd = -1};
    NP_TRY(np_strdup(&out->path, path, err));
    NP_TRY(open_aside(out, err));
    return NP_OK;
out:
    free(out->path);
    free(out->aside);
    *out = (struct np_file_out){0};
    return status;
}

enum np_status np_file_out_write(struct np_file_out *out, const void *bytes, size_t n,
                                 struct np_error *err)
{
    const char *rest = bytes;
    while (n > 0) {
        ssize_t done = write(out->fd, rest, n);
        if (done < 0 && errno != EINTR)
            return fail(err, "write", out->path);
        if (done > 0) {
            rest += done;
            n -= (size_t)done;
        }
    }
    return NP_OK;
}

void np_file_out_abort(struct np_file_out *out)
{
    if (!out || !out->path)
        return;
    if (out->fd >= 0)
        close(out->fd);
    unlink(out->aside);
    free(out->path);
    free(out->aside);
    *out = (struct np_file_out){0};
}

/* Synchronises, closes and renames; the paths stay for the caller. */
static enum np_status finish(struct np_file_out *out, const char *path, struct np_error *err)
{
    int fd = out->fd;
    if (np_file_sync(fd) != 0)
        return fail(err, "write", path);
    out->fd = -1;
    if ((close(fd) != 0 && errno != EINTR) || rename(out->aside, path) != 0)
        return fail(err, "write", path);
    return NP_OK;
}

static void release(struct np_file_out *out)
{
    free(out->path);
    free(out->aside);
    *out = (struct np_file_out){0};
}

enum np_status np_file_out_rename(struct np_file_out *out, const char *path, struct np_error *err)
{
    enum np_status status = finish(out, path, err);
    if (status == NP_OK)
        release(out);
    else
        np_file_out_abort(out);
    return status;
}

enum np_status np_file_sync_dir(const char *path, struct np_error *err)
{
    enum np_status status = NP_OK;
    int fd = np_file_fd(path, O_RDONLY | O_DIRECTORY);
    /* A directory that may be written but not read, or whose file system cannot synchronise it: its
     * names are as durable as they get. */
    if (fd < 0)
        return errno == EACCES ? NP_OK : fail(err, "open", path);
    if (np_file_sync(fd) != 0 && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS)
        status = fail(err, "write", path);
    close(fd);
    return status;
}

enum np_status np_file_out_commit(struct np_file_out *out, struct np_error *err)
{
    enum np_status status;
    size_t length = dir_length(out->path);
    NP_TRY(finish(out, out->path, err));
    out->path[length] = '\0';
    status = np_file_sync_dir(length ? out->path : ".", err);
    release(out);
    return status;
out:
    np_file_out_abort(out);
    return status;
}

enum np_status np_file_write(const char *path, const void *bytes, size_t n, struct np_error *err)
{
    struct np_file_out out = {0};
    enum np_status status;
    NP_TRY(np_file_out_init(&out, path, err));
    NP_TRY(np_file_out_write(&out, bytes, n, err));
    NP_TRY(np_file_out_commit(&out, err));
out:
    np_file_out_abort(&out);
    return status;
}

static enum np_status copy_to(struct np_file_out *out, FILE *from, struct np_error *err)
{
    char bytes[1 << 16];
    size_t n;
    enum np_status status = NP_OK;
    while (status == NP_OK && (n = fread(bytes, 1, sizeof bytes, from)) > 0)
        status = np_file_out_write(out, bytes, n, err);
    return status == NP_OK && ferror(from) ? fail(err, "read", out->path) : status;
}

enum np_status np_file_own(const char *path, struct np_error *err)
{
    struct np_file_out out = {0};
    struct stat info;
    FILE *from = NULL;
    enum np_status status;
    if (lstat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink == 1)
        return NP_OK;
    NP_TRY(np_file_open(&from, path, false, err));
    NP_TRY(np_file_out_init(&out, path, err));
    NP_TRY(copy_to(&out, from, err));
    NP_TRY(np_file_out_commit(&out, err));
out:
    np_file_out_abort(&out);
    if (from)
        fclose(from);
    return status;
}

bool np_file_is_aside(const char *name)
{
    return strncmp(name, ASIDE_PREFIX, sizeof ASIDE_PREFIX - 1) == 0;
}

void np_file_sweep(const char *directory)
{
    struct np_file_names names = {0};
    np_file_list(&names, directory, NULL);
    for (size_t i = 0; i < names.count; i++) {
        char *name = NULL;
        if (np_file_is_aside(names.name[i]) &&
            np_file_join(&name, directory, names.name[i], NULL) == NP_OK)
            unlink(name);
        free(name);
    }
    np_file_names_clear(&names);
}
