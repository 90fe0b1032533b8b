#include "io/sealed.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "io/file.h"

#define SEAL_BYTES (sizeof "end \n" - 1 + NP_DIGEST_HEX) /* the last line */

enum np_status np_sealed_end(struct np_buf *text, struct np_error *err)
{
    struct np_digest seal;
    enum np_status status = np_digest_compute(&seal, text->text, text->used, err);
    if (status != NP_OK)
        return status;
    return np_buf_printf(text, err, "end %s\n", np_digest_hex(&seal).s);
}

enum np_status np_sealed_damaged(const struct np_sealed *s, const char *reason,
                                 struct np_error *err)
{
    return np_fail(err, NP_EDATA, "%s:%zu: damaged %s: %s", np_text_safe(s->path).s, s->line,
                   s->what, reason);
}

/* The whole file is damaged. */
static enum np_status broken(const struct np_sealed *s, const char *reason, struct np_error *err)
{
    return np_fail(err, NP_EDATA, "%s: damaged %s: %s", np_text_safe(s->path).s, s->what, reason);
}

/* Checks the last line, and cuts it off. */
static enum np_status check(struct np_sealed *s, size_t bytes, struct np_error *err)
{
    struct np_digest said, found;
    char *seal = s->text + (bytes > SEAL_BYTES ? bytes - SEAL_BYTES : 0);
    enum np_status status;
    if (bytes <= SEAL_BYTES || seal[-1] != '\n' || memcmp(seal, "end ", 4) != 0 ||
        s->text[bytes - 1] != '\n' || !np_digest_parse(&said, seal + 4, NP_DIGEST_HEX))
        return broken(s, "its last line is not there", err);
    NP_TRY(np_digest_compute(&found, s->text, bytes - SEAL_BYTES, err));
    if (!np_digest_equal(&said, &found))
        return broken(s, "not what its last line sums up", err);
    *seal = '\0';
    if (strlen(s->text) != bytes - SEAL_BYTES)
        return broken(s, "a NUL byte", err);
out:
    return status;
}

enum np_status np_sealed_read(struct np_sealed *s, const char *path, const char *what, size_t cap,
                              struct np_error *err)
{
    size_t bytes;
    enum np_status status;
    *s = (struct np_sealed){.path = path, .what = what};
    NP_TRY(np_file_read_regular(&s->text, &bytes, path, cap, err));
    s->at = s->text;
    NP_TRY(np_digest_compute(&s->digest, s->text, bytes, err));
    NP_TRY(check(s, bytes, err));
out:
    if (status != NP_OK)
        np_sealed_clear(s);
    return status;
}

void np_sealed_clear(struct np_sealed *s)
{
    free(s->text);
    s->text = s->at = NULL;
}

char *np_sealed_line(struct np_sealed *s)
{
    char *line = s->at, *end = strchr(line, '\n'); /* which check() saw at the end */
    s->line++;
    if (!end)
        return NULL;
    *end = '\0';
    s->at = end + 1;
    return line;
}

enum np_status np_sealed_header(struct np_sealed *s, const char *key, char **value,
                                struct np_error *err)
{
    size_t length = strlen(key);
    char *line = np_sealed_line(s), reason[64];
    if (!line || strncmp(line, key, length) != 0 || line[length] != ' ') {
        snprintf(reason, sizeof reason, "'%s' expected", key);
        return np_sealed_damaged(s, reason, err);
    }
    *value = line + length + 1;
    return NP_OK;
}

enum np_status np_sealed_expect(struct np_sealed *s, const char *key, const char *value,
                                struct np_error *err)
{
    char *found, reason[64];
    enum np_status status = np_sealed_header(s, key, &found, err);
    if (status == NP_OK && strcmp(found, value) != 0) {
        snprintf(reason, sizeof reason, "'%s' expected", value);
        status = np_sealed_damaged(s, reason, err);
    }
    return status;
}
