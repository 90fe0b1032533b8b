#include "backends.h"

#include "num/backend.h"

/* The scalar code, then AVX-512's, whatever this machine has (avx512.h). */
const struct np_kernels *backend_get(int index)
{
    return index == 0 ? &np_kernels_scalar : index == 1 ? &np_kernels_avx512 : NULL;
}

bool team_is_tried(int size, int backend)
{
    (void)backend;
    return size < 3;
}
