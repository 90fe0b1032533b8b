/* A disk on a virtual clock: the copies of all stages share it.
 *
 * Model     what is under way gets equal parts of what the disk moves: so many bytes a time if all
 *           of it is read, if all of it is written, or if there is some of each, which costs a disk
 *           more than either. One copy alone keeps it busy.
 * Figures   measured on the disk itself (plan/profile_disk.h), where nobody gives them.
 * Units     bytes; times in the unit of the costs.
 * Ownership the entries belong to the caller, who makes room for all copies that can be under way.
 */
#ifndef NP_SCHED_DISK_H
#define NP_SCHED_DISK_H

#include <stdbool.h>
#include <stdint.h>

/* What a copy takes: its latency, and as the disk moves its bytes; 0: it takes none for them. */
struct np_copy_speed {
    double latency;
    double read_per_byte, write_per_byte; /* of all copies together */
    double both_per_byte; /* while some read and some write; not 0 if one of these is not */
    double busy_per_byte; /* of the processors' time, where stages have them all */
};

/* The same as plans and traces have it: bytes a second; zeros: there is no disk, or nobody said. */
struct np_disk_bandwidth {
    uint64_t read, write, both;
    uint64_t processor; /* in a second of a processor's time; 0: copies take none from the stages */
};

struct np_disk_entry {
    double left; /* bytes */
    uint32_t what;
    bool write;
};

struct np_disk {
    struct np_copy_speed speed;
    struct np_disk_entry *entry;
    uint32_t count, writes;
    double now;
};

/* From time `now` on, which is no earlier than any before, copy `what` is under way. */
void np_disk_add(struct np_disk *disk, double now, uint32_t what, uint64_t bytes, bool write);
/* When the first copy will have its bytes, if none is added before; INFINITY: none is under way. */
double np_disk_next(const struct np_disk *disk);
/* That copy, at that time: it is under way no more. */
uint32_t np_disk_take(struct np_disk *disk);

#endif
