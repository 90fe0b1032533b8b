/* NCCL between GPUs: a communicator with a rank for each of them, in the order of the list.
 *
 * A transfer is one group: its sends at the one rank and their receives at the other. A rank works
 * off its groups in order, on a stream of its own.
 *
 * Order     Both streams first wait for the crew's, and what the crew is told afterwards waits for
 *           both: a transfer is done as if the crew's own stream did it.
 * Progress  No transfer waits in a circle. Groups are begun one at a time (lock), so all transfers
 *           of a run have numbers, and every rank has its own in that order. Transfer n waits for
 *           what these two ranks have before it, which has smaller numbers, for its other side,
 *           which is in the same group, and for what its crew had been told before, which may wait
 *           for transfers of smaller numbers alone. So the smallest number that is not done can be
 *           done. That holds whichever way transfers go between the neighbours of a pair.
 *           It needs one communicator: two of them on one GPU have no common order.
 * Time      The host looks at communicators and streams again and again, and never waits in a call:
 *           communicators are non-blocking, and what is not done by the deadline has failed. All
 *           communicators are then aborted, which ends what is still under way on the GPUs.
 * Processes The id is made here, where all ranks are; with a rank in each process it would be sent
 *           to the others, and each would begin its own side of a group.
 */
#include <cuda_runtime.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

extern "C" {
#include "base/memory.h"
#include "base/text.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_team.h"
}

struct rank {
    int number; /* of the GPU */
    ncclComm_t comm;
    cudaStream_t stream;
    cudaEvent_t ready, done; /* of a crew's stream; of this one */
};

struct nccl {
    struct np_link base;
    int count;
    double deadline_s;
    pthread_mutex_t lock; /* of all that follows, and of every call with a communicator */
    bool failed;
    struct np_error why;
    struct rank ranks[NP_CUDA_MOST];
};

struct transfer {
    struct nccl *nccl;
    int from, to; /* ranks */
    const struct np_link_part *parts;
    int count;
    cudaStream_t crew;
    double until_s;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void pause_a_little(void)
{
    const struct timespec pause = {0, 10000};
    nanosleep(&pause, nullptr);
}

/* --- failure -------------------------------------------------------------------------------- */

static void abort_all(struct nccl *n)
{
    for (int r = 0; r < n->count; r++) {
        if (n->ranks[r].comm)
            ncclCommAbort(n->ranks[r].comm);
        n->ranks[r].comm = nullptr;
    }
}

/* The first failure is everybody's. */
static enum np_status fail(const struct transfer *t, const char *cause, struct np_error *err)
{
    struct nccl *n = t->nccl;
    uint64_t bytes = 0;
    for (int i = 0; i < t->count; i++)
        bytes += t->parts[i].bytes;
    if (!n->failed) {
        np_fail(&n->why, NP_EIO,
                "NCCL: rank %d (CUDA device %d) sends %s to rank %d (CUDA device %d): %s", t->from,
                n->ranks[t->from].number, np_text_size(bytes).s, t->to, n->ranks[t->to].number,
                cause);
        n->failed = true;
        abort_all(n);
    }
    return np_fail(err, NP_EIO, "%s", n->why.msg);
}

static enum np_status fail_late(const struct transfer *t, struct np_error *err)
{
    char cause[64];
    snprintf(cause, sizeof cause, "it is not done after %g s", t->nccl->deadline_s);
    return fail(t, cause, err);
}

static enum np_status fail_nccl(const struct transfer *t, int rank, ncclResult_t result,
                                struct np_error *err)
{
    ncclComm_t comm = t->nccl->ranks[rank].comm;
    const char *detail = ncclGetLastError(comm);
    char cause[160];
    snprintf(cause, sizeof cause, "%s%s%.100s", ncclGetErrorString(result),
             detail && *detail ? ": " : "", detail ? detail : "");
    return fail(t, cause, err);
}

static enum np_status fail_cuda(const struct transfer *t, cudaError_t error, struct np_error *err)
{
    return fail(t, cudaGetErrorString(error), err);
}

/* --- transfers ------------------------------------------------------------------------------ */

/* What a communicator is about; ncclInProgress: it may not be used yet. */
static ncclResult_t state_of(const struct rank *rank)
{
    ncclResult_t state = ncclInProgress, asked = ncclCommGetAsyncError(rank->comm, &state);
    return asked == ncclSuccess ? state : asked;
}

static bool is_error(ncclResult_t result)
{
    return result != ncclSuccess && result != ncclInProgress;
}

/* Both ranks take more work. */
static enum np_status settle(const struct transfer *t, struct np_error *err)
{
    const int both[] = {t->from, t->to};
    for (int r : both)
        for (;;) {
            ncclResult_t state = state_of(&t->nccl->ranks[r]);
            if (is_error(state))
                return fail_nccl(t, r, state, err);
            if (state == ncclSuccess)
                break;
            if (now_s() > t->until_s)
                return fail_late(t, err);
            pause_a_little();
        }
    return NP_OK;
}

static enum np_status begin_group(const struct transfer *t, struct np_error *err)
{
    const struct rank *from = &t->nccl->ranks[t->from], *to = &t->nccl->ranks[t->to];
    ncclResult_t result = ncclGroupStart(), ended;
    int at = t->from;
    for (int i = 0; i < t->count && !is_error(result); i++) {
        const struct np_link_part *p = &t->parts[i];
        cudaSetDevice(from->number);
        result = ncclSend(p->from, (size_t)p->bytes, ncclChar, t->to, from->comm, from->stream);
        if (is_error(result))
            break;
        cudaSetDevice(to->number);
        result = ncclRecv(p->to, (size_t)p->bytes, ncclChar, t->from, to->comm, to->stream);
        at = is_error(result) ? t->to : t->from;
    }
    ended = ncclGroupEnd();
    if (!is_error(result))
        result = ended;
    return is_error(result) ? fail_nccl(t, at, result, err) : settle(t, err);
}

/* `stream` waits for what `event`'s stream has been told. */
static cudaError_t join(cudaStream_t stream, cudaEvent_t event, cudaStream_t other)
{
    cudaError_t error = cudaEventRecord(event, other);
    return error == cudaSuccess ? cudaStreamWaitEvent(stream, event, 0) : error;
}

static enum np_status begin(struct transfer *t, int mine, struct np_error *err)
{
    struct rank *ranks = t->nccl->ranks;
    const int both[] = {t->from, t->to};
    cudaError_t error = cudaSuccess;
    enum np_status status;
    for (int r : both)
        if (error == cudaSuccess)
            error = join(ranks[r].stream, ranks[mine].ready, t->crew);
    if (error != cudaSuccess)
        return fail_cuda(t, error, err);
    status = begin_group(t, err);
    if (status != NP_OK)
        return status;
    for (int r : both)
        if (error == cudaSuccess) {
            cudaSetDevice(ranks[r].number);
            error = join(t->crew, ranks[r].done, ranks[r].stream);
        }
    cudaSetDevice(ranks[mine].number);
    return error == cudaSuccess ? NP_OK : fail_cuda(t, error, err);
}

/* True when the transfer is over, one way or the other. */
static bool is_over(const struct transfer *t, enum np_status *status, struct np_error *err)
{
    const int both[] = {t->from, t->to};
    *status = NP_OK;
    if (t->nccl->failed) {
        *status = fail(t, "", err);
        return true;
    }
    for (int r : both) {
        ncclResult_t state = state_of(&t->nccl->ranks[r]);
        if (is_error(state)) {
            *status = fail_nccl(t, r, state, err);
            return true;
        }
    }
    cudaError_t error = cudaStreamQuery(t->crew);
    if (error == cudaErrorNotReady && now_s() > t->until_s)
        *status = fail_late(t, err);
    else if (error != cudaErrorNotReady && error != cudaSuccess)
        *status = fail_cuda(t, error, err);
    return error != cudaErrorNotReady || *status != NP_OK;
}

static void take_stream(struct np_team *team, void *argument)
{
    *static_cast<cudaStream_t *>(argument) = reinterpret_cast<struct np_cuda_team *>(team)->stream;
}

static enum np_status carry(struct np_link *link, struct np_crew *crew, int from, int to,
                            const struct np_link_part *parts, int count, struct np_error *err)
{
    struct nccl *n = reinterpret_cast<struct nccl *>(link);
    struct transfer t = {n, from, to, parts, count, nullptr, now_s() + n->deadline_s};
    enum np_status status;
    int number = 0;
    np_crew_run(crew, take_stream, &t.crew);
    cudaGetDevice(&number);
    pthread_mutex_lock(&n->lock);
    status =
        n->failed ? fail(&t, "", err) : begin(&t, number == n->ranks[from].number ? from : to, err);
    for (bool over = status != NP_OK; !over;) {
        over = is_over(&t, &status, err);
        pthread_mutex_unlock(&n->lock);
        if (!over)
            pause_a_little();
        pthread_mutex_lock(&n->lock);
    }
    pthread_mutex_unlock(&n->lock);
    return status;
}

/* --- life ----------------------------------------------------------------------------------- */

/* Waits until no communicator is in progress; what it comes to. */
static ncclResult_t settle_all(const struct nccl *n)
{
    double until_s = now_s() + n->deadline_s;
    for (int r = 0; r < n->count;) {
        ncclResult_t state = state_of(&n->ranks[r]);
        if (is_error(state) || (state == ncclInProgress && now_s() > until_s))
            return state;
        if (state == ncclInProgress)
            pause_a_little();
        else
            r++;
    }
    return ncclSuccess;
}

/* Communicators of a run that went well end together; others are aborted. */
static void end_communicators(struct nccl *n)
{
    bool ends = !n->failed;
    for (int r = 0; r < n->count && ends; r++)
        ends = n->ranks[r].comm && !is_error(ncclCommFinalize(n->ranks[r].comm));
    if (!ends || settle_all(n) != ncclSuccess)
        abort_all(n);
    for (int r = 0; r < n->count; r++)
        if (n->ranks[r].comm)
            ncclCommDestroy(n->ranks[r].comm);
}

static void nccl_free(struct np_link *link)
{
    struct nccl *n = reinterpret_cast<struct nccl *>(link);
    end_communicators(n);
    for (int r = 0; r < n->count; r++) {
        struct rank *rank = &n->ranks[r];
        cudaSetDevice(rank->number);
        if (rank->stream)
            cudaStreamDestroy(rank->stream);
        if (rank->ready)
            cudaEventDestroy(rank->ready);
        if (rank->done)
            cudaEventDestroy(rank->done);
    }
    pthread_mutex_destroy(&n->lock);
    free(n);
}

static const struct np_link_ops nccl_ops = {.name = "nccl", .carry = carry, .free = nccl_free};

static cudaError_t make_streams(struct rank *rank)
{
    cudaError_t error = cudaSetDevice(rank->number);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&rank->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&rank->ready, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&rank->done, cudaEventDisableTiming);
    return error;
}

static ncclResult_t connect(struct nccl *n)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    ncclResult_t result = ncclGetUniqueId(&id), ended;
    config.blocking = 0;
    if (is_error(result))
        return result;
    result = ncclGroupStart();
    for (int r = 0; r < n->count && !is_error(result); r++) {
        cudaSetDevice(n->ranks[r].number);
        result = ncclCommInitRankConfig(&n->ranks[r].comm, n->count, id, r, &config);
    }
    ended = ncclGroupEnd();
    if (is_error(result) || is_error(ended))
        return is_error(result) ? result : ended;
    return settle_all(n);
}

enum np_status np_cuda_nccl(struct np_link **out, const struct np_device *devices, int count,
                            int deadline_s, struct np_error *err)
{
    struct nccl *n = nullptr;
    ncclResult_t result;
    enum np_status status;
    NP_TRY(np_zalloc(&n, 1, sizeof *n, err));
    n->base.ops = &nccl_ops;
    n->deadline_s = deadline_s;
    pthread_mutex_init(&n->lock, nullptr);
    for (; n->count < count; n->count++) {
        n->ranks[n->count].number = devices[n->count].number;
        cudaError_t error = make_streams(&n->ranks[n->count]);
        if (error != cudaSuccess) {
            cudaGetLastError();
            n->failed = true;
            NP_TRY(np_fail(err, NP_EIO, "CUDA device %d: cannot make a stream for NCCL: %s",
                           devices[n->count].number, cudaGetErrorString(error)));
        }
    }
    result = connect(n);
    if (result == ncclInProgress) {
        n->failed = true;
        NP_TRY(np_fail(err, NP_EIO, "NCCL does not connect %d CUDA devices in %d s", count,
                       deadline_s));
    } else if (result != ncclSuccess) {
        n->failed = true;
        NP_TRY(np_fail(err, NP_EIO, "NCCL cannot connect %d CUDA devices: %s", count,
                       ncclGetErrorString(result)));
    }
    *out = &n->base;
    n = nullptr;
out:
    if (n)
        nccl_free(&n->base);
    return status;
}

void np_cuda_nccl_version(char *out, size_t bytes)
{
    int version = 0;
    ncclGetVersion(&version);
    snprintf(out, bytes, "%d.%d.%d", version / 10000, version % 10000 / 100, version % 100);
}
