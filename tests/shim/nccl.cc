/* The NCCL of the shim: communicators, groups, and sends that meet their receives. */
#include "nccl.h"

#include <stdio.h>

#include "inside.h"
#include "races.h"

enum { FOREVER = -1, MOST_OPS = 256 };

struct op {
    bool sends, done, hangs;
    int peer;
    char *at;
    size_t bytes;
    uint64_t sum; /* of what is sent, when it came to the head of its stream */
};

/* What a rank is told in one group. */
struct kernel {
    struct shim_work work;
    ncclComm_t comm; /* NULL: aborted */
    cudaStream_t stream;
    struct kernel *next;
    bool active; /* has come to the head of its stream */
    int count;
    struct op ops[];
};

struct clique {
    uint64_t id;
    int count, joined, left;
    ncclComm_t *comms;
    struct clique *next;
};

struct ncclComm {
    struct clique *clique;
    int rank, device;
    bool blocking, ended;
    ncclResult_t state, then; /* while in progress: what it will come to, after so many looks */
    int looks;
    struct kernel *first, **last; /* in its stream */
    struct kernel *late;          /* not there yet */
    struct kernel *held;          /* after the next one */
};

static struct clique *cliques; /* guarded by the shim's lock, as is: */
static uint64_t ids;
static long groups;

/* What the thread's group has gathered. */
static __thread struct {
    int depth, ops, inits;
    struct {
        ncclComm_t comm;
        cudaStream_t stream;
        struct op op;
    } op[MOST_OPS];
    ncclComm_t init[MOST_OPS];
} group;

/* --- transfers ------------------------------------------------------------------------------ */

static uint64_t sum_of(const char *at, size_t bytes)
{
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ (unsigned char)at[i]) * 1099511628211u;
    return sum;
}

static bool is_untouched(const struct op *op)
{
    size_t same = 0;
    while (same < op->bytes && (unsigned char)op->at[same] == 0xff)
        same++;
    return same == op->bytes;
}

static void activate(struct kernel *k)
{
    if (k->active)
        return;
    k->active = true;
    shim_open();
    shim_begin(k->stream);
    races_as(shim_actor(k->stream));
    for (int i = 0; i < k->count; i++)
        if (k->ops[i].sends) {
            races_read(k->ops[i].at, k->ops[i].bytes);
            k->ops[i].sum = sum_of(k->ops[i].at, k->ops[i].bytes);
        } else {
            races_write(k->ops[i].at, k->ops[i].bytes);
            memset(k->ops[i].at, 0xff, k->ops[i].bytes);
        }
    races_end();
}

/* The work of a rank that has come to the head of its stream; NULL: none. */
static struct kernel *head_of(ncclComm_t comm)
{
    struct kernel *k = comm ? comm->first : nullptr;
    if (!k || !shim_is_next(k->stream, &k->work))
        return nullptr;
    activate(k);
    return k;
}

/* The first that is left of what goes to a peer, or comes from it. */
static struct op *first_op(struct kernel *k, int peer, bool sends)
{
    for (int i = 0; i < k->count; i++)
        if (!k->ops[i].done && k->ops[i].peer == peer && k->ops[i].sends == sends)
            return &k->ops[i];
    return nullptr;
}

/* The other side of an operation, where that waits for it as well. */
static struct op *match(struct kernel *k, const struct op *op)
{
    struct kernel *other = head_of(k->comm->clique->comms[op->peer]);
    if (op->done || op->hangs || !other || first_op(k, op->peer, op->sends) != op)
        return nullptr;
    struct op *found = first_op(other, k->comm->rank, !op->sends);
    return found && !found->hangs ? found : nullptr;
}

/* Who receives knows afterwards what the sender knew when it began. Of each other's end neither
 * knows: a buffer is free when its own side's work is done. */
static void transfer(struct kernel *k, struct op *a, struct op *b)
{
    struct kernel *other = head_of(k->comm->clique->comms[a->peer]);
    struct op *from = a->sends ? a : b, *to = a->sends ? b : a;
    struct kernel *sender = a->sends ? k : other, *receiver = a->sends ? other : k;
    races_learn_before(shim_actor(receiver->stream), shim_actor(sender->stream));
    if (from->bytes != to->bytes)
        shim_die("NCCL: a send and its receive differ in size");
    if (!shim_may_meet(to->at, sender->comm->device))
        shim_die("NCCL: a peer may not write to where it shall receive");
    shim_open();
    if (sum_of(from->at, from->bytes) != from->sum || !is_untouched(to))
        shim_die("NCCL: a buffer was written while it was under way");
    memcpy(to->at, from->at, from->bytes);
    from->done = to->done = true;
}

static bool all_done(const struct kernel *k)
{
    int done = 0;
    for (int i = 0; i < k->count; i++)
        done += k->ops[i].done;
    return done == k->count;
}

static bool is_ready(struct shim_work *work)
{
    struct kernel *k = reinterpret_cast<struct kernel *>(work);
    if (!k->comm)
        return true;
    activate(k);
    for (int i = 0; i < k->count; i++)
        if (match(k, &k->ops[i]))
            return true;
    return all_done(k);
}

static void run(struct shim_work *work)
{
    struct kernel *k = reinterpret_cast<struct kernel *>(work);
    work->stays = false;
    for (int i = 0; k->comm && i < k->count; i++) {
        struct op *other = match(k, &k->ops[i]);
        if (other)
            transfer(k, &k->ops[i], other);
    }
    if (!k->comm)
        return;
    work->stays = !all_done(k);
    if (work->stays)
        return;
    k->comm->first = k->next;
    if (!k->next)
        k->comm->last = &k->comm->first;
}

/* --- who waits for whom --------------------------------------------------------------------- */

static const struct op *waits_with(const struct kernel *k)
{
    for (int i = 0; k && i < k->count; i++)
        if (!k->ops[i].done)
            return &k->ops[i];
    return nullptr;
}

static void report(const struct clique *clique)
{
    for (int r = 0; r < clique->count; r++) {
        const struct op *op = waits_with(head_of(clique->comms[r]));
        if (op)
            fprintf(stderr, "shim: NCCL: rank %d waits to %s %zu bytes %s rank %d\n", r,
                    op->sends ? "send" : "receive", op->bytes, op->sends ? "to" : "from", op->peer);
    }
}

/* The rank that a rank's next operation waits for, and that waits itself; -1: none. */
static int blocked_by(const struct clique *clique, int rank)
{
    struct kernel *k = head_of(clique->comms[rank]);
    const struct op *op = waits_with(k);
    if (!op || op->hangs || match(k, op) || !head_of(clique->comms[op->peer]))
        return -1;
    return op->peer;
}

void shim_stuck(void)
{
    for (struct clique *c = cliques; c; c = c->next)
        for (int r = 0; r < c->count; r++) {
            int at = r;
            for (int steps = 0; at >= 0 && steps <= c->count; steps++)
                at = blocked_by(c, at);
            if (at >= 0) {
                report(c);
                shim_die("NCCL: these ranks wait for each other");
            }
        }
}

/* --- groups --------------------------------------------------------------------------------- */

static void post(struct kernel *k)
{
    ncclComm_t comm = k->comm;
    *comm->last = k;
    comm->last = &k->next;
    shim_queue(k->stream, &k->work);
    if (comm->held) {
        k = comm->held;
        comm->held = nullptr;
        post(k);
    }
}

static void progress(ncclComm_t comm, ncclResult_t then, int looks)
{
    comm->state = comm->blocking || looks == 0 ? then : ncclInProgress;
    comm->then = then;
    comm->looks = looks;
}

static bool receives(const struct kernel *k)
{
    bool any = false;
    for (int i = 0; i < k->count; i++)
        any = any || !k->ops[i].sends;
    return any;
}

/* A rank's part of a group. */
static void begin_kernel(ncclComm_t comm)
{
    struct kernel *k =
        (struct kernel *)calloc(1, sizeof *k + (size_t)group.ops * sizeof(struct op));
    k->work.run = run;
    k->work.ready = is_ready;
    k->work.copies = true;
    k->work.name = "a group of NCCL's";
    k->comm = comm;
    for (int i = 0; i < group.ops; i++) {
        if (group.op[i].comm != comm)
            continue;
        if (k->count && k->stream != group.op[i].stream)
            shim_die("NCCL: a rank works on two streams in one group");
        k->stream = group.op[i].stream;
        k->ops[k->count++] = group.op[i].op;
        group.op[i].comm = nullptr;
    }
    if (groups == shim_swapped() && receives(k)) {
        comm->held = k;
        return;
    }
    progress(comm, ncclSuccess, (int)shim_draw(4));
    if (comm->state == ncclSuccess)
        post(k);
    else
        comm->late = k;
}

/* The ranks find each other when the last one has joined. */
static ncclResult_t join(ncclComm_t comm)
{
    struct clique *c = comm->clique;
    ncclResult_t result = ncclSuccess;
    if (++c->joined < c->count)
        return ncclInProgress;
    for (int r = 0; r < c->count; r++)
        for (int s = 0; s < r; s++)
            if (c->comms[r]->device == c->comms[s]->device)
                result = ncclInvalidUsage;
    for (int r = 0; r < c->count; r++)
        if (c->comms[r]->then != ncclInProgress)
            progress(c->comms[r], result, (int)shim_draw(4));
    return result;
}

ncclResult_t ncclGroupStart(void)
{
    group.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t result = ncclSuccess;
    if (--group.depth > 0)
        return ncclSuccess;
    shim_lock();
    if (shim_fails(__func__))
        result = ncclSystemError;
    groups += group.ops > 0;
    for (int i = 0; i < group.inits && result != ncclSystemError; i++)
        join(group.init[i]);
    for (int i = 0; i < group.ops && result == ncclSuccess; i++)
        if (group.op[i].comm)
            begin_kernel(group.op[i].comm);
    if (result == ncclSuccess && group.ops + group.inits > 0)
        result = ncclInProgress; /* as it may say whatever has become of them */
    group.ops = group.inits = 0;
    shim_unlock();
    return result;
}

static ncclResult_t add(const char *name, ncclComm_t comm, cudaStream_t stream, struct op op)
{
    ncclResult_t result = ncclSuccess;
    shim_lock();
    if (group.depth == 0 || group.ops == MOST_OPS)
        shim_die("NCCL: a send or receive that is in no group, or one too many");
    if (comm->state != ncclSuccess || comm->ended)
        shim_die("NCCL: a communicator is used while it is in progress, or after its end");
    if (shim_device_of(op.at) != comm->device || shim_stream_device(stream) != comm->device)
        shim_die("NCCL: memory or a stream is not of the rank's device");
    op.hangs = shim_hangs(name);
    if (shim_fails(name))
        result = ncclUnhandledCudaError;
    else
        group.op[group.ops++] = {comm, stream, op};
    shim_unlock();
    return result;
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return add(__func__, comm, stream,
               {true, false, false, peer, static_cast<char *>(const_cast<void *>(from)), count, 0});
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return add(__func__, comm, stream,
               {false, false, false, peer, static_cast<char *>(to), count, 0});
}

/* --- communicators -------------------------------------------------------------------------- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    shim_lock();
    bool fails = shim_fails(__func__);
    uint64_t number = ++ids;
    memset(id, 0, sizeof *id);
    memcpy(id->internal, &number, sizeof number);
    shim_unlock();
    return fails ? ncclSystemError : ncclSuccess;
}

static struct clique *clique_of(uint64_t id, int count)
{
    struct clique *c = cliques;
    while (c && c->id != id)
        c = c->next;
    if (c)
        return c;
    c = (struct clique *)calloc(1, sizeof *c);
    *c = {id, count, 0, count, (ncclComm_t *)calloc((size_t)count, sizeof(ncclComm_t)), cliques};
    cliques = c;
    return c;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int count, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    uint64_t number;
    ncclResult_t result = ncclSuccess;
    memcpy(&number, id.internal, sizeof number);
    shim_lock();
    if (shim_fails(__func__)) {
        shim_unlock();
        return ncclSystemError;
    }
    ncclComm_t comm = (ncclComm_t)calloc(1, sizeof *comm);
    comm->clique = clique_of(number, count);
    comm->clique->comms[rank] = comm;
    comm->rank = rank;
    comm->device = shim_device();
    comm->blocking = config->blocking != 0;
    comm->last = &comm->first;
    comm->state = ncclInProgress;
    comm->looks = FOREVER;
    comm->then = shim_hangs(__func__) ? ncclInProgress : ncclSuccess;
    if (group.depth)
        group.init[group.inits++] = comm;
    else
        result = join(comm);
    *out = comm;
    shim_unlock();
    return result;
}

/* Looking is what brings it on. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    shim_lock();
    if (shim_fails(__func__))
        comm->state = ncclRemoteError;
    if (comm->state == ncclInProgress && comm->looks > 0 && --comm->looks == 0) {
        struct kernel *k = comm->late;
        comm->state = comm->then;
        comm->late = nullptr;
        if (k)
            post(k);
    }
    *state = comm->state;
    shim_unlock();
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    shim_lock();
    if (comm->state != ncclSuccess || comm->first || comm->ended)
        shim_die("NCCL: a communicator ends while there is work under way");
    bool fails = shim_fails(__func__), hangs = shim_hangs(__func__);
    comm->ended = true;
    progress(comm, ncclSuccess, hangs ? FOREVER : (int)shim_draw(4));
    shim_unlock();
    return fails ? ncclSystemError : ncclInProgress;
}

static void release(ncclComm_t comm)
{
    struct clique *c = comm->clique, **at = &cliques;
    c->comms[comm->rank] = nullptr;
    if (--c->left == 0) {
        while (*at != c)
            at = &(*at)->next;
        *at = c->next;
        free(c->comms);
        free(c);
    }
    free(comm->late);
    free(comm->held);
    free(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    shim_lock();
    if (!comm->ended || comm->state != ncclSuccess)
        shim_die("NCCL: a communicator is destroyed that has not ended");
    release(comm);
    shim_unlock();
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    shim_lock();
    if (comm->first) /* what is under way is over when this returns */
        races_host_learns(&shim_actor(comm->first->stream)->knows);
    for (struct kernel *k = comm->first; k; k = k->next)
        k->comm = nullptr;
    release(comm);
    shim_unlock();
    return ncclSuccess;
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = 22800;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const strings[] = {"no error",
                                          "unhandled cuda error",
                                          "unhandled system error",
                                          "internal error",
                                          "invalid argument",
                                          "invalid usage",
                                          "remote process exited or there was a network error",
                                          "NCCL operation in progress"};
    return strings[result];
}

const char *ncclGetLastError(ncclComm_t)
{
    return "";
}
