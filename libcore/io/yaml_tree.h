/* YAML inside: what the reader and the --set editor of a tree share. Not for other modules.
 *
 * Ownership: the document owns nodes and places; a node is in the tree or freed by whoever made it.
 */
#ifndef NP_IO_YAML_TREE_H
#define NP_IO_YAML_TREE_H

#include "io/yaml.h"

/* A place string that lives as long as the document. */
enum np_status np_yaml_place_add(struct np_yaml *doc, const char **out, const char *before,
                                 const char *name, struct np_error *err);

/* Parses n bytes into *out, which is not yet in the tree and counts against the document's limits.
 * depth: containers that will stand around it. value: a --set value, in flow style, whose places
 * have no line. */
enum np_status np_yaml_parse(struct np_yaml *doc, struct np_yaml_node **out, const char *bytes,
                             size_t n, const char *place, size_t depth, bool value,
                             struct np_error *err);

void np_yaml_node_free(struct np_yaml *doc, struct np_yaml_node *node);

#endif
