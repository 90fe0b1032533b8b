/* Kernels on the first GPU, rows as in row.h: matrix products beside cuBLAS in fp32 (without TF32)
 * and beside a loop of register-only fused multiply-adds; what moves memory beside a copy. Medians
 * of several runs. A product whose bits are not a processor's ends it with 1.
 *
 *   bench_gpu
 */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>

extern "C" {
#include "base/memory.h"
#include "cuda/cuda_team.h"
}
#include "row.h"

enum {
    RUNS = 9,
    MOST = 4096 * 4096, /* elements of a matrix */
    SCRATCH = 64 << 20, /* bytes */
    CHAINS = 8,
    LINKS = 4096, /* of a chain of multiply-adds */
    COLS = 1024,
    ROWS = MOST / COLS
};

struct shape {
    size_t m, n, k;
};

static const struct shape shapes[] = {{2048, 512, 512},   {2048, 2048, 512},  {2048, 512, 2048},
                                      {512, 2048, 2048},  {8192, 1024, 1024}, {8192, 2048, 1024},
                                      {1024, 4096, 4096}, {4096, 4096, 4096}};
static const char *const transposes[] = {"nn", "nt", "tn"};

struct bench {
    struct np_cuda_team team;
    cudaEvent_t begin, end;
    cublasHandle_t cublas;
    float *a, *b, *c; /* [MOST] of the GPU */
    float *host_a, *host_b, *host_c, *host_found;
    double peak, bandwidth; /* GFLOP/s, GB/s */
};

static void must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "bench_gpu: error: %s: %s\n", what, cudaGetErrorString(error));
    exit(2);
}

/* Median milliseconds of a call, after one that does not count. */
template <class Call> static double median_ms(struct bench *b, const Call &call)
{
    double ms[RUNS];
    for (int run = -1; run < RUNS; run++) {
        float took;
        must(cudaEventRecord(b->begin, b->team.stream), "event");
        call();
        must(cudaEventRecord(b->end, b->team.stream), "event");
        must(cudaEventSynchronize(b->end), "a kernel");
        must(cudaEventElapsedTime(&took, b->begin, b->end), "event");
        if (run >= 0)
            ms[run] = took;
    }
    std::sort(ms, ms + RUNS);
    return ms[RUNS / 2];
}

static __global__ void chains(float *out, float x)
{
    float v[CHAINS];
    for (int c = 0; c < CHAINS; c++)
        v[c] = (float)(threadIdx.x + c);
    for (int i = 0; i < LINKS; i++)
#pragma unroll
        for (int c = 0; c < CHAINS; c++)
            v[c] = fmaf(v[c], x, x);
    for (int c = 1; c < CHAINS; c++)
        v[0] += v[c];
    out[blockIdx.x * blockDim.x + threadIdx.x] = v[0];
}

static void find_limits(struct bench *b)
{
    int processors = 0, blocks, threads = 512;
    size_t bytes = (size_t)MOST * sizeof(float);
    must(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), "device");
    blocks = processors * 16;
    double ms = median_ms(b, [&] { chains<<<blocks, threads, 0, b->team.stream>>>(b->c, 0.5f); });
    b->peak = 2e-6 * (double)(CHAINS * LINKS) * blocks * threads / ms;
    ms = median_ms(b, [&] {
        must(cudaMemcpyAsync(b->c, b->a, bytes, cudaMemcpyDeviceToDevice, b->team.stream), "copy");
    });
    b->bandwidth = 2e-6 * (double)bytes / ms;
    bench_row("peak of fp32, measured", b->peak, "GFLOP/s", 0, NULL);
    bench_row("copy within the GPU's memory", b->bandwidth, "GB/s", 0, NULL);
}

static struct np_matmul product(struct shape s, const char *t)
{
    struct np_matmul mm = {};
    mm.m = s.m;
    mm.n = s.n;
    mm.k = s.k;
    mm.a_trans = t[0] == 't';
    mm.b_trans = t[1] == 't';
    mm.lda = mm.a_trans ? s.m : s.k;
    mm.ldb = mm.b_trans ? s.k : s.n;
    mm.ldc = s.n;
    return mm;
}

/* C = op(A) op(B) by rows is C' = op(B)' op(A)' by columns. */
static void theirs(struct bench *b, const struct np_matmul *mm)
{
    const float one = 1, none = 0;
    cublasStatus_t status =
        cublasSgemm(b->cublas, mm->b_trans ? CUBLAS_OP_T : CUBLAS_OP_N,
                    mm->a_trans ? CUBLAS_OP_T : CUBLAS_OP_N, (int)mm->n, (int)mm->m, (int)mm->k,
                    &one, mm->b, (int)mm->ldb, mm->a, (int)mm->lda, &none, b->c, (int)mm->ldc);
    if (status != CUBLAS_STATUS_SUCCESS) {
        fprintf(stderr, "bench_gpu: error: cublasSgemm: status %d\n", (int)status);
        exit(2);
    }
}

/* The first rows of the product, by the processor and by the GPU, bit for bit. */
static void check(struct bench *b, struct np_matmul mm, const char *name)
{
    struct np_matmul here = mm;
    struct np_team alone = {};
    alone.size = 1;
    alone.scratch_bytes = np_kernels_scratch_bytes(1, 1);
    if (np_alloc(&alone.scratch, alone.scratch_bytes, 1, NULL) != NP_OK)
        exit(2);
    here.m = mm.m < 64 ? mm.m : 64;
    here.a = b->host_a;
    here.b = b->host_b;
    here.c = b->host_c;
    np_kernels_best()->matmul(&alone, &here);
    free(alone.scratch);
    size_t bytes = here.m * here.n * sizeof(float);
    must(cudaMemcpy(b->host_found, b->c, bytes, cudaMemcpyDeviceToHost), "copy");
    if (memcmp(b->host_c, b->host_found, bytes) != 0) {
        fprintf(stderr, "bench_gpu: error: %s: other bits than a processor's\n", name);
        exit(1);
    }
}

static void compare(struct bench *b, struct shape s, const char *t)
{
    struct np_matmul mm = product(s, t);
    double gflop = 2e-9 * (double)s.m * (double)s.n * (double)s.k;
    char name[80];
    mm.a = b->a;
    mm.b = b->b;
    mm.c = b->c;
    snprintf(name, sizeof name, "matmul %s %zux%zux%zu", t, s.m, s.n, s.k);
    double their = gflop / median_ms(b, [&] { theirs(b, &mm); }) * 1e3;
    double our = gflop / median_ms(b, [&] { np_kernels_cuda.matmul(&b->team.team, &mm); }) * 1e3;
    bench_row(name, our, "GFLOP/s", our / their, "cuBLAS fp32");
    bench_row(name, our, "GFLOP/s", our / b->peak, "the peak");
    check(b, mm, name);
}

template <class Call>
static void moved(struct bench *b, const char *name, double floats, const Call &call)
{
    double speed = floats * sizeof(float) / median_ms(b, call) * 1e-6;
    bench_row(name, speed, "GB/s", speed / b->bandwidth, "a copy's");
}

static void move_memory(struct bench *b)
{
    const struct np_kernels *k = &np_kernels_cuda;
    struct np_team *team = &b->team.team;
    size_t rows = ROWS - 64;             /* so that C has room behind them for */
    float *row = b->c + MOST - 4 * ROWS; /* statistics */
    moved(b, "add", 3 * (double)MOST,
          [&] { k->add(team, NP_ACT_NONE, b->c, NULL, b->a, b->b, MOST); });
    moved(b, "act gelu", 2 * (double)MOST, [&] { k->act(team, NP_ACT_GELU, b->c, b->a, MOST); });
    moved(b, "layernorm", 2 * (double)(rows * COLS), [&] {
        k->layernorm(team, b->c, row, row + ROWS, b->a, b->b, b->b + COLS, rows, COLS, 1e-5f);
    });
    moved(b, "layernorm, gradients of weights", 2 * (double)(rows * COLS), [&] {
        k->layernorm_grad_weight(team, b->c, b->c + COLS, b->a, b->b, row, row + ROWS, rows, COLS,
                                 128, false);
    });
    moved(b, "column sums", (double)MOST,
          [&] { k->col_sum(team, b->c, b->a, 1, ROWS, COLS, 0, NP_SUM_NEW); });
    moved(b, "transpose", 2 * (double)MOST, [&] { k->transpose(team, b->c, b->a, ROWS, COLS); });
}

static void fill(struct bench *b)
{
    size_t bytes = (size_t)MOST * sizeof(float);
    for (size_t i = 0; i < MOST; i++) {
        b->host_a[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
        b->host_b[i] = (float)(i * 104729 % 1013) / 1013 - 0.5f;
    }
    must(cudaMemcpy(b->a, b->host_a, bytes, cudaMemcpyHostToDevice), "copy");
    must(cudaMemcpy(b->b, b->host_b, bytes, cudaMemcpyHostToDevice), "copy");
}

static void open_bench(struct bench *b)
{
    size_t bytes = (size_t)MOST * sizeof(float);
    float **here[] = {&b->host_a, &b->host_b, &b->host_c, &b->host_found};
    float **there[] = {&b->a, &b->b, &b->c};
    for (float **p : there)
        must(cudaMalloc(reinterpret_cast<void **>(p), bytes), "memory");
    for (float **p : here)
        must(cudaMallocHost(reinterpret_cast<void **>(p), bytes), "memory");
    must(cudaMalloc(&b->team.team.scratch, SCRATCH), "memory");
    must(cudaMalloc(reinterpret_cast<void **>(&b->team.verdict), sizeof(uint32_t)), "memory");
    must(cudaStreamCreate(&b->team.stream), "stream");
    must(cudaEventCreate(&b->begin), "event");
    must(cudaEventCreate(&b->end), "event");
    b->team.team.size = 1;
    b->team.team.scratch_bytes = SCRATCH;
    if (cublasCreate(&b->cublas) != CUBLAS_STATUS_SUCCESS ||
        cublasSetStream(b->cublas, b->team.stream) != CUBLAS_STATUS_SUCCESS) {
        fprintf(stderr, "bench_gpu: error: cuBLAS cannot start\n");
        exit(2);
    }
}

int main(void)
{
    static struct bench b;
    open_bench(&b);
    fill(&b);
    find_limits(&b);
    for (const struct shape &s : shapes)
        for (const char *t : transposes)
            compare(&b, s, t);
    move_memory(&b);
    must(cudaGetLastError(), "a launch");
    return 0;
}
