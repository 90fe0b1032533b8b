/* Compares kernels of every instruction set, and of teams of 1 to 4, with the scalar reference, bit
 * for bit. What a kernel reads and writes is taken from an arena, each array beside a fence, and
 * all of it is compared, so a write out of place is seen as well.
 */
#ifndef NP_TEST_KERNEL_CHECK_H
#define NP_TEST_KERNEL_CHECK_H

#include "num/kernels.h"

/* Gives everything back that was taken. What is taken next holds numbers of [-3, 3), and, where
 * special, zeros, subnormal, tiny and large ones among them; a seed gives the same again. */
void arena_begin(uint32_t seed, bool special);

/* count floats, aligned to no more than 4 bytes. */
float *arena_take(size_t count);

/* Runs a kernel with the scalar backend, then with all others and all teams on the same arena:
 * everything taken must hold the same bits, and the `and` of the results must be the same. The
 * arena then holds the reference's results. */
typedef bool kernel_run(struct np_team *team, const struct np_kernels *kernels, void *arg);
void arena_check(kernel_run *run, void *arg, const char *what);

/* A number below n drawn for (seed, index). */
size_t check_draw(uint32_t seed, uint32_t index, size_t n);

#endif
