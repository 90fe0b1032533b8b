#include "mpi/bell.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Who rings looks for a sleeper after, and who sleeps looks for a ring after it has said so: one of
 * both sees the other. */

void np_bell_ring(struct np_bell *bell)
{
    __atomic_fetch_add(&bell->rings, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&bell->sleeps, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &bell->rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void np_bell_wait(struct np_bell *bell, uint32_t *heard, long ns)
{
    const struct timespec most = {ns / 1000000000, ns % 1000000000};
    __atomic_store_n(&bell->sleeps, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&bell->rings, __ATOMIC_SEQ_CST) == *heard)
        syscall(SYS_futex, &bell->rings, FUTEX_WAIT, *heard, &most, NULL, 0);
    __atomic_store_n(&bell->sleeps, 0, __ATOMIC_SEQ_CST);
    *heard = __atomic_load_n(&bell->rings, __ATOMIC_SEQ_CST);
}
