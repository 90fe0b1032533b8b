/* How fast a stash in a file is, by the clock.
 *
 * Layers of the supernet's own sizes are written to a scratch file and read back by as many
 * threads as a stage has copiers: first all write, then all read, then half of them does each; what
 * all of them moved in a fixed time counts. A round comes first in which the file system finds the
 * room.
 *
 * Units     bytes a second.
 * Errors    those of the stash (io/stash.h): NP_EINPUT, the file exists or cannot be made; NP_EIO.
 */
#ifndef NP_PLAN_PROFILE_DISK_H
#define NP_PLAN_PROFILE_DISK_H

#include "sched/disk.h"
#include "space/supernet.h"

/* The file at path is made, and is gone when this returns. A supernet without weights has a disk of
 * zeros. */
enum np_status np_profile_disk(struct np_disk_bandwidth *disk, const char *path,
                               const struct np_supernet *net, struct np_error *err);

#endif
