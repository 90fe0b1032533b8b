/* Devices of the shim, what tests choose of them, and what its NCCL needs of the runtime. */
#include "state.h"

#include <stdio.h>
#include <sys/mman.h>

struct shim_state shim = {.lock = PTHREAD_MUTEX_INITIALIZER};
__thread cudaError_t last_error;
__thread int current = -1;

const char *chosen(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value ? value : otherwise;
}

void die(const char *what)
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

void lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
    pthread_mutex_lock(&shim.lock);
}

cudaError_t unlock(cudaError_t error)
{
    pthread_mutex_unlock(&shim.lock);
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

/* As on a GPU, where a thread that has not chosen its device works with the first, and wakes it up,
 * if it is not the one. */
void need_device(void)
{
    if (current < 0)
        die("a thread has not chosen its device");
}

/* True for the call that a test wants to fail. As with CUDA's, where it was not for want of memory
 * nothing is done any more from then on, and every call fails. */
bool refused(const char *name)
{
    bool fails = strcmp(name, shim.failing) == 0 && ++shim.calls == shim.fails_at;
    bool memory = strncmp(name, "cudaMalloc", 10) == 0 || strcmp(name, "cudaGraphCreate") == 0 ||
                  strcmp(name, "cudaGraphAddKernelNode") == 0 ||
                  strcmp(name, "cudaGraphInstantiate") == 0;
    if (fails && !memory) {
        shim.dead = true;
        races_stop();
    }
    return fails || shim.dead;
}

uint64_t draw(uint64_t below)
{
    shim.seed ^= shim.seed << 13;
    shim.seed ^= shim.seed >> 7;
    shim.seed ^= shim.seed << 17;
    return (shim.seed >> 11) % below;
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
