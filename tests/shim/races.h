/* Races: two accesses to the same memory, one of them a write, that nothing orders. They are found
 * by what orders them, not by what comes of them: in whatever order the work is done. And accesses
 * to memory that nobody has taken.
 *
 * Actors    are the streams and the host, which is one, whatever its threads are: their own order
 *           is for the thread sanitizer to see.
 * Order     an actor's operations are done one after the other; a stream's after all that the host
 *           knew to be done when it was told. Streams learn of each other by events, the host by
 *           synchronisation, and who receives by NCCL what the sender knew when it began. Who
 *           learns what is kept in vector clocks, with a tick for each operation.
 * Memory    of the devices and pinned memory, by words of 4 bytes: each knows who wrote it last,
 *           and who has read it since.
 * Accesses  of kernels, and of the host where it is .cu code, are seen one by one:
 *           -fsanitize=thread puts a call before each, and this module stands in for that
 *           sanitizer's library. Whatever else works with memory says so.
 *           What the host has copied to a device from pinned memory, it has written before.
 * Bounds    what lies between blocks of memory, and a block that was given back, are closed: nobody
 *           may touch them.
 * Errors    a race, or an access out of bounds, ends the program with a message: who, where, and
 *           with whom.
 * Threads   with the shim's lock held.
 *
 * Source    C. Flanagan, S. N. Freund, FastTrack: efficient and precise dynamic race detection,
 *           PLDI 2009.
 */
#ifndef NP_TEST_RACES_H
#define NP_TEST_RACES_H

#include <stddef.h>
#include <stdint.h>

enum { MOST_ACTORS = 1024 };

/* Of each actor, up to which of its ticks all is known to be done. */
struct clock {
    uint32_t at[MOST_ACTORS];
};

struct actor {
    int number;
    uint32_t operation; /* the one it is at */
    struct clock knows;
};

/* The memory that is looked after; begins as memory that nobody has touched. */
void races_watch(const void *from, size_t bytes);
/* Memory in it that nobody may touch, and may touch again. */
void races_close(const void *at, size_t bytes);
void races_open(const void *at, size_t bytes);
/* A device has failed: work is not done any more, and nobody can wait for it. */
void races_stop(void);

/* A new actor, zeroed before. */
void races_join(struct actor *actor);
/* All that the host knows; from malloc. */
struct clock *races_told(void);
void races_learn(struct actor *actor, const struct clock *clock);
/* What the other one knew when it began the operation that it is at. */
void races_learn_before(struct actor *actor, const struct actor *other);
void races_host_learns(const struct clock *clock);

/* The actor, NULL for the host, begins an operation, having learnt what `told` says (NULL: nothing
 * new). The name is kept. */
void races_begin(struct actor *actor, const char *name, const struct clock *told);
/* What the thread touches until _end is the operation's that the actor is at. */
void races_as(struct actor *actor);
void races_end(void);
void races_read(const void *at, size_t bytes);
void races_write(const void *at, size_t bytes);
/* The host writes it, in an operation of its own. */
void races_host_writes(const char *name, const void *at, size_t bytes);

#endif
