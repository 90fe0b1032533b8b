#include "backends.h"

#include "team_run.h"

const struct np_kernels *backend_get(int index)
{
    return np_kernels_get((enum np_isa)index);
}

bool team_is_tried(int size, int backend)
{
    bool third = (size + backend) % 3 == 0;
    if (tests_are_full())
        return third || backend != NP_ISA_SCALAR;
    return third && (tests_watch_threads() || (size <= 3 && backend != NP_ISA_SCALAR));
}
