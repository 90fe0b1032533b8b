#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/memory.h"
#include "num/team.h"

#define SPINS 1000 /* some microseconds: longer than most kernels' imbalance */
#define YIELDS 400 /* some hundred: shorter than a member is made to wake up, once asleep */

/* Each meeting is a new `phase`; the last to arrive begins the next one. Members that have waited
 * for a while let others run, and then sleep, so that a machine with fewer cores than threads does
 * not crawl. What the last one writes has a cache line apart from what the others look at. */
struct np_barrier {
    _Alignas(NP_ALIGN) atomic_int arrived;
    _Alignas(NP_ALIGN) atomic_uint phase;
    _Alignas(NP_ALIGN) atomic_int asleep; /* or about to be */
    int size;
    pthread_mutex_t lock;
    pthread_cond_t moved;
};

enum np_status np_barrier_new(struct np_barrier **out, int size, struct np_error *err)
{
    struct np_barrier *barrier = NULL;
    enum np_status status = np_alloc(&barrier, 1, sizeof(*barrier), err);
    if (status != NP_OK)
        return status;
    atomic_init(&barrier->arrived, 0);
    atomic_init(&barrier->phase, 0);
    atomic_init(&barrier->asleep, 0);
    barrier->size = size;
    pthread_mutex_init(&barrier->lock, NULL);
    pthread_cond_init(&barrier->moved, NULL);
    *out = barrier;
    return NP_OK;
}

void np_barrier_free(struct np_barrier *barrier)
{
    if (!barrier)
        return;
    pthread_cond_destroy(&barrier->moved);
    pthread_mutex_destroy(&barrier->lock);
    free(barrier);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* waits longer than yield, which most cores ignore */
#endif
}

/* Either sees the phase that the last to arrive has begun, or is seen by it to be asleep. */
static void sleep_until_moved(struct np_barrier *barrier, unsigned phase)
{
    pthread_mutex_lock(&barrier->lock);
    atomic_fetch_add(&barrier->asleep, 1);
    while (atomic_load(&barrier->phase) == phase)
        pthread_cond_wait(&barrier->moved, &barrier->lock);
    atomic_fetch_sub(&barrier->asleep, 1);
    pthread_mutex_unlock(&barrier->lock);
}

static void begin_phase(struct np_barrier *barrier, unsigned phase)
{
    atomic_store(&barrier->arrived, 0);
    atomic_store(&barrier->phase, phase);
    if (atomic_load(&barrier->asleep) == 0)
        return;
    pthread_mutex_lock(&barrier->lock);
    pthread_cond_broadcast(&barrier->moved);
    pthread_mutex_unlock(&barrier->lock);
}

void np_team_wait(struct np_team *team)
{
    struct np_barrier *barrier = team->barrier;
    if (team->size == 1)
        return;
    unsigned phase = atomic_load(&barrier->phase);
    if (atomic_fetch_add(&barrier->arrived, 1) == barrier->size - 1) {
        begin_phase(barrier, phase + 1);
        return;
    }
    for (int turn = 0; turn < SPINS + YIELDS; turn++) {
        if (atomic_load(&barrier->phase) != phase)
            return;
        if (turn < SPINS)
            relax();
        else
            sched_yield();
    }
    sleep_until_moved(barrier, phase);
}
