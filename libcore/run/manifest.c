#include "run/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"
#include "io/sealed.h"

#define MANIFEST_MAX ((size_t)1 << 30)
#define SUFFIX ".manifest"
#define NAME "%010llu" SUFFIX

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
        np_buf_printf(&buf, err, "%s/checkpoints/" NAME, run, (unsigned long long)step);
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
    enum np_status status;
    NP_TRY(np_buf_printf(out, err, "naspipe manifest/1\nrecipe %s\ndata %s\nstep %llu\n",
                         np_digest_hex(&m->recipe).s, np_digest_hex(&m->data).s,
                         (unsigned long long)m->step));
    for (size_t i = 0; i < m->count; i++) {
        const struct np_manifest_entry *entry = &m->entries[i];
        NP_TRY(np_buf_printf(out, err, "%s  %llu  %s\n", np_digest_hex(&entry->digest).s,
                             (unsigned long long)entry->updates, entry->name));
    }
    NP_TRY(np_sealed_end(out, err));
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

static enum np_status read_digest(struct np_sealed *text, const char *key, struct np_digest *digest,
                                  struct np_error *err)
{
    char *value;
    enum np_status status = np_sealed_header(text, key, &value, err);
    if (status == NP_OK && !np_digest_parse(digest, value, strlen(value)))
        status = np_sealed_damaged(text, "not a digest", err);
    return status;
}

static enum np_status read_headers(struct np_sealed *text, struct np_manifest *m,
                                   struct np_error *err)
{
    char *value;
    enum np_status status;
    NP_TRY(np_sealed_expect(text, "naspipe", "manifest/1", err));
    NP_TRY(read_digest(text, "recipe", &m->recipe, err));
    NP_TRY(read_digest(text, "data", &m->data, err));
    NP_TRY(np_sealed_header(text, "step", &value, err));
    if (!np_text_parse_count(&m->step, value, 0, UINT64_MAX))
        status = np_sealed_damaged(text, "not a step", err);
out:
    return status;
}

static enum np_status read_entry(struct np_sealed *text, char *line, struct np_manifest *m,
                                 struct np_error *err)
{
    struct np_digest digest;
    uint64_t updates;
    char *second = strstr(line, "  "), *third = second ? strstr(second + 2, "  ") : NULL;
    if (!third)
        return np_sealed_damaged(text, "three columns expected", err);
    *second = *third = '\0';
    if (!np_digest_parse(&digest, line, strlen(line)))
        return np_sealed_damaged(text, "not a digest", err);
    if (!np_text_parse_count(&updates, second + 2, 0, UINT64_MAX))
        return np_sealed_damaged(text, "not a count of updates", err);
    if (!third[2] || strlen(third + 2) >= NP_ENTRY_NAME || strpbrk(third + 2, " /"))
        return np_sealed_damaged(text, "not a layer's name", err);
    if (m->count && strcmp(m->entries[m->count - 1].name, third + 2) >= 0)
        return np_sealed_damaged(text, "names are not in order", err);
    return np_manifest_add(m, &digest, updates, third + 2, err);
}

enum np_status np_manifest_read(struct np_manifest *manifest, const char *path,
                                struct np_digest *digest, struct np_error *err)
{
    struct np_sealed text;
    enum np_status status;
    *manifest = (struct np_manifest){.count = 0};
    NP_TRY(np_sealed_read(&text, path, "manifest", MANIFEST_MAX, err));
    *digest = text.digest;
    NP_TRY(read_headers(&text, manifest, err));
    for (char *line; (line = np_sealed_line(&text));)
        NP_TRY(read_entry(&text, line, manifest, err));
out:
    np_sealed_clear(&text);
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
    char digits[32], own[48];
    size_t length = strlen(name), suffix = strlen(SUFFIX);
    if (length < suffix || length - suffix >= sizeof digits)
        return false;
    memcpy(digits, name, length - suffix);
    digits[length - suffix] = '\0';
    if (!np_text_parse_uint64(step, digits, 0, UINT64_MAX))
        return false;
    snprintf(own, sizeof own, NAME, (unsigned long long)*step);
    return strcmp(name, own) == 0;
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
