/* Whether the program of a kind makes sense; aborts the test if it does not. */
#ifndef PROGRAM_CHECK_H
#define PROGRAM_CHECK_H

#include "space/supernet.h"

/* Values are written once, before they are read; shapes agree; nodes account for all tensors. */
void check_kind(const struct np_kind *kind);

#endif
