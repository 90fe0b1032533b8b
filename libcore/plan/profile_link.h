/* What a link between stages takes, by the clock.
 *
 * Task       a crew that is told two tasks ahead, as the engine tells stages of several memories,
 *            does tasks in which there is nothing to do.
 * Latency    a few bytes are carried from one device to the next, from being told of it until that
 *            is known to have been done: as values cross, whose maker says that they are there, and
 *            whose reader is told to fetch them.
 * Bandwidth  what a megabyte takes longer.
 * All of them between every two devices that follow each other: the worst counts.
 */
#ifndef NP_PLAN_PROFILE_LINK_H
#define NP_PLAN_PROFILE_LINK_H

#include "num/link.h"

enum np_status np_profile_link(struct np_link_pace *pace, struct np_link *link,
                               const struct np_device *devices, int count, struct np_error *err);

#endif
