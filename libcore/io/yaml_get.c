#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "io/yaml.h"

#define MESSAGE_MAX 512

static enum np_status vfail_at(const char *place, uint32_t line, uint32_t column,
                               struct np_error *err, const char *format, va_list args)
    __attribute__((format(printf, 5, 0)));

static enum np_status vfail_at(const char *place, uint32_t line, uint32_t column,
                               struct np_error *err, const char *format, va_list args)
{
    char message[MESSAGE_MAX];
    vsnprintf(message, sizeof message, format, args);
    if (line == 0)
        return np_fail(err, NP_EINPUT, "%s: %s", place, message);
    return np_fail(err, NP_EINPUT, "%s:%u:%u: %s", place, line, column, message);
}

enum np_status np_yaml_fail(const struct np_yaml_node *node, struct np_error *err,
                            const char *format, ...)
{
    enum np_status status;
    va_list args;
    va_start(args, format);
    status = vfail_at(node->place, node->line, node->column, err, format, args);
    va_end(args);
    return status;
}

/* The same for the node's key. */
static enum np_status fail_key(const struct np_yaml_node *node, struct np_error *err,
                               const char *format, ...) __attribute__((format(printf, 3, 4)));

static enum np_status fail_key(const struct np_yaml_node *node, struct np_error *err,
                               const char *format, ...)
{
    enum np_status status;
    va_list args;
    va_start(args, format);
    status = vfail_at(node->place, node->key_line, node->key_column, err, format, args);
    va_end(args);
    return status;
}

/* "'lr'", "'blocks.2'" for a list's item, "the document". */
static struct np_safe subject(const struct np_yaml_node *node)
{
    struct np_safe out;
    char path[NP_SAFE_MAX - 2] = "", rest[sizeof path];
    if (!node->key && !node->parent) {
        snprintf(out.s, sizeof out.s, "the document");
        return out;
    }
    for (; !node->key && node->parent; node = node->parent) {
        memcpy(rest, path, sizeof rest);
        snprintf(path, sizeof path, ".%zu%.150s", node->index, rest);
    }
    snprintf(out.s, sizeof out.s, "'%.100s%.80s'", node->key ? np_text_safe(node->key).s : "",
             path + (node->key ? 0 : 1));
    return out;
}

static struct np_safe found(const struct np_yaml_node *node)
{
    struct np_safe out;
    if (node->kind != NP_YAML_SCALAR)
        snprintf(out.s, sizeof out.s, node->kind == NP_YAML_MAP ? "a map" : "a list");
    else if (!node->quoted && node->text[0] == '\0')
        snprintf(out.s, sizeof out.s, "empty");
    else
        snprintf(out.s, sizeof out.s, "%s'%.150s'", node->quoted ? "the quoted " : "",
                 np_text_safe(node->text).s);
    return out;
}

static enum np_status fail_missing(const struct np_yaml_node *node, struct np_error *err)
{
    const struct np_yaml_node *map = node->parent;
    char in[NP_SAFE_MAX + 8] = "", near[120] = "";
    if (map->key || map->parent)
        snprintf(in, sizeof in, " in %s", subject(map).s);
    if (node->child)
        snprintf(near, sizeof near, " (there is a key '%.80s')", np_text_safe(node->child->key).s);
    return np_yaml_fail(node, err, "missing key '%.80s'%s%s", node->key, in, near);
}

static enum np_status fail_type(const struct np_yaml_node *node, struct np_error *err,
                                const char *wanted)
{
    if (node->kind == NP_YAML_MISSING)
        return fail_missing(node, err);
    return np_yaml_fail(node, err, "%s must be %s, not %s", subject(node).s, wanted, found(node).s);
}

static bool is_plain(const struct np_yaml_node *node)
{
    return node->kind == NP_YAML_SCALAR && !node->quoted;
}

/* The limits of the integer types are shown as powers; two bytes tell "2^63-1" from a digit. */
static struct np_number show_limit(uint64_t limit)
{
    struct np_number out;
    int bits =
        limit >= UINT32_MAX / 2 && (limit & (limit + 1)) == 0 ? 64 - __builtin_clzll(limit) : 0;
    if (bits)
        snprintf(out.s, sizeof out.s, "2^%d-1", bits);
    else
        snprintf(out.s, sizeof out.s, "%llu", (unsigned long long)limit);
    return out;
}

static struct np_number show_int(int64_t limit)
{
    struct np_number out;
    if (limit >= 0)
        return show_limit((uint64_t)limit);
    if (limit == INT64_MIN)
        snprintf(out.s, sizeof out.s, "-2^63");
    else
        snprintf(out.s, sizeof out.s, "%lld", (long long)limit);
    return out;
}

enum np_status np_yaml_get_int(const struct np_yaml_node *node, int64_t *out, int64_t min,
                               int64_t max, struct np_error *err)
{
    char wanted[100];
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    if (is_plain(node) && np_text_parse_int64(out, node->text, min, max))
        return NP_OK;
    snprintf(wanted, sizeof wanted, "a whole number from %s to %s", show_int(min).s,
             show_int(max).s);
    return fail_type(node, err, wanted);
}

enum np_status np_yaml_get_uint(const struct np_yaml_node *node, uint64_t *out, uint64_t min,
                                uint64_t max, struct np_error *err)
{
    char wanted[100];
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    if (is_plain(node) && np_text_parse_uint64(out, node->text, min, max))
        return NP_OK;
    snprintf(wanted, sizeof wanted, "a whole number from %s to %s", show_limit(min).s,
             show_limit(max).s);
    return fail_type(node, err, wanted);
}

static bool is_between(double value, double min, double max, enum np_yaml_ends ends)
{
    bool open_min = ends == NP_YAML_OPEN_MIN || ends == NP_YAML_OPEN;
    bool open_max = ends == NP_YAML_OPEN_MAX || ends == NP_YAML_OPEN;
    return (open_min ? value > min : value >= min) && (open_max ? value < max : value <= max);
}

enum np_status np_yaml_get_double(const struct np_yaml_node *node, double *out, double min,
                                  double max, enum np_yaml_ends ends, struct np_error *err)
{
    bool open_min = ends == NP_YAML_OPEN_MIN || ends == NP_YAML_OPEN || isinf(min);
    bool open_max = ends == NP_YAML_OPEN_MAX || ends == NP_YAML_OPEN || isinf(max);
    char wanted[120];
    double value;
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    if (is_plain(node) && np_text_parse_double(&value, node->text) &&
        is_between(value, min, max, ends)) {
        *out = value;
        return NP_OK;
    }
    snprintf(wanted, sizeof wanted, "a number in %c%s, %s%c", open_min ? '(' : '[',
             np_text_double(min).s, np_text_double(max).s, open_max ? ')' : ']');
    return fail_type(node, err, wanted);
}

enum np_status np_yaml_get_bool(const struct np_yaml_node *node, bool *out, struct np_error *err)
{
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    if (!is_plain(node) || (strcmp(node->text, "true") != 0 && strcmp(node->text, "false") != 0))
        return fail_type(node, err, "true or false");
    *out = node->text[0] == 't';
    return NP_OK;
}

enum np_status np_yaml_get_string(const struct np_yaml_node *node, const char **out,
                                  struct np_error *err)
{
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    if (node->kind != NP_YAML_SCALAR || (!node->quoted && node->text[0] == '\0'))
        return fail_type(node, err, "a string");
    *out = node->text;
    return NP_OK;
}

/* " (did you mean 'mha'?)", or " (known: mha, ffn, ...)" if nothing is close. */
static void write_hint(char out[MESSAGE_MAX], const char *word, const char *const *words, size_t n)
{
    const char *close = np_text_suggest(word, words, n);
    size_t used;
    if (close) {
        snprintf(out, MESSAGE_MAX, " (did you mean '%s'?)", close);
        return;
    }
    used = (size_t)snprintf(out, MESSAGE_MAX, " (known: ");
    for (size_t i = 0; i < n && used < MESSAGE_MAX / 2; i++)
        used += (size_t)snprintf(out + used, MESSAGE_MAX - used, "%.80s%s", words[i],
                                 i + 1 < n ? ", " : "");
    snprintf(out + used, MESSAGE_MAX - used, ")");
}

enum np_status np_yaml_get_word(const struct np_yaml_node *node, int *out, const char *const *words,
                                size_t n, struct np_error *err)
{
    char hint[MESSAGE_MAX];
    const char *text = "";
    enum np_status status;
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    NP_TRY(np_yaml_get_string(node, &text, err));
    for (size_t i = 0; i < n; i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = (int)i;
            return NP_OK;
        }
    }
    write_hint(hint, text, words, n);
    status =
        np_yaml_fail(node, err, "unknown %.80s '%.80s'%s",
                     node->key ? np_text_safe(node->key).s : "word", np_text_safe(text).s, hint);
out:
    return status;
}

enum np_status np_yaml_get_map(const struct np_yaml_node *node, struct np_yaml_map *out,
                               struct np_error *err)
{
    if (node->kind != NP_YAML_MAP && node->kind != NP_YAML_ABSENT)
        return fail_type(node, err, "a map");
    out->node = node;
    out->asked_count = 0;
    return NP_OK;
}

enum np_status np_yaml_get_list(const struct np_yaml_node *node, const struct np_yaml_node **out,
                                size_t min, size_t max, struct np_error *err)
{
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    if (node->kind != NP_YAML_LIST)
        return fail_type(node, err, "a list");
    if (node->count < min || node->count > max)
        return np_yaml_fail(node, err, "%s must have %s %zu %s, not %zu", subject(node).s,
                            min == max          ? "exactly"
                            : node->count < min ? "at least"
                                                : "at most",
                            node->count < min ? min : max,
                            (node->count < min ? min : max) == 1 ? "item" : "items", node->count);
    *out = node->child;
    return NP_OK;
}

/* Notes that key was asked for; once, however often a reader asks. */
static struct np_yaml_node *note_asked(struct np_yaml_map *map, const char *key)
{
    size_t i = 0;
    while (i < map->asked_count && strcmp(map->asked[i].key, key) != 0)
        i++;
    if (i == map->asked_count) {
        assert(map->asked_count < NP_YAML_MAX_ASKED);
        map->asked_count++;
    }
    map->asked[i] = (struct np_yaml_node){
        .kind = NP_YAML_ABSENT,
        .place = map->node->place,
        .line = map->node->line,
        .column = map->node->column,
        .key = key,
        .parent = map->node,
    };
    return &map->asked[i];
}

static const struct np_yaml_node *find_child(const struct np_yaml_map *map, const char *key)
{
    const struct np_yaml_node *node = map->node->child;
    while (node && strcmp(node->key, key) != 0)
        node = node->next;
    return node;
}

const struct np_yaml_node *np_yaml_find(struct np_yaml_map *map, const char *key)
{
    const struct np_yaml_node *asked = note_asked(map, key), *there = find_child(map, key);
    return there ? there : asked;
}

static bool was_asked(const struct np_yaml_map *map, const char *key)
{
    for (size_t i = 0; i < map->asked_count; i++) {
        if (strcmp(map->asked[i].key, key) == 0)
            return true;
    }
    return false;
}

const struct np_yaml_node *np_yaml_need(struct np_yaml_map *map, const char *key)
{
    struct np_yaml_node *asked = note_asked(map, key);
    const struct np_yaml_node *there = find_child(map, key);
    if (there)
        return there;
    asked->kind = NP_YAML_MISSING;
    /* A key that looks like the missing one is probably it: the message will name it. */
    for (struct np_yaml_node *node = map->node->child; node && !asked->child; node = node->next) {
        if (!was_asked(map, node->key) && np_text_suggest(node->key, &key, 1))
            asked->child = node;
    }
    return asked;
}

enum np_status np_yaml_map_finish(const struct np_yaml_map *map, struct np_error *err)
{
    const char *asked[NP_YAML_MAX_ASKED];
    const struct np_yaml_node *node = map->node->child;
    char hint[MESSAGE_MAX];
    while (node && was_asked(map, node->key))
        node = node->next;
    if (!node)
        return NP_OK;
    for (size_t i = 0; i < map->asked_count; i++)
        asked[i] = map->asked[i].key;
    write_hint(hint, node->key, asked, map->asked_count);
    return fail_key(node, err, "unknown key '%.80s'%s", np_text_safe(node->key).s, hint);
}
