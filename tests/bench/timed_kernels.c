/* The kernels as training finds them: linked into np-train in the place of np_kernels_best, whose
 * table's larger kernels are timed call by call, by shape. In a benchmark of one kernel operands
 * lie close by; in training some were last used a whole pass ago. Prints rows (row.h) to stderr as
 * the program ends: GFLOP/s of useful operations, or GB/s with each array counted once, of all
 * threads; and in the name which part it is of the time of all that are timed. The first
 * $NP_BENCH_SKIP calls do not count.
 *
 * One stage is timed, by its first thread: a call takes until that thread returns from it, which
 * need not be when all have. `tests/bench/in_training` runs it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "num/kernels.h"
#include "row.h"

#define MOST 4096
#define LEAST_PART 0.002 /* of the time, that is printed */

const struct np_kernels *__real_np_kernels_best(void);
const struct np_kernels *__wrap_np_kernels_best(void);

struct entry {
    char name[96];
    double seconds, flops, bytes; /* of all calls; flops 0: told in bytes */
};

static struct entry entries[MOST];
static size_t count;
static long skip;
static const struct np_kernels *real;

static int slower_first(const void *a, const void *b)
{
    double x = ((const struct entry *)a)->seconds, y = ((const struct entry *)b)->seconds;
    return (x < y) - (x > y);
}

static void print_entries(void)
{
    double all = 0;
    qsort(entries, count, sizeof *entries, slower_first);
    for (size_t i = 0; i < count; i++)
        all += entries[i].seconds;
    for (size_t i = 0; i < count && entries[i].seconds >= LEAST_PART * all; i++) {
        const struct entry *e = &entries[i];
        fprintf(stderr, "%s, %.1f %% of the time\t%.1f\t%s\t\t\n", e->name, 100 * e->seconds / all,
                (e->flops > 0 ? e->flops : e->bytes) / e->seconds * 1e-9,
                e->flops > 0 ? "GFLOP/s" : "GB/s");
    }
    fprintf(stderr, "all kernels that are timed\t%.1f\tms\t\t\n", all * 1e3);
}

/* A call that took so long; the rest is the name. */
__attribute__((format(printf, 5, 6))) static void add_call(const struct np_team *team,
                                                           double seconds, double flops,
                                                           double floats, const char *format, ...)
{
    char name[sizeof entries->name];
    va_list args;
    size_t i = 0;
    if (team->rank != 0 || skip-- > 0)
        return;
    skip = 0;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    while (i < count && strcmp(entries[i].name, name) != 0)
        i++;
    if (i == MOST)
        return;
    if (i == count)
        strcpy(entries[count++].name, name);
    entries[i].seconds += seconds;
    entries[i].flops += flops;
    entries[i].bytes += 4 * floats;
}

static bool matmul(struct np_team *team, const struct np_matmul *m)
{
    double start = np_now_s(), size = (double)m->m * (double)m->n * (double)m->k;
    bool finite = real->matmul(team, m);
    add_call(team, np_now_s() - start, 2 * size, 0, "matmul %zux%zux%zu, %s", m->m, m->n, m->k,
             m->a_trans   ? "weight"
             : m->b_trans ? "input"
                          : "forward");
    return finite;
}

/* Taps that are inside, of all outputs along one dimension. */
static double taps_inside(size_t out, size_t in, int taps, int stride, int dilation, int pad)
{
    double inside = 0;
    for (int o = 0; o < (int)out; o++)
        for (int k = 0; k < taps; k++) {
            int at = o * stride + k * dilation - pad;
            inside += at >= 0 && at < (int)in;
        }
    return inside;
}

static void add_conv(const struct np_team *team, double start, const char *name,
                     const struct np_conv *v)
{
    const struct np_window *w = &v->window;
    double seconds = np_now_s() - start;
    double taps = taps_inside(v->out_height, v->in_height, w->kernel_height, w->stride_height,
                              w->dilation, w->pad_top) *
                  taps_inside(v->out_width, v->in_width, w->kernel_width, w->stride_width,
                              w->dilation, w->pad_left);
    add_call(team, seconds,
             2 * (double)v->samples * taps * (double)v->out_channels *
                 ((double)v->in_channels / (double)v->groups),
             0, "%s %zux%zux%zu to %zu, groups %zu, %dx%d/%d", name, v->in_height, v->in_width,
             v->in_channels, v->out_channels, v->groups, w->kernel_height, w->kernel_width,
             w->stride_height);
}

#define TIMED_CONV(kernel)                                                                         \
    static bool kernel(struct np_team *team, const struct np_conv *v)                              \
    {                                                                                              \
        double start = np_now_s();                                                                 \
        bool finite = real->kernel(team, v);                                                       \
        add_conv(team, start, #kernel, v);                                                         \
        return finite;                                                                             \
    }
TIMED_CONV(conv)
TIMED_CONV(conv_grad)
TIMED_CONV(conv_grad_weight)
TIMED_CONV(dwconv)
TIMED_CONV(dwconv_grad)
TIMED_CONV(dwconv_grad_weight)

/* So many arrays are read or written. */
static void add_norm(const struct np_team *team, double start, const char *name, double arrays,
                     size_t rows, size_t cols)
{
    add_call(team, np_now_s() - start, 0, arrays * (double)rows * (double)cols, "%s %zux%zu", name,
             rows, cols);
}

static void col_sum(struct np_team *team, float *out, const float *x, size_t segments, size_t rows,
                    size_t cols, size_t grain, enum np_sum how)
{
    double start = np_now_s();
    real->col_sum(team, out, x, segments, rows, cols, grain, how);
    add_norm(team, start, "col_sum", 1, segments * rows, cols);
}

static void col_square(struct np_team *team, float *out, const float *x, const float *mean,
                       size_t segments, size_t rows, size_t cols, enum np_sum how)
{
    double start = np_now_s();
    real->col_square(team, out, x, mean, segments, rows, cols, how);
    add_norm(team, start, "col_square", 1, segments * rows, cols);
}

static bool colnorm(struct np_team *team, float *y, const struct np_colnorm *p)
{
    double start = np_now_s(), arrays = 2 + (p->residual != NULL) + (p->kept != NULL);
    bool finite = real->colnorm(team, y, p);
    add_norm(team, start, "colnorm", arrays, p->segments * p->rows, p->cols);
    return finite;
}

static void colnorm_grad_sums(struct np_team *team, float *sum, float *dot,
                              const struct np_colnorm *p, const float *dy, enum np_sum how)
{
    double start = np_now_s();
    real->colnorm_grad_sums(team, sum, dot, p, dy, how);
    add_norm(team, start, "colnorm_grad_sums", 2, p->segments * p->rows, p->cols);
}

static bool colnorm_grad(struct np_team *team, float *dx, const float *base,
                         const struct np_colnorm *p, const float *dy, const float *a,
                         const float *b)
{
    double start = np_now_s();
    bool finite = real->colnorm_grad(team, dx, base, p, dy, a, b);
    add_norm(team, start, "colnorm_grad", 3 + (base != NULL), p->segments * p->rows, p->cols);
    return finite;
}

static void merge(struct np_team *team, float *y, const float *a, const float *b, size_t rows,
                  size_t na, size_t nb, size_t lda, size_t ldb, bool interleave)
{
    double start = np_now_s();
    real->merge(team, y, a, b, rows, na, nb, lda, ldb, interleave);
    add_norm(team, start, b ? "merge" : "widen", 2, rows, b ? na + nb : na + nb / 2);
}

static bool split(struct np_team *team, float *a, float *b, const float *base_a,
                  const float *base_b, const float *y, size_t rows, size_t na, size_t nb,
                  size_t lda, size_t ldb, bool interleave)
{
    size_t floats = (a ? na * (base_a ? 3 : 2) : 0) + (b ? nb * (base_b ? 3 : 2) : 0);
    double start = np_now_s();
    bool finite = real->split(team, a, b, base_a, base_b, y, rows, na, nb, lda, ldb, interleave);
    add_call(team, np_now_s() - start, 0, (double)rows * (double)floats, "split %zux%zu", rows,
             na + nb);
    return finite;
}

static void layernorm(struct np_team *team, float *y, float *mean, float *rstd, const float *x,
                      const float *gamma, const float *beta, size_t rows, size_t cols, float eps)
{
    double start = np_now_s();
    real->layernorm(team, y, mean, rstd, x, gamma, beta, rows, cols, eps);
    add_norm(team, start, "layernorm", 2, rows, cols);
}

const struct np_kernels *__wrap_np_kernels_best(void)
{
    static struct np_kernels table;
    const char *first = getenv("NP_BENCH_SKIP");
    if (real)
        return &table;
    atexit(print_entries);
    skip = first ? atol(first) : 0;
    real = __real_np_kernels_best();
    table = *real;
    table.matmul = matmul;
    table.conv = conv;
    table.conv_grad = conv_grad;
    table.conv_grad_weight = conv_grad_weight;
    table.dwconv = dwconv;
    table.dwconv_grad = dwconv_grad;
    table.dwconv_grad_weight = dwconv_grad_weight;
    table.col_sum = col_sum;
    table.col_square = col_square;
    table.colnorm = colnorm;
    table.colnorm_grad_sums = colnorm_grad_sums;
    table.colnorm_grad = colnorm_grad;
    table.merge = merge;
    table.split = split;
    table.layernorm = layernorm;
    return &table;
}
