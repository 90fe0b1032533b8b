/* Convolutions, forward and back: ours beside oneDNN's in the layout that it likes best, and beside
 * OpenBLAS on a matrix product of the same size; interleaved in one run, median of several; rows as
 * in row.h.
 *
 *   bench_conv [THREADS [ISA [SAMPLES [WORD]]]]    convolutions whose name holds the word
 */
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "row.h"
#include "timing.h"

enum { RUNS = 7 };
enum kind { FORWARD, GRAD, GRAD_WEIGHT, KINDS };
static const char *const kinds[] = {"forward", "input", "weight"};

void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
void openblas_set_num_threads(int count);
char *openblas_get_corename(void);
void omp_set_num_threads(int count);

struct shape {
    size_t size, in, out; /* of images */
    int kernel, stride, pad;
    size_t groups;
};

static const struct shape shapes[] = {
    {32, 3, 16, 3, 1, 1, 1},     {32, 16, 16, 3, 1, 1, 1},   {32, 16, 32, 3, 2, 1, 1},
    {16, 32, 32, 3, 1, 1, 1},    {16, 32, 64, 3, 2, 1, 1},   {8, 64, 64, 3, 1, 1, 1},
    {32, 64, 64, 3, 1, 1, 1},    {16, 128, 128, 3, 1, 1, 1}, {8, 256, 256, 3, 1, 1, 1},
    {16, 128, 256, 3, 2, 1, 1},  {32, 24, 24, 1, 1, 0, 1},   {16, 58, 58, 1, 1, 0, 1},
    {8, 116, 116, 1, 1, 0, 1},   {4, 232, 232, 1, 1, 0, 1},  {16, 24, 144, 1, 1, 0, 1},
    {16, 144, 24, 1, 1, 0, 1},   {8, 64, 384, 1, 1, 0, 1},   {8, 384, 64, 1, 1, 0, 1},
    {32, 64, 128, 1, 2, 0, 1},   {64, 3, 64, 7, 2, 3, 1},    {16, 128, 128, 3, 1, 1, 4},
    {16, 128, 128, 3, 1, 1, 32},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void check(dnnl_status_t status)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "bench_conv: error: oneDNN: status %d\n", (int)status);
    exit(2);
}

/* A oneDNN primitive with memory in its own layout, on pages like ours. */
struct peer {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[3];
    float *data[3];
    dnnl_exec_arg_t args[3];
};

static const dnnl_query_t query[KINDS][3] = {
    {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
    {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
    {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}};
static const int argument[KINDS][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                       {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                       {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};

static dnnl_primitive_desc_t describe(dnnl_engine_t engine, const struct np_conv *v, enum kind kind)
{
    dnnl_memory_desc_t x, w, y;
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t forward, backward;
    dnnl_dim_t n = (dnnl_dim_t)v->samples, g = (dnnl_dim_t)v->groups;
    dnnl_dim_t in = (dnnl_dim_t)v->in_channels, out = (dnnl_dim_t)v->out_channels;
    dnnl_dim_t k = v->window.kernel_height, s = v->window.stride_height, p = v->window.pad_top;
    dnnl_dim_t size = (dnnl_dim_t)v->in_height, to = (dnnl_dim_t)v->out_height;
    dnnl_dim_t after = (to - 1) * s + k - size - p;
    dnnl_dims_t strides = {s, s}, before = {p, p}, behind = {after, after};
    dnnl_dims_t dims_x = {n, in, size, size}, dims_y = {n, out, to, to};
    dnnl_dims_t dims_w = {g, out / g, in / g, k, k}, dense = {out, in, k, k};
    check(dnnl_memory_desc_init_by_tag(&x, 4, dims_x, dnnl_f32, dnnl_format_tag_any));
    check(dnnl_memory_desc_init_by_tag(&y, 4, dims_y, dnnl_f32, dnnl_format_tag_any));
    check(dnnl_memory_desc_init_by_tag(&w, g > 1 ? 5 : 4, g > 1 ? dims_w : dense, dnnl_f32,
                                       dnnl_format_tag_any));
    check(dnnl_convolution_forward_desc_init(&desc, dnnl_forward_training, dnnl_convolution_direct,
                                             &x, &w, NULL, &y, strides, before, behind));
    check(dnnl_primitive_desc_create(&forward, &desc, NULL, engine, NULL));
    if (kind == FORWARD)
        return forward;
    if (kind == GRAD)
        check(dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, &x, &w, &y,
                                                       strides, before, behind));
    else
        check(dnnl_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, &x, &w,
                                                          NULL, &y, strides, before, behind));
    check(dnnl_primitive_desc_create(&backward, &desc, NULL, engine, forward));
    check(dnnl_primitive_desc_destroy(forward));
    return backward;
}

static void peer_init(struct peer *p, const struct np_conv *v, enum kind kind)
{
    check(dnnl_engine_create(&p->engine, dnnl_cpu, 0));
    check(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags));
    dnnl_primitive_desc_t desc = describe(p->engine, v, kind);
    check(dnnl_primitive_create(&p->primitive, desc));
    for (int i = 0; i < 3; i++) {
        const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(desc, query[kind][i], 0);
        size_t floats = dnnl_memory_desc_get_size(md) / sizeof(float);
        check(np_alloc(&p->data[i], floats, sizeof(float), NULL) ? dnnl_out_of_memory
                                                                 : dnnl_success);
        check(dnnl_memory_create(&p->memory[i], md, p->engine, p->data[i]));
        for (size_t f = 0; f < floats; f++)
            p->data[i][f] = (float)(f * 7919 % 1009) / 1009 - 0.5F;
        p->args[i] = (dnnl_exec_arg_t){argument[kind][i], p->memory[i]};
    }
    check(dnnl_primitive_desc_destroy(desc));
}

static void peer_run(void *arg)
{
    const struct peer *p = arg;
    check(dnnl_primitive_execute(p->primitive, p->stream, 3, p->args));
    check(dnnl_stream_wait(p->stream));
}

static void peer_clear(struct peer *p)
{
    for (int i = 0; i < 3; i++) {
        check(dnnl_memory_destroy(p->memory[i]));
        free(p->data[i]);
    }
    check(dnnl_primitive_destroy(p->primitive));
    check(dnnl_stream_destroy(p->stream));
    check(dnnl_engine_destroy(p->engine));
}

struct bench {
    int threads;
    enum np_isa isa;
    struct bench_team *team;
    float *tensor[3]; /* as large as any operand of the products */
    const char *word;
};

struct work {
    struct np_conv v;
    bool (*conv)(struct np_team *, const struct np_conv *);
    const struct bench *bench;
    enum kind kind;
    int m, n, k; /* of the product that the convolution is: [m][k] [k][n] */
};

static void run_part(struct np_team *team, void *arg)
{
    const struct work *work = arg;
    work->conv(team, &work->v);
}

static void run_ours(void *arg)
{
    struct work *work = arg;
    bench_team_run(work->bench->team, run_part, work);
}

static void run_blas(void *arg)
{
    const struct work *work = arg;
    float *x = work->bench->tensor[0], *y = work->bench->tensor[1], *z = work->bench->tensor[2];
    enum kind kind = work->kind;
    int m = work->m, n = work->n, k = work->k;
    if (kind == FORWARD)
        cblas_sgemm(101, 111, 111, m, n, k, 1, x, k, y, n, 0, z, n);
    else if (kind == GRAD)
        cblas_sgemm(101, 111, 112, m, k, n, 1, x, n, y, n, 0, z, k);
    else
        cblas_sgemm(101, 112, 111, k, n, m, 1, x, k, y, n, 0, z, n);
}

static struct np_conv conv_of(const struct shape *s, size_t samples)
{
    struct np_conv v = {.samples = samples, .in_height = s->size, .in_width = s->size};
    v.in_channels = v.ldx = s->in;
    v.out_channels = v.ldy = s->out;
    v.groups = s->groups;
    v.window = (struct np_window){s->kernel, s->kernel, s->stride, s->stride, 1, s->pad, s->pad};
    v.out_height = v.out_width =
        (s->size + 2 * (size_t)s->pad - (size_t)s->kernel) / (size_t)s->stride + 1;
    return v;
}

struct ratios {
    double onednn[KINDS * COUNT(shapes)], openblas[KINDS * COUNT(shapes)];
    size_t count;
};

static void write_name(char *name, size_t size, const struct bench *b, const struct shape *s,
                       enum kind kind)
{
    char groups[32] = "";
    if (s->groups > 1)
        snprintf(groups, sizeof groups, ", groups %zu", s->groups);
    snprintf(name, size, "conv %dx%d/%d %zux%zux%zu to %zu%s, %s, %s, threads %d", s->kernel,
             s->kernel, s->stride, s->size, s->size, s->in, s->out, groups, kinds[kind],
             np_isa_name(b->isa), b->threads);
}

/* Prints a convolution's rows. */
static void compare(struct ratios *ratios, const struct bench *b, const struct shape *s,
                    size_t samples, enum kind kind)
{
    const struct np_kernels *kernels = np_kernels_get(b->isa);
    struct work work = {.v = conv_of(s, samples), .bench = b, .kind = kind};
    struct np_conv *v = &work.v;
    struct peer peer;
    char name[120];
    double speed[4][RUNS];
    size_t m = v->samples * v->out_height * v->out_width;
    size_t k = (size_t)(s->kernel * s->kernel) * s->in / s->groups;
    double gflop = 2e-9 * (double)m * (double)k * (double)s->out;
    int repeat = 1 + (int)(2.0 / gflop);
    work.m = (int)m;
    work.n = (int)(s->out / s->groups);
    work.k = (int)k;
    write_name(name, sizeof name, b, s, kind);
    if (!strstr(name, b->word))
        return;
    peer_init(&peer, v, kind);
    v->x = b->tensor[0];
    v->w = b->tensor[1];
    v->dy = kind == GRAD ? b->tensor[0] : b->tensor[1];
    v->out = b->tensor[2];
    work.conv = kind == FORWARD ? kernels->conv
                : kind == GRAD  ? kernels->conv_grad
                                : kernels->conv_grad_weight;
    for (int run = -1; run < RUNS; run++) {
        double our_s = bench_call(b->threads, repeat, run_ours, &work);
        double their_s = bench_call(b->threads, repeat, peer_run, &peer);
        double blas_s = bench_call(b->threads, repeat, run_blas, &work);
        if (run < 0)
            continue; /* the first run fills the caches */
        speed[0][run] = gflop / our_s;
        speed[1][run] = gflop / their_s;
        speed[2][run] = gflop / (double)s->groups / blas_s;
        speed[3][run] = bench_peak(b->isa) * b->threads;
    }
    double our = bench_median(speed[0], RUNS), their = bench_median(speed[1], RUNS);
    double product = bench_median(speed[2], RUNS), peak = bench_median(speed[3], RUNS);
    bench_row(name, our, "GFLOP/s", our / their, "oneDNN");
    bench_row(name, our, "GFLOP/s", our / product, "OpenBLAS' product");
    if (peak > 0)
        bench_row(name, our, "GFLOP/s", our / peak, "the peak");
    ratios->onednn[ratios->count] = our / their;
    ratios->openblas[ratios->count++] = our / product;
    peer_clear(&peer);
}

int main(int argc, char **argv)
{
    struct bench b = {.threads = argc > 1 ? atoi(argv[1]) : 1,
                      .isa = bench_isa(argc > 2 ? argv[2] : NULL),
                      .word = argc > 4 ? argv[4] : ""};
    struct ratios ratios = {.count = 0};
    size_t samples = argc > 3 ? (size_t)atoi(argv[3]) : 64, floats = samples * 64 * 64 * 160;
    bench_calm_peers(argv, openblas_get_corename());
    if (b.isa == NP_ISA_COUNT || !(b.team = bench_team_new(b.threads))) {
        fprintf(stderr, "bench_conv: error: this machine cannot\n");
        return 2;
    }
    for (int i = 0; i < 3; i++) {
        if (np_alloc(&b.tensor[i], floats, sizeof(float), NULL))
            return 2;
        for (size_t f = 0; f < floats; f++)
            b.tensor[i][f] = (float)(f * 7919 % 1009) / 1009 - 0.5F;
    }
    openblas_set_num_threads(b.threads);
    omp_set_num_threads(b.threads);
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (int kind = 0; kind < KINDS; kind++)
            compare(&ratios, &b, &shapes[s], samples, (enum kind)kind);
    if (ratios.count == 0) {
        fprintf(stderr, "bench_conv: error: no convolution has '%s' in its name\n", b.word);
        return 2;
    }
    bench_row("conv, median of the ratios", (double)ratios.count, "products",
              bench_median(ratios.onednn, ratios.count), "oneDNN");
    bench_row("conv, median of the ratios", (double)ratios.count, "products",
              bench_median(ratios.openblas, ratios.count), "OpenBLAS' product");
    for (int i = 0; i < 3; i++)
        free(b.tensor[i]);
    bench_team_free(b.team);
    return 0;
}
