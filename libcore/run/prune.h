/* Pruning: a run keeps its latest checkpoints, and what they consist of.
 *
 * The manifests of the others go first, durably, then all objects that no manifest names: whatever
 * stops it, what is left is whole, and the next time takes what is left over.
 *
 * Errors    NP_EDATA: a manifest is damaged, so that it is not known what it needs: nothing is
 *           removed; NP_EIO; NP_EMEM.
 */
#ifndef NP_RUN_PRUNE_H
#define NP_RUN_PRUNE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Of a run that nobody else writes to; keep > 0. `left`: also where no checkpoint has to go, what
 * is left over, unless a manifest is damaged. */
enum np_status np_prune(const char *run, uint64_t keep, bool left, struct np_error *err);

#endif
