#include "io/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"
#include "io/yaml_tree.h"

struct np_yaml_place {
    struct np_yaml_place *next;
    char text[];
};

enum np_status np_yaml_place_add(struct np_yaml *doc, const char **out, const char *before,
                                 const char *name, struct np_error *err)
{
    struct np_safe safe = np_text_safe(name);
    size_t length = strlen(before) + strlen(safe.s) + 1;
    struct np_yaml_place *place;
    enum np_status status = np_zalloc(&place, sizeof *place + length, 1, err);
    if (status != NP_OK)
        return status;
    snprintf(place->text, length, "%s%s", before, safe.s);
    place->next = doc->places;
    doc->places = place;
    *out = place->text;
    return NP_OK;
}

/* Recursion is no deeper than NP_YAML_MAX_DEPTH: siblings are a loop. */
void np_yaml_node_free(struct np_yaml *doc, struct np_yaml_node *node)
{
    struct np_yaml_node *child, *next;
    if (!node)
        return;
    for (child = node->child; child; child = next) {
        next = child->next;
        np_yaml_node_free(doc, child);
    }
    free((char *)(uintptr_t)node->key);
    free((char *)(uintptr_t)node->text);
    free(node);
    doc->node_count--;
}

void np_yaml_clear(struct np_yaml *doc)
{
    struct np_yaml_place *place, *next;
    if (!doc)
        return;
    np_yaml_node_free(doc, doc->root);
    for (place = doc->places; place; place = next) {
        next = place->next;
        free(place);
    }
    *doc = (struct np_yaml){0};
}

enum np_status np_yaml_read_memory(struct np_yaml *doc, const char *bytes, size_t n,
                                   const char *name, struct np_error *err)
{
    const char *place;
    enum np_status status;
    if (n > NP_YAML_MAX_BYTES)
        return np_fail(err, NP_EINPUT, "'%s' is larger than %s", np_text_safe(name).s,
                       np_text_size(NP_YAML_MAX_BYTES).s);
    if (n >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
        bytes += 3;
        n -= 3;
    }
    NP_TRY(np_yaml_place_add(doc, &place, "", name, err));
    NP_TRY(np_yaml_parse(doc, &doc->root, bytes, n, place, 0, false, err));
out:
    if (status != NP_OK)
        np_yaml_clear(doc);
    return status;
}

enum np_status np_yaml_read(struct np_yaml *doc, const char *path, struct np_error *err)
{
    enum np_status status;
    char *bytes = NULL;
    size_t n;
    NP_TRY(np_file_read(&bytes, &n, path, NP_YAML_MAX_BYTES, err));
    NP_TRY(np_yaml_read_memory(doc, bytes, n, path, err));
out:
    free(bytes);
    return status;
}

enum np_status np_yaml_read_fd(struct np_yaml *doc, int fd, const char *name, struct np_error *err)
{
    enum np_status status;
    char *bytes = NULL;
    size_t n;
    NP_TRY(np_file_read_fd(&bytes, &n, fd, name, NP_YAML_MAX_BYTES, err));
    NP_TRY(np_yaml_read_memory(doc, bytes, n, name, err));
out:
    free(bytes);
    return status;
}
