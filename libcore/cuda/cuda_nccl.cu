/* NCCL between GPUs: a communicator with a rank for each of them, in the order of the list.
 *
 * A transfer is one group: its sends at the one rank and their receives at the other. A rank works
 * off its groups in order, on a stream of its own.
 *
 * Order     Both streams first wait for the crew's, and what the crew is told afterwards waits for
 *           both: a transfer is done as if the crew's own stream did it.
 * Progress  No transfer waits in a circle. Whatever is told is told at some moment: of a transfer
 *           both sides are in their streams before the next one begins (lock). A stream waits for
 *           what it was told before, and for events that were recorded before; a transfer besides
 *           for its other side, which has the same moment. So what was told first of all that is
 *           not done waits for nothing that is not done, and can be done: whichever way transfers
 *           go, and also where the hardware puts the work of several streams into one queue, for
 *           there it comes in the order in which it was told.
 *           It needs one communicator: two of them on one GPU have no common order.
 * Time      The host goes on at once. Who awaits a task (np_link_await) looks again and again: at
 *           the communicators, which are non-blocking, and at the oldest transfer. From the moment
 *           when that could begin, which is when those before it are done and what its crew had
 *           been told before, it has the deadline's time. Failure is noted before all communicators
 *           are aborted, which ends what is still under way on the GPUs: so no task that has seen
 *           what an abort leaves is taken for done.
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
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_team.h"
}

enum { MOST_TOLD = 64 }; /* transfers that are told and not known to be over */

struct rank {
    int number; /* of the GPU */
    ncclComm_t comm;
    cudaStream_t stream;
    cudaEvent_t joined; /* of this stream */
    /* Of the streams of crews on this GPU: before and after the transfers that they carry. */
    cudaEvent_t ready[MOST_TOLD], done[MOST_TOLD];
};

struct transfer {
    int from, to, mine; /* ranks; mine: the crew's */
    uint64_t bytes;
};

struct nccl {
    struct np_link base;
    int count;
    double deadline_s;
    pthread_mutex_t lock; /* of all that follows, and of every call with a communicator */
    bool failed;
    struct np_error why;
    struct rank ranks[NP_CUDA_MOST];
    struct transfer transfers[MOST_TOLD]; /* in turn: those with numbers over .. told-1 */
    uint64_t told, over;
    double since_s; /* when the oldest could begin, as far as was seen; 0: it could not yet */
};

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

static struct transfer *transfer_of(struct nccl *n, uint64_t number)
{
    return &n->transfers[number % MOST_TOLD];
}

static enum np_status fail_again(const struct nccl *n, struct np_error *err)
{
    return np_fail(err, NP_EIO, "%s", n->why.msg);
}

/* The first failure is everybody's. */
static enum np_status fail(struct nccl *n, const struct transfer *t, const char *cause,
                           struct np_error *err)
{
    np_fail(&n->why, NP_EIO,
            "NCCL: rank %d (CUDA device %d) sends %s to rank %d (CUDA device %d): %s", t->from,
            n->ranks[t->from].number, np_text_size(t->bytes).s, t->to, n->ranks[t->to].number,
            cause);
    n->failed = true;
    abort_all(n);
    return fail_again(n, err);
}

static enum np_status fail_late(struct nccl *n, const struct transfer *t, struct np_error *err)
{
    char cause[64];
    snprintf(cause, sizeof cause, "it is not done after %g s", n->deadline_s);
    return fail(n, t, cause, err);
}

static enum np_status fail_nccl(struct nccl *n, const struct transfer *t, int rank,
                                ncclResult_t result, struct np_error *err)
{
    const char *detail = ncclGetLastError(n->ranks[rank].comm);
    char cause[160];
    snprintf(cause, sizeof cause, "%s%s%.100s", ncclGetErrorString(result),
             detail && *detail ? ": " : "", detail ? detail : "");
    return fail(n, t, cause, err);
}

static enum np_status fail_cuda(struct nccl *n, const struct transfer *t, cudaError_t error,
                                struct np_error *err)
{
    return fail(n, t, cudaGetErrorString(error), err);
}

/* --- looking -------------------------------------------------------------------------------- */

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

/* cudaSuccess if it is done, cudaErrorNotReady if not: which is no error that the thread's task has
 * met, but a launch that failed before is. */
static cudaError_t query(cudaEvent_t event)
{
    cudaError_t error = cudaPeekAtLastError();
    if (error == cudaSuccess)
        error = cudaEventQuery(event);
    if (error == cudaErrorNotReady)
        cudaGetLastError();
    return error;
}

/* Takes leave of transfers that are over. */
static enum np_status look_at_oldest(struct nccl *n, struct np_error *err)
{
    for (; n->over < n->told; n->over++, n->since_s = 0) {
        const struct transfer *t = transfer_of(n, n->over);
        const struct rank *mine = &n->ranks[t->mine];
        cudaError_t done = query(mine->done[n->over % MOST_TOLD]), ready = done;
        if (done == cudaSuccess)
            continue;
        if (done == cudaErrorNotReady)
            ready = query(mine->ready[n->over % MOST_TOLD]);
        if (ready == cudaSuccess && n->since_s == 0)
            n->since_s = np_now_s();
        else if (ready == cudaSuccess && np_now_s() - n->since_s > n->deadline_s)
            return fail_late(n, t, err);
        else if (ready != cudaSuccess && ready != cudaErrorNotReady)
            return fail_cuda(n, t, ready, err);
        break;
    }
    return NP_OK;
}

/* What has become of all that was told so far; the lock is held. */
static enum np_status look(struct nccl *n, struct np_error *err)
{
    if (n->failed)
        return fail_again(n, err);
    for (int r = 0; r < n->count && n->told > 0; r++) {
        ncclResult_t state = state_of(&n->ranks[r]);
        if (is_error(state))
            return fail_nccl(n, transfer_of(n, n->over < n->told ? n->over : n->told - 1), r, state,
                             err);
    }
    return look_at_oldest(n, err);
}

static enum np_status look_locked(struct nccl *n, struct np_error *err)
{
    pthread_mutex_lock(&n->lock);
    enum np_status status = look(n, err);
    pthread_mutex_unlock(&n->lock);
    return status;
}

/* That the task is done counts only if nothing had failed afterwards. */
static enum np_status await(struct np_link *link, struct np_crew *crew, uint64_t mark,
                            struct np_error *err)
{
    struct nccl *n = reinterpret_cast<struct nccl *>(link);
    for (;;) {
        bool done = np_crew_reached(crew, mark);
        enum np_status status = look_locked(n, err);
        if (status != NP_OK)
            return status;
        if (done)
            return np_crew_await(crew, mark, err);
        pause_a_little();
    }
}

/* What was told before a failure may still write where it receives until its stream is awaited; of
 * an aborted communicator that ends. */
static void settle(struct np_link *link)
{
    struct nccl *n = reinterpret_cast<struct nccl *>(link);
    while (look_locked(n, nullptr) == NP_OK && n->over < n->told)
        pause_a_little();
    for (int r = 0; r < n->count && n->failed; r++) {
        cudaSetDevice(n->ranks[r].number);
        cudaStreamSynchronize(n->ranks[r].stream);
    }
}

/* --- transfers ------------------------------------------------------------------------------ */

struct carrying {
    struct nccl *nccl;
    struct transfer *transfer;
    const struct np_link_part *parts;
    int count;
    cudaStream_t crew;
};

/* Both ranks take more work. */
static enum np_status take_more(const struct carrying *c, struct np_error *err)
{
    const int both[] = {c->transfer->from, c->transfer->to};
    double until_s = np_now_s() + c->nccl->deadline_s;
    for (int r : both)
        for (;;) {
            ncclResult_t state = state_of(&c->nccl->ranks[r]);
            if (is_error(state))
                return fail_nccl(c->nccl, c->transfer, r, state, err);
            if (state == ncclSuccess)
                break;
            if (np_now_s() > until_s)
                return fail_late(c->nccl, c->transfer, err);
            pause_a_little();
        }
    return NP_OK;
}

static enum np_status begin_group(const struct carrying *c, struct np_error *err)
{
    const struct transfer *t = c->transfer;
    const struct rank *from = &c->nccl->ranks[t->from], *to = &c->nccl->ranks[t->to];
    ncclResult_t result = ncclGroupStart(), ended;
    int at = t->from;
    for (int i = 0; i < c->count && !is_error(result); i++) {
        const struct np_link_part *p = &c->parts[i];
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
    return is_error(result) ? fail_nccl(c->nccl, t, at, result, err) : take_more(c, err);
}

/* `stream` waits for what the other one, which `event` is recorded in, has been told. */
static cudaError_t join(cudaStream_t stream, cudaEvent_t event, cudaStream_t other)
{
    cudaError_t error = cudaEventRecord(event, other);
    return error == cudaSuccess ? cudaStreamWaitEvent(stream, event, 0) : error;
}

/* Puts the transfer into the streams of both ranks, between what the crew was told before and what
 * it is told next. */
static enum np_status tell(const struct carrying *c, struct np_error *err)
{
    struct nccl *n = c->nccl;
    struct transfer *t = c->transfer;
    struct rank *mine = &n->ranks[t->mine];
    const int both[] = {t->from, t->to}, slot = (int)(n->told % MOST_TOLD);
    cudaError_t error = cudaSuccess;
    enum np_status status;
    for (int r : both)
        if (error == cudaSuccess)
            error = join(n->ranks[r].stream, mine->ready[slot], c->crew);
    if (error != cudaSuccess)
        return fail_cuda(n, t, error, err);
    status = begin_group(c, err);
    if (status != NP_OK)
        return status;
    for (int r : both)
        if (error == cudaSuccess) {
            cudaSetDevice(n->ranks[r].number);
            error = join(c->crew, n->ranks[r].joined, n->ranks[r].stream);
        }
    cudaSetDevice(mine->number);
    if (error == cudaSuccess)
        error = cudaEventRecord(mine->done[slot], c->crew);
    if (error != cudaSuccess)
        return fail_cuda(n, t, error, err);
    n->told++;
    return NP_OK;
}

/* Room for one more; the lock is held on entry and on return. */
static enum np_status find_room(struct nccl *n, struct np_error *err)
{
    enum np_status status = look(n, err);
    while (status == NP_OK && n->told - n->over == MOST_TOLD) {
        pthread_mutex_unlock(&n->lock);
        pause_a_little();
        pthread_mutex_lock(&n->lock);
        status = look(n, err);
    }
    return status;
}

static void take_stream(struct np_team *team, void *argument)
{
    *static_cast<cudaStream_t *>(argument) = reinterpret_cast<struct np_cuda_team *>(team)->stream;
}

static enum np_status carry(struct np_link *link, struct np_crew *crew, int from, int to,
                            const struct np_link_part *parts, int count, struct np_error *err)
{
    struct nccl *n = reinterpret_cast<struct nccl *>(link);
    struct carrying c = {n, nullptr, parts, count, nullptr};
    enum np_status status;
    int number = 0;
    np_crew_run(crew, take_stream, &c.crew);
    cudaGetDevice(&number);
    pthread_mutex_lock(&n->lock);
    status = find_room(n, err);
    if (status == NP_OK) {
        c.transfer = transfer_of(n, n->told);
        *c.transfer = {from, to, number == n->ranks[from].number ? from : to, 0};
        for (int i = 0; i < count; i++)
            c.transfer->bytes += parts[i].bytes;
        status = tell(&c, err);
    }
    pthread_mutex_unlock(&n->lock);
    return status;
}

/* --- life ----------------------------------------------------------------------------------- */

/* Waits until no communicator is in progress; what it comes to. */
static ncclResult_t settle_all(const struct nccl *n)
{
    double until_s = np_now_s() + n->deadline_s;
    for (int r = 0; r < n->count;) {
        ncclResult_t state = state_of(&n->ranks[r]);
        if (is_error(state) || (state == ncclInProgress && np_now_s() > until_s))
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

static void destroy(const cudaEvent_t *events, int count)
{
    for (int i = 0; i < count && events[i]; i++)
        cudaEventDestroy(events[i]);
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
        destroy(&rank->joined, 1);
        destroy(rank->ready, MOST_TOLD);
        destroy(rank->done, MOST_TOLD);
    }
    pthread_mutex_destroy(&n->lock);
    free(n);
}

static const struct np_link_ops nccl_ops = {
    .name = "nccl", .carry = carry, .await = await, .settle = settle, .free = nccl_free};

static cudaError_t create(cudaEvent_t *events, int count)
{
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < count && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming);
    return error;
}

static cudaError_t make_streams(struct rank *rank)
{
    cudaError_t error = cudaSetDevice(rank->number);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&rank->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = create(&rank->joined, 1);
    if (error == cudaSuccess)
        error = create(rank->ready, MOST_TOLD);
    if (error == cudaSuccess)
        error = create(rank->done, MOST_TOLD);
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
    /* Where GPUs reach each other NCCL has one write to where the other one receives. */
    NP_TRY(np_cuda_join(devices, count, false, err));
    NP_TRY(np_zalloc(&n, 1, sizeof *n, err));
    n->base.ops = &nccl_ops;
    n->deadline_s = deadline_s;
    pthread_mutex_init(&n->lock, nullptr);
    while (n->count < count) {
        struct rank *rank = &n->ranks[n->count];
        rank->number = devices[n->count++].number; /* what it has made is freed, if not all */
        cudaError_t error = make_streams(rank);
        if (error != cudaSuccess) {
            cudaGetLastError();
            n->failed = true;
            NP_TRY(np_fail(err, NP_EIO, "CUDA device %d: cannot make a stream for NCCL: %s",
                           rank->number, cudaGetErrorString(error)));
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
