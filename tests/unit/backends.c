#include "backends.h"

#include "team_run.h"

const struct np_kernels *backend_get(int index)
{
    return np_kernels_get((enum np_isa)index);
}

bool team_is_tried(int size, int backend)
{
    return (tests_are_full() && backend != NP_ISA_SCALAR) || (size + backend) % 3 == 0;
}
