#include "timing.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"

#define CHAIN_STEPS 250000
#define MAX_THREADS 64

double bench_seconds(int threads)
{
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Names the core whose code to run where OpenBLAS runs less than the processor can: as it does not
 * know that one, or as the environment, made for the same bits everywhere, says so. */
static void name_core(const char *core)
{
#if defined(__x86_64__)
    bool none = strcasecmp(core, "Prescott") == 0;
    bool avx2 = strcasecmp(core, "Haswell") == 0 || strcasecmp(core, "Zen") == 0;
    if ((none || avx2) && __builtin_cpu_supports("avx512vl"))
        setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
    else if (none && __builtin_cpu_supports("avx2"))
        setenv("OPENBLAS_CORETYPE", "Haswell", 1);
#else
    (void)core;
#endif
}

void bench_calm_peers(char **argv, const char *openblas_core)
{
    if (getenv("OPENBLAS_THREAD_TIMEOUT"))
        return;
    name_core(openblas_core);
    setenv("OPENBLAS_THREAD_TIMEOUT", "20", 1); /* 2^20 cycles */
    setenv("GOMP_SPINCOUNT", "10000", 1);
    execv("/proc/self/exe", argv);
}

#define WAKE_S 0.03 /* a system may wake two on one processor, and part them later */

double bench_call(int threads, int repeat, void (*function)(void *), void *arg)
{
    const struct timespec pause = {0, 20000000};
    if (threads > 1) {
        nanosleep(&pause, NULL);
        double begin = bench_seconds(threads);
        do
            function(arg);
        while (bench_seconds(threads) - begin < WAKE_S);
    }
    double begin = bench_seconds(threads);
    for (int i = 0; i < repeat; i++)
        function(arg);
    return (bench_seconds(threads) - begin) / repeat;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

#define CHAINS 14 /* independent ones, eight links each a step */

/* Seconds of a link. */
#define CHAIN(name, isa, vector, set1, add, constraint, link)                                      \
    __attribute__((target(isa))) static double name(void)                                          \
    {                                                                                              \
        vector x = set1(0.7F), acc[CHAINS];                                                        \
        _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) acc[i] = set1((float)(i + 2));   \
        __asm__ volatile("" : "+" constraint(x)); /* not a constant */                             \
        double begin = bench_seconds(1);                                                           \
        for (int step = 0; step < CHAIN_STEPS; step++) {                                           \
            _Pragma("GCC unroll 112") for (int i = 0; i < CHAINS * 8; i++) acc[i % CHAINS] =       \
                link(acc[i % CHAINS], x);                                                          \
        }                                                                                          \
        for (int i = 1; i < CHAINS; i++)                                                           \
            acc[0] = add(acc[0], acc[i]);                                                          \
        __asm__ volatile("" ::constraint(acc[0]));                                                 \
        return (bench_seconds(1) - begin) / (CHAINS * 8.0 * CHAIN_STEPS);                          \
    }

#if defined(__x86_64__)
#include <immintrin.h>

#define FMA16(acc, x) _mm512_fmadd_ps(x, acc, x)
#define FMA8(acc, x) _mm256_fmadd_ps(x, acc, x)

CHAIN(fma_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_add_ps, "v", FMA16)
CHAIN(fma_avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_add_ps, "x", FMA8)
#endif

enum np_isa bench_isa(const char *name)
{
    int isa = 0;
    name = name ? name : np_kernels_best()->name;
    while (isa < NP_ISA_COUNT && strcmp(np_isa_name((enum np_isa)isa), name) != 0)
        isa++;
    return isa < NP_ISA_COUNT && np_kernels_get((enum np_isa)isa) ? (enum np_isa)isa : NP_ISA_COUNT;
}

double bench_peak(enum np_isa isa)
{
#if defined(__x86_64__)
    if (isa == NP_ISA_AVX512)
        return 32e-9 / fma_avx512();
    if (isa == NP_ISA_AVX2)
        return 16e-9 / fma_avx2();
#endif
    return 0;
}

struct member {
    struct np_team team;
    struct bench_team *owner;
    pthread_t thread;
};

struct bench_team {
    struct member members[MAX_THREADS];
    int threads;
    char *scratch;
    struct np_barrier *barrier;
    void (*function)(struct np_team *, void *);
    void *arg;
};

static void *serve(void *arg)
{
    struct member *m = arg;
    for (;;) {
        np_team_wait(&m->team);
        if (!m->owner->function)
            return NULL;
        m->owner->function(&m->team, m->owner->arg);
        np_team_wait(&m->team);
    }
}

struct bench_team *bench_team_new(int threads)
{
    struct bench_team *t = calloc(1, sizeof *t);
    size_t bytes = np_kernels_scratch_bytes(0, 0);
    if (!t || threads < 1 || threads > MAX_THREADS ||
        (threads > 1 && np_barrier_new(&t->barrier, threads, NULL))) {
        free(t);
        return NULL;
    }
    t->threads = threads;
    if (np_alloc(&t->scratch, (size_t)threads, bytes, NULL))
        abort();
    for (int i = 0; i < threads; i++) {
        struct member *m = &t->members[i];
        m->owner = t;
        m->team = (struct np_team){.rank = i, .size = threads, .barrier = t->barrier};
        m->team.scratch_bytes = bytes;
        m->team.scratch = t->scratch + (size_t)i * bytes;
    }
    for (int i = 1; i < threads; i++)
        if (pthread_create(&t->members[i].thread, NULL, serve, &t->members[i]))
            abort();
    return t;
}

void bench_team_run(struct bench_team *t, void (*function)(struct np_team *, void *), void *arg)
{
    t->function = function;
    t->arg = arg;
    np_team_wait(&t->members[0].team);
    function(&t->members[0].team, arg);
    np_team_wait(&t->members[0].team);
}

void bench_team_free(struct bench_team *t)
{
    if (!t)
        return;
    t->function = NULL;
    np_team_wait(&t->members[0].team);
    for (int i = 1; i < t->threads; i++)
        pthread_join(t->members[i].thread, NULL);
    free(t->scratch);
    np_barrier_free(t->barrier);
    free(t);
}
