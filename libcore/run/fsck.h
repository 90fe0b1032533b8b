/* Checking a run directory: is everything there, and is it what it says it is?
 *
 * The recipe must be the one that the checkpoints name; every manifest must be well formed and its
 * layers those of the recipe; every object, also one that no checkpoint names, must unpack to its
 * exact size and have its digest; the ledger must be sound up to the latest checkpoint
 * (run/ledger_check.h).
 *
 * Errors    NP_EIO: its checkpoints cannot be listed; NP_EMEM; what is found damaged, or cannot be
 *           read, is reported through the callback, which must be there, and counted.
 */
#ifndef NP_RUN_FSCK_H
#define NP_RUN_FSCK_H

#include <stddef.h>

#include "base/error.h"
#include "io/digest.h"

struct np_fsck {
    void (*problem)(void *context, const char *message);
    /* So many objects are read; NULL: nobody wants to know. */
    void (*progress)(void *context, size_t objects);
    void *context;
    /* results */
    size_t checkpoints, objects, problems;
    struct np_digest digest; /* of the latest good checkpoint, if checkpoints > 0 */
};

enum np_status np_fsck_run(struct np_fsck *fsck, const char *run, struct np_error *err);

#endif
