/* What the shim's parts need of each other. */
#ifndef NP_TEST_INSIDE_H
#define NP_TEST_INSIDE_H

#include "cuda_runtime.h"

/* Pinned memory, as cudaMallocHost's, but from whoever asks; and back, if that is where the block
 * is from. */
void *shim_take(size_t bytes);
bool shim_give(void *block);

/* Graphs: launched so far, and that can be launched. */
extern unsigned shim_graphs_launched, shim_graphs_there;

/* Between these, nothing else happens in the shim. */
void shim_lock(void);
void shim_unlock(void);

/* Within: */
void shim_die(const char *what) __attribute__((noreturn));
/* As well, and names the thread of a kernel that runs. */
void shim_fail(const char *what) __attribute__((noreturn));
/* Whether a call shall fail, or never end (SHIM_FAIL, SHIM_HANG); SHIM_SWAP. */
bool shim_fails(const char *name);
bool shim_hangs(const char *name);
long shim_swapped(void);
uint64_t shim_draw(uint64_t below);
/* The thread's device; that of memory or of a stream, -1 the host's. */
int shim_device(void);
int shim_device_of(const void *at);
int shim_stream_device(cudaStream_t stream);
bool shim_is_next(cudaStream_t stream, const struct shim_work *work);
/* Whether NCCL on a device may use memory of another where they reach each other: a pool's is to be
 * shared for that, the rest it sees to itself. */
bool shim_may_meet(const void *at, int device);
/* All memory may be touched. */
void shim_open(void);
/* Says which block of memory has this byte. */
void shim_where(const char *at, char *out, size_t bytes);
void shim_queue(cudaStream_t stream, struct shim_work *work);
/* The work that is next in the stream begins, if it has not begun yet. */
void shim_begin(cudaStream_t stream);
/* What is touched from here on to races_end is touched by the stream. */
struct actor *shim_actor(cudaStream_t stream);

/* Nothing can be done any more until more is queued: ends the program if NCCL's ranks wait for each
 * other. */
void shim_stuck(void);

#endif
