/* Looking through a ledger: are its lines those that np_ledger_write writes?
 *
 * In ledger.tsv every step up to a checkpoint must be there, in order, with the recipe's learning
 * rate and as many losses as it has members, each the same in both of its forms. layers.tsv may be
 * missing, and steps may be missing in it; the fingerprints of the layers that it has of a step
 * must add up to the step's. What follows the checkpoint was left by a run that ended after it, and
 * may be anything.
 *
 * Errors    NP_EDATA with file:line for the first line that is not so; NP_EIO; NP_EMEM.
 */
#ifndef NP_RUN_LEDGER_CHECK_H
#define NP_RUN_LEDGER_CHECK_H

#include "space/supernet.h"

/* Bytes of both files up to the checkpoint. */
struct np_ledger_ends {
    long steps, layers;
};

/* Of a checkpoint after `step` steps. Without net only the numbers of the steps are looked at. */
enum np_status np_ledger_check(struct np_ledger_ends *ends, const char *run,
                               const struct np_supernet *net, uint64_t step, struct np_error *err);

#endif
