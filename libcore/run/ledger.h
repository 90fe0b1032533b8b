/* The ledger: one line a step, in step order; two runs are equal when `cmp` says so.
 *
 *     step <TAB> lr <TAB> fingerprint <TAB> loss <TAB> loss in decimal ...
 *
 * lr and losses are hex floats (one pair of loss columns a member); the fingerprint is 16 hex
 * digits over everything written in the step. layers.tsv (on request) has `step <TAB> layer <TAB>
 * fingerprint`, one line a layer written.
 *
 * Errors    NP_EIO; NP_EMEM; NP_EDATA: a ledger to be continued is damaged (run/ledger_check.h).
 * Ownership np_ledger_close.
 */
#ifndef NP_RUN_LEDGER_H
#define NP_RUN_LEDGER_H

#include "exec/train.h"

struct np_ledger;

/* Opens RUN/ledger.tsv (and layers.tsv) for steps from `step` on: step 0 begins new files; else
 * later lines, left by a run that ended after its last checkpoint, are cut off both, and layers.tsv
 * may begin here. */
enum np_status np_ledger_open(struct np_ledger **out, const char *run, uint64_t step, bool layers,
                              const struct np_supernet *net, struct np_error *err);
enum np_status np_ledger_write(struct np_ledger *ledger, const struct np_step_record *record,
                               struct np_error *err);
/* Everything written so far is on the disk. */
enum np_status np_ledger_sync(struct np_ledger *ledger, struct np_error *err);
/* Closing a ledger without np_ledger_sync loses nothing but durability. */
void np_ledger_close(struct np_ledger *ledger);

#endif
