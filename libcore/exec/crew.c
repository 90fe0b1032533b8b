#include "exec/crew.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/memory.h"
#include "num/kernels.h"

struct member {
    struct np_team team;
    struct np_crew *crew;
    pthread_t thread;
};

struct np_crew {
    int size, started; /* members; threads made so far, the caller counted */
    struct np_barrier *barrier;
    struct member *members;
    void (*function)(struct np_team *team, void *argument);
    void *argument;
    bool quit;
};

static void check_floats(struct np_team *team, void *argument)
{
    enum np_status *status = argument; /* one a member */
    status[team->rank] = np_float_check(NULL);
}

static void *member_main(void *argument)
{
    struct member *self = argument;
    struct np_crew *crew = self->crew;
    for (;;) {
        np_team_wait(&self->team);
        if (crew->quit)
            return NULL;
        crew->function(&self->team, crew->argument);
        np_team_wait(&self->team);
    }
}

enum np_status np_crew_new(struct np_crew **out, int size, void *scratch, size_t scratch_bytes,
                           struct np_error *err)
{
    struct np_crew *crew = NULL;
    enum np_status status, checked[NP_MAX_TEAM];
    assert(size <= NP_MAX_TEAM);
    NP_TRY(np_zalloc(&crew, 1, sizeof *crew, err));
    crew->size = size;
    crew->started = 1;
    NP_TRY(np_zalloc(&crew->members, (size_t)size, sizeof *crew->members, err));
    if (size > 1)
        NP_TRY(np_barrier_new(&crew->barrier, size, err));
    for (int rank = 0; rank < size; rank++) {
        struct member *m = &crew->members[rank];
        m->crew = crew;
        m->team = (struct np_team){.rank = rank, .size = size, .barrier = crew->barrier};
        m->team.scratch = (char *)scratch + (size_t)rank * scratch_bytes;
        m->team.scratch_bytes = scratch_bytes;
    }
    for (int rank = 1; rank < size; rank++, crew->started++) {
        struct member *m = &crew->members[rank];
        errno = pthread_create(&m->thread, NULL, member_main, m);
        if (errno) {
            status = np_fail_errno(err, "cannot start thread %d of %d", rank + 1, size);
            goto out;
        }
    }
    np_crew_run(crew, check_floats, checked);
    for (int rank = 0; rank < size; rank++)
        if (checked[rank] != NP_OK)
            NP_TRY(np_fail(err, checked[rank], "a thread does not round as IEEE 754 asks"));
    *out = crew;
    return NP_OK;
out:
    np_crew_free(crew);
    return status;
}

void np_crew_free(struct np_crew *crew)
{
    if (!crew)
        return;
    if (crew->started == crew->size) {
        crew->quit = true;
        if (crew->size > 1)
            np_team_wait(&crew->members[0].team);
    }
    for (int rank = 1; rank < crew->started; rank++) {
        if (crew->started < crew->size) /* they wait for members that were never made */
            pthread_cancel(crew->members[rank].thread);
        pthread_join(crew->members[rank].thread, NULL);
    }
    free(crew->members);
    np_barrier_free(crew->barrier);
    free(crew);
}

void np_crew_run(struct np_crew *crew, void (*function)(struct np_team *team, void *argument),
                 void *argument)
{
    struct np_team *self = &crew->members[0].team;
    crew->function = function;
    crew->argument = argument;
    if (crew->size > 1)
        np_team_wait(self);
    function(self, argument);
    if (crew->size > 1)
        np_team_wait(self);
}
