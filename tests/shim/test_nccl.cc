/* The shim's NCCL: sends meet their receives, and what is used in a wrong way is reported. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include "nccl.h"

extern "C" {
#include "suite.h"
}

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

static void end(const struct ranks *ranks)
{
    for (ncclComm_t comm : ranks->comm)
        ncclCommFinalize(comm);
    ck_assert_int_eq(settle(ranks), ncclSuccess);
    for (ncclComm_t comm : ranks->comm)
        ncclCommDestroy(comm);
    forget(ranks);
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
    end(&ranks);
    cudaFreeHost(host);
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

/* A rank receives in memory of its device's pool, which the other one may write if it is shared. */
static void receive_in_pool(bool shared)
{
    struct ranks ranks;
    void *pooled;
    cudaMemPool_t pool;
    cudaMemAccessDesc access = {};
    ck_assert_int_eq(connect(&ranks, RANKS), ncclSuccess);
    cudaSetDevice(1);
    cudaMallocAsync(&pooled, BYTES, ranks.stream[1]);
    ranks.received[1] = static_cast<char *>(pooled);
    cudaDeviceGetDefaultMemPool(&pool, 1);
    if (shared)
        ck_assert_int_eq(cudaMemPoolSetAccess(pool, &access, 1), cudaSuccess);
    tell(&ranks, 0, true, BYTES);
    tell(&ranks, 1, false, BYTES);
    ck_assert_int_eq(cudaStreamSynchronize(ranks.stream[1]), cudaSuccess);
    ck_assert_int_eq(cudaStreamSynchronize(ranks.stream[0]), cudaSuccess);
    end(&ranks);
}

START_TEST(a_pool_that_is_shared_is_received_in)
{
    receive_in_pool(true);
}
END_TEST

START_TEST(a_pool_that_is_not_shared_is_reported)
{
    receive_in_pool(false);
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
    Suite *suite = suite_create("nccl");
    TCase *nccl = suite_case(suite, "nccl");
    tcase_add_test(nccl, a_send_meets_its_receive);
    tcase_add_test(nccl, two_ranks_on_a_device_are_refused);
    tcase_add_test(nccl, an_abort_ends_what_hangs);
    tcase_add_test_raise_signal(nccl, ranks_that_wait_for_each_other_are_reported, SIGABRT);
    tcase_add_test_raise_signal(nccl, sizes_that_differ_are_reported, SIGABRT);
    tcase_add_test_raise_signal(nccl, a_buffer_under_way_that_is_written_is_reported, SIGABRT);
    tcase_add_test(nccl, a_pool_that_is_shared_is_received_in);
    tcase_add_test_raise_signal(nccl, a_pool_that_is_not_shared_is_reported, SIGABRT);
    tcase_add_test_raise_signal(nccl, a_communicator_in_progress_is_not_used, SIGABRT);
    return suite_run_apart(suite);
}
