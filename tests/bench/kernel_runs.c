#include "kernel_runs.h"

#include <math.h>

static struct np_team team = {.size = 1};

static void run_bias_add(const struct np_kernels *k, struct bench_data *d)
{
    k->bias_add(&team, d->a[1], d->a[0], d->vector[0], d->rows, BENCH_COLS);
}

#define RUN_ACT(name, number)                                                                      \
    static void run_act_##name(const struct np_kernels *k, struct bench_data *d)                   \
    {                                                                                              \
        k->act(&team, number, d->a[1], d->a[0], d->rows *BENCH_COLS);                              \
    }                                                                                              \
    static void run_act_grad_##name(const struct np_kernels *k, struct bench_data *d)              \
    {                                                                                              \
        k->act_grad(&team, number, d->a[2], NULL, d->a[0], d->a[1], d->rows *BENCH_COLS);          \
    }

RUN_ACT(relu, NP_ACT_RELU)
RUN_ACT(gelu, NP_ACT_GELU)
RUN_ACT(swish, NP_ACT_SWISH)
RUN_ACT(hswish, NP_ACT_HSWISH)
RUN_ACT(sigmoid, NP_ACT_SIGMOID)

static void run_glu(const struct np_kernels *k, struct bench_data *d)
{
    k->bias_glu(&team, d->a[1], d->a[0], d->vector[0], d->rows, BENCH_COLS);
}

static void run_glu_grad(const struct np_kernels *k, struct bench_data *d)
{
    k->glu_grad(&team, d->a[2], d->a[0], d->a[1], d->rows, BENCH_COLS);
}

static void run_add(const struct np_kernels *k, struct bench_data *d)
{
    k->add(&team, NP_ACT_NONE, d->a[2], NULL, d->a[0], d->a[1], d->rows * BENCH_COLS);
}

static void run_add_relu(const struct np_kernels *k, struct bench_data *d)
{
    k->add(&team, NP_ACT_RELU, d->a[2], d->a[3], d->a[0], d->a[1], d->rows * BENCH_COLS);
}

static void run_finite(const struct np_kernels *k, struct bench_data *d)
{
    k->finite(&team, d->a[0], d->rows * BENCH_COLS);
}

static void run_fill(const struct np_kernels *k, struct bench_data *d)
{
    k->fill(&team, d->a[1], d->rows * BENCH_COLS, 0.0f);
}

static void run_transpose(const struct np_kernels *k, struct bench_data *d)
{
    k->transpose(&team, d->a[1], d->a[0], d->rows, BENCH_COLS);
}

static void run_dropout(const struct np_kernels *k, struct bench_data *d)
{
    struct np_draw_key key = {{1, 2}};
    k->dropout(&team, d->a[1], d->a[0], d->rows * BENCH_COLS, key, 0, 0, 1u << 29, 1.25f);
}

static void run_normal(const struct np_kernels *k, struct bench_data *d)
{
    struct np_draw_key key = {{1, 2}};
    k->normal(&team, d->a[1], d->rows * BENCH_COLS, key, 0.02f);
}

static void run_layernorm(const struct np_kernels *k, struct bench_data *d)
{
    k->layernorm(&team, d->a[1], d->vector[2], d->vector[3], d->a[0], d->vector[0], d->vector[1],
                 d->rows, BENCH_COLS, 1e-5f);
}

static void run_layernorm_grad(const struct np_kernels *k, struct bench_data *d)
{
    k->layernorm_grad(&team, d->a[3], d->a[2], d->a[0], d->a[1], d->vector[2], d->vector[3],
                      d->vector[0], d->rows, BENCH_COLS);
}

static void run_layernorm_grad_weight(const struct np_kernels *k, struct bench_data *d)
{
    k->layernorm_grad_weight(&team, d->a[2], d->a[3], d->a[0], d->a[1], d->vector[2], d->vector[3],
                             d->rows, BENCH_COLS, 0, false);
}

static void run_rmsnorm(const struct np_kernels *k, struct bench_data *d)
{
    k->layernorm(&team, d->a[1], NULL, d->vector[3], d->a[0], d->vector[0], NULL, d->rows,
                 BENCH_COLS, 1e-5f);
}

static void run_rmsnorm_grad_weight(const struct np_kernels *k, struct bench_data *d)
{
    k->layernorm_grad_weight(&team, d->a[2], NULL, d->a[0], d->a[1], NULL, d->vector[3], d->rows,
                             BENCH_COLS, 0, false);
}

/* Heads of 64 channels, 4 samples. */
static void run_rotate(const struct np_kernels *k, struct bench_data *d)
{
    const struct np_rotation rotation = {.samples = 4,
                                         .length = d->rows / 4,
                                         .cols = BENCH_COLS,
                                         .heads = BENCH_COLS / 64,
                                         .width = 64,
                                         .base = 10000};
    k->rotate(&team, d->a[1], d->a[0], &rotation);
}

static void run_sumsq(const struct np_kernels *k, struct bench_data *d)
{
    k->sumsq(&team, d->vector[2], d->a[0], d->rows * BENCH_COLS, false);
}

static void run_softmax(const struct np_kernels *k, struct bench_data *d)
{
    k->softmax(&team, d->a[1], d->a[0], d->rows, BENCH_COLS);
}

static void run_softmax_grad(const struct np_kernels *k, struct bench_data *d)
{
    k->softmax_grad(&team, d->a[2], d->a[0], d->a[1], d->rows, BENCH_COLS);
}

static void run_embed(const struct np_kernels *k, struct bench_data *d)
{
    k->embed(&team, d->a[1], d->tokens, d->a[2], d->a[3], d->rows / 64, 64, BENCH_COLS);
}

static void run_embed_grad(const struct np_kernels *k, struct bench_data *d)
{
    k->embed_grad(&team, d->a[2], d->a[3], d->tokens, d->a[0], d->rows / 64, 64, BENCH_COLS);
}

static void run_xent(const struct np_kernels *k, struct bench_data *d)
{
    k->xent(&team, d->vector[2], d->a[0], d->tokens, d->rows, BENCH_COLS, 0.1f);
}

static void run_xent_grad(const struct np_kernels *k, struct bench_data *d)
{
    k->xent_grad(&team, d->a[1], d->a[0], d->tokens, d->rows, BENCH_COLS, 0.1f, 0.5f);
}

static void run_update(const struct np_kernels *k, struct bench_data *d, bool adamw, bool moments)
{
    struct np_update u = {
        .w = d->a[0], .m = d->a[1], .v = d->a[2], .g = d->a[3], .count = d->rows * BENCH_COLS};
    uint64_t sum = 0;
    u.m = moments ? u.m : NULL;
    u.limit = INFINITY;
    u.lr = 1e-3f;
    u.beta1 = u.momentum = 0.9f;
    u.beta2 = 0.999f;
    u.eps = 1e-8f;
    u.c1 = u.c2 = 1.0f;
    struct np_layer_update alone = np_update_alone(&u);
    (adamw ? k->adamw : k->sgd)(&team, &alone, &sum);
}

static void run_adamw(const struct np_kernels *k, struct bench_data *d)
{
    run_update(k, d, true, true);
}

static void run_sgd(const struct np_kernels *k, struct bench_data *d)
{
    run_update(k, d, false, false);
}

static void run_momentum(const struct np_kernels *k, struct bench_data *d)
{
    run_update(k, d, false, true);
}

static void run_fingerprint(const struct np_kernels *k, struct bench_data *d)
{
    k->fingerprint(&team, d->a[0], d->rows * BENCH_COLS, 0);
}

/* MUL, ADD, SELECT, LOGIC, SHIFT, IMUL, DIV, ROOT, LOAD, STORE. These contain 9, 3, 0, 2, 1 for
 * np_expf of what is not positive and 9, 4, 1, 3, 1, 0, 1 for np_sigmoidf; 0, 0, 0, 18, 12, 9 for
 * Philox, half of what two vectors take (the first rounds know half of the state; to put words in
 * order takes 4 times LOGIC and SHIFT); 0, 0, 0, 17, 8, 7 for the fingerprint of a vector. */
const struct bench_kernel bench_kernels[] = {
    {"bias_add", run_bias_add, &bench_read_1_write_1, 2, {{0, 1, 0, 0, 0, 0, 0, 0, 2, 1}}},
    {"act relu", run_act_relu, &bench_read_1_write_1, 2, {{0, 2, 0, 1}}},
    {"act gelu", run_act_gelu, &bench_read_1_write_1, 2, {{24, 7, 0, 4, 1, 0, 1}}},
    {"act swish", run_act_swish, &bench_read_1_write_1, 2, {{10, 5, 1, 4, 1, 0, 1}}},
    {"act hswish", run_act_hswish, &bench_read_1_write_1, 2, {{2, 4, 0, 1}}},
    {"act sigmoid", run_act_sigmoid, &bench_read_1_write_1, 2, {{9, 5, 1, 4, 1, 0, 1}}},
    {"act_grad relu", run_act_grad_relu, &bench_read_2_write_1, 3, {{1, 2, 0, 2}}},
    {"act_grad gelu", run_act_grad_gelu, &bench_read_2_write_1, 3, {{26, 8, 1, 5, 1, 0, 2}}},
    {"act_grad swish", run_act_grad_swish, &bench_read_2_write_1, 3, {{12, 5, 2, 4, 1, 0, 2}}},
    {"act_grad hswish", run_act_grad_hswish, &bench_read_2_write_1, 3, {{2, 3, 1, 2}}},
    {"act_grad sigmoid", run_act_grad_sigmoid, &bench_read_2_write_1, 3, {{11, 6, 1, 4, 1, 0, 1}}},
    {"bias_glu", run_glu, &bench_update_2_write_1, 5, {{10, 6, 1, 3, 1, 0, 1, 0, 4, 3}}},
    {"glu_grad", run_glu_grad, &bench_read_3_write_2, 5, {{13, 5, 1, 3, 1, 0, 1}}},
    {"add", run_add, &bench_read_2_write_1, 3, {{0, 2, 0, 1}}},
    {"add relu, kept", run_add_relu, &bench_read_2_write_2, 4, {{0, 3, 0, 1}}},
    {"finite", run_finite, &bench_read, 1, {{0, 1, 0, 1}}},
    {"fill", run_fill, &bench_write, 1, {{0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}},
    {"transpose", run_transpose, &bench_read_1_write_1, 2, {{0, 0, 0, 1, 2, 0, 0, 0, 2, 1}}},
    {"dropout", run_dropout, &bench_read_1_write_1, 2, {{1, 0, 0, 21, 12, 9}}},
    {"normal", run_normal, &bench_write, 1, {{15.5, 6, 0, 25, 14, 9, 0, 0.5}}},
    {"layernorm", run_layernorm, &bench_read_1_write_1, 2, {{3, 3, 0, 0, 0, 0, 0, 0, 5, 1}}},
    {"layernorm_grad",
     run_layernorm_grad,
     &bench_read_3_write_1,
     4,
     {{5, 5, 0, 1, 0, 0, 0, 0, 5, 3}}},
    {"layernorm_grad_weight", run_layernorm_grad_weight, &bench_read_2, 2, {{2, 2}}},
    {"rmsnorm", run_rmsnorm, &bench_read_1_write_1, 2, {{3, 0, 0, 0, 0, 0, 0, 0, 3, 1}}},
    {"rmsnorm_grad_weight", run_rmsnorm_grad_weight, &bench_read_2, 2, {{2}}},
    {"rotate", run_rotate, &bench_read_1_write_1, 2, {{2, 0, 0, 0, 0, 0, 0, 0, 2, 1}}},
    {"sumsq", run_sumsq, &bench_read, 1, {{1}}},
    {"softmax", run_softmax, &bench_read_1_write_1, 2, {{9, 7, 0, 3, 1, 0, 1, 0, 3, 2}}},
    {"softmax_grad", run_softmax_grad, &bench_read_2_write_1, 3, {{2, 1, 0, 0, 0, 0, 0, 0, 4, 1}}},
    {"embed", run_embed, &bench_read_2_write_1, 3, {{0, 1, 0, 0, 0, 0, 0, 0, 2, 1}}},
    {"embed_grad", run_embed_grad, &bench_read, 3, {{0, 2, 0, 0, 0, 0, 0, 0, 3, 2}}},
    {"xent", run_xent, &bench_read, 1, {{9, 7, 0, 2, 1, 0, 0, 0, 2}}},
    {"xent_grad", run_xent_grad, &bench_read_1_write_1, 2, {{10, 8, 0, 3, 1, 0, 1, 0, 3, 2}}},
    {"adamw", run_adamw, &bench_update_3, 7, {{10, 10, 0, 62, 24, 21, 1, 1}}},
    {"sgd", run_sgd, &bench_update_1, 3, {{3, 6, 0, 23, 8, 7}}},
    {"sgd momentum", run_momentum, &bench_update_2, 5, {{4, 7, 0, 42, 16, 14}}},
    {"fingerprint", run_fingerprint, &bench_read, 1, {{0, 0, 0, 17, 8, 7}}},
};

const size_t bench_kernel_count = sizeof bench_kernels / sizeof *bench_kernels;
