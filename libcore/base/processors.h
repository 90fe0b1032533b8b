/* How many processors a process may use, which can be fewer than the machine has: those that it is
 * bound to, by taskset, a batch system or a launcher of ranks, and of these as many whole ones as
 * the quotas of its control group, and of the groups that this is in, have time for (containers).
 *
 * Source    sched_getaffinity(2); cgroups(7): cpu.max, and in version 1 cpu.cfs_quota_us.
 */
#ifndef NP_BASE_PROCESSORS_H
#define NP_BASE_PROCESSORS_H

/* A bit each; Linux has 8192 at most. */
struct np_processors {
    unsigned char set[1024];
};

/* Those that the calling thread is bound to. */
struct np_processors np_processors_bound(void);

/* How many of these may be used, 1 at least. */
int np_processors_usable(const struct np_processors *processors);

/* How many whole ones the quotas have time for, 1 at least; 0: they leave all. Below `root` are
 * /proc and /sys: "" but in tests. */
int np_processors_quota(const char *root);

#endif
