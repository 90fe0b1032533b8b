/* Workers: the crews of a rank, each with a thread that tells it what rank 0 orders. Private to
 * mpi/.
 *
 * Order     a worker follows its orders one after the other. On a device that is apart its crew is
 *           told ahead, and is waited for where an order needs it or when no more have come.
 * Names     a worker is known by its box of orders.
 * Errors    of the crew are told with its tasks; where nothing can be told any more, the post
 *           fails.
 * Ownership np_workers_end frees them all; until then also those whose crew has ended are there,
 *           for their stamps. Post, device and kernels are borrowed.
 * Threads   one, the desk's; the workers' own know of each other by what is under the lock.
 */
#ifndef NP_MPI_WORKER_H
#define NP_MPI_WORKER_H

#include <pthread.h>

#include "mpi/desk.h"

struct np_worker;

struct np_workers {
    struct np_post *post;
    const struct np_device *device;
    const struct np_kernels *kernels;
    pthread_mutex_t lock; /* of the list, of its workers' counts and who waits for them */
    pthread_cond_t stamped;
    struct np_worker *first;
    bool over; /* the post says nothing any more */
};

void np_workers_init(struct np_workers *all, struct np_post *post, const struct np_device *device,
                     const struct np_kernels *kernels);
void np_workers_end(struct np_workers *all);

enum np_status np_worker_new(struct np_workers *all, const struct np_desk_crew *config,
                             uint64_t *name, struct np_error *err);
/* Answers NP_OK when the stamp is settled: to a box of a rank. */
enum np_status np_worker_tell(struct np_workers *all, const struct np_order_after *stamp, int rank,
                              uint64_t box, struct np_error *err);

#endif
