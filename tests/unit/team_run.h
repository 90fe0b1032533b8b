/* Teams of threads to run a function on. */
#ifndef NP_TEST_TEAM_RUN_H
#define NP_TEST_TEAM_RUN_H

#include <stdbool.h>

#include "num/team.h"

/* Runs the function on every member; size is 1..8; scratch_bytes for each member. */
void team_run(int size, size_t scratch_bytes, void (*function)(struct np_team *, void *),
              void *arg);

/* NP_TEST_FULL is 1: whoever runs the tests wants all that they loop over. Otherwise, as under
 * sanitizers and emulators, a covering subset will do. */
bool tests_are_full(void);

/* Built with the thread sanitizer, which sees what threads do to each other: what one of them
 * computes, and of what, is for other builds. */
bool tests_watch_threads(void);

#endif
