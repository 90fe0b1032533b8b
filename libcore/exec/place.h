/* What a device asks of its stages: their teams' scratch, and crews. Private to exec/.
 *
 * Errors    as num/device.h.
 */
#ifndef NP_EXEC_PLACE_H
#define NP_EXEC_PLACE_H

#include "exec/flights.h"
#include "exec/train.h"

/* The shape's team: as it is, or the one that the device has. */
void np_place_team(struct np_flight_shape *shape, const struct np_device *device,
                   const struct np_supernet *net);
/* The crew of a stage of that shape. */
enum np_status np_place_crew(struct np_crew **out, const struct np_device *device,
                             const struct np_flight_shape *shape, const struct np_supernet *net,
                             const struct np_flight_stage *stage, const struct np_flights *flights,
                             struct np_error *err);

#endif
