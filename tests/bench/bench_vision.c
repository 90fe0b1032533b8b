/* Bandwidth of the kernels of vision models for each instruction set, on one core, over images of
 * the usual shapes: `make bench-vision`. An argument keeps the kernels whose name begins with it.
 *
 * GB/s count each array once for each time it must be read or written. `cache`: about 32768 floats
 * an array; `memory`: about 4 million. After each stands its part of the limit that binds: the
 * bandwidth of a plain loop of the input's size which reads and writes as many arrays, or the
 * arithmetic (units.h), to which taps outside the image add none, both measured in this run. Best
 * of several runs, by turns (least.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "least.h"
#include "row.h"
#include "vision_runs.h"

#define FLOATS (6u << 20)
#define CACHE_FLOATS (1u << 15)
#define MEMORY_FLOATS (4u << 20)
#define MOST_ROWS 2048
#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct vision_data data;

/* A row of the table. */
struct row {
    size_t kernel, shape, floats;
    enum np_isa isa;
    struct bench_least least;
};

/* An even size with zeros around, or, size < 0, a causal sequence. */
static void set_conv(struct vision_case *b)
{
    int size = abs(b->s.size), height = b->s.size < 0 ? 1 : size, k = b->s.kernel, s = b->s.stride;
    struct np_conv *v = &b->conv;
    *v = (struct np_conv){.x = data.a[0],
                          .dy = data.a[1],
                          .w = data.weights,
                          .out = data.a[2],
                          .samples = b->samples};
    v->window = (struct np_window){height == 1 ? 1 : k, k, s, s, 1, height == 1 ? 0 : k / 2, 0};
    v->window.pad_left = height == 1 ? k - 1 : k / 2;
    v->in_height = (size_t)height;
    v->in_width = (size_t)size;
    v->out_height = (size_t)((height - 1) / s + 1);
    v->out_width = (size_t)((size - 1) / s + 1);
    v->in_channels = v->out_channels = v->groups = v->ldx = v->ldy = (size_t)b->s.channels;
}

static void set(struct vision_case *b, struct vision_shape s, enum vision_kind kind, size_t floats)
{
    size_t positions = (size_t)(s.size < 0 ? -s.size : s.size * s.size), cols = (size_t)s.channels;
    b->s = s;
    b->samples = floats / (positions * cols) + 1;
    b->rows = b->samples * positions;
    if (kind == CONVS || kind == POOLS)
        set_conv(b);
    b->norm = (struct np_colnorm){.segments = s.stride == 2 ? b->samples : 1, .cols = cols};
    b->norm.rows = b->rows / b->norm.segments;
    b->norm.x = data.a[0];
    b->norm.mean = data.columns[0];
    b->norm.rstd = data.columns[1];
    b->norm.gamma = data.columns[2];
    b->norm.beta = data.columns[3];
    b->norm.act = (enum np_act)s.kernel;
}

/* Taps of all outputs that are inside the image, along one dimension. */
static double taps_inside(size_t out, size_t in, int stride, int taps, int pad)
{
    size_t count = 0;
    for (int o = 0; o < (int)out; o++)
        for (int k = 0; k < taps; k++)
            count += o * stride + k >= pad && o * stride + k - pad < (int)in;
    return (double)count;
}

/* Taps inside the image for an output position. */
static double taps_of(const struct np_conv *v)
{
    const struct np_window *w = &v->window;
    double high =
        taps_inside(v->out_height, v->in_height, w->stride_height, w->kernel_height, w->pad_top);
    double wide =
        taps_inside(v->out_width, v->in_width, w->stride_width, w->kernel_width, w->pad_left);
    return high * wide / (double)(v->out_height * v->out_width);
}

/* Floats of y, and what each vector of them takes. */
static double floats_out(const struct row *r, const struct vision_case *b)
{
    size_t positions = b->rows;
    if (vision_kernels[r->kernel].kind < NORMS)
        positions = b->samples * b->conv.out_height * b->conv.out_width;
    return (double)positions * b->s.channels;
}

static double arithmetic_seconds(const struct row *r, const struct vision_case *b,
                                 const struct bench_units *units)
{
    struct bench_work work = vision_kernels[r->kernel].each;
    const struct bench_work *act = vision_kernels[r->kernel].act;
    double taps = vision_kernels[r->kernel].kind < NORMS ? taps_of(&b->conv) : 0;
    for (int c = 0; c < BENCH_CLASSES; c++) {
        work.n[c] += taps * vision_kernels[r->kernel].tap.n[c];
        work.n[c] += act ? act[b->norm.act].n[c] : 0;
    }
    return bench_work_seconds(units, &work, floats_out(r, b));
}

static struct vision_case bench_of(const struct row *r)
{
    enum vision_kind kind = vision_kernels[r->kernel].kind;
    struct vision_case b = {.k = np_kernels_get(r->isa), .d = &data};
    set(&b, vision_sets[kind].list[r->shape], kind, r->floats);
    return b;
}

static void visit(struct row *r)
{
    const struct vision_case b = bench_of(r);
    const struct bench_roof *roof = vision_kernels[r->kernel].roof;
    vision_prepare(&vision_kernels[r->kernel], &b);
    BENCH_VISIT(&r->least, vision_kernels[r->kernel].run(&b),
                roof->run(data.a, b.rows * (size_t)b.s.channels));
}

/* GB/s and the part of the limit. */
static void print_row(const struct row *r, const struct bench_units *units)
{
    const struct vision_case b = bench_of(r);
    double x = (double)b.rows * b.s.channels, y = floats_out(r, &b), bytes, roof, work;
    char name[80];
    bytes = 4 * (x * vision_kernels[r->kernel].in + y * vision_kernels[r->kernel].out);
    roof = bytes * r->least.roof / (4 * x * vision_kernels[r->kernel].roof->arrays);
    work = arithmetic_seconds(r, &b, units);
    snprintf(name, sizeof name, "%s %dx%d %d/%d, %s, in %s", vision_kernels[r->kernel].name,
             abs(b.s.size), b.s.channels, b.s.kernel, b.s.stride, b.k->name,
             r->floats == CACHE_FLOATS ? "the cache" : "memory");
    bench_row(name, bytes / r->least.kernel * 1e-9, "GB/s", fmax(work, roof) / r->least.kernel,
              work > roof ? "the arithmetic" : "the bandwidth");
}

/* Those whose names begin with prefix; returns how many. */
static size_t list_rows(struct row rows[MOST_ROWS], const char *prefix)
{
    static const size_t floats[] = {CACHE_FLOATS, MEMORY_FLOATS};
    size_t count = 0;
    for (size_t i = 0; i < vision_kernel_count; i++)
        for (size_t j = 0; j < vision_sets[vision_kernels[i].kind].count; j++)
            for (int isa = NP_ISA_AVX2; isa < NP_ISA_COUNT; isa++)
                for (size_t f = 0; f < COUNT(floats) && count < MOST_ROWS; f++)
                    if (strncmp(vision_kernels[i].name, prefix, strlen(prefix)) == 0 &&
                        np_kernels_get((enum np_isa)isa))
                        rows[count++] =
                            (struct row){i, j, floats[f], (enum np_isa)isa, {INFINITY, INFINITY}};
    return count;
}

static bool fill_arrays(void)
{
    bool ok = np_alloc(&data.which, FLOATS, sizeof *data.which, NULL) == NP_OK;
    for (size_t k = 0; k < VISION_ARRAYS; k++) {
        ok = ok && np_alloc(&data.a[k], FLOATS, sizeof(float), NULL) == NP_OK;
        for (size_t i = 0; ok && i < FLOATS; i++)
            data.a[k][i] = (float)(i * (k + 7) % 1009) / 1009.0f - 0.5f;
    }
    for (size_t i = 0; i < COUNT(data.weights); i++)
        data.weights[i] = 0.5f - (float)(i % 7) / 7.0f;
    for (size_t k = 0; k < COUNT(data.columns); k++)
        for (size_t i = 0; i < COUNT(data.columns[k]); i++)
            data.columns[k][i] = 0.5f + (float)(i % 7) / 7.0f;
    return ok;
}

int main(int argc, char **argv)
{
    static struct row rows[MOST_ROWS];
    struct bench_units units[NP_ISA_COUNT];
    const char *prefix = argc > 1 ? argv[1] : "";
    size_t count = list_rows(rows, prefix);
    if (count == 0) {
        fprintf(stderr, "bench_vision: no kernel's name begins with '%s'\n", prefix);
        return 2;
    }
    if (!fill_arrays())
        return 2;
    for (int turn = 0; turn < BENCH_VISITS; turn++)
        for (size_t i = 0; i < count; i++)
            visit(&rows[i]);
    for (int isa = NP_ISA_AVX2; isa < NP_ISA_COUNT; isa++)
        if (np_kernels_get((enum np_isa)isa))
            units[isa] = bench_units((enum np_isa)isa);
    for (size_t i = 0; i < count; i++)
        print_row(&rows[i], &units[rows[i].isa]);
    for (size_t k = 0; k < VISION_ARRAYS; k++)
        free(data.a[k]);
    free(data.which);
    return 0;
}
