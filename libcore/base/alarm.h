/* An alarm: unless it is freed in time, a function is called in a thread of its own. For calls that
 * nothing can interrupt, so that who calls them can say that they last too long, and end.
 *
 * Units     nanoseconds. At most an eighth of the limit counts in one go: a process that was
 *           stopped for longer has most of its time left when it goes on.
 * Errors    NP_EIO: there is no thread; NP_EMEM.
 * Threads   who has made it frees it.
 */
#ifndef NP_BASE_ALARM_H
#define NP_BASE_ALARM_H

#include <stdint.h>

#include "base/error.h"

struct np_alarm;

/* argument is borrowed until the alarm is freed, and ring may not free it. */
enum np_status np_alarm_new(struct np_alarm **out, uint64_t limit_ns, void (*ring)(void *argument),
                            void *argument, struct np_error *err);
/* Returns when ring has, where it was called; from then on it will not be. NULL: nothing. */
void np_alarm_free(struct np_alarm *alarm);

#endif
