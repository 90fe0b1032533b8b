/* subnets.txt of a run directory: the subnets that its steps trained, where a stream chose them.
 *
 * It is itself such a stream (space/sampler.h): a line for each member of each step, so that a run
 * can be made again from what it keeps, and is not continued with other subnets than it says. A run
 * that the sampler began and a stream continues has the sampler's steps there, too.
 *
 * Errors    NP_EINPUT: the stream ends too early, or has other subnets than the run was trained
 *           with, or there is none although the run had one; NP_EDATA: damaged; NP_EIO; NP_ESTOP:
 *           a wait for the stream was given up.
 * Ownership np_subnets_close.
 */
#ifndef NP_RUN_SUBNETS_FILE_H
#define NP_RUN_SUBNETS_FILE_H

#include "exec/train.h"
#include "run/log_file.h"
#include "space/sampler.h"

#define NP_SUBNETS_FILE "subnets.txt"

/* The stream of a run (NULL: a new one) from step `step` on: of the file `subnets`, or, NULL, the
 * recipe's sampler's. give_up as np_stream_open has it. */
enum np_status np_subnets_stream(struct np_stream **out, const struct np_stream_shape *shape,
                                 const struct np_recipe *recipe, const char *run,
                                 const char *subnets, uint64_t step, bool (*give_up)(void *),
                                 void *context, struct np_error *err);

/* Opens the file behind step `step`, of a run that a stream continues there. */
enum np_status np_subnets_open(struct np_log *file, const struct np_stream_shape *shape,
                               const struct np_recipe *recipe, const char *run, uint64_t step,
                               struct np_error *err);
enum np_status np_subnets_write(struct np_log *file, const struct np_stream_shape *shape,
                                const struct np_step_record *record, struct np_error *err);

/* Whether the file, where there is one, has the subnets of `steps` steps. */
enum np_status np_subnets_check(const struct np_recipe *recipe, const char *run, uint64_t steps,
                                struct np_error *err);

#endif
