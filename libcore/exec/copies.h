/* Copies of a stage's layers, for exec/residence.c alone: who carries them out, and when.
 *
 * What may be copied is for the context manager of the stage to say (sched/context.h). Where there
 * are copy threads, idle ones are given what may begin; else whoever lets a copy begin carries it
 * out. A copy that fails is the residence's status, and wakes whoever waits.
 *
 * Threads   under the residence's lock, unless something else is said; a copy thread carries out
 *           its copies without it.
 */
#ifndef NP_EXEC_COPIES_H
#define NP_EXEC_COPIES_H

#include <pthread.h>

#include "exec/residence.h"
#include "sched/contexts.h"

struct np_copier {
    struct np_residence_stage *place;
    pthread_t thread;
};

struct np_residence_stage {
    struct np_residence *residence;
    int stage;
    struct np_context *context;
    struct np_crew *crew;
    struct np_stamp **used; /* [layers]: what the crew has been told of each, as far as it may */
    pthread_cond_t arrived; /* the stage waits for a layer */
    pthread_cond_t work;    /* copiers wait for something to do */
    struct np_copier copiers[NP_COPIERS];
    int started, idle;                /* copiers; those that wait, less what they are given */
    struct np_copy given[NP_COPIERS]; /* copies that idle copiers take up, the last one first */
    int given_count;
    int busy;   /* copies that have begun, given ones too */
    bool waits; /* a task, for layer `wanted` */
    uint32_t wanted;
    double copy_s, stall_s;
};

struct np_residence {
    struct np_residence_config
        config; /* arenas: a copy; crews, room, bytes are not looked at again */
    struct np_arena **arenas;
    const struct np_supernet *net;
    struct np_stash *stash;
    struct np_contexts *contexts;
    struct np_residence_stage *places;
    pthread_mutex_t lock;
    pthread_cond_t idle; /* no copy is under way */
    int busy;
    bool threads; /* copiers are; else copies are carried out by whoever lets them begin */
    bool open, quit, knows;
    uint64_t copies; /* started so far */
    enum np_status status;
    struct np_error err;
};

/* Copies may begin at the stages first .. last: they do, or idle copiers take them up. What is
 * copied at one stage may let a copy begin at those beside it that share its layers. */
void np_copies_begin(struct np_residence *residence, int first, int last);
/* Something has changed for the stage's layers, and for those beside it that share them. */
void np_copies_around(struct np_residence_stage *place);
/* Gives idle copiers what they may begin. */
void np_copies_give(struct np_residence_stage *place);
/* Whether a task waits for a layer that nobody copies, here or elsewhere: a bug, which ends the
 * residence at once. */
bool np_copies_in_vain(struct np_residence_stage *place);

/* The stage's copy threads, without the lock; NP_EIO if one cannot be started. They end when the
 * residence quits and `work` is signalled. */
enum np_status np_copies_start(struct np_residence_stage *place, struct np_error *err);
void np_copies_join(struct np_residence_stage *place);

#endif
