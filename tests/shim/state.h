/* What the runtime of the shim is made of: devices (devices.cc), their memory (memory.cc), streams
 * and events (streams.cc). Private to them; all of it with the shim's lock held. */
#ifndef NP_TEST_STATE_H
#define NP_TEST_STATE_H

#include <pthread.h>

#include "inside.h"
#include "races.h"

enum { MOST_DEVICES = 8, PINNED = MOST_DEVICES, HEAPS };
/* Addresses of each device, and of pinned memory, of which memory is where it is written. */
static const size_t HEAP = (size_t)1 << 33;

/* A block of a device's memory, or pinned, and what lies behind it up to the next. */
struct block {
    char *at;
    size_t room, bytes; /* bytes 0: free */
    int device;
    bool pooled;
    struct clock freed; /* what whoever gave it back to the pool knew */
};

struct CUstream_st {
    struct shim_work *first, **last;
    cudaStream_t next;
    int device;
    struct actor actor;
};

/* A record of an event: what its stream knew. */
struct shim_moment {
    int holders;
    struct clock knows;
};

struct CUevent_st {
    uint64_t issued, done;
    int device;
    cudaStream_t stream; /* of its last record */
    uint64_t pending;    /* in streams */
    bool destroyed;
    struct shim_moment *moment; /* its last record; NULL: there is none */
};

struct shim_state {
    pthread_mutex_t lock;
    uint64_t seed;
    int devices, arch;
    bool has_driver, dead, peers;
    bool enabled[MOST_DEVICES][MOST_DEVICES]; /* for memory that is no pool's */
    bool reaches[MOST_DEVICES][MOST_DEVICES]; /* the pool's */
    size_t memory, used[HEAPS];
    char failing[64], skipped[64], hanging[64];
    long fails_at, calls, hangs_at, hangs, swapped;
    char *heap;
    size_t heap_used[HEAPS];
    bool heap_open[MOST_DEVICES];
    struct block *blocks;
    size_t block_count;
    cudaStream_t streams, favoured;
};
extern struct shim_state shim;
extern __thread cudaError_t last_error;
extern __thread int current; /* device of the thread; -1: none is chosen */

const char *chosen(const char *name, const char *otherwise);
void die(const char *what) __attribute__((noreturn));
void lock(void);
/* An error is the thread's last. */
cudaError_t unlock(cudaError_t error);
void need_device(void);
/* Whether a call shall fail. */
bool refused(const char *name);
uint64_t draw(uint64_t below);

/* Access to what a device reaches, -1: to everything; and to nothing. */
void open_memory(int device);
void close_memory(void);
/* The device that has it in its memory, -1: the host has. */
int device_of(const void *at);

/* Runs, of all streams, what must be run before this one has nothing to do. */
void run_out(cudaStream_t stream);

#endif
