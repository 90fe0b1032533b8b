#include "io/digest.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include "base/text.h"

static enum np_status fail(struct np_error *err)
{
    return np_fail(err, NP_EMEM, "cannot compute SHA-256");
}

/* What OpenSSL has noted of it since the mark is ours, and not for who looks there next. */
static enum np_status conclude(bool good, struct np_error *err)
{
    ERR_pop_to_mark();
    return good ? NP_OK : fail(err);
}

/* Without it, for want of memory, EVP's functions would crash. */
static bool starts(void)
{
    return OSSL_LIB_CTX_get0_global_default() != NULL;
}

enum np_status np_digest_compute(struct np_digest *out, const void *bytes, size_t n,
                                 struct np_error *err)
{
    ERR_set_mark();
    return conclude(starts() && EVP_Digest(bytes, n, out->b, NULL, EVP_sha256(), NULL) == 1, err);
}

enum np_status np_sha256_begin(struct np_sha256 *sha, struct np_error *err)
{
    ERR_set_mark();
    if (!sha->context && starts())
        sha->context = EVP_MD_CTX_new();
    return conclude(sha->context && EVP_DigestInit_ex(sha->context, EVP_sha256(), NULL) == 1, err);
}

enum np_status np_sha256_add(struct np_sha256 *sha, const void *bytes, size_t n,
                             struct np_error *err)
{
    return EVP_DigestUpdate(sha->context, bytes, n) == 1 ? NP_OK : fail(err);
}

enum np_status np_sha256_end(struct np_sha256 *sha, struct np_digest *out, struct np_error *err)
{
    return EVP_DigestFinal_ex(sha->context, out->b, NULL) == 1 ? NP_OK : fail(err);
}

void np_sha256_clear(struct np_sha256 *sha)
{
    if (!sha)
        return;
    EVP_MD_CTX_free(sha->context);
    sha->context = NULL;
}

struct np_digest_hex np_digest_hex(const struct np_digest *digest)
{
    static const char digits[] = "0123456789abcdef";
    struct np_digest_hex out;
    for (size_t i = 0; i < sizeof digest->b; i++) {
        out.s[2 * i] = digits[digest->b[i] >> 4];
        out.s[2 * i + 1] = digits[digest->b[i] & 15];
    }
    out.s[NP_DIGEST_HEX] = '\0';
    return out;
}

bool np_digest_parse(struct np_digest *out, const char *text, size_t length)
{
    struct np_digest digest;
    if (length != NP_DIGEST_HEX || !np_text_parse_bytes(digest.b, text, sizeof digest.b))
        return false;
    *out = digest;
    return true;
}
