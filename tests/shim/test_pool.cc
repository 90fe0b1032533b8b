/* Memory of a device's pool is taken and given back in the order of a stream, which others are to
 * wait for; devices take and give back theirs while work is under way (cuda/cuda_device.cu).
 */
#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include "cuda_runtime.h"

extern "C" {
#include "cuda/cuda_device.h"
#include "suite.h"
}

enum { BYTES = 256, STREAMS = 2, SEEDS = 2 };

struct scene {
    cudaStream_t stream[STREAMS];
    cudaEvent_t event;
    void *block;
};

/* A block that the first stream has taken. */
static struct scene begin(int seed)
{
    struct scene s;
    setenv("SHIM_SEED", seed ? "7" : "3", 1);
    ck_assert_int_eq(cudaSetDevice(0), cudaSuccess);
    for (cudaStream_t &stream : s.stream)
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&s.event, cudaEventDisableTiming);
    ck_assert_int_eq(cudaMallocAsync(&s.block, BYTES, s.stream[0]), cudaSuccess);
    return s;
}

static void end(const struct scene *s)
{
    for (cudaStream_t stream : s->stream) {
        ck_assert_int_eq(cudaStreamSynchronize(stream), cudaSuccess);
        cudaStreamDestroy(stream);
    }
    cudaEventDestroy(s->event);
}

/* Stream `to` comes after what the other one has been told. */
static void after(const struct scene *s, int to)
{
    cudaEventRecord(s->event, s->stream[1 - to]);
    cudaStreamWaitEvent(s->stream[to], s->event, 0);
}

START_TEST(streams_that_wait_share_a_block)
{
    struct scene s = begin(_i);
    after(&s, 1);
    cudaMemsetAsync(s.block, 1, BYTES, s.stream[1]);
    after(&s, 0);
    ck_assert_int_eq(cudaFreeAsync(s.block, s.stream[0]), cudaSuccess);
    end(&s);
    ck_assert_int_eq(cudaFreeAsync(s.block, NULL), cudaErrorInvalidValue);
    ck_assert_int_eq(cudaGetLastError(), cudaErrorInvalidValue);
}
END_TEST

START_TEST(a_block_is_used_before_it_is_taken)
{
    struct scene s = begin(_i);
    cudaMemsetAsync(s.block, 1, BYTES, s.stream[1]);
    end(&s);
}
END_TEST

START_TEST(a_block_is_given_back_too_soon)
{
    struct scene s = begin(_i);
    after(&s, 1);
    cudaMemsetAsync(s.block, 1, BYTES, s.stream[1]);
    cudaFreeAsync(s.block, s.stream[0]);
    end(&s);
}
END_TEST

/* The pool sees to it that who has a block next comes after who gave it back. */
START_TEST(a_block_that_is_taken_again_is_nobodys)
{
    void *again;
    setenv("SHIM_MEMORY", "256", 1);
    struct scene s = begin(_i);
    cudaFreeAsync(s.block, s.stream[0]);
    while (cudaMallocAsync(&again, BYTES, s.stream[1]) != cudaSuccess)
        cudaEventQuery(s.event); /* time passes, and nothing is learnt */
    ck_assert_ptr_eq(again, s.block);
    end(&s);
}
END_TEST

/* --- devices -------------------------------------------------------------------------------- */

static bool held = true;

static bool is_let_go(struct shim_work *)
{
    return !held;
}

/* A device's memory comes and goes while a stream works, and what is taken next has its room. */
START_TEST(a_device_waits_for_no_work)
{
    struct np_device gpu;
    int number = 0;
    setenv("SHIM_MEMORY", "1000", 1);
    ck_assert_int_eq(np_cuda_open(&gpu, &number, 1, NULL), NP_OK);
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    struct shim_work *work = static_cast<struct shim_work *>(calloc(1, sizeof *work));
    work->ready = is_let_go;
    work->name = "what takes long";
    shim_post(stream, work);
    for (int i = 0; i < 4; i++) {
        void *block;
        ck_assert_int_eq(np_device_alloc(&gpu, &block, 600 + (uint64_t)i, NULL), NP_OK);
        np_device_release(&gpu, block);
    }
    held = false;
    ck_assert_int_eq(cudaStreamSynchronize(stream), cudaSuccess);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *tests = suite_case(suite, "pool");
    tcase_add_loop_test(tests, streams_that_wait_share_a_block, 0, SEEDS);
    tcase_add_loop_test(tests, a_block_that_is_taken_again_is_nobodys, 0, SEEDS);
    tcase_add_loop_test_raise_signal(tests, a_block_is_used_before_it_is_taken, SIGABRT, 0, SEEDS);
    tcase_add_loop_test_raise_signal(tests, a_block_is_given_back_too_soon, SIGABRT, 0, SEEDS);
    tcase_add_loop_test(tests, a_device_waits_for_no_work, 0, SEEDS);
    return suite_run_apart(suite);
}
