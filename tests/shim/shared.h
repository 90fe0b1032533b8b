/* Shared memory of the block that runs: its arrays, and races in it: two accesses of different
 * threads to the same word of 4 bytes, one of them a write, with no barrier between them. They are
 * found by what orders them, not by what comes of them: in whatever order the threads run.
 *
 * Order     a thread's own accesses are done one after the other; __syncthreads orders those of all
 *           threads of the block, __syncwarp those of a warp. What lanes exchange words or votes by
 *           orders nothing, as on a GPU.
 * Accesses  are seen as those to the memory of devices are (races.h), in the first 16 blocks of a
 *           kernel that run, and in every thirteenth from then on: to look at all, which do the
 *           same, would take twice the time. No kernel has atomic ones.
 * Memory    begins as NaN patterns with each block. Between arrays are bytes that no thread may
 *           touch.
 * Errors    a race, an access to what is no array, or more memory than there is, ends the program
 *           with a message: shim_fail.
 */
#ifndef NP_TEST_SHARED_H
#define NP_TEST_SHARED_H

#include <stddef.h>
#include <stdint.h>

enum {
    SHARED_ARRAYS = 16,      /* of a block, at most */
    SHARED_GAP = 64,         /* bytes between them */
    SHARED_MOST = 163 << 10, /* bytes of a block: compute capability 8.0 */
    SHARED_ROOM = SHARED_MOST + (SHARED_ARRAYS + 1) * SHARED_GAP
};
extern char shared_room[SHARED_ROOM];

/* What a kernel is allowed on a device, with the shim's lock held; 0 unless it was told. */
void shared_allow(const void *kernel, int device, size_t bytes);
size_t shared_allowed(const void *kernel, int device);

/* A block of the kernel begins, whose launch asked for `dynamic` bytes: array 0. More than 48 KiB
 * with its own arrays are for kernels that have been allowed so many. */
void shared_begin(const void *kernel, size_t dynamic, size_t allowed);
/* The array that a thread declares; the number counts from 1. */
void *shared_array(unsigned number, size_t bytes);
void *shared_dynamic(void);

/* What is touched from here on is touched by this thread of the block. */
void shared_as(unsigned thread);
/* All threads of the block, or of a thread's warp, have met. */
void shared_met(void);
void shared_warp_met(unsigned thread);

/* Where shared memory is, if the block is looked at. */
extern uintptr_t shared_seen;
static inline bool shared_has(const void *at)
{
    return (uintptr_t)at - shared_seen < SHARED_ROOM;
}
void shared_read(const void *at, size_t bytes);
void shared_write(const void *at, size_t bytes);

#endif
