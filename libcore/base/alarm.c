#include "base/alarm.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"

enum { PARTS = 8 }; /* of the limit, waited for one after the other */

struct np_alarm {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool off;
    uint64_t limit_ns;
    void (*ring)(void *argument);
    void *argument;
    pthread_t thread;
};

static void wait_part(struct np_alarm *a)
{
    const uint64_t second = 1000000000;
    struct timespec until;
    uint64_t ns;
    clock_gettime(CLOCK_MONOTONIC, &until);
    ns = (uint64_t)until.tv_nsec + a->limit_ns / PARTS;
    until.tv_sec += (time_t)(ns / second);
    until.tv_nsec = (long)(ns % second);
    while (!a->off && pthread_cond_timedwait(&a->changed, &a->lock, &until) == 0)
        ;
}

static void *alarm_main(void *argument)
{
    struct np_alarm *a = argument;
    bool off;
    pthread_mutex_lock(&a->lock);
    for (int part = 0; part < PARTS && !a->off; part++)
        wait_part(a);
    off = a->off;
    pthread_mutex_unlock(&a->lock);
    if (!off)
        a->ring(a->argument);
    return NULL;
}

static void destroy(struct np_alarm *a)
{
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

enum np_status np_alarm_new(struct np_alarm **out, uint64_t limit_ns, void (*ring)(void *argument),
                            void *argument, struct np_error *err)
{
    struct np_alarm *a;
    pthread_condattr_t attributes;
    enum np_status status = np_zalloc(&a, 1, sizeof *a, err);
    if (status != NP_OK)
        return status;
    *a = (struct np_alarm){.limit_ns = limit_ns, .ring = ring, .argument = argument};
    pthread_mutex_init(&a->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&a->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    errno = pthread_create(&a->thread, NULL, alarm_main, a);
    if (errno) {
        status = np_fail_errno(err, "cannot start the thread of an alarm");
        destroy(a);
        return status;
    }
    *out = a;
    return NP_OK;
}

void np_alarm_free(struct np_alarm *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->off = true;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    destroy(a);
}
