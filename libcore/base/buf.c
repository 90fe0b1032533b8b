#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/memory.h"

void np_buf_clear(struct np_buf *buf)
{
    if (!buf)
        return;
    free(buf->text);
    *buf = (struct np_buf){0};
}

/* Makes room for n bytes and the NUL after them; at least doubles, so that appending is linear. */
static enum np_status reserve(struct np_buf *buf, size_t n, struct np_error *err)
{
    size_t wanted, doubled;
    char *grown;
    if (!np_add_size(&wanted, buf->used, n) || !np_add_size(&wanted, wanted, 1))
        return np_fail(err, NP_EMEM, "cannot hold a text of %zu + %zu bytes", buf->used, n);
    if (wanted <= buf->capacity)
        return NP_OK;
    if (np_mul_size(&doubled, buf->capacity, 2) && doubled > wanted)
        wanted = doubled;
    grown = realloc(buf->text, wanted);
    if (!grown)
        return np_fail(err, NP_EMEM, "cannot allocate a text of %zu bytes", wanted);
    buf->text = grown;
    buf->capacity = wanted;
    return NP_OK;
}

enum np_status np_buf_append(struct np_buf *buf, const void *bytes, size_t n, struct np_error *err)
{
    enum np_status status = reserve(buf, n, err);
    if (status != NP_OK)
        return status;
    if (n)
        memcpy(buf->text + buf->used, bytes, n);
    buf->used += n;
    buf->text[buf->used] = '\0';
    return NP_OK;
}

__attribute__((format(printf, 3, 0))) static enum np_status
format_into(struct np_buf *buf, struct np_error *err, const char *format, va_list args)
{
    enum np_status status;
    va_list again;
    int length;
    va_copy(again, args);
    length = vsnprintf(NULL, 0, format, args);
    status = length < 0 ? np_fail(err, NP_EMEM, "cannot format a text")
                        : reserve(buf, (size_t)length, err);
    if (status == NP_OK) {
        vsnprintf(buf->text + buf->used, (size_t)length + 1, format, again);
        buf->used += (size_t)length;
    }
    va_end(again);
    return status;
}

enum np_status np_buf_printf(struct np_buf *buf, struct np_error *err, const char *format, ...)
{
    struct np_c_locale c = np_c_locale_enter();
    enum np_status status;
    va_list args;
    va_start(args, format);
    status = format_into(buf, err, format, args);
    va_end(args);
    np_c_locale_leave(c);
    return status;
}
