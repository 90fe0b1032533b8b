#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/memory.h"
#include "num/team.h"

#define SPINS                                                                                      \
    4000 /* some microseconds: longer than most kernels' imbalance, far below a time slice */

/* Each meeting is a new `phase`; the last to arrive begins the next one. Members that have spun for
 * a while sleep, so that a machine with fewer cores than threads does not crawl. */
struct np_barrier {
    _Alignas(NP_ALIGN) atomic_int arrived;
    _Alignas(NP_ALIGN) atomic_uint phase;
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

static void sleep_until_moved(struct np_barrier *barrier, unsigned phase)
{
    pthread_mutex_lock(&barrier->lock);
    while (atomic_load(&barrier->phase) == phase)
        pthread_cond_wait(&barrier->moved, &barrier->lock);
    pthread_mutex_unlock(&barrier->lock);
}

void np_team_wait(struct np_team *team)
{
    struct np_barrier *barrier = team->barrier;
    if (team->size == 1)
        return;
    unsigned phase = atomic_load(&barrier->phase);
    if (atomic_fetch_add(&barrier->arrived, 1) == barrier->size - 1) {
        atomic_store(&barrier->arrived, 0);
        pthread_mutex_lock(&barrier->lock);
        atomic_store(&barrier->phase, phase + 1);
        pthread_cond_broadcast(&barrier->moved);
        pthread_mutex_unlock(&barrier->lock);
        return;
    }
    for (int spin = 0; spin < SPINS; spin++) {
        if (atomic_load(&barrier->phase) != phase)
            return;
        relax();
    }
    sleep_until_moved(barrier, phase);
}
