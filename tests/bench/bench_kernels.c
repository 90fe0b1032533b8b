/* Speed of every kernel that is neither a product nor of images, on one core, for each instruction
 * set but scalar: `bench_kernels [NAME...]`, all of them without a name; rows as in row.h.
 *
 * GB/s count each array once for each time it must be read or written. In the cache: 64 x 1024
 * floats an array; in memory: 8192 x 1024. The ratio is the part of the limit that binds: either
 * the bandwidth of a plain loop of the same size which reads and writes as many arrays, or the
 * arithmetic (timing.h), all measured in the same run. Best of several runs, by turns.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "kernel_runs.h"
#include "row.h"

#define CACHE_ROWS 64
#define ARRAY ((size_t)BENCH_MOST_ROWS * 2 * BENCH_COLS + 304) /* at different places in a page */

static struct bench_data data;

static void set(size_t rows)
{
    data.rows = rows;
    for (size_t k = 0; k < BENCH_ARRAYS; k++)
        for (size_t i = 0; i < 2 * rows * BENCH_COLS; i++)
            data.a[k][i] = (float)(i * (k + 7) % 1009) / 1009.0f;
}

/* Least seconds of a kernel and of its roof. */
struct least {
    double kernel, roof;
};

static double sooner(double best, double begin)
{
    double took = bench_seconds(1) - begin;
    return took > 0 && took < best ? took : best; /* clocks of guests may stand still */
}

static struct least least(const struct bench_kernel *b, const struct np_kernels *k)
{
    struct least l = {INFINITY, INFINITY};
    double begin = bench_seconds(1), at;
    for (int run = 0; run < 3 || (bench_seconds(1) - begin < 0.1 && run < 1000); run++) {
        at = bench_seconds(1);
        b->run(k, &data);
        l.kernel = sooner(l.kernel, at);
        at = bench_seconds(1);
        b->roof->run(&data);
        l.roof = sooner(l.roof, at);
    }
    return l;
}

static void print_bench(const struct bench_kernel *b, const struct np_kernels *k,
                        const struct bench_units *units, size_t rows)
{
    size_t floats = rows * BENCH_COLS;
    char name[80];
    set(rows);
    struct least l = least(b, k);
    double arithmetic = bench_work_seconds(units, &b->work, floats);
    double bytes = l.roof * b->arrays / b->roof->arrays;
    snprintf(name, sizeof name, "%s, %s, in %s", b->name, k->name,
             rows == CACHE_ROWS ? "the cache" : "memory");
    bench_row(name, 1e-9 * b->arrays * (double)(floats * sizeof(float)) / l.kernel, "GB/s",
              fmax(arithmetic, bytes) / l.kernel,
              arithmetic > bytes ? "the arithmetic" : "the bandwidth");
}

static bool wanted(const char *name, int argc, char **argv)
{
    bool found = argc < 2;
    for (int i = 1; i < argc; i++)
        found = found || strcmp(argv[i], name) == 0;
    return found;
}

static void print_benches(const struct np_kernels *k, enum np_isa isa, int argc, char **argv)
{
    struct bench_units units = bench_units(isa);
    printf("# %s: ns for %d products, quotients, roots: %.3f, %.3f, %.3f\n", k->name, units.floats,
           1e9 * units.mul, 1e9 * units.div, 1e9 * units.root);
    for (size_t b = 0; b < bench_kernel_count; b++) {
        if (!wanted(bench_kernels[b].name, argc, argv))
            continue;
        print_bench(&bench_kernels[b], k, &units, CACHE_ROWS);
        print_bench(&bench_kernels[b], k, &units, BENCH_MOST_ROWS);
    }
}

int main(int argc, char **argv)
{
    float *slab;
    if (np_alloc(&slab, BENCH_ARRAYS * ARRAY, sizeof *slab, NULL) != NP_OK) {
        fprintf(stderr, "bench_kernels: error: out of memory\n");
        return 2;
    }
    for (size_t k = 0; k < BENCH_ARRAYS; k++)
        data.a[k] = slab + k * ARRAY;
    for (size_t r = 0; r < BENCH_MOST_ROWS; r++)
        data.tokens[r] = (int32_t)(r * 389 % 256);
    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < 2 * BENCH_MOST_ROWS; i++)
            data.vector[k][i] = 0.5f + (float)(i % 7);
    for (int isa = NP_ISA_AVX2; isa < NP_ISA_COUNT; isa++)
        if (np_kernels_get((enum np_isa)isa))
            print_benches(np_kernels_get((enum np_isa)isa), (enum np_isa)isa, argc, argv);
    free(slab);
    return 0;
}
