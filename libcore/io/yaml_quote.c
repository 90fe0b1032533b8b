#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "io/yaml.h"

/* The length of the UTF-8 sequence at p and its code point, or 0 if it is not one (RFC 3629). */
static size_t decode(uint32_t *out, const unsigned char *p)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = *p < 0x80   ? 1
                    : *p < 0xc0 ? 0
                    : *p < 0xe0 ? 2
                    : *p < 0xf0 ? 3
                    : *p < 0xf8 ? 4
                                : 0;
    uint32_t code = length == 1 ? *p : *p & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3f);
    }
    if (length == 0 || code < least[length] || code > 0x10ffff ||
        (code >= 0xd800 && code <= 0xdfff))
        return 0;
    *out = code;
    return length;
}

/* Words of plain letters that some reader takes for a bool or for nothing. */
static bool is_reserved(const char *text)
{
    static const char *const words[] = {"null", "true", "false", "yes", "no",
                                        "on",   "off",  "y",     "n"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(text, words[i]) == 0)
            return true;
    }
    return false;
}

/* A narrow set that needs no quotes anywhere in YAML: names and paths. */
static bool is_plain(const char *text)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/";
    static const char others[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/0123456789.+-";
    return text[0] && strchr(first, text[0]) && strspn(text, others) == strlen(text) &&
           !is_reserved(text);
}

static bool is_printable(uint32_t code)
{
    return code >= 0x20 && !(code >= 0x7f && code < 0xa0) && code != 0x2028 && code != 0x2029 &&
           code != 0xfeff && code != 0xfffe && code != 0xffff;
}

enum np_status np_yaml_quote(struct np_buf *buf, const char *text, struct np_error *err)
{
    size_t before = buf->used, length;
    enum np_status status;
    uint32_t code;
    if (is_plain(text))
        return np_buf_append(buf, text, strlen(text), err);
    NP_TRY(np_buf_append(buf, "\"", 1, err));
    for (const char *p = text; *p; p += length) {
        length = decode(&code, (const unsigned char *)p);
        if (length == 0) {
            status = np_fail(err, NP_EINPUT, "'%s' is not UTF-8", np_text_safe(text).s);
            goto out;
        }
        if (code == '"' || code == '\\')
            NP_TRY(np_buf_append(buf, "\\", 1, err));
        if (is_printable(code))
            NP_TRY(np_buf_append(buf, p, length, err));
        else
            NP_TRY(np_buf_printf(buf, err, "\\u%04x", code));
    }
    NP_TRY(np_buf_append(buf, "\"", 1, err));
    return NP_OK;
out:
    if (buf->text)
        buf->text[buf->used = before] = '\0';
    return status;
}
