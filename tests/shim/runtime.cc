/* The runtime of the shim: devices, memory, streams and events. */
#include "inside.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#include "races.h"
#include "shared.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

enum { ALIGNMENT = 256, MOST_DEVICES = 8, PINNED = MOST_DEVICES, HEAPS };
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

static struct {
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
} shim = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __thread cudaError_t last_error;
static __thread int current = -1;

static const char *chosen(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value ? value : otherwise;
}

static void __attribute__((noreturn)) die(const char *what)
{
    fprintf(stderr, "shim: %s\n", what);
    abort();
}

static void begin(void)
{
    const char *devices = chosen("SHIM_DEVICES", "1"), *fails = chosen("SHIM_FAIL", "");
    shim.seed = strtoull(chosen("SHIM_SEED", "1"), NULL, 10) * 0x9E3779B97F4A7C15u + 1;
    shim.has_driver = strcmp(devices, "driver") != 0;
    shim.devices = atoi(devices);
    shim.arch = atoi(chosen("SHIM_ARCH", "80"));
    shim.memory = strtoull(chosen("SHIM_MEMORY", "1073741824"), NULL, 10);
    snprintf(shim.skipped, sizeof shim.skipped, "%s", chosen("SHIM_SKIP", ""));
    sscanf(fails, "%63[^:]:%ld", shim.failing, &shim.fails_at);
    sscanf(chosen("SHIM_HANG", ""), "%63[^:]:%ld", shim.hanging, &shim.hangs_at);
    shim.swapped = atol(chosen("SHIM_SWAP", "0"));
    shim.peers = atoi(chosen("SHIM_PEERS", "1"));
    shim.heap = (char *)mmap(NULL, HEAPS * HEAP, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shim.heap == MAP_FAILED || shim.devices > MOST_DEVICES)
        die("cannot begin");
    madvise(shim.heap, MOST_DEVICES * HEAP, MADV_HUGEPAGE); /* sooner guarded */
    races_watch(shim.heap, HEAPS * HEAP);
}

static void lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
    pthread_mutex_lock(&shim.lock);
}

static cudaError_t unlock(cudaError_t error)
{
    pthread_mutex_unlock(&shim.lock);
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

/* As on a GPU, where a thread that has not chosen its device works with the first, and wakes it up,
 * if it is not the one. */
static void need_device(void)
{
    if (current < 0)
        die("a thread has not chosen its device");
}

/* True for the call that a test wants to fail. As with CUDA's, where it was not for want of memory
 * nothing is done any more from then on, and every call fails. */
static bool refused(const char *name)
{
    bool fails = strcmp(name, shim.failing) == 0 && ++shim.calls == shim.fails_at;
    if (fails && strncmp(name, "cudaMalloc", 10) != 0) {
        shim.dead = true;
        races_stop();
    }
    return fails || shim.dead;
}

static uint64_t draw(uint64_t below)
{
    shim.seed ^= shim.seed << 13;
    shim.seed ^= shim.seed >> 7;
    shim.seed ^= shim.seed << 17;
    return (shim.seed >> 11) % below;
}

/* --- memory --------------------------------------------------------------------------------- */

static char *heap_of(int device)
{
    return shim.heap + (size_t)device * HEAP;
}

/* Access to the memory of a device, or none. */
static void guard(int device, bool open)
{
    if (shim.heap_open[device] == open || !shim.heap_used[device])
        return;
    if (mprotect(heap_of(device), shim.heap_used[device],
                 open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
        die("cannot guard the devices' memory");
    shim.heap_open[device] = open;
}

/* Access to what a device reaches; -1: to everything. */
static void open_memory(int device)
{
    for (int d = 0; d < MOST_DEVICES; d++)
        guard(d, device < 0 || d == device || shim.reaches[device][d]);
}

static void close_memory(void)
{
    for (int d = 0; d < MOST_DEVICES; d++)
        guard(d, false);
}

/* Nobody has written it, or shall read it any more. */
static void poison(char *at, size_t bytes)
{
    open_memory(-1);
    ASAN_UNPOISON_MEMORY_REGION(at, bytes);
    memset(at, 0xff, bytes);
    close_memory();
}

/* The first free block that is large enough, or one at the end; there is a gap behind each. */
static struct block *find_room(int device, size_t bytes)
{
    size_t room = (bytes + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, end = 0;
    for (size_t i = 0; i < shim.block_count; i++) {
        struct block *b = &shim.blocks[i];
        if (b->device != device)
            continue;
        if (b->bytes == 0 && b->room >= room)
            return b;
        end = (size_t)(b->at - heap_of(device)) + b->room;
    }
    if (end + room > HEAP)
        die("out of addresses");
    shim.blocks =
        (struct block *)realloc(shim.blocks, (shim.block_count + 1) * sizeof *shim.blocks);
    shim.blocks[shim.block_count] = {heap_of(device) + end, room, 0, device, false, {}};
    close_memory();
    shim.heap_used[device] = (end + room + 4095) / 4096 * 4096;
    if (device == PINNED &&
        mprotect(heap_of(PINNED), shim.heap_used[PINNED], PROT_READ | PROT_WRITE) != 0)
        die("cannot pin memory");
    return &shim.blocks[shim.block_count++];
}

static void *take(int device, size_t bytes, bool pooled)
{
    struct block *b = find_room(device, bytes);
    b->bytes = bytes;
    b->pooled = pooled;
    shim.used[device] += bytes;
    poison(b->at, bytes);
    ASAN_POISON_MEMORY_REGION(b->at + bytes, b->room - bytes);
    return b->at;
}

/* The block in use that begins there; NULL: none. */
static struct block *block_at(const void *at)
{
    for (size_t i = 0; at && i < shim.block_count; i++)
        if (shim.blocks[i].at == at && shim.blocks[i].bytes > 0)
            return &shim.blocks[i];
    return NULL;
}

static void give(struct block *b)
{
    poison(b->at, b->bytes);
    ASAN_POISON_MEMORY_REGION(b->at, b->room);
    shim.used[b->device] -= b->bytes;
    b->bytes = 0;
}

/* Whoever has worked with it is known to be done. */
static cudaError_t give_now(const char *name, void *block)
{
    struct block *b = block_at(block);
    if (!b)
        return block ? cudaErrorInvalidValue : cudaSuccess;
    races_host_writes(name, b->at, b->bytes);
    give(b);
    return cudaSuccess;
}

static bool has_room(size_t bytes)
{
    return bytes <= shim.memory && shim.used[current] <= shim.memory - bytes;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    lock();
    need_device();
    if (refused(__func__) || !has_room(bytes))
        return unlock(cudaErrorMemoryAllocation);
    *out = take(current, bytes, false);
    return unlock(cudaSuccess);
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    lock();
    need_device();
    if (refused(__func__))
        return unlock(cudaErrorMemoryAllocation);
    *out = take(PINNED, bytes, false);
    return unlock(cudaSuccess);
}

cudaError_t cudaFreeHost(void *block)
{
    lock();
    return unlock(give_now(__func__, block));
}

cudaError_t cudaMemGetInfo(size_t *vacant, size_t *total)
{
    lock();
    *total = shim.memory;
    *vacant = shim.memory - shim.used[current];
    return unlock(refused(__func__) ? cudaErrorUnknown : cudaSuccess);
}

/* --- streams -------------------------------------------------------------------------------- */

static bool may_run(struct shim_work *work)
{
    if (!work || (work->waits && work->event->done < work->turn))
        return false;
    return !work->ready || work->ready(work);
}

static void let_go(struct shim_moment *moment)
{
    if (moment && --moment->holders == 0)
        free(moment);
}

static void free_event(cudaEvent_t event)
{
    let_go(event->moment);
    free(event);
}

/* A record, or a wait for one, is through. */
static void pass(cudaStream_t stream, struct shim_work *work)
{
    cudaEvent_t event = work->event;
    if (work->waits && work->moment)
        races_learn(&stream->actor, &work->moment->knows);
    else if (!work->waits)
        work->moment->knows = stream->actor.knows;
    if (!work->waits && work->turn > event->done)
        event->done = work->turn;
    let_go(work->moment);
    if (--event->pending == 0 && event->destroyed)
        free_event(event);
}

/* Does what the stream does next. */
static void run_first(cudaStream_t stream)
{
    struct shim_work *work = stream->first;
    open_memory(work->copies ? -1 : stream->device);
    shim_begin(stream);
    races_as(&stream->actor);
    if (work->run && (!shim.dead || work->ready))
        work->run(work);
    races_end();
    if (work->stays)
        return;
    if (work->event)
        pass(stream, work);
    stream->first = work->next;
    if (!stream->first)
        stream->last = &stream->first;
    free(work);
}

/* Some stream that has something to do that nothing holds up; NULL: none. Mostly the same again, so
 * that one gets far ahead of the others. */
static cudaStream_t any_stream(void)
{
    uint64_t count = 0;
    cudaStream_t found = NULL;
    bool same = draw(64) > 0;
    for (cudaStream_t s = shim.streams; s; s = s->next)
        if (may_run(s->first) && ((same && s == shim.favoured) || draw(++count) == 0)) {
            found = s;
            if (same && s == shim.favoured)
                break;
        }
    shim.favoured = found;
    return found;
}

static void run_some(uint64_t count)
{
    for (cudaStream_t s; count > 0; count--) {
        if (!(s = any_stream())) {
            shim_stuck();
            break;
        }
        run_first(s);
    }
    close_memory();
}

void shim_begin(cudaStream_t stream)
{
    struct shim_work *work = stream->first;
    if (!work->told)
        return;
    races_begin(&stream->actor, work->name, work->told);
    races_end();
    free(work->told);
    work->told = NULL;
}

void shim_queue(cudaStream_t stream, struct shim_work *work)
{
    work->told = races_told();
    *stream->last = work;
    stream->last = &work->next;
    if (draw(16) == 0)
        run_some(draw(16));
}

void shim_post(cudaStream_t stream, struct shim_work *work)
{
    lock();
    if (stream) {
        shim_queue(stream, work);
    } else {
        open_memory(-1);
        races_begin(NULL, work->name, NULL);
        work->run(work);
        races_end();
        close_memory();
        free(work);
    }
    unlock(cudaSuccess);
}

size_t shim_allowed(const void *kernel)
{
    lock();
    size_t bytes = shared_allowed(kernel, current < 0 ? 0 : current);
    unlock(cudaSuccess);
    return bytes;
}

cudaError_t shim_allow(const void *kernel, int bytes)
{
    lock();
    if (refused("cudaFuncSetAttribute") || bytes > SHARED_MOST)
        return unlock(cudaErrorInvalidValue);
    shared_allow(kernel, current < 0 ? 0 : current, (size_t)bytes);
    return unlock(cudaSuccess);
}

bool shim_launch_fails(cudaStream_t stream)
{
    lock();
    if (stream && stream->device != current)
        return unlock(cudaErrorInvalidResourceHandle) != cudaSuccess;
    return unlock(refused("launch") ? cudaErrorUnknown : cudaSuccess) != cudaSuccess;
}

struct transfer {
    struct shim_work work;
    void *to;
    const void *from; /* NULL: bytes of a value */
    int byte;
    size_t bytes;
};

static void run_transfer(struct shim_work *work)
{
    struct transfer *t = reinterpret_cast<struct transfer *>(work);
    if (t->from)
        races_read(t->from, t->bytes);
    races_write(t->to, t->bytes);
    if (t->from)
        memcpy(t->to, t->from, t->bytes);
    else
        memset(t->to, t->byte, t->bytes);
}

static cudaError_t post_transfer(const char *name, cudaStream_t stream, void *to, const void *from,
                                 int byte, size_t bytes)
{
    struct transfer *t = (struct transfer *)calloc(1, sizeof *t);
    *t = {{nullptr, run_transfer, nullptr, 0, false, true}, to, from, byte, bytes};
    t->work.name = name;
    shim_post(stream, &t->work);
    return cudaSuccess;
}

/* The device that has it in its memory, -1: the host has. */
static int device_of(const void *at)
{
    const char *byte = (const char *)at;
    bool ours = byte >= shim.heap && byte < shim.heap + MOST_DEVICES * HEAP;
    return ours ? (int)((size_t)(byte - shim.heap) / HEAP) : -1;
}

static bool on_device(const void *at)
{
    return device_of(at) >= 0;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    bool out = kind == cudaMemcpyDeviceToHost, in = kind == cudaMemcpyHostToDevice;
    lock();
    if (unlock(refused(__func__) ? cudaErrorUnknown : cudaSuccess) != cudaSuccess)
        return cudaErrorUnknown;
    if (stream && ((in && (on_device(from) || !on_device(to))) ||
                   (out && (!on_device(from) || on_device(to)))))
        die("a copy goes the wrong way");
    if (on_device(to) && on_device(from) && device_of(to) != device_of(from))
        die("a copy between two devices does not say so");
    if (in) {
        lock();
        races_host_writes("the source of a copy", from, bytes);
        unlock(cudaSuccess);
    }
    return post_transfer(__func__, stream, to, from, 0, bytes);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t bytes, cudaStream_t stream)
{
    lock();
    if (unlock(refused(__func__) ? cudaErrorUnknown : cudaSuccess) != cudaSuccess)
        return cudaErrorUnknown;
    if (device_of(to) != to_device || device_of(from) != from_device)
        die("a copy between two devices names others");
    return post_transfer(__func__, stream, to, from, 0, bytes);
}

/* A block that a stream takes from the pool, or gives back to it. */
struct pooling {
    struct shim_work work;
    cudaStream_t stream;
    void *block;
};

/* The pool hands out what it has got back, whoever's stream that was. */
static void run_taking(struct shim_work *work)
{
    const struct pooling *p = reinterpret_cast<struct pooling *>(work);
    struct block *b = block_at(p->block);
    races_learn(&p->stream->actor, &b->freed);
    races_write(b->at, b->bytes);
    memset(b->at, 0xff, b->bytes);
}

static void run_giving(struct shim_work *work)
{
    const struct pooling *p = reinterpret_cast<struct pooling *>(work);
    struct block *b = block_at(p->block);
    races_write(b->at, b->bytes);
    b->freed = p->stream->actor.knows;
    give(b);
}

static void post_pooling(const char *name, void (*run)(struct shim_work *), cudaStream_t stream,
                         void *block)
{
    struct pooling *p = (struct pooling *)calloc(1, sizeof *p);
    p->work.run = run;
    p->work.copies = true;
    p->work.name = name;
    p->stream = stream;
    p->block = block;
    shim_post(stream, &p->work);
}

cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream)
{
    lock();
    need_device();
    if (refused(__func__) || !has_room(bytes))
        return unlock(cudaErrorMemoryAllocation);
    *out = take(current, bytes, true);
    unlock(cudaSuccess);
    post_pooling(__func__, run_taking, stream, *out);
    return cudaSuccess;
}

cudaError_t cudaFreeAsync(void *block, cudaStream_t stream)
{
    lock();
    const struct block *b = block_at(block);
    if (unlock(!b || !b->pooled    ? cudaErrorInvalidValue
               : refused(__func__) ? cudaErrorUnknown
                                   : cudaSuccess) != cudaSuccess)
        return cudaErrorInvalidValue;
    post_pooling(__func__, run_giving, stream, block);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    lock();
    if (unlock(refused(__func__) ? cudaErrorUnknown : cudaSuccess) != cudaSuccess)
        return cudaErrorUnknown;
    return post_transfer(__func__, stream, to, nullptr, byte, bytes);
}

static cudaStream_t stream_new(void)
{
    cudaStream_t stream = (cudaStream_t)calloc(1, sizeof *stream);
    stream->last = &stream->first;
    stream->next = shim.streams;
    stream->device = current;
    races_join(&stream->actor);
    shim.streams = stream;
    return stream;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    lock();
    need_device();
    if (refused(__func__))
        return unlock(cudaErrorUnknown);
    *stream = stream_new();
    return unlock(cudaSuccess);
}

cudaStream_t shim_thread_stream(void)
{
    static __thread cudaStream_t streams[MOST_DEVICES];
    lock();
    need_device();
    cudaStream_t *stream = &streams[current];
    if (!*stream)
        *stream = stream_new();
    unlock(cudaSuccess);
    return *stream;
}

/* Whoever waits may have what he waits for soon, or late. */
static void begin_waiting(cudaStream_t stream)
{
    shim.favoured = draw(2) ? stream : NULL;
}

/* Runs, of all streams, what must be run before this one has nothing to do. */
static void run_out(cudaStream_t stream)
{
    begin_waiting(stream);
    while (stream->first) {
        cudaStream_t any = any_stream();
        if (!any) {
            shim_stuck();
            die("streams wait for each other");
        }
        run_first(any);
    }
    close_memory();
}

/* It waits for all that the device does, though nobody shall count on that. */
cudaError_t cudaFree(void *block)
{
    lock();
    need_device();
    for (cudaStream_t s = shim.streams; s && block && !shim.dead; s = s->next)
        if (s->device == current)
            run_out(s);
    return unlock(give_now(__func__, block));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaStream_t *at = &shim.streams;
    lock();
    run_out(stream);
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    free(stream);
    return unlock(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    lock();
    if (refused(__func__))
        return unlock(cudaErrorUnknown);
    if (stream && strcmp(shim.skipped, __func__) != 0) {
        run_out(stream);
        races_host_learns(&stream->actor.knows);
    }
    return unlock(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    lock();
    if (refused(__func__))
        return unlock(cudaErrorUnknown);
    need_device();
    *event = (cudaEvent_t)calloc(1, sizeof **event);
    (*event)->device = current;
    return unlock(cudaSuccess);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    lock();
    event->destroyed = true;
    if (event->pending == 0)
        free_event(event);
    return unlock(cudaSuccess);
}

static void post_event(cudaStream_t stream, cudaEvent_t event, bool waits)
{
    struct shim_work *work = (struct shim_work *)calloc(1, sizeof *work);
    lock();
    event->pending++;
    work->event = event;
    work->turn = waits ? event->issued : ++event->issued;
    work->waits = waits;
    if (!waits) {
        let_go(event->moment);
        event->moment = (struct shim_moment *)calloc(1, sizeof *event->moment);
        event->moment->holders = 1;
    }
    work->moment = event->moment;
    if (work->moment)
        work->moment->holders++;
    unlock(cudaSuccess);
    shim_post(stream, work);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    lock();
    bool foreign = stream->device != event->device;
    if (unlock(foreign || refused(__func__) ? cudaErrorInvalidResourceHandle : cudaSuccess) !=
        cudaSuccess)
        return cudaErrorInvalidResourceHandle;
    event->stream = stream;
    post_event(stream, event, false);
    return cudaSuccess;
}

/* All that has been recorded so far is done. */
static void host_learns(cudaEvent_t event)
{
    if (event->moment)
        races_host_learns(&event->moment->knows);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    lock();
    if (refused(__func__))
        return unlock(cudaErrorUnknown);
    uint64_t turn = event->issued;
    if (strcmp(shim.skipped, __func__) == 0)
        return unlock(cudaSuccess);
    begin_waiting(event->stream);
    while (event->done < turn) {
        cudaStream_t any = any_stream();
        if (!any)
            die("an event is never reached");
        run_first(any);
    }
    close_memory();
    host_learns(event);
    return unlock(cudaSuccess);
}

/* Time passes for whoever looks again and again. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    lock();
    if (refused(__func__))
        return unlock(cudaErrorUnknown);
    run_some(draw(16));
    bool done = event->done == event->issued || strcmp(shim.skipped, __func__) == 0;
    if (event->done == event->issued)
        host_learns(event);
    return unlock(done ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    lock();
    bool skipped = strcmp(shim.skipped, __func__) == 0;
    if (unlock(refused(__func__) ? cudaErrorUnknown : cudaSuccess) != cudaSuccess)
        return cudaErrorUnknown;
    if (!skipped)
        post_event(stream, event, true);
    return cudaSuccess;
}

/* --- devices -------------------------------------------------------------------------------- */

/* What a call that only asks or chooses comes to. */
static cudaError_t answer(const char *name)
{
    lock();
    return unlock(refused(name) ? cudaErrorUnknown : cudaSuccess);
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    static const char *const strings[] = {"no error",
                                          "invalid argument",
                                          "out of memory",
                                          "CUDA driver version is insufficient",
                                          "no CUDA-capable device is detected",
                                          "invalid resource handle",
                                          "peer access is already enabled",
                                          "device not ready",
                                          "unknown error"};
    return strings[error];
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 12000;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    lock();
    *version = shim.has_driver ? 12000 : 0;
    return unlock(cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    lock();
    *count = shim.devices;
    return unlock(refused(__func__)  ? cudaErrorUnknown
                  : !shim.has_driver ? cudaErrorInsufficientDriver
                  : shim.devices     ? cudaSuccess
                                     : cudaErrorNoDevice);
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int)
{
    const int values[] = {shim.arch / 10, shim.arch % 10, 4};
    if (answer(__func__) != cudaSuccess)
        return cudaErrorUnknown;
    *value = values[attribute];
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current < 0 ? 0 : current;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *about, int device)
{
    const char *name = chosen("SHIM_MODEL", "shim"), *number = strstr(name, "%d");
    if (number)
        snprintf(about->name, sizeof about->name, "%.*s%d", (int)(number - name), name, device);
    else
        snprintf(about->name, sizeof about->name, "%s", name);
    return answer(__func__);
}

cudaError_t cudaSetDevice(int device)
{
    lock();
    if (device < 0 || device >= shim.devices)
        return unlock(cudaErrorInvalidValue);
    current = device;
    return unlock(refused(__func__) ? cudaErrorUnknown : cudaSuccess);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    lock();
    *can = device != peer && shim.peers;
    return unlock(refused(__func__) ? cudaErrorUnknown : cudaSuccess);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned)
{
    lock();
    need_device();
    if (!shim.peers || refused(__func__))
        return unlock(cudaErrorInvalidValue);
    if (shim.enabled[current][peer])
        return unlock(cudaErrorPeerAccessAlreadyEnabled);
    shim.enabled[current][peer] = true;
    return unlock(cudaSuccess);
}

/* A pool is the device's of that number, counted from 1. */
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    *pool = reinterpret_cast<cudaMemPool_t>((uintptr_t)device + 1);
    return answer(__func__);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *)
{
    return answer(__func__);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc *access, size_t count)
{
    int device = (int)(reinterpret_cast<uintptr_t>(pool) - 1);
    lock();
    if (!shim.peers || refused(__func__))
        return unlock(cudaErrorInvalidValue);
    for (size_t i = 0; i < count; i++)
        shim.reaches[access[i].location.id][device] = true;
    return unlock(cudaSuccess);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t)
{
    return answer(__func__);
}

/* --- for NCCL ------------------------------------------------------------------------------- */

void shim_lock(void)
{
    lock();
}

void shim_unlock(void)
{
    close_memory();
    pthread_mutex_unlock(&shim.lock);
}

void shim_die(const char *what)
{
    die(what);
}

bool shim_fails(const char *name)
{
    return strcmp(name, shim.failing) == 0 && ++shim.calls == shim.fails_at;
}

bool shim_hangs(const char *name)
{
    return strcmp(name, shim.hanging) == 0 && ++shim.hangs == shim.hangs_at;
}

long shim_swapped(void)
{
    return shim.swapped;
}

uint64_t shim_draw(uint64_t below)
{
    return draw(below);
}

int shim_device(void)
{
    need_device();
    return current;
}

int shim_device_of(const void *at)
{
    return device_of(at);
}

int shim_stream_device(cudaStream_t stream)
{
    return stream->device;
}

bool shim_is_next(cudaStream_t stream, const struct shim_work *work)
{
    return stream->first == work;
}

struct actor *shim_actor(cudaStream_t stream)
{
    return &stream->actor;
}

bool shim_may_meet(const void *at, int device)
{
    int owner = device_of(at);
    for (size_t i = 0; i < shim.block_count; i++) {
        const struct block *b = &shim.blocks[i];
        if ((const char *)at >= b->at && (const char *)at < b->at + b->room && b->pooled)
            return !shim.peers || owner == device || shim.reaches[device][owner];
    }
    return true;
}

void shim_where(const char *at, char *out, size_t bytes)
{
    char heap[32] = "pinned memory";
    if (device_of(at) >= 0)
        snprintf(heap, sizeof heap, "device %d", device_of(at));
    snprintf(out, bytes, "no block of %s", heap);
    for (size_t i = 0; i < shim.block_count; i++) {
        const struct block *b = &shim.blocks[i];
        if (at >= b->at && at < b->at + b->room)
            snprintf(out, bytes, "byte %zu of %zu taken of %s", (size_t)(at - b->at), b->bytes,
                     heap);
    }
}

void shim_open(void)
{
    open_memory(-1);
}
