/* The recipe argument and --set, for every tool that reads a recipe. */
#ifndef NP_CMD_SPACE_OPTIONS_H
#define NP_CMD_SPACE_OPTIONS_H

#include <argp.h>

#include "data/data.h"
#include "space/supernet.h"

#define SPACE_MAX_SETS 64

struct space_options {
    const char *path; /* NULL: none was given */
    const char *set[SPACE_MAX_SETS];
    size_t set_count;
};

/* A child for a tool's argp; takes --set and the first argument as the recipe. */
extern const struct argp space_options_argp;

struct space {
    struct np_recipe recipe;
    struct np_supernet net;
};

/* A zeroed space is empty; space_close takes any. The space must not move while it is open. */
enum np_status space_open(struct space *space, const struct space_options *options,
                          struct np_error *err);
void space_close(struct space *space);
/* NP_EINPUT if the file that an option writes is one of the recipe's data; path may be NULL. */
enum np_status space_spares(const struct space *space, const char *option, const char *path,
                            struct np_error *err);

/* Opens one of the recipe's data, with progress on a terminal unless quiet. stops: NP_ESTOP after a
 * signal that was caught. */
enum np_status space_open_data(struct np_data **out, const struct space *space,
                               const struct np_data_spec *spec, bool quiet, bool stops,
                               struct np_error *err);

/* The only subnet of a file, "-" for standard input: a candidate for each block. The caller frees
 * it. NP_EINPUT names the line; NP_ESTOP after a signal. */
enum np_status space_read_subnet(uint16_t **choices, const struct space *space, const char *file,
                                 struct np_error *err);

#endif
