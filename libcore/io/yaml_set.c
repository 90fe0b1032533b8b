#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/yaml_tree.h"

/* Where a value goes: *link is the node of that key or index, or NULL for a key to be added. */
struct target {
    struct np_yaml_node *parent, **link;
    const char *key; /* NULL in a list */
    size_t depth;    /* containers around it */
};

static enum np_status find_item(struct target *to, const char *index, const char *place,
                                struct np_error *err)
{
    uint64_t i;
    if (!np_text_parse_uint64(&i, index, 0, UINT64_MAX) || i >= to->parent->count)
        return np_fail(err, NP_EINPUT, "%s: '%.80s' is not an index of a list of %zu items", place,
                       np_text_safe(index).s, to->parent->count);
    to->key = NULL;
    for (to->link = &to->parent->child; i > 0; i--)
        to->link = &(*to->link)->next;
    return NP_OK;
}

static enum np_status fail_no_key(const struct np_yaml_node *map, const char *key,
                                  const char *place, struct np_error *err)
{
    const char *keys[NP_YAML_MAX_KEYS], *close;
    size_t n = 0;
    for (const struct np_yaml_node *node = map->child; node; node = node->next)
        keys[n++] = node->key;
    close = np_text_suggest(key, keys, n);
    if (!close)
        return np_fail(err, NP_EINPUT, "%s: there is no key '%.80s'", place, np_text_safe(key).s);
    return np_fail(err, NP_EINPUT, "%s: there is no key '%.80s' (did you mean '%.80s'?)", place,
                   np_text_safe(key).s, np_text_safe(close).s);
}

static enum np_status find_key(struct target *to, const char *key, bool leaf, const char *place,
                               struct np_error *err)
{
    if (key[0] == '\0')
        return np_fail(err, NP_EINPUT, "%s: a key is empty", place);
    to->key = key;
    to->link = &to->parent->child;
    while (*to->link && strcmp((*to->link)->key, key) != 0)
        to->link = &(*to->link)->next;
    if (*to->link)
        return NP_OK;
    if (!leaf)
        return fail_no_key(to->parent, key, place, err);
    if (to->parent->count == NP_YAML_MAX_KEYS)
        return np_fail(err, NP_EINPUT, "%s: too many keys in one map", place);
    return NP_OK;
}

/* Walks path, whose dots become NULs. */
static enum np_status find_target(struct np_yaml *doc, struct target *to, char *path,
                                  const char *place, struct np_error *err)
{
    const char *name = "the document";
    enum np_status status;
    *to = (struct target){.link = &doc->root};
    for (;;) {
        char *dot = strchr(path, '.');
        if (dot)
            *dot = '\0';
        to->parent = *to->link;
        to->depth++;
        if (to->parent->kind == NP_YAML_SCALAR)
            return np_fail(err, NP_EINPUT, "%s: '%.80s' is not a map or list", place,
                           np_text_safe(name).s);
        if (to->parent->kind == NP_YAML_LIST)
            NP_TRY(find_item(to, path, place, err));
        else
            NP_TRY(find_key(to, path, !dot, place, err));
        if (!dot)
            return NP_OK;
        name = path;
        path = dot + 1;
    }
out:
    return status;
}

/* Hangs node, whose key is set, where the old node hung. */
static void replace(struct np_yaml *doc, const struct target *to, struct np_yaml_node *node)
{
    struct np_yaml_node *old = *to->link;
    node->parent = to->parent;
    node->index = old ? old->index : to->parent->count++;
    node->next = old ? old->next : NULL;
    *to->link = node;
    np_yaml_node_free(doc, old);
}

enum np_status np_yaml_set(struct np_yaml *doc, const char *assignment, struct np_error *err)
{
    const char *place, *equals = strchr(assignment, '=');
    struct np_yaml_node *node = NULL;
    struct target to;
    char *path = NULL, *key = NULL;
    enum np_status status;
    NP_TRY(np_yaml_place_add(doc, &place, "--set ", assignment, err));
    if (!equals)
        return np_fail(err, NP_EINPUT, "%s: expected KEY=VALUE", place);
    NP_TRY(np_strdup(&path, assignment, err));
    path[equals - assignment] = '\0';
    NP_TRY(find_target(doc, &to, path, place, err));
    NP_TRY(np_yaml_parse(doc, &node, equals + 1, strlen(equals + 1), place, to.depth, true, err));
    if (to.key) {
        NP_TRY(np_strdup(&key, to.key, err));
        node->key = key;
    }
    replace(doc, &to, node);
    node = NULL;
out:
    np_yaml_node_free(doc, node);
    free(path);
    return status;
}
