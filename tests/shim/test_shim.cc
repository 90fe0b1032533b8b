/* The shim runs kernels as a GPU does, and faults that are planted here are caught: a barrier that
 * is missing or that not all reach, lanes that part, shared memory read before it is written, or
 * beyond its end, or too much of it.
 */
#include <check.h>
#include <math.h>
#include <signal.h>

#include "nccl.h"

extern "C" {
#include "cuda/cuda_device.h"
#include "cuda/cuda_team.h"
#include "suite.h"
}

enum { THREADS = 96, BLOCKS = 3, COUNT = THREADS * BLOCKS };

/* y = x of the next thread of the block, through shared memory. */
template <bool barrier> static void rotate(float *y, const float *x)
{
    NP_SHARED(float, part, [THREADS]);
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    part[threadIdx.x] = x[i];
    if (barrier)
        __syncthreads();
    y[i] = part[(threadIdx.x + 1) % THREADS];
}

static bool rotated(void (*kernel)(float *, const float *))
{
    float x[COUNT], y[COUNT];
    bool right = true;
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)i;
    NP_LAUNCH(kernel, BLOCKS, THREADS, 0, nullptr, y, x);
    for (int i = 0; i < COUNT; i++)
        right = right && y[i] == x[i - i % THREADS + (i + 1) % THREADS];
    return right;
}

/* Each twice, as the order of threads changes from launch to launch. */
START_TEST(a_missing_barrier_shows)
{
    for (int i = 0; i < 2; i++)
        ck_assert(rotated(rotate<true>));
    for (int i = 0; i < 2; i++)
        ck_assert(!rotated(rotate<false>));
}
END_TEST

/* A second store to what others have yet to read. */
template <bool barrier> static void overtake(float *y, const float *x)
{
    NP_SHARED(float, part, [THREADS]);
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    part[threadIdx.x] = x[i];
    __syncthreads();
    float next = part[(threadIdx.x + 1) % THREADS];
    if (barrier)
        __syncthreads();
    part[threadIdx.x] = -1.0f;
    y[i] = next;
}

START_TEST(a_store_that_overtakes_shows)
{
    for (int i = 0; i < 2; i++)
        ck_assert(rotated(overtake<true>));
    for (int i = 0; i < 2; i++)
        ck_assert(!rotated(overtake<false>));
}
END_TEST

static void untouched(float *y, const float *)
{
    NP_SHARED(float, part, [THREADS]);
    y[blockIdx.x * THREADS + threadIdx.x] = part[threadIdx.x];
}

START_TEST(memory_that_nobody_wrote_is_no_number)
{
    float y[COUNT];
    for (int turn = 0; turn < 2; turn++) {
        ck_assert(rotated(rotate<true>)); /* leaves numbers behind */
        NP_LAUNCH(untouched, BLOCKS, THREADS, 0, nullptr, y, nullptr);
        for (int i = 0; i < COUNT; i++)
            ck_assert(isnan(y[i]));
    }
}
END_TEST

static void warp_functions(uint32_t *y)
{
    uint32_t lane = threadIdx.x % 32, mine = 1000 * blockIdx.x + threadIdx.x;
    uint32_t down = __shfl_down_sync(0xffffffffu, mine, 5);
    uint32_t with = __shfl_xor_sync(0xffffffffu, mine, 3);
    uint32_t from = __shfl_sync(0xffffffffu, mine, 7);
    int one = __any_sync(0xffffffffu, threadIdx.x == 40);
    int block = __syncthreads_or(blockIdx.x == 1 && threadIdx.x == 70);
    bool right = down == (lane + 5 < 32 ? mine + 5 : mine) && with == mine - lane + (lane ^ 3) &&
                 from == mine - lane + 7 && one == (threadIdx.x / 32 == 1) &&
                 block == (blockIdx.x == 1) && __syncthreads_or(0) == 0;
    atomicAdd(y, (uint32_t)right);
}

START_TEST(warps_and_blocks_exchange)
{
    uint32_t right = 0;
    NP_LAUNCH(warp_functions, BLOCKS, THREADS, 0, nullptr, &right);
    ck_assert_uint_eq(right, COUNT);
}
END_TEST

static void part_of_block(void)
{
    if (threadIdx.x < 32)
        __syncthreads();
}

START_TEST(a_barrier_that_not_all_reach_is_reported)
{
    NP_LAUNCH(part_of_block, BLOCKS, THREADS, 0, nullptr);
}
END_TEST

static void two_barriers(void)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
}

START_TEST(different_barriers_are_reported)
{
    NP_LAUNCH(two_barriers, BLOCKS, THREADS, 0, nullptr);
}
END_TEST

static void part_of_warp(void)
{
    if (threadIdx.x % 32 < 16)
        __syncwarp();
}

START_TEST(lanes_that_part_are_reported)
{
    NP_LAUNCH(part_of_warp, BLOCKS, THREADS, 0, nullptr);
}
END_TEST

static void half_a_warp(void)
{
    __syncwarp();
}

START_TEST(a_warp_that_is_not_whole_is_reported)
{
    NP_LAUNCH(half_a_warp, BLOCKS, THREADS + 16, 0, nullptr);
}
END_TEST

static void large(void)
{
    NP_SHARED(float, part, [13 << 10]);
    part[threadIdx.x] = 0.0f;
}

START_TEST(too_much_shared_memory_is_reported)
{
    NP_LAUNCH(large, BLOCKS, THREADS, 0, nullptr);
}
END_TEST

#ifdef __SANITIZE_ADDRESS__
static void beyond(float *y, unsigned more)
{
    NP_SHARED(float, part, [THREADS]);
    float *p = part;
    p[threadIdx.x + more] = 1.0f;
    __syncthreads();
    y[threadIdx.x] = part[threadIdx.x];
}

START_TEST(an_access_beyond_an_array_is_reported)
{
    float y[THREADS];
    NP_LAUNCH(beyond, 1, THREADS, 0, nullptr, y, 1);
}
END_TEST
#endif

/* --- the runtime ---------------------------------------------------------------------------- */

enum { TRIES = 64, WORDS = 64 };

static uint32_t *device_words(void)
{
    void *words;
    ck_assert_int_eq(cudaSetDevice(0), cudaSuccess);
    ck_assert_int_eq(cudaMalloc(&words, WORDS * sizeof(uint32_t)), cudaSuccess);
    return static_cast<uint32_t *>(words);
}

static cudaStream_t stream_new(void)
{
    cudaStream_t stream;
    ck_assert_int_eq(cudaSetDevice(0), cudaSuccess);
    ck_assert_int_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    return stream;
}

static void add_one(uint32_t *y)
{
    y[threadIdx.x] += 1;
}

/* What a second stream copies of what the first has made: 1 in all words, if it waits for that. */
static bool second_sees_first(cudaStream_t first, cudaStream_t second, cudaEvent_t event,
                              uint32_t *words)
{
    uint32_t *host, made = 0;
    ck_assert_int_eq(cudaMallocHost(reinterpret_cast<void **>(&host), sizeof made * WORDS),
                     cudaSuccess);
    cudaMemsetAsync(words, 0, WORDS * sizeof *words, first);
    NP_LAUNCH(add_one, 1, WORDS, 0, first, words);
    if (event) {
        cudaEventRecord(event, first);
        cudaStreamWaitEvent(second, event, 0);
    }
    cudaMemcpyAsync(host, words, WORDS * sizeof *words, cudaMemcpyDeviceToHost, second);
    ck_assert_int_eq(cudaStreamSynchronize(second), cudaSuccess);
    for (int i = 0; i < WORDS; i++)
        made += host[i] == 1;
    ck_assert_int_eq(cudaStreamSynchronize(first), cudaSuccess);
    cudaFreeHost(host);
    return made == WORDS;
}

START_TEST(a_missing_event_wait_shows)
{
    cudaStream_t first = stream_new(), second = stream_new();
    cudaEvent_t event;
    uint32_t *words = device_words();
    int right = 0;
    ck_assert_int_eq(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    for (int i = 0; i < TRIES; i++) {
        ck_assert(second_sees_first(first, second, event, words));
        right += second_sees_first(first, second, nullptr, words);
        cudaMemsetAsync(words, 0, WORDS * sizeof *words, first);
    }
    ck_assert_int_gt(right, 0);
    ck_assert_int_lt(right, TRIES);
    cudaEventDestroy(event);
    cudaStreamDestroy(first);
    cudaStreamDestroy(second);
    cudaFree(words);
}
END_TEST

/* The host reads before it has waited, and finds what it should or what was there, as it comes. */
START_TEST(a_missing_synchronisation_shows)
{
    cudaStream_t stream = stream_new();
    uint32_t *words = device_words(), *host;
    int right = 0;
    ck_assert_int_eq(cudaMallocHost(reinterpret_cast<void **>(&host), sizeof *host), cudaSuccess);
    for (int i = 0; i < TRIES; i++) {
        *host = 7;
        cudaMemsetAsync(words, 0, sizeof *words, stream);
        cudaMemcpyAsync(host, words, sizeof *words, cudaMemcpyDeviceToHost, stream);
        right += *host == 0;
        ck_assert_int_eq(cudaStreamSynchronize(stream), cudaSuccess);
        ck_assert_uint_eq(*host, 0);
    }
    ck_assert_int_gt(right, 0);
    ck_assert_int_lt(right, TRIES);
    cudaStreamDestroy(stream);
    cudaFreeHost(host);
    cudaFree(words);
}
END_TEST

START_TEST(new_memory_is_no_number)
{
    uint32_t *words = device_words(), host[WORDS];
    cudaMemcpyAsync(host, words, sizeof host, cudaMemcpyDeviceToHost, nullptr);
    for (int i = 0; i < WORDS; i++)
        ck_assert_uint_eq(host[i], 0xffffffffu);
    cudaFree(words);
}
END_TEST

START_TEST(memory_is_limited)
{
    void *block, *more;
    size_t vacant, total;
    setenv("SHIM_MEMORY", "1000", 1);
    ck_assert_int_eq(cudaSetDevice(0), cudaSuccess);
    ck_assert_int_eq(cudaMalloc(&block, 600), cudaSuccess);
    ck_assert_int_eq(cudaMalloc(&more, 600), cudaErrorMemoryAllocation);
    ck_assert_int_eq(cudaGetLastError(), cudaErrorMemoryAllocation);
    ck_assert_int_eq(cudaMemGetInfo(&vacant, &total), cudaSuccess);
    ck_assert_uint_eq(vacant, 400);
    ck_assert_uint_eq(total, 1000);
    cudaFree(block);
    ck_assert_int_eq(cudaMalloc(&more, 600), cudaSuccess);
    cudaFree(more);
}
END_TEST

START_TEST(the_host_has_no_access)
{
    volatile uint32_t *words = device_words();
    words[0] = 1;
}
END_TEST

START_TEST(a_call_fails_when_told_to)
{
    cudaStream_t stream;
    uint32_t *words;
    setenv("SHIM_FAIL", "launch:2", 1);
    stream = stream_new();
    words = device_words();
    for (int i = 1; i <= 3; i++) {
        NP_LAUNCH(add_one, 1, WORDS, 0, stream, words);
        ck_assert_int_eq(cudaGetLastError(), i < 2 ? cudaSuccess : cudaErrorUnknown);
    }
    cudaStreamDestroy(stream);
    cudaFree(words);
}
END_TEST

START_TEST(a_stream_of_another_device_launches_nothing)
{
    setenv("SHIM_DEVICES", "2", 1);
    cudaStream_t stream = stream_new();
    uint32_t *words = device_words();
    ck_assert_int_eq(cudaSetDevice(1), cudaSuccess);
    NP_LAUNCH(add_one, 1, WORDS, 0, stream, words);
    ck_assert_int_eq(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    cudaStreamDestroy(stream);
    cudaFree(words);
}
END_TEST

/* Two crews: one copies x to y, then the other, which waits for it, overwrites x. How often, of 32
 * times, y is not what x was; and what the first crew replies not what it has written. */
struct crews {
    struct np_crew *reader, *writer;
    float *x, *y, *reply;
};

static void run_writer(struct np_team *team, void *argument)
{
    const struct crews *c = static_cast<const struct crews *>(argument);
    np_kernels_cuda.fill(team, c->x, WORDS, 2.0f);
}

static void run_reader(struct np_team *team, void *argument)
{
    const struct crews *c = static_cast<const struct crews *>(argument);
    np_kernels_cuda.copy(team, c->y, c->x, WORDS);
    np_kernels_cuda.copy(team, c->reply, c->y, 1);
}

static void run_beginning(struct np_team *team, void *argument)
{
    const struct crews *c = static_cast<const struct crews *>(argument);
    np_kernels_cuda.fill(team, c->x, WORDS, 1.0f);
}

static int count_wrong(void)
{
    struct np_device gpu;
    struct np_crew_config config = {};
    struct np_stamp *stamp;
    struct crews c;
    int numbers[] = {0}, wrong = 0;
    config.size = 1;
    config.replies = config.watches = 1;
    config.reply_bytes = sizeof(float);
    ck_assert_int_eq(np_cuda_open(&gpu, numbers, 1, NULL), NP_OK);
    ck_assert_int_eq(np_crew_new(&c.reader, &gpu, &config, NULL), NP_OK);
    ck_assert_int_eq(np_crew_new(&c.writer, &gpu, &config, NULL), NP_OK);
    ck_assert_int_eq(np_stamp_new(&stamp, c.reader, NULL), NP_OK);
    ck_assert_int_eq(np_device_alloc(&gpu, &c.x, WORDS * sizeof(float), NULL), NP_OK);
    ck_assert_int_eq(np_device_alloc(&gpu, &c.y, WORDS * sizeof(float), NULL), NP_OK);
    for (int i = 0; i < 32; i++) {
        float y[WORDS], said = 0.0f;
        np_crew_run(c.writer, run_beginning, &c);
        ck_assert_int_eq(np_crew_finish(c.writer, NULL), NP_OK);
        c.reply = static_cast<float *>(np_crew_reply(c.reader, &said, sizeof said));
        np_crew_run(c.reader, run_reader, &c);
        np_crew_stamp(c.reader, stamp);
        np_crew_after(c.writer, stamp);
        np_crew_run(c.writer, run_writer, &c);
        ck_assert_int_eq(np_crew_finish(c.writer, NULL), NP_OK);
        ck_assert_int_eq(np_crew_finish(c.reader, NULL), NP_OK);
        wrong += said != 1.0f;
        ck_assert_int_eq(np_device_copy(&gpu, y, c.y, sizeof y, NULL), NP_OK);
        for (int j = 0; j < WORDS; j++)
            wrong += y[j] != 1.0f;
    }
    np_stamp_free(stamp, c.reader);
    np_crew_free(c.reader);
    np_crew_free(c.writer);
    np_device_release(&gpu, c.x);
    np_device_release(&gpu, c.y);
    return wrong;
}

START_TEST(crews_wait_for_stamps_and_replies)
{
    setenv("SHIM_SEED", _i ? "7" : "3", 1);
    ck_assert_int_eq(count_wrong(), 0);
}
END_TEST

START_TEST(a_crew_that_does_not_wait_for_a_stamp_shows)
{
    setenv("SHIM_SKIP", "cudaStreamWaitEvent", 1);
    ck_assert_int_gt(count_wrong(), 0);
}
END_TEST

START_TEST(a_reply_that_is_not_awaited_shows)
{
    setenv("SHIM_SKIP", "cudaEventSynchronize", 1);
    ck_assert_int_gt(count_wrong(), 0);
}
END_TEST

/* --- NCCL ----------------------------------------------------------------------------------- */

enum { RANKS = 2, BYTES = 64 };

struct ranks {
    ncclComm_t comm[RANKS];
    cudaStream_t stream[RANKS];
    cudaEvent_t told[RANKS]; /* in the stream, after what tell() has put there */
    char *sent[RANKS], *received[RANKS];
};

/* What the communicators come to. */
static ncclResult_t settle(const struct ranks *ranks)
{
    ncclResult_t state = ncclInProgress;
    for (int r = 0; r < RANKS; r++)
        for (int looks = 0; looks == 0 || (state == ncclInProgress && looks < 100); looks++)
            ncclCommGetAsyncError(ranks->comm[r], &state);
    return state;
}

static ncclResult_t connect(struct ranks *ranks, int devices)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    setenv("SHIM_DEVICES", "2", 1);
    config.blocking = 0;
    ncclGetUniqueId(&id);
    ncclGroupStart();
    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(cudaSetDevice(r % devices), cudaSuccess);
        cudaStreamCreateWithFlags(&ranks->stream[r], cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&ranks->told[r], cudaEventDisableTiming);
        cudaMalloc(reinterpret_cast<void **>(&ranks->sent[r]), BYTES);
        cudaMalloc(reinterpret_cast<void **>(&ranks->received[r]), BYTES);
        cudaMemsetAsync(ranks->sent[r], r + 1, BYTES, ranks->stream[r]);
        ncclCommInitRankConfig(&ranks->comm[r], RANKS, id, r, &config);
    }
    ncclGroupEnd();
    return settle(ranks);
}

static void forget(const struct ranks *ranks)
{
    for (cudaEvent_t told : ranks->told)
        cudaEventDestroy(told);
}

/* A rank sends or receives, in a group of its own. */
static void tell(const struct ranks *ranks, int rank, bool sends, size_t bytes)
{
    ncclGroupStart();
    if (sends)
        ncclSend(ranks->sent[rank], bytes, ncclChar, 1 - rank, ranks->comm[rank],
                 ranks->stream[rank]);
    else
        ncclRecv(ranks->received[rank], bytes, ncclChar, 1 - rank, ranks->comm[rank],
                 ranks->stream[rank]);
    ncclGroupEnd();
    ck_assert_int_eq(settle(ranks), ncclSuccess);
    cudaEventRecord(ranks->told[rank], ranks->stream[rank]);
}

static void look_at_streams(const struct ranks *ranks)
{
    for (int i = 0; i < 100; i++)
        cudaEventQuery(ranks->told[i % RANKS]);
}

START_TEST(a_send_meets_its_receive)
{
    struct ranks ranks;
    char *host;
    ck_assert_int_eq(connect(&ranks, RANKS), ncclSuccess);
    cudaMallocHost(reinterpret_cast<void **>(&host), BYTES);
    tell(&ranks, 0, true, BYTES);
    look_at_streams(&ranks);
    ck_assert_int_eq(cudaEventQuery(ranks.told[0]), cudaErrorNotReady);
    ck_assert_int_eq(cudaGetLastError(), cudaErrorNotReady); /* whoever asks is told again */
    tell(&ranks, 1, false, BYTES);
    cudaMemcpyAsync(host, ranks.received[1], BYTES, cudaMemcpyDeviceToHost, ranks.stream[1]);
    cudaStreamSynchronize(ranks.stream[1]);
    for (int i = 0; i < BYTES; i++)
        ck_assert_int_eq(host[i], 1);
    cudaStreamSynchronize(ranks.stream[0]);
    for (int r = 0; r < RANKS; r++)
        ncclCommFinalize(ranks.comm[r]);
    ck_assert_int_eq(settle(&ranks), ncclSuccess);
    for (int r = 0; r < RANKS; r++)
        ncclCommDestroy(ranks.comm[r]);
    cudaFreeHost(host);
    forget(&ranks);
}
END_TEST

START_TEST(two_ranks_on_a_device_are_refused)
{
    struct ranks ranks;
    ck_assert_int_eq(connect(&ranks, 1), ncclInvalidUsage);
    for (int r = 0; r < RANKS; r++)
        ncclCommAbort(ranks.comm[r]);
    forget(&ranks);
}
END_TEST

START_TEST(an_abort_ends_what_hangs)
{
    struct ranks ranks;
    ck_assert_int_eq(connect(&ranks, RANKS), ncclSuccess);
    tell(&ranks, 0, true, BYTES);
    look_at_streams(&ranks);
    for (int r = 0; r < RANKS; r++)
        ncclCommAbort(ranks.comm[r]);
    ck_assert_int_eq(cudaStreamSynchronize(ranks.stream[0]), cudaSuccess);
    forget(&ranks);
}
END_TEST

/* Both send first: neither receives before its own send is through. */
START_TEST(ranks_that_wait_for_each_other_are_reported)
{
    struct ranks ranks;
    ck_assert_int_eq(connect(&ranks, RANKS), ncclSuccess);
    for (int r = 0; r < RANKS; r++) {
        tell(&ranks, r, true, BYTES);
        tell(&ranks, r, false, BYTES);
    }
    look_at_streams(&ranks);
}
END_TEST

START_TEST(sizes_that_differ_are_reported)
{
    struct ranks ranks;
    ck_assert_int_eq(connect(&ranks, RANKS), ncclSuccess);
    tell(&ranks, 0, true, BYTES);
    tell(&ranks, 1, false, BYTES / 2);
    look_at_streams(&ranks);
}
END_TEST

START_TEST(a_buffer_under_way_that_is_written_is_reported)
{
    struct ranks ranks;
    cudaStream_t other;
    ck_assert_int_eq(connect(&ranks, RANKS), ncclSuccess);
    cudaSetDevice(0);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    tell(&ranks, 0, true, BYTES);
    look_at_streams(&ranks);
    cudaMemsetAsync(ranks.sent[0], 9, BYTES, other);
    cudaStreamSynchronize(other);
    tell(&ranks, 1, false, BYTES);
    look_at_streams(&ranks);
}
END_TEST

START_TEST(a_communicator_in_progress_is_not_used)
{
    struct ranks ranks;
    setenv("SHIM_HANG", "ncclCommInitRankConfig:1", 1);
    ck_assert_int_eq(connect(&ranks, RANKS), ncclSuccess); /* the other one has connected */
    ncclGroupStart();
    ncclSend(ranks.sent[0], BYTES, ncclChar, 1, ranks.comm[0], ranks.stream[0]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shim");
    TCase *tests = suite_case(suite, "shim");
    tcase_add_test(tests, a_missing_barrier_shows);
    tcase_add_test(tests, a_store_that_overtakes_shows);
    tcase_add_test(tests, memory_that_nobody_wrote_is_no_number);
    tcase_add_test(tests, warps_and_blocks_exchange);
    tcase_add_test_raise_signal(tests, a_barrier_that_not_all_reach_is_reported, SIGABRT);
    tcase_add_test_raise_signal(tests, different_barriers_are_reported, SIGABRT);
    tcase_add_test_raise_signal(tests, lanes_that_part_are_reported, SIGABRT);
    tcase_add_test_raise_signal(tests, a_warp_that_is_not_whole_is_reported, SIGABRT);
    tcase_add_test_raise_signal(tests, too_much_shared_memory_is_reported, SIGABRT);
#ifdef __SANITIZE_ADDRESS__
    tcase_add_exit_test(tests, an_access_beyond_an_array_is_reported, 1);
#endif
    TCase *runtime = suite_case(suite, "runtime");
    tcase_add_test(runtime, a_missing_event_wait_shows);
    tcase_add_test(runtime, a_missing_synchronisation_shows);
    tcase_add_test(runtime, new_memory_is_no_number);
    tcase_add_test(runtime, memory_is_limited);
    tcase_add_test(runtime, a_call_fails_when_told_to);
    tcase_add_test(runtime, a_stream_of_another_device_launches_nothing);
#ifdef __SANITIZE_ADDRESS__
    tcase_add_exit_test(runtime, the_host_has_no_access, 1);
#else
    tcase_add_test_raise_signal(runtime, the_host_has_no_access, SIGSEGV);
#endif
    TCase *crews = suite_case(suite, "crews");
    tcase_add_loop_test(crews, crews_wait_for_stamps_and_replies, 0, 2);
    tcase_add_test(crews, a_crew_that_does_not_wait_for_a_stamp_shows);
    tcase_add_test(crews, a_reply_that_is_not_awaited_shows);
    TCase *nccl = suite_case(suite, "nccl");
    tcase_add_test(nccl, a_send_meets_its_receive);
    tcase_add_test(nccl, two_ranks_on_a_device_are_refused);
    tcase_add_test(nccl, an_abort_ends_what_hangs);
    tcase_add_test_raise_signal(nccl, ranks_that_wait_for_each_other_are_reported, SIGABRT);
    tcase_add_test_raise_signal(nccl, sizes_that_differ_are_reported, SIGABRT);
    tcase_add_test_raise_signal(nccl, a_buffer_under_way_that_is_written_is_reported, SIGABRT);
    tcase_add_test_raise_signal(nccl, a_communicator_in_progress_is_not_used, SIGABRT);
    return suite_run(suite);
}
