#include "io/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"

#define MOST_LINKS 40 /* as the system follows */

static enum np_status fail(struct np_error *err, const char *what, const char *path)
{
    return np_fail_errno(err, "cannot %s '%s'", what, np_text_safe(path).s);
}

int np_file_fd(const char *path, int flags)
{
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC | O_NOCTTY, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

int np_file_sync(int fd)
{
    int failed;
    do
        failed = fsync(fd);
    while (failed && errno == EINTR);
    return failed;
}

/* Reads until n bytes are there or the file ends; the number read, or -1. */
static ssize_t read_full(int fd, char *bytes, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = read(fd, bytes + done, n - done);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return -1;
        if (got > 0)
            done += (size_t)got;
    }
    return (ssize_t)done;
}

enum np_status np_file_read_fd(char **out, size_t *size, int fd, const char *name, size_t cap,
                               struct np_error *err)
{
    size_t used = 0, room = 0;
    char *bytes = NULL, *grown;
    enum np_status status = NP_OK;
    ssize_t got;
    /* Memory grows with what arrives, and never beyond cap + 1 bytes and the NUL. */
    do {
        room = room == 0 ? 16384 : room * 2;
        room = room > cap || room == 0 ? cap + 1 : room;
        grown = realloc(bytes, room + 1);
        if (!grown) {
            status = np_fail(err, NP_EMEM, "cannot hold '%s'", np_text_safe(name).s);
            goto out;
        }
        bytes = grown;
        got = read_full(fd, bytes + used, room - used);
        if (got < 0) {
            status = fail(err, "read", name);
            goto out;
        }
        used += (size_t)got;
    } while (used == room && used <= cap);
    if (used > cap) {
        status = np_fail(err, NP_EINPUT, "'%s' is larger than %s", np_text_safe(name).s,
                         np_text_size(cap).s);
        goto out;
    }
    bytes[used] = '\0';
    *out = bytes;
    *size = used;
    bytes = NULL;
out:
    free(bytes);
    return status;
}

enum np_status np_file_read(char **out, size_t *size, const char *path, size_t cap,
                            struct np_error *err)
{
    enum np_status status;
    int fd = np_file_fd(path, O_RDONLY);
    if (fd < 0)
        return fail(err, "open", path);
    status = np_file_read_fd(out, size, fd, path, cap, err);
    close(fd);
    return status;
}

static enum np_status open_regular(int *fd, const char *path, int flags, struct np_error *err)
{
    enum np_status status = NP_OK;
    struct stat info;
    *fd = np_file_fd(path, flags | O_NONBLOCK);
    if (*fd < 0)
        return fail(err, "open", path);
    if (fstat(*fd, &info) != 0)
        status = fail(err, "read", path);
    else if (!S_ISREG(info.st_mode))
        status = np_fail(err, NP_EINPUT, "'%s' is not a regular file", np_text_safe(path).s);
    if (status != NP_OK)
        close(*fd);
    return status;
}

enum np_status np_file_read_regular(char **out, size_t *size, const char *path, size_t cap,
                                    struct np_error *err)
{
    int fd;
    enum np_status status = open_regular(&fd, path, O_RDONLY, err);
    if (status != NP_OK)
        return status;
    status = np_file_read_fd(out, size, fd, path, cap, err);
    close(fd);
    return status;
}

enum np_status np_file_open(FILE **out, const char *path, bool write, struct np_error *err)
{
    int fd;
    enum np_status status = open_regular(&fd, path, write ? O_RDWR : O_RDONLY, err);
    if (status != NP_OK)
        return status;
    if (!(*out = fdopen(fd, write ? "r+" : "r"))) {
        status = fail(err, "open", path);
        close(fd);
    }
    return status;
}

ssize_t np_file_line(char **line, size_t *capacity, FILE *file)
{
    size_t used = 0;
    int c = 0;
    while (used < NP_FILE_LINE && c != '\n' && (c = getc_unlocked(file)) != EOF) {
        if (np_grow(line, capacity, used + 1, 1, NULL) != NP_OK) {
            errno = ENOMEM;
            return -2;
        }
        (*line)[used++] = (char)c;
    }
    if (c == EOF && ferror(file))
        return -2;
    if (!used)
        return -1;
    (*line)[used] = '\0';
    return (ssize_t)used;
}

enum np_status np_file_map_init(struct np_file_map *map, const char *path, struct np_error *err)
{
    enum np_status status = NP_OK;
    struct stat info;
    void *bytes = NULL;
    int fd = np_file_fd(path, O_RDONLY | O_NONBLOCK); /* a FIFO is refused below, not waited for */
    if (fd < 0)
        return fail(err, "open", path);
    if (fstat(fd, &info) != 0)
        status = fail(err, "read", path);
    else if (!S_ISREG(info.st_mode))
        status = np_fail(err, NP_EINPUT, "'%s' is not a regular file", np_text_safe(path).s);
    else if ((uint64_t)info.st_size > SIZE_MAX)
        status = np_fail(err, NP_EMEM, "cannot map '%s': too large", np_text_safe(path).s);
    else if (info.st_size > 0) /* some file systems of programs (FUSE) share no pages */
        bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        status = fail(err, "map", path);
    close(fd);
    if (status == NP_OK)
        *map = (struct np_file_map){.bytes = bytes, .size = (size_t)info.st_size};
    return status;
}

void np_file_map_clear(struct np_file_map *map)
{
    if (!map)
        return;
    if (map->bytes)
        munmap((void *)(uintptr_t)map->bytes, map->size);
    *map = (struct np_file_map){0};
}

/* Makes the name of a new directory durable, in its parent. */
static enum np_status sync_parent(const char *path, struct np_error *err)
{
    size_t length = strlen(path);
    enum np_status status;
    char *parent;
    status = np_strdup(&parent, path, err);
    if (status != NP_OK)
        return status;
    while (length > 1 && parent[length - 1] == '/')
        length--;
    while (length > 0 && parent[length - 1] != '/')
        length--;
    parent[length] = '\0';
    status = np_file_sync_dir(length ? parent : ".", err);
    free(parent);
    return status;
}

enum np_status np_file_make_dir(const char *path, struct np_error *err)
{
    enum np_status status;
    if (mkdir(path, 0777) != 0)
        return fail(err, "create", path);
    status = sync_parent(path, err);
    if (status != NP_OK)
        rmdir(path);
    return status;
}

enum np_status np_file_ensure_dir(const char *path, struct np_error *err)
{
    struct stat info;
    if (mkdir(path, 0777) == 0)
        return sync_parent(path, err);
    if (errno == EEXIST && stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode))
            return NP_OK;
        errno = ENOTDIR;
    }
    return fail(err, "create", path);
}

enum np_status np_file_exists(bool *out, const char *path, struct np_error *err)
{
    struct stat info;
    if (stat(path, &info) == 0)
        *out = true;
    else if (errno == ENOENT || errno == ENOTDIR)
        *out = false;
    else
        return fail(err, "look up", path);
    return NP_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum np_status np_file_list(struct np_file_names *out, const char *path, struct np_error *err)
{
    struct np_file_names names = {0};
    enum np_status status = NP_OK;
    struct dirent *entry;
    DIR *dir = opendir(path);
    if (!dir)
        return fail(err, "list", path);
    for (errno = 0; (entry = readdir(dir)); errno = 0) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        NP_TRY(np_grow(&names.name, &names.capacity, names.count, sizeof *names.name, err));
        NP_TRY(np_strdup(&names.name[names.count], entry->d_name, err));
        names.count++;
    }
    if (errno != 0) {
        status = fail(err, "list", path);
        goto out;
    }
    if (names.count)
        qsort(names.name, names.count, sizeof *names.name, compare_names);
    *out = names;
    names = (struct np_file_names){0};
out:
    closedir(dir);
    np_file_names_clear(&names);
    return status;
}

void np_file_names_clear(struct np_file_names *names)
{
    if (!names)
        return;
    for (size_t i = 0; i < names->count; i++)
        free(names->name[i]);
    free(names->name);
    *names = (struct np_file_names){0};
}

static bool is_inside(const char *name)
{
    for (;;) {
        size_t length = strcspn(name, "/");
        if (length == 0 || (length == 1 && name[0] == '.') ||
            (length == 2 && name[0] == '.' && name[1] == '.'))
            return false;
        for (size_t i = 0; i < length; i++) {
            if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
                return false;
        }
        if (name[length] == '\0')
            return true;
        name += length + 1;
    }
}

enum np_status np_file_join(char **out, const char *dir, const char *name, struct np_error *err)
{
    size_t dir_length = strlen(dir), name_length = strlen(name);
    char *path;
    if (!is_inside(name))
        return np_fail(err, NP_EINPUT, "'%s' is not a name inside '%s'", np_text_safe(name).s,
                       np_text_safe(dir).s);
    path = malloc(dir_length + name_length + 2);
    if (!path)
        return np_fail(err, NP_EMEM, "cannot allocate a path");
    memcpy(path, dir, dir_length);
    path[dir_length] = '/';
    memcpy(path + dir_length + 1, name, name_length + 1);
    *out = path;
    return NP_OK;
}

/* `name` in the directory of `path`, or by itself if it is absolute; NULL without memory. */
static char *beside(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    size_t dir = slash && *name != '/' ? (size_t)(slash - path) + 1 : 0, size = strlen(name) + 1;
    char *joined = malloc(dir + size);
    if (!joined)
        return NULL;
    memcpy(joined, path, dir);
    memcpy(joined + dir, name, size);
    return joined;
}

/* The last name of a path in its directory, which must be there. */
static char *in_directory(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *dir = beside(path, "."), *real = dir ? realpath(dir, NULL) : NULL, *joined = NULL;
    size_t size = real ? strlen(real) + strlen(name) + 2 : 0;
    if (real && (joined = malloc(size)))
        snprintf(joined, size, "%s/%s", strcmp(real, "/") == 0 ? "" : real, name);
    free(dir);
    free(real);
    return joined;
}

char *np_file_target(const char *path)
{
    char *at = strdup(path), *to = NULL, *next, link[PATH_MAX];
    for (int links = 0; at && !to && links <= MOST_LINKS; links++) {
        ssize_t n;
        to = realpath(at, NULL);
        if (to || errno != ENOENT)
            break;
        n = readlink(at, link, sizeof link - 1);
        if (n < 0) { /* nothing, or no directory */
            to = in_directory(at);
            break;
        }
        link[n] = '\0';
        next = beside(at, link);
        free(at);
        at = next;
    }
    free(at);
    return to;
}
