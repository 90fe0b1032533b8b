/* Matrix products of one thread: ours beside OpenBLAS and beside a loop of register-only fused
 * multiply-adds, interleaved in one run, median of several. stdout is a table (tab-separated). */
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "num/backend.h"

enum { RUNS = 9, PEAK_STEPS = 250000 };

void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
void openblas_set_num_threads(int count);

struct shape {
    size_t m, n, k;
};

static const struct shape shapes[] = {
    {2048, 512, 512}, {2048, 1024, 512},  {2048, 512, 2048}, {512, 512, 2048},
    {4096, 256, 256}, {1024, 1024, 1024}, {128, 128, 128},   {64, 64, 64},
};
static const char *const transposes[] = {"nn", "nt", "tn"};

enum {
    SHAPES = sizeof shapes / sizeof shapes[0],
    TRANSPOSES = 3,
    SMALL = 2 /* the last shapes stay out of the median */
};

struct isa {
    const char *name;
    void (*matmul)(struct np_team *, const struct np_matmul *);
    double (*peak)(void);
};

/* Processor time of this thread: other programs do not count. */
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* GFLOP/s of fourteen chains of multiply-adds that never leave the registers. */
__attribute__((target("avx512f"))) static double peak_avx512(void)
{
    __m512 x = _mm512_set1_ps(0.5F), acc[14];
#pragma GCC unroll 16
    for (int i = 0; i < 14; i++)
        acc[i] = _mm512_set1_ps((float)(i + 2));
    double begin = seconds();
    for (int step = 0; step < PEAK_STEPS; step++) {
#pragma GCC unroll 112
        for (int i = 0; i < 14 * 8; i++)
            acc[i % 14] = _mm512_fmadd_ps(x, acc[i % 14], x);
    }
    for (int i = 1; i < 14; i++)
        acc[0] = _mm512_add_ps(acc[0], acc[i]);
    __asm__ volatile("" ::"v"(acc[0]));
    return 2.0 * 16 * 14 * 8 * PEAK_STEPS / (seconds() - begin) * 1e-9;
}

__attribute__((target("avx2,fma"))) static double peak_avx2(void)
{
    __m256 x = _mm256_set1_ps(0.5F), acc[14];
#pragma GCC unroll 16
    for (int i = 0; i < 14; i++)
        acc[i] = _mm256_set1_ps((float)(i + 2));
    double begin = seconds();
    for (int step = 0; step < PEAK_STEPS; step++) {
#pragma GCC unroll 112
        for (int i = 0; i < 14 * 8; i++)
            acc[i % 14] = _mm256_fmadd_ps(x, acc[i % 14], x);
    }
    for (int i = 1; i < 14; i++)
        acc[0] = _mm256_add_ps(acc[0], acc[i]);
    __asm__ volatile("" ::"x"(acc[0]));
    return 2.0 * 8 * 14 * 8 * PEAK_STEPS / (seconds() - begin) * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

struct operands {
    float *a, *b, *c;
};

static void ours(const struct isa *isa, struct np_team *team, struct operands x, struct shape s,
                 const char *t)
{
    struct np_matmul mm = {.m = s.m, .n = s.n, .k = s.k, .a = x.a, .b = x.b, .c = x.c, .ldc = s.n};
    mm.a_trans = t[0] == 't';
    mm.b_trans = t[1] == 't';
    mm.lda = mm.a_trans ? s.m : s.k;
    mm.ldb = mm.b_trans ? s.k : s.n;
    isa->matmul(team, &mm);
}

static void theirs(struct operands x, struct shape s, const char *t)
{
    bool a_trans = t[0] == 't', b_trans = t[1] == 't';
    int m = (int)s.m, n = (int)s.n, k = (int)s.k;
    cblas_sgemm(101, a_trans ? 112 : 111, b_trans ? 112 : 111, m, n, k, 1, x.a, a_trans ? m : k,
                x.b, b_trans ? k : n, 0, x.c, n);
}

/* Prints one line, returns our speed as a part of theirs. */
static double compare(const struct isa *isa, struct np_team *team, struct operands x,
                      struct shape s, const char *t)
{
    double speed[3][RUNS], work = 2e-9 * (double)s.m * (double)s.n * (double)s.k;
    int repeat = 1 + (int)(0.5 / work / 10);
    for (int run = -1; run < RUNS; run++) {
        double begin = seconds(), middle, end;
        for (int i = 0; i < repeat; i++)
            ours(isa, team, x, s, t);
        middle = seconds();
        for (int i = 0; i < repeat; i++)
            theirs(x, s, t);
        end = seconds();
        if (run < 0)
            continue; /* the first run fills the caches */
        speed[0][run] = work * repeat / (middle - begin);
        speed[1][run] = work * repeat / (end - middle);
        speed[2][run] = isa->peak();
    }
    double our = median(speed[0], RUNS), their = median(speed[1], RUNS);
    double peak = median(speed[2], RUNS);
    printf("%zu\t%zu\t%zu\t%s\t%.1f\t%.1f\t%.1f\t%.3f\t%.3f\n", s.m, s.n, s.k, t, our, their, peak,
           our / their, our / peak);
    return our / their;
}

static const struct isa *find_isa(const char *name)
{
    static const struct isa isas[] = {{"avx512", np_matmul_avx512, peak_avx512},
                                      {"avx2", np_matmul_avx2, peak_avx2}};
    bool wide = __builtin_cpu_supports("avx512f");
    if (!name)
        return wide ? &isas[0] : &isas[1];
    if (strcmp(name, "avx512") == 0 && wide)
        return &isas[0];
    return strcmp(name, "avx2") == 0 ? &isas[1] : NULL;
}

int main(int argc, char **argv)
{
    const struct isa *isa = find_isa(argc > 1 ? argv[1] : NULL);
    struct np_team team = {.size = 1, .scratch_bytes = np_kernels_scratch_bytes(0, 0)};
    size_t count = (size_t)2048 * 2048;
    struct operands x;
    double ratio[TRANSPOSES * SHAPES];
    size_t ratios = 0;
    if (!isa) {
        fprintf(stderr, "bench_matmul: this machine has no '%s'\n", argv[1]);
        return 2;
    }
    if (np_alloc(&x.a, count, sizeof(float), NULL) || np_alloc(&x.b, count, sizeof(float), NULL) ||
        np_alloc(&x.c, count, sizeof(float), NULL) ||
        np_alloc(&team.scratch, team.scratch_bytes, 1, NULL))
        return 2;
    for (size_t i = 0; i < count; i++) {
        x.a[i] = (float)(i * 7919 % 1009) / 1009 - 0.5F;
        x.b[i] = (float)(i * 104729 % 1013) / 1013 - 0.5F;
        x.c[i] = 0;
    }
    openblas_set_num_threads(1);
    printf("# %s, one thread, GFLOP/s\nm\tn\tk\top\tours\topenblas\tpeak\tof_openblas\tof_peak\n",
           isa->name);
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t t = 0; t < TRANSPOSES; t++) {
            double r = compare(isa, &team, x, shapes[s], transposes[t]);
            if (s + SMALL < SHAPES)
                ratio[ratios++] = r;
            fflush(stdout);
        }
    printf("# median of_openblas without the small shapes: %.3f\n", median(ratio, ratios));
    free(x.a);
    free(x.b);
    free(x.c);
    free(team.scratch);
    return 0;
}
