/* Races are reported whichever way the work is done, and what is ordered is not: by each of the
 * ways there are to order it. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include "cuda_runtime.h"

extern "C" {
#include "suite.h"
}

enum { WORDS = 64, BYTES = WORDS * sizeof(uint32_t), SEEDS = 4, STREAMS = 3 };

/* Two words of the device for each thread: x is what streams meet at, y what they keep to
 * themselves. */
struct scene {
    cudaStream_t stream[STREAMS];
    cudaEvent_t event[STREAMS];
    uint32_t *x, *y, *pinned;
};

static struct scene begin(int seed)
{
    static const char *const seeds[SEEDS] = {"1", "2", "3", "4"};
    struct scene s;
    setenv("SHIM_SEED", seeds[seed % SEEDS], 1);
    ck_assert_int_eq(cudaSetDevice(0), cudaSuccess);
    for (int i = 0; i < STREAMS; i++) {
        cudaStreamCreateWithFlags(&s.stream[i], cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&s.event[i], cudaEventDisableTiming);
    }
    cudaMalloc(reinterpret_cast<void **>(&s.x), BYTES);
    cudaMalloc(reinterpret_cast<void **>(&s.y), STREAMS * BYTES);
    cudaMallocHost(reinterpret_cast<void **>(&s.pinned), BYTES);
    return s;
}

static void end(const struct scene *s)
{
    for (int i = 0; i < STREAMS; i++)
        ck_assert_int_eq(cudaStreamSynchronize(s->stream[i]), cudaSuccess);
    for (int i = 0; i < STREAMS; i++) {
        cudaEventDestroy(s->event[i]);
        cudaStreamDestroy(s->stream[i]);
    }
    cudaFree(s->x);
    cudaFree(s->y);
    cudaFreeHost(s->pinned);
}

static void store(uint32_t *to, uint32_t value)
{
    to[threadIdx.x] = value;
}

static void load(uint32_t *to, const uint32_t *from)
{
    to[threadIdx.x] = from[threadIdx.x];
}

static void add_one(uint32_t *to)
{
    atomicAdd(&to[threadIdx.x], 1u);
}

enum access { COPIES_FROM, LOADS, COPIES_TO, CLEARS, STORES, ADDS, ACCESSES, READS = COPIES_TO };

/* What stream i does with x. */
static void touch(const struct scene *s, int i, enum access access)
{
    uint32_t *mine = s->y + i * WORDS;
    switch (access) {
    case COPIES_FROM:
        cudaMemcpyAsync(mine, s->x, BYTES, cudaMemcpyDeviceToDevice, s->stream[i]);
        break;
    case COPIES_TO:
        cudaMemcpyAsync(s->x, mine, BYTES, cudaMemcpyDeviceToDevice, s->stream[i]);
        break;
    case CLEARS:
        cudaMemsetAsync(s->x, 0, BYTES, s->stream[i]);
        break;
    case LOADS:
        SHIM_LAUNCH(load, 1, WORDS, 0, s->stream[i], mine, s->x);
        break;
    case STORES:
        SHIM_LAUNCH(store, 1, WORDS, 0, s->stream[i], s->x, 7u);
        break;
    default:
        SHIM_LAUNCH(add_one, 1, WORDS, 0, s->stream[i], s->x);
    }
}

/* Stream i comes after what stream j has been told. */
static void after(const struct scene *s, int i, int j)
{
    cudaEventRecord(s->event[j], s->stream[j]);
    cudaStreamWaitEvent(s->stream[i], s->event[j], 0);
}

/* --- what is in no order -------------------------------------------------------------------- */

/* Each access with each other, but for two reads (main): whichever seed. */
START_TEST(streams_that_do_not_wait_race)
{
    enum access first = (enum access)(_i / ACCESSES), second = (enum access)(_i % ACCESSES);
    struct scene s = begin(_i);
    touch(&s, 0, first);
    touch(&s, 1, second);
    end(&s);
}
END_TEST

START_TEST(what_is_told_after_the_record_is_not_waited_for)
{
    struct scene s = begin(_i);
    cudaEventRecord(s.event[0], s.stream[0]);
    touch(&s, 0, STORES);
    cudaStreamWaitEvent(s.stream[1], s.event[0], 0);
    touch(&s, 1, LOADS);
    end(&s);
}
END_TEST

START_TEST(a_record_that_comes_after_the_wait_is_not_waited_for)
{
    struct scene s = begin(_i);
    cudaEventRecord(s.event[0], s.stream[0]);
    cudaStreamWaitEvent(s.stream[1], s.event[0], 0);
    touch(&s, 0, STORES);
    cudaEventRecord(s.event[0], s.stream[0]);
    cudaStreamSynchronize(s.stream[0]);
    touch(&s, 1, LOADS); /* which does know of it: it was told when the host knew */
    touch(&s, 0, STORES);
    cudaEventRecord(s.event[0], s.stream[0]);
    touch(&s, 1, LOADS);
    end(&s);
}
END_TEST

/* Of two who read, the writer has waited for one. */
START_TEST(every_reader_counts)
{
    struct scene s = begin(_i);
    touch(&s, 0, LOADS);
    touch(&s, 1, LOADS);
    after(&s, 2, _i % 2);
    touch(&s, 2, STORES);
    end(&s);
}
END_TEST

START_TEST(the_host_looks_too_soon)
{
    struct scene s = begin(_i);
    cudaMemsetAsync(s.x, 0, BYTES, s.stream[0]);
    cudaMemcpyAsync(s.pinned, s.x, BYTES, cudaMemcpyDeviceToHost, s.stream[0]);
    ck_assert_uint_ne(*s.pinned, 1);
    end(&s);
}
END_TEST

START_TEST(the_source_of_a_copy_is_used_again_too_soon)
{
    struct scene s = begin(_i);
    for (int i = 0; i < 2; i++)
        cudaMemcpyAsync(s.x, s.pinned, BYTES, cudaMemcpyHostToDevice, s.stream[0]);
    end(&s);
}
END_TEST

/* Within the gap that every block has behind it, by a thread or by a copy; where one that was given
 * back has been. */
START_TEST(what_nobody_has_taken_is_out_of_bounds)
{
    struct scene s = begin(_i);
    if (_i % 4 == 0)
        SHIM_LAUNCH(store, 1, WORDS, 0, s.stream[0], s.x + 1, 7u);
    else if (_i % 4 == 1)
        SHIM_LAUNCH(load, 1, WORDS, 0, s.stream[0], s.y, s.pinned + 1);
    else if (_i % 4 == 2)
        cudaMemcpyAsync(s.y, s.x, BYTES + 1, cudaMemcpyDeviceToDevice, s.stream[0]);
    else if (cudaFree(s.x) == cudaSuccess)
        SHIM_LAUNCH(load, 1, WORDS, 0, s.stream[0], s.y, s.x);
    cudaStreamSynchronize(s.stream[0]);
}
END_TEST

START_TEST(memory_is_given_back_too_soon)
{
    struct scene s = begin(_i);
    cudaMemcpyAsync(s.x, s.pinned, BYTES, cudaMemcpyHostToDevice, s.stream[0]);
    if (_i % 2)
        cudaFree(s.x);
    else
        cudaFreeHost(s.pinned);
    cudaStreamSynchronize(s.stream[0]);
}
END_TEST

/* --- what is in order ----------------------------------------------------------------------- */

static void by_its_stream(const struct scene *)
{
}

static void by_an_event(const struct scene *s)
{
    after(s, 1, 0);
}

static void by_a_third_stream(const struct scene *s)
{
    after(s, 2, 0);
    after(s, 1, 2);
}

static void by_stream_synchronisation(const struct scene *s)
{
    cudaStreamSynchronize(s->stream[0]);
}

static void by_event_synchronisation(const struct scene *s)
{
    cudaEventRecord(s->event[0], s->stream[0]);
    cudaEventSynchronize(s->event[0]);
}

static void by_looking(const struct scene *s)
{
    cudaEventRecord(s->event[0], s->stream[0]);
    while (cudaEventQuery(s->event[0]) != cudaSuccess)
        continue;
}

static void (*const orders[])(const struct scene *) = {by_its_stream,
                                                       by_an_event,
                                                       by_a_third_stream,
                                                       by_stream_synchronisation,
                                                       by_event_synchronisation,
                                                       by_looking};
static const int ORDERS = sizeof orders / sizeof *orders;

START_TEST(what_is_ordered_is_no_race)
{
    void (*order)(const struct scene *) = orders[_i % ORDERS];
    int other = order != by_its_stream;
    struct scene s = begin(_i / ORDERS);
    for (int first = 0; first < ACCESSES; first++)
        for (int second = 0; second < ACCESSES; second++) {
            touch(&s, 0, (enum access)first);
            order(&s);
            touch(&s, other, (enum access)second);
            after(&s, 0, other);
        }
    end(&s);
}
END_TEST

START_TEST(readers_and_neighbours_do_not_race)
{
    struct scene s = begin(_i);
    cudaMemsetAsync(s.x, 0, BYTES, s.stream[0]);
    after(&s, 1, 0);
    after(&s, 2, 0);
    for (int i = 0; i < STREAMS; i++)
        touch(&s, i, LOADS);
    for (int i = 0; i < STREAMS; i++)
        SHIM_LAUNCH(store, 1, WORDS, 0, s.stream[i], s.y + i * WORDS, 1u);
    after(&s, 0, 1);
    after(&s, 0, 2);
    touch(&s, 0, STORES);
    end(&s);
}
END_TEST

START_TEST(the_host_looks_and_writes_in_time)
{
    struct scene s = begin(_i);
    for (uint32_t turn = 0; turn < 8; turn++) {
        for (int i = 0; i < WORDS; i++)
            s.pinned[i] = turn;
        cudaMemcpyAsync(s.x, s.pinned, BYTES, cudaMemcpyHostToDevice, s.stream[0]);
        touch(&s, 0, ADDS);
        after(&s, 1, 0);
        cudaMemcpyAsync(s.pinned, s.x, BYTES, cudaMemcpyDeviceToHost, s.stream[1]);
        cudaStreamSynchronize(s.stream[1]);
        ck_assert_uint_eq(s.pinned[WORDS - 1], turn + 1);
    }
    end(&s);
}
END_TEST

/* Memory that is given back and taken again is new. */
START_TEST(memory_that_is_taken_again_is_nobodys)
{
    struct scene s = begin(_i);
    uint32_t *x = s.x;
    touch(&s, 0, STORES);
    cudaStreamSynchronize(s.stream[0]);
    cudaFree(s.x);
    cudaMalloc(reinterpret_cast<void **>(&s.x), BYTES);
    ck_assert_ptr_eq(s.x, x);
    touch(&s, 1, STORES);
    end(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("races");
    TCase *tests = suite_case(suite, "races");
    for (int first = 0; first < ACCESSES; first++)
        tcase_add_loop_test_raise_signal(tests, streams_that_do_not_wait_race, SIGABRT,
                                         first * ACCESSES + (first < READS ? READS : 0),
                                         (first + 1) * ACCESSES);
    tcase_add_loop_test_raise_signal(tests, what_is_told_after_the_record_is_not_waited_for,
                                     SIGABRT, 0, SEEDS);
    tcase_add_loop_test_raise_signal(tests, a_record_that_comes_after_the_wait_is_not_waited_for,
                                     SIGABRT, 0, SEEDS);
    tcase_add_loop_test_raise_signal(tests, every_reader_counts, SIGABRT, 0, SEEDS);
    tcase_add_loop_test_raise_signal(tests, the_host_looks_too_soon, SIGABRT, 0, SEEDS);
    tcase_add_loop_test_raise_signal(tests, the_source_of_a_copy_is_used_again_too_soon, SIGABRT, 0,
                                     SEEDS);
    tcase_add_loop_test_raise_signal(tests, memory_is_given_back_too_soon, SIGABRT, 0, SEEDS);
    tcase_add_loop_test_raise_signal(tests, what_nobody_has_taken_is_out_of_bounds, SIGABRT, 0,
                                     4 * SEEDS);
    tcase_add_loop_test(tests, what_is_ordered_is_no_race, 0, ORDERS * SEEDS);
    tcase_add_loop_test(tests, readers_and_neighbours_do_not_race, 0, SEEDS);
    tcase_add_loop_test(tests, the_host_looks_and_writes_in_time, 0, SEEDS);
    tcase_add_loop_test(tests, memory_that_is_taken_again_is_nobodys, 0, SEEDS);
    return suite_run_apart(suite);
}
