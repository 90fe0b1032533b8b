/* A link: how bytes get from the memory of one device to that of another.
 *
 * What is carried lies in the memories of two devices, which are named by their places in the list
 * that the link was made for. The host touches neither.
 *
 * Order     a crew carries as it does everything else: what it was told before is done first, and
 *           what it is told next finds what was carried. Whoever else made that, or has room for
 *           it, is done with it when carry is called, or the crew does it after a stamp of theirs
 *           (num/device.h); and others look at it, or change it, as at all that the crew uses.
 * Errors    NP_EIO, with who sends to whom, the cause, and what the devices have said of it; then
 *           the link carries nothing any more.
 * Threads   any, each with a crew of its own.
 */
#ifndef NP_NUM_LINK_H
#define NP_NUM_LINK_H

#include "num/device.h"

struct np_link;

struct np_link_part {
    void *to;
    const void *from;
    uint64_t bytes;
};

struct np_link_ops {
    const char *name;
    enum np_status (*carry)(struct np_link *link, struct np_crew *crew, int from, int to,
                            const struct np_link_part *parts, int count, struct np_error *err);
    void (*free)(struct np_link *link);
};

/* What every implementation's link begins with. */
struct np_link {
    const struct np_link_ops *ops;
};

/* Carries `count` parts, at least 1, from device `from` to another; the crew works on either. */
static inline enum np_status np_link_carry(struct np_link *link, struct np_crew *crew, int from,
                                           int to, const struct np_link_part *parts, int count,
                                           struct np_error *err)
{
    return link->ops->carry(link, crew, from, to, parts, count, err);
}

static inline void np_link_free(struct np_link *link)
{
    if (link)
        link->ops->free(link);
}

#endif
