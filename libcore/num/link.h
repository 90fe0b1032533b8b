/* A link: how bytes get from the memory of one device to that of another.
 *
 * What is carried lies in the memories of two devices, which are named by their places in the list
 * that the link was made for. The host touches neither.
 *
 * Order     a crew carries as it does everything else: what it was told before is done first, and
 *           what it is told next finds what was carried. Whoever else made that, or has room for
 *           it, is done with it when carry is called, or the crew does it after a stamp of theirs
 *           (num/device.h); and others look at it, or change it, as at all that the crew uses.
 *           Nobody waits: on devices apart it may be done later than carry returns.
 * Errors    NP_EIO, with who sends to whom, the cause, and what the devices have said of it; then
 *           the link carries nothing any more. What fails later, or is not done in time, is found
 *           where a task is awaited: any task of a crew that may wait for what is carried, be it
 *           after stamps of others, is awaited here.
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

/* What stages lose by a link between them; zeros: there is none, or nobody said. */
struct np_link_pace {
    uint64_t task_ns;    /* a task takes beside its layers */
    uint64_t latency_ns; /* from the end of a task until another stage sees its output, if that is
                            a few bytes */
    uint64_t bandwidth;  /* bytes a second; 0: any number */
};

struct np_link_ops {
    const char *name;
    enum np_status (*carry)(struct np_link *link, struct np_crew *crew, int from, int to,
                            const struct np_link_part *parts, int count, struct np_error *err);
    /* NULL: nothing can fail later, or take for ever. */
    enum np_status (*await)(struct np_link *link, struct np_crew *crew, uint64_t mark,
                            struct np_error *err);
    void (*settle)(struct np_link *link);
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

/* As np_crew_await. link NULL: there is none. */
static inline enum np_status np_link_await(struct np_link *link, struct np_crew *crew,
                                           uint64_t mark, struct np_error *err)
{
    if (link && link->ops->await)
        return link->ops->await(link, crew, mark, err);
    return np_crew_await(crew, mark, err);
}

/* Returns when nothing is being carried, or ever will be: before crews are freed that it may wait
 * for. */
static inline void np_link_settle(struct np_link *link)
{
    if (link && link->ops->settle)
        link->ops->settle(link);
}

static inline void np_link_free(struct np_link *link)
{
    if (link)
        link->ops->free(link);
}

#endif
