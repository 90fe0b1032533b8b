/* Speed of every kernel that is neither a product nor of images, on one core, for each instruction
 * set but scalar: `bench_kernels [NAME...]`, all of them without a name; rows as in row.h.
 *
 * GB/s count each array once for each time it must be read or written. In the cache: 64 x 1024
 * floats an array; in memory: 8192 x 1024. The ratio is the part of the limit that binds: either
 * the bandwidth of a plain loop of the same size which reads and writes as many arrays, or the
 * arithmetic (units.h), all measured in the same run. Best of several runs, by turns (least.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "kernel_runs.h"
#include "least.h"
#include "row.h"

#define CACHE_ROWS 64
#define ARRAY ((size_t)BENCH_MOST_ROWS * 2 * BENCH_COLS + 304) /* at different places in a page */
#define PERIOD 1009
#define MOST 64 /* kernels */

static struct bench_data data;
static struct bench_least all[MOST][2][NP_ISA_COUNT];

static void set(size_t rows)
{
    static float pattern[PERIOD];
    size_t count = 2 * rows * BENCH_COLS;
    data.rows = rows;
    for (size_t k = 0; k < BENCH_ARRAYS; k++) {
        for (size_t i = 0; i < PERIOD; i++)
            pattern[i] = (float)(i * (k + 7) % PERIOD) / PERIOD;
        for (size_t i = 0; i < count; i += PERIOD)
            memcpy(data.a[k] + i, pattern,
                   (count - i < PERIOD ? count - i : PERIOD) * sizeof *pattern);
    }
}

static void print_row(const struct bench_kernel *b, const struct np_kernels *k,
                      const struct bench_units *units, const struct bench_least *l, size_t rows)
{
    size_t floats = rows * BENCH_COLS;
    char name[80];
    double arithmetic = bench_work_seconds(units, &b->work, (double)floats);
    double bytes = l->roof * b->arrays / b->roof->arrays;
    snprintf(name, sizeof name, "%s, %s, in %s", b->name, k->name,
             rows == CACHE_ROWS ? "the cache" : "memory");
    bench_row(name, 1e-9 * b->arrays * (double)(floats * sizeof(float)) / l->kernel, "GB/s",
              fmax(arithmetic, bytes) / l->kernel,
              arithmetic > bytes ? "the arithmetic" : "the bandwidth");
}

static bool wanted(const char *name, int argc, char **argv)
{
    bool found = argc < 2;
    for (int i = 1; i < argc; i++)
        found = found || strcmp(argv[i], name) == 0;
    return found;
}

static void visit(const struct bench_kernel *b, size_t rows, struct bench_least least[NP_ISA_COUNT])
{
    set(rows);
    for (int isa = NP_ISA_AVX2; isa < NP_ISA_COUNT; isa++) {
        const struct np_kernels *k = np_kernels_get((enum np_isa)isa);
        if (k)
            BENCH_VISIT(&least[isa], b->run(k, &data), b->roof->run(data.a, rows * BENCH_COLS));
    }
}

static void print_rows(enum np_isa isa, int argc, char **argv)
{
    const struct np_kernels *k = np_kernels_get(isa);
    struct bench_units units = bench_units(isa);
    printf("# %s: ns for %d products, quotients, roots: %.3f, %.3f, %.3f\n", k->name, units.floats,
           1e9 * units.both[MUL][MUL], 1e9 * units.both[DIV][DIV], 1e9 * units.both[ROOT][ROOT]);
    for (size_t b = 0; b < bench_kernel_count; b++) {
        if (!wanted(bench_kernels[b].name, argc, argv))
            continue;
        print_row(&bench_kernels[b], k, &units, &all[b][0][isa], CACHE_ROWS);
        print_row(&bench_kernels[b], k, &units, &all[b][1][isa], BENCH_MOST_ROWS);
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
    for (size_t i = 0; i < sizeof all / sizeof(struct bench_least); i++)
        (&all[0][0][0])[i] = (struct bench_least){INFINITY, INFINITY};
    for (int turn = 0; turn < BENCH_VISITS; turn++)
        for (size_t b = 0; b < bench_kernel_count && b < MOST; b++)
            if (wanted(bench_kernels[b].name, argc, argv)) {
                visit(&bench_kernels[b], CACHE_ROWS, all[b][0]);
                visit(&bench_kernels[b], BENCH_MOST_ROWS, all[b][1]);
            }
    for (int isa = NP_ISA_AVX2; isa < NP_ISA_COUNT; isa++)
        if (np_kernels_get((enum np_isa)isa))
            print_rows((enum np_isa)isa, argc, argv);
    free(slab);
    return 0;
}
