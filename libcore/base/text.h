/* Text: strict numbers, sizes, names made safe to print, and suggestions for misspelt words.
 *
 * The same text gives the same number, and the same number the same text, in every locale. Nothing
 * is corrected: a text that is not wholly what was asked for is refused.
 *
 * Errors:    the parsers return false and leave *out untouched; the caller knows the place and
 *            writes the message.
 * Ownership: results are values, used as `np_text_safe(name).s` in the arguments of a message.
 */
#ifndef NP_BASE_TEXT_H
#define NP_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NP_SAFE_MAX 200 /* characters of an escaped name */

struct np_safe {
    char s[NP_SAFE_MAX + 1];
};

struct np_number {
    char s[32];
};

/* The whole of text as a number from min to max (both included). Whole numbers: digits, with a '-'
 * before them if signed; no '+', no blanks, base ten whatever zeros lead. */
bool np_text_parse_int64(int64_t *out, const char *text, int64_t min, int64_t max);
bool np_text_parse_uint64(uint64_t *out, const char *text, uint64_t min, uint64_t max);
/* The same, written in the one way that a program writes it: no zeros lead. */
bool np_text_parse_count(uint64_t *out, const char *text, uint64_t min, uint64_t max);

/* A finite number: decimal (-12.5e-3) or hexadecimal (0x1.8p+1), rounded to the nearest double.
 * Refused: infinities, NaN, what overflows, and what is not zero but would round to it. */
bool np_text_parse_double(double *out, const char *text);

/* The same; behind a decimal number k, M, G (or B) or T is a thousand, a million and so on. */
bool np_text_parse_amount(double *out, const char *text);

/* A size in bytes: a whole number with the unit B, KiB, MiB, GiB, TiB or none (bytes). */
bool np_text_parse_size(uint64_t *out, const char *text, uint64_t min, uint64_t max);

/* The fewest significant digits, as %g writes them, that read back as the same value; "nan", "inf",
 * "-inf". A float is read back as a float. */
struct np_number np_text_float(float value);
struct np_number np_text_double(double value);

/* The exact value in hexadecimal, one form for each value: 0x1.8p+1, 0x0p+0, -0x1p-149. A float is
 * passed as the double of the same value. */
struct np_number np_text_hex(double value);

/* Reads 2 * bytes lower-case hexadecimal digits; false where others stand: `out` may be changed. */
bool np_text_parse_bytes(unsigned char *out, const char *digits, size_t bytes);

/* A size for people: "1536 B", "64 KiB", "1.5 GiB"; one decimal at most, rounded down. */
struct np_number np_text_size(uint64_t bytes);

/* n bytes of an untrusted name made printable: control and non-ASCII bytes as \xNN, a backslash
 * doubled, cut with "..." if longer than size - 1 characters (size >= 8). Returns out. */
const char *np_text_escape(char *out, size_t size, const char *bytes, size_t n);

/* The same for a string, at most NP_SAFE_MAX characters. */
struct np_safe np_text_safe(const char *text);

/* The candidate closest to word, or NULL if none is close: insertions, deletions, substitutions
 * and swaps of neighbours are counted; at most a third of the word's letters (one to three) may
 * differ. The first of equals. */
const char *np_text_suggest(const char *word, const char *const *candidates, size_t n);

#endif
