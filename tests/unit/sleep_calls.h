/* nanosleep of the test program that includes this: it counts, and sleeps. The library is linked
 * statically, so it calls this. Injected delays of copies alone are longer than those of tasks. */
#ifndef NP_TEST_SLEEP_CALLS_H
#define NP_TEST_SLEEP_CALLS_H

#include <stdatomic.h>
#include <time.h>

#define SLEEP_OF_TASKS 250000 /* ns, at most */

static atomic_uint sleep_calls, longer_sleep_calls;

int nanosleep(const struct timespec *pause, struct timespec *left)
{
    atomic_fetch_add(&sleep_calls, 1);
    if (pause->tv_nsec > SLEEP_OF_TASKS)
        atomic_fetch_add(&longer_sleep_calls, 1);
    return clock_nanosleep(CLOCK_REALTIME, 0, pause, left) ? -1 : 0;
}

#endif
