#include "sched/disk.h"

#include <math.h>

static double per_byte(const struct np_disk *disk)
{
    if (disk->writes == 0)
        return disk->speed.read_per_byte;
    return disk->writes == disk->count ? disk->speed.write_per_byte : disk->speed.both_per_byte;
}

/* What each copy has left at a later time. */
static void go_on(struct np_disk *disk, double now)
{
    double time = (now - disk->now), bytes = per_byte(disk);
    for (uint32_t i = 0; i < disk->count; i++)
        disk->entry[i].left -= time / bytes / disk->count;
    disk->now = now;
}

/* The one with the fewest bytes left; among equals, the lowest number. */
static uint32_t first(const struct np_disk *disk)
{
    uint32_t least = 0;
    for (uint32_t i = 1; i < disk->count; i++) {
        const struct np_disk_entry *x = &disk->entry[i], *y = &disk->entry[least];
        if (x->left < y->left || (x->left == y->left && x->what < y->what))
            least = i;
    }
    return least;
}

void np_disk_add(struct np_disk *disk, double now, uint32_t what, uint64_t bytes, bool write)
{
    go_on(disk, now);
    disk->entry[disk->count++] = (struct np_disk_entry){(double)bytes, what, write};
    disk->writes += write;
}

double np_disk_next(const struct np_disk *disk)
{
    if (disk->count == 0)
        return INFINITY;
    return disk->now + fmax(0, disk->entry[first(disk)].left) * per_byte(disk) * disk->count;
}

uint32_t np_disk_take(struct np_disk *disk)
{
    uint32_t at = first(disk), what = disk->entry[at].what;
    go_on(disk, np_disk_next(disk));
    disk->writes -= disk->entry[at].write;
    disk->entry[at] = disk->entry[--disk->count];
    return what;
}
