/* YAML: a small, strict reader with the place of everything, and a cursor that fits schemas.
 *
 * A document is one tree of scalars, maps and lists. Refused, with "file:line:column: ...":
 * anchors, aliases, tags, directives, a second document, duplicate keys, keys that are not scalars,
 * bytes that are not UTF-8, and whatever is over the limits below. A plain scalar has no type of
 * its own: the reader asks for a number, a bool or a string, and gets it or the reason why not.
 *
 * Reading a map is one line a key, then finish:
 *
 *     struct np_yaml_map map;
 *     NP_TRY(np_yaml_get_map(doc.root, &map, err));
 *     NP_TRY(np_yaml_get_uint(np_yaml_need(&map, "steps"), &steps, 1, INT64_MAX, err));
 *     warmup = 0;
 *     NP_TRY(np_yaml_get_uint(np_yaml_find(&map, "warmup"), &warmup, 0, steps, err));
 *     NP_TRY(np_yaml_map_finish(&map, err));
 *
 * Errors:    NP_EINPUT with the place; NP_EIO, NP_EMEM.
 * Ownership: the document owns every node and text it gives out, until np_yaml_clear (or until
 *            np_yaml_set replaces the node).
 */
#ifndef NP_IO_YAML_H
#define NP_IO_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define NP_YAML_MAX_BYTES (64 << 20)
#define NP_YAML_MAX_NODES (1 << 20)
#define NP_YAML_MAX_DEPTH 64  /* maps and lists inside each other */
#define NP_YAML_MAX_KEYS 1024 /* keys of one map */
#define NP_YAML_MAX_ASKED 40  /* different keys that one reader may ask a map for */

enum np_yaml_kind {
    NP_YAML_SCALAR,
    NP_YAML_MAP,
    NP_YAML_LIST,
    NP_YAML_ABSENT, /* what np_yaml_find gives for a key that is not there */
    NP_YAML_MISSING /* what np_yaml_need gives for it */
};

struct np_yaml_node {
    enum np_yaml_kind kind;
    bool quoted;                   /* a scalar that was not plain: never a number or a bool */
    const char *place;             /* the file, or the --set argument; safe to print */
    uint32_t line, column;         /* from 1; line 0: place alone says where */
    uint32_t key_line, key_column; /* the same for the key */
    const char *key;               /* in a map; else NULL */
    const char *text;              /* of a scalar, UTF-8 without NUL; else NULL */
    size_t index;                  /* in a list, from 0 */
    size_t count;                  /* children of a map or list */
    const struct np_yaml_node *parent;
    struct np_yaml_node *child, *next; /* first child; next sibling, in the file's order */
};

/* A zeroed struct is empty; np_yaml_clear takes any. */
struct np_yaml {
    struct np_yaml_node *root; /* never NULL after a read: an empty document is refused */
    size_t node_count;
    struct np_yaml_place *places;
};

/* Reads one document; doc must be empty and stays so on failure. name stands in messages. */
enum np_status np_yaml_read(struct np_yaml *doc, const char *path, struct np_error *err);
enum np_status np_yaml_read_fd(struct np_yaml *doc, int fd, const char *name, struct np_error *err);
enum np_status np_yaml_read_memory(struct np_yaml *doc, const char *bytes, size_t n,
                                   const char *name, struct np_error *err);
void np_yaml_clear(struct np_yaml *doc);

/* Applies "train.steps=200": a path of keys and list indices (from 0), and a value in YAML's flow
 * style. Replaces what is there or adds a key to a map that is there. Errors, also later ones about
 * this value, name the place "--set train.steps=200". On failure the tree is as it was. */
enum np_status np_yaml_set(struct np_yaml *doc, const char *assignment, struct np_error *err);

/* Writes the message after the node's place: for what a schema finds wrong. Returns NP_EINPUT. */
enum np_status np_yaml_fail(const struct np_yaml_node *node, struct np_error *err,
                            const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The keys a reader asked for, and stand-ins for those that are not there. On the reader's stack;
 * the nodes given out for absent keys live as long. */
struct np_yaml_map {
    const struct np_yaml_node *node;
    size_t asked_count;
    struct np_yaml_node asked[NP_YAML_MAX_ASKED];
};

/* The value of an optional (find) or required (need) key: never NULL. key is borrowed. */
const struct np_yaml_node *np_yaml_find(struct np_yaml_map *map, const char *key);
const struct np_yaml_node *np_yaml_need(struct np_yaml_map *map, const char *key);

/* Refuses the first key that nobody asked for: "unknown key 'stpes' (did you mean 'steps'?)". */
enum np_status np_yaml_map_finish(const struct np_yaml_map *map, struct np_error *err);

/* np_yaml_get_*: the node's value, of that type and inside the bounds (both included), or an error
 * that says what it must be. For an absent node *out stays as it is, so the caller presets the
 * default; a missing one is refused. */
enum np_status np_yaml_get_int(const struct np_yaml_node *node, int64_t *out, int64_t min,
                               int64_t max, struct np_error *err);
enum np_status np_yaml_get_uint(const struct np_yaml_node *node, uint64_t *out, uint64_t min,
                                uint64_t max, struct np_error *err);
enum np_status np_yaml_get_bool(const struct np_yaml_node *node, bool *out, struct np_error *err);

/* Any scalar, quoted or not; not an empty plain one. */
enum np_status np_yaml_get_string(const struct np_yaml_node *node, const char **out,
                                  struct np_error *err);

/* *out: which of the n words it is; "unknown op 'mah' (did you mean 'mha'?)". */
enum np_status np_yaml_get_word(const struct np_yaml_node *node, int *out, const char *const *words,
                                size_t n, struct np_error *err);

/* A finite number in an interval whose ends may be open; min -INFINITY or max INFINITY: unbounded.
 */
enum np_yaml_ends {
    NP_YAML_CLOSED,   /* [min, max] */
    NP_YAML_OPEN_MIN, /* (min, max] */
    NP_YAML_OPEN_MAX, /* [min, max) */
    NP_YAML_OPEN      /* (min, max) */
};
enum np_status np_yaml_get_double(const struct np_yaml_node *node, double *out, double min,
                                  double max, enum np_yaml_ends ends, struct np_error *err);

/* A cursor on a map; an absent node gives a map without keys, for sections that are all default. */
enum np_status np_yaml_get_map(const struct np_yaml_node *node, struct np_yaml_map *out,
                               struct np_error *err);

/* The first item of a list of min to max items; the others follow by ->next. */
enum np_status np_yaml_get_list(const struct np_yaml_node *node, const struct np_yaml_node **out,
                                size_t min, size_t max, struct np_error *err);

/* Appends text as a YAML scalar that every reader takes for a string: quoted where it must be.
 * NP_EINPUT if it is not UTF-8. */
enum np_status np_yaml_quote(struct np_buf *buf, const char *text, struct np_error *err);

#endif
