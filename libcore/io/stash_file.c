#define _GNU_SOURCE /* O_DIRECT, sync_file_range */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/stash_parts.h"

struct np_stash_file {
    char *path; /* for messages: it is unlinked */
    int fd;
    bool direct;
    struct np_stash_rings *rings; /* NULL: plain reads and writes */
};

bool np_stash_retried(int error, int *tries)
{
    if (error == EINTR)
        return true;
    if ((error != EAGAIN && error != EBUSY && error != ENOMEM) || *tries == NP_STASH_TRIES)
        return false;
    ++*tries;
    np_stash_pause();
    return true;
}

void np_stash_pause(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* A refused path is the user's affair; the message is that of errno. */
static enum np_status refuse(const char *path, struct np_error *err)
{
    np_fail_errno(err, "cannot create '%s'", np_text_safe(path).s);
    if (err)
        err->code = NP_EINPUT;
    return NP_EINPUT;
}

static enum np_status open_new(struct np_stash_file *file, uint64_t bytes, struct np_error *err)
{
    do
        file->fd = open(file->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600);
    while (file->fd < 0 && errno == EINTR);
    if (file->fd < 0)
        return refuse(file->path, err);
    if (unlink(file->path) != 0)
        return np_fail_errno(err, "cannot unlink '%s'", np_text_safe(file->path).s);
    /* At its full size, so that no write moves the end, which would make others wait. */
    if (ftruncate(file->fd, (off_t)bytes) != 0)
        return np_fail_errno(err, "cannot make '%s' %s large", np_text_safe(file->path).s,
                             np_text_size(bytes).s);
    return NP_OK;
}

/* Some file systems refuse the flag, others the first transfer, which is a page of zeros here. */
static bool go_direct(int fd, uint64_t bytes)
{
    static const _Alignas(NP_STASH_ALIGN) char page[NP_STASH_ALIGN];
    int flags = fcntl(fd, F_GETFL);
    if (bytes == 0 || flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0)
        return false;
    if (pwrite(fd, page, sizeof page, 0) >= 0 || errno != EINVAL)
        return true;
    fcntl(fd, F_SETFL, flags);
    return false;
}

enum np_status np_stash_file_new(struct np_stash_file **out, const char *path, uint64_t bytes,
                                 struct np_stash_ways ways, struct np_error *err)
{
    struct np_stash_file *file = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&file, 1, sizeof *file, err));
    file->fd = -1;
    NP_TRY(np_strdup(&file->path, path, err));
    NP_TRY(open_new(file, bytes, err));
    file->direct = ways.direct && go_direct(file->fd, bytes);
    if (file->direct && ways.uring)
        file->rings = np_stash_rings_new(file->fd);
    *out = file;
    file = NULL;
out:
    np_stash_file_free(file);
    return status;
}

void np_stash_file_free(struct np_stash_file *file)
{
    if (!file)
        return;
    np_stash_rings_free(file->rings);
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    free(file);
}

/* One transfer after the other. A direct one that came up short goes on at a page. */
static int move_plain(const struct np_stash_file *file, struct np_stash_span span)
{
    int tries = 0;
    while (span.bytes) {
        ssize_t n = span.write ? pwrite(file->fd, span.data, (size_t)span.bytes, (off_t)span.offset)
                               : pread(file->fd, span.data, (size_t)span.bytes, (off_t)span.offset);
        if (n < 0 && np_stash_retried(errno, &tries))
            continue;
        if (n < 0)
            return errno;
        if (file->direct)
            n -= n % NP_STASH_ALIGN;
        if (n == 0)
            return EIO;
        tries = 0;
        span.data += n;
        span.offset += (uint64_t)n;
        span.bytes -= (uint64_t)n;
    }
    return 0;
}

/* What went through the system's memory leaves it; pages must be clean for that. Where the system
 * does not know the call they leave later. */
static int drop_pages(int fd, const struct np_stash_span *span)
{
    const unsigned flags =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    off_t offset = (off_t)span->offset, bytes = (off_t)span->bytes;
    if (span->write && bytes && sync_file_range(fd, offset, bytes, flags) != 0 && errno != ENOSYS &&
        errno != EOPNOTSUPP && errno != EINVAL && errno != ESPIPE)
        return errno;
    posix_fadvise(fd, offset, bytes, POSIX_FADV_DONTNEED); /* advice: it may be refused */
    return 0;
}

enum np_status np_stash_file_move(struct np_stash_file *file, struct np_stash_span span,
                                  struct np_error *err)
{
    assert((uintptr_t)span.data % NP_STASH_ALIGN == 0);
    int error = file->rings ? np_stash_rings_move(file->rings, span) : move_plain(file, span);
    if (error == ECANCELED) /* a ring wants a thread of the kernel, and these are limited */
        error = move_plain(file, span);
    if (!error && !file->direct)
        error = drop_pages(file->fd, &span);
    if (!error)
        return NP_OK;
    errno = error;
    return np_fail_errno(err, "cannot %s '%s'", span.write ? "write" : "read",
                         np_text_safe(file->path).s);
}

const char *np_stash_file_means(const struct np_stash_file *file)
{
    return file->rings ? "direct, io_uring" : file->direct ? "direct" : "buffered";
}
