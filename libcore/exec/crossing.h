/* What a flight takes over a cut between memories. Private to exec/.
 *
 * Cut       position q is the first behind it. Forward every value of a position before q crosses
 *           that a position from q on reads, also what comes from further before and what goes on
 *           further behind: a value goes from memory to memory. Backward come the gradients of
 *           those values to which a reader from q on has given something; the readers before q add
 *           to them, so the order of a gradient's sum is what it is in one memory.
 * Storage   what is received is in the slot of the stage that runs q (plan/flight_layout.h), and so
 *           is its gradient until it is sent on; it comes into the sender's own.
 * Errors    NP_EIO of the transport and the device.
 *
 * Nothing happens where the neighbour's memory is the same, or the sweep has no transport.
 */
#ifndef NP_EXEC_CROSSING_H
#define NP_EXEC_CROSSING_H

#include "exec/sweep.h"

/* The first position that the flight runs in the memory of stages[position]. */
int np_crossing_entry(const struct np_plan *plan, const uint16_t *stages, int position);

/* Before and after a task's forward passes, of positions first .. last; the same of its backward
 * passes, whose end is when they are known to be done. */
enum np_status np_crossing_enter(const struct np_sweep *sweep, int first, struct np_error *err);
void np_crossing_leave(const struct np_sweep *sweep, int last);
enum np_status np_crossing_enter_back(const struct np_sweep *sweep, int last, struct np_error *err);
enum np_status np_crossing_leave_back(const struct np_sweep *sweep, int first,
                                      struct np_error *err);

#endif
