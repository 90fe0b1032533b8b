/* How fast a stash in a file is, by the clock.
 *
 * Bandwidth  layers of the supernet's own sizes go to a scratch file and come back to new memory,
 *            as they do under a tight cap: first two threads write, then both read, then one does
 *            each; what was moved in a fixed time counts. One thread alone would move a third less;
 *            but where stages wait for the disk, several copies are under way. Meanwhile others
 *            compute, for a copy waits for a processor too, or do not. A round comes first in which
 *            the file system finds the room.
 *            Beside a device apart from the host, which computes whatever the processors do, nobody
 *            else computes, and layers come from its memory and go there.
 * Processor  what a busy processor loses to copies, in which the system has a part that no clock of
 *            a thread shows: a thread on each computes alone, then while layers go and come, a few
 *            times in turn; the median counts.
 * Units      bytes a second.
 * Errors     those of the stash (io/stash.h): NP_EINPUT, the file exists or cannot be made; NP_EIO.
 */
#ifndef NP_PLAN_PROFILE_DISK_H
#define NP_PLAN_PROFILE_DISK_H

#include "num/device.h"
#include "sched/disk.h"
#include "space/supernet.h"

/* What copies find where stages compute on all processors, and where these leave one to them, who
 * take nothing then; on a device apart it is the same. The file at path is made, and is gone when
 * this returns. A supernet without weights has disks of zeros. */
enum np_status np_profile_disk(struct np_disk_bandwidth *disk, struct np_disk_bandwidth *spare,
                               const char *path, const struct np_supernet *net,
                               const struct np_device *device, int processors,
                               struct np_error *err);

#endif
