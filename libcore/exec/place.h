/* The crews of stages on devices. Private to exec/.
 *
 * Errors    as num/device.h.
 */
#ifndef NP_EXEC_PLACE_H
#define NP_EXEC_PLACE_H

#include "exec/flights.h"
#include "exec/train.h"

/* The crew of a stage of that shape. */
enum np_status np_place_crew(struct np_crew **out, const struct np_device *device,
                             const struct np_flight_shape *shape, const struct np_supernet *net,
                             const struct np_flight_stage *stage, const struct np_flights *flights,
                             struct np_error *err);

#endif
