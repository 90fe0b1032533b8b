/* Spaces opened for a test, and whether the programs of their kinds make sense. */
#ifndef PROGRAM_CHECK_H
#define PROGRAM_CHECK_H

#include "space/supernet.h"

struct space {
    struct np_recipe recipe;
    struct np_supernet net;
};

/* Of a recipe's file, or of its text, written into recipe_path. */
void space_open(struct space *s, const char *name);
void space_open_text(struct space *s, const char *text);
void space_close(struct space *s);

/* Of a candidate. */
const struct np_kind *space_kind(const struct space *s, int position, int choice);

/* Values are written once, before they are read; shapes agree; nodes account for all tensors. */
void check_kind(const struct np_kind *kind);

/* check_kind of all; they are in order, told apart by name, and the space has calibration if it has
 * a batch norm. */
void check_space(const struct space *s);

#endif
