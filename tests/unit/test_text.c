#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "suite.h"

START_TEST(test_whole_numbers)
{
    static const char *const bad[] = {"",    "-",    "+1",  " 1",      "1 ",
                                      "1.0", "1e3",  "0x1", "--1",     "9223372036854775808",
                                      "abc", "1\n2", "1_0", "\xd9\xa1"};
    int64_t i = 77;
    uint64_t u = 77;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        ck_assert_msg(!np_text_parse_int64(&i, bad[k], INT64_MIN, INT64_MAX), "'%s'", bad[k]);
        if (strlen(bad[k]) < 15)
            ck_assert_msg(!np_text_parse_uint64(&u, bad[k], 0, UINT64_MAX), "'%s'", bad[k]);
    }
    ck_assert(i == 77 && u == 77);
    ck_assert(np_text_parse_int64(&i, "-9223372036854775808", INT64_MIN, INT64_MAX));
    ck_assert(i == INT64_MIN);
    ck_assert(!np_text_parse_int64(&i, "-9223372036854775809", INT64_MIN, INT64_MAX));
    ck_assert(np_text_parse_int64(&i, "9223372036854775807", INT64_MIN, INT64_MAX));
    ck_assert(i == INT64_MAX);
    ck_assert(np_text_parse_int64(&i, "-0", INT64_MIN, INT64_MAX) && i == 0);
    ck_assert(np_text_parse_int64(&i, "-12", -12, -12) && i == -12);
    ck_assert(!np_text_parse_int64(&i, "-13", -12, 0) && !np_text_parse_int64(&i, "1", -12, 0));
    ck_assert(np_text_parse_uint64(&u, "18446744073709551615", 0, UINT64_MAX) && u == UINT64_MAX);
    ck_assert(!np_text_parse_uint64(&u, "18446744073709551616", 0, UINT64_MAX));
    ck_assert(!np_text_parse_uint64(&u, "-1", 0, UINT64_MAX));
    ck_assert(np_text_parse_uint64(&u, "0000000500", 1, 500) && u == 500);
    ck_assert(np_text_parse_count(&u, "500", 1, 500) && np_text_parse_count(&u, "0", 0, 1));
    ck_assert(!np_text_parse_count(&u, "0500", 1, 500) && !np_text_parse_count(&u, "00", 0, 1));
    ck_assert(!np_text_parse_count(&u, "", 0, 1) && !np_text_parse_count(&u, "501", 1, 500));
    ck_assert(!np_text_parse_uint64(&u, "501", 1, 500) && !np_text_parse_uint64(&u, "0", 1, 500));
}
END_TEST

START_TEST(test_doubles)
{
    static const char *const bad[] = {"",     ".",     "-",     "e5",     "1e",   "1e+",
                                      "inf",  "nan",   "1e999", "1e-999", " 1",   "1 ",
                                      "1,5",  "1.5.2", "0x",    "0x.p1",  "0x1p", "+1",
                                      "1.0f", "--1",   "1e5.0", "-inf",   "1d5",  "0x1p-9999999"};
    double d = 77;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        ck_assert_msg(!np_text_parse_double(&d, bad[k]), "'%s'", bad[k]);
    ck_assert(d == 77);
    ck_assert(np_text_parse_double(&d, "1.0e-3") && d == 1.0e-3);
    ck_assert(np_text_parse_double(&d, "-.5") && d == -0.5);
    ck_assert(np_text_parse_double(&d, "2.") && d == 2);
    ck_assert(np_text_parse_double(&d, "1E+2") && d == 100);
    ck_assert(np_text_parse_double(&d, "0x1.8p+1") && d == 3);
    ck_assert(np_text_parse_double(&d, "4.9406564584124654e-324") && d == 0x1p-1074);
    ck_assert(np_text_parse_double(&d, "0e-9999") && d == 0);
    ck_assert(np_text_parse_double(&d, "-0") && d == 0 && signbit(d));
}
END_TEST

START_TEST(test_sizes)
{
    static const char *const bad[] = {"",           "KiB",   "1KB",
                                      "1kib",       "1 KiB", "-1",
                                      "1.5GiB",     "1KiBx", "18446744073709551615KiB",
                                      "16777216TiB"};
    static const struct {
        uint64_t bytes;
        const char *text;
    } shown[] = {{0, "0 B"},
                 {1023, "1023 B"},
                 {1024, "1 KiB"},
                 {1536, "1536 B"},
                 {5 << 9, "2.5 KiB"},
                 {1 << 20, "1 MiB"},
                 {3 << 29, "1.5 GiB"},
                 {(1 << 20) - 1, "1023.9 KiB"},
                 {UINT64_C(1) << 50, "1024 TiB"}};
    uint64_t u = 77;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        ck_assert_msg(!np_text_parse_size(&u, bad[k], 0, UINT64_MAX), "'%s'", bad[k]);
    ck_assert(u == 77);
    ck_assert(np_text_parse_size(&u, "100", 0, UINT64_MAX) && u == 100);
    ck_assert(np_text_parse_size(&u, "100B", 0, UINT64_MAX) && u == 100);
    ck_assert(np_text_parse_size(&u, "64KiB", 0, UINT64_MAX) && u == 65536);
    ck_assert(np_text_parse_size(&u, "2GiB", 0, UINT64_MAX) && u == UINT64_C(2) << 30);
    ck_assert(np_text_parse_size(&u, "3TiB", 0, UINT64_MAX) && u == UINT64_C(3) << 40);
    ck_assert(!np_text_parse_size(&u, "2MiB", 0, 1 << 20));
    for (size_t k = 0; k < sizeof shown / sizeof *shown; k++)
        ck_assert_str_eq(np_text_size(shown[k].bytes).s, shown[k].text);
}
END_TEST

START_TEST(test_amounts)
{
    static const char *const bad[] = {"",    "k",   "M6",   "6m",     "6 M",
                                      "1MB", "nan", "infM", "1e308k", "0x1kk"};
    static const struct {
        const char *text;
        double value;
    } good[] = {{"600M", 600e6}, {"1.5G", 1.5e9}, {"7B", 7e9}, {"2e3k", 2e6}, {"0.5T", 0.5e12},
                {"-3k", -3000},  {"100e6", 1e8},  {"17", 17},  {"0x1B", 27}};
    double value = 77;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        ck_assert_msg(!np_text_parse_amount(&value, bad[k]), "'%s'", bad[k]);
    ck_assert(value == 77);
    for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
        ck_assert_msg(np_text_parse_amount(&value, good[k].text), "'%s'", good[k].text);
        ck_assert(value == good[k].value);
    }
}
END_TEST

START_TEST(test_shortest)
{
    uint32_t bits = 12345;
    ck_assert_str_eq(np_text_float(0.1f).s, "0.1");
    ck_assert_str_eq(np_text_double((double)0.1f).s, "0.10000000149011612");
    ck_assert_str_eq(np_text_double(1e-8).s, "1e-08");
    ck_assert_str_eq(np_text_double(0.1 + 0.2).s, "0.30000000000000004");
    ck_assert_str_eq(np_text_double(-DBL_MAX).s, "-1.7976931348623157e+308");
    ck_assert_str_eq(np_text_float(-0.0f).s, "-0");
    ck_assert_str_eq(np_text_float(NAN).s, "nan");
    ck_assert_str_eq(np_text_float(-INFINITY).s, "-inf");
    for (int k = 0; k < 20000; k++) {
        float f, g;
        double d;
        bits = bits * 1664525 + 1013904223;
        memcpy(&f, &bits, sizeof f);
        if (!isfinite(f))
            continue;
        g = strtof(np_text_float(f).s, NULL);
        ck_assert_msg(memcmp(&f, &g, sizeof f) == 0, "%a", (double)f);
        ck_assert(np_text_parse_double(&d, np_text_hex((double)f).s));
        g = (float)d;
        ck_assert_msg(memcmp(&f, &g, sizeof f) == 0, "%a", (double)f);
    }
}
END_TEST

START_TEST(test_hex)
{
    ck_assert_str_eq(np_text_hex(3).s, "0x1.8p+1");
    ck_assert_str_eq(np_text_hex(1).s, "0x1p+0");
    ck_assert_str_eq(np_text_hex(-0.0).s, "-0x0p+0");
    ck_assert_str_eq(np_text_hex(0x1p-1074).s, "0x1p-1074");
    ck_assert_str_eq(np_text_hex(-0x1.8p-1073).s, "-0x1.8p-1073");
    ck_assert_str_eq(np_text_hex((double)0x1p-149f).s, "0x1p-149");
    ck_assert_str_eq(np_text_hex(-DBL_MAX).s, "-0x1.fffffffffffffp+1023");
    ck_assert_str_eq(np_text_hex(0x1.01p+0).s, "0x1.01p+0");
    ck_assert_str_eq(np_text_hex((double)NAN).s, "nan");
    ck_assert_str_eq(np_text_hex((double)INFINITY).s, "inf");
}
END_TEST

START_TEST(test_escape)
{
    char out[12], text[1000];
    ck_assert_str_eq(np_text_safe("a b'c").s, "a b'c");
    ck_assert_str_eq(np_text_safe("\x1b[31m\n\xc3\xa9\\").s, "\\x1b[31m\\x0a\\xc3\\xa9\\\\");
    ck_assert_str_eq(np_text_escape(out, sizeof out, "a\0b", 3), "a\\x00b");
    ck_assert_str_eq(np_text_escape(out, sizeof out, "abcdefghijk", 11), "abcdefghijk");
    ck_assert_str_eq(np_text_escape(out, sizeof out, "abcdefghijkl", 12), "abcdefgh...");
    ck_assert_str_eq(np_text_escape(out, sizeof out, "abcdef\n\n", 8), "abcdef...");
    ck_assert_str_eq(np_text_escape(out, sizeof out, "", 0), "");
    memset(text, 'x', sizeof text);
    text[NP_SAFE_MAX] = '\0';
    ck_assert_str_eq(np_text_safe(text).s, text);
    text[NP_SAFE_MAX] = 'x';
    text[sizeof text - 1] = '\0';
    ck_assert(strlen(np_text_safe(text).s) == NP_SAFE_MAX);
    ck_assert_str_eq(np_text_safe(text).s + NP_SAFE_MAX - 4, "x...");
}
END_TEST

START_TEST(test_suggest)
{
    static const char *const words[] = {"mha", "ffn", "conv1d", "identity", "optimizer", "lr"};
    static const struct {
        const char *word, *answer;
    } cases[] = {{"mah", "mha"},
                 {"optimzer", "optimizer"},
                 {"identiyt", "identity"},
                 {"Conv1d", "conv1d"},
                 {"conv", NULL},
                 {"rl", "lr"},
                 {"x", NULL},
                 {"", NULL},
                 {"xyz", NULL},
                 {"lrr", "lr"},
                 {"optimisation", NULL},
                 {"iddentitty", "identity"}};
    char longest[100];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char *answer = np_text_suggest(cases[k].word, words, 6);
        if (cases[k].answer)
            ck_assert_msg(answer && !strcmp(answer, cases[k].answer), "'%s'", cases[k].word);
        else
            ck_assert_msg(!answer, "'%s' gave '%s'", cases[k].word, answer);
    }
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    ck_assert(!np_text_suggest(longest, words, 6));
    ck_assert(!np_text_suggest("mha", NULL, 0));
}
END_TEST

START_TEST(test_buf)
{
    struct np_buf buf = {0};
    struct np_error err;
    for (int k = 0; k < 1000; k++)
        ck_assert(np_buf_printf(&buf, &err, "%d,", k % 10) == NP_OK);
    ck_assert(buf.used == 2000 && strlen(buf.text) == 2000);
    ck_assert(memcmp(buf.text + 1996, "8,9,", 5) == 0);
    ck_assert(np_buf_append(&buf, "a\0b", 3, &err) == NP_OK);
    ck_assert(np_buf_append(&buf, NULL, 0, &err) == NP_OK);
    ck_assert(buf.used == 2003 && memcmp(buf.text + 2000, "a\0b", 4) == 0);
    ck_assert(np_buf_append(&buf, "", SIZE_MAX, &err) == NP_EMEM);
    ck_assert(buf.used == 2003);
    np_buf_clear(&buf);
    ck_assert(!buf.text && !buf.used);
    np_buf_clear(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text");
    TCase *tests = suite_case(suite, "text");
    tcase_add_test(tests, test_whole_numbers);
    tcase_add_test(tests, test_doubles);
    tcase_add_test(tests, test_sizes);
    tcase_add_test(tests, test_amounts);
    tcase_add_test(tests, test_shortest);
    tcase_add_test(tests, test_hex);
    tcase_add_test(tests, test_escape);
    tcase_add_test(tests, test_suggest);
    tcase_add_test(tests, test_buf);
    return suite_run(suite);
}
