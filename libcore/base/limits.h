/* What a process may use of its machine, which can be less than there is: the processors that it is
 * bound to, by taskset, a batch system or a launcher of ranks; and what its control group, and the
 * groups that this is in, leave it of their time and of memory (containers, batch systems).
 *
 * Units     memory in bytes; of a quota of time, whole processors.
 * Source    sched_getaffinity(2); cgroups(7): cpu.max and memory.max, and in version 1
 *           cpu.cfs_quota_us and memory.limit_in_bytes.
 */
#ifndef NP_BASE_LIMITS_H
#define NP_BASE_LIMITS_H

#include <stdint.h>

/* A bit each; Linux has 8192 at most. */
struct np_processors {
    unsigned char set[1024];
};

/* Those that the calling thread is bound to; and how many of some may be used, 1 at least. */
struct np_processors np_processors_bound(void);
int np_processors_usable(const struct np_processors *processors);

uint64_t np_memory_usable(void);

/* What the control groups leave; 0: all. Below `root` are /proc and /sys: "" but in tests. */
uint64_t np_group_processors(const char *root);
uint64_t np_group_memory(const char *root);

#endif
