/* What is computed on: this machine's processors, GPUs, or the processes of an MPI job. */
#ifndef NP_CMD_BACKEND_CHOICE_H
#define NP_CMD_BACKEND_CHOICE_H

#include <argp.h>

#include "cuda/cuda_device.h"
#include "mpi/mpi_device.h"
#include "num/products.h"
#include "plan_options.h"

enum backend_choice { BACKEND_CPU, BACKEND_CUDA, BACKEND_MPI, BACKEND_MPI_CUDA, BACKEND_AUTO };
enum transport_choice { TRANSPORT_AUTO, TRANSPORT_PEER, TRANSPORT_NCCL };

#define BACKEND_DEADLINE 60 /* seconds of a transfer by NCCL, and of silence between ranks */
#define BACKEND_BEGIN 60    /* seconds at least that a rank waits for the others to begin */

struct backend {
    enum backend_choice choice;
    int numbers[NP_CUDA_MOST], count; /* of the GPUs (none: the first); of the ranks */
    struct np_device devices[NP_CUDA_MOST];
    bool opened;                 /* the GPUs are used */
    struct np_ranks *ranks;      /* are used, or NULL */
    struct np_device near;       /* this rank's own */
    char name[160];              /* of the first, and what its products are computed by */
    struct np_products products; /* of fast numerics; their list, and whose it is */
    bool fast;
    enum transport_choice transport; /* of several; no longer AUTO once they are opened */
    int deadline_s;                  /* 0: BACKEND_DEADLINE */
    struct np_link *link;            /* between their memories, where there are several */
};

/* What stands beside --backend: usage errors exit with 2. */
void backend_check(struct backend *backend, const struct plan_options *plan,
                   struct argp_state *state);
/* Opens the GPUs. BACKEND_AUTO: or, where that cannot be done and the recipe's numerics do not need
 * them, stays with the processors. NP_EINPUT: what was chosen does not compute the numerics. */
enum np_status backend_open(struct backend *backend, const struct np_recipe *recipe,
                            struct np_error *err);
/* How many processes Slurm, Open MPI or another launcher says that it began together; 0: none. */
int backend_launched(void);
/* Joins the MPI job, which BACKEND_MPI is. Rank 0 goes on; any other works for it until it is done,
 * and *over is set. Where the others do not begin, the process ends here. */
enum np_status backend_join(struct backend *backend, const struct plan_options *plan, bool *over,
                            struct np_error *err);
/* Where the stages compute; NULL: on this machine's processors. And by which kernels. */
const struct np_device *backend_devices(const struct backend *backend);
const struct np_kernels *backend_kernels(const struct backend *backend,
                                         const struct plan_options *plan);
const char *backend_name(const struct backend *backend);
/* What GPUs that are opened, or ranks, leave a plan to choose: a stage for each, as far as there
 * are positions, unless it is told more. Their costs are the first one's. */
void backend_request(struct backend *backend, struct np_partition_request *request,
                     const struct np_supernet *net);
/* How many processors there are for all threads, or for a rank's; 0: GPUs compute. */
int backend_share(const struct backend *backend, const struct plan_options *plan);
/* And what is between ranks, measured. */
enum np_status backend_pace(struct backend *backend, struct np_partition_request *request,
                            struct np_error *err);
/* What the team of a stage wants of its GPU: bytes; 0 if none is opened. */
size_t backend_scratch(const struct backend *backend, const struct np_supernet *net);
/* Whether its kernels count the rows of the plan's micro-batches. */
enum np_status backend_counts(const struct backend *backend, const struct np_plan *plan,
                              const struct np_supernet *net, struct np_error *err);
/* Sets the budget of stages that the GPUs' free memory has no room for, at what it has; false if
 * they fit. */
bool backend_bound(const struct backend *backend, const struct np_plan *plan,
                   struct np_partition_request *request);
/* How the stages of the plan come to each other's memory, on several GPUs. */
enum np_status backend_link(struct backend *backend, struct np_plan *plan, struct np_error *err);
/* When all is done: the ranks are there, as they must be to close. */
enum np_status backend_still_there(struct backend *backend, struct np_error *err);
void backend_close(struct backend *backend);

#endif
