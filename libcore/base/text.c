#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"

#define WORD_MAX 64 /* longer words get no suggestion */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool parse_digits(uint64_t *out, const char *text, const char *end)
{
    uint64_t value = 0;
    if (text == end)
        return false;
    for (; text < end; text++) {
        if (!is_digit(*text) || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}

bool np_text_parse_uint64(uint64_t *out, const char *text, uint64_t min, uint64_t max)
{
    uint64_t value;
    if (!parse_digits(&value, text, text + strlen(text)) || value < min || value > max)
        return false;
    *out = value;
    return true;
}

bool np_text_parse_count(uint64_t *out, const char *text, uint64_t min, uint64_t max)
{
    return (text[0] != '0' || text[1] == '\0') && np_text_parse_uint64(out, text, min, max);
}

bool np_text_parse_int64(int64_t *out, const char *text, int64_t min, int64_t max)
{
    bool minus = text[0] == '-';
    uint64_t size, limit = (uint64_t)INT64_MAX + minus;
    int64_t value;
    if (!np_text_parse_uint64(&size, text + minus, 0, limit))
        return false;
    value = minus ? -(int64_t)(size - (size > 0)) - (size > 0) : (int64_t)size;
    if (value < min || value > max)
        return false;
    *out = value;
    return true;
}

/* Skips the digits of the base; counts them, and notes whether one is not zero. */
static const char *skip_digits(const char *p, bool hex, size_t *count, bool *nonzero)
{
    for (; is_digit(*p) || (hex && *p && strchr("abcdefABCDEF", *p)); p++) {
        *count += 1;
        *nonzero |= *p != '0';
    }
    return p;
}

/* Whether text is the grammar of a finite number; strtod alone would take blanks, "inf" and more.
 */
static bool is_number(const char *text, bool *nonzero)
{
    const char *p = text + (text[0] == '-');
    bool hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X'), unused = false;
    size_t digits = 0, exponent = 0;
    *nonzero = false;
    p = skip_digits(p + (hex ? 2 : 0), hex, &digits, nonzero);
    if (*p == '.')
        p = skip_digits(p + 1, hex, &digits, nonzero);
    if (digits == 0)
        return false;
    if (hex ? *p == 'p' || *p == 'P' : *p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '-' || p[1] == '+');
        p = skip_digits(p, false, &exponent, &unused);
        if (exponent == 0)
            return false;
    }
    return *p == '\0';
}

bool np_text_parse_double(double *out, const char *text)
{
    struct np_c_locale c;
    bool nonzero;
    double value;
    if (!is_number(text, &nonzero))
        return false;
    c = np_c_locale_enter();
    value = strtod(text, NULL);
    np_c_locale_leave(c);
    if (!isfinite(value) || (nonzero && value == 0))
        return false;
    *out = value;
    return true;
}

bool np_text_parse_size(uint64_t *out, const char *text, uint64_t min, uint64_t max)
{
    static const char *const units[] = {"", "B", "KiB", "MiB", "GiB", "TiB"};
    static const int shifts[] = {0, 0, 10, 20, 30, 40};
    const char *end = text;
    uint64_t value;
    size_t i = 0, n = sizeof units / sizeof *units;
    while (is_digit(*end))
        end++;
    while (i < n && strcmp(end, units[i]) != 0)
        i++;
    if (i == n || !parse_digits(&value, text, end) ||
        __builtin_mul_overflow(value, UINT64_C(1) << shifts[i], &value) || value < min ||
        value > max)
        return false;
    *out = value;
    return true;
}

bool np_text_parse_amount(double *out, const char *text)
{
    static const char letters[] = "kMGBT";
    static const double units[] = {1e3, 1e6, 1e9, 1e9, 1e12};
    char number[32];
    size_t length = strlen(text);
    const char *letter = length ? strchr(letters, text[length - 1]) : NULL;
    double value;
    if (!letter || strpbrk(text, "xX")) /* hexadecimal numbers end in digits of their own */
        return np_text_parse_double(out, text);
    snprintf(number, sizeof number, "%.*s", (int)length - 1, text);
    if (length > sizeof number || !np_text_parse_double(&value, number))
        return false;
    value *= units[letter - letters];
    if (!isfinite(value))
        return false;
    *out = value;
    return true;
}

static bool write_nonfinite(struct np_number *out, double value)
{
    if (isfinite(value))
        return false;
    snprintf(out->s, sizeof out->s, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
    return true;
}

/* Tries 1, 2, ... digits: %.9g (float) and %.17g (double) always read back. */
static struct np_number shortest(double value, bool is_float)
{
    struct np_number out;
    struct np_c_locale c;
    if (write_nonfinite(&out, value))
        return out;
    c = np_c_locale_enter();
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out.s, sizeof out.s, "%.*g", digits, value);
        if ((is_float ? (double)strtof(out.s, NULL) : strtod(out.s, NULL)) == value)
            break;
    }
    np_c_locale_leave(c);
    return out;
}

struct np_number np_text_float(float value)
{
    return shortest((double)value, true);
}

struct np_number np_text_double(double value)
{
    return shortest(value, false);
}

struct np_number np_text_hex(double value)
{
    struct np_number out;
    const char *sign = signbit(value) ? "-" : "";
    int exponent, digits = 13;
    uint64_t fraction;
    if (write_nonfinite(&out, value))
        return out;
    if (value == 0) {
        snprintf(out.s, sizeof out.s, "%s0x0p+0", sign);
        return out;
    }
    /* frexp gives [1/2, 1): 53 bits with the leading one, which the format writes as "1". */
    fraction = (uint64_t)ldexp(frexp(fabs(value), &exponent), 53) & ((UINT64_C(1) << 52) - 1);
    exponent--;
    for (; digits > 0 && (fraction & 15) == 0; digits--)
        fraction >>= 4;
    if (digits)
        snprintf(out.s, sizeof out.s, "%s0x1.%0*llxp%+d", sign, digits,
                 (unsigned long long)fraction, exponent);
    else
        snprintf(out.s, sizeof out.s, "%s0x1p%+d", sign, exponent);
    return out;
}

struct np_number np_text_size(uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    struct np_number out;
    uint64_t tenths;
    size_t unit = 0;
    if (bytes < 2048 && bytes != 1024) {
        snprintf(out.s, sizeof out.s, "%llu B", (unsigned long long)bytes);
        return out;
    }
    for (; bytes >> 20 && unit < 3; unit++)
        bytes >>= 10;
    tenths = (bytes & 1023) * 10 >> 10;
    if (tenths)
        snprintf(out.s, sizeof out.s, "%llu.%llu %s", (unsigned long long)(bytes >> 10),
                 (unsigned long long)tenths, units[unit]);
    else
        snprintf(out.s, sizeof out.s, "%llu %s", (unsigned long long)(bytes >> 10), units[unit]);
    return out;
}

/* The value of a lower-case digit, or -1. */
static int digit_value(char c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool np_text_parse_bytes(unsigned char *out, const char *digits, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        int high = digit_value(digits[2 * i]), low = high < 0 ? -1 : digit_value(digits[2 * i + 1]);
        if (low < 0)
            return false;
        out[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* Writes one byte as up to 4 characters; returns how many. */
static size_t escape_byte(char out[4], unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    if (byte >= 0x20 && byte < 0x7f) {
        out[0] = out[1] = (char)byte;
        return byte == '\\' ? 2 : 1;
    }
    out[0] = '\\';
    out[1] = 'x';
    out[2] = hex[byte >> 4];
    out[3] = hex[byte & 15];
    return 4;
}

const char *np_text_escape(char *out, size_t size, const char *bytes, size_t n)
{
    size_t used = 0, cut = 0; /* cut: where "..." still fits */
    assert(size >= 8);
    for (size_t i = 0; i < n; i++) {
        char piece[4];
        size_t length = escape_byte(piece, (unsigned char)bytes[i]);
        if (used + length > size - 1) {
            memcpy(out + cut, "...", 4);
            return out;
        }
        memcpy(out + used, piece, length);
        used += length;
        if (used + 3 <= size - 1)
            cut = used;
    }
    out[used] = '\0';
    return out;
}

struct np_safe np_text_safe(const char *text)
{
    struct np_safe out;
    np_text_escape(out.s, sizeof out.s, text, strnlen(text, sizeof out.s));
    return out;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment: Levenshtein's table with swaps of neighbours, three rows of it. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][WORD_MAX + 1];
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] =
                min_size(min_size(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = min_size(row[j], above2[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

const char *np_text_suggest(const char *word, const char *const *candidates, size_t n)
{
    size_t length = strnlen(word, WORD_MAX + 1);
    size_t best = min_size(length < 6 ? 1 : length / 3, 3) + 1;
    const char *found = NULL;
    if (length > WORD_MAX)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t other = strlen(candidates[i]), d;
        if (other > WORD_MAX)
            continue;
        d = distance(word, length, candidates[i], other);
        if (d < best && d < min_size(length, other)) {
            best = d;
            found = candidates[i];
        }
    }
    return found;
}
