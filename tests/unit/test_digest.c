#include <check.h>
#include <string.h>

#include "io/digest.h"
#include "suite.h"

/* FIPS 180-4's examples, and the million letters a. */
START_TEST(test_known)
{
    static const struct {
        const char *text, *hex;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    struct np_digest digest, pieces;
    struct np_sha256 sha = {0};
    struct np_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = strlen(cases[i].text);
        ck_assert_int_eq(np_digest_compute(&digest, cases[i].text, n, &err), NP_OK);
        ck_assert_str_eq(np_digest_hex(&digest).s, cases[i].hex);
        ck_assert_int_eq(np_sha256_begin(&sha, &err), NP_OK);
        for (size_t k = 0; k < n; k++)
            ck_assert_int_eq(np_sha256_add(&sha, cases[i].text + k, 1, &err), NP_OK);
        ck_assert_int_eq(np_sha256_end(&sha, &pieces, &err), NP_OK);
        ck_assert(np_digest_equal(&digest, &pieces));
    }
    ck_assert_int_eq(np_sha256_begin(&sha, &err), NP_OK);
    for (int i = 0; i < 100000; i++)
        ck_assert_int_eq(np_sha256_add(&sha, "aaaaaaaaaa", 10, &err), NP_OK);
    ck_assert_int_eq(np_sha256_end(&sha, &digest, &err), NP_OK);
    ck_assert_str_eq(np_digest_hex(&digest).s,
                     "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    np_sha256_clear(&sha);
    np_sha256_clear(&sha);
    np_sha256_clear(NULL);
}
END_TEST

START_TEST(test_hex)
{
    static const char good[] = "00ff56789abcdef00123456789abcdef0123456789abcdef0123456789abcdef";
    struct np_digest digest, before;
    char bad[sizeof good];
    ck_assert(np_digest_parse(&digest, good, strlen(good)));
    ck_assert(digest.b[0] == 0 && digest.b[1] == 0xff && digest.b[31] == 0xef);
    ck_assert_str_eq(np_digest_hex(&digest).s, good);
    before = digest;
    for (size_t i = 0; i < sizeof good; i++) {
        ck_assert(i == 64 || !np_digest_parse(&digest, good, i));
        for (const char *c = "AFgG/:`@ \n\xff"; i < 64 && *c; c++) {
            memcpy(bad, good, sizeof good);
            bad[i] = *c;
            ck_assert_msg(!np_digest_parse(&digest, bad, 64), "%zu '%c'", i, *c);
        }
    }
    memcpy(bad, good, sizeof good);
    bad[10] = '\0';
    ck_assert(!np_digest_parse(&digest, bad, 64));
    ck_assert(np_digest_equal(&digest, &before));
    digest.b[31] ^= 1;
    ck_assert(!np_digest_equal(&digest, &before));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("digest");
    TCase *tests = suite_case(suite, "digest");
    tcase_add_test(tests, test_known);
    tcase_add_test(tests, test_hex);
    return suite_run(suite);
}
