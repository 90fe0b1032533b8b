/* Sealed texts: files of lines, the last of which is the SHA-256 of all before it.
 *
 *     naspipe <format>
 *     <key> <value>
 *     ...
 *     <whatever the format has>
 *     end <64 hex digits>
 *
 * So a file that lost lines or bits is not taken for one that says less.
 *
 * Errors    NP_EDATA with file:line for a damaged text; NP_EINPUT for a file of more than the cap;
 *           NP_EIO; NP_EMEM.
 * Ownership np_sealed_clear; lines and values lie in the text.
 */
#ifndef NP_IO_SEALED_H
#define NP_IO_SEALED_H

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "io/digest.h"

/* One being read, line by line. */
struct np_sealed {
    const char *path, *what; /* for messages, borrowed: "manifest" */
    struct np_digest digest; /* of the whole file */
    char *text, *at;         /* the next line */
    size_t line;             /* the number of the last one that was read */
};

/* Adds the last line. */
enum np_status np_sealed_end(struct np_buf *text, struct np_error *err);

/* Reads a regular file and checks its last line, which is not read as one. */
enum np_status np_sealed_read(struct np_sealed *sealed, const char *path, const char *what,
                              size_t cap, struct np_error *err);
void np_sealed_clear(struct np_sealed *sealed);

/* The next line without its newline; NULL at the end. */
char *np_sealed_line(struct np_sealed *sealed);
/* The value of the next line, which must be "key value". */
enum np_status np_sealed_header(struct np_sealed *sealed, const char *key, char **value,
                                struct np_error *err);
/* The same where the value is known. */
enum np_status np_sealed_expect(struct np_sealed *sealed, const char *key, const char *value,
                                struct np_error *err);

/* "path:line: damaged manifest: reason", of the last line that was read. */
enum np_status np_sealed_damaged(const struct np_sealed *sealed, const char *reason,
                                 struct np_error *err);

#endif
