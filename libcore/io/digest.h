/* SHA-256 digests: the names of objects and of runs.
 *
 * Source:    FIPS 180-4, computed by OpenSSL.
 * Errors:    NP_EMEM, when OpenSSL has none or refuses to start.
 * Ownership: a zeroed struct np_sha256 may be cleared; begin makes one, clear releases it.
 * Threads:   one struct np_sha256 per thread.
 */
#ifndef NP_IO_DIGEST_H
#define NP_IO_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

#define NP_DIGEST_HEX 64 /* characters */

struct np_digest {
    uint8_t b[32];
};

struct np_digest_hex {
    char s[NP_DIGEST_HEX + 1];
};

static inline bool np_digest_equal(const struct np_digest *a, const struct np_digest *b)
{
    return memcmp(a->b, b->b, sizeof a->b) == 0;
}

/* The digest of n bytes. */
enum np_status np_digest_compute(struct np_digest *out, const void *bytes, size_t n,
                                 struct np_error *err);

/* The digest of pieces: begin, any number of adds, end. Begin may follow an end; it reuses. */
struct np_sha256 {
    void *context;
};
enum np_status np_sha256_begin(struct np_sha256 *sha, struct np_error *err);
enum np_status np_sha256_add(struct np_sha256 *sha, const void *bytes, size_t n,
                             struct np_error *err);
enum np_status np_sha256_end(struct np_sha256 *sha, struct np_digest *out, struct np_error *err);
void np_sha256_clear(struct np_sha256 *sha);

/* 64 lower-case hexadecimal digits; used as np_digest_hex(&digest).s */
struct np_digest_hex np_digest_hex(const struct np_digest *digest);

/* The inverse: text is exactly 64 lower-case digits long (length characters of it are looked at),
 * else false and *out is untouched. */
bool np_digest_parse(struct np_digest *out, const char *text, size_t length);

#endif
