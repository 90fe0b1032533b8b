#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Names in a message may hold anything; it stays one line and sends nothing to the terminal. */
static void make_plain(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

__attribute__((format(printf, 3, 0))) static void
write_msg(struct np_error *err, enum np_status code, const char *format, va_list args)
{
    if (err) {
        err->code = code;
        vsnprintf(err->msg, sizeof err->msg, format, args);
        make_plain(err->msg);
    }
}

enum np_status np_fail(struct np_error *err, enum np_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_msg(err, code, format, args);
    va_end(args);
    return code;
}

enum np_status np_fail_errno(struct np_error *err, const char *format, ...)
{
    int number = errno;
    enum np_status code = number == ENOMEM ? NP_EMEM : NP_EIO;
    va_list args;
    va_start(args, format);
    write_msg(err, code, format, args);
    va_end(args);
    if (err) {
        char text[128];
        size_t used = strlen(err->msg);
        if (strerror_r(number, text, sizeof text) != 0)
            snprintf(text, sizeof text, "error %d", number);
        snprintf(err->msg + used, sizeof err->msg - used, ": %s", text);
    }
    return code;
}
