#include "team_run.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct member {
    struct np_team team;
    pthread_t thread;
    void (*function)(struct np_team *, void *);
    void *arg;
};

static void *run(void *arg)
{
    struct member *m = arg;
    m->function(&m->team, m->arg);
    return NULL;
}

void team_run(int size, size_t scratch_bytes, void (*function)(struct np_team *, void *), void *arg)
{
    struct member members[8];
    struct np_barrier *barrier = NULL;
    char *scratch;
    ck_assert(size >= 1 && size <= 8);
    if (size > 1)
        ck_assert_int_eq(np_barrier_new(&barrier, size, NULL), NP_OK);
    ck_assert_uint_eq(scratch_bytes % NP_ALIGN, 0);
    /* Not np_alloc's: the shim would see to it word by word, and GPUs do not use it. */
    scratch = aligned_alloc(NP_ALIGN, (size_t)size * scratch_bytes);
    ck_assert(scratch || !scratch_bytes);
    for (int i = 0; i < size; i++) {
        struct member *m = &members[i];
        m->team = (struct np_team){.rank = i, .size = size, .barrier = barrier};
        m->team.scratch_bytes = scratch_bytes;
        m->team.scratch = scratch + (size_t)i * scratch_bytes;
        m->function = function;
        m->arg = arg;
        if (i > 0)
            ck_assert_int_eq(pthread_create(&m->thread, NULL, run, m), 0);
    }
    run(&members[0]);
    for (int i = 1; i < size; i++)
        ck_assert_int_eq(pthread_join(members[i].thread, NULL), 0);
    free(scratch);
    np_barrier_free(barrier);
}

bool tests_are_full(void)
{
    const char *value = getenv("NP_TEST_FULL");
    return value && strcmp(value, "1") == 0;
}

bool tests_watch_threads(void)
{
#if defined __has_feature
#if __has_feature(thread_sanitizer)
    return true;
#endif
#endif
#ifdef __SANITIZE_THREAD__
    return true;
#else
    return false;
#endif
}
