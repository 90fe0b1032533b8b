/* libyaml's events to a tree. Events, not libyaml's own documents: every limit is checked before
 * the memory is taken, and an alias is refused, not expanded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/yaml_tree.h"

struct builder {
    yaml_parser_t parser;
    struct np_yaml *doc;
    const char *bytes, *place;
    bool value;
    bool started; /* the document has begun */
    struct np_yaml_node *root;
    struct np_yaml_node *open[NP_YAML_MAX_DEPTH]; /* containers around the next node, */
    struct np_yaml_node *last[NP_YAML_MAX_DEPTH]; /* and the last child of each */
    size_t depth, depth_limit;
    char *key; /* read, and waiting for its value */
    uint32_t key_line, key_column;
};

static enum np_status fail_at(const struct builder *b, size_t line, size_t column,
                              struct np_error *err, const char *message)
{
    if (b->value)
        return np_fail(err, NP_EINPUT, "%s: %s", b->place, message);
    return np_fail(err, NP_EINPUT, "%s:%zu:%zu: %s", b->place, line, column, message);
}

static enum np_status fail_event(const struct builder *b, const yaml_event_t *event,
                                 struct np_error *err, const char *message)
{
    return fail_at(b, event->start_mark.line + 1, event->start_mark.column + 1, err, message);
}

/* Bytes that cannot be read have an offset but no mark: count lines and characters up to it. */
static enum np_status fail_bytes(const struct builder *b, struct np_error *err)
{
    size_t line = 1, column = 1;
    char message[160];
    for (size_t i = 0; i < b->parser.problem_offset; i++) {
        unsigned char byte = (unsigned char)b->bytes[i];
        if (byte == '\n') {
            line++;
            column = 1;
        } else if ((byte & 0xc0) != 0x80) {
            column++;
        }
    }
    snprintf(message, sizeof message, "not plain UTF-8 text: %s", b->parser.problem);
    return fail_at(b, line, column, err, message);
}

static enum np_status fail_parser(const struct builder *b, struct np_error *err)
{
    const yaml_parser_t *p = &b->parser;
    char message[300];
    if (p->error == YAML_MEMORY_ERROR)
        return np_fail(err, NP_EMEM, "cannot hold '%s'", b->place);
    if (p->error == YAML_READER_ERROR)
        return fail_bytes(b, err);
    snprintf(message, sizeof message, "%s%s%s", p->problem, p->context ? " " : "",
             p->context ? p->context : "");
    if (p->context && !b->value) {
        size_t used = strlen(message);
        snprintf(message + used, sizeof message - used, " from line %zu", p->context_mark.line + 1);
    }
    return fail_at(b, p->problem_mark.line + 1, p->problem_mark.column + 1, err, message);
}

static enum np_status copy_text(const struct builder *b, char **out, const yaml_event_t *event,
                                struct np_error *err)
{
    const char *text = (const char *)event->data.scalar.value;
    if (memchr(text, '\0', event->data.scalar.length))
        return fail_event(b, event, err, "a text may not hold a NUL");
    return np_strdup(out, text, err);
}

static enum np_status take_key(struct builder *b, const yaml_event_t *event, struct np_error *err)
{
    const struct np_yaml_node *map = b->open[b->depth - 1];
    char message[NP_SAFE_MAX + 64];
    enum np_status status;
    if (event->data.scalar.length == 0)
        return fail_event(b, event, err, "a key is empty");
    if (map->count == NP_YAML_MAX_KEYS)
        return fail_event(b, event, err, "too many keys in one map");
    NP_TRY(copy_text(b, &b->key, event, err));
    b->key_line = b->value ? 0 : (uint32_t)event->start_mark.line + 1;
    b->key_column = (uint32_t)event->start_mark.column + 1;
    for (const struct np_yaml_node *node = map->child; node; node = node->next) {
        if (strcmp(node->key, b->key) == 0) {
            snprintf(message, sizeof message, "duplicate key '%s'", np_text_safe(b->key).s);
            return fail_event(b, event, err, message);
        }
    }
out:
    return status;
}

/* Makes the next node and hangs it below the open container; it takes the waiting key. */
static enum np_status add_node(struct builder *b, struct np_yaml_node **out, enum np_yaml_kind kind,
                               const yaml_event_t *event, struct np_error *err)
{
    struct np_yaml_node *node, *parent = b->depth ? b->open[b->depth - 1] : NULL;
    enum np_status status;
    if (b->doc->node_count == NP_YAML_MAX_NODES)
        return fail_event(b, event, err, "too many values in one document");
    status = np_zalloc(&node, 1, sizeof *node, err);
    if (status != NP_OK)
        return status;
    b->doc->node_count++;
    node->kind = kind;
    node->place = b->place;
    node->line = b->value ? 0 : (uint32_t)event->start_mark.line + 1;
    node->column = (uint32_t)event->start_mark.column + 1;
    node->key = b->key;
    node->key_line = b->key_line;
    node->key_column = b->key_column;
    b->key = NULL;
    node->parent = parent;
    if (parent) {
        struct np_yaml_node **last = &b->last[b->depth - 1];
        node->index = parent->count++;
        *(*last ? &(*last)->next : &parent->child) = node;
        *last = node;
    } else {
        b->root = node;
    }
    *out = node;
    return NP_OK;
}

static bool wants_key(const struct builder *b)
{
    return b->depth && b->open[b->depth - 1]->kind == NP_YAML_MAP && !b->key;
}

static enum np_status take_scalar(struct builder *b, const yaml_event_t *event,
                                  struct np_error *err)
{
    struct np_yaml_node *node = NULL;
    enum np_status status;
    char *text;
    if (event->data.scalar.anchor)
        return fail_event(b, event, err, "anchors are not allowed");
    if (event->data.scalar.tag)
        return fail_event(b, event, err, "tags are not allowed");
    if (wants_key(b))
        return take_key(b, event, err);
    NP_TRY(copy_text(b, &text, event, err));
    status = add_node(b, &node, NP_YAML_SCALAR, event, err);
    if (status != NP_OK) {
        free(text);
        return status;
    }
    node->text = text;
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
out:
    return status;
}

static enum np_status take_container(struct builder *b, enum np_yaml_kind kind, bool anchor,
                                     bool tag, bool block, const yaml_event_t *event,
                                     struct np_error *err)
{
    struct np_yaml_node *node = NULL;
    enum np_status status;
    if (anchor)
        return fail_event(b, event, err, "anchors are not allowed");
    if (tag)
        return fail_event(b, event, err, "tags are not allowed");
    if (b->value && block)
        return fail_event(b, event, err, "the value must be a scalar, [a, list] or {a: map}");
    if (wants_key(b))
        return fail_event(b, event, err, "a key must be a word, not a map or list");
    if (b->depth == b->depth_limit)
        return fail_event(b, event, err, "too many maps and lists inside each other");
    NP_TRY(add_node(b, &node, kind, event, err));
    b->open[b->depth] = node;
    b->last[b->depth] = NULL;
    b->depth++;
out:
    return status;
}

static enum np_status take_document(struct builder *b, const yaml_event_t *event,
                                    struct np_error *err)
{
    if (b->started)
        return fail_event(b, event, err, "a second document is not allowed");
    if (event->data.document_start.version_directive ||
        event->data.document_start.tag_directives.start !=
            event->data.document_start.tag_directives.end)
        return fail_event(b, event, err, "directives are not allowed");
    b->started = true;
    return NP_OK;
}

static enum np_status take(struct builder *b, const yaml_event_t *event, struct np_error *err)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return take_document(b, event, err);
    case YAML_ALIAS_EVENT:
        return fail_event(b, event, err, "aliases are not allowed");
    case YAML_SCALAR_EVENT:
        return take_scalar(b, event, err);
    case YAML_MAPPING_START_EVENT:
        return take_container(
            b, NP_YAML_MAP, event->data.mapping_start.anchor, event->data.mapping_start.tag,
            event->data.mapping_start.style != YAML_FLOW_MAPPING_STYLE, event, err);
    case YAML_SEQUENCE_START_EVENT:
        return take_container(
            b, NP_YAML_LIST, event->data.sequence_start.anchor, event->data.sequence_start.tag,
            event->data.sequence_start.style != YAML_FLOW_SEQUENCE_STYLE, event, err);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        b->depth--;
        return NP_OK;
    default: /* ends of documents and the stream's own events */
        return NP_OK;
    }
}

static enum np_status build(struct builder *b, struct np_error *err)
{
    enum np_status status = NP_OK;
    bool ended = false;
    while (status == NP_OK && !ended) {
        yaml_event_t event;
        if (!yaml_parser_parse(&b->parser, &event))
            return fail_parser(b, err);
        status = take(b, &event, err);
        ended = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    if (status == NP_OK && !b->root)
        status = fail_at(b, 1, 1, err, b->value ? "the value is empty" : "the document is empty");
    return status;
}

enum np_status np_yaml_parse(struct np_yaml *doc, struct np_yaml_node **out, const char *bytes,
                             size_t n, const char *place, size_t depth, bool value,
                             struct np_error *err)
{
    struct builder b = {.doc = doc, .bytes = bytes, .place = place, .value = value};
    enum np_status status;
    b.depth_limit = NP_YAML_MAX_DEPTH - depth;
    if (!yaml_parser_initialize(&b.parser))
        return np_fail(err, NP_EMEM, "cannot hold '%s'", place);
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)bytes, n);
    status = build(&b, err);
    yaml_parser_delete(&b.parser);
    free(b.key);
    if (status == NP_OK)
        *out = b.root;
    else
        np_yaml_node_free(doc, b.root);
    return status;
}
