/* A stream of subnets from a file or pipe, read character by character: lines of any length take
 * no memory, and nothing is waited for beyond the end of the line that was asked for. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "space/stream.h"

#define ASK_MS 100 /* from one question whether to go on waiting to the next */

struct reader {
    const struct np_stream *stream;
    int file;
    int error; /* an errno; EINTR: waiting was given up */
    struct np_safe name;
    unsigned long long line, column; /* of the character read last, from 1 */
    int c;                           /* that character, or EOF */
    size_t at, end;                  /* of what is in `bytes` */
    char bytes[4096];
};

/* Waits until there is something to read, or the end; false: an error. */
static bool await_writer(struct reader *r)
{
    const struct np_stream *stream = r->stream;
    struct pollfd waited = {.fd = r->file, .events = POLLIN};
    int ready;
    do {
        ready = poll(&waited, 1, stream->give_up ? ASK_MS : -1);
        if (ready < 0 && (errno != EINTR || !stream->give_up)) {
            r->error = errno;
            return false;
        }
        if (ready <= 0 && stream->give_up(stream->waiter)) {
            r->error = EINTR;
            return false;
        }
    } while (ready <= 0);
    return true;
}

static void fill(struct reader *r)
{
    ssize_t bytes;
    r->at = r->end = 0;
    if (!await_writer(r))
        return;
    do
        bytes = read(r->file, r->bytes, sizeof r->bytes);
    while (bytes < 0 && errno == EINTR);
    if (bytes < 0)
        r->error = errno;
    else
        r->end = (size_t)bytes;
}

static int advance(struct reader *r)
{
    r->column++;
    if (r->at == r->end)
        fill(r);
    r->c = r->at < r->end ? (unsigned char)r->bytes[r->at++] : EOF;
    return r->c;
}

static enum np_status refuse_char(const struct reader *r, struct np_error *err)
{
    char text[8], byte = (char)r->c;
    return np_fail(err, NP_EINPUT, "%s:%llu:%llu: unexpected '%s'", r->name.s, r->line, r->column,
                   np_text_escape(text, sizeof text, &byte, 1));
}

/* One index, from its first digit to the character behind it. The line's surplus is only counted.
 */
static enum np_status read_index(struct reader *r, const struct np_stream_shape *shape,
                                 uint16_t *choices, int block, struct np_error *err)
{
    unsigned long long column = r->column;
    struct np_error why;
    enum np_status status;
    int value = 0;
    for (; isdigit(r->c); advance(r))
        value = value > (INT_MAX - 9) / 10 ? INT_MAX : 10 * value + (r->c - '0');
    if (r->c != EOF && !strchr(" \t\r\n#", r->c))
        return refuse_char(r, err);
    if (block >= shape->blocks || r->error) /* cut short is no index */
        return NP_OK;
    status = np_stream_choose(choices, shape, block, value, &why);
    if (status != NP_OK)
        return np_fail(err, status, "%s:%llu:%llu: %s", r->name.s, r->line, column, why.msg);
    return NP_OK;
}

/* The rest of a line whose first character was read: its indices, or none. */
static enum np_status read_line(struct reader *r, const struct np_stream_shape *shape,
                                uint16_t *choices, int *count, struct np_error *err)
{
    enum np_status status = NP_OK;
    *count = 0;
    while (r->c != '\n' && r->c != EOF) {
        if (isdigit(r->c)) {
            NP_TRY(read_index(r, shape, choices, *count, err));
            *count += *count < INT_MAX;
        } else if (r->c == '#') {
            while (r->c != '\n' && r->c != EOF)
                advance(r);
        } else if (r->c == ' ' || r->c == '\t' || r->c == '\r') {
            advance(r);
        } else {
            NP_TRY(refuse_char(r, err));
        }
    }
    if (*count != 0 && *count != shape->blocks && !r->error)
        NP_TRY(np_fail(err, NP_EINPUT, "%s:%llu: %d indices, not %d", r->name.s, r->line, *count,
                       shape->blocks));
out:
    return status;
}

/* The next line that has indices; *more false at the end of the file. */
static enum np_status read_member(struct reader *r, const struct np_stream_shape *shape,
                                  uint16_t *choices, bool *more, struct np_error *err)
{
    enum np_status status;
    int count = 0;
    *more = true;
    while (count == 0) {
        r->line++;
        r->column = 0;
        advance(r);
        if (r->c != EOF)
            NP_TRY(read_line(r, shape, choices, &count, err));
        if (r->c == EOF && r->error == EINTR)
            return np_fail(err, NP_ESTOP, "stopped on request while waiting for '%s'", r->name.s);
        if (r->c == EOF && r->error) {
            errno = r->error;
            return np_fail_errno(err, "cannot read '%s'", r->name.s);
        }
        if (r->c == EOF && count == 0) {
            *more = false;
            break;
        }
    }
    status = NP_OK;
out:
    return status;
}

static enum np_status next_file(struct np_stream *stream, uint16_t *choices, bool *more,
                                struct np_error *err)
{
    struct reader *r = stream->state;
    int members = stream->shape.members;
    enum np_status status;
    for (int member = 0; member < members; member++) {
        NP_TRY(read_member(r, &stream->shape,
                           choices + (size_t)member * (size_t)stream->shape.blocks, more, err));
        if (!*more && member == 0)
            return NP_OK;
        if (!*more)
            NP_TRY(np_fail(err, NP_EINPUT,
                           "%s:%llu: the file ends inside step %llu, after %d of %d "
                           "members",
                           r->name.s, r->line, (unsigned long long)stream->step, member, members));
    }
    stream->step++;
out:
    return status;
}

static void close_file(struct np_stream *stream)
{
    struct reader *r = stream->state;
    if (r->file > STDIN_FILENO)
        close(r->file);
    free(r);
}

/* A file is checked as a whole before its first step is trained; of a pipe its writer knows. */
static enum np_status check_file(struct np_stream *stream, uint16_t *choices, struct np_error *err)
{
    struct reader *r = stream->state;
    off_t begin = lseek(r->file, 0, SEEK_CUR); /* standard input may have been read from before */
    struct stat info;
    bool more = true;
    enum np_status status = NP_OK;
    if (begin < 0 || fstat(r->file, &info) != 0 || !S_ISREG(info.st_mode))
        return NP_OK;
    while (more)
        NP_TRY(next_file(stream, choices, &more, err));
    if (lseek(r->file, begin, SEEK_SET) != begin)
        return np_fail_errno(err, "cannot read '%s' twice", r->name.s);
    r->at = r->end = 0;
    r->line = 0;
    stream->step = 0;
out:
    return status;
}

static enum np_status open_at(struct np_stream *stream, uint64_t first, struct np_error *err)
{
    const struct reader *r = stream->state;
    size_t words = (size_t)stream->shape.blocks * (size_t)stream->shape.members;
    uint16_t *passed = NULL;
    enum np_status status;
    bool more = true;
    NP_TRY(np_alloc(&passed, words, sizeof *passed, err));
    NP_TRY(check_file(stream, passed, err));
    while (stream->step < first) {
        NP_TRY(next_file(stream, passed, &more, err));
        if (!more)
            NP_TRY(np_fail(err, NP_EINPUT, "%s: ends after %llu steps, before step %llu", r->name.s,
                           (unsigned long long)stream->step, (unsigned long long)first));
    }
out:
    free(passed);
    return status;
}

/* A pipe is open before somebody writes into it, who is waited for where that can be given up. */
static int open_to_read(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0 && fcntl(file, F_SETFL, 0) != 0) {
        close(file);
        return -1;
    }
    return file;
}

enum np_status np_stream_open(struct np_stream **out, const struct np_stream_shape *shape,
                              const char *path, uint64_t first, bool (*give_up)(void *),
                              void *context, struct np_error *err)
{
    struct np_stream *stream = NULL;
    struct reader *r = NULL;
    enum np_status status;
    bool standard = strcmp(path, "-") == 0;
    NP_TRY(np_stream_new(&stream, shape, err));
    np_stream_give_up(stream, give_up, context);
    NP_TRY(np_zalloc(&r, 1, sizeof *r, err));
    r->name = np_text_safe(standard ? "<stdin>" : path);
    r->stream = stream;
    stream->state = r;
    stream->next = next_file;
    stream->close = close_file;
    r->file = standard ? STDIN_FILENO : open_to_read(path);
    if (r->file < 0)
        NP_TRY(np_fail_errno(err, "cannot open '%s'", r->name.s));
    NP_TRY(open_at(stream, first, err));
    *out = stream;
    return NP_OK;
out:
    np_stream_close(stream);
    return status;
}
