/* Memory of the shim: of devices and pinned, at once or by streams; and copies. */
#include "state.h"

#include <stdio.h>
#include <sys/mman.h>

enum { ALIGNMENT = 256, HUGE_PAGE = 2 << 20 };

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
void open_memory(int device)
{
    for (int d = 0; d < MOST_DEVICES; d++)
        guard(d, device < 0 || d == device || shim.reaches[device][d]);
}

void close_memory(void)
{
    for (int d = 0; d < MOST_DEVICES; d++)
        guard(d, false);
}

/* Nobody has written it, or shall read it any more. */
static void poison(char *at, size_t bytes)
{
    open_memory(-1);
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
    races_close(heap_of(device) + end, room);
    close_memory();
    shim.heap_used[device] = (end + room + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
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
    races_open(b->at, bytes);
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
    races_close(b->at, b->bytes);
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

void *shim_take(size_t bytes)
{
    lock();
    void *block = take(PINNED, bytes, false);
    unlock(cudaSuccess);
    return block;
}

bool shim_give(void *block)
{
    if (!shim.heap || (char *)block < shim.heap || (char *)block >= shim.heap + HEAPS * HEAP)
        return false;
    lock();
    struct block *b = block_at(block);
    if (!b)
        die("no block of memory begins where one is given back");
    give(b);
    unlock(cudaSuccess);
    return true;
}

cudaError_t cudaMemGetInfo(size_t *vacant, size_t *total)
{
    lock();
    *total = shim.memory;
    *vacant = shim.memory - shim.used[current];
    return unlock(refused(__func__) ? cudaErrorUnknown : cudaSuccess);
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

/* --- by streams ----------------------------------------------------------------------------- */

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
int device_of(const void *at)
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

/* --- for NCCL ------------------------------------------------------------------------------- */

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
