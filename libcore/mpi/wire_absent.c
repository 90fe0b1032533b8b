/* What a build without MPI answers: linked where nothing before the library has these names. */
#include <stdio.h>

#include "mpi/mpi_device.h"
#include "mpi/wire.h"

enum np_status np_wire_mpi(struct np_wire **out, struct np_error *err)
{
    (void)out;
    return np_fail(err, NP_EINPUT,
                   "this build has no MPI (make finds Open MPI or MPICH by pkg-config)");
}

void np_mpi_version(char *out, size_t bytes)
{
    snprintf(out, bytes, "not built");
}
