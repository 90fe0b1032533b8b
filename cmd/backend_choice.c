#include "backend_choice.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alarm.h"
#include "base/text.h"
#include "cli.h"
#include "ops/op.h"
#include "plan/profile_link.h"

/* One part in so many of a GPU's free memory is the driver's and the libraries', who take it when
 * they are first used. */
#define LEFT_FREE 32

/* The GPUs that --devices LIST names, as in "0,2". */
static void read_list(struct backend *backend, const char *list, struct argp_state *state)
{
    const char *at = list;
    for (;;) {
        char *end;
        long number = strtol(at, &end, 10);
        if (end == at || *at < '0' || *at > '9' || number > 9999 || (*end && *end != ','))
            argp_error(state, "--devices '%s' is not a list of GPUs' numbers, such as 0,1",
                       np_text_safe(list).s);
        for (int i = 0; i < backend->count; i++)
            if (backend->numbers[i] == number)
                argp_error(state, "--devices '%s' names a GPU twice", np_text_safe(list).s);
        if (backend->count == NP_CUDA_MOST)
            argp_error(state, "--devices names more than %d GPUs", NP_CUDA_MOST);
        backend->numbers[backend->count++] = (int)number;
        if (!*end)
            return;
        at = end + 1;
    }
}

void backend_check(struct backend *backend, const struct plan_options *plan,
                   struct argp_state *state)
{
    if (backend->choice == BACKEND_CPU || backend->choice == BACKEND_MPI)
        return;
    if (backend->choice != BACKEND_AUTO && plan->devices)
        read_list(backend, plan->devices, state);
    if (backend->choice == BACKEND_AUTO && plan->devices)
        argp_error(state, "--devices counts threads or names GPUs: --backend must say which");
    if (plan->request.kernels || plan->request.threads > 1)
        argp_error(state, "--isa and --threads are for --backend cpu");
}

static enum np_status open_gpus(struct backend *backend, struct np_error *err)
{
    enum np_status status;
    if (backend->count == 0)
        backend->numbers[backend->count++] = 0;
    status = np_cuda_open(backend->devices, backend->numbers, backend->count, err);
    backend->opened = status == NP_OK;
    if (backend->opened && backend->transport == TRANSPORT_AUTO)
        backend->transport =
            np_cuda_reach(backend->devices, backend->count) ? TRANSPORT_PEER : TRANSPORT_NCCL;
    return status;
}

/* GPUs that compute by the recipe's numerics, which others than the portable ones need. */
static enum np_status open_fast(struct backend *backend, const struct np_numerics *numerics,
                                struct np_error *err)
{
    enum np_status status;
    if (backend->choice != BACKEND_CUDA && backend->choice != BACKEND_AUTO)
        return np_fail(err, NP_EINPUT,
                       "they need a GPU of compute capability %d.%d, and --backend cuda",
                       numerics->capability / 10, numerics->capability % 10);
    NP_TRY(open_gpus(backend, err));
    np_products_init(&backend->products, numerics);
    backend->fast = true;
    NP_TRY(np_cuda_fast(backend->devices, backend->count, &backend->products, err));
out:
    return status;
}

enum np_status backend_open(struct backend *backend, const struct np_recipe *recipe,
                            struct np_error *err)
{
    const struct np_numerics *numerics = recipe->numerics;
    struct np_error why;
    enum np_status status;
    if (numerics->capability) {
        status = open_fast(backend, numerics, &why);
        return status == NP_OK ? NP_OK
                               : np_fail(err, status, "%s: numerics %s: %s", recipe->numerics_place,
                                         numerics->name, why.msg);
    }
    if (backend->choice != BACKEND_CUDA && backend->choice != BACKEND_AUTO)
        return NP_OK;
    status = open_gpus(backend, err);
    return backend->choice == BACKEND_AUTO ? NP_OK : status;
}

/* This rank's own device. The GPUs of the list, or all that the process sees, are dealt to the
 * ranks of a host in turn. */
static enum np_status open_near(struct backend *backend, struct np_error *err)
{
    int among = np_ranks_among(backend->ranks), there, number = 0;
    backend->near = np_device_host;
    if (backend->choice == BACKEND_MPI)
        return NP_OK;
    there = np_cuda_count();
    if (backend->count)
        number = backend->numbers[among % backend->count];
    else if (there)
        number = among % there;
    return np_cuda_open(&backend->near, &number, 1, err);
}

/* Its kernels: of processors, what was asked for. */
static const struct np_kernels *near_kernels(const struct backend *backend,
                                             const struct np_kernels *kernels)
{
    const struct np_device *near = &backend->near;
    return near->ops->kernels ? near->ops->kernels(near) : kernels;
}

static int deadline_s(const struct backend *backend)
{
    return backend->deadline_s ? backend->deadline_s : BACKEND_DEADLINE;
}

/* MPI_Init, where MPI waits for the others, cannot be interrupted; nothing has been written yet. */
static void give_up(void *limit_s)
{
    struct np_error err;
    np_fail(&err, NP_EIO,
            "MPI: cannot begin: the job's other processes have not begun in %d s: one has ended "
            "before, or is stopped, or cut off",
            *(const int *)limit_s);
    cli_error(&err);
    _exit(CLI_FAILED);
}

/* Many processes on few processors take a while to begin, whatever is said of their silence. */
static enum np_status open_ranks(struct backend *backend, struct np_error *err)
{
    int silent_s = deadline_s(backend);
    int limit_s = silent_s > BACKEND_BEGIN ? silent_s : BACKEND_BEGIN;
    struct np_alarm *alarm;
    enum np_status status;
    NP_TRY(np_alarm_new(&alarm, (uint64_t)limit_s * 1000000000, give_up, &limit_s, err));
    status = np_ranks_open(&backend->ranks, silent_s, err);
    np_alarm_free(alarm);
out:
    return status;
}

/* The number that a launcher left in the environment; 0: none. */
static int launched(const char *variable)
{
    const char *text = getenv(variable);
    return text ? atoi(text) : 0;
}

int backend_launched(void)
{
    static const char *const variables[] = {"SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE",
                                            "PMI_SIZE"};
    int most = 0;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        int count = launched(variables[i]);
        most = count > most ? count : most;
    }
    return most;
}

/* Of a Slurm step whose MPI is not the program's, every task is rank 0 of 1. */
static enum np_status check_alone(const struct backend *backend, struct np_error *err)
{
    int tasks = launched("SLURM_STEP_NUM_TASKS");
    if (np_ranks_count(backend->ranks) > 1 || tasks < 2 || launched("OMPI_COMM_WORLD_SIZE") ||
        launched("PMI_SIZE"))
        return NP_OK;
    return np_fail(err, NP_EINPUT,
                   "MPI: this process is alone, but the Slurm step has %d tasks: they find each "
                   "other with 'srun --mpi=pmix' (Open MPI) or 'srun --mpi=pmi2' (MPICH)",
                   tasks);
}

/* A rank that works for the first. */
static enum np_status work(struct backend *backend, const struct np_kernels *kernels,
                           struct np_error *err)
{
    static const int asks[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGHUP};
    struct np_error why;
    /* Launchers signal all ranks; the first says when it is over. */
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++)
        signal(asks[i], SIG_IGN);
    if (open_near(backend, &why) != NP_OK)
        return np_ranks_decline(backend->ranks, &why, err);
    return np_ranks_serve(backend->ranks, &backend->near, near_kernels(backend, kernels), err);
}

enum np_status backend_join(struct backend *backend, const struct plan_options *plan, bool *over,
                            struct np_error *err)
{
    const struct np_kernels *kernels = plan->request.kernels;
    enum np_status status = NP_OK;
    *over = false;
    if (backend->choice != BACKEND_MPI && backend->choice != BACKEND_MPI_CUDA)
        return NP_OK;
    NP_TRY(open_ranks(backend, err));
    NP_TRY(check_alone(backend, err));
    *over = np_ranks_rank(backend->ranks) != 0;
    if (*over)
        return work(backend, kernels, err);
    NP_TRY(open_near(backend, err));
    backend->count = np_ranks_count(backend->ranks);
    NP_TRY(np_ranks_devices(backend->ranks, backend->devices, &backend->near,
                            near_kernels(backend, kernels), err));
out:
    return status;
}

const struct np_device *backend_devices(const struct backend *backend)
{
    return backend->opened || backend->ranks ? backend->devices : NULL;
}

const struct np_kernels *backend_kernels(const struct backend *backend,
                                         const struct plan_options *plan)
{
    const struct np_device *devices = backend_devices(backend);
    return devices ? devices->ops->kernels(devices) : plan->request.kernels;
}

const char *backend_name(const struct backend *backend)
{
    const struct np_device *devices = backend_devices(backend);
    return devices ? devices->ops->name : "cpu";
}

/* The GPU whose costs are the plan's; NULL: this host's processors have them. */
static const struct np_device *measured(const struct backend *backend)
{
    if (backend->opened)
        return backend->devices;
    return backend->choice == BACKEND_MPI_CUDA ? &backend->near : NULL;
}

static void describe(struct backend *backend, const struct np_device *gpu)
{
    uint64_t vacant;
    size_t used;
    np_cuda_describe(gpu, backend->name, sizeof backend->name, &vacant);
    used = strlen(backend->name);
    if (backend->fast)
        snprintf(backend->name + used, sizeof backend->name - used, ", %s, %s",
                 backend->products.numerics->name, backend->products.library);
}

/* A stage for each of a replica's ranks, as far as there are positions. */
static int stages_of(const struct backend *backend, int replicas, const struct np_supernet *net)
{
    int each = backend->count / replicas;
    return each < 1 ? 1 : each < net->positions ? each : net->positions;
}

/* Whether several replicas read and update layers in one memory, which all GPUs reach. */
static bool are_joined(const struct backend *backend)
{
    return !backend->ranks && backend->transport != TRANSPORT_NCCL;
}

void backend_request(struct backend *backend, struct np_partition_request *request,
                     const struct np_supernet *net)
{
    const struct np_device *gpu = measured(backend);
    if (backend->ranks) {
        int all;
        if (!request->replicas)
            request->replicas = 1;
        if (!request->stages)
            request->stages = stages_of(backend, request->replicas, net);
        all = request->stages * request->replicas;
        if (!gpu && !request->devices) /* stages may share ranks */
            request->devices =
                np_ranks_processors(backend->ranks) * (all < backend->count ? all : backend->count);
    }
    request->memories = backend->count;
    request->joined = are_joined(backend);
    if (!gpu)
        return;
    describe(backend, gpu);
    request->device = gpu;
    request->device_name = backend->name;
    request->kernels = gpu->ops->kernels(gpu);
    request->processors = backend->count;
    request->threads = 1;
    if (backend->count > 1 && backend->transport == TRANSPORT_NCCL && !request->replicas)
        request->replicas = 1; /* what they fetch from each other is not known */
}

int backend_share(const struct backend *backend, const struct plan_options *plan)
{
    if (measured(backend))
        return 0;
    return backend->ranks ? np_ranks_processors(backend->ranks) : plan->request.processors;
}

enum np_status backend_pace(struct backend *backend, struct np_partition_request *request,
                            struct np_error *err)
{
    struct np_link *link;
    enum np_status status;
    if (!backend->ranks)
        return NP_OK;
    NP_TRY(np_ranks_link(&link, backend->ranks, err));
    status = np_profile_link(&request->link, link, backend->devices, backend->count, err);
    np_link_free(link);
out:
    return status;
}

size_t backend_scratch(const struct backend *backend, const struct np_supernet *net)
{
    const struct np_device *gpu = measured(backend);
    struct np_extent extent;
    if (!gpu)
        return 0;
    extent = np_ops_extent(net, (size_t)net->recipe->batch);
    return gpu->ops->scratch_bytes(gpu, &extent);
}

enum np_status backend_counts(const struct backend *backend, const struct np_plan *plan,
                              const struct np_supernet *net, struct np_error *err)
{
    size_t samples = (size_t)(net->recipe->batch / plan->micro_batches), rows = np_ops_rows(net);
    if (!measured(backend) || samples * rows <= INT32_MAX)
        return NP_OK;
    return np_fail(err, NP_EINPUT,
                   "'%s': %zu samples of a micro-batch, at %zu positions each, are more than GPUs "
                   "take: %d positions (see --micro-batches)",
                   np_text_safe(net->recipe->path).s, samples, rows, INT32_MAX);
}

bool backend_bound(const struct backend *backend, const struct np_plan *plan,
                   struct np_partition_request *request)
{
    int devices = np_plan_devices(plan), most = 0;
    uint64_t least = UINT64_MAX, besides = np_cuda_besides(), each;
    bool fit = true;
    for (int i = 0; i < backend->count; i++) {
        uint64_t vacant, taken = 0;
        char name[sizeof backend->name];
        int stages = 0;
        np_cuda_describe(&backend->devices[i], name, sizeof name, &vacant);
        for (int d = 0; d < devices; d++)
            if (d * backend->count / devices == i) {
                taken += plan->stage_bytes[d % plan->stages] + besides;
                stages++;
            }
        vacant -= vacant / LEFT_FREE;
        most = stages > most ? stages : most;
        least = vacant < least ? vacant : least;
        fit = fit && taken <= vacant;
    }
    if (fit)
        return false;
    request->replicas = 1;
    request->stages = plan->stages;
    each = least / (uint64_t)most;
    request->memory_bytes = each - (besides < each / 2 ? besides : each / 2);
    return true;
}

enum np_status backend_link(struct backend *backend, struct np_plan *plan, struct np_error *err)
{
    const struct np_device *devices = backend->devices;
    enum np_status status;
    if (!backend_devices(backend) || backend->count == 1)
        return NP_OK;
    if (np_plan_replicas(plan) > 1 && are_joined(backend))
        return np_cuda_join(devices, backend->count, true, err);
    plan->memories = backend->count;
    NP_TRY(np_plan_check_memories(plan, err));
    if (backend->ranks)
        return np_ranks_link(&backend->link, backend->ranks, err);
    if (backend->transport == TRANSPORT_NCCL)
        return np_cuda_nccl(&backend->link, devices, backend->count, deadline_s(backend), err);
    return np_cuda_peers(&backend->link, devices, backend->count, err);
out:
    return status;
}

enum np_status backend_still_there(struct backend *backend, struct np_error *err)
{
    return backend->ranks ? np_ranks_still_there(backend->ranks, err) : NP_OK;
}

void backend_close(struct backend *backend)
{
    np_link_free(backend->link);
    np_ranks_close(backend->ranks);
    if (backend->fast)
        np_products_clear(&backend->products);
}
