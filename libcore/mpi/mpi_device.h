/* Other processes as devices (num/device.h): ranks of one MPI job, on this host and others.
 *
 * Rank 0 trains. Every rank, rank 0 too, is a device that is apart from the host: crews of its
 * processors' threads, or of a GPU, with memory of their own, which do what rank 0 tells them, in
 * that order, and later. So rank 0 has the only scheduler, run and data, and what it sends out is
 * orders, batches and new layers; values and gradients go from rank to rank, without it.
 *
 * Numbers   device i is rank i; np_ranks_link's places are the same.
 * Bits      those of the ranks' kernels: as on every device.
 * Errors    NP_EINPUT: a build without MPI; NP_EIO: MPI, or a rank, which is named, has failed, or
 *           was silent for the deadline, though it computes in no thread that answers. A process
 *           that dies ends the job: by MPI's launcher.
 * Ownership devices and link live no longer than the ranks they are of.
 * Threads   one of MPI's own in every process; the first thread opens and closes.
 */
#ifndef NP_MPI_MPI_DEVICE_H
#define NP_MPI_MPI_DEVICE_H

#include "num/link.h"

#define NP_RANKS_MOST 64

struct np_ranks;
struct np_wire;

/* All processes of the job begin with this: of MPI's, or (tests) of those that a wire connects,
 * which is the ranks' from here on, also where this fails. NP_EINPUT: more than NP_RANKS_MOST.
 * MPI waits for all of them, without a limit: an alarm (base/alarm.h) may end the process. */
enum np_status np_ranks_open(struct np_ranks **out, int deadline_s, struct np_error *err);
enum np_status np_ranks_of(struct np_ranks **out, struct np_wire *wire, int deadline_s,
                           struct np_error *err);
int np_ranks_rank(const struct np_ranks *ranks);
int np_ranks_count(const struct np_ranks *ranks);
/* Its number among the ranks of this host; and its share of the processors that these may use
 * (base/limits.h), dealt evenly, 1 at least. */
int np_ranks_among(const struct np_ranks *ranks);
int np_ranks_processors(const struct np_ranks *ranks);

/* On all ranks but 0: works for rank 0, on its own device `near`, by these kernels of that, until
 * rank 0 closes. */
enum np_status np_ranks_serve(struct np_ranks *ranks, const struct np_device *near,
                              const struct np_kernels *kernels, struct np_error *err);

/* Instead, where it has no such device: rank 0 is told why, and so who trains. */
enum np_status np_ranks_decline(struct np_ranks *ranks, const struct np_error *why,
                                struct np_error *err);

/* On rank 0: devices[np_ranks_count] are the ranks. Its own is `near`, of the kind that all have,
 * and is borrowed. NP_EINPUT: a rank, which is named, declines or runs another naspipe. */
enum np_status np_ranks_devices(struct np_ranks *ranks, struct np_device *devices,
                                const struct np_device *near, const struct np_kernels *kernels,
                                struct np_error *err);
enum np_status np_ranks_link(struct np_link **out, struct np_ranks *ranks, struct np_error *err);

/* On rank 0, when all is done and before it closes: the other ranks are asked a last time whether
 * they are there, for closing waits for them without a limit. NP_EIO: one, which is named, is not;
 * closing then ends the job. */
enum np_status np_ranks_still_there(struct np_ranks *ranks, struct np_error *err);

/* On rank 0 after all that was made on its devices is freed: the others go home. */
void np_ranks_close(struct np_ranks *ranks);

/* The library and its version, or that there is none. */
void np_mpi_version(char *out, size_t bytes);

#endif
