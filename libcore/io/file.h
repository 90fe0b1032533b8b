/* Files: whole reads with a cap, read-only maps, and writes that are complete or absent.
 *
 * A written file is made aside in its own directory, synchronised, renamed into place, and the
 * directory synchronised: after a crash the old content or the new one is there, never a mixture.
 *
 * Errors:    NP_EIO "cannot write 'x': No space left on device"; NP_EINPUT for a file over its cap
 *            or a name that is not allowed; NP_EMEM.
 * Ownership: names and bytes given out belong to the caller (free()); names given in are copied.
 * Threads:   no state is shared; two writers of one path are safe, the last rename wins.
 */
#ifndef NP_IO_FILE_H
#define NP_IO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"

/* open() and fsync(), again where they are interrupted; descriptors close on exec. */
int np_file_fd(const char *path, int flags);
int np_file_sync(int fd);

/* The whole file, or what is left to read on fd (a pipe will do; name is for messages): *size bytes
 * and a NUL after them. More than cap bytes is NP_EINPUT, known before they are held. */
enum np_status np_file_read(char **out, size_t *size, const char *path, size_t cap,
                            struct np_error *err);
enum np_status np_file_read_fd(char **out, size_t *size, int fd, const char *name, size_t cap,
                               struct np_error *err);

/* The same of a regular file; a FIFO or device is refused, not waited for. */
enum np_status np_file_read_regular(char **out, size_t *size, const char *path, size_t cap,
                                    struct np_error *err);

/* Opens a regular file for reading, or for both reading and writing; a FIFO or device is refused,
 * not waited for. */
enum np_status np_file_open(FILE **out, const char *path, bool write, struct np_error *err);

/* As getline(), but no more than NP_FILE_LINE bytes at a time: a file without newlines is read in
 * pieces, and none of them ends as a line does. -1 at the end; -2, and errno, where it cannot be
 * read. */
#define NP_FILE_LINE ((size_t)1 << 20)
ssize_t np_file_line(char **line, size_t *capacity, FILE *file);

/* A regular file as read-only memory. The file must not shrink while it is mapped. A zeroed struct
 * is empty; np_file_map_clear takes any. */
struct np_file_map {
    const uint8_t *bytes; /* NULL if the file is empty */
    size_t size;
};
enum np_status np_file_map_init(struct np_file_map *map, const char *path, struct np_error *err);
void np_file_map_clear(struct np_file_map *map);

/* A file being written aside. After init: any number of writes, then one commit. Abort may follow
 * anything, also a commit (where it does nothing), and removes what was written aside; a zeroed
 * struct may be aborted too. Writes are not buffered. What takes a file's place has its
 * permissions; it has taken it also where the commit fails because the directory cannot be
 * synchronised. */
struct np_file_out {
    char *path;
    char *aside;
    int fd;
};
enum np_status np_file_out_init(struct np_file_out *out, const char *path, struct np_error *err);
enum np_status np_file_out_write(struct np_file_out *out, const void *bytes, size_t n,
                                 struct np_error *err);
enum np_status np_file_out_commit(struct np_file_out *out, struct np_error *err);
void np_file_out_abort(struct np_file_out *out);

/* Commit as `path`, on the same file system, without synchronising the directory: the content is
 * durable, the name only after np_file_sync_dir, which is no error where the directory may not be
 * read or its file system cannot do it. For many files in one directory. */
enum np_status np_file_out_rename(struct np_file_out *out, const char *path, struct np_error *err);
enum np_status np_file_sync_dir(const char *path, struct np_error *err);

/* init, write, commit. */
enum np_status np_file_write(const char *path, const void *bytes, size_t n, struct np_error *err);

/* Before a file is written in place: one that has other names, as in a copy of hard links, is
 * copied into its place, so that these keep what it was. */
enum np_status np_file_own(const char *path, struct np_error *err);

/* Makes a directory, durably. It must not exist (make); it may (ensure). Parents must exist. */
enum np_status np_file_make_dir(const char *path, struct np_error *err);
enum np_status np_file_ensure_dir(const char *path, struct np_error *err);

/* Where a path leads, absolutely and with links followed, also where nothing is there yet, to be
 * freed; NULL, and errno, where it leads nowhere, as without its directory. */
char *np_file_target(const char *path);

/* *out: whether path names something (links followed). */
enum np_status np_file_exists(bool *out, const char *path, struct np_error *err);

/* The names in a directory without "." and "..", sorted by bytes. A zeroed struct is empty. */
struct np_file_names {
    char **name;
    size_t count, capacity;
};
enum np_status np_file_list(struct np_file_names *out, const char *path, struct np_error *err);
void np_file_names_clear(struct np_file_names *names);

/* *out = dir/name. A name from an untrusted file cannot leave dir: NP_EINPUT for an empty or
 * absolute name, for an empty, "." or ".." part, and for control characters. */
enum np_status np_file_join(char **out, const char *dir, const char *name, struct np_error *err);

/* Whether a name in a directory is that of a file that was being written aside. */
bool np_file_is_aside(const char *name);
/* Removes what processes that were killed had begun to write aside in a directory, in which nobody
 * else may be writing. */
void np_file_sweep(const char *directory);

#endif
