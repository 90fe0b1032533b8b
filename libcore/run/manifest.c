#include "run/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"

#define MANIFEST_MAX ((size_t)1 << 30)
#define SUFFIX ".manifest"
#define SEAL_BYTES (sizeof "end \n" - 1 + NP_DIGEST_HEX) /* the last line */

enum np_status np_manifest_add(struct np_manifest *manifest, const struct np_digest *digest,
                               uint64_t updates, const char *name, struct np_error *err)
{
    struct np_manifest_entry *entry;
    enum np_status status = np_grow(&manifest->entries, &manifest->capacity, manifest->count,
                                    sizeof *manifest->entries, err);
    if (status != NP_OK)
        return status;
    entry = &manifest->entries[manifest->count++];
    *entry = (struct np_manifest_entry){.digest = *digest, .updates = updates};
    snprintf(entry->name, sizeof entry->name, "%s", name);
    return NP_OK;
}

void np_manifest_clear(struct np_manifest *manifest)
{
    free(manifest->entries);
    *manifest = (struct np_manifest){.count = 0};
}

enum np_status np_manifest_path(char **path, const char *run, uint64_t step, struct np_error *err)
{
    struct np_buf buf = {NULL, 0, 0};
    enum np_status status =
        np_buf_printf(&buf, err, "%s/checkpoints/%010llu" SUFFIX, run, (unsigned long long)step);
    *path = buf.text;
    return status;
}

enum np_status np_manifest_objects(char **path, const char *run, struct np_error *err)
{
    struct np_buf buf = {NULL, 0, 0};
    enum np_status status = np_buf_printf(&buf, err, "%s/objects", run);
    *path = buf.text;
    return status;
}

static int by_name(const void *a, const void *b)
{
    const struct np_manifest_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static enum np_status write_text(const struct np_manifest *m, struct np_buf *out,
                                 struct np_error *err)
{
    struct np_digest seal;
    enum np_status status;
    NP_TRY(np_buf_printf(out, err, "naspipe manifest/1\nrecipe %s\ndata %s\nstep %llu\n",
                         np_digest_hex(&m->recipe).s, np_digest_hex(&m->data).s,
                         (unsigned long long)m->step));
    for (size_t i = 0; i < m->count; i++) {
        const struct np_manifest_entry *entry = &m->entries[i];
        NP_TRY(np_buf_printf(out, err, "%s  %llu  %s\n", np_digest_hex(&entry->digest).s,
                             (unsigned long long)entry->updates, entry->name));
    }
    NP_TRY(np_digest_compute(&seal, out->text, out->used, err));
    NP_TRY(np_buf_printf(out, err, "end %s\n", np_digest_hex(&seal).s));
out:
    return status;
}

enum np_status np_manifest_write(struct np_manifest *manifest, const char *run,
                                 struct np_digest *digest, struct np_error *err)
{
    struct np_buf text = {NULL, 0, 0};
    char *path = NULL;
    enum np_status status;
    if (manifest->count)
        qsort(manifest->entries, manifest->count, sizeof *manifest->entries, by_name);
    NP_TRY(write_text(manifest, &text, err));
    NP_TRY(np_manifest_path(&path, run, manifest->step, err));
    NP_TRY(np_file_write(path, text.text, text.used, err));
    NP_TRY(np_digest_compute(digest, text.text, text.used, err));
out:
    free(path);
    np_buf_clear(&text);
    return status;
}

/* A manifest being read, line by line. */
struct reader {
    const char *path;
    char *at; /* the next line */
    size_t line;
};

static enum np_status damaged(const struct reader *r, const char *what, struct np_error *err)
{
    return np_fail(err, NP_EDATA, "%s:%zu: damaged manifest: %s", r->path, r->line, what);
}

/* The next line without its newline; NULL at the end. A last line without one is damage. */
static enum np_status next_line(struct reader *r, char **line, struct np_error *err)
{
    char *end;
    r->line++;
    *line = NULL;
    if (!*r->at)
        return NP_OK;
    end = strchr(r->at, '\n');
    if (!end)
        return damaged(r, "the last line is cut off", err);
    *end = '\0';
    *line = r->at;
    r->at = end + 1;
    return NP_OK;
}

/* The value of the header line "key value". */
static enum np_status header(struct reader *r, const char *key, char **value, struct np_error *err)
{
    size_t length = strlen(key);
    char *line;
    enum np_status status = next_line(r, &line, err);
    if (status != NP_OK)
        return status;
    if (!line || strncmp(line, key, length) != 0 || line[length] != ' ')
        return np_fail(err, NP_EDATA, "%s:%zu: damaged manifest: '%s' expected", r->path, r->line,
                       key);
    *value = line + length + 1;
    return NP_OK;
}

static enum np_status read_headers(struct reader *r, struct np_manifest *m, struct np_error *err)
{
    char *value;
    enum np_status status;
    NP_TRY(header(r, "naspipe", &value, err));
    if (strcmp(value, "manifest/1") != 0) {
        status = damaged(r, "'manifest/1' expected", err);
        goto out;
    }
    NP_TRY(header(r, "recipe", &value, err));
    if (!np_digest_parse(&m->recipe, value, strlen(value))) {
        status = damaged(r, "not a digest", err);
        goto out;
    }
    NP_TRY(header(r, "data", &value, err));
    if (!np_digest_parse(&m->data, value, strlen(value))) {
        status = damaged(r, "not a digest", err);
        goto out;
    }
    NP_TRY(header(r, "step", &value, err));
    if (!np_text_parse_uint64(&m->step, value, 0, UINT64_MAX))
        status = damaged(r, "not a step", err);
out:
    return status;
}

static enum np_status read_entry(struct reader *r, char *line, struct np_manifest *m,
                                 struct np_error *err)
{
    struct np_digest digest;
    uint64_t updates;
    char *second = strstr(line, "  "), *third = second ? strstr(second + 2, "  ") : NULL;
    if (!third)
        return damaged(r, "three columns expected", err);
    *second = *third = '\0';
    if (!np_digest_parse(&digest, line, strlen(line)))
        return damaged(r, "not a digest", err);
    if (!np_text_parse_uint64(&updates, second + 2, 0, UINT64_MAX))
        return damaged(r, "not a count of updates", err);
    if (!third[2] || strlen(third + 2) >= NP_ENTRY_NAME || strpbrk(third + 2, " /"))
        return damaged(r, "not a layer's name", err);
    if (m->count && strcmp(m->entries[m->count - 1].name, third + 2) >= 0)
        return damaged(r, "names are not in order", err);
    return np_manifest_add(m, &digest, updates, third + 2, err);
}

/* Checks the last line, and cuts it off: a manifest that lost lines or bits is not taken for one of
 * fewer layers. */
static enum np_status check_seal(const char *path, char *text, size_t bytes, struct np_error *err)
{
    struct np_digest said, found;
    char *seal = text + (bytes > SEAL_BYTES ? bytes - SEAL_BYTES : 0);
    enum np_status status;
    if (bytes <= SEAL_BYTES || memcmp(seal, "end ", 4) != 0 || text[bytes - 1] != '\n' ||
        !np_digest_parse(&said, seal + 4, NP_DIGEST_HEX))
        return np_fail(err, NP_EDATA, "%s: damaged manifest: its last line is not there", path);
    NP_TRY(np_digest_compute(&found, text, bytes - SEAL_BYTES, err));
    if (!np_digest_equal(&said, &found))
        return np_fail(err, NP_EDATA, "%s: damaged manifest: not what its last line sums up", path);
    *seal = '\0';
out:
    return status;
}

enum np_status np_manifest_read(struct np_manifest *manifest, const char *path,
                                struct np_digest *digest, struct np_error *err)
{
    struct reader r = {.path = path};
    char *text = NULL, *line;
    FILE *file = NULL;
    size_t bytes;
    enum np_status status;
    *manifest = (struct np_manifest){.count = 0};
    NP_TRY(np_file_open(&file, path, false, err));
    NP_TRY(np_file_read_fd(&text, &bytes, fileno(file), path, MANIFEST_MAX, err));
    NP_TRY(np_digest_compute(digest, text, bytes, err));
    NP_TRY(check_seal(path, text, bytes, err));
    r.at = text;
    if (strlen(text) != bytes - SEAL_BYTES) {
        status = damaged(&r, "a NUL byte", err);
        goto out;
    }
    NP_TRY(read_headers(&r, manifest, err));
    for (;;) {
        NP_TRY(next_line(&r, &line, err));
        if (!line)
            break;
        NP_TRY(read_entry(&r, line, manifest, err));
    }
out:
    free(text);
    if (file)
        fclose(file);
    if (status != NP_OK)
        np_manifest_clear(manifest);
    return status;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* "0000000500.manifest" -> 500; anything else (a file written aside) is not a checkpoint. */
static bool step_of_name(uint64_t *step, const char *name)
{
    char digits[32];
    size_t length = strlen(name), suffix = strlen(SUFFIX);
    if (length < 10 + suffix || length - suffix >= sizeof digits ||
        strcmp(name + length - suffix, SUFFIX) != 0)
        return false;
    memcpy(digits, name, length - suffix);
    digits[length - suffix] = '\0';
    return np_text_parse_uint64(step, digits, 0, UINT64_MAX);
}

enum np_status np_manifest_list(uint64_t **steps, size_t *count, const char *run,
                                struct np_error *err)
{
    struct np_buf path = {NULL, 0, 0};
    struct np_file_names names = {.count = 0};
    size_t capacity = 0;
    enum np_status status;
    *steps = NULL;
    *count = 0;
    NP_TRY(np_buf_printf(&path, err, "%s/checkpoints", run));
    NP_TRY(np_file_list(&names, path.text, err));
    for (size_t i = 0; i < names.count; i++) {
        uint64_t step;
        if (!step_of_name(&step, names.name[i]))
            continue;
        NP_TRY(np_grow(steps, &capacity, *count, sizeof **steps, err));
        (*steps)[(*count)++] = step;
    }
    if (*count)
        qsort(*steps, *count, sizeof **steps, by_value);
out:
    np_file_names_clear(&names);
    np_buf_clear(&path);
    if (status != NP_OK) {
        free(*steps);
        *steps = NULL;
        *count = 0;
    }
    return status;
}
