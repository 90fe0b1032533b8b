/* The shim runs kernels as a GPU does, and faults that are planted here are caught: a barrier that
 * is missing or that not all reach, lanes that part, threads that race, shared memory read before
 * it is written, or beyond its end, or too much of it; and what the runtime refuses.
 */
#include <check.h>
#include <math.h>
#include <signal.h>

#include "cuda_runtime.h"

extern "C" {
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
    SHIM_LAUNCH(kernel, BLOCKS, THREADS, 0, nullptr, y, x);
    for (int i = 0; i < COUNT; i++)
        right = right && y[i] == x[i - i % THREADS + (i + 1) % THREADS];
    return right;
}

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

/* Each twice, as the order of threads changes from launch to launch. */
START_TEST(what_has_its_barriers_is_right)
{
    for (int i = 0; i < 2; i++) {
        ck_assert(rotated(rotate<true>));
        ck_assert(rotated(overtake<true>));
    }
}
END_TEST

START_TEST(a_missing_barrier_is_reported)
{
    rotated(_i ? overtake<false> : rotate<false>);
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
        SHIM_LAUNCH(untouched, BLOCKS, THREADS, 0, nullptr, y, nullptr);
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
    SHIM_LAUNCH(warp_functions, BLOCKS, THREADS, 0, nullptr, &right);
    ck_assert_uint_eq(right, COUNT);
}
END_TEST

/* --- races in shared memory ----------------------------------------------------------------- */

enum meeting { OF_NOBODY, OF_THE_WARP, OF_THE_BLOCK, BY_A_WORD, BY_A_VOTE, MEETINGS };

static void meet(enum meeting meeting)
{
    if (meeting == OF_THE_WARP)
        __syncwarp();
    else if (meeting == OF_THE_BLOCK)
        __syncthreads();
    else if (meeting == BY_A_WORD)
        (void)__shfl_sync(0xffffffffu, threadIdx.x, 0);
    else if (meeting == BY_A_VOTE)
        (void)__any_sync(0xffffffffu, 1);
}

enum access { LOAD, STORE, ACCESSES };

static void touch(volatile float *word, enum access access)
{
    if (access == LOAD)
        (void)*word;
    else
        *word = 1.0f;
}

/* Of the block's threads `last` stores a word, or it and all before it load it; and after a meeting
 * one more accesses it. */
struct pair {
    enum access before, after;
    enum meeting meeting;
    unsigned last, one;
};
enum { PAIRS = ACCESSES * ACCESSES * MEETINGS * 3 * 2 };

/* One thread, several of its warp, several warps; and one of the first warp, or another. */
static struct pair pair_of(int number)
{
    static const unsigned lasts[] = {0, 5, 40}, ones[] = {9, 70};
    int accesses = number % (ACCESSES * ACCESSES), others = number / (ACCESSES * ACCESSES);
    struct pair p = {(enum access)(accesses % ACCESSES), (enum access)(accesses / ACCESSES),
                     (enum meeting)(others % MEETINGS), lasts[others / MEETINGS % 3],
                     ones[others / MEETINGS / 3]};
    return p;
}

static bool is_race(struct pair p)
{
    bool of_warp = p.last < 32 && p.one < 32;
    bool ordered = p.meeting == OF_THE_BLOCK || (p.meeting == OF_THE_WARP && of_warp);
    return !ordered && (p.before == STORE || p.after == STORE);
}

static void access_twice(struct pair p)
{
    NP_SHARED(float, part, [2]);
    if (threadIdx.x == p.last || (p.before == LOAD && threadIdx.x < p.last))
        touch(&part[1], p.before);
    meet(p.meeting);
    if (threadIdx.x == p.one)
        touch(&part[1], p.after);
}

static void nothing(void)
{
}

/* In both orders of threads. */
START_TEST(what_no_barrier_orders_races)
{
    if (_i % 2)
        SHIM_LAUNCH(nothing, 1, 1, 0, nullptr);
    SHIM_LAUNCH(access_twice, BLOCKS, THREADS, 0, nullptr, pair_of(_i / 2));
}
END_TEST

START_TEST(what_a_barrier_orders_is_no_race)
{
    struct pair p = pair_of(_i);
    for (int turn = 0; turn < 2 && !is_race(p); turn++)
        SHIM_LAUNCH(access_twice, BLOCKS, THREADS, 0, nullptr, p);
}
END_TEST

static void part_of_block(void)
{
    if (threadIdx.x < 32)
        __syncthreads();
}

START_TEST(a_barrier_that_not_all_reach_is_reported)
{
    SHIM_LAUNCH(part_of_block, BLOCKS, THREADS, 0, nullptr);
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
    SHIM_LAUNCH(two_barriers, BLOCKS, THREADS, 0, nullptr);
}
END_TEST

static void part_of_warp(void)
{
    if (threadIdx.x % 32 < 16)
        __syncwarp();
}

START_TEST(lanes_that_part_are_reported)
{
    SHIM_LAUNCH(part_of_warp, BLOCKS, THREADS, 0, nullptr);
}
END_TEST

static void half_a_warp(void)
{
    __syncwarp();
}

START_TEST(a_warp_that_is_not_whole_is_reported)
{
    SHIM_LAUNCH(half_a_warp, BLOCKS, THREADS + 16, 0, nullptr);
}
END_TEST

static void large(void)
{
    NP_SHARED(float, part, [13 << 10]);
    part[threadIdx.x] = 0.0f;
}

START_TEST(too_much_shared_memory_is_reported)
{
    SHIM_LAUNCH(large, BLOCKS, THREADS, 0, nullptr);
}
END_TEST

static void asks(void)
{
    NP_SHARED(float, part, [1 << 10]);
    NP_SHARED_DYNAMIC(float, more);
    part[threadIdx.x] = more[threadIdx.x] = 0.0f;
}

START_TEST(what_a_kernel_is_allowed_it_has)
{
    SHIM_LAUNCH(asks, 1, THREADS, 44 << 10, nullptr);
    ck_assert_int_eq(
        cudaFuncSetAttribute(asks, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10),
        cudaSuccess);
    SHIM_LAUNCH(asks, 1, THREADS, 64 << 10, nullptr);
    ck_assert_int_eq(
        cudaFuncSetAttribute(asks, cudaFuncAttributeMaxDynamicSharedMemorySize, 164 << 10),
        cudaErrorInvalidValue);
}
END_TEST

START_TEST(shared_memory_that_was_not_allowed_is_reported)
{
    SHIM_LAUNCH(asks, 1, THREADS, _i ? 64 << 10 : 46 << 10, nullptr);
}
END_TEST

START_TEST(a_grid_that_is_too_large_is_reported)
{
    setenv("SHIM_GRID", "2", 1);
    SHIM_LAUNCH(nothing, dim3(9, 2, 2), 1, 0, nullptr);
    SHIM_LAUNCH(nothing, _i ? dim3(1, 3) : dim3(1, 1, 3), 1, 0, nullptr);
}
END_TEST

static void beyond(float *y, int more)
{
    NP_SHARED(float, part, [THREADS]);
    float *p = part;
    p[(int)threadIdx.x + more] = 1.0f;
    __syncthreads();
    y[threadIdx.x] = part[threadIdx.x];
}

START_TEST(an_access_beyond_an_array_is_reported)
{
    static const int more[] = {1, 8, 16, -1};
    float y[THREADS];
    SHIM_LAUNCH(beyond, 1, THREADS, 0, nullptr, y, more[_i]);
}
END_TEST

/* --- the runtime ---------------------------------------------------------------------------- */

enum { WORDS = 64 };

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
        SHIM_LAUNCH(add_one, 1, WORDS, 0, stream, words);
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
    SHIM_LAUNCH(add_one, 1, WORDS, 0, stream, words);
    ck_assert_int_eq(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    cudaStreamDestroy(stream);
    cudaFree(words);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shim");
    TCase *tests = suite_case(suite, "shim");
    tcase_add_test(tests, what_has_its_barriers_is_right);
    tcase_add_loop_test_raise_signal(tests, a_missing_barrier_is_reported, SIGABRT, 0, 2);
    tcase_add_test(tests, memory_that_nobody_wrote_is_no_number);
    tcase_add_test(tests, warps_and_blocks_exchange);
    for (int i = 0; i < 2 * PAIRS; i++)
        if (is_race(pair_of(i / 2)))
            tcase_add_loop_test_raise_signal(tests, what_no_barrier_orders_races, SIGABRT, i,
                                             i + 1);
    tcase_add_loop_test(tests, what_a_barrier_orders_is_no_race, 0, PAIRS);
    tcase_add_test_raise_signal(tests, a_barrier_that_not_all_reach_is_reported, SIGABRT);
    tcase_add_test_raise_signal(tests, different_barriers_are_reported, SIGABRT);
    tcase_add_test_raise_signal(tests, lanes_that_part_are_reported, SIGABRT);
    tcase_add_test_raise_signal(tests, a_warp_that_is_not_whole_is_reported, SIGABRT);
    tcase_add_test_raise_signal(tests, too_much_shared_memory_is_reported, SIGABRT);
    tcase_add_test(tests, what_a_kernel_is_allowed_it_has);
    tcase_add_loop_test_raise_signal(tests, shared_memory_that_was_not_allowed_is_reported, SIGABRT,
                                     0, 2);
    tcase_add_loop_test_raise_signal(tests, a_grid_that_is_too_large_is_reported, SIGABRT, 0, 2);
    tcase_add_loop_test_raise_signal(tests, an_access_beyond_an_array_is_reported, SIGABRT, 0, 4);
    TCase *runtime = suite_case(suite, "runtime");
    tcase_add_test(runtime, new_memory_is_no_number);
    tcase_add_test(runtime, memory_is_limited);
    tcase_add_test(runtime, a_call_fails_when_told_to);
    tcase_add_test(runtime, a_stream_of_another_device_launches_nothing);
    tcase_add_test_raise_signal(runtime, the_host_has_no_access, SIGSEGV);
    return suite_run_apart(suite);
}
