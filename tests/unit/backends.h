/* What tests of the kernel table compare: the instruction sets of this machine, or the scalar one
 * and CUDA's kernels where a test is linked with the shim that runs them on the CPU (tests/shim).
 */
#ifndef NP_TEST_BACKENDS_H
#define NP_TEST_BACKENDS_H

#include "num/kernels.h"

#define BACKENDS NP_ISA_COUNT /* at most */

/* Backend number `index` below BACKENDS, NULL if there is none; the reference comes first. */
const struct np_kernels *backend_get(int index);

/* Whether a team of `size` is tried with backend number `backend`: all of them where NP_TEST_FULL
 * is 1, but of the scalar one, which is the slowest, one in three. Otherwise one in three of each
 * where threads are watched, and elsewhere, as under other sanitizers and in emulators, small teams
 * alone, and none of the scalar one, which all are compared with. Of CUDA's, teams of one. */
bool team_is_tried(int size, int backend);

#endif
