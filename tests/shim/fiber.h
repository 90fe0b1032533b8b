/* Fibers: the threads of a block of CUDA's, which the shim switches between by hand.
 *
 * Threads: a fiber runs in the thread of its caller, until it yields or its function returns.
 */
#ifndef NP_TEST_FIBER_H
#define NP_TEST_FIBER_H

#include <stddef.h>

#define FIBER_STACK ((size_t)64 << 10)

struct fiber {
    void *place; /* where it goes on */
    void *stack; /* the lowest address, FIBER_STACK bytes */
    void *fake;  /* AddressSanitizer's */
};

/* Where fibers run to and back from. */
struct fiber_home {
    void *place, *fake;
    const void *stack;
    size_t stack_bytes;
    struct fiber *now;
};

/* The function begins at the first run. It never returns: it yields for the last time. */
void fiber_init(struct fiber *f, void (*function)(void));
void fiber_run(struct fiber_home *home, struct fiber *f);
void fiber_yield(struct fiber_home *home, bool last);
/* What every fiber's function does first. */
void fiber_entered(struct fiber_home *home);

#endif
