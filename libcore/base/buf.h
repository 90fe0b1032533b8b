/* A growing string, for whatever is written as text.
 *
 * Errors:    NP_EMEM; the buffer keeps what it held.
 * Ownership: a zeroed struct np_buf is empty; np_buf_clear releases it. `text` is NULL until the
 *            first append and NUL-terminated after it; it moves when the buffer grows.
 */
#ifndef NP_BASE_BUF_H
#define NP_BASE_BUF_H

#include <stddef.h>

#include "base/error.h"

struct np_buf {
    char *text;
    size_t used; /* bytes, without the NUL */
    size_t capacity;
};

void np_buf_clear(struct np_buf *buf);

/* Appends n bytes. */
enum np_status np_buf_append(struct np_buf *buf, const void *bytes, size_t n, struct np_error *err);

/* Appends what printf writes in the "C" locale; err stands first because the arguments end the
 * list. */
enum np_status np_buf_printf(struct np_buf *buf, struct np_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
