/* Runs a function on every member of a team of threads, each with scratch of its own. */
#ifndef NP_TEST_TEAM_RUN_H
#define NP_TEST_TEAM_RUN_H

#include "num/team.h"

/* size is 1..8; scratch_bytes for each member. */
void team_run(int size, size_t scratch_bytes, void (*function)(struct np_team *, void *),
              void *arg);

#endif
