/* A crew: the threads of one team, kept waiting between calls.
 *
 * np_crew_run executes a function on every member of the team (the caller is rank 0) and returns
 * when all have ended.
 *
 * Errors    NP_EIO when a thread cannot be made; NP_EINPUT from np_float_check.
 * Ownership np_crew_free ends the threads; scratch is borrowed until then.
 * Threads   one caller at a time.
 */
#ifndef NP_EXEC_CREW_H
#define NP_EXEC_CREW_H

#include <stddef.h>

#include "num/team.h"

struct np_crew;

/* scratch: scratch_bytes for each member, whole cache lines. */
enum np_status np_crew_new(struct np_crew **out, int size, void *scratch, size_t scratch_bytes,
                           struct np_error *err);
void np_crew_free(struct np_crew *crew);
void np_crew_run(struct np_crew *crew, void (*function)(struct np_team *team, void *argument),
                 void *argument);

#endif
