/* A file of a run that grows line by line, such as the ledger.
 *
 * Errors    NP_EIO; NP_EMEM.
 * Ownership np_log_close; a zeroed struct is closed.
 */
#ifndef NP_RUN_LOG_FILE_H
#define NP_RUN_LOG_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"

struct np_log {
    char *path;
    FILE *stream; /* NULL: there is none */
};

/* Opens RUN/name without what follows its first `end` bytes; makes it if `make` and it is not
 * there. */
enum np_status np_log_open(struct np_log *log, const char *run, const char *name, long end,
                           bool make, struct np_error *err);
/* Whether all that was printed so far could be. */
enum np_status np_log_check(const struct np_log *log, struct np_error *err);
/* Everything written so far is on the disk. */
enum np_status np_log_sync(const struct np_log *log, struct np_error *err);
void np_log_close(struct np_log *log);

#endif
