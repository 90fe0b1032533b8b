/* Matrix products: ours beside OpenBLAS and beside a loop of register-only fused multiply-adds,
 * interleaved in one run, median of several; rows as in row.h.
 *
 *   bench_matmul [THREADS [ISA]]
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "row.h"
#include "timing.h"

enum { RUNS = 9 };

void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
void openblas_set_num_threads(int count);
char *openblas_get_corename(void);

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

struct bench {
    int threads;
    enum np_isa isa;
    struct bench_team *team;
};

struct operands {
    float *a, *b, *c;
};

static struct np_matmul product_of(struct operands x, struct shape s, const char *t)
{
    struct np_matmul mm = {.m = s.m, .n = s.n, .k = s.k, .a = x.a, .b = x.b, .c = x.c, .ldc = s.n};
    mm.a_trans = t[0] == 't';
    mm.b_trans = t[1] == 't';
    mm.lda = mm.a_trans ? s.m : s.k;
    mm.ldb = mm.b_trans ? s.k : s.n;
    return mm;
}

struct work {
    const struct np_kernels *kernels;
    struct bench_team *team;
    struct np_matmul mm;
};

static void part(struct np_team *team, void *arg)
{
    const struct work *work = arg;
    work->kernels->matmul(team, &work->mm);
}

static void ours(void *arg)
{
    struct work *work = arg;
    bench_team_run(work->team, part, work);
}

static void theirs(void *arg)
{
    const struct np_matmul *mm = &((const struct work *)arg)->mm;
    cblas_sgemm(101, mm->a_trans ? 112 : 111, mm->b_trans ? 112 : 111, (int)mm->m, (int)mm->n,
                (int)mm->k, 1, mm->a, (int)mm->lda, mm->b, (int)mm->ldb, 0, mm->c, (int)mm->ldc);
}

/* Prints a product's rows, returns our speed as a part of theirs. */
static double compare(const struct bench *b, struct operands x, struct shape s, const char *t)
{
    struct work work = {np_kernels_get(b->isa), b->team, product_of(x, s, t)};
    double speed[3][RUNS], gflop = 2e-9 * (double)s.m * (double)s.n * (double)s.k;
    int repeat = 1 + (int)(0.5 / gflop / 10);
    char name[80];
    for (int run = -1; run < RUNS; run++) {
        double our_s = bench_call(b->threads, repeat, ours, &work);
        double their_s = bench_call(b->threads, repeat, theirs, &work);
        if (run < 0)
            continue; /* the first run fills the caches */
        speed[0][run] = gflop / our_s;
        speed[1][run] = gflop / their_s;
        speed[2][run] = bench_peak(b->isa) * b->threads;
    }
    double our = bench_median(speed[0], RUNS), their = bench_median(speed[1], RUNS);
    double peak = bench_median(speed[2], RUNS);
    snprintf(name, sizeof name, "matmul %s %zux%zux%zu, %s, threads %d", t, s.m, s.n, s.k,
             np_isa_name(b->isa), b->threads);
    bench_row(name, our, "GFLOP/s", our / their, "OpenBLAS");
    if (peak > 0)
        bench_row(name, our, "GFLOP/s", our / peak, "the peak");
    return our / their;
}

int main(int argc, char **argv)
{
    struct bench b = {.threads = argc > 1 ? atoi(argv[1]) : 1,
                      .isa = bench_isa(argc > 2 ? argv[2] : NULL)};
    size_t count = (size_t)2048 * 2048, ratios = 0;
    struct operands x;
    double ratio[TRANSPOSES * SHAPES];
    bench_calm_peers(argv, openblas_get_corename());
    if (b.isa == NP_ISA_COUNT || !(b.team = bench_team_new(b.threads))) {
        fprintf(stderr, "bench_matmul: error: this machine cannot\n");
        return 2;
    }
    if (np_alloc(&x.a, count, sizeof(float), NULL) || np_alloc(&x.b, count, sizeof(float), NULL) ||
        np_alloc(&x.c, count, sizeof(float), NULL))
        return 2;
    for (size_t i = 0; i < count; i++) {
        x.a[i] = (float)(i * 7919 % 1009) / 1009 - 0.5F;
        x.b[i] = (float)(i * 104729 % 1013) / 1013 - 0.5F;
        x.c[i] = 0;
    }
    openblas_set_num_threads(b.threads);
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t t = 0; t < TRANSPOSES; t++) {
            double r = compare(&b, x, shapes[s], transposes[t]);
            if (s + SMALL < SHAPES)
                ratio[ratios++] = r;
        }
    bench_row("matmul, median of the ratios but of small ones", (double)ratios, "products",
              bench_median(ratio, ratios), "OpenBLAS");
    free(x.a);
    free(x.b);
    free(x.c);
    bench_team_free(b.team);
    return 0;
}
